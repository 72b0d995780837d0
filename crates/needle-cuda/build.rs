//! With the feature `cuda`, compiles every kernel text to PTX; without it, does nothing.
//!
//! PTX of one capability serves all newer GPUs: their driver compiles it when it is loaded. `NVCC` names the compiler, else
//! the one of `CUDA_HOME` or `CUDA_PATH` is taken, else `nvcc` on the path; candle asks for the same compiler.

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

fn main() -> Result<(), Box<dyn Error>> {
    for name in ["NVCC", "CUDA_HOME", "CUDA_PATH", "CUDA_COMPUTE_CAP"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    println!("cargo:rerun-if-changed=build.rs");
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
        .map_err(|error| format!("cannot start {}: {error}; set NVCC or CUDA_HOME", nvcc.display()))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("{} refused {}: {status}", nvcc.display(), text.display()).into()),
    }
}
