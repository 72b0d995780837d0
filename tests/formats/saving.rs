//! Writing checkpoints: what was read comes back, and a failure leaves nothing behind.

use std::path::{Path, PathBuf};

use candle_core::{DType, Device};
use needle_core::{
    Checkpoint,
    checkpoint::FormatKind,
    weights::{Bytes, Dense, Weight},
};

use super::{checkpoints::open, files::Header};
use crate::golden;

/// A folder of its own, removed at the end.
pub(super) struct Folder(pub(super) PathBuf);

impl Folder {
    pub(super) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("needle-formats-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(super) fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

/// A float checkpoint comes back with the bytes of every tensor and every metadata text.
#[test]
fn save_after_load_is_the_identity() {
    let folder = Folder::new("identity");
    for (index, file) in [
        "gen2/checkpoints/a64.safetensors",
        "gen2/checkpoints/b96.safetensors",
        "gen2/checkpoints/c48.safetensors",
        "gen2/checkpoints/tok64.safetensors",
        "gen3/checkpoints/a64.safetensors",
        "gen3/checkpoints/b96.safetensors",
        "gen3/checkpoints/c64w.safetensors",
        "gen3/checkpoints/tok64.safetensors",
        "gen3/checkpoints/tokn48.safetensors",
    ]
    .into_iter()
    .enumerate()
    {
        let path = folder.0.join(format!("{index}.safetensors"));
        open(file).save_safetensors(&path).unwrap();
        let (before, after) = (Header::of(file), Header::parse(&std::fs::read(&path).unwrap()));
        assert_eq!(before.entries.len(), after.entries.len(), "{file}");
        for (name, entry) in &before.entries {
            let found = &after.entries[name];
            if name == "__metadata__" {
                let sorted = |value: &serde_json::Value| {
                    let object = value.as_object().unwrap();
                    object
                        .iter()
                        .map(|(key, value)| (key.clone(), value.clone()))
                        .collect::<std::collections::BTreeMap<_, _>>()
                };
                assert_eq!(sorted(found), sorted(entry), "{file}");
                continue;
            }
            assert_eq!(
                (&found["dtype"], &found["shape"]),
                (&entry["dtype"], &entry["shape"]),
                "{file}: {name}"
            );
            let ((from, to), (start, end)) = (before.range(name), after.range(name));
            assert!(before.data[from..to] == after.data[start..end], "{file}: {name}");
        }
        // Saving again gives the same bytes.
        let again = folder.0.join("again.safetensors");
        Checkpoint::open(&path).unwrap().save_safetensors(&again).unwrap();
        assert!(
            std::fs::read(&path).unwrap() == std::fs::read(&again).unwrap(),
            "{file}"
        );
    }
}

#[test]
fn pickles_are_saved_as_safetensors() {
    let folder = Folder::new("pickles");
    for (file, dtype) in [
        ("gen2/checkpoints/c48.pkl", DType::F32),
        ("gen2/checkpoints/c48.f16.pkl", DType::F16),
    ] {
        let (before, path) = (open(file), folder.0.join("saved.safetensors"));
        before.save_safetensors(&path).unwrap();
        let after = Checkpoint::open(&path).unwrap();
        assert_eq!(after.format.kind, FormatKind::Safetensors);
        assert_eq!(
            (after.format.step, &after.format.run),
            (before.format.step, &before.format.run)
        );
        assert_eq!(after.config, before.config);
        assert_eq!(after.weights.len(), before.weights.len());
        for (name, weight) in before.weights.iter() {
            let (Weight::Dense(before), Weight::Dense(after)) = (weight, after.weights.get(name).unwrap()) else {
                panic!("{name} is packed");
            };
            assert_eq!((after.dtype, &after.shape), (dtype, &before.shape), "{name}");
            assert_eq!(after.bytes.as_slice(), before.bytes.as_slice(), "{name}");
        }
    }
}

/// An archive becomes a float checkpoint of the same values, heads and permutations included.
#[test]
fn archives_are_saved_as_float_checkpoints() {
    let folder = Folder::new("archives");
    for file in [
        "gen2/cact/b96_mixed_group32.cact",
        "gen3/cact/c64w_w4.cact",
        "gen3/cact/a64_hand_mixed.cact",
    ] {
        let (before, path) = (open(file), folder.0.join("saved.safetensors"));
        before.save_safetensors(&path).unwrap();
        let after = Checkpoint::open(&path).unwrap();
        assert_eq!(after.format.heads, before.format.heads, "{file}");
        let mut config = after.config.clone();
        config.source.clear();
        assert_eq!(config, before.config, "{file}");
        for field in ["embedding_dim", "router_probes", "confidence_queries"] {
            assert_eq!(
                after.config.source.contains_key(field),
                file.starts_with("gen3"),
                "{file}: {field}"
            );
        }
        assert_eq!(after.weights.len(), before.weights.len(), "{file}");
        for (name, weight) in before.weights.iter() {
            let values = |weight: &Weight| {
                let tensor = weight.to_tensor(DType::F32, &Device::Cpu).unwrap();
                (
                    tensor.dims().to_vec(),
                    tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap(),
                )
            };
            assert_eq!(
                values(after.weights.get(name).unwrap()),
                values(weight),
                "{file}: {name}"
            );
        }
    }
}

/// A tuned matrix of another type and orientation than its neighbours is stored with them.
#[test]
fn mixed_layers_are_widened() {
    let folder = Folder::new("mixed");
    let mut checkpoint = open("gen2/checkpoints/c48.f16.pkl");
    let name = "layers.1.self_attn.k_proj";
    let tuned: Vec<f32> = (0..16 * 48).map(|i| i as f32 / 7.0).collect();
    checkpoint
        .weights
        .insert(name, Weight::Dense(Dense::from_f32(&tuned, &[16, 48])));
    let path = folder.0.join("saved.safetensors");
    checkpoint.save_safetensors(&path).unwrap();
    let after = Checkpoint::open(&path).unwrap();
    for layer in 0..3 {
        let name = format!("layers.{layer}.self_attn.k_proj");
        let values = |checkpoint: &Checkpoint| {
            let tensor = checkpoint
                .weights
                .get(&name)
                .unwrap()
                .to_tensor(DType::F32, &Device::Cpu)
                .unwrap();
            tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap()
        };
        assert_eq!(values(&after), values(&checkpoint), "{name}");
    }
}

#[test]
fn failures_leave_nothing_behind() {
    let folder = Folder::new("failures");
    let good = open("gen2/checkpoints/c48.safetensors");
    let path = folder.0.join("model.safetensors");
    good.save_safetensors(&path).unwrap();
    let expected = std::fs::read(&path).unwrap();

    let mut lacking = good.clone();
    lacking.weights = Default::default();
    let error = lacking.save_safetensors(&path).unwrap_err().to_string();
    assert!(error.contains("tensor embedding: missing"), "{error}");
    let mut surplus = good.clone();
    surplus
        .weights
        .insert("layers.9.norm_in", Weight::Dense(Dense::from_f32(&[0.0], &[1])));
    let error = surplus.save_safetensors(&path).unwrap_err().to_string();
    assert!(
        error.contains("tensor layers.9.norm_in: has no place in a checkpoint"),
        "{error}"
    );
    let mut misshapen = good.clone();
    misshapen
        .weights
        .insert("final_norm", Weight::Dense(Dense::from_f32(&[0.0], &[1])));
    let error = misshapen.save_safetensors(&path).unwrap_err().to_string();
    assert!(
        error.contains("tensor final_norm: expected shape [48], found [1]"),
        "{error}"
    );
    let mut short = good.clone();
    let dense = Dense {
        bytes: Bytes::new(vec![0; 4]),
        ..Dense::from_f32(&[0.0; 48], &[48])
    };
    short.weights.insert("final_norm", Weight::Dense(dense));
    let error = short.save_safetensors(&path).unwrap_err().to_string();
    assert!(
        error.contains("tensor final_norm: 4 bytes do not hold shape [48]"),
        "{error}"
    );
    assert_eq!(folder.files(), ["model.safetensors"]);
    assert!(std::fs::read(&path).unwrap() == expected);

    // A folder in the place of the file: writing succeeds, renaming does not.
    let taken = folder.0.join("taken");
    std::fs::create_dir(&taken).unwrap();
    let error = good.save_safetensors(&taken).unwrap_err().to_string();
    assert!(error.starts_with(&taken.display().to_string()), "{error}");
    let mut files = folder.files();
    files.sort();
    assert_eq!(files, ["model.safetensors", "taken"]);
    assert!(
        good.save_safetensors(&folder.0.join("absent/model.safetensors"))
            .is_err()
    );
    assert!(good.save_safetensors(Path::new("/")).is_err());
}

/// The file that is being replaced may be the one that is mapped.
#[test]
fn saving_over_the_source_keeps_it_whole() {
    let folder = Folder::new("over");
    let path = folder.0.join("model.safetensors");
    std::fs::copy(golden::path("gen2/checkpoints/c48.safetensors"), &path).unwrap();
    let checkpoint = Checkpoint::open(&path).unwrap();
    checkpoint.save_safetensors(&path).unwrap();
    checkpoint.save_safetensors(&path).unwrap();
    assert_eq!(Checkpoint::open(&path).unwrap().weights.len(), checkpoint.weights.len());
    assert_eq!(folder.files(), ["model.safetensors"]);
}
