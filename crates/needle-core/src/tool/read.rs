//! Tools out of JSON: the spellings that people use, and what is odd about them.

use serde_json::{Map, Value, json};

use super::{Tool, Warning};
use crate::error::{Error, Result};

/// Keys of a tool that are understood.
const KNOWN: [&str; 3] = ["name", "description", "parameters"];
/// Keys that others give a tool and that change nothing here.
const SILENT: [&str; 5] = ["strict", "type", "title", "examples", "triggers"];

/// A list of tools, one tool, or an object with such a list under `tools`.
pub(super) fn tools(value: &Value) -> Result<Vec<Tool>> {
    match value {
        Value::Array(list) => list.iter().enumerate().map(|(i, value)| tool(value, i + 1)).collect(),
        Value::Object(map) => match map.get("tools") {
            Some(list @ Value::Array(_)) if !map.contains_key("name") => tools(list),
            _ => Ok(vec![tool(value, 1)?]),
        },
        other => Err(Error::Tools(format!(
            "expected a list of tools or one tool, found {}",
            kind(other)
        ))),
    }
}

/// One tool; `position` counts from one and names it where it has no name.
pub(super) fn tool(value: &Value, position: usize) -> Result<Tool> {
    let map = value
        .as_object()
        .ok_or_else(|| Error::Tools(format!("tool {position}: expected an object, found {}", kind(value))))?;
    let inner = match map.get("function") {
        Some(Value::Object(inner)) if !map.contains_key("name") => inner,
        Some(other) if !map.contains_key("name") => {
            return Err(Error::Tools(format!(
                "tool {position}: expected an object under \"function\", found {}",
                kind(other)
            )));
        }
        _ => map,
    };
    let name = match inner.get("name") {
        Some(Value::String(name)) if !name.is_empty() => name.clone(),
        Some(Value::String(_)) => return Err(Error::Tools(format!("tool {position}: the name is empty"))),
        Some(other) => {
            return Err(Error::Tools(format!(
                "tool {position}: expected a name, found {}",
                kind(other)
            )));
        }
        None => return Err(Error::Tools(format!("tool {position}: \"name\" is missing"))),
    };
    match inner.get("description") {
        None | Some(Value::String(_) | Value::Null) => {}
        Some(other) => {
            return Err(Error::Tools(format!(
                "tool {name}: expected a text as description, found {}",
                kind(other)
            )));
        }
    }
    let warnings = odd_keys(inner, &name)?;
    Ok(Tool {
        json: Value::Object(inner.clone()),
        parameters: inner.get("parameters").cloned().unwrap_or_else(|| json!({})),
        name,
        built: None,
        handler: None,
        mistake: None,
        warnings,
    })
}

/// A warning for every key that is not understood. Where `parameters` is missing, one that looks like it is an error: the
/// tool would silently take no arguments.
fn odd_keys(map: &Map<String, Value>, name: &str) -> Result<Vec<Warning>> {
    let mut warnings = Vec::new();
    for (key, value) in map {
        if KNOWN.contains(&key.as_str()) || SILENT.contains(&key.as_str()) || key.starts_with("x-") {
            continue;
        }
        if value.is_object() && !map.contains_key("parameters") {
            return Err(Error::Tools(format!(
                "tool {name}: \"parameters\" is missing, but there is {key:?}"
            )));
        }
        warnings.push(Warning {
            tool: name.into(),
            field: None,
            key: key.clone(),
            message: "unknown key, not used".into(),
        });
    }
    Ok(warnings)
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
