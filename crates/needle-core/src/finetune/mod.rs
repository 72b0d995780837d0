//! Fine-tuning from a data set to a judged adapter: rows split and cut to length, epochs, looks at the held-out rows, a state to
//! resume from, a verdict on the archive that is shipped.
//!
//! ```no_run
//! use needle_core::{Checkpoint, DeviceSpec, Flow, course::Start, data::Dataset, finetune::{Finetune, FinetuneOptions}};
//! let base = Checkpoint::demo()?;
//! let data = Dataset::open("examples/finetune.jsonl".as_ref())?;
//! let run = Finetune::prepare(&base, &base.tokenizer()?, &data, FinetuneOptions::default())?;
//! let tuned = run.course().run(&DeviceSpec::Auto.open()?, Start::Anew, None, |_| Flow::Continue)?;
//! tuned.trainer.adapter()?.save("adapter.safetensors".as_ref())?;
//! # Ok::<(), needle_core::Error>(())
//! ```

mod options;
mod plan;
mod report;
mod verdict;

pub use self::{
    options::FinetuneOptions,
    plan::{Plan, Trial},
    report::Report,
    verdict::{Side, Verdict, judge},
};

use std::time::Instant;

use crate::{
    checkpoint::Checkpoint,
    course::Course,
    data::{Dataset, Overlong, Split, Spread},
    device::{Selected, peak_ram_mb},
    error::{Error, Result},
    tokenizer::Tokenizer,
    train::{Fit, Row, Schedule, TrainOptions, Trainable, Trainer},
};

/// A run that is ready to begin.
pub struct Finetune<'a> {
    base: &'a Checkpoint,
    options: FinetuneOptions,
    split: Split,
    rows: Vec<Row>,
    held_out: Vec<Row>,
    cut: Vec<Overlong>,
    left_out: Vec<Overlong>,
}

impl<'a> Finetune<'a> {
    /// Splits the data and puts it into ids.
    ///
    /// # Errors
    /// [`Error::Example`] when no row is left to learn from, [`Error::Unsupported`] for options that make no sense.
    pub fn prepare(
        base: &'a Checkpoint,
        tokenizer: &Tokenizer,
        data: &Dataset,
        options: FinetuneOptions,
    ) -> Result<Self> {
        expect_sensible(&options)?;
        data.expect_rows()?;
        let split = data.split(options.val_split, options.seed);
        let mut run = Self {
            base,
            options,
            split: Split::default(),
            rows: vec![],
            held_out: vec![],
            cut: vec![],
            left_out: vec![],
        };
        run.rows = run.encode(&split.train, tokenizer);
        run.held_out = run.encode(&split.held_out, tokenizer);
        run.split = split;
        if run.rows.is_empty() {
            return Err(Error::Example(format!(
                "no usable examples in {}: every prompt alone fills {} tokens, the longest sequence",
                data.source, run.options.max_len
            )));
        }
        Ok(run)
    }

    fn encode(&mut self, rows: &[crate::data::Row], tokenizer: &Tokenizer) -> Vec<Row> {
        let limit = self.options.max_len.min(self.base.config.max_seq_len);
        let mut encoded = Vec::with_capacity(rows.len());
        for row in rows {
            let (ids, fit) = Row::encode(&row.example, tokenizer, limit);
            let long = || {
                let whole = row.encode(tokenizer);
                let tokens = whole.len();
                Overlong {
                    line: row.line,
                    tokens,
                    target_cut: (tokens - limit).min(whole.target.len()),
                }
            };
            match fit {
                Fit::Whole => encoded.push(ids),
                Fit::TargetCut => {
                    self.cut.push(long());
                    encoded.push(ids);
                }
                Fit::NothingScored => self.left_out.push(long()),
            }
        }
        encoded
    }

    /// The rows on their two sides.
    pub fn split(&self) -> &Split {
        &self.split
    }

    /// The options of the run.
    pub fn options(&self) -> &FinetuneOptions {
        &self.options
    }

    /// What the run will do.
    ///
    /// # Errors
    /// As [`Trainer::new`].
    pub fn plan(&self, device: &Selected) -> Result<Plan> {
        let trainer = self.trainer(device)?;
        let lengths = self.rows.iter().chain(&self.held_out).map(|row| row.ids.len());
        let count = |of: fn(&Row) -> usize| self.rows.iter().map(of).sum();
        Ok(Plan {
            rows: self.rows.len(),
            held_out: self.held_out.len(),
            tokens: Spread::of(lengths.collect()),
            epoch_tokens: count(|row| row.ids.len()),
            epoch_scored_tokens: count(Row::scored),
            cut: self.cut.clone(),
            left_out: self.left_out.clone(),
            batch_size: self.options.batch_size,
            epochs: self.options.epochs,
            steps_per_epoch: self.steps_per_epoch(),
            steps: self.total_steps(),
            warmup_steps: Schedule::new(self.options.learning_rate, self.total_steps()).warm_up(),
            groups: trainer.groups(),
            parameters: trainer.parameter_count(),
        })
    }

    /// Takes one step and drops its result, to know what the run will take.
    ///
    /// # Errors
    /// As [`Trainer::step`].
    pub fn try_step(&self, device: &Selected) -> Result<Trial> {
        let trainer = self.trainer(device)?;
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        // A middle-sized batch: the rows in the middle of all lengths.
        rows.sort_by_key(|row| row.ids.len());
        let wanted = self.options.batch_size.min(rows.len());
        let first = (rows.len() - wanted) / 2;
        let batch = &rows[first..first + wanted];
        let start = Instant::now();
        trainer.loss_and_gradients(batch)?;
        let elapsed = start.elapsed().as_secs_f64();
        let ids = |rows: &[&Row]| rows.iter().map(|row| row.ids.len()).sum::<usize>() as f64;
        Ok(Trial {
            step_ms: 1e3 * elapsed,
            run_s: elapsed / ids(batch) * ids(&rows) * self.options.epochs as f64,
            peak_ram_mb: peak_ram_mb(),
        })
    }

    fn trainer(&self, device: &Selected) -> Result<Trainer> {
        Trainer::new(self.base, device, self.train_options())
    }

    fn train_options(&self) -> TrainOptions {
        TrainOptions {
            learning_rate: self.options.learning_rate,
            seed: self.options.seed,
            ..TrainOptions::new(Trainable::Adapter(self.options.adapter), self.total_steps())
        }
    }

    /// The training of it.
    pub fn course(&self) -> Course<'_> {
        Course {
            base: self.base,
            options: self.train_options(),
            rows: &self.rows,
            held_out: &self.held_out,
            batch_size: self.options.batch_size,
            eval_every: self.options.eval_every,
            early_stop: self.options.early_stop,
        }
    }

    fn steps_per_epoch(&self) -> usize {
        self.rows.len().div_ceil(self.options.batch_size)
    }

    fn total_steps(&self) -> usize {
        self.steps_per_epoch() * self.options.epochs
    }
}

fn expect_sensible(options: &FinetuneOptions) -> Result<()> {
    let FinetuneOptions {
        epochs,
        batch_size,
        val_split,
        ..
    } = options;
    let wrong = |what: &str| Err(Error::Unsupported(format!("fine-tuning: {what}")));
    match () {
        () if *epochs == 0 => wrong("expected at least one epoch"),
        () if *batch_size == 0 => wrong("expected at least one row a step"),
        () if !(0.0..1.0).contains(val_split) => wrong(&format!(
            "expected a held-out share from 0 to below 1, found {val_split}"
        )),
        () => Ok(()),
    }
}
