//! Batches asked for by several workers at once until there are enough examples.

use std::{
    collections::{BTreeMap, HashSet},
    ops::Range,
    path::Path,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::{Map, Value};

use super::{
    Source,
    endpoint::{Client, Endpoint, Question, rest},
    reply,
    task::SYSTEM,
};
use crate::{
    data::{self, Caution, Dataset, Row, append_lines, faults, folded},
    error::{Error, Result},
    tool::{ToolCall, ToolSet},
};

/// How much, how fast, how varied.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SynthOptions {
    /// Rows that the file shall hold in the end, those it holds already included.
    pub samples: usize,
    /// Examples that one request asks for.
    pub batch_size: usize,
    /// Requests at once.
    pub workers: usize,
    /// The large model's randomness.
    pub temperature: f64,
    /// The same seed asks the same questions.
    pub seed: u64,
}

impl Default for SynthOptions {
    fn default() -> Self {
        Self {
            samples: 100,
            batch_size: 25,
            workers: 16,
            temperature: 0.9,
            seed: 0,
        }
    }
}

/// What happens meanwhile.
#[non_exhaustive]
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// Rows were added to the file, which now holds `rows`.
    Added {
        /// Rows in the file.
        rows: usize,
    },
    /// A request waits before it is sent again.
    Waiting {
        /// Why.
        reason: &'a str,
        /// For how long.
        wait: Duration,
    },
    /// A request was given up.
    Failed {
        /// Why.
        reason: &'a str,
    },
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Generated {
    /// Rows that the file held before.
    pub kept: usize,
    /// Rows added.
    pub added: usize,
    /// Examples that asked what another one asks.
    pub duplicates: usize,
    /// Examples that were no good, by reason.
    pub rejected: BTreeMap<String, usize>,
    /// Requests answered.
    pub batches: usize,
    /// Requests given up.
    pub failed: usize,
}

/// Batches asked for at most, for every batch that would do if all of it were good.
const MOST_ROUNDS: usize = 3;
/// How often a worker looks whether another request is of use.
const LOOK: Duration = Duration::from_millis(20);
/// Requests given up one after the other before the whole run is.
const MOST_FAILURES: usize = 3;

/// Fills `output` up to the number of rows asked for. What the file holds is kept and counts; each answer's rows are added at
/// once, so that a run that is stopped loses nothing that was paid for.
///
/// Fewer rows than asked for are no error: see [`Generated`]. The large model may run dry.
///
/// # Errors
/// [`Error::Hub`] where the endpoint refuses (a wrong key, no such model) or three requests in a row fail; [`Error::Io`] for the
/// file; [`Error::Unsupported`] for options or rows that nothing can be made of.
pub fn generate(
    endpoint: &Endpoint,
    source: &Source,
    output: &Path,
    options: &SynthOptions,
    on_event: impl FnMut(Event<'_>) + Send,
) -> Result<Generated> {
    expect_usable(source, options)?;
    let client = Client::new(endpoint)?;
    let (mut asked, mut kept) = (HashSet::new(), 0);
    if output.exists() {
        let before = Dataset::open(output)?;
        kept = before.rows.len();
        asked.extend(before.rows.iter().map(|row| folded(&row.example.query)));
    }
    if let Source::Rows(rows) = source {
        asked.extend(rows.iter().map(|row| folded(&row.example.query)));
    }
    let wanted = options.samples.saturating_sub(kept);
    let most = MOST_ROUNDS * wanted.div_ceil(options.batch_size);
    // Another run on the same file asks other questions than the one before.
    let seed = options.seed.wrapping_add(kept as u64);
    let stop = AtomicBool::new(wanted == 0);
    let desk = Mutex::new(Desk {
        found: Generated {
            kept,
            ..Generated::default()
        },
        asked,
        wanted,
        asks: 0..most,
        in_flight: 0,
        in_a_row: 0,
        failure: None,
        on_event,
    });
    let work = || {
        while !stop.load(Ordering::Relaxed) {
            let turn = lock(&desk).turn(options.batch_size);
            let batch = match turn {
                Turn::Ask(batch) => batch,
                Turn::Never => break,
                Turn::Later => {
                    rest(LOOK, || stop.load(Ordering::Relaxed));
                    continue;
                }
            };
            let answer = source.task(seed, batch, options.batch_size).and_then(|task| {
                let question = Question {
                    system: SYSTEM,
                    user: &task.user,
                    temperature: options.temperature,
                    seed: task.seed,
                };
                let text = client.ask(&question, |reason, wait| {
                    (lock(&desk).on_event)(Event::Waiting { reason, wait });
                    rest(wait, || stop.load(Ordering::Relaxed))
                })?;
                Ok((task.tools, text))
            });
            let done = match answer {
                Ok((tools, text)) => lock(&desk).take(&tools, &text, output),
                // Whoever was stopped while waiting has failed at nothing.
                Err(_) if stop.load(Ordering::Relaxed) => break,
                Err(error) => lock(&desk).fail(error),
            };
            if done == Done::Yes {
                stop.store(true, Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..options.workers.min(most) {
            scope.spawn(work);
        }
        work();
    });
    let desk = desk.into_inner().unwrap_or_else(PoisonError::into_inner);
    match desk.failure {
        Some(error) => Err(error),
        None => Ok(desk.found),
    }
}

fn expect_usable(source: &Source, options: &SynthOptions) -> Result<()> {
    let refuse = |what: &str| Err(Error::Unsupported(what.into()));
    match source {
        _ if options.batch_size == 0 || options.workers == 0 => refuse("batch size and workers: expected at least 1"),
        Source::Tools(tools) if tools.is_empty() => refuse("there are no tools to write examples for"),
        Source::Rows(rows) if rows.is_empty() => refuse("there are no rows to add others to"),
        Source::Rows(rows) if rows.iter().any(|row| row.tools.is_none()) => {
            refuse("a row has tools that cannot be honoured, so nothing could be checked against them")
        }
        _ => Ok(()),
    }
}

/// What a worker does next.
#[derive(Clone, Copy)]
enum Turn {
    /// Make the request of this number.
    Ask(usize),
    /// Wait for those under way.
    Later,
    /// Go.
    Never,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Done {
    Yes,
    No,
}

/// Where the workers hand in what came back.
struct Desk<F> {
    found: Generated,
    /// What has been asked, folded.
    asked: HashSet<String>,
    wanted: usize,
    /// Requests yet to be made at most.
    asks: Range<usize>,
    /// Requests under way.
    in_flight: usize,
    in_a_row: usize,
    failure: Option<Error>,
    on_event: F,
}

impl<F: FnMut(Event<'_>)> Desk<F> {
    /// What a worker does next. Another request is of use as long as those under way do not bring what is still wanted and
    /// 30 % more, which is about what is left out as a rule.
    fn turn(&mut self, batch_size: usize) -> Turn {
        if self.asks.is_empty() {
            return Turn::Never;
        }
        let left = self.wanted - self.found.added;
        if self.in_flight * batch_size * 10 >= left * 13 {
            return Turn::Later;
        }
        self.in_flight += 1;
        self.asks.next().map_or(Turn::Never, Turn::Ask)
    }

    /// The good examples of an answer go to the file.
    fn take(&mut self, tools: &ToolSet, text: &str, output: &Path) -> Done {
        self.in_flight -= 1;
        self.found.batches += 1;
        self.in_a_row = 0;
        let objects = reply::objects(text);
        if objects.is_empty() {
            self.reject("an answer without examples");
        }
        let mut lines = Vec::new();
        for object in objects {
            if self.found.added + lines.len() == self.wanted {
                break;
            }
            match row(tools, &object) {
                Ok(row) if !self.asked.insert(folded(&row.example.query)) => self.found.duplicates += 1,
                Ok(row) => lines.push(row.to_line()),
                Err(reason) => self.reject(reason),
            }
        }
        if !lines.is_empty() {
            if let Err(error) = append_lines(output, lines.iter().map(String::as_str)) {
                self.failure.get_or_insert(error);
                return Done::Yes;
            }
            self.found.added += lines.len();
            let rows = self.found.kept + self.found.added;
            (self.on_event)(Event::Added { rows });
        }
        match self.found.added == self.wanted {
            true => Done::Yes,
            false => Done::No,
        }
    }

    fn fail(&mut self, error: Error) -> Done {
        self.in_flight -= 1;
        self.found.failed += 1;
        self.in_a_row += 1;
        (self.on_event)(Event::Failed {
            reason: &error.to_string(),
        });
        if self.in_a_row < MOST_FAILURES && may_pass(&error) {
            return Done::No;
        }
        self.failure.get_or_insert(error);
        Done::Yes
    }

    fn reject(&mut self, reason: &str) {
        *self.found.rejected.entry(reason.to_owned()).or_default() += 1;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether another request may fare better.
fn may_pass(error: &Error) -> bool {
    use crate::error::HubFault::{Network, RateLimited, Server};
    matches!(
        error,
        Error::Hub {
            fault: Network | RateLimited | Server,
            ..
        }
    )
}

/// An example as a row, or why it is none.
fn row(tools: &ToolSet, object: &Value) -> std::result::Result<Row, &'static str> {
    let query = match object["query"].as_str().map(str::trim) {
        Some(query) if !query.is_empty() => query,
        _ => return Err("no query"),
    };
    let answers = object.get("answers").or_else(|| object.get("function_calls"));
    let answers = answers.ok_or("no answers")?;
    let calls = data::calls(answers).map_err(|_| "answers that are no list of calls")?;
    let calls: Vec<ToolCall> = calls.into_iter().map(|call| in_order(tools, call)).collect();
    let wrong = faults(tools, &calls)
        .into_iter()
        .any(|fault| matches!(fault, Caution::Answer(_)));
    match wrong {
        true => Err("a call that its tool's schema rejects"),
        false => Ok(Row::new(tools, query, calls)),
    }
}

/// The call with its arguments in declared order, which is the grammar's.
fn in_order(tools: &ToolSet, mut call: ToolCall) -> ToolCall {
    let parameters = tools.find(&call.name).map(|tool| &tool.to_json()["parameters"]);
    let declared = parameters.map(|parameters| parameters.get("properties").unwrap_or(parameters));
    if let (Some(Value::Object(declared)), Some(given)) = (declared, call.arguments.as_object_mut()) {
        let mut ordered = Map::new();
        for key in declared.keys() {
            if let Some(value) = given.shift_remove(key) {
                ordered.insert(key.clone(), value);
            }
        }
        ordered.append(given);
        call.arguments = ordered.into();
    }
    call
}
