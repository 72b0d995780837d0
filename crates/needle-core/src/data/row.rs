//! One line as a row: read, put into the form that the model meets when it serves, and held against its own tools.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::{Caution, calls, calls::kind};
use crate::{
    json::compact,
    prompt::Example,
    tool::{ToolCall, ToolSet},
};

/// A line that can be used.
#[derive(Clone, Debug)]
pub struct Row {
    /// The line it stands on, from 1.
    pub line: usize,
    /// What kind of example it is, where the line says so under `category`.
    pub category: Option<String>,
    /// The prompt and the answer that is wanted, in compact spelling.
    pub example: Example,
    /// The tools; `None` where the grammar cannot honour them, which is a warning.
    pub tools: Option<ToolSet>,
    /// The calls that are wanted, in order; none for a refusal.
    pub calls: Vec<ToolCall>,
}

impl Row {
    /// A row of its parts, not held against the tools.
    pub fn new(tools: &ToolSet, query: impl Into<String>, calls: Vec<ToolCall>) -> Self {
        let example = Example {
            system: None,
            tools: compact(&tools.to_json()),
            query: query.into(),
            reasoning: None,
            answers: spelt(&calls),
        };
        Self {
            line: 0,
            category: None,
            example,
            tools: Some(tools.clone()),
            calls,
        }
    }

    /// The row as a line of a data file, without a line break.
    pub fn to_line(&self) -> String {
        let mut fields = Map::new();
        let Example {
            system,
            tools,
            query,
            reasoning,
            answers,
        } = &self.example;
        let mut text = |key: &str, value: &Option<String>| {
            if let Some(value) = value {
                fields.insert(key.into(), value.as_str().into());
            }
        };
        text("category", &self.category);
        text("system", system);
        text("query", &Some(query.clone()));
        text("reasoning", reasoning);
        let mut line = compact(&Value::Object(fields));
        // Both are compact JSON already, and keep their own spelling of numbers.
        line.truncate(line.len() - 1);
        format!("{line},\"tools\":{tools},\"answers\":{answers}}}")
    }

    /// The category, or one by the number of calls: refusal, single, parallel.
    pub fn kind(&self) -> &str {
        match (&self.category, self.calls.len()) {
            (Some(category), _) => category,
            (None, 0) => "refusal",
            (None, 1) => "single",
            (None, _) => "parallel",
        }
    }
}

/// The calls as the model writes them.
pub(super) fn spelt(calls: &[ToolCall]) -> String {
    let values = calls
        .iter()
        .map(|call| json!({ "name": call.name, "arguments": call.arguments }));
    compact(&values.collect())
}

/// Reads line after line; most lines share their tools, whose schemas are read once.
#[derive(Default)]
pub(super) struct Reader {
    tools: HashMap<String, Result<ToolSet, String>>,
}

impl Reader {
    /// The row of a line with what is odd about it, `None` for a blank line, or why it cannot be used.
    pub(super) fn row(&mut self, line: usize, bytes: &[u8]) -> Result<Option<(Row, Vec<Caution>)>, String> {
        let text = std::str::from_utf8(bytes).map_err(|error| format!("not UTF-8: {error}"))?;
        if text.trim().is_empty() {
            return Ok(None);
        }
        let value: Value = serde_json::from_str(text.trim()).map_err(|error| not_json(text, &error))?;
        let fields = value
            .as_object()
            .ok_or_else(|| format!("the line should be an object, found {}", kind(&value)))?;
        let unwrapped = |error: crate::Error| match error {
            crate::Error::Example(reason) => reason,
            other => other.to_string(),
        };
        let mut example = Example::parse(text)
            .map_err(unwrapped)?
            .ok_or_else(|| neither(fields))?;
        let mut cautions = Vec::new();
        if !fields.contains_key("query") && speaks(fields) {
            cautions.push(Caution::Words);
        }
        if example.query.trim().is_empty() {
            cautions.push(Caution::EmptyQuery);
        }

        let tools = inner(&example.tools, "tools")?;
        if !matches!(tools, Value::Array(_) | Value::Object(_) | Value::Null) {
            return Err(format!("tools should be a list, found {}", kind(&tools)));
        }
        let tools = match tools {
            Value::Null => json!([]),
            other => other,
        };
        let spelling = compact(&tools);
        let set = self
            .tools
            .entry(spelling.clone())
            .or_insert_with(|| ToolSet::from_json(&tools).map_err(|error| error.to_string()));
        let answers = inner(&example.answers, "answers")?;
        let calls = calls(&answers).map_err(|reason| format!("answers: {reason}"))?;
        example.answers = spelt(&calls);
        let tools = match set {
            Ok(set) => {
                example.tools = compact(&set.to_json());
                cautions.extend(faults(set, &calls));
                Some(set.clone())
            }
            Err(reason) => {
                example.tools = spelling;
                cautions.push(Caution::Tools(reason.clone()));
                None
            }
        };
        let category = match fields.get("category") {
            None | Some(Value::Null) => None,
            Some(Value::String(category)) => Some(category.clone()),
            Some(other) => return Err(format!("category should be a text, found {}", kind(other))),
        };
        let row = Row {
            line,
            category,
            example,
            tools,
            calls,
        };
        Ok(Some((row, cautions)))
    }
}

/// A field that is JSON in a text, or was made one.
fn inner(text: &str, field: &str) -> Result<Value, String> {
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_str(text).map_err(|error| format!("{field} is a text that is not JSON: {error}"))
}

fn not_json(text: &str, error: &serde_json::Error) -> String {
    match text.trim_start().starts_with('[') {
        true => format!("not JSON: {error} (each line is one object; is the file one list?)"),
        false => format!("not JSON: {error}"),
    }
}

/// Why an object is no example.
fn neither(fields: &Map<String, Value>) -> String {
    match fields.get("messages") {
        None => "there is neither \"query\" nor \"messages\"".into(),
        Some(Value::Array(messages)) => {
            let roles: Vec<&str> = messages
                .iter()
                .map(|message| message.get("role").and_then(Value::as_str).unwrap_or("?"))
                .collect();
            format!(
                "a chat line has one user and one assistant turn, found {}",
                match roles.as_slice() {
                    [] => "no message".to_owned(),
                    roles => roles.join(", "),
                }
            )
        }
        Some(other) => format!("messages should be a list, found {}", kind(other)),
    }
}

/// Whether the assistant of a chat line says something beside its calls.
fn speaks(fields: &Map<String, Value>) -> bool {
    let messages = fields.get("messages").and_then(Value::as_array);
    messages.into_iter().flatten().any(|message| {
        let content = message.get("content").and_then(Value::as_str).unwrap_or_default();
        message.get("role").and_then(Value::as_str) == Some("assistant") && !content.trim().is_empty()
    })
}

/// What the row's own tools say about its calls.
pub(crate) fn faults(tools: &ToolSet, calls: &[ToolCall]) -> Vec<Caution> {
    let mut found = Vec::new();
    for call in calls {
        if let Err(error) = tools.check_call(call) {
            found.push(Caution::Answer(error.to_string()));
        } else if !in_declared_order(tools, call) {
            found.push(Caution::Order(call.name.clone()));
        }
    }
    found
}

/// Whether the arguments that the tool declares stand in its order.
fn in_declared_order(tools: &ToolSet, call: &ToolCall) -> bool {
    let Some(tool) = tools.find(&call.name) else {
        return true;
    };
    let parameters = &tool.to_json()["parameters"];
    let declared = parameters.get("properties").unwrap_or(parameters).as_object();
    let (Some(declared), Some(arguments)) = (declared, call.arguments.as_object()) else {
        return true;
    };
    let places: Vec<usize> = arguments
        .keys()
        .filter_map(|key| declared.keys().position(|name| name == key))
        .collect();
    places.is_sorted()
}
