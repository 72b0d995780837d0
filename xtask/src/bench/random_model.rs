//! A model of the right size and shape that says nothing sensible: random weights, made in memory in a moment.

use anyhow::Result;
use needle_core::{
    Checkpoint, Config, Generation,
    quant::{CodeWidth, Packed, levels},
    weights::{Bytes, Dense, Weight, Weights},
};
use serde_json::{Map, Value, json};

/// How matrices are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// Packed codes of this width.
    Packed(CodeWidth),
    /// Floats.
    Floats,
}

/// Columns that share a norm, in the published archives.
const GROUP: usize = 128;

/// The geometry of the published Needle 2.
pub(super) fn full() -> Result<Config> {
    config(json!({
        "vocab_size": 8192, "d_model": 512, "num_heads": 8, "num_kv_heads": 4, "num_layers": 27,
        "mhc_lanes": 4, "engram_slots": 8192, "engram_layers": [2, 15],
    }))
}

/// A geometry of the same kind that a processor computes in seconds.
pub(super) fn small() -> Result<Config> {
    config(json!({
        "vocab_size": 512, "d_model": 256, "num_heads": 4, "num_kv_heads": 2, "num_layers": 2,
        "mhc_lanes": 4, "engram_slots": 256, "engram_layers": [1],
    }))
}

fn config(fields: Value) -> Result<Config> {
    let fields: Map<String, Value> = serde_json::from_value(fields)?;
    Ok(Config::from_json(&fields, Generation::Two)?)
}

/// The model.
pub(super) fn checkpoint(config: Config, stored: Stored) -> Result<Checkpoint> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut weights = Weights::new();
    for (name, shape) in tensors(&config) {
        let weight = match (&shape[..], stored) {
            (&[rows, cols], Stored::Packed(width)) if is_matrix(&name) => {
                Weight::Packed(random.packed((rows, cols), width)?)
            }
            _ => Weight::Dense(Dense::from_f32(&random.floats(&shape), &shape)),
        };
        weights.insert(name, weight);
    }
    Ok(Checkpoint {
        config,
        weights,
        path: "random".into(),
        ..Checkpoint::demo()?
    })
}

/// What archives quantise.
fn is_matrix(name: &str) -> bool {
    ["embedding", "_proj", ".tables", ".phi_pre", ".phi_post", ".phi_res"]
        .iter()
        .any(|end| name.ends_with(end))
}

fn tensors(config: &Config) -> Vec<(String, Vec<usize>)> {
    let (d, m, n, k) = (config.d_model, config.hada_n(), config.mhc_lanes, config.qk_head_dim);
    let mut tensors = vec![
        ("embedding".to_owned(), vec![config.vocab_size, d]),
        ("final_norm".to_owned(), vec![d]),
    ];
    for layer in 0..config.num_layers {
        let leaves = [
            ("norm_in", vec![d]),
            ("post_attn_norm", vec![d]),
            ("pre_hada_norm", vec![d]),
            ("self_attn.q_proj", vec![config.q_dim(), d]),
            ("self_attn.k_proj", vec![config.k_dim(), d]),
            ("self_attn.v_proj", vec![config.v_dim(), d]),
            ("self_attn.gate_proj", vec![config.out_dim(), d]),
            ("self_attn.out_proj", vec![d, config.out_dim()]),
            ("self_attn.q_norm", vec![k]),
            ("self_attn.k_norm", vec![k]),
            ("attn_gate", vec![]),
            ("hadamard_mlp.d1", vec![m]),
            ("hadamard_mlp.d2", vec![m]),
            ("hadamard_mlp.d3", vec![m]),
            ("mhc.a_pre", vec![]),
            ("mhc.a_post", vec![]),
            ("mhc.a_res", vec![]),
            ("mhc.b_pre", vec![n]),
            ("mhc.b_post", vec![n]),
            ("mhc.b_res", vec![n, n]),
            ("mhc.phi_pre", vec![n, n * d]),
            ("mhc.phi_post", vec![n, n * d]),
            ("mhc.phi_res", vec![n * n, n * d]),
        ];
        tensors.extend(leaves.map(|(leaf, shape)| (format!("layers.{layer}.{leaf}"), shape)));
    }
    for site in 0..config.engram.layers.len() {
        let rows = config.engram_tables() * config.engram.slots;
        let leaves = [
            ("tables", vec![rows, config.engram_sub_dim()]),
            ("key_proj", vec![d, d]),
            ("value_proj", vec![d, d]),
            ("taps", vec![needle_core::config::ENGRAM_TAPS, d]),
        ];
        tensors.extend(leaves.map(|(leaf, shape)| (format!("engrams.{site}.{leaf}"), shape)));
    }
    tensors
}

/// Xorshift: quick, and the same numbers everywhere.
struct Random(u64);

impl Random {
    fn word(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Values around zero whose sums over a row stay near one.
    fn floats(&mut self, shape: &[usize]) -> Vec<f32> {
        let cols = shape.last().copied().unwrap_or(1).max(1) as f32;
        let count = shape.iter().product::<usize>();
        let scale = (3.0 / cols).sqrt();
        (0..count)
            .map(|_| ((self.word() >> 40) as f32 / (1u32 << 23) as f32 - 1.0) * scale)
            .collect()
    }

    /// Any bytes are codes of widths that fill bytes evenly, and a group's norm is its share of the row's.
    fn packed(&mut self, (rows, cols): (usize, usize), width: CodeWidth) -> Result<Packed> {
        let group = if cols.is_multiple_of(GROUP) { GROUP } else { cols };
        let norm = half_bits((group as f32 / cols as f32).sqrt());
        let words = (rows * cols * width.bits()).div_ceil(64);
        let mut codes: Vec<u8> = (0..words).flat_map(|_| self.word().to_le_bytes()).collect();
        codes.truncate(rows * cols * width.bits() / 8);
        let norms: Vec<u8> = (0..rows * cols / group).flat_map(|_| norm.to_le_bytes()).collect();
        let levels = levels(width, group);
        Ok(Packed::new(
            (rows, cols),
            group,
            width,
            &levels,
            Bytes::new(codes),
            Bytes::new(norms),
        )?)
    }
}

/// The float16 of a number from 2⁻¹⁴ to 1, cut off.
fn half_bits(value: f32) -> u16 {
    let bits = value.to_bits();
    let exponent = (bits >> 23) as i32 - 127 + 15;
    ((exponent.max(1) as u16) << 10) | ((bits >> 13) & 0x3ff) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves() {
        assert_eq!(
            (half_bits(1.0), half_bits(0.5), half_bits(0.75)),
            (0x3c00, 0x3800, 0x3a00)
        );
    }

    #[test]
    fn the_full_geometry_has_the_published_size() {
        let config = full().unwrap();
        let count: usize = tensors(&config)
            .iter()
            .map(|(_, shape)| shape.iter().product::<usize>())
            .sum();
        assert!((40_000_000..50_000_000).contains(&count), "{count}");
        assert_eq!(config.effective_kv_window(), 704);
    }
}
