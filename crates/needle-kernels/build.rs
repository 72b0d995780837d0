//! With the feature `emulator`, compiles the emulator and the kernel texts for the host; without it, does nothing.

#[cfg(feature = "emulator")]
#[path = "src/text.rs"]
#[allow(dead_code, unreachable_pub, missing_docs)]
mod text;

#[cfg(not(feature = "emulator"))]
fn main() {}

#[cfg(feature = "emulator")]
fn main() -> std::io::Result<()> {
    use std::{env, fs, path::PathBuf};

    println!("cargo:rerun-if-changed=kernels");
    println!("cargo:rerun-if-changed=emulator");
    println!("cargo:rerun-if-changed=src/text.rs");
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());

    // All texts in one unit, each part once, in the order in which the modules name them.
    let mut files: Vec<&str> = Vec::new();
    for part in text::Module::ALL.iter().flat_map(|module| module.parts()) {
        if !files.contains(&part.file) {
            files.push(part.file);
        }
    }
    let mut unit = String::from("#include \"emulator/prelude.h\"\n");
    for file in files {
        unit.push_str(&format!("#include \"kernels/{file}\"\n"));
    }
    unit.push_str("#include \"emulator/wrong.h\"\n");
    let source = out.join("kernels.cpp");
    fs::write(&source, unit)?;
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .opt_level(1)
        .debug(false)
        .warnings(true)
        .extra_warnings(true)
        .flag("-Wno-unused-parameter")
        .include(&here)
        .file(source)
        .file(here.join("emulator/machine.cpp"))
        // The kernels register themselves before main: nothing names them, so the linker must be told to keep them.
        .link_lib_modifier("+whole-archive")
        .compile("needle_emulator");
    Ok(())
}
