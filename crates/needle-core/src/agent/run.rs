//! The loop that carries calls out and hands the results back, until the model has nothing more to call.

use serde_json::{Value, json};

use super::{Needle, turn::Input};
use crate::{
    decode::Flow,
    error::Result,
    grounding, json,
    response::{ErrorCode, Response},
    tool::ToolCall,
};

/// Turns of a run unless told otherwise, as the reference has it.
const MAX_STEPS: usize = 8;

/// How a run treats calls whose arguments contradict the user's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strictness {
    /// They are marked in the response, and carried out.
    #[default]
    Lenient,
    /// They are not carried out: the tool's result is an error that names the arguments.
    Strict,
}

/// How far a run goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunOptions {
    /// Rounds of calls that are carried out at most; 0 carries nothing out.
    pub max_steps: usize,
    /// What happens to calls that contradict the user's words.
    pub strictness: Strictness,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            max_steps: MAX_STEPS,
            strictness: Strictness::Lenient,
        }
    }
}

impl Needle {
    /// Answers a query, carries its calls out with the tools' handlers, tells the model the results, and so on until it calls
    /// nothing more. The response lists all calls that were made, and their results in the same order.
    ///
    /// A handler's error, an unknown tool and a tool without a handler become `{"error": …}`, which the model reads. A turn
    /// that repeats the calls of the turn before it ends the run: nothing new would come of it.
    ///
    /// # Errors
    /// As [`Needle::complete`].
    pub fn run(&mut self, query: &str) -> Result<Response> {
        self.run_with(query, RunOptions::default(), |_| Flow::Continue)
    }

    /// As [`Needle::run`] with a limit, strictness and a stream of the completions' text.
    ///
    /// # Errors
    /// As [`Needle::complete`].
    pub fn run_with(
        &mut self,
        query: &str,
        options: RunOptions,
        mut on_text: impl FnMut(&str) -> Flow,
    ) -> Result<Response> {
        let mut response = self.complete_streaming(query, &mut on_text)?;
        let (mut made, mut results): (Vec<ToolCall>, Vec<Value>) = (Vec::new(), Vec::new());
        let validation = response.validation.clone();
        let mut latest: Vec<ToolCall> = Vec::new();
        for step in 1.. {
            if step > options.max_steps {
                break;
            }
            let calls = std::mem::take(&mut response.function_calls);
            if !response.success || calls.is_empty() || calls == latest {
                break;
            }
            let held = match (step, options.strictness) {
                (1, Strictness::Strict) => self.contradictions(query, &validation.ungrounded, &calls),
                _ => vec![Vec::new(); calls.len()],
            };
            let new: Vec<Value> = calls
                .iter()
                .zip(held)
                .map(|(call, held)| self.carry_out(call, &held))
                .collect();
            made.extend(calls.iter().cloned());
            results.extend(new.iter().cloned());
            let told = json::compact(&Value::Array(new));
            self.sources.note_result(&told);
            let kind = response.kind;
            match self.turn(Input::Results(&told), &mut on_text) {
                Ok(next) => response = next,
                // What was carried out is never lost: the answer says where it stopped.
                Err(error) => {
                    (response.success, response.error_code) = (false, Some(ErrorCode::Interrupted));
                    response.error = Some(format!("the results could not be told to the model: {error}"));
                    break;
                }
            }
            if step == options.max_steps && step > 1 && !response.function_calls.is_empty() {
                let why = format!("the model still called tools after {step} rounds");
                (response.success, response.error_code, response.error) = (false, Some(ErrorCode::MaxSteps), Some(why));
            }
            if response.success && response.function_calls.is_empty() {
                response.kind = kind;
            }
            latest = calls;
        }
        if options.max_steps > 0 {
            response.function_calls = made;
        }
        response.results = results;
        response.validation = validation;
        Ok(response)
    }

    /// The result of one call, or what kept it from being carried out.
    fn carry_out(&self, call: &ToolCall, held: &[String]) -> Value {
        if !held.is_empty() {
            return json!({ "error": format!("ungrounded {}", held.join(", ")) });
        }
        let Some(tool) = self.tools.find(&call.name) else {
            return json!({ "error": format!("there is no tool {}", call.name) });
        };
        let Some(handler) = tool.callback() else {
            return json!({ "error": format!("tool {} has no handler", call.name) });
        };
        match handler(&call.arguments) {
            Ok(value) => value,
            Err(error) => json!({ "error": error.to_string() }),
        }
    }

    /// For each call, the marked arguments that nothing in the user's words forgives.
    fn contradictions(&self, query: &str, marked: &[String], calls: &[ToolCall]) -> Vec<Vec<String>> {
        let of = |call: &ToolCall| {
            let prefix = format!("{}.", call.name);
            let own: Vec<String> = marked
                .iter()
                .filter(|path| path.starts_with(&prefix))
                .cloned()
                .collect();
            grounding::unforgiven(&self.sources, query, &call.name, &call.arguments, &own)
        };
        calls.iter().map(of).collect()
    }
}
