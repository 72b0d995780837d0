//! The list of CUDA functions that needle-cuda finds at run time: every one that cudarc can name has to be in it, or a build
//! without CUDA's libraries does not link.

use std::fs;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::cargo::{cargo, output, root};

const LIST: &str = "crates/needle-cuda/lazy/functions.h";

/// Modules of cudarc that candle turns on, and the list's word for their library.
const MODULES: [(&str, &str); 5] = [
    ("driver", "CUDA"),
    ("cublas", "CUBLAS"),
    ("cublaslt", "CUBLASLT"),
    ("curand", "CURAND"),
    ("nvrtc", "NVRTC"),
];

/// Fails with the entries that are missing.
pub(super) fn run() -> Result<()> {
    let list = fs::read_to_string(root().join(LIST)).with_context(|| format!("cannot read {LIST}"))?;
    let metadata = output(&mut cargo(&["metadata", "--format-version", "1", "--all-features"]))?;
    let metadata: Value = serde_json::from_str(&metadata).context("cargo metadata printed no JSON")?;
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let cudarc = packages.iter().find(|package| package["name"] == "cudarc");
    let manifest = cudarc.and_then(|package| package["manifest_path"].as_str());
    let sources = manifest.map(|manifest| manifest.replace("Cargo.toml", "src"));
    let sources = sources.context("the workspace has no cudarc")?;
    let mut absent = Vec::new();
    for (module, library) in MODULES {
        let file = format!("{sources}/{module}/sys/mod.rs");
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
        absent.extend(missing(&list, &text, library));
    }
    if !absent.is_empty() {
        bail!("{LIST} lacks functions of cudarc: {}", absent.join(" "));
    }
    Ok(())
}

/// Entries for the functions that `text` declares and `list` lacks.
fn missing(list: &str, text: &str, library: &str) -> Vec<String> {
    let declared = text.split("extern \"C\" {").skip(1);
    let names = declared.filter_map(|rest| rest.trim_start().strip_prefix("fn ")?.split('(').next());
    let entries = names.map(|name| format!("{library}({name})"));
    let mut absent: Vec<String> = entries.filter(|entry| !list.contains(entry.as_str())).collect();
    absent.sort();
    absent.dedup();
    absent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_function_is_named() {
        let text = "fn a() { extern \"C\" {\n    fn cuInit(flags: u32) -> CUresult;\n} }\n\
                    type F = unsafe extern \"C\" fn(u32);\nextern \"C\" {\n    fn cuNew(x: u32);\n}";
        assert_eq!(missing("CUDA(cuInit) CUDA(cuOld)", text, "CUDA"), ["CUDA(cuNew)"]);
        assert_eq!(missing("CUBLAS(cuInit) CUDA(cuNew)", text, "CUDA"), ["CUDA(cuInit)"]);
    }
}
