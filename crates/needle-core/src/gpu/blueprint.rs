//! From a configuration and its weights to the plan of a decode step.

use std::collections::HashMap;

use candle_core::DType;
use needle_kernels::{
    CodeBits, Elem, Format, Unsupported,
    ops::EngramHash,
    plan::{DecodePlan, EngramGeometry, Geometry, Name, Storage},
};

use super::StepWeights;
use crate::{
    config::Config,
    error::{Error, Result},
    quant::{CodeWidth, Packed},
    weights::{Weight, Weights},
};

/// Positions that have angles at least; a text that goes on beyond them decodes on tensors.
const POSITIONS: usize = 1 << 14;
/// Columns that share a norm, in packed matrices that kernels read.
const GROUPS: [usize; 3] = [32, 64, 128];

/// Everything of a plan but its rows and slots.
#[derive(Debug)]
pub(super) struct Blueprint {
    geometry: Geometry,
    storage: Storage,
    /// Of the projections that each layer or site has of its own.
    formats: HashMap<(Name, usize), Format>,
}

impl Blueprint {
    /// The blueprint of a model that computes in `dtype`.
    ///
    /// # Errors
    /// [`Error::MissingTensor`] when the weights lack a matrix, [`Error::Unsupported`] for another type or sizes beyond 32 bits.
    pub(super) fn new(config: &Config, weights: &Weights, dtype: DType, choice: StepWeights) -> Result<Self> {
        let elem = elem(dtype)?;
        let format = |name, index| -> Result<Format> {
            let parts = matrices(name, index)
                .iter()
                .map(|part| weights.get(part))
                .collect::<Result<Vec<_>>>()?;
            Ok(format_of(&parts, choice, elem))
        };
        let mut formats = HashMap::new();
        for l in 0..config.num_layers {
            for name in [Name::Qkvg, Name::Out] {
                formats.insert((name, l), format(name, l)?);
            }
        }
        let sites = 0..config.engram.layers.len();
        for s in sites.clone() {
            formats.insert((Name::KeyValue, s), format(Name::KeyValue, s)?);
        }
        let dense = Format::Dense(elem);
        // The sites' tables are gathered by one kernel each, but stored alike.
        let tables = sites.map(|s| format(Name::Tables, s)).collect::<Result<Vec<_>>>()?;
        let alike = tables.windows(2).all(|pair| pair[0] == pair[1]);
        Ok(Self {
            geometry: geometry(config)?,
            storage: Storage {
                cache: elem,
                phi: elem,
                embedding: format(Name::Embedding, 0)?,
                tables: tables.first().copied().filter(|_| alike).unwrap_or(dense),
            },
            formats,
        })
    }

    /// The step for so many sequences of so many cache slots.
    ///
    /// # Errors
    /// [`Unsupported`] names the first size or storage that has no kernel.
    pub(super) fn plan(&self, rows: usize, slots: usize) -> std::result::Result<DecodePlan, Unsupported> {
        let capped = |size: usize| u32::try_from(size).unwrap_or(u32::MAX);
        let geometry = Geometry {
            rows: capped(rows),
            slots: capped(slots),
            ..self.geometry.clone()
        };
        DecodePlan::new(&geometry, self.storage, |name, index| self.format(name, index))
    }

    /// How a matrix is kept.
    pub(super) fn format(&self, name: Name, index: usize) -> Format {
        match name {
            Name::Embedding => self.storage.embedding,
            Name::Tables => self.storage.tables,
            _ => {
                let dense = Format::Dense(self.storage.cache);
                self.formats.get(&(name, index)).copied().unwrap_or(dense)
            }
        }
    }

    /// Positions that have angles.
    pub(super) fn positions(&self) -> usize {
        self.geometry.positions as usize
    }

    /// The n-gram memory's sizes, where the model has one.
    pub(super) fn engram(&self) -> Option<&EngramGeometry> {
        self.geometry.engram.as_ref()
    }
}

fn geometry(config: &Config) -> Result<Geometry> {
    let whole = |size: usize| {
        u32::try_from(size).map_err(|_| Error::Unsupported(format!("{size} is more than a kernel counts")))
    };
    let sizes = |sizes: &[usize]| sizes.iter().map(|&size| whole(size)).collect::<Result<Vec<_>>>();
    let engram = &config.engram;
    let hash = EngramHash {
        orders: sizes(&engram.orders)?,
        heads: whole(engram.heads)?,
        stride: whole(engram.seed_heads.unwrap_or(engram.heads))?,
        slots: whole(engram.slots)?,
        cols: whole(config.engram_sub_dim())?,
        ring: whole(config.engram_dilation())?,
    };
    let has_site = engram.layers.iter().any(|&layer| layer < config.num_layers);
    Ok(Geometry {
        rows: 1,
        n: whole(config.mhc_lanes)?,
        d: whole(config.d_model)?,
        layers: config.num_layers,
        h: whole(config.num_heads)?,
        g: whole(config.num_kv_heads)?,
        k: whole(config.qk_head_dim)?,
        v: whole(config.v_head_dim)?,
        vocabulary: whole(config.vocab_size)?,
        // As the passes on tensors: the caller sees one width of logits.
        out_vocabulary: whole(config.vocab_size)?,
        slots: 1,
        positions: whole(config.max_seq_len.max(POSITIONS))?,
        engram: has_site.then(|| EngramGeometry {
            hash,
            layers: engram.layers.clone(),
        }),
    })
}

/// The weights whose rows, one after the other, make up a matrix of the plan; none for what is no matrix.
pub(super) fn matrices(name: Name, index: usize) -> Vec<String> {
    let of = |prefix: &str, parts: &[&str]| parts.iter().map(|part| format!("{prefix}.{index}.{part}")).collect();
    match name {
        Name::Embedding => vec!["embedding".into()],
        Name::Qkvg => of(
            "layers",
            &[
                "self_attn.q_proj",
                "self_attn.k_proj",
                "self_attn.v_proj",
                "self_attn.gate_proj",
            ],
        ),
        Name::Out => of("layers", &["self_attn.out_proj"]),
        Name::Tables => of("engrams", &["tables"]),
        Name::KeyValue => of("engrams", &["key_proj", "value_proj"]),
        _ => Vec::new(),
    }
}

/// How the rows of these weights are kept: packed where they may be, are alike, and kernels read them so.
fn format_of(parts: &[&Weight], choice: StepWeights, elem: Elem) -> Format {
    let packed: Option<Vec<&Packed>> = parts
        .iter()
        .map(|part| match part {
            Weight::Packed(packed) => Some(packed),
            Weight::Dense(_) => None,
        })
        .collect();
    let format = match packed.as_deref() {
        Some([first, others @ ..]) if choice == StepWeights::Packed => {
            let kind = |packed: &Packed| (packed.group(), packed.width());
            let alike = |other: &&Packed| kind(other) == kind(first) && other.levels() == first.levels();
            packed_format(first).filter(|_| others.iter().all(alike))
        }
        _ => None,
    };
    format.unwrap_or(Format::Dense(elem))
}

fn packed_format(packed: &Packed) -> Option<Format> {
    let bits = match packed.width() {
        CodeWidth::Binary => return None,
        CodeWidth::Ternary | CodeWidth::Two => CodeBits::Two,
        CodeWidth::Three => CodeBits::Three,
        CodeWidth::Four => CodeBits::Four,
    };
    let group = u32::try_from(packed.group()).ok()?;
    GROUPS
        .contains(&packed.group())
        .then_some(Format::Packed { bits, group })
}

/// The kernels' word for a type.
///
/// # Errors
/// [`Error::Unsupported`] for types that they do not know.
pub(super) fn elem(dtype: DType) -> Result<Elem> {
    match dtype {
        DType::F32 => Ok(Elem::F32),
        DType::BF16 => Ok(Elem::Bf16),
        DType::F16 => Ok(Elem::F16),
        other => Err(Error::Unsupported(format!(
            "a step keeps f32, f16 or bf16, not {}",
            other.as_str()
        ))),
    }
}
