//! Adapters of both forms, and the spellings of pickles.

use std::path::Path;

use candle_core::{DType, Device};
use needle_core::{
    Adapter, Checkpoint,
    checkpoint::FormatKind,
    weights::{Bytes, Dense},
};
use serde_json::json;

use super::files::Header;
use crate::golden;

fn open(relative: &str) -> Adapter {
    Adapter::open(&golden::path(relative)).unwrap()
}

fn values(dense: &Dense) -> Vec<f32> {
    let tensor = dense.to_tensor(DType::F32, &Device::Cpu).unwrap();
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

#[test]
fn safetensors_adapters_equal_the_file() {
    for file in [
        "gen3/training/adapter.safetensors",
        "gen3/training/finetune.adapter.safetensors",
    ] {
        let adapter = open(file);
        assert_eq!(
            (adapter.kind, adapter.scale, adapter.rank),
            (FormatKind::Safetensors, 2.0, 4)
        );
        assert_eq!(adapter.base.as_deref(), Some("checkpoints/tok64.safetensors"));
        assert_eq!((adapter.num_layers, adapter.pairs.len()), (3, 15));
        assert!(adapter.extra.contains_key("seed"));
        for (path, expected) in golden::tensors(file) {
            let name = path.split('/').nth(5).unwrap();
            for layer in 0..3 {
                let (a, b) = &adapter.pairs[&format!("layers.{layer}.self_attn.{name}")];
                let found = if path.ends_with("/A") { a } else { b };
                let expected = expected.get(layer).unwrap();
                assert_eq!(found.shape, expected.dims(), "{path}");
                assert_eq!(
                    values(found),
                    expected.flatten_all().unwrap().to_vec1::<f32>().unwrap(),
                    "{path}"
                );
            }
        }
    }
}

#[test]
fn pickled_adapters_of_all_spellings_are_equal() {
    let expected = open("gen2/training/adapter.protocol4.pkl");
    assert_eq!(
        (expected.kind, expected.scale, expected.rank),
        (FormatKind::Pickle, 2.0, 4)
    );
    assert_eq!(expected.base.as_deref(), Some("checkpoints/tok64.pkl"));
    assert_eq!((expected.num_layers, expected.pairs.len()), (2, 10));
    assert_eq!(
        json!(expected.extra),
        json!({"qat_bits": 4, "qat_bits_map": null, "seed": 0})
    );
    let (a, b) = &expected.pairs["layers.1.self_attn.k_proj"];
    assert_eq!((&a.shape[..], &b.shape[..]), (&[64, 4][..], &[4, 32][..]));
    for spelling in ["protocol2", "protocol2.numpy1", "protocol5", "fortran_f16"] {
        let found = open(&format!("gen2/training/adapter.{spelling}.pkl"));
        assert_eq!(
            (found.scale, found.rank, &found.base),
            (expected.scale, expected.rank, &expected.base)
        );
        assert_eq!(found.pairs.len(), expected.pairs.len());
        for (name, (a, b)) in &expected.pairs {
            let (found_a, found_b) = &found.pairs[name];
            assert_eq!(
                (&found_a.shape, values(found_a)),
                (&a.shape, values(a)),
                "{spelling}: {name}"
            );
            let close = values(found_b)
                .iter()
                .zip(values(b))
                .all(|(found, b)| (found - b).abs() <= b.abs() / 1000.0);
            assert!(close, "{spelling}: {name}");
        }
    }
    open("gen2/training/finetune.adapter.pkl");
}

#[test]
fn numpy_spellings_are_read() {
    for name in [
        "bfloat16.protocol2",
        "bfloat16.protocol4",
        "bfloat16.protocol5",
        "float64.protocol2",
        "float64.protocol4",
        "float64.protocol5",
        "fortran.protocol2",
        "fortran.protocol4",
        "fortran.protocol5",
        "writable.protocol5",
        "view.protocol4",
        "scalars.protocol4",
    ] {
        let adapter = open(&format!("pickles/{name}.pkl"));
        assert_eq!((adapter.scale, adapter.rank, adapter.num_layers), (2.0, 3, 1), "{name}");
        let (a, b) = &adapter.pairs["layers.0.self_attn.q_proj"];
        assert_eq!(
            (&a.shape[..], values(a)),
            (&[2, 3][..], vec![0.0, 0.5, 1.0, 1.5, 2.0, 2.5]),
            "{name}"
        );
        assert_eq!(
            (&b.shape[..], values(b)),
            (&[3, 2][..], vec![0.0, -0.5, -1.0, -1.5, -2.0, -2.5]),
            "{name}"
        );
    }
    let scalars = open("pickles/scalars.protocol4.pkl").extra;
    let expected = json!({
        "half": 0.5, "brain": 1.5, "single": 0.25, "flag": true, "wide": -7, "long": -(1i64 << 40), "text": "é",
        "nothing": null, "nested": {"a": [1, [2, 3.5]], "b": true},
    });
    assert_eq!(json!(scalars), expected);
}

#[test]
fn other_arrays_are_refused() {
    for (name, part) in [
        (
            "integers",
            "tensor stack/layers/block/self_attn/q_proj/kernel/A: expected float values, found int64",
        ),
        ("big_endian", "pickle: byte order > is refused (byte "),
        ("objects", "pickle: dtype O8 is refused (byte "),
    ] {
        let error = Adapter::open(&golden::path(&format!("pickles/{name}.protocol4.pkl")))
            .unwrap_err()
            .to_string();
        assert!(error.contains(part), "{error:?} does not say {part:?}");
    }
}

#[test]
fn faults_name_the_tensor() {
    let refused = |change: &dyn Fn(&mut Header), part: &str| {
        let mut file = Header::of("gen3/training/adapter.safetensors");
        change(&mut file);
        let error = Adapter::from_bytes(Bytes::new(file.bytes()), Path::new("a"))
            .unwrap_err()
            .to_string();
        assert!(error.contains(part), "{error:?} does not say {part:?}");
    };
    let path = "lora/stack/layers/block/self_attn/q_proj/kernel/A";
    refused(
        &|file| file.metadata("scale", None),
        "field scale: expected a finite number, found nothing",
    );
    refused(
        &|file| file.metadata("scale", Some("\"x\"")),
        "field scale: expected a finite number, found \"x\"",
    );
    refused(
        &|file| file.metadata("rank", Some("0")),
        "field rank: expected a number from 1 on, found 0",
    );
    refused(
        &|file| file.metadata("rank", Some("5")),
        "expected rank 5, found shape [3, 64, 4]",
    );
    refused(&|file| file.metadata("base", Some("{")), "metadata base: ");
    refused(&|file| file.remove(path), "tensor q_proj: has only one of A and B");
    refused(
        &|file| file.rename(path, "lora/stack/layers/block/self_attn/q_proj/kernel/C"),
        "do not change",
    );
    refused(
        &|file| file.rename(path, "lora/embedding/embedding/A"),
        "tensor embedding/embedding/A: changes a tensor",
    );
    refused(&|file| file.rename(path, "q"), "tensor q: not a tensor of an adapter");
    refused(
        &|file| file.entry(path)["shape"] = json!([4, 48, 4]),
        "layers, but others have 3",
    );
    refused(
        &|file| file.entry(path)["shape"] = json!([192, 4]),
        "expected [layers, in, out], found [192, 4]",
    );
    refused(&|file| file.set_value(path, 1, f32::NAN), "value 1 is NaN");
    let error = |error: needle_core::Error| error.to_string();
    let checkpoint = golden::path("gen2/checkpoints/c48.safetensors");
    assert!(error(Adapter::open(&checkpoint).unwrap_err()).contains("not an adapter"));
    assert!(error(Adapter::open(&golden::path("gen2/checkpoints/c48.pkl")).unwrap_err()).contains("not an adapter"));
    assert!(error(Adapter::open(&golden::path("gen2/cact/c48_w2.cact")).unwrap_err()).contains("an archive, not"));
    for adapter in [
        "gen2/training/adapter.protocol4.pkl",
        "gen3/training/adapter.safetensors",
    ] {
        let found = error(Checkpoint::open(&golden::path(adapter)).unwrap_err());
        assert!(found.ends_with("an adapter, not a checkpoint"), "{found}");
    }
    // No bytes, any number of layers: must end at once.
    let entry = json!({"dtype": "F32", "shape": [1u64 << 40, 0, 4], "data_offsets": [0, 0]});
    let mut file = Header::of("gen3/training/adapter.safetensors");
    file.entries.retain(|name, _| name == "__metadata__");
    file.entries.insert(path.into(), entry);
    file.data.clear();
    let found = error(Adapter::from_bytes(Bytes::new(file.bytes()), Path::new("a")).unwrap_err());
    assert!(found.contains("is no model's"), "{found}");
}
