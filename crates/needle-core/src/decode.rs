//! The loop from a prompt to a completion: logits, a token, the next logits, until something ends it.

use std::time::{Duration, Instant};

use candle_core::{Device, Tensor};
use candle_transformers::generation::{LogitsProcessor, Sampling as Strategy};

use crate::{
    error::{Error, Result},
    grammar::Matcher,
    session::Session,
};

/// How a token is picked from the logits.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Sampling {
    /// The likeliest; of equals, the lowest id. Repeatable everywhere.
    #[default]
    Greedy,
    /// By chance.
    Random {
        /// Above 1 flattens the odds, below 1 sharpens them; 0.0001 to 10000.
        temperature: f64,
        /// Only the `k` likeliest, at least 1.
        top_k: Option<usize>,
        /// Only the likeliest that together reach this probability, in (0, 1].
        top_p: Option<f64>,
        /// The same seed gives the same tokens on the same device.
        seed: u64,
    },
}

/// Below, sampling is greedy decoding with noise of rounding; above, every token is as likely.
const LEAST_TEMPERATURE: f64 = 1e-4;
const MOST_TEMPERATURE: f64 = 1e4;

impl Sampling {
    fn processor(&self) -> Result<Option<LogitsProcessor>> {
        let Self::Random {
            temperature,
            top_k,
            top_p,
            seed,
        } = *self
        else {
            return Ok(None);
        };
        let refuse = |what: String| Err(Error::Unsupported(what));
        if !(LEAST_TEMPERATURE..=MOST_TEMPERATURE).contains(&temperature) {
            let range = format!("{LEAST_TEMPERATURE} to {MOST_TEMPERATURE}");
            return refuse(format!("temperature: expected {range}, found {temperature}"));
        }
        if top_k == Some(0) {
            return refuse("top_k: expected at least 1, found 0".into());
        }
        if let Some(p) = top_p.filter(|p| !(*p > 0.0 && *p <= 1.0)) {
            return refuse(format!("top_p: expected a number above 0 and at most 1, found {p}"));
        }
        let strategy = match (top_k, top_p) {
            (None, None) => Strategy::All { temperature },
            (Some(k), None) => Strategy::TopK { k, temperature },
            (None, Some(p)) => Strategy::TopP { p, temperature },
            (Some(k), Some(p)) => Strategy::TopKThenTopP { k, p, temperature },
        };
        Ok(Some(LogitsProcessor::from_sampling(seed, strategy)))
    }
}

/// What to do when the window is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// Refuse a prompt that does not fit and end a completion there: nothing is ever forgotten silently.
    #[default]
    Stop,
    /// Let the window move on over everything but the pinned positions.
    Slide,
}

/// How far and in what manner to decode.
#[derive(Clone, Debug)]
pub struct DecodeOptions {
    /// Tokens to produce at most.
    pub max_new_tokens: usize,
    /// Ids that end a completion; they are not part of it.
    pub end_ids: Vec<u32>,
    /// How tokens are picked.
    pub sampling: Sampling,
    /// What happens at the end of the window.
    pub overflow: Overflow,
}

impl DecodeOptions {
    /// Greedy decoding of at most 256 tokens, up to one of these ids.
    pub fn until(end_ids: &[u32]) -> Self {
        let end_ids = end_ids.to_vec();
        Self {
            max_new_tokens: 256,
            end_ids,
            sampling: Sampling::Greedy,
            overflow: Overflow::Stop,
        }
    }
}

/// Why a completion ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StopReason {
    /// The model said so.
    End,
    /// `max_new_tokens` were produced.
    Budget,
    /// The window is full.
    Window,
    /// The caller asked to stop.
    Caller,
}

impl StopReason {
    /// The word used in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::End => "end",
            Self::Budget => "budget",
            Self::Window => "window",
            Self::Caller => "caller",
        }
    }
}

/// The caller's answer to each token of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Go on.
    Continue,
    /// Enough.
    Stop,
}

/// What came of decoding.
#[derive(Clone, Debug)]
pub struct Generated {
    /// The tokens, without the one that ended them.
    pub ids: Vec<u32>,
    /// How many of them the session has taken; the last one usually waits for whatever follows.
    pub taken: usize,
    /// Natural logarithm of each token's probability among the tokens that were allowed: under the model's own distribution
    /// (temperature 1) without a grammar, 0 where the grammar left no choice.
    pub logprobs: Vec<f32>,
    /// Why it ended.
    pub stop: StopReason,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Time for the prompt.
    pub prefill: Duration,
    /// Time for the tokens.
    pub decode: Duration,
}

impl Generated {
    /// Prompt tokens a second.
    pub fn prefill_tokens_per_second(&self) -> f64 {
        self.prompt_tokens as f64 / self.prefill.as_secs_f64().max(f64::EPSILON)
    }

    /// Decoded tokens a second.
    pub fn decode_tokens_per_second(&self) -> f64 {
        self.ids.len() as f64 / self.decode.as_secs_f64().max(f64::EPSILON)
    }
}

/// A grammar at work on one completion.
pub struct Constraint<'a> {
    /// Where the completion stands in the grammar.
    pub matcher: &'a mut Matcher,
    /// The tokenizer on a piece of running text, for stretches that the grammar forces.
    pub encode: &'a dyn Fn(&str) -> Vec<u32>,
}

/// Feeds `prompt` to the session and decodes until something ends it; `on_token` sees every token as it is picked.
///
/// # Errors
/// [`Error::PromptTooLong`] when the prompt leaves no room for a token and the window may not slide; [`Error::Unsupported`] for
/// impossible sampling parameters.
pub fn generate(
    session: &mut Session,
    prompt: &[u32],
    options: &DecodeOptions,
    on_token: impl FnMut(u32) -> Flow,
) -> Result<Generated> {
    decode(session, prompt, options, None, on_token)
}

/// As [`generate`], but only along the grammar: tokens that it forbids cannot be picked, and stretches that it forces are fed
/// to the model in one pass, without asking it. Ends as soon as the calls are closed.
///
/// # Errors
/// As [`generate`], and [`Error::Grammar`] where the grammar's own limits are exceeded.
pub fn generate_within(
    session: &mut Session,
    prompt: &[u32],
    options: &DecodeOptions,
    constraint: Constraint<'_>,
    on_token: impl FnMut(u32) -> Flow,
) -> Result<Generated> {
    decode(session, prompt, options, Some(constraint), on_token)
}

fn decode(
    session: &mut Session,
    prompt: &[u32],
    options: &DecodeOptions,
    mut constraint: Option<Constraint<'_>>,
    mut on_token: impl FnMut(u32) -> Flow,
) -> Result<Generated> {
    let mut processor = options.sampling.processor()?;
    let limit = match options.overflow {
        Overflow::Stop => session.window().capacity().min(session.config().max_seq_len),
        Overflow::Slide => usize::MAX,
    };
    let tokens = session.position() + prompt.len();
    if tokens >= limit {
        return Err(Error::PromptTooLong {
            tokens,
            limit: limit - 1,
        });
    }
    let start = Instant::now();
    let mut logits = session.extend(prompt)?;
    let prefill = start.elapsed();

    let start = Instant::now();
    let (mut ids, mut logprobs) = (Vec::new(), Vec::new());
    let mut taken = 0;
    let stop = 'decoding: loop {
        // One token that the model picks, or as many as the grammar leaves no choice about.
        let (next, logprob) = match forced(constraint.as_mut())? {
            forced if !forced.is_empty() => (forced, 0.0),
            _ => {
                if let Some(constraint) = &mut constraint {
                    constraint.matcher.mask()?.apply(&mut logits);
                }
                let id = pick(&logits, processor.as_mut())?;
                (vec![id], log_probability(&logits, id))
            }
        };
        for id in next {
            if ids.len() == options.max_new_tokens {
                break 'decoding StopReason::Budget;
            }
            if options.end_ids.contains(&id) {
                break 'decoding StopReason::End;
            }
            if let Some(constraint) = &mut constraint {
                constraint.matcher.accept(id)?;
            }
            ids.push(id);
            logprobs.push(logprob);
            if on_token(id) == Flow::Stop {
                break 'decoding StopReason::Caller;
            }
            if constraint
                .as_ref()
                .is_some_and(|constraint| constraint.matcher.is_accepting())
            {
                break 'decoding StopReason::End;
            }
            if session.position() + (ids.len() - taken) >= limit {
                break 'decoding StopReason::Window;
            }
        }
        if ids.len() == options.max_new_tokens {
            break StopReason::Budget;
        }
        logits = session.extend(&ids[taken..])?;
        taken = ids.len();
    };
    Ok(Generated {
        ids,
        taken,
        logprobs,
        stop,
        prompt_tokens: prompt.len(),
        prefill,
        decode: start.elapsed(),
    })
}

fn forced(constraint: Option<&mut Constraint<'_>>) -> Result<Vec<u32>> {
    match constraint {
        Some(Constraint { matcher, encode }) => matcher.forced(encode),
        None => Ok(Vec::new()),
    }
}

fn pick(logits: &[f32], processor: Option<&mut LogitsProcessor>) -> Result<u32> {
    let best = argmax(logits).ok_or_else(|| Error::Unsupported("the model's logits are not finite".into()))?;
    match processor {
        None => Ok(best),
        Some(processor) => {
            // Relative to the likeliest, so that no temperature makes a logit overflow.
            let peak = logits[best as usize];
            let relative: Vec<f32> = logits.iter().map(|logit| logit - peak).collect();
            Ok(processor.sample(&Tensor::new(relative, &Device::Cpu)?)?)
        }
    }
}

/// The first of the largest; `None` where a value is not a number or none is finite.
fn argmax(logits: &[f32]) -> Option<u32> {
    let mut best: Option<(usize, f32)> = None;
    for (id, &logit) in logits.iter().enumerate() {
        if logit.is_nan() {
            return None;
        }
        if best.is_none_or(|(_, top)| logit > top) {
            best = Some((id, logit));
        }
    }
    best.filter(|(_, top)| top.is_finite()).map(|(id, _)| id as u32)
}

/// `ln softmax(logits)[id]`.
fn log_probability(logits: &[f32], id: u32) -> f32 {
    let peak = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let total: f64 = logits.iter().map(|&logit| f64::from(logit - peak).exp()).sum();
    (f64::from(logits[id as usize] - peak) - total.ln()) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_equals_wins_and_nan_is_refused() {
        assert_eq!(argmax(&[1.0, 3.0, 3.0]), Some(1));
        assert_eq!(argmax(&[f32::NEG_INFINITY, -2.0]), Some(1));
        assert_eq!(argmax(&[0.0, f32::NAN]), None);
        assert_eq!(argmax(&[f32::NEG_INFINITY]), None);
    }

    #[test]
    fn log_probabilities_of_two_equal_logits() {
        assert!((log_probability(&[5.0, 5.0], 1) - 0.5f32.ln()).abs() < 1e-7);
    }

    #[test]
    fn impossible_sampling_names_the_parameter() {
        let random = |temperature, top_k, top_p| Sampling::Random {
            temperature,
            top_k,
            top_p,
            seed: 0,
        };
        for (sampling, word) in [
            (random(0.0, None, None), "temperature"),
            (random(f64::NAN, None, None), "temperature"),
            (random(1.0, Some(0), None), "top_k"),
            (random(1.0, None, Some(1.5)), "top_p"),
        ] {
            let error = sampling.processor().map(|_| ()).unwrap_err().to_string();
            assert!(error.starts_with(word), "{error}");
        }
    }
}
