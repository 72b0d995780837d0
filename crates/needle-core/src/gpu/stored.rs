//! The bytes of a plan's weights, as its kernels read them.

use candle_core::{DType, Device};
use half::{bf16, f16};
use needle_kernels::{
    Elem, Format,
    plan::{BufferSpec, Name, Part},
};

use super::blueprint::{Blueprint, matrices};
use crate::{
    config::Config,
    error::{Error, Result},
    ops::Rope,
    weights::{Weight, Weights},
};

/// A model's weights, to be asked for one buffer after the other.
pub(super) struct Stored<'a> {
    pub(super) config: &'a Config,
    pub(super) weights: &'a Weights,
    pub(super) blueprint: &'a Blueprint,
}

impl Stored<'_> {
    /// The bytes of one buffer.
    ///
    /// # Errors
    /// [`Error::MissingTensor`], or [`Error::Unsupported`] for a buffer that no weight fills.
    pub(super) fn bytes(&self, spec: &BufferSpec) -> Result<Vec<u8>> {
        let (name, index) = (spec.role.name, spec.role.index);
        let matrices = matrices(name, index);
        if matrices.is_empty() {
            return Ok(encode(spec.elem, &self.floats(name, index)?));
        }
        let parts = matrices
            .iter()
            .map(|part| self.weights.get(part))
            .collect::<Result<Vec<_>>>()?;
        let mut bytes = Vec::with_capacity(spec.bytes);
        let format = self.blueprint.format(name, index);
        for part in parts {
            match (format, spec.role.part, part) {
                (Format::Dense(elem), Part::Values, weight) => bytes.extend(encode(elem, &values(weight)?)),
                (Format::Packed { .. }, Part::Values, Weight::Packed(packed)) => bytes.extend(packed.codes()),
                (Format::Packed { .. }, Part::Norms, Weight::Packed(packed)) => bytes.extend(packed.norms()),
                // All parts share one codebook.
                (Format::Packed { .. }, Part::Levels, Weight::Packed(packed)) => {
                    bytes = encode(Elem::F32, packed.levels())
                }
                (_, part, _) => {
                    let what = format!("{}: the weights have no {part:?}", matrices.join(", "));
                    return Err(Error::Unsupported(what));
                }
            }
        }
        Ok(bytes)
    }

    /// What is no matrix, in float32.
    fn floats(&self, name: Name, l: usize) -> Result<Vec<f32>> {
        let n = self.config.mhc_lanes;
        let layer = |part: &str| self.read(&format!("layers.{l}.{part}"));
        let lanes = |parts: [&str; 3]| -> Result<Vec<Vec<f32>>> {
            parts.iter().map(|part| layer(&format!("mhc.{part}"))).collect()
        };
        match name {
            Name::Angles => self.angles(),
            Name::FinalNorm => self.read("final_norm"),
            Name::Phi => Ok(lanes(["phi_pre", "phi_post", "phi_res"])?.concat()),
            Name::LaneScale => Ok(lanes(["a_pre", "a_post", "a_res"])?.concat()),
            Name::LaneBias => {
                let mut bias = lanes(["b_pre", "b_post", "b_res"])?;
                let home = |lane: usize| if lane == l % n { 1.0 } else { 0.0 };
                bias[0]
                    .iter_mut()
                    .zip(0..)
                    .for_each(|(b, lane)| *b += 8.0 * home(lane) - 4.0);
                bias[1]
                    .iter_mut()
                    .zip(0..)
                    .for_each(|(b, lane)| *b += 4.0 * home(lane) - 4.0);
                Ok(bias.concat())
            }
            Name::NormIn => layer("norm_in"),
            Name::QNorm => layer("self_attn.q_norm"),
            Name::KNorm => layer("self_attn.k_norm"),
            Name::PostNorm => layer("post_attn_norm"),
            Name::Gate => Ok(layer("attn_gate")?
                .iter()
                .map(|gate| 1.0 / (1.0 + (-gate).exp()))
                .collect()),
            Name::PreNorm => layer("pre_hada_norm"),
            Name::D1 => layer("hadamard_mlp.d1"),
            Name::D2 => layer("hadamard_mlp.d2"),
            Name::D3 => layer("hadamard_mlp.d3"),
            Name::Taps => self.read(&format!("engrams.{l}.taps")),
            other => Err(Error::Unsupported(format!("no weight fills {other:?}"))),
        }
    }

    /// `[positions, k]`: a position's cosines, then its sines.
    fn angles(&self) -> Result<Vec<f32>> {
        let (k, theta) = (self.config.qk_head_dim, self.config.rope_theta);
        let rope = Rope::at(0, self.blueprint.positions(), k, theta, DType::F32, &Device::Cpu)?;
        let (cos, sin): (Vec<f32>, Vec<f32>) = (
            rope.cos().flatten_all()?.to_vec1()?,
            rope.sin().flatten_all()?.to_vec1()?,
        );
        let rows = cos.chunks_exact(k / 2).zip(sin.chunks_exact(k / 2));
        Ok(rows.flat_map(|(cos, sin)| [cos, sin].concat()).collect())
    }

    fn read(&self, name: &str) -> Result<Vec<f32>> {
        values(self.weights.get(name)?)
    }
}

/// The values of a weight, row-major.
fn values(weight: &Weight) -> Result<Vec<f32>> {
    let tensor = weight.to_tensor(DType::F32, &Device::Cpu)?;
    Ok(tensor.flatten_all()?.to_vec1()?)
}

/// Numbers as they are stored.
fn encode(elem: Elem, values: &[f32]) -> Vec<u8> {
    match elem {
        Elem::F32 => values.iter().flat_map(|value| value.to_ne_bytes()).collect(),
        Elem::Bf16 => values
            .iter()
            .flat_map(|&value| bf16::from_f32(value).to_ne_bytes())
            .collect(),
        Elem::F16 => values
            .iter()
            .flat_map(|&value| f16::from_f32(value).to_ne_bytes())
            .collect(),
    }
}
