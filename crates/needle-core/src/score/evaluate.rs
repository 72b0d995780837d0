//! A model asked every case, by several sessions at once.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use super::{Case, Outcome, Report, compare};
use crate::{
    agent::Needle,
    engine::Engine,
    error::{Error, Result},
    json::compact,
};

pub use crate::agent::Form;

/// How cases are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvalOptions {
    /// Along the grammar of the tools, or as the model likes.
    pub form: Form,
    /// Sessions at once; one a core on the CPU and one elsewhere unless chosen.
    pub sessions: Option<usize>,
    /// Tokens that a completion may take; 256 unless chosen.
    pub max_new_tokens: usize,
}

impl Default for EvalOptions {
    fn default() -> Self {
        Self {
            form: Form::Constrained,
            sessions: None,
            max_new_tokens: 256,
        }
    }
}

/// How far an evaluation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Cases answered.
    pub done: usize,
    /// Those of them that were exact.
    pub exact: usize,
    /// Cases in all.
    pub total: usize,
}

/// Cases that share their prompt's beginning are asked by one session, as many as this, which reads it once.
const MOST_TOGETHER: usize = 8;

/// Asks every case, greedily and each by itself, and counts. The report does not depend on the number of sessions.
///
/// # Errors
/// Whatever the device refuses. What is one case's own affair (a prompt that does not fit, tools that cannot be honoured) is a
/// fault in its outcome.
pub fn evaluate(
    engine: &Arc<Engine>,
    cases: &[Case],
    options: &EvalOptions,
    on_progress: impl FnMut(Progress) + Send,
) -> Result<Report> {
    let start = Instant::now();
    let units = units(cases);
    let on_cpu = engine.device().device.is_cpu();
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let sessions = options.sessions.unwrap_or(if on_cpu { cores } else { 1 });
    let next = AtomicUsize::new(0);
    let desk = Mutex::new(Desk {
        outcomes: vec![None; cases.len()],
        progress: Progress {
            done: 0,
            exact: 0,
            total: cases.len(),
        },
        on_progress,
        failure: None,
    });
    let work = || {
        while let Some(unit) = units.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(error) = ask(engine, cases, unit, options, |at, outcome| {
                lock(&desk).take(at, outcome)
            }) {
                lock(&desk).failure.get_or_insert(error);
                next.store(units.len(), Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..sessions.min(units.len()) {
            scope.spawn(work);
        }
        work();
    });
    let desk = desk.into_inner().unwrap_or_else(PoisonError::into_inner);
    match desk.failure {
        Some(error) => Err(error),
        None => {
            let outcomes = desk.outcomes.into_iter().flatten().collect();
            Ok(Report::new(engine, options.form, outcomes, start.elapsed()))
        }
    }
}

/// Where the sessions hand in what they found.
struct Desk<F> {
    outcomes: Vec<Option<Outcome>>,
    progress: Progress,
    on_progress: F,
    failure: Option<Error>,
}

impl<F: FnMut(Progress)> Desk<F> {
    fn take(&mut self, at: usize, outcome: Outcome) {
        self.progress.done += 1;
        self.progress.exact += usize::from(outcome.comparison.exact);
        self.outcomes[at] = Some(outcome);
        (self.on_progress)(self.progress);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The cases by the beginning of their prompt, in order of appearance.
fn units(cases: &[Case]) -> Vec<Vec<usize>> {
    let mut open: HashMap<(String, &str), usize> = HashMap::new();
    let mut units: Vec<Vec<usize>> = Vec::new();
    for (at, case) in cases.iter().enumerate() {
        let tools = match &case.tools {
            Ok(tools) => compact(&tools.to_json()),
            Err(_) => String::new(),
        };
        let place = open
            .entry((tools, case.system.as_deref().unwrap_or_default()))
            .or_insert(usize::MAX);
        match units.get_mut(*place) {
            Some(unit) if unit.len() < MOST_TOGETHER => unit.push(at),
            _ => {
                *place = units.len();
                units.push(vec![at]);
            }
        }
    }
    units
}

fn ask(
    engine: &Arc<Engine>,
    cases: &[Case],
    unit: &[usize],
    options: &EvalOptions,
    mut found: impl FnMut(usize, Outcome),
) -> Result<()> {
    let Some(first) = unit.first().map(|&at| &cases[at]) else {
        return Ok(());
    };
    let mut agent = match &first.tools {
        Ok(tools) => {
            let mut builder = Needle::builder().engine(engine).tools(tools).stateless();
            builder = builder
                .top_tools(tools.len().max(1))
                .max_new_tokens(options.max_new_tokens);
            if let Some(system) = &first.system {
                builder = builder.system(system);
            }
            if options.form == Form::Free {
                builder = builder.free_form();
            }
            own_affair(builder.build())?
        }
        Err(reason) => Err(reason.clone()),
    };
    for &at in unit {
        let case = &cases[at];
        let answer = match &mut agent {
            Ok(agent) => own_affair(agent.complete(&case.query))?,
            Err(reason) => Err(reason.clone()),
        };
        let mut outcome = Outcome::of(case);
        match answer {
            Ok(response) => {
                outcome.confidence = response.confidence;
                outcome.fault = response.error;
                outcome.made = match outcome.fault {
                    None => response.function_calls,
                    Some(_) => response.suppressed_calls,
                };
            }
            Err(reason) => outcome.fault = Some(reason),
        }
        if outcome.fault.is_none() {
            outcome.comparison = compare(&case.expected, &outcome.made, case.wording);
        } else {
            outcome.comparison.arguments.wanted = compare(&case.expected, &[], case.wording).arguments.wanted;
        }
        found(at, outcome);
    }
    Ok(())
}

/// An error that is about one case, as its reason; any other one ends the evaluation.
fn own_affair<T>(result: Result<T>) -> Result<std::result::Result<T, String>> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(error @ (Error::PromptTooLong { .. } | Error::Grammar(_) | Error::Schema { .. } | Error::Tools(_))) => {
            Ok(Err(error.to_string()))
        }
        Err(error) => Err(error),
    }
}
