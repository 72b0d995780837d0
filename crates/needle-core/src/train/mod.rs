//! Training: an adapter on frozen weights, or every weight of a small model.
//!
//! ```text
//! rows ─pack─▶ passes of at most `tokens_at_once` positions ─Network─▶ loss, gradients ─clip, AdamW─▶ parameters
//! ```
//! The loss is the mean cross-entropy of the scored ids of a batch (completion and end of sequence), logits are computed for
//! these positions only, rows stand behind each other without padding. The caller chooses the rows of a step:
//! [`epoch_order`] gives an order that depends on seed and epoch alone.
//!
//! One seed, one number of threads and one device give one result, bit for bit; so does a run that was interrupted and
//! [resumed](Trainer::resume).

mod fused;
mod initial;
mod network;
mod optimiser;
mod options;
mod packed;
mod parameters;
mod random;
mod row;
mod schedule;
mod state;

use std::path::Path;

use candle_core::{DType, Tensor};

pub use self::{
    initial::initial_checkpoint,
    optimiser::AdamW,
    options::{Activations, Form, TrainOptions},
    parameters::Trainable,
    random::epoch_order,
    row::{Fit, Row, sequence_length},
    schedule::Schedule,
};
pub use crate::lora::AdapterShape;
pub(crate) use random::normal_values;

use self::{
    fused::Fused,
    network::{Network, Slope},
    packed::Packed,
    parameters::Parameters,
};
use crate::{
    checkpoint::{Adapter, Checkpoint},
    device::Selected,
    error::{Error, Result},
    lora,
    weights::{Dense, Weight},
};

/// A run in progress.
pub struct Trainer {
    base: Checkpoint,
    /// Tells the base from others.
    base_mark: String,
    options: TrainOptions,
    schedule: Schedule,
    parameters: Parameters,
    optimiser: AdamW,
    arithmetic: Arithmetic,
}

/// Who computes loss and gradients.
enum Arithmetic {
    Fused(Box<Fused>),
    Composed(Box<Network>),
}

impl Arithmetic {
    fn loss(&self, packed: &Packed, parameters: &Parameters) -> Result<f64> {
        match self {
            Self::Fused(fused) => fused.loss(packed, parameters),
            Self::Composed(network) => network.loss(packed, parameters),
        }
    }

    fn slope(&self, packed: &Packed, parameters: &Parameters, factor: f64) -> Result<Slope> {
        match self {
            Self::Fused(fused) => fused.slope(packed, parameters, factor),
            Self::Composed(network) => network.slope(packed, parameters, factor),
        }
    }
}

/// What one step did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepReport {
    /// Mean cross-entropy of the batch's scored ids, before the step.
    pub loss: f64,
    /// The gradients' global norm, before clipping.
    pub grad_norm: f64,
    /// The learning rate of the step.
    pub lr: f64,
    /// Ids of the batch.
    pub tokens: usize,
    /// Those of them that were scored.
    pub scored_tokens: usize,
}

impl Trainer {
    /// Prepares a run on a model, packed or float.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a model that cannot be run or options that make no sense, [`Error::MissingTensor`] or
    /// [`Error::Shape`] when the weights do not fit the configuration, [`Error::Candle`] when the device refuses.
    pub fn new(checkpoint: &Checkpoint, selected: &Selected, options: TrainOptions) -> Result<Self> {
        checkpoint.config.expect_runnable()?;
        checkpoint.config.validate()?;
        expect_sensible(&options)?;
        let device = &selected.device;
        let parameters = Parameters::initial(checkpoint, &options.trainable, options.seed, device)?;
        let by_hand = options.form == Form::Fused && device.is_cpu() && selected.dtype == DType::F32;
        let arithmetic = if by_hand {
            let fused = Fused::new(checkpoint, &options.trainable, options.activations)?;
            Arithmetic::Fused(Box::new(fused))
        } else {
            let scale = match options.trainable {
                Trainable::Adapter(shape) => shape.scale(),
                Trainable::Everything => 0.0,
            };
            let (activations, dtype) = (options.activations, selected.dtype);
            let network = Network::new(checkpoint, &parameters, scale, activations, dtype, device)?;
            Arithmetic::Composed(Box::new(network))
        };
        Ok(Self {
            base: checkpoint.clone(),
            base_mark: state::mark(checkpoint)?,
            schedule: Schedule::new(options.learning_rate, options.total_steps),
            optimiser: AdamW::new(parameters.vars())?,
            arithmetic,
            parameters,
            options,
        })
    }

    /// Goes on where [`Trainer::save_state`] stopped; `checkpoint` and `options` must be those of the run.
    ///
    /// # Errors
    /// As [`Trainer::new`]; [`Error::Io`] or [`Error::Format`] when the file cannot be read or belongs to another run: the
    /// option that differs is named.
    pub fn resume(checkpoint: &Checkpoint, selected: &Selected, options: TrainOptions, path: &Path) -> Result<Self> {
        let mut trainer = Self::new(checkpoint, selected, options)?;
        trainer.restore(path)?;
        Ok(trainer)
    }

    /// One optimiser step on a batch.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a batch without a scored id or with an id outside the vocabulary, and when the run's steps are
    /// used up; [`Error::Candle`] when the device refuses.
    pub fn step(&mut self, rows: &[&Row]) -> Result<StepReport> {
        self.expect_rows(rows)?;
        let step = self.optimiser.steps();
        if step >= self.options.total_steps {
            return Err(Error::Unsupported(format!("all {step} steps of the run are taken")));
        }
        let scored_tokens: usize = rows.iter().map(|row| row.scored()).sum();
        let (loss, gradients) = self.loss_and_gradients(rows)?;
        let lr = self.schedule.rate(step);
        let grad_norm = self.optimiser.update(self.parameters.vars(), &gradients, lr)?;
        Ok(StepReport {
            loss,
            grad_norm,
            lr,
            tokens: rows.iter().map(|row| row.ids.len()).sum(),
            scored_tokens,
        })
    }

    /// The mean cross-entropy of all scored ids of some rows, with the parameters as they are.
    ///
    /// # Errors
    /// As [`Trainer::step`].
    pub fn evaluate(&self, rows: &[Row]) -> Result<f64> {
        let rows: Vec<&Row> = rows.iter().collect();
        self.expect_rows(&rows)?;
        let mut sum = 0.0;
        for group in Packed::groups(&rows, self.options.tokens_at_once) {
            sum += self.arithmetic.loss(&Packed::new(&group), &self.parameters)?;
        }
        Ok(sum / rows.iter().map(|row| row.scored()).sum::<usize>() as f64)
    }

    /// The loss of a batch and the gradient of every parameter, in the order of [`Trainer::parameter_names`].
    ///
    /// # Errors
    /// As [`Trainer::step`].
    pub fn loss_and_gradients(&self, rows: &[&Row]) -> Result<(f64, Vec<Tensor>)> {
        self.expect_rows(rows)?;
        let factor = 1.0 / rows.iter().map(|row| row.scored()).sum::<usize>() as f64;
        let (mut loss, mut totals) = (0.0, Vec::<Tensor>::new());
        for group in Packed::groups(rows, self.options.tokens_at_once) {
            let slope = self.arithmetic.slope(&Packed::new(&group), &self.parameters, factor)?;
            loss += slope.loss * factor;
            if totals.is_empty() {
                totals = slope.gradients;
            } else {
                for (total, gradient) in totals.iter_mut().zip(&slope.gradients) {
                    *total = (&*total + gradient)?;
                }
            }
        }
        Ok((loss, totals))
    }

    /// The adapter as it is now.
    ///
    /// # Errors
    /// [`Error::Unsupported`] when the run trains everything.
    pub fn adapter(&self) -> Result<Adapter> {
        let Trainable::Adapter(shape) = self.options.trainable else {
            return Err(Error::Unsupported(
                "this run trains every weight: it has a checkpoint, no adapter".into(),
            ));
        };
        let mut adapter = lora::adapter(&self.base, shape, |name| self.value(name))?;
        adapter.extra.insert("seed".into(), self.options.seed.into());
        Ok(adapter)
    }

    /// Puts an adapter's factors in the place of the present ones.
    ///
    /// # Errors
    /// [`Error::MissingTensor`] or [`Error::Shape`] when it does not fit the run.
    pub fn set_adapter(&mut self, adapter: &Adapter) -> Result<()> {
        self.parameters.set(|name| {
            let (matrix, factor) = name.rsplit_once('.')?;
            let (a, b) = adapter.pairs.get(matrix)?;
            let dense = if factor == "A" { a } else { b };
            dense.to_tensor(DType::F32, &candle_core::Device::Cpu).ok()
        })
    }

    /// The model with its weights as they are now: the base itself when an adapter is trained.
    ///
    /// # Errors
    /// [`Error::Candle`] when the device refuses.
    pub fn checkpoint(&self) -> Result<Checkpoint> {
        let mut checkpoint = self.base.clone();
        if self.options.trainable == Trainable::Everything {
            for (name, var) in self.parameters.names().iter().zip(self.parameters.vars()) {
                let values = var.flatten_all()?.to_vec1::<f32>()?;
                checkpoint
                    .weights
                    .insert(name.as_str(), Weight::Dense(Dense::from_f32(&values, var.dims())));
            }
            checkpoint.format.step = Some(self.optimiser.steps() as u64);
        }
        Ok(checkpoint)
    }

    /// Steps taken, those before an interruption included.
    pub fn steps_taken(&self) -> usize {
        self.optimiser.steps()
    }

    /// The options of the run.
    pub fn options(&self) -> &TrainOptions {
        &self.options
    }

    /// The learning rates of the run.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Names of the parameters, in their order: `layers.0.self_attn.q_proj.A`, or a weight's own.
    pub fn parameter_names(&self) -> &[String] {
        self.parameters.names()
    }

    /// How many numbers change.
    pub fn parameter_count(&self) -> usize {
        self.parameters.count()
    }

    /// Matrices that the adapter changes; tensors that change when everything is trained.
    pub fn groups(&self) -> usize {
        match self.options.trainable {
            Trainable::Adapter(_) => self.parameters.names().len() / 2,
            Trainable::Everything => self.parameters.names().len(),
        }
    }

    fn value(&self, name: &str) -> Option<Tensor> {
        self.parameters.find(name).map(|var| var.as_detached_tensor())
    }

    fn expect_rows(&self, rows: &[&Row]) -> Result<()> {
        if rows.is_empty() {
            return Err(Error::Unsupported("a batch needs at least one row".into()));
        }
        let vocabulary = self.base.config.out_vocab;
        rows.iter().try_for_each(|row| row.expect_usable(vocabulary))
    }
}

fn expect_sensible(options: &TrainOptions) -> Result<()> {
    let TrainOptions {
        learning_rate,
        total_steps,
        tokens_at_once,
        ..
    } = options;
    let wrong = |what: &str| Err(Error::Unsupported(format!("training: {what}")));
    match () {
        () if !(learning_rate.is_finite() && *learning_rate >= 0.0) => {
            wrong(&format!("expected a learning rate from 0 on, found {learning_rate}"))
        }
        () if *total_steps == 0 => wrong("expected at least one step"),
        () if *tokens_at_once == 0 => wrong("expected at least one token at once"),
        () => Ok(()),
    }
}
