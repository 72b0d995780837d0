//! One line of training data as the parts of a prompt and its target.

use serde_json::{Map, Value, json};

use super::{Prompt, Rendered, strip, target};
use crate::{
    error::{Error, Result},
    json::compact,
};

/// A question and the answer that is wanted. JSON that the line gives as text is kept as it is spelt there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// Facts for the model.
    pub system: Option<String>,
    /// The tools, as JSON.
    pub tools: String,
    /// The user's words.
    pub query: String,
    /// The reasoning before the calls.
    pub reasoning: Option<String>,
    /// The calls, as JSON.
    pub answers: String,
}

impl Example {
    /// Reads a line: an object with `query` (and `tools`, `answers` or `function_calls`, `reasoning`, `system`), or a chat line
    /// with `messages` of one user and one assistant turn. A blank line or an object that is neither gives `None`.
    ///
    /// # Errors
    /// [`Error::Example`] when the line is not JSON or a field is of the wrong type.
    pub fn parse(line: &str) -> Result<Option<Self>> {
        let line = strip(line);
        if line.is_empty() {
            return Ok(None);
        }
        let value: Value = serde_json::from_str(line).map_err(|error| Error::Example(format!("not JSON: {error}")))?;
        let fields = object(&value, "the line")?;
        if fields.contains_key("query") {
            return from_fields(fields).map(Some);
        }
        from_chat(fields)
    }

    /// The prompt's text.
    pub fn prompt(&self) -> Rendered {
        let prompt = Prompt {
            system: self.system.as_deref(),
            tools: &self.tools,
            query: &self.query,
        };
        prompt.render()
    }

    /// The completion's text.
    pub fn target(&self) -> String {
        target(self.reasoning.as_deref(), &self.answers)
    }
}

fn from_fields(fields: &Map<String, Value>) -> Result<Example> {
    let query = fields.get("query").and_then(Value::as_str);
    let answers = fields.get("answers").or_else(|| fields.get("function_calls"));
    Ok(Example {
        system: text(fields, "system")?,
        tools: json_text(fields.get("tools")),
        query: query
            .ok_or_else(|| wrong("query", "a text", fields.get("query")))?
            .to_owned(),
        reasoning: text(fields, "reasoning")?,
        answers: json_text(answers),
    })
}

fn from_chat(fields: &Map<String, Value>) -> Result<Option<Example>> {
    let Some(Value::Array(messages)) = fields.get("messages") else {
        return Ok(None);
    };
    let messages = messages
        .iter()
        .map(|message| object(message, "a message"))
        .collect::<Result<Vec<_>>>()?;
    let role = |message: &Map<String, Value>| message.get("role").and_then(Value::as_str).map(str::to_owned);
    let (system, turns): (Vec<_>, Vec<_>) = messages
        .into_iter()
        .partition(|turn| role(turn).as_deref() == Some("system"));
    let [user, assistant] = turns[..] else {
        return Ok(None);
    };
    if role(user).as_deref() != Some("user") || role(assistant).as_deref() != Some("assistant") {
        return Ok(None);
    }
    let calls = list(assistant, "tool_calls")?
        .iter()
        .map(call)
        .collect::<Result<Vec<_>>>()?;
    let tools = list(fields, "tools")?
        .iter()
        .map(|tool| tool.get("function").unwrap_or(tool).clone());
    Ok(Some(Example {
        system: system.first().map_or(Ok(None), |first| text(first, "content"))?,
        tools: compact(&tools.collect()),
        query: text(user, "content")?.unwrap_or_default(),
        reasoning: None,
        answers: compact(&Value::Array(calls)),
    }))
}

/// A call of a chat line, `{"function": {"name", "arguments"}}` or without the wrapping; arguments may be JSON in a text.
fn call(call: &Value) -> Result<Value> {
    let call = object(call, "a tool call")?;
    let function = match call.get("function") {
        Some(Value::Object(function)) if !function.is_empty() => function,
        _ => call,
    };
    let arguments = match function.get("arguments") {
        None => json!({}),
        Some(Value::String(text)) if strip(text).is_empty() => json!({}),
        Some(Value::String(text)) => {
            serde_json::from_str(text).map_err(|error| Error::Example(format!("arguments are not JSON: {error}")))?
        }
        Some(arguments) => arguments.clone(),
    };
    let name = function.get("name").cloned().unwrap_or(Value::Null);
    Ok(json!({ "name": name, "arguments": arguments }))
}

/// A field that is JSON, or JSON as text; an absent one is the empty list.
fn json_text(field: Option<&Value>) -> String {
    match field {
        None => "[]".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => compact(value),
    }
}

fn text(fields: &Map<String, Value>, name: &str) -> Result<Option<String>> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        other => Err(wrong(name, "a text", other)),
    }
}

fn list<'a>(fields: &'a Map<String, Value>, name: &str) -> Result<&'a [Value]> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(values)) => Ok(values),
        other => Err(wrong(name, "a list", other)),
    }
}

fn object<'a>(value: &'a Value, name: &str) -> Result<&'a Map<String, Value>> {
    value.as_object().ok_or_else(|| wrong(name, "an object", Some(value)))
}

fn wrong(name: &str, expected: &str, found: Option<&Value>) -> Error {
    let found = match found {
        None => "nothing",
        Some(Value::Null) => "null",
        Some(Value::Bool(_)) => "true or false",
        Some(Value::Number(_)) => "a number",
        Some(Value::String(_)) => "a text",
        Some(Value::Array(_)) => "a list",
        Some(Value::Object(_)) => "an object",
    };
    Error::Example(format!("{name} should be {expected}, found {found}"))
}
