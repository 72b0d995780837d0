//! `.cact` archives of both generations against what the oracle's reader makes of them.

use std::path::Path;

use candle_core::{DType, Device};
use needle_core::{
    Checkpoint, Config, Generation,
    checkpoint::{Encoding, FormatKind},
    quant::CodeWidth,
};
use serde_json::Value;

use super::quant::worst_difference;
use crate::golden;

const ARCHIVES: [&str; 10] = [
    "gen2/cact/a64_mixed",
    "gen2/cact/b96_mixed_group32",
    "gen2/cact/c48_w2",
    "gen2/cact/tok64_w2",
    "gen2/cact/tok64_w4",
    "gen3/cact/a64_hand_mixed",
    "gen3/cact/b96_w4_group32",
    "gen3/cact/c64w_w4",
    "gen3/cact/tok64_w4",
    "gen3/cact/tokn48_w4",
];

fn open(archive: &str) -> Checkpoint {
    Checkpoint::open(&golden::path(&format!("{archive}.cact"))).unwrap()
}

/// The values of a record: of one tensor, or of every layer's one after another.
fn values(checkpoint: &Checkpoint, name: &str) -> Vec<f32> {
    let layers = if name.contains('*') {
        checkpoint.config.num_layers
    } else {
        1
    };
    let names = (0..layers).map(|layer| name.replace('*', &layer.to_string()));
    names
        .flat_map(|name| {
            let tensor = checkpoint
                .weights
                .get(&name)
                .unwrap()
                .to_tensor(DType::F32, &Device::Cpu)
                .unwrap();
            tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap()
        })
        .collect()
}

#[test]
fn directory_equals_the_oracle() {
    for archive in ARCHIVES {
        let checkpoint = open(archive);
        let expected = golden::json(&format!("{archive}.json"));
        let records = expected["records"].as_array().unwrap();
        assert_eq!(checkpoint.format.records.len(), records.len(), "{archive}");
        assert_eq!(checkpoint.format.kind, FormatKind::Cact);
        for (found, expected) in checkpoint.format.records.iter().zip(records) {
            let name = expected["name"].as_str().unwrap();
            assert_eq!(found.name, canonical(name), "{archive}: {name}");
            let shape: Vec<usize> = serde_json::from_value(expected["shape"].clone()).unwrap();
            assert_eq!(found.shape, shape, "{archive}: {name}");
            assert_eq!(found.offset, Some(integer(&expected["offset"])), "{archive}: {name}");
            assert_eq!(found.size_bytes, integer(&expected["nbytes"]), "{archive}: {name}");
            let encoding = match (integer(&expected["dtype"]), integer(&expected["bits"])) {
                (1, _) => Encoding::Float(DType::F16),
                (2, _) => Encoding::Float(DType::F32),
                (3, bits) => Encoding::Packed {
                    width: match bits {
                        1 => CodeWidth::Binary,
                        2 => CodeWidth::Two,
                        3 => CodeWidth::Three,
                        4 => CodeWidth::Four,
                        _ => CodeWidth::Ternary,
                    },
                    group: integer(&expected["group"]),
                },
                _ => Encoding::Raw,
            };
            assert_eq!(found.encoding, encoding, "{archive}: {name}");
        }
    }
}

/// The oracle's name of a record in ours.
fn canonical(name: &str) -> String {
    let Some((part, leaf)) = name.split_once('.') else {
        return match name.split_once('_') {
            Some(("mhc", leaf)) => format!("layers.*.mhc.{leaf}"),
            Some(("hada", leaf)) => format!("hadamard_mlp.{leaf}"),
            _ => name.to_owned(),
        };
    };
    if let Some(layer) = part.strip_prefix("layer") {
        let layer: usize = layer.parse().unwrap();
        let leaf = match leaf {
            "norm_in" | "attn_gate" => leaf.to_owned(),
            "post_norm" => "post_attn_norm".to_owned(),
            "pre_hada" => "pre_hada_norm".to_owned(),
            leaf if ["proj", "taps", "norm"].iter().any(|end| leaf.ends_with(end)) => format!("self_attn.{leaf}"),
            leaf => format!("hadamard_mlp.{leaf}"),
        };
        format!("layers.{layer}.{leaf}")
    } else if let Some(site) = part.strip_prefix("engram") {
        format!("engrams.{site}.{leaf}")
    } else if let Some(head) = part.strip_suffix("_head") {
        format!("heads.{head}.{leaf}")
    } else {
        name.to_owned()
    }
}

#[test]
fn tensors_equal_the_oracle() {
    for archive in ARCHIVES {
        let checkpoint = open(archive);
        let records = &checkpoint.format.records;
        let sums = golden::json(&format!("{archive}.json"))["checksums"].clone();
        let mut compared = 0;
        for (name, sums) in sums.as_object().unwrap() {
            let record = &records[name.split_once('.').unwrap().0.parse::<usize>().unwrap()];
            if record.name == "heads.manifest" || record.encoding == Encoding::Raw {
                continue;
            }
            let values = values(&checkpoint, &record.name);
            let sum = |value: fn(f32) -> f64| values.iter().map(|&next| value(next)).sum::<f64>();
            let allowed = 1e-5 * values.len() as f64;
            assert!(
                (sum(f64::from) - sums["sum"].as_f64().unwrap()).abs() < allowed,
                "{archive}: {name}"
            );
            assert!((sum(|value| f64::from(value.abs())) - sums["abs_sum"].as_f64().unwrap()).abs() < allowed);
            compared += 1;
        }
        assert!(compared >= 53, "{archive}: {compared}");
        for (name, expected) in golden::tensors(&format!("{archive}.dequant.safetensors")) {
            let record = &records[name.split_once('.').unwrap().0.parse::<usize>().unwrap()];
            if record.name == "heads.manifest" {
                continue;
            }
            let found = values(&checkpoint, &record.name);
            let width = record.shape.last().copied().unwrap_or(1);
            let step = name
                .split_once("[::")
                .map_or(1, |(_, step)| step.trim_end_matches(']').parse().unwrap());
            let rows = found.chunks(width).step_by(step);
            let found: Vec<f32> = rows.flatten().copied().collect();
            let expected = expected
                .flatten_all()
                .unwrap()
                .to_dtype(DType::F32)
                .unwrap()
                .to_vec1::<f32>()
                .unwrap();
            let worst = worst_difference(&found, &expected);
            assert!(worst < 1e-6, "{archive}: {name}: {worst}");
        }
    }
}

#[test]
fn geometry_equals_the_oracle() {
    for archive in ARCHIVES {
        let Checkpoint {
            config,
            format,
            tokenizer_blob,
            ..
        } = open(archive);
        let expected = golden::json(&format!("{archive}.json"));
        let geometry = &expected["geometry"];
        let size = |field: &str| integer(&geometry[field]);
        let sizes = |field: &str| serde_json::from_value::<Vec<usize>>(geometry[field].clone()).unwrap();
        assert_eq!(format.generation, config.generation);
        assert_eq!(config.vocab_size, size("vocab_size"), "{archive}");
        assert_eq!(config.d_model, size("d_model"));
        assert_eq!(config.num_heads, size("num_heads"));
        assert_eq!(config.num_kv_heads, size("num_kv_heads"));
        assert_eq!(config.num_layers, size("num_layers"));
        assert_eq!(config.max_seq_len, size("max_seq_len"));
        assert_eq!(config.hada_n(), size("hada_n"));
        assert_eq!(config.mhc_lanes, size("mhc_lanes"));
        assert_eq!(config.kv_window, size("kv_window"));
        assert_eq!(config.kv_bits, size("kv_bits"));
        assert_eq!(config.engram.slots, size("engram_slots"));
        assert_eq!(config.engram.orders, sizes("engram_orders"));
        assert_eq!(config.engram.layers, sizes("engram_layers"));
        assert_eq!(config.engram_tables(), size("num_engram_tables"));
        assert_eq!(config.rope_theta, geometry["rope_theta"].as_f64().unwrap());
        match config.generation {
            Generation::Two => assert_eq!([config.qk_head_dim, config.v_head_dim], [size("head_dim"); 2]),
            Generation::Three => {
                assert_eq!(
                    [config.qk_head_dim, config.v_head_dim],
                    [size("qk_head_dim"), size("v_head_dim")]
                );
                let out_vocab = size("out_vocab");
                assert_eq!(
                    config.out_vocab,
                    if out_vocab == 0 { config.vocab_size } else { out_vocab }
                );
                assert_eq!(config.sliding_window, size("sliding_window"));
                assert_eq!(config.global_layers, sizes("global_layers"));
                assert_eq!(config.qkv_conv_taps, size("qkv_conv_taps"));
                assert_eq!(config.engram.seed_heads.unwrap_or(0), size("engram_seed_heads"));
            }
        }
        assert_eq!(
            tokenizer_blob.is_some(),
            expected["written_with"]["tokenizer"].as_bool().unwrap()
        );
        assert_eq!(
            format.heads,
            match config.generation {
                Generation::Two => vec!["contrastive", "confidence"],
                Generation::Three => vec!["embedding", "confidence", "router"],
            }
        );
    }
}

/// A checkpoint and its archive describe the same model.
#[test]
fn geometry_equals_the_checkpoint() {
    for (archive, checkpoint) in [
        ("gen2/cact/c48_w2", "gen2/checkpoints/c48"),
        ("gen2/cact/tok64_w4", "gen2/checkpoints/tok64"),
        ("gen3/cact/a64_hand_mixed", "gen3/checkpoints/a64"),
        ("gen3/cact/tokn48_w4", "gen3/checkpoints/tokn48"),
    ] {
        let expected = Checkpoint::open(&golden::path(&format!("{checkpoint}.safetensors"))).unwrap();
        let found = open(archive);
        // What an archive has no field for, and the window, which the exporter computes.
        let config = Config {
            source: expected.config.source.clone(),
            weight_bits: expected.config.weight_bits.clone(),
            kv_window: expected.config.kv_window,
            ladder_depths: expected.config.ladder_depths.clone(),
            ..found.config.clone()
        };
        assert_eq!(config, expected.config, "{archive}");
        for (name, weight) in found.weights.iter() {
            let absent = [
                "hadamard_mlp.p1",
                "hadamard_mlp.p2",
                "heads.contrastive.bias",
                "heads.embedding.bias",
                "heads.router.calibration",
            ];
            match expected.weights.find(name) {
                Some(expected) => assert_eq!(weight.shape(), expected.shape(), "{archive}: {name}"),
                None => assert!(absent.contains(&name), "{archive}: {name}"),
            }
        }
        for (name, _) in expected.weights.iter() {
            let training = name.starts_with("mtp.") || name.ends_with("log_temp") || name.ends_with("pair_bias");
            assert!(training || found.weights.contains(name), "{archive}: {name}");
        }
    }
}

/// Report A3: the file may go, the tensors stay.
#[test]
fn tensors_outlive_their_file() {
    let folder = std::env::temp_dir().join(format!("needle-formats-{}-outlive", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("model.cact");
    std::fs::copy(golden::path("gen2/cact/c48_w2.cact"), &path).unwrap();
    let expected: Vec<f32> = all_values(&open("gen2/cact/c48_w2"));
    let checkpoint = Checkpoint::open(&path).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    drop(path);
    let weights = checkpoint.weights.clone();
    drop(checkpoint);
    let filler: Vec<Vec<u8>> = (0..64).map(|byte| vec![byte; 1 << 16]).collect();
    let found: Vec<f32> = weights
        .iter()
        .flat_map(|(_, weight)| {
            let tensor = weight.to_tensor(DType::F32, &Device::Cpu).unwrap();
            tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap()
        })
        .collect();
    assert_eq!(found, expected);
    assert_eq!(filler.len(), 64);
}

fn all_values(checkpoint: &Checkpoint) -> Vec<f32> {
    let names: Vec<&str> = checkpoint.weights.iter().map(|(name, _)| name).collect();
    names.iter().flat_map(|name| values(checkpoint, name)).collect()
}

#[test]
fn content_decides_not_the_name() {
    let bytes = needle_core::weights::Bytes::new(golden::bytes("gen2/cact/c48_w2.cact"));
    let checkpoint = Checkpoint::from_bytes(bytes, Path::new("model.safetensors")).unwrap();
    assert_eq!(checkpoint.format.kind, FormatKind::Cact);
}

fn integer(value: &Value) -> usize {
    usize::try_from(value.as_u64().unwrap()).unwrap()
}
