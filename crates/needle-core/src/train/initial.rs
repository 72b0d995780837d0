//! A model that has learnt nothing yet: the reference's first values for a geometry.

use std::path::PathBuf;

use serde_json::Map;

use super::random::Random;
use crate::{
    checkpoint::{Checkpoint, FormatInfo, FormatKind, shapes},
    config::Config,
    error::Result,
    weights::{Bytes, Dense, Weight, Weights},
};

/// Spread of a matrix's first values.
const SPREAD: f64 = 0.02;

/// A random model of this geometry, without probe heads. `tokenizer_blob` goes into it as it is.
///
/// # Errors
/// [`Error::Config`](crate::Error::Config) for an impossible geometry, [`Error::Unsupported`](crate::Error::Unsupported) for one
/// that cannot be run yet.
pub fn initial_checkpoint(config: &Config, seed: u64, tokenizer_blob: Option<Vec<u8>>) -> Result<Checkpoint> {
    config.validate()?;
    config.expect_runnable()?;
    let mut weights = Weights::new();
    let mut random = Random::new(seed, 0);
    for (name, shape) in shapes(config) {
        let values = first_values(&name, &shape, config, &mut random);
        weights.insert(name, Weight::Dense(Dense::from_f32(&values, &shape)));
    }
    Ok(Checkpoint {
        config: config.clone(),
        weights,
        tokenizer_blob: tokenizer_blob.map(Bytes::new),
        format: FormatInfo {
            kind: FormatKind::Safetensors,
            generation: config.generation,
            version: 2,
            size_bytes: 0,
            records: vec![],
            heads: vec![],
            step: Some(0),
            run: Map::new(),
        },
        metadata: Default::default(),
        path: PathBuf::new(),
    })
}

fn first_values(name: &str, shape: &[usize], config: &Config, random: &mut Random) -> Vec<f32> {
    let count: usize = shape.iter().product();
    let leaf = name.rsplit('.').next().unwrap_or(name);
    match leaf {
        "d1" | "d2" => vec![1.0; count],
        "d3" => vec![SPREAD as f32; count],
        "a_pre" | "a_post" | "a_res" => vec![0.01; count],
        // Each lane starts as itself, each filter with its first tap alone.
        "b_res" => (0..count)
            .map(|at| if at % (config.mhc_lanes + 1) == 0 { 4.0 } else { 0.0 })
            .collect(),
        "taps" => (0..count)
            .map(|at| if at < config.d_model { 1.0 } else { 0.0 })
            .collect(),
        "out_proj" | "value_proj" => random.normal(SPREAD / (2.0 * config.num_layers as f64).sqrt(), count),
        "embedding" | "tables" | "phi_pre" | "phi_post" | "phi_res" => random.normal(SPREAD, count),
        projection if projection.ends_with("_proj") => random.normal(SPREAD, count),
        _ => vec![0.0; count],
    }
}
