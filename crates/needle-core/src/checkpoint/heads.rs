//! The probe heads' tensors. Their sizes stand in no archive's header: they follow from the tensors themselves.

use super::layout::Slot;
use crate::{
    config::{Config, Generation},
    error::{Error, Result},
    weights::Weights,
};

// Far above any published head, low enough that no product of sizes overflows.
const MAX_HEAD_SIZE: usize = 1 << 16;

/// A probe head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// Text similarity (generation 2).
    Contrastive,
    /// Text similarity (generation 3).
    Embedding,
    /// How likely a completion is right.
    Confidence,
    /// Which way to go with a request (generation 3).
    Router,
}

/// The sizes of a head that no configuration fixes.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeadSizes {
    /// Probes; of every row in generation 3.
    pub(super) probes: usize,
    /// Queries over the pooled vectors (generation 3).
    pub(super) queries: usize,
    /// Outputs.
    pub(super) width: usize,
}

/// The heads that the weights hold, in an archive's order.
pub(super) fn present(config: &Config, weights: &Weights) -> Result<Vec<(Head, HeadSizes)>> {
    let mut heads = vec![];
    for &head in Head::all(config.generation) {
        let prefix = format!("heads.{}.", head.name());
        if !weights.iter().any(|(name, _)| name.starts_with(&prefix)) {
            continue;
        }
        let sizes = head.sizes(config.generation, |leaf, _, axis| {
            let name = format!("{prefix}{leaf}");
            let size = weights.get(&name)?.shape().get(axis).copied();
            size.ok_or_else(|| Error::config("heads", format!("{name} has no axis {axis}")))
        });
        heads.push((head, sizes?));
    }
    Ok(heads)
}

impl Head {
    /// The heads of a generation in an archive's order; their code there is the place plus one.
    pub(super) fn all(generation: Generation) -> &'static [Self] {
        match generation {
            Generation::Two => &[Self::Contrastive, Self::Confidence],
            Generation::Three => &[Self::Embedding, Self::Confidence, Self::Router],
        }
    }

    /// Its number in an archive's manifest.
    pub(super) fn code(self, generation: Generation) -> f32 {
        let place = Self::all(generation).iter().position(|&head| head == self);
        place.map_or(0.0, |place| (place + 1) as f32)
    }

    /// The canonical name, after `heads.`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Contrastive => "contrastive",
            Self::Embedding => "embedding",
            Self::Confidence => "confidence",
            Self::Router => "router",
        }
    }

    /// The folder in a checkpoint's tree, with the slash.
    pub(super) fn folder(self) -> String {
        format!("{}_head/", self.name())
    }

    /// The number of outputs where it is fixed.
    pub(super) fn fixed_width(self) -> Option<usize> {
        match self {
            Self::Confidence => Some(1),
            Self::Router => Some(3),
            Self::Contrastive | Self::Embedding => None,
        }
    }

    /// The head's free sizes, from the lengths of its tensors' canonical axes: `axis(leaf, place in an archive, axis)`.
    pub(super) fn sizes(
        self,
        generation: Generation,
        axis: impl Fn(&'static str, usize, usize) -> Result<usize>,
    ) -> Result<HeadSizes> {
        let sizes = match generation {
            Generation::Two => HeadSizes {
                probes: axis("probes", 0, 0)?,
                queries: 1,
                width: axis("proj", 1, 0)?,
            },
            Generation::Three => HeadSizes {
                probes: axis("gain", 1, 1)?,
                queries: axis("query", 2, 0)?,
                width: axis("proj", 4, 0)?,
            },
        };
        let width = self.fixed_width().unwrap_or(sizes.width);
        let possible = 1..=MAX_HEAD_SIZE;
        if width != sizes.width
            || [sizes.probes, sizes.queries, width]
                .iter()
                .any(|size| !possible.contains(size))
        {
            let HeadSizes { probes, queries, width } = sizes;
            let reason = format!(
                "{} has {probes} probes, {queries} queries and {width} outputs",
                self.name()
            );
            return Err(Error::config("heads", reason));
        }
        Ok(sizes)
    }

    /// The head's tensors in an archive's order.
    pub(super) fn slots(self, config: &Config, sizes: HeadSizes) -> Vec<Slot> {
        let (d, rows) = (config.d_model, config.num_layers + 1);
        let HeadSizes { probes, queries, width } = sizes;
        let place = |leaf: &str, at: &str| (format!("heads.{}.{leaf}", self.name()), self.folder() + at);
        let small = |leaf: &str, at: &str, shape: &[usize]| {
            let (name, path) = place(leaf, at);
            Slot::small(name, path, shape)
        };
        let kernel = |inputs| {
            let (name, path) = place("proj", "proj/kernel");
            Slot::kernel(name, path, width, inputs)
        };
        let bias = small("bias", "proj/bias", &[width]);
        // The similarity heads have no bias of their own; archives write zeros.
        let bias = if self.fixed_width().is_some() {
            bias
        } else {
            bias.optional()
        };
        match config.generation {
            Generation::Two => vec![small("probes", "probes", &[probes, d]), kernel(probes * d), bias],
            Generation::Three => {
                let table = |leaf: &str, rows: &[usize]| {
                    let (name, path) = place(leaf, leaf);
                    Slot::table(name, path, rows, d)
                };
                let mut slots = vec![
                    table("probes", &[rows, probes]),
                    small("gain", "gain", &[rows, probes]),
                    table("query", &[queries]),
                    small("row_bias", "row_bias", &[queries, rows, probes]),
                    kernel(queries * d),
                    bias,
                ];
                if self == Self::Router {
                    slots.push(small("calibration", "calibration", &[width]).optional());
                }
                slots
            }
        }
    }

    /// Scalars that only training uses.
    pub(super) fn training_slots(self) -> Vec<Slot> {
        if self.fixed_width().is_some() {
            return vec![];
        }
        [("log_temp", "log_temp"), ("pair_bias", "bias")]
            .map(|(leaf, at)| Slot::small(format!("heads.{}.{leaf}", self.name()), self.folder() + at, &[]).optional())
            .into()
    }
}
