//! What an evaluation found: each case's outcome, and the counts over all of them and over each kind.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::{ArgumentCounts, Case, Comparison, Form, Reliability, Share};
use crate::{engine::Engine, tool::ToolCall};

/// What became of one case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The case.
    pub id: String,
    /// Its kind.
    pub category: String,
    /// The user's words.
    pub query: String,
    /// The calls that were wanted.
    pub expected: Vec<Value>,
    /// The calls that were made.
    pub made: Vec<ToolCall>,
    /// How they compare.
    #[serde(flatten)]
    pub comparison: Comparison,
    /// How sure the model was, where the weights carry a head for it.
    pub confidence: Option<f32>,
    /// Why there is no whole answer.
    pub fault: Option<String>,
}

impl Outcome {
    pub(super) fn of(case: &Case) -> Self {
        Self {
            id: case.id.clone(),
            category: case.category.clone(),
            query: case.query.clone(),
            expected: case.expected.iter().map(|call| call.to_json()).collect(),
            made: Vec::new(),
            comparison: Comparison::default(),
            confidence: None,
            fault: None,
        }
    }
}

/// Counts over some cases.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Scores {
    /// What they have in common.
    pub name: String,
    /// Exact calls, refusals included.
    pub exact: Share,
    /// Of the cases that want calls: the right tools.
    pub tools: Share,
    /// Of the arguments given: the right ones.
    pub argument_precision: Share,
    /// Of the arguments wanted: those given right.
    pub argument_recall: Share,
    /// Of the cases that want no call: those without one.
    pub refusals: Share,
    /// Cases without a whole answer.
    pub faults: usize,
}

impl Scores {
    /// Counts these outcomes.
    pub fn of<'a>(name: &str, outcomes: impl IntoIterator<Item = &'a Outcome>) -> Self {
        let mut scores = Self {
            name: name.to_owned(),
            ..Self::default()
        };
        for outcome in outcomes {
            let Comparison {
                exact,
                tools,
                arguments: ArgumentCounts { right, given, wanted },
            } = outcome.comparison;
            scores.exact.count(exact);
            match outcome.expected.is_empty() {
                true => scores.refusals.count(exact),
                false => scores.tools.count(tools),
            }
            scores.argument_precision.right += right;
            scores.argument_precision.n += given;
            scores.argument_recall.right += right;
            scores.argument_recall.n += wanted;
            scores.faults += usize::from(outcome.fault.is_some());
        }
        scores
    }
}

/// What an evaluation found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The weights' file.
    pub model: String,
    /// Where they ran.
    pub device: String,
    /// The type they computed in.
    pub dtype: String,
    /// Whether calls were decoded along the grammar: `constrained` or `free`.
    pub form: &'static str,
    /// All cases.
    pub overall: Scores,
    /// Each category, by name.
    pub categories: Vec<Scores>,
    /// Each tool that a case wants first, by name.
    pub tools: Vec<Scores>,
    /// Confidence against truth, where the weights carry a confidence head.
    pub reliability: Option<Reliability>,
    /// How long it took.
    pub elapsed_ms: u64,
    /// Each case, in order. Not part of the JSON.
    #[serde(skip)]
    pub outcomes: Vec<Outcome>,
}

impl Report {
    pub(super) fn new(engine: &Engine, form: Form, outcomes: Vec<Outcome>, elapsed: Duration) -> Self {
        let tool = |outcome: &Outcome| {
            let first = outcome.expected.first();
            Some(first?["name"].as_str()?.to_owned())
        };
        Self {
            model: engine.source().to_owned(),
            device: engine.device().name.clone(),
            dtype: engine.runner().dtype().as_str().to_owned(),
            form: match form {
                Form::Constrained => "constrained",
                Form::Free => "free",
            },
            overall: Scores::of("all", &outcomes),
            categories: by(&outcomes, |outcome| Some(outcome.category.clone())),
            tools: by(&outcomes, tool),
            reliability: Reliability::of(&outcomes),
            elapsed_ms: elapsed.as_millis() as u64,
            outcomes,
        }
    }

    /// The outcomes that are not exact: faults first, then wrong tools, then wrong arguments; in order otherwise.
    pub fn errors(&self) -> Vec<&Outcome> {
        let mut wrong: Vec<&Outcome> = self
            .outcomes
            .iter()
            .filter(|outcome| !outcome.comparison.exact)
            .collect();
        wrong.sort_by_key(|outcome| (outcome.fault.is_none(), outcome.comparison.tools));
        wrong
    }
}

/// Counts for each name that outcomes give, in order of the names.
fn by(outcomes: &[Outcome], name: impl Fn(&Outcome) -> Option<String>) -> Vec<Scores> {
    let mut groups: std::collections::BTreeMap<String, Vec<&Outcome>> = Default::default();
    for outcome in outcomes {
        if let Some(name) = name(outcome) {
            groups.entry(name).or_default().push(outcome);
        }
    }
    let scores = groups
        .iter()
        .map(|(name, outcomes)| Scores::of(name, outcomes.iter().copied()));
    scores.collect()
}
