//! The calls of an answer, in the spellings that people use.

use serde_json::{Map, Value};

use crate::tool::ToolCall;

/// The calls in a list, or a single call: `{"name", "arguments"}`, or that under `function`; arguments may be JSON in a text, and
/// absent ones are none. Errors are in words.
pub(crate) fn calls(answers: &Value) -> Result<Vec<ToolCall>, String> {
    match answers {
        Value::Null => Ok(Vec::new()),
        Value::Array(list) => (1..).zip(list).map(|(at, value)| call(value, at)).collect(),
        Value::Object(_) => Ok(vec![call(answers, 1)?]),
        other => Err(format!("expected a list of calls, found {}", kind(other))),
    }
}

fn call(value: &Value, at: usize) -> Result<ToolCall, String> {
    let fields = value
        .as_object()
        .ok_or_else(|| format!("call {at}: expected an object, found {}", kind(value)))?;
    let fields = match fields.get("function") {
        Some(Value::Object(inner)) if !fields.contains_key("name") => inner,
        _ => fields,
    };
    let name = match fields.get("name") {
        Some(Value::String(name)) if !name.is_empty() => name.clone(),
        Some(Value::String(_)) => return Err(format!("call {at}: the name is empty")),
        Some(other) => return Err(format!("call {at}: expected a name, found {}", kind(other))),
        None => return Err(format!("call {at}: \"name\" is missing")),
    };
    let wrong = |found: &Value| {
        format!(
            "call {at} of {name}: expected an object of arguments, found {}",
            kind(found)
        )
    };
    let arguments = match fields.get("arguments") {
        None | Some(Value::Null) => Value::Object(Map::new()),
        Some(Value::String(text)) if text.trim().is_empty() => Value::Object(Map::new()),
        Some(Value::String(text)) => match serde_json::from_str(text) {
            Ok(arguments @ Value::Object(_)) => arguments,
            Ok(other) => return Err(wrong(&other)),
            Err(error) => return Err(format!("call {at} of {name}: the arguments are not JSON: {error}")),
        },
        Some(arguments @ Value::Object(_)) => arguments.clone(),
        Some(other) => return Err(wrong(other)),
    };
    Ok(ToolCall { name, arguments })
}

pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
