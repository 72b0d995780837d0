//! With the feature `cuda`, compiles every kernel text to PTX and makes the program start without CUDA's libraries; without
//! it, does nothing.
//!
//! PTX of one capability serves all newer GPUs: their driver compiles it when it is loaded. `NVCC` names the compiler, else
//! the one of `CUDA_HOME` or `CUDA_PATH` is taken, else `nvcc` on the path; candle asks for the same compiler.
//!
//! Candle links the CUDA libraries, and a program that needs a library which is not there does not start, so it could not
//! even say what is missing. On x86-64 Linux the program therefore gets the functions of `lazy/`, which open the libraries
//! when they are first called; `NEEDLE_CUDA_LINK=plain` links as candle does.

use std::{
    env,
    error::Error,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use needle_kernels::Module;

/// What the texts are compiled for; `CUDA_COMPUTE_CAP` may ask for an older GPU.
const CAPABILITY: u32 = 80;

/// What candle asks the linker for.
const LINKED: [&str; 6] = ["cuda", "cublas", "cublasLt", "curand", "cudart", "nvrtc"];

fn main() -> Result<(), Box<dyn Error>> {
    for name in ["NVCC", "CUDA_HOME", "CUDA_PATH", "CUDA_COMPUTE_CAP", "NEEDLE_CUDA_LINK"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=lazy");
    println!("cargo:rustc-check-cfg=cfg(lazy)");
    if env::var_os("CARGO_FEATURE_CUDA").is_none() {
        return Ok(());
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("no OUT_DIR")?);
    let nvcc = nvcc();
    let asked = env::var("CUDA_COMPUTE_CAP")
        .ok()
        .and_then(|capability| capability.parse().ok());
    let capability = CAPABILITY.min(asked.unwrap_or(CAPABILITY));
    for module in Module::ALL {
        compile(&nvcc, module, capability, &out)?;
    }
    let version = version(&nvcc)?;
    println!("cargo:rustc-env=NEEDLE_CUDA_VERSION={version}");
    match env::var("NEEDLE_CUDA_LINK").as_deref() {
        Err(_) | Ok("" | "lazy") if can_be_lazy() => link_lazily(&version, &out)?,
        Err(_) | Ok("" | "plain") => {}
        Ok("lazy") => return Err("NEEDLE_CUDA_LINK=lazy works on x86-64 Linux only".into()),
        Ok(other) => return Err(format!("NEEDLE_CUDA_LINK is {other}: expected lazy or plain").into()),
    }
    Ok(())
}

fn nvcc() -> OsString {
    let of = |name: &str| env::var_os(name).map(|home| Path::new(&home).join("bin/nvcc"));
    let found = ["CUDA_HOME", "CUDA_PATH"]
        .into_iter()
        .filter_map(of)
        .find(|nvcc| nvcc.exists());
    env::var_os("NVCC")
        .or(found.map(Into::into))
        .unwrap_or_else(|| "nvcc".into())
}

fn compile(nvcc: &OsString, module: Module, capability: u32, out: &Path) -> Result<(), Box<dyn Error>> {
    let text = out.join(module.name()).with_extension("cu");
    fs::write(&text, module.cuda())?;
    let status = Command::new(nvcc)
        .args(["-std=c++17", "-O3", "-ptx"])
        .arg(format!("-arch=compute_{capability}"))
        .arg("-o")
        .arg(text.with_extension("ptx"))
        .arg(&text)
        .status()
        .map_err(|error| cannot_start(nvcc, &error))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("{} refused {}: {status}", nvcc.display(), text.display()).into()),
    }
}

/// The toolkit's version, such as 13.0.
fn version(nvcc: &OsString) -> Result<String, Box<dyn Error>> {
    let output = Command::new(nvcc)
        .arg("--version")
        .output()
        .map_err(|error| cannot_start(nvcc, &error))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.split_once("release ").and_then(|(_, rest)| rest.split(',').next());
    Ok(version
        .ok_or_else(|| format!("{} --version names no release: {text}", nvcc.display()))?
        .to_owned())
}

fn cannot_start(nvcc: &OsString, error: &std::io::Error) -> String {
    format!("cannot start {}: {error}; set NVCC or CUDA_HOME", nvcc.display())
}

fn can_be_lazy() -> bool {
    let target = |name| env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    target("ARCH") == "x86_64" && target("OS") == "linux"
}

/// Puts the functions of `lazy/` into every program, and empty archives where candle asks for the libraries.
fn link_lazily(version: &str, out: &Path) -> Result<(), Box<dyn Error>> {
    let major = version.split('.').next().unwrap_or_default();
    let older = major.parse::<u32>()? < 12;
    let named = |library: &str, number: &str| format!("\"lib{library}.so.{number}\"");
    cc::Build::new()
        .files(["lazy/lazy.c", "lazy/trampolines.S"])
        .define("NEEDLE_CUBLAS", &*named("cublas", major))
        .define("NEEDLE_CUBLASLT", &*named("cublasLt", major))
        .define("NEEDLE_CURAND", &*named("curand", "10"))
        .define("NEEDLE_CUDART", &*named("cudart", if older { "11.0" } else { major }))
        .define("NEEDLE_NVRTC", &*named("nvrtc", if older { "11.2" } else { major }))
        .warnings(true)
        .extra_warnings(true)
        // Whatever needs these functions comes later on the linker's command line.
        .link_lib_modifier("+whole-archive")
        .try_compile("needle_lazy")?;
    for name in LINKED {
        fs::write(out.join(format!("lib{name}.a")), "!<arch>\n")?;
    }
    println!("cargo:rustc-link-search=native={}", out.display());
    println!("cargo:rustc-cfg=lazy");
    Ok(())
}
