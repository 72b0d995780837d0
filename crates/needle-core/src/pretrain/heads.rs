//! Probe heads trained on a finished model, whose own weights stay as they are.
//!
//! Contrastive: queries and the tools that they call are drawn together, against the other tools of the batch (InfoNCE, van den
//! Oord et al. 2018, <https://arxiv.org/abs/1807.03748>). Confidence: the model answers the rows; the head learns which answers were
//! exact, by cross-entropy.

use std::sync::Arc;

use candle_core::{D, DType, Device, Tensor, Var};
use candle_nn::{loss, ops::log_softmax};

use super::HeadRecipe;
use crate::{
    checkpoint::Checkpoint,
    data,
    engine::{Engine, EngineOptions},
    error::{Error, Result},
    json::compact,
    model::{Head, Model, unit_length},
    ops::Mask,
    prompt::Example,
    score::{self, EvalOptions},
    tokenizer::Tokenizer,
    train::{AdamW, Row, Schedule, epoch_order, normal_values},
    weights::{Dense, Weight},
};

/// Similarities are divided by this before they compete.
const TEMPERATURE: f64 = 0.07;

/// One step of a head's training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeadProgress {
    /// From 1.
    pub step: usize,
    /// Steps in all.
    pub steps: usize,
    /// Its loss.
    pub loss: f64,
}

/// Trains a contrastive head on rows that make one call, and puts it into the model.
///
/// # Errors
/// [`Error::Example`] when the rows call fewer than two tools; [`Error::Candle`] when the device refuses.
pub fn train_contrastive(
    model: &mut Checkpoint,
    rows: &[data::Row],
    recipe: &HeadRecipe,
    seed: u64,
    on_step: impl FnMut(HeadProgress),
) -> Result<()> {
    let tokenizer = model.tokenizer()?;
    let ids = |text: &str| [vec![tokenizer.bos_id()], tokenizer.encode(text)].concat();
    let pairs: Vec<_> = rows
        .iter()
        .filter_map(|row| {
            let [call] = row.calls.as_slice() else { return None };
            let tool = row.tools.as_ref()?.tools().find(|tool| tool.name() == call.name)?;
            let tool = compact(tool.to_json());
            Some((ids(&row.example.query), ids(&tool), tool))
        })
        .collect();
    if !pairs.iter().any(|(.., tool)| *tool != pairs[0].2) {
        return Err(Error::Example(
            "a contrastive head needs rows that call different tools".into(),
        ));
    }
    let probe = Probe::new(model, "contrastive", recipe, recipe.width, seed)?;
    let trained = probe.train(recipe, seed, pairs.len(), on_step, |probe, batch| {
        let (mut queries, mut tools) = (vec![], vec![]);
        // A tool competes with every other tool of the batch once, never with itself.
        let mut seen: Vec<&str> = vec![];
        for (query, tool, text) in batch.iter().map(|&at| &pairs[at]) {
            if !seen.contains(&text.as_str()) {
                seen.push(text);
                queries.push(probe.forward(query)?);
                tools.push(probe.forward(tool)?);
            }
        }
        let (queries, tools) = (
            unit_length(&Tensor::cat(&queries, 0)?)?,
            unit_length(&Tensor::cat(&tools, 0)?)?,
        );
        let scores = (queries.matmul(&tools.t()?)? / TEMPERATURE)?;
        let right = Tensor::arange(0, seen.len() as u32, scores.device())?;
        let there = loss::nll(&log_softmax(&scores, D::Minus1)?, &right)?;
        let back = loss::nll(&log_softmax(&scores.t()?.contiguous()?, D::Minus1)?, &right)?;
        Ok(((there + back)? / 2.0)?)
    })?;
    trained.put_into(model)
}

/// Lets the model answer rows, trains a confidence head on which answers were exact, and puts it into the model. Returns the share
/// of exact answers that it learnt from.
///
/// # Errors
/// [`Error::Example`] when all answers are exact or none is; whatever [`score::evaluate`] refuses.
pub fn train_confidence(
    model: &mut Checkpoint,
    rows: &[data::Row],
    recipe: &HeadRecipe,
    seed: u64,
    on_step: impl FnMut(HeadProgress),
) -> Result<f64> {
    let tokenizer = model.tokenizer()?;
    let engine = Engine::new(model, EngineOptions::default())?;
    let report = score::evaluate(&engine, &score::cases(rows), &EvalOptions::default(), |_| {})?;
    let limit = model.config.max_seq_len;
    let answered: Vec<_> = rows
        .iter()
        .zip(&report.outcomes)
        .filter(|(_, outcome)| outcome.fault.is_none())
        .map(|(row, outcome)| -> Result<_> {
            let ids = completed(row, outcome, &tokenizer, limit)?;
            Ok((ids, outcome.comparison.exact))
        })
        .collect::<Result<_>>()?;
    let right = answered.iter().filter(|(_, exact)| *exact).count();
    if right == 0 || right == answered.len() {
        let n = answered.len();
        return Err(Error::Example(format!(
            "{right} of {n} answers are exact: a confidence head has nothing to tell apart"
        )));
    }
    let probe = Probe::new(model, "confidence", recipe, 1, seed)?;
    let trained = probe.train(recipe, seed, answered.len(), on_step, |probe, batch| {
        let logits = batch
            .iter()
            .map(|&at| probe.forward(&answered[at].0))
            .collect::<Result<Vec<_>>>()?;
        let logits = Tensor::cat(&logits, 0)?.squeeze(1)?;
        let exact: Vec<f32> = batch.iter().map(|&at| f32::from(u8::from(answered[at].1))).collect();
        Ok(loss::binary_cross_entropy_with_logit(
            &logits,
            &Tensor::new(exact, logits.device())?,
        )?)
    })?;
    trained.put_into(model)?;
    Ok(right as f64 / answered.len() as f64)
}

/// The prompt with the answer that the model gave.
fn completed(row: &data::Row, outcome: &score::Outcome, tokenizer: &Tokenizer, limit: usize) -> Result<Vec<u32>> {
    let made = serde_json::to_value(&outcome.made).map_err(|error| Error::Example(error.to_string()))?;
    let example = Example {
        answers: compact(&made),
        reasoning: None,
        ..row.example.clone()
    };
    Ok(Row::encode(&example, tokenizer, limit).0.ids)
}

/// A head in training.
struct Probe {
    name: &'static str,
    model: Arc<Model>,
    /// Probes, projection, and the bias of a confidence.
    vars: Vec<Var>,
}

impl Probe {
    fn new(model: &Checkpoint, name: &'static str, recipe: &HeadRecipe, width: usize, seed: u64) -> Result<Self> {
        let d = model.config.d_model;
        let HeadRecipe { probes, .. } = *recipe;
        let device = Device::Cpu;
        let spread = |inputs: usize| 1.0 / (inputs as f64).sqrt();
        let var = |values: Vec<f32>, shape: (usize, usize)| Var::from_vec(values, shape, &device);
        let mut vars = vec![
            var(normal_values(seed, 1.0, probes * d), (probes, d))?,
            var(
                normal_values(seed + 1, spread(probes * d), width * probes * d),
                (width, probes * d),
            )?,
        ];
        if name == "confidence" {
            vars.push(Var::zeros(width, DType::F32, &device)?);
        }
        let model = Arc::new(Model::load(&model.config, &model.weights, DType::F32, &device)?);
        Ok(Self { name, model, vars })
    }

    /// `ids` → the head's outputs `[1, width]`, with a gradient for the head alone.
    fn forward(&self, ids: &[u32]) -> Result<Tensor> {
        let cells = self.model.cells(&[ids.to_vec()], &Mask::causal(ids.len()))?.detach();
        let tensor = |at: usize| self.vars.get(at).map(|var| var.as_tensor().clone());
        let [Some(probes), Some(proj)] = [tensor(0), tensor(1)] else {
            return Err(Error::Unsupported("a head without its parts".into()));
        };
        Head::of(probes, proj, tensor(2)).forward(&cells, &[vec![true; ids.len()]])
    }

    fn train(
        self,
        recipe: &HeadRecipe,
        seed: u64,
        rows: usize,
        mut on_step: impl FnMut(HeadProgress),
        loss: impl Fn(&Self, &[usize]) -> Result<Tensor>,
    ) -> Result<Self> {
        let mut optimiser = AdamW::new(&self.vars)?;
        let schedule = Schedule::new(recipe.learning_rate, recipe.steps);
        let batches_per_epoch = rows.div_ceil(recipe.batch_size.max(1));
        for step in 0..recipe.steps {
            let order = epoch_order(seed, (step / batches_per_epoch) as u64, rows);
            let batch = order.chunks(recipe.batch_size.max(1)).nth(step % batches_per_epoch);
            let loss = loss(&self, batch.unwrap_or_default())?;
            let gradients = loss.backward()?;
            let gradient = |var: &Var| match gradients.get(var) {
                Some(gradient) => Ok(gradient.clone()),
                None => var.zeros_like(),
            };
            let gradients = self
                .vars
                .iter()
                .map(gradient)
                .collect::<candle_core::Result<Vec<_>>>()?;
            optimiser.update(&self.vars, &gradients, schedule.rate(step))?;
            on_step(HeadProgress {
                step: step + 1,
                steps: recipe.steps,
                loss: f64::from(loss.to_scalar::<f32>()?),
            });
        }
        Ok(self)
    }

    fn put_into(self, model: &mut Checkpoint) -> Result<()> {
        for (leaf, var) in ["probes", "proj", "bias"].into_iter().zip(&self.vars) {
            let values = var.flatten_all()?.to_vec1::<f32>()?;
            let weight = Weight::Dense(Dense::from_f32(&values, var.dims()));
            model.weights.insert(format!("heads.{}.{leaf}", self.name), weight);
        }
        if !model.format.heads.contains(&self.name) {
            model.format.heads.push(self.name);
        }
        Ok(())
    }
}
