//! The engine's model: weights in the order in which the kernels read them.

use super::{
    CpuOptions, Threads,
    arena::Arena,
    crew::{Crew, Hands},
    desk::Shape,
    engram::{Hash, Site},
    heads::{Head, ProbeHead},
    layer::Layer,
    loader::Loader,
    rows::Rows,
    simd::Isa,
    stack::Stack,
    tools::Tools,
    tuner::Tuner,
};
use crate::{
    config::Config,
    error::{Error, Result},
    weights::Weights,
};

/// A model of generation 2 for the CPU; shared by any number of states through an `Arc`.
#[derive(Debug)]
pub struct CpuModel {
    config: Config,
    options: CpuOptions,
    pub(super) isa: Isa,
    pub(super) shape: Shape,
    /// Rows of the embedding as they lie in the file.
    pub(super) table: Rows,
    pub(super) layers: Vec<Layer>,
    pub(super) hash: Hash,
    pub(super) sites: Vec<Site>,
    /// Gains.
    pub(super) final_norm: Vec<f32>,
    /// The embedding as the output's matrix.
    pub(super) output: Stack,
    contrastive: Option<Head>,
    confidence: Option<Head>,
    /// `θ^(−2i/K)`
    pub(super) frequencies: Vec<f32>,
    pub(super) crew: Crew,
    arena: Arena,
    /// Threads of passes over one position, and over more.
    tuners: [Tuner; 2],
}

impl CpuModel {
    /// Takes the weights over, with the fastest instruction set of this processor and the default numerics.
    ///
    /// # Errors
    /// As [`CpuModel::load_with`].
    pub fn load(config: &Config, weights: &Weights) -> Result<Self> {
        Self::load_with(config, weights, CpuOptions::default())
    }

    /// Takes the weights over.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for generation 3 or when the system refuses a thread, [`Error::MissingTensor`] or
    /// [`Error::Shape`] when the weights do not fit the configuration.
    pub fn load_with(config: &Config, weights: &Weights, options: CpuOptions) -> Result<Self> {
        config.expect_runnable()?;
        config.validate()?;
        let threads = match options.threads {
            Threads::Exactly(0) => return Err(Error::Unsupported("threads: expected at least 1, found 0".into())),
            Threads::Exactly(count) => count,
            Threads::EveryCore | Threads::Measured => std::thread::available_parallelism().map_or(1, usize::from),
        };
        let crew = Crew::new(threads).map_err(|error| Error::Unsupported(format!("{threads} threads: {error}")))?;
        let owned = Loader::new(weights, options.numerics)?;
        let loader = &owned;
        let (d, vocabulary) = (config.d_model, config.vocab_size);
        let sites = 0..config.engram.layers.len();
        let k = config.qk_head_dim;
        let frequency = |i: usize| 1.0 / (config.rope_theta as f32).powf(2.0 * i as f32 / k as f32);
        // In the order in which a pass reads the matrices.
        let sites = sites
            .map(|s| Site::load(loader, &format!("engrams.{s}"), config))
            .collect::<Result<_>>()?;
        let layers = (0..config.num_layers)
            .map(|l| Layer::load(loader, config, l))
            .collect::<Result<_>>()?;
        let model = Self {
            config: config.clone(),
            isa: options.isa,
            shape: Shape::new(config),
            table: Rows::load(loader, "embedding", vocabulary, d)?,
            layers,
            hash: Hash::new(config),
            sites,
            final_norm: loader.gains("final_norm", d)?,
            output: Stack::load(loader, &[("embedding".into(), vocabulary)], d)?,
            contrastive: Head::load(loader, "heads.contrastive", d)?,
            confidence: Head::load(loader, "heads.confidence", d)?,
            frequencies: (0..k / 2).map(frequency).collect(),
            tuners: std::array::from_fn(|_| match options.threads {
                Threads::Measured => Tuner::measuring(threads),
                _ => Tuner::fixed(threads),
            }),
            crew,
            options,
            arena: owned.into_arena(),
        };
        // Every matrix has its copy; of the tables a few rows will be wanted again.
        weights.iter().for_each(|(_, weight)| weight.release());
        Ok(model)
    }

    /// The geometry.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// How it computes.
    pub fn options(&self) -> &CpuOptions {
        &self.options
    }

    /// Whether the weights carry this head.
    pub fn has_head(&self, head: ProbeHead) -> bool {
        self.head(head).is_some()
    }

    /// Bytes of the matrices in memory, without the tables that stay in their file.
    pub fn size_bytes(&self) -> usize {
        self.stacks().map(Stack::size_bytes).sum()
    }

    /// Chooses the threads of passes over `positions` positions.
    pub(super) fn tuner(&self, positions: usize) -> &Tuner {
        &self.tuners[usize::from(positions > 1)]
    }

    /// What a pass of these hands works with.
    pub(super) fn tools<'a>(&'a self, hands: &'a Hands<'a>) -> Tools<'a> {
        Tools {
            isa: self.isa,
            lines: self.arena.lines(),
            hands,
        }
    }

    pub(super) fn head(&self, head: ProbeHead) -> Option<&Head> {
        match head {
            ProbeHead::Contrastive => self.contrastive.as_ref(),
            ProbeHead::Confidence => self.confidence.as_ref(),
        }
    }

    /// All matrices.
    pub(super) fn stacks(&self) -> impl Iterator<Item = &Stack> {
        let layers = self
            .layers
            .iter()
            .flat_map(|layer| [&layer.hyper.phi, &layer.inputs, &layer.output]);
        layers
            .chain(self.sites.iter().map(|site| &site.projections))
            .chain([&self.output])
    }
}
