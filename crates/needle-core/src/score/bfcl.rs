//! Cases out of the files of the Berkeley function-calling leaderboard: a file of questions with their functions, and a file of
//! possible answers. The files are the user's; none is part of this project.
//!
//! Read are questions of one turn. A category that wants nothing called needs no answers (`irrelevance`); one where any call is
//! right (`live_relevance`) and those that need its own machinery (several turns, web search, memory) are refused line by line.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{Allowed, Case, ExpectedArgument, ExpectedCall, Presence, Wording};
use crate::{
    data::Rejected,
    error::{Error, Result},
    tool::ToolSet,
};

/// Whether a text is a file of BFCL's questions, by its first line.
pub fn is_questions(text: &str) -> bool {
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let value: Value = serde_json::from_str(first).unwrap_or_default();
    value.get("question").is_some() && value.get("id").is_some()
}

/// The cases of a file of questions, with the file of possible answers; and the lines that are none.
///
/// # Errors
/// [`Error::Example`] for a file of answers that is not of that form.
pub fn cases(questions: &str, answers: Option<&str>) -> Result<(Vec<Case>, Vec<Rejected>)> {
    let mut truths = HashMap::new();
    for (number, line) in (1..).zip(answers.unwrap_or_default().lines()) {
        if line.trim().is_empty() {
            continue;
        }
        let wrong = |reason: String| Error::Example(format!("possible answers, line {number}: {reason}"));
        let mut value: Value = serde_json::from_str(line).map_err(|error| wrong(format!("not JSON: {error}")))?;
        let truth = value.get_mut("ground_truth").map(Value::take);
        match (value.get("id").and_then(Value::as_str), truth) {
            (Some(id), Some(truth)) => truths.insert(id.to_owned(), truth),
            _ => return Err(wrong("expected \"id\" and \"ground_truth\"".into())),
        };
    }
    let (mut cases, mut rejected) = (Vec::new(), Vec::new());
    for (line, text) in (1..).zip(questions.lines()) {
        if text.trim().is_empty() {
            continue;
        }
        match case(text, &truths) {
            Ok(case) => cases.push(case),
            Err(reason) => rejected.push(Rejected { line, reason }),
        }
    }
    Ok((cases, rejected))
}

fn case(text: &str, truths: &HashMap<String, Value>) -> std::result::Result<Case, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    let id = value["id"].as_str().ok_or("there is no \"id\"")?;
    let category = category(id);
    let expected = match truths.get(id) {
        Some(Value::Array(calls)) => calls.iter().map(expected).collect::<std::result::Result<_, _>>()?,
        Some(_) => return Err(format!("{id}: expected a list under \"ground_truth\"")),
        None if category.contains("irrelevance") => Vec::new(),
        None => return Err(format!("{id}: there is no possible answer of this id")),
    };
    let messages = match value["question"].as_array().map(Vec::as_slice) {
        Some([Value::Array(messages)]) => messages,
        Some([_, _, ..]) => return Err(format!("{id}: questions of several turns are not read")),
        _ => return Err(format!("{id}: expected one list of messages under \"question\"")),
    };
    let said = |role: &str| -> Vec<&str> {
        let by_role = messages.iter().filter(|message| message["role"] == role);
        by_role.filter_map(|message| message["content"].as_str()).collect()
    };
    let [query] = said("user")[..] else {
        return Err(format!("{id}: expected one message of the user"));
    };
    let system = said("system").join("\n");
    let tools: Value = match &value["function"] {
        Value::Array(tools) => tools.iter().map(tool).collect(),
        one @ Value::Object(_) => tool(one),
        _ => return Err(format!("{id}: there is no \"function\"")),
    };
    Ok(Case {
        id: id.to_owned(),
        category,
        system: (!system.is_empty()).then_some(system),
        query: query.to_owned(),
        tools: ToolSet::from_json(&tools).map_err(|error| error.to_string()),
        expected,
        wording: Wording::Loose,
    })
}

/// `live_simple_3-2-1` is of the category `live_simple`.
fn category(id: &str) -> String {
    let words = id.split('_');
    let named = words.take_while(|word| !word.starts_with(|char: char| char.is_ascii_digit()));
    named.collect::<Vec<_>>().join("_")
}

/// `{"name": {"argument": [values that may be]}}`.
fn expected(call: &Value) -> std::result::Result<ExpectedCall, String> {
    let wrong = || format!("not a possible answer: {call}");
    let (name, arguments) = call.as_object().and_then(|call| call.iter().next()).ok_or_else(wrong)?;
    Ok(ExpectedCall {
        name: name.clone(),
        arguments: members(arguments.as_object().ok_or_else(wrong)?),
    })
}

/// An empty text among the values means that the argument may be left out.
fn members(arguments: &Map<String, Value>) -> Vec<ExpectedArgument> {
    let member = |(name, values): (&String, &Value)| {
        let values = match values {
            Value::Array(values) => values.as_slice(),
            one => std::slice::from_ref(one),
        };
        ExpectedArgument {
            name: name.clone(),
            allowed: Allowed::OneOf(values.iter().map(allowed).collect()),
            presence: match values.contains(&"".into()) {
                true => Presence::Optional,
                false => Presence::Required,
            },
        }
    };
    arguments.iter().map(member).collect()
}

/// Objects inside an answer hold lists of values again.
fn allowed(value: &Value) -> Allowed {
    match value {
        Value::Object(map) if map.values().all(Value::is_array) => Allowed::Object(members(map)),
        Value::Array(items) => Allowed::List(items.iter().map(allowed).collect()),
        other => Allowed::Value(other.clone()),
    }
}

/// A function of the data as a tool: its type names become those of JSON Schema.
pub fn tool(function: &Value) -> Value {
    let keys = ["name", "description", "parameters"];
    let known = keys.iter().filter_map(|key| Some((*key, function.get(*key)?)));
    let translated = known.map(|(key, value)| {
        let value = match key {
            "parameters" => schema(value),
            _ => value.clone(),
        };
        (key.to_owned(), value)
    });
    Value::Object(translated.collect())
}

fn schema(value: &Value) -> Value {
    let Some(map) = value.as_object() else {
        return value.clone();
    };
    let mut out = Map::new();
    for (key, value) in map {
        let value = match key.as_str() {
            "type" => match value.as_str().unwrap_or_default() {
                "dict" | "HashMap" => "object".into(),
                "float" | "double" => "number".into(),
                "long" => "integer".into(),
                "tuple" | "Array" | "ArrayList" => "array".into(),
                "String" | "char" => "string".into(),
                "Boolean" => "boolean".into(),
                "any" | "" => continue,
                other => other.into(),
            },
            "properties" => value
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, value)| (name.clone(), schema(value)))
                .collect(),
            "items" | "additionalProperties" => schema(value),
            _ => value.clone(),
        };
        out.insert(key.clone(), value);
    }
    out.into()
}
