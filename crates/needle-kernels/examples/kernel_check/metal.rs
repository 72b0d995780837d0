//! The Metal texts through clang's C++-for-OpenCL front end, whose rules on address spaces, doubles, shared memory and
//! recursion are Metal's. What it cannot see: Metal's own library (the stand-in declares what we use) and code generation.

use std::{fs, path::Path, process::Command};

use needle_kernels::Module;

use crate::Outcome;

/// Porting mistakes, planted one by one: what it is, where, what stands there, what takes its place.
const MISTAKES: &[(&str, Module, &str, &str)] = &[
    (
        "a threadgroup pointer taken for a device one",
        Module::RmsNorm,
        "NK_SPTR(float) red, nk_u32 tid, nk_u32 simds",
        "NK_GPTR(float) red, nk_u32 tid, nk_u32 simds",
    ),
    (
        "parameters by a plain reference",
        Module::Hadamard,
        "NK_CONST(HadamardParams) p",
        "HadamardParams & p",
    ),
    ("a double literal", Module::Lanes, "-1.0e30f", "-1.0e30"),
    (
        "a double variable",
        Module::Packed,
        "float ss = 0.0f;",
        "double ss = 0.0;",
    ),
    (
        "a write to an input",
        Module::RmsNorm,
        "y[base + i] = S::from((1.0f",
        "x[base + i] = S::from((1.0f",
    ),
    (
        "shared memory in a helper",
        Module::Attention,
        "    v = nk_simd_sum(v);",
        "    v = nk_simd_sum(v); NK_SHARED(float, oops, 4); oops[0] = v;",
    ),
    (
        "an array by a plain reference",
        Module::Block,
        "NK_REG float (&v)",
        "float (&v)",
    ),
    (
        "a bare pointer",
        Module::RmsNorm,
        "    const nk_u32 base = row * p.d;",
        "    const nk_u32 base = row * p.d; const float* q = s; (void)q;",
    ),
    (
        "a CUDA function",
        Module::Rope,
        "NK_SQRT(square_sum",
        "sqrtf(square_sum",
    ),
    (
        "a CUDA index",
        Module::Embed,
        "NK_TID, NK_BID_X);",
        "threadIdx.x, NK_BID_X);",
    ),
    (
        "a missing argument",
        Module::Engram,
        "p, NK_TID, NK_BID_X);",
        "p, NK_TID);",
    ),
    (
        "a pointer to wider words",
        Module::Packed,
        "NK_IN(nk_u16, norms, 2)",
        "NK_IN(nk_u32, norms, 2)",
    ),
    (
        "a shuffle of two values",
        Module::Attention,
        "NK_SIMD_XOR(peak, m)",
        "NK_SIMD_XOR(peak, m, 32)",
    ),
];

pub(crate) fn check(clang: &str) -> Outcome {
    let folder = std::env::temp_dir().join(format!("needle-metal-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let outcome = check_in(clang, &folder);
    fs::remove_dir_all(&folder)?;
    outcome
}

fn check_in(clang: &str, folder: &Path) -> Outcome {
    fs::write(folder.join("metal_stdlib"), include_str!("../../standins/metal_stdlib"))?;
    for module in Module::ALL {
        if let Some(complaint) = complaint(clang, folder, &module.metal())? {
            return Err(format!("{}: {complaint}", module.name()).into());
        }
        println!("{}: accepted", module.name());
    }
    for (what, module, from, to) in MISTAKES {
        let text = module.metal();
        if !text.contains(from) {
            return Err(format!("nothing to break for {what}: no `{from}` in {}", module.name()).into());
        }
        match complaint(clang, folder, &text.replacen(from, to, 1))? {
            Some(complaint) => println!("{what}: refused, {}", complaint.lines().next().unwrap_or_default()),
            None => return Err(format!("{what} was accepted").into()),
        }
    }
    println!(
        "{} modules accepted, {} planted mistakes refused.",
        Module::ALL.len(),
        MISTAKES.len()
    );
    Ok(())
}

/// What the front end says of a text; nothing when it is content.
fn complaint(clang: &str, folder: &Path, text: &str) -> Result<Option<String>, Box<dyn std::error::Error>> {
    // A plain reference needs no address space in OpenCL but does in Metal.
    for (number, line) in (1..).zip(text.lines()) {
        let code = line.split("//").next().unwrap_or_default();
        if code.contains("(&") && !code.contains("NK_REG") {
            return Ok(Some(format!("line {number}: a reference without an address space")));
        }
    }
    let file = folder.join("text.metal");
    fs::write(&file, text)?;
    let output = Command::new(clang)
        .args(["-x", "clcpp", "-cl-std=CLC++2021", "-cl-no-stdinc", "-Xclang"])
        .arg(
            "-cl-ext=-cl_khr_fp64,-__opencl_c_fp64,-__opencl_c_generic_address_space,\
             -__opencl_c_pipes,-__opencl_c_device_enqueue,+cl_khr_fp16",
        )
        .args([
            "-target",
            "spir64",
            "-nostdinc",
            "-fsyntax-only",
            "-Wall",
            "-Wextra",
            "-Werror",
        ])
        .args(["-Wno-unknown-attributes", "-Wno-unused-parameter", "-I"])
        .args([folder, &file])
        .output()
        .map_err(|error| format!("cannot start {clang}: {error}"))?;
    if output.status.success() {
        return Ok(None);
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let said = said.replace(&format!("{}/", folder.display()), "");
    Ok(Some(if said.is_empty() {
        "it failed in silence".into()
    } else {
        said
    }))
}
