//! Words that must not stand in some part of the tree: one table, one entry a rule.

use super::{Finding, source::Source};

/// Which part of a file a word is looked for in.
enum Layer {
    Code,
    Strings,
    CodeAndStrings,
    Comments,
}

/// Whether lines that only exist in a test build are looked at.
#[derive(PartialEq)]
enum Tests {
    Too,
    Exempt,
}

struct Ban {
    words: &'static [&'static str],
    layer: Layer,
    tests: Tests,
    /// Whether the rule holds in this file.
    within: fn(&str) -> bool,
    why: &'static str,
}

const BANS: &[Ban] = &[
    Ban {
        words: &["#[ignore", ", ignore"],
        layer: Layer::Code,
        tests: Tests::Too,
        within: anywhere,
        why: "a test is run or deleted, never ignored",
    },
    Ban {
        words: &[".unwrap()", ".expect(", "todo!", "unimplemented!", "dbg!", "panic!"],
        layer: Layer::Code,
        tests: Tests::Exempt,
        within: anywhere,
        why: "only tests may panic on purpose; return an error that names what was expected and found",
    },
    Ban {
        words: &["TODO", "FIXME", "XXX", "HACK"],
        layer: Layer::Comments,
        tests: Tests::Too,
        within: anywhere,
        why: "plans are issues, not comments",
    },
    Ban {
        words: &[
            "safetensors",
            "pickle",
            "cact",
            "checkpoint",
            "cuda",
            "Cuda",
            "metal",
            "Metal",
            "gpu",
        ],
        layer: Layer::CodeAndStrings,
        tests: Tests::Exempt,
        within: |path| path.starts_with("crates/needle-core/src/model/"),
        why: "the model knows no file format and no device",
    },
    Ban {
        words: &["dims()["],
        layer: Layer::Code,
        tests: Tests::Exempt,
        within: |path| path.starts_with("crates/needle-core/src/model/"),
        why: "name the axes: `let (b, t, d) = x.dims3()?`",
    },
    Ban {
        words: &["candle"],
        layer: Layer::Code,
        tests: Tests::Too,
        within: |path| {
            path.starts_with("crates/needle-core/src/grammar") || path.starts_with("crates/needle-core/src/schema")
        },
        why: "grammar and schema work without a model",
    },
    Ban {
        words: &[
            "_no_bwd",
            "softmax_last_dim",
            "ops::sdpa",
            "candle_nn::ops::rms_norm",
            "candle_nn::ops::layer_norm",
            "candle_nn::rotary_emb",
            "candle_nn::RmsNorm",
            "candle_nn::LayerNorm",
        ],
        layer: Layer::Code,
        tests: Tests::Exempt,
        within: |path| core(path) && !path.starts_with("crates/needle-core/src/ops"),
        why: "fused functions that drop gradients silently are called in ops/ alone",
    },
    Ban {
        words: &[
            "<|im_", "<think>", "</think>", "tools>", "<tool_", "</tool_", "context>", "extract>", "schema>",
        ],
        layer: Layer::Strings,
        tests: Tests::Exempt,
        within: |path| {
            let names = ["crates/needle-core/src/prompt", "crates/needle-core/src/tokenizer"];
            path.starts_with("crates/") && !names.iter().any(|name| path.starts_with(name))
        },
        why: "markers are spelt in prompt.rs and tokenizer.rs alone",
    },
    Ban {
        words: &["fs::", "File::", "OpenOptions"],
        layer: Layer::Code,
        tests: Tests::Exempt,
        within: |path| {
            let files = [
                "checkpoint",
                "hub",
                "weights.rs",
                "device",
                "retrieval/store.rs",
                "data/file.rs",
            ];
            core(path)
                && !files
                    .iter()
                    .any(|name| path["crates/needle-core/src/".len()..].starts_with(name))
        },
        why: "files are read in checkpoint/, weights.rs, hub/, retrieval/store.rs and data/file.rs; device.rs looks at the system's",
    },
    Ban {
        words: &["ureq", "hf_hub", "reqwest", "TcpStream", "TcpListener"],
        layer: Layer::Code,
        tests: Tests::Exempt,
        within: |path| {
            let clients = ["crates/needle-core/src/hub", "crates/needle-core/src/synth/endpoint.rs"];
            core(path) && !clients.iter().any(|name| path.starts_with(name))
        },
        why: "hub/ and synth/endpoint.rs alone use the network",
    },
    Ban {
        words: &["env::var"],
        layer: Layer::Code,
        tests: Tests::Exempt,
        within: |path| {
            let readers = ["crates/needle-core/src/hub", "crates/needle-core/src/device"];
            core(path) && !readers.iter().any(|name| path.starts_with(name))
        },
        why: "the library reads no environment variable but HF_* (hub.rs) and CUDA_VISIBLE_DEVICES (device.rs)",
    },
    Ban {
        words: &["static mut", "thread_local!"],
        layer: Layer::Code,
        tests: Tests::Exempt,
        within: core,
        why: NO_GLOBALS,
    },
    Ban {
        words: &["fn get_"],
        layer: Layer::Code,
        tests: Tests::Exempt,
        within: anywhere,
        why: "name a getter after what it returns",
    },
    Ban {
        words: &["/work/", "/root/", "/home/", "/tmp/", "../shared"],
        layer: Layer::CodeAndStrings,
        tests: Tests::Too,
        within: |path| !path.starts_with("xtask/src/tidy/"),
        why: "no path of one machine",
    },
];

const NO_GLOBALS: &str = "no globals: state lives in Session and Trainer";

fn anywhere(_: &str) -> bool {
    true
}

fn core(path: &str) -> bool {
    path.starts_with("crates/needle-core/src/")
}

/// Every banned word of a file.
pub(super) fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for ban in BANS.iter().filter(|ban| (ban.within)(&source.path)) {
        let layers: &[&str] = match ban.layer {
            Layer::Code => &[&source.code],
            Layer::Strings => &[&source.strings],
            Layer::CodeAndStrings => &[&source.code, &source.strings],
            Layer::Comments => &[&source.comments],
        };
        for (number, line) in layers.iter().flat_map(|layer| layer.lines().enumerate()) {
            if ban.tests == Tests::Exempt && source.is_test(number) {
                continue;
            }
            if let Some(word) = ban.words.iter().find(|word| line.contains(**word)) {
                findings.push(Finding::at(&source.path, number, format!("`{word}`: {}", ban.why)));
            }
        }
    }
    findings.extend(backend_cfgs(source));
    findings.extend(globals(source));
    findings
}

/// Statics of the library whose value can change.
fn globals(source: &Source) -> Vec<Finding> {
    let changing = ["Mutex", "RwLock", "Atomic", "OnceLock", "OnceCell", "Cell<"];
    let global = |line: &str| line.trim_start().trim_start_matches("pub ").starts_with("static ");
    let lines = source.code.lines().enumerate().filter(|_| core(&source.path));
    lines
        .filter(|(number, line)| {
            !source.is_test(*number) && global(line) && changing.iter().any(|word| line.contains(word))
        })
        .map(|(number, _)| Finding::at(&source.path, number, NO_GLOBALS))
        .collect()
}

/// `cfg(feature = "gpu")` and its like outside the places that dispatch to a backend.
fn backend_cfgs(source: &Source) -> Vec<Finding> {
    let places = [
        "crates/needle-core/src/ops",
        "crates/needle-core/src/device",
        "crates/needle-cuda/",
        "crates/needle-metal/",
        "tests/support",
        "tests/devices",
    ];
    if places.iter().any(|place| source.path.starts_with(place)) {
        return Vec::new();
    }
    let lines = source.code.lines().zip(source.strings.lines()).enumerate();
    let backend = |strings: &str| {
        strings
            .split_whitespace()
            .any(|word| ["gpu", "metal", "cuda"].contains(&word))
    };
    lines
        .filter(|(_, (code, strings))| code.contains("feature =") && backend(strings))
        .map(|(number, _)| {
            Finding::at(
                &source.path,
                number,
                "a GPU feature is asked for in ops/, device.rs and the leaf crates alone",
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn finds(path: &str, text: &str, lines: &[usize]) {
        let found: Vec<usize> = check(&Source::rust(path, text))
            .iter()
            .map(|finding| finding.line)
            .collect();
        assert_eq!(found, lines, "{path}: {text}");
    }

    const CORE: &str = "crates/needle-core/src";

    #[test]
    fn panics_only_in_tests() {
        finds(
            "crates/needle-cli/src/main.rs",
            "fn f() {\n    x.unwrap();\n    y.expect(\"z\");\n}",
            &[2, 3],
        );
        finds(
            "crates/needle-cli/src/main.rs",
            "#[cfg(test)]\nmod tests {\n    fn f() { x.unwrap(); }\n}",
            &[],
        );
        finds(
            "crates/needle-cli/src/main.rs",
            "// x.unwrap()\nlet s = \"todo!\"; x.unwrap_or(0);",
            &[],
        );
        finds("tests/parity.rs", "x.unwrap();", &[]);
        finds(
            "tests/parity.rs",
            "#[ignore]\nfn f() {}\n#[cfg_attr(miri, ignore = \"slow\")]",
            &[1, 3],
        );
    }

    #[test]
    fn layers_of_the_library() {
        finds(
            &format!("{CORE}/model/block.rs"),
            "use crate::checkpoint;\n// a pickle\nlet s = \"metal\";",
            &[1, 3],
        );
        finds(&format!("{CORE}/grammar/trie.rs"), "use candle_core::Tensor;", &[1]);
        finds(&format!("{CORE}/schema.rs"), "/// no candle here", &[]);
        finds(
            &format!("{CORE}/model/linear.rs"),
            "let y = candle_nn::ops::rms_norm(&x, &w, 1e-6)?;",
            &[1],
        );
        finds(
            &format!("{CORE}/ops/rms_norm.rs"),
            "let y = candle_nn::ops::rms_norm(&x, &w, 1e-6)?;",
            &[],
        );
        finds(&format!("{CORE}/model/linear.rs"), "let t = x.dims()[1];", &[1]);
        finds(&format!("{CORE}/decode.rs"), "let text = std::fs::read(path)?;", &[1]);
        finds(
            &format!("{CORE}/checkpoint/cact.rs"),
            "let text = std::fs::read(path)?;",
            &[],
        );
        finds(
            &format!("{CORE}/decode.rs"),
            "static A: OnceLock<u32> = OnceLock::new();\nstd::env::var(\"A\");\nstruct B {\n    c: OnceLock<u32>,\n}",
            &[2, 1],
        );
    }

    #[test]
    fn markers_have_two_homes() {
        finds(&format!("{CORE}/decode.rs"), "let end = \"<|im_end|>\";", &[1]);
        finds(&format!("{CORE}/prompt.rs"), "let end = \"<|im_end|>\";", &[]);
        finds(
            &format!("{CORE}/tokenizer/markers.rs"),
            "let open = \"<tool_call>\";",
            &[],
        );
        finds(
            &format!("{CORE}/decode.rs"),
            "/// Ends at `<|im_end|>`.\nlet v: Vec<Tools> = x;",
            &[],
        );
    }

    #[test]
    fn gpu_features_have_their_places() {
        let text = "#[cfg(feature = \"gpu\")]\nfn f() {}\n#[cfg(feature = \"hub\")]\nfn g() {}";
        finds(&format!("{CORE}/model/mod.rs"), text, &[1, 1]);
        finds("crates/needle-cli/src/main.rs", text, &[1]);
        finds(&format!("{CORE}/device.rs"), text, &[]);
        finds("crates/needle-cuda/src/lib.rs", "#![cfg(feature = \"cuda\")]", &[]);
    }

    #[test]
    fn paths_and_plans() {
        finds("tests/parity.rs", "let file = \"../shared/oracle\";", &[1]);
        finds("tests/parity.rs", "// TODO: more", &[1]);
        finds("tests/parity.rs", "fn get_weather() {}", &[]);
        finds("xtask/src/main.rs", "fn get_it() {}", &[1]);
    }
}
