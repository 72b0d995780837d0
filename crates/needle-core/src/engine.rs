//! A model ready to answer: weights on a device, its tokenizer, and the vocabulary as the grammar sees it. Shared by any
//! number of agents.

use std::{
    path::Path,
    sync::{Arc, OnceLock},
};

use candle_core::DType;

use crate::{
    checkpoint::Checkpoint,
    cpu::CpuOptions,
    device::{DeviceSpec, Selected, explained},
    error::{Error, Result},
    gpu::GpuOptions,
    grammar::Vocabulary,
    prompt,
    runner::Runner,
    tokenizer::Tokenizer,
};

/// Immutable and `Send + Sync`; hand out clones of its `Arc`.
#[derive(Debug)]
pub struct Engine {
    runner: Runner,
    tokenizer: Tokenizer,
    vocabulary: OnceLock<Vocabulary>,
    device: Selected,
    source: String,
    fingerprint: String,
}

/// Where and how an engine computes.
#[derive(Clone, Copy, Debug, Default)]
pub struct EngineOptions {
    /// The device; the best there is by default.
    pub device: DeviceSpec,
    /// The type to compute in; the device's own by default.
    pub dtype: Option<DType>,
    /// Threads, numerics and instruction set on the CPU in float32.
    pub cpu: CpuOptions,
    /// Steps, weights and launches on a GPU.
    pub gpu: GpuOptions,
}

impl From<DeviceSpec> for EngineOptions {
    fn from(device: DeviceSpec) -> Self {
        Self {
            device,
            ..Self::default()
        }
    }
}

impl Engine {
    /// Opens a model file on a device.
    ///
    /// # Errors
    /// Whatever [`Checkpoint::open`], [`DeviceSpec::open`] and [`Runner::load`] refuse, and [`Error::Tokenizer`] for a file
    /// without a tokenizer.
    pub fn open(path: &Path, options: impl Into<EngineOptions>) -> Result<Arc<Self>> {
        Self::new(&Checkpoint::open(path)?, options)
    }

    /// The small model that is part of the library: it shows that the program works, offline, and knows little.
    ///
    /// # Errors
    /// As [`Engine::open`].
    pub fn demo(options: impl Into<EngineOptions>) -> Result<Arc<Self>> {
        Self::new(&Checkpoint::demo()?, options)
    }

    /// Places an open checkpoint, which must carry a tokenizer, on a device.
    ///
    /// # Errors
    /// As [`Engine::open`].
    pub fn new(checkpoint: &Checkpoint, options: impl Into<EngineOptions>) -> Result<Arc<Self>> {
        checkpoint.config.expect_runnable()?;
        Self::with_tokenizer(checkpoint, checkpoint.tokenizer()?, options)
    }

    /// The same with a tokenizer from elsewhere, for float checkpoints, which carry none.
    ///
    /// # Errors
    /// As [`Engine::open`], and [`Error::Tokenizer`] for a tokenizer with more pieces than the model has rows.
    pub fn with_tokenizer(
        checkpoint: &Checkpoint,
        tokenizer: Tokenizer,
        options: impl Into<EngineOptions>,
    ) -> Result<Arc<Self>> {
        let (pieces, rows) = (tokenizer.vocab_size(), checkpoint.config.vocab_size);
        if pieces > rows {
            return Err(Error::Tokenizer(format!(
                "{pieces} pieces, but the model's embedding has {rows} rows"
            )));
        }
        let options = options.into();
        let mut device = options.device.open()?;
        let dtype = options.dtype.unwrap_or(device.dtype);
        let runner = Runner::load_with(checkpoint, &device, dtype, options.cpu, options.gpu)
            .map_err(|error| explained(error, &device))?;
        let notices = device.notice.iter().map(String::as_str).chain(runner.notice());
        let notices: Vec<&str> = notices.collect();
        device.notice = (!notices.is_empty()).then(|| notices.join("; "));
        Ok(Arc::new(Self {
            runner,
            tokenizer,
            vocabulary: OnceLock::new(),
            device,
            source: checkpoint.path.display().to_string(),
            fingerprint: checkpoint.fingerprint(),
        }))
    }

    /// The model, where it runs.
    pub fn runner(&self) -> &Runner {
        &self.runner
    }

    /// Its tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Where it runs, and why there.
    pub fn device(&self) -> &Selected {
        &self.device
    }

    /// The file it came from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// A short text that other weights do not share: what is stored beside anything that the weights made.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Ids that end a completion.
    pub fn end_ids(&self) -> Vec<u32> {
        let end_of_turn = self.tokenizer.id(prompt::IM_END);
        std::iter::once(self.tokenizer.eos_id()).chain(end_of_turn).collect()
    }

    /// The vocabulary as the grammar sees it, made at the first call.
    ///
    /// # Errors
    /// [`Error::Tokenizer`] where the tokenizer lacks a marker that calls are made of.
    pub fn vocabulary(&self) -> Result<&Vocabulary> {
        if let Some(vocabulary) = self.vocabulary.get() {
            return Ok(vocabulary);
        }
        let made = Vocabulary::of(&self.tokenizer)?;
        Ok(self.vocabulary.get_or_init(|| made))
    }
}
