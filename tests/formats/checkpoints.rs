//! Float checkpoints: safetensors and pickles of both generations.

use std::path::Path;

use candle_core::{DType, Device, Tensor};
use needle_core::{
    Checkpoint, Generation,
    checkpoint::{Encoding, FormatKind},
    weights::{Bytes, Weights},
};
use serde_json::json;

use super::files::{Header, safetensors};
use crate::golden;

const CHECKPOINTS: [&str; 9] = [
    "gen2/checkpoints/a64.safetensors",
    "gen2/checkpoints/b96.safetensors",
    "gen2/checkpoints/c48.safetensors",
    "gen2/checkpoints/tok64.safetensors",
    "gen3/checkpoints/a64.safetensors",
    "gen3/checkpoints/b96.safetensors",
    "gen3/checkpoints/c64w.safetensors",
    "gen3/checkpoints/tok64.safetensors",
    "gen3/checkpoints/tokn48.safetensors",
];

pub(super) fn open(relative: &str) -> Checkpoint {
    Checkpoint::open(&golden::path(relative)).unwrap()
}

fn tensor(weights: &Weights, name: &str) -> Tensor {
    weights.get(name).unwrap().to_tensor(DType::F32, &Device::Cpu).unwrap()
}

fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

/// Every value of the file is found under its canonical name, and nothing else is there.
#[test]
fn tensors_equal_the_file() {
    for file in CHECKPOINTS {
        let Checkpoint { weights, config, .. } = open(file);
        let mut found = 0;
        for (path, expected) in golden::tensors(file) {
            let layers = if path.starts_with("stack/layers") || path.starts_with("stack/mhc") {
                config.num_layers
            } else {
                1
            };
            for layer in 0..layers {
                let name = canonical(&path, layer);
                let mut expected = expected.clone();
                if layers > 1 {
                    expected = expected.get(layer).unwrap();
                }
                if path.ends_with("kernel") || path.contains("phi") {
                    expected = expected.t().unwrap();
                } else if expected.rank() == 3 && (path.ends_with("embedding") || path.ends_with("probes")) {
                    expected = expected.flatten(0, 1).unwrap();
                }
                let found = tensor(&weights, &name);
                assert_eq!(found.dims(), expected.dims(), "{file}: {path} as {name}");
                assert_eq!(values(&found), values(&expected), "{file}: {path} as {name}");
            }
            found += layers;
        }
        assert_eq!(found, weights.len(), "{file}");
    }
}

/// The canonical name of a tensor of a checkpoint's tree.
fn canonical(path: &str, layer: usize) -> String {
    let dotted = path.replace('/', ".").replace(".kernel", "").replace(".scale", "");
    if let Some(leaf) = dotted.strip_prefix("stack.layers.block.") {
        format!("layers.{layer}.{}", leaf.replace("ZCRMSNorm_0", "norm_in"))
    } else if let Some(leaf) = dotted.strip_prefix("stack.mhc_") {
        format!("layers.{layer}.mhc.{leaf}")
    } else if let Some(leaf) = dotted.strip_prefix("engrams_") {
        format!("engrams.{}", leaf.replace("embedding", "tables"))
    } else if let Some(leaf) = dotted.strip_prefix("mtp_") {
        format!("mtp.{}", leaf.replace("ZCRMSNorm_0", "norm_in"))
    } else if let Some((head, leaf)) = dotted.split_once("_head.") {
        let leaf = match leaf {
            "bias" => "pair_bias",
            "proj.bias" => "bias",
            leaf => leaf,
        };
        format!("heads.{head}.{leaf}")
    } else {
        match dotted.as_str() {
            "embedding.embedding" => "embedding".into(),
            "stack.final_norm" => "final_norm".into(),
            _ => dotted,
        }
    }
}

#[test]
fn info_says_what_the_file_says() {
    let Checkpoint {
        format,
        config,
        tokenizer_blob,
        ..
    } = open("gen3/checkpoints/a64.safetensors");
    assert_eq!(
        (format.kind, format.generation, format.version),
        (FormatKind::Safetensors, Generation::Three, 2)
    );
    assert_eq!(format.heads, ["embedding", "confidence", "router"]);
    assert_eq!((format.step, json!(format.run)), (Some(1200), json!({"stage": "sft"})));
    assert_eq!(config.ladder_depths, [2, 4]);
    assert!(tokenizer_blob.is_none());
    let file = golden::bytes("gen3/checkpoints/a64.safetensors");
    assert_eq!(format.size_bytes, file.len());
    let mut end = format.records[0].offset.unwrap();
    for record in &format.records {
        assert_eq!(
            (record.encoding, record.offset),
            (Encoding::Float(DType::F32), Some(end)),
            "{}",
            record.name
        );
        end += record.size_bytes;
    }
    assert_eq!(end, file.len());
    let kernel = format
        .records
        .iter()
        .find(|record| record.name == "layers.*.self_attn.q_proj")
        .unwrap();
    assert_eq!(kernel.shape, [6, 64, 96]);
}

#[test]
fn pickles_equal_safetensors() {
    let expected = open("gen2/checkpoints/c48.safetensors");
    let whole = open("gen2/checkpoints/c48.pkl");
    assert_eq!(whole.format.kind, FormatKind::Pickle);
    assert_eq!(
        (whole.format.step, json!(whole.format.run)),
        (Some(1200), json!({"stage": "sft"}))
    );
    assert_eq!(whole.config, expected.config);
    let half = open("gen2/checkpoints/c48.f16.pkl");
    // Only the fields that were set; the others are the loader's defaults.
    assert!(half.config.source.len() < expected.config.source.len());
    for found in [&whole, &half] {
        assert_eq!(found.weights.len(), expected.weights.len());
        assert_eq!(found.format.heads, expected.format.heads);
    }
    for (name, weight) in expected.weights.iter() {
        let expected = weight.to_tensor(DType::F32, &Device::Cpu).unwrap();
        assert_eq!(values(&tensor(&whole.weights, name)), values(&expected), "{name}");
        let expected = expected.to_dtype(DType::F16).unwrap().to_dtype(DType::F32).unwrap();
        assert_eq!(values(&tensor(&half.weights, name)), values(&expected), "{name}");
    }
    let spelt = |checkpoint: &Checkpoint| {
        let mut config = checkpoint.config.clone();
        config.source.clear();
        config
    };
    assert_eq!(spelt(&half), spelt(&expected));
    // Protocol 4 keeps arrays as they are in the file; protocol 2 writes them as text.
    assert!(whole.format.records.iter().all(|record| record.offset.is_some()));
    assert!(half.format.records.iter().all(|record| record.offset.is_none()));
}

#[test]
fn narrow_floats_are_read() {
    let full = open("gen2/checkpoints/c48.safetensors");
    for (name, dtype) in [("F16", DType::F16), ("BF16", DType::BF16), ("F64", DType::F64)] {
        let mut file = Header::of("gen2/checkpoints/c48.safetensors");
        let tensors = golden::tensors("gen2/checkpoints/c48.safetensors");
        file.convert(&tensors, name, dtype);
        let found = Checkpoint::from_bytes(Bytes::new(file.bytes()), Path::new("narrow")).unwrap();
        for (name, weight) in full.weights.iter() {
            let expected = weight
                .to_tensor(dtype, &Device::Cpu)
                .unwrap()
                .to_dtype(DType::F32)
                .unwrap();
            assert_eq!(
                values(&tensor(&found.weights, name)),
                values(&expected),
                "{dtype:?}: {name}"
            );
        }
    }
}

#[test]
fn faults_name_the_tensor() {
    let refused = |change: &dyn Fn(&mut Header), part: &str| {
        let mut file = Header::of("gen2/checkpoints/c48.safetensors");
        change(&mut file);
        let error = Checkpoint::from_bytes(Bytes::new(file.bytes()), Path::new("c48.safetensors")).unwrap_err();
        let error = error.to_string();
        assert!(error.starts_with("c48.safetensors: "), "{error:?}");
        assert!(error.contains(part), "{error:?} does not say {part:?}");
        assert!(!error.contains('\n'));
    };
    let norm = "stack/final_norm/scale";
    refused(
        &|file| file.remove(norm),
        "tensor final_norm: missing; a checkpoint stores it as stack/final_norm/scale",
    );
    refused(
        &|file| file.entry(norm)["shape"] = json!([6, 8]),
        "tensor final_norm: stack/final_norm/scale: expected shape [48], found [6, 8]",
    );
    refused(
        &|file| file.entry(norm)["shape"] = json!([47]),
        "tensor stack/final_norm/scale: 192 bytes do not hold",
    );
    refused(
        &|file| file.entry(norm)["dtype"] = json!("I32"),
        "tensor stack/final_norm/scale: expected float values",
    );
    refused(
        &|file| file.entry(norm)["dtype"] = json!("F1000"),
        "stack/final_norm/scale: unknown variant",
    );
    refused(&|file| file.rename(norm, "stack/lexicon"), "tensor final_norm: missing");
    refused(
        &|file| file.add("lexicon/scale", &[2]),
        "tensor lexicon/scale: not a tensor of generation 2",
    );
    refused(&|file| file.remove("mtp_combine/kernel"), "tensor mtp.combine: missing");
    refused(
        &|file| file.remove("confidence_head/probes"),
        "tensor confidence_head/probes: missing",
    );
    refused(
        &|file| file.remove("confidence_head/proj/bias"),
        "tensor heads.confidence.bias: missing",
    );
    refused(
        &|file| file.set_value(norm, 3, f32::NAN),
        "tensor final_norm: stack/final_norm/scale: value 3 is NaN",
    );
    refused(&|file| file.set_value(norm, 47, f32::INFINITY), "value 47 is inf");
    refused(
        &|file| file.entry(norm)["data_offsets"] = json!([0, 1u64 << 50]),
        "tensor stack/final_norm/scale: values at 0..1125899906842624 of",
    );
    refused(
        &|file| file.entry(norm)["data_offsets"] = json!([8, 4]),
        "tensor stack/final_norm/scale: values at 8..4",
    );
    refused(
        &|file| file.entry(norm)["data_offsets"] = json!([0, 192]),
        "lies at byte 0 like",
    );
    refused(
        &|file| file.entry(norm)["data_offsets"] = json!([64, 256]),
        "overlap those of",
    );
    refused(&|file| file.data.extend([0; 4]), "bytes of values, but");
    refused(&|file| file.metadata("config", None), "metadata config is missing");
    refused(
        &|file| file.metadata("config", Some("[1]")),
        "metadata config: invalid type",
    );
    refused(
        &|file| file.metadata("config", Some("{\"d_model\": -1}")),
        "config field d_model: expected a whole number",
    );
    refused(
        &|file| file.metadata("config", Some("{\"d_model\": 1000000000}")),
        "config field d_model: expected 1 to",
    );
    refused(
        &|file| file.metadata("config", Some("{\"num_layers\": 4000}")),
        "config field num_layers",
    );
    refused(&|file| file.metadata("format_version", None), "no format_version");
    refused(
        &|file| file.metadata("format_version", Some("7")),
        "format_version 7 is not known; this version reads 2",
    );
    refused(
        &|file| file.metadata("step", Some("many")),
        "metadata step: expected a whole number, found many",
    );
    refused(&|file| file.rename(norm, "lora/x"), "an adapter, not a checkpoint");
}

#[test]
fn damaged_headers_are_refused() {
    let refused = |bytes: Vec<u8>, part: &str| {
        let error = Checkpoint::from_bytes(Bytes::new(bytes), Path::new("x"))
            .unwrap_err()
            .to_string();
        assert!(error.contains(part), "{error:?} does not say {part:?}");
    };
    refused(safetensors("{}", &[]), "no format_version");
    refused(safetensors("{", &[]), "safetensors header: EOF");
    refused(safetensors("{\"a\": 1}", &[]), "safetensors header: a: invalid type");
    let entry = "{\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4]}";
    refused(
        safetensors(&format!("{{\"a\": {entry}, \"a\": {entry}}}"), &[0; 4]),
        "a occurs twice",
    );
    let hole = entry.replace("[0, 4]", "[4, 8]");
    refused(
        safetensors(&format!("{{\"a\": {hole}}}"), &[0; 8]),
        "invalid offset for tensor `a`",
    );
    let huge = "{\"dtype\": \"F32\", \"shape\": [4294967296, 4294967296], \"data_offsets\": [0, 4]}";
    refused(
        safetensors(&format!("{{\"a\": {huge}}}"), &[0; 4]),
        "tensor a: 4 bytes do not hold",
    );
    let mut long = safetensors("{}", &[]);
    long[..8].copy_from_slice(&(1u64 << 39).to_le_bytes());
    refused(long, "549755813888 bytes long, but the file has 10 bytes");
}
