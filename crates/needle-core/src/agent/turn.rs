//! One turn: choose the tools, render, decode along the grammar, take the completion apart, check it.

use super::{Form, Needle, Statefulness};
use crate::{
    decode::{Constraint, DecodeOptions, Flow, Generated, Overflow, StopReason, generate, generate_within},
    device,
    error::Result,
    grammar::{Grammar, GrammarOptions, Matcher},
    grounding, json,
    prompt::{self, Prompt, Turn},
    response::{ErrorCode, Response, ResponseType, Validation},
    tool::{ToolCall, ToolSet},
};

/// Unrelated queries pile up in one conversation from this one on, and answers get worse.
const MANY_QUERIES: usize = 5;

/// What a turn begins with.
#[derive(Clone, Copy)]
pub(super) enum Input<'a> {
    /// The user's words.
    Query(&'a str),
    /// What the tools gave back, as JSON.
    Results(&'a str),
}

impl Input<'_> {
    fn text(&self) -> &str {
        match self {
            Self::Query(text) | Self::Results(text) => text,
        }
    }
}

impl Needle {
    pub(super) fn turn(&mut self, input: Input<'_>, mut on_text: impl FnMut(&str) -> Flow) -> Result<Response> {
        let offered = self.offer(input)?;
        self.offered.clone_from(&offered);
        let engine = self.engine.clone();
        let tokenizer = engine.tokenizer();
        let tools = json::compact(&self.tools_json(&offered));
        let first = Prompt {
            system: self.facts.as_deref(),
            tools: &tools,
            query: input.text(),
        };
        let first = first.render().encode(tokenizer);
        let (pinned, alone) = first.ids.split_at(first.pinned);
        let turn = match (self.conversation.is_empty(), input) {
            (true, _) => alone.to_vec(),
            (false, Input::Query(query)) => Turn::User(query).encode(tokenizer),
            (false, Input::Results(results)) => Turn::ToolResult(results).encode(tokenizer),
        };

        let mut matcher = match self.settings.form {
            Form::Constrained => Some(self.matcher_for(&offered)?),
            Form::Free => None,
        };
        let ready = self.conversation.prepare(engine.runner(), pinned, &turn)?;
        let budget = self.settings.max_new_tokens.min(ready.room);
        let options = DecodeOptions {
            max_new_tokens: budget,
            end_ids: engine.end_ids(),
            sampling: self.settings.sampling.clone(),
            overflow: Overflow::Slide,
        };
        let mut stream = tokenizer.stream();
        let mut on_token = |id| match stream.push(id) {
            text if text.is_empty() => Flow::Continue,
            text => on_text(&text),
        };
        let decoded = match &mut matcher {
            Some(matcher) => {
                let encode = |text: &str| tokenizer.encode_continuation(text);
                let constraint = Constraint {
                    matcher,
                    encode: &encode,
                };
                generate_within(ready.session, &ready.feed, &options, constraint, &mut on_token)
            }
            None => generate(ready.session, &ready.feed, &options, &mut on_token),
        };
        let (read, reading) = (ready.read, ready.reading);
        let mut decoded = match decoded {
            Ok(decoded) => decoded,
            Err(error) => {
                self.conversation.abandon();
                return Err(error);
            }
        };
        let rest = stream.finish();
        if decoded.stop != StopReason::Caller && !rest.is_empty() {
            on_text(&rest);
        }
        decoded.prompt_tokens += read;
        decoded.prefill += reading;
        if decoded.stop == StopReason::Budget && budget < self.settings.max_new_tokens {
            decoded.stop = StopReason::Window;
        }
        if let Some(matcher) = matcher {
            self.matcher = Some((offered.clone(), matcher));
        }

        let end_of_turn = tokenizer.id(prompt::IM_END).unwrap_or(tokenizer.eos_id());
        let waiting: Vec<u32> = decoded.ids[decoded.taken..]
            .iter()
            .copied()
            .chain([end_of_turn])
            .collect();
        let recorded = [turn.as_slice(), &decoded.ids, &[end_of_turn]].concat();
        self.conversation.record(recorded, waiting);

        let scored = [&first.ids, decoded.ids.as_slice()].concat();
        let mut response = self.respond(input, &decoded, &scored)?;
        response.offered_tools = (offered.len() < self.tools.len()).then_some(offered);
        Ok(response)
    }

    /// The names of the tools that this turn offers: all, or the nearest few of many.
    fn offer(&self, input: Input<'_>) -> Result<Vec<String>> {
        match (&self.index, input) {
            (Some(index), Input::Query(query)) => index.nearest(&self.engine, query, self.settings.top_tools),
            // The results of a call are read with the tools that made it.
            (Some(_), Input::Results(_)) => Ok(self.offered.clone()),
            _ => Ok(self.tools.tools().map(|tool| tool.name().to_owned()).collect()),
        }
    }

    fn tools_json(&self, offered: &[String]) -> serde_json::Value {
        let chosen = offered.iter().filter_map(|name| self.tools.find(name));
        chosen.map(|tool| tool.to_json().clone()).collect()
    }

    /// A matcher at its beginning, for the offered tools; the last turn's where they are the same.
    pub(super) fn matcher_for(&mut self, offered: &[String]) -> Result<Matcher> {
        if let Some((names, mut matcher)) = self.matcher.take()
            && names == offered
        {
            matcher.reset();
            return Ok(matcher);
        }
        let options = GrammarOptions {
            names: Some(offered.to_vec()),
            most_calls: self.settings.most_calls,
            ..GrammarOptions::default()
        };
        Ok(Grammar::compile(&self.tools, self.engine.vocabulary()?, &options)?.matcher())
    }

    /// The envelope around what was decoded; `scored` is the prompt, formatted as a first one, with the completion.
    fn respond(&self, input: Input<'_>, decoded: &Generated, scored: &[u32]) -> Result<Response> {
        let text = self.engine.tokenizer().decode(&decoded.ids);
        let parsed = prompt::parse_completion(&text);
        let mut response = Response {
            kind: ResponseType::Respond,
            success: true,
            error: None,
            error_code: None,
            function_calls: Vec::new(),
            suppressed_calls: Vec::new(),
            reasoning: parsed.reasoning.map(str::to_owned),
            confidence: None,
            validation: Validation::default(),
            results: Vec::new(),
            text: [parsed.text, parsed.rest].concat(),
            offered_tools: None,
            warnings: self.warnings(),
            stop_reason: decoded.stop,
            prompt_tokens: decoded.prompt_tokens,
            completion_tokens: decoded.ids.len(),
            prefill_tps: decoded.prefill_tokens_per_second(),
            decode_tps: decoded.decode_tokens_per_second(),
            peak_ram_mb: device::peak_ram_mb(),
            device: self.engine.device().name.clone(),
            dtype: self.engine.runner().dtype().as_str().to_owned(),
        };
        let fail = |response: &mut Response, code, error: String| {
            (response.success, response.error_code, response.error) = (false, Some(code), Some(error));
        };
        match (decoded.stop, parsed.calls_json) {
            (StopReason::Budget, _) => {
                let why = format!(
                    "the budget of {} tokens ended before the completion did",
                    decoded.ids.len()
                );
                fail(&mut response, ErrorCode::Truncated, why);
            }
            (StopReason::Window, _) => {
                fail(
                    &mut response,
                    ErrorCode::Truncated,
                    "the window ended before the completion did".into(),
                );
            }
            (StopReason::Caller, _) => fail(
                &mut response,
                ErrorCode::Cancelled,
                "the caller stopped the stream".into(),
            ),
            (StopReason::End, _) if !parsed.closed => {
                let why = "the completion ended inside a block that it had begun".to_owned();
                fail(&mut response, ErrorCode::InvalidCall, why);
            }
            (StopReason::End, None) => {}
            (StopReason::End, Some(json)) => match checked(&self.tools, json) {
                Ok(calls) if calls.is_empty() && matches!(input, Input::Query(_)) => {
                    response.kind = ResponseType::Refuse
                }
                Ok(calls) => response.function_calls = calls,
                Err((calls, why)) => {
                    response.suppressed_calls = calls;
                    fail(&mut response, ErrorCode::InvalidCall, why);
                }
            },
        }
        if response.success {
            response.confidence = self.confidence(decoded, scored)?;
        }
        response.validation = self.validate(input, &response.function_calls);
        if !response.function_calls.is_empty() {
            response.kind = ResponseType::Call;
            if let (Some(least), Some(confidence)) = (self.settings.min_confidence, response.confidence)
                && confidence < least
            {
                response.suppressed_calls = std::mem::take(&mut response.function_calls);
            }
        }
        Ok(response)
    }

    /// The smaller of the head's probability and the geometric mean of the probabilities of the tokens that were a choice;
    /// `None` without a head.
    fn confidence(&self, decoded: &Generated, scored: &[u32]) -> Result<Option<f32>> {
        let Some(logit) = self.engine.runner().confidence(scored)? else {
            return Ok(None);
        };
        let head = 1.0 / (1.0 + (-logit).exp());
        // Tokens that the grammar forced were no choice, so they do not make a call look surer.
        let choices: Vec<f32> = decoded
            .logprobs
            .iter()
            .copied()
            .filter(|logprob| *logprob != 0.0)
            .collect();
        let mean = choices.iter().sum::<f32>() / choices.len().max(1) as f32;
        Ok(Some(head.min(mean.exp())))
    }

    fn validate(&self, input: Input<'_>, calls: &[ToolCall]) -> Validation {
        let Input::Query(query) = input else {
            return Validation::default();
        };
        let mut ungrounded = Vec::new();
        for call in calls {
            let Some(tool) = self.tools.find(&call.name) else {
                continue;
            };
            let schema = &tool.to_json()["parameters"];
            for path in grounding::ungrounded(&self.sources, query, &call.name, schema, &call.arguments) {
                if !ungrounded.contains(&path) {
                    ungrounded.push(path);
                }
            }
        }
        Validation {
            ungrounded,
            negation: grounding::negation(query),
        }
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.settings.statefulness == Statefulness::Conversation && self.queries >= MANY_QUERIES {
            let queries = self.queries;
            warnings.push(format!(
                "{queries} queries in one conversation: unrelated ones make answers worse; call reset() between them or build \
                 the agent stateless"
            ));
        }
        if self.index.is_none() && self.tools.len() > self.settings.top_tools {
            let (tools, top) = (self.tools.len(), self.settings.top_tools);
            warnings.push(format!(
                "all {tools} tools are offered at once: the weights carry no retrieval head that could choose {top} of them"
            ));
        }
        warnings
    }
}

/// The calls of a completion, or the reason why one of them may not be carried out, with those that could be read.
fn checked(tools: &ToolSet, json: &str) -> std::result::Result<Vec<ToolCall>, (Vec<ToolCall>, String)> {
    let calls = ToolCall::parse_list(json).map_err(|error| (Vec::new(), error.to_string()))?;
    let wrong = calls.iter().find_map(|call| tools.check_call(call).err());
    match wrong {
        Some(error) => Err((calls, error.to_string())),
        None => Ok(calls),
    }
}
