//! Float checkpoints: what a safetensors file and a pickle have in common once their containers are read.

use std::{collections::BTreeMap, path::Path};

use serde_json::{Map, Value};

use super::{
    Checkpoint,
    info::{FormatInfo, FormatKind},
    pickle, safetensors,
    tree::{self, Array},
};
use crate::{
    config::Config,
    error::{Error, Result},
    weights::Bytes,
};

/// The `format_version` that both generations' checkpoints carry.
pub(super) const FORMAT_VERSION: u32 = 2;

/// Reads a safetensors checkpoint.
pub(super) fn read_safetensors(bytes: Bytes, file: &Path) -> Result<Checkpoint> {
    let safetensors::Contents { arrays, mut metadata } = safetensors::read(&bytes, file)?;
    if arrays.iter().any(|array| array.path.starts_with("lora/")) {
        return Err(Error::format(file, "an adapter, not a checkpoint"));
    }
    let mut text = |key: &str| metadata.remove(key).filter(|text| !text.is_empty());
    let version = text("format_version").ok_or_else(|| no_version(file))?;
    let version = version.parse().map_err(|_| other_version(file, &version))?;
    let config = text("config").ok_or_else(|| Error::format(file, "metadata config is missing"))?;
    let config = object(file, "config", &config)?;
    let step = text("step").map(|step| {
        let wrong = |_| Error::format(file, format!("metadata step: expected a whole number, found {step}"));
        step.parse().map_err(wrong)
    });
    let step = step.transpose()?;
    let run = text("run")
        .map(|run| object(file, "run", &run))
        .transpose()?
        .unwrap_or_default();
    let described = Described {
        kind: FormatKind::Safetensors,
        version,
        config,
        step,
        run,
        arrays,
    };
    described.build(&bytes, file, metadata)
}

/// Reads a pickled checkpoint.
pub(super) fn read_pickle(bytes: Bytes, file: &Path) -> Result<Checkpoint> {
    let pickle = pickle::Pickle::read(&bytes, file)?;
    let mut fields = pickle.root()?;
    if fields.has("lora") {
        return Err(Error::format(file, "an adapter, not a checkpoint"));
    }
    let version = fields.take("format_version").ok_or_else(|| no_version(file))?;
    let version = pickle.json(version)?;
    let version = version
        .as_u64()
        .ok_or_else(|| other_version(file, &version.to_string()))?;
    let missing = |key: &str| Error::format(file, format!("field {key} is missing"));
    let config = fields.take("config").ok_or_else(|| missing("config"))?;
    let params = fields.take("params").ok_or_else(|| missing("params"))?;
    let step = fields.take("step").map(|step| pickle.json(step)).transpose()?;
    let step = match step {
        None | Some(Value::Null) => None,
        Some(step) => {
            let wrong = || Error::format(file, format!("field step: expected a whole number, found {step}"));
            Some(step.as_u64().ok_or_else(wrong)?)
        }
    };
    let run = match fields.take("run").map(|run| pickle.json(run)).transpose()? {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(run)) => run,
        Some(other) => {
            return Err(Error::format(
                file,
                format!("field run: expected a dict, found {other}"),
            ));
        }
    };
    let Value::Object(config) = pickle.json(config)? else {
        return Err(Error::format(file, "field config: expected a dict"));
    };
    if let Some(key) = fields.next_key() {
        return Err(Error::format(file, format!("field {key} is not known")));
    }
    let described = Described {
        kind: FormatKind::Pickle,
        version: u32::try_from(version).unwrap_or(u32::MAX),
        config,
        step,
        run,
        arrays: pickle.arrays(params)?,
    };
    described.build(&bytes, file, BTreeMap::new())
}

struct Described {
    kind: FormatKind,
    version: u32,
    config: Map<String, Value>,
    step: Option<u64>,
    run: Map<String, Value>,
    arrays: Vec<Array>,
}

impl Described {
    fn build(self, bytes: &Bytes, file: &Path, metadata: BTreeMap<String, String>) -> Result<Checkpoint> {
        if self.version != FORMAT_VERSION {
            return Err(other_version(file, &self.version.to_string()));
        }
        let generation = tree::generation(&self.arrays);
        let config = Config::from_json(&self.config, generation).map_err(|error| error.in_file(file))?;
        let tree::Contents {
            weights,
            records,
            heads,
        } = tree::read(file, self.arrays, &config)?;
        Ok(Checkpoint {
            config,
            weights,
            tokenizer_blob: None,
            format: FormatInfo {
                kind: self.kind,
                generation,
                version: self.version,
                size_bytes: bytes.len(),
                records,
                heads,
                step: self.step,
                run: self.run,
            },
            metadata,
            path: file.into(),
        })
    }
}

fn object(file: &Path, key: &str, text: &str) -> Result<Map<String, Value>> {
    serde_json::from_str(text).map_err(|error| Error::format(file, format!("metadata {key}: {error}")))
}

fn no_version(file: &Path) -> Error {
    Error::format(file, "no format_version: not a Needle checkpoint")
}

fn other_version(file: &Path, found: &str) -> Error {
    Error::format(
        file,
        format!("format_version {found} is not known; this version reads {FORMAT_VERSION}"),
    )
}
