//! Turns the dialects people write (flat parameters, `nullable`, draft 4, `required: true`) into one: draft 2020-12.
//!
//! The result feeds both the tree of constraints and the last check, so that the two cannot disagree.

use serde_json::{Map, Value, json};

use super::Oddity;
use super::fault::{Fault, below};
use super::keywords::{Treatment, treatment};

/// Keywords whose value is one schema.
const ONE: [&str; 3] = ["items", "additionalProperties", "propertyNames"];
/// Keywords whose value is a list of schemas.
const LISTS: [&str; 4] = ["prefixItems", "anyOf", "oneOf", "allOf"];
/// Keywords whose value maps names to schemas.
const MAPS: [&str; 3] = ["properties", "$defs", "definitions"];

/// The parameters of a tool as a standard schema of an object, and what was odd about them.
pub(crate) fn standardise(parameters: &Value) -> Result<(Value, Vec<Oddity>), Fault> {
    let mut pass = Pass { oddities: Vec::new() };
    let root = match parameters {
        Value::Null => Map::new(),
        Value::Object(map) if is_flat(map) => pass.unflatten(map)?,
        Value::Object(map) => map.clone(),
        other => {
            return Err(Fault::new(
                "",
                "parameters",
                format!("expected an object, found {other}"),
            ));
        }
    };
    let mut root = pass.object(&root, "")?;
    let nothing_declared = !root
        .keys()
        .any(|key| matches!(treatment(key), Treatment::Honoured) && key != "type");
    let odd = pass
        .oddities
        .first()
        .filter(|odd| nothing_declared && odd.field.is_empty());
    if let Some(odd) = odd {
        let reason = format!(
            "{:?} is neither a keyword nor the schema of a parameter, and nothing else is declared",
            odd.key
        );
        return Err(Fault::new("", "parameters", reason));
    }
    if nothing_declared {
        root.insert("properties".into(), json!({}));
    }
    root.entry("type").or_insert_with(|| "object".into());
    if root["type"] != "object" {
        return Err(Fault::new(
            "",
            "type",
            format!("the parameters must be an \"object\", found {}", root["type"]),
        ));
    }
    Ok((Value::Object(root), pass.oddities))
}

/// Whether the value of `parameters` maps names straight to schemas.
fn is_flat(map: &Map<String, Value>) -> bool {
    let states_type = matches!(map.get("type"), Some(Value::String(_) | Value::Array(_)));
    let declares = matches!(map.get("properties"), Some(Value::Object(inner)) if inner.values().all(|v| v.is_object() || v.is_boolean()));
    let composes = ["anyOf", "oneOf", "allOf"]
        .iter()
        .any(|key| matches!(map.get(*key), Some(Value::Array(_))));
    let refers = matches!(map.get("$ref"), Some(Value::String(_)));
    !(states_type || declares || composes || refers)
        && map
            .iter()
            .any(|(key, value)| value.is_object() && !MAPS[1..].contains(&key.as_str()))
}

struct Pass {
    oddities: Vec<Oddity>,
}

impl Pass {
    fn odd(&mut self, field: &str, key: &str, reading: impl Into<String>) {
        self.oddities.push(Oddity {
            field: field.into(),
            key: key.into(),
            reading: reading.into(),
        });
    }

    /// The flat style: every key is a parameter, except a list `required` and whatever is no schema at all.
    fn unflatten(&mut self, map: &Map<String, Value>) -> Result<Map<String, Value>, Fault> {
        let mut properties = Map::new();
        let mut root = Map::new();
        for (key, value) in map {
            match (key.as_str(), value) {
                ("required", Value::Array(_)) => {
                    root.insert(key.clone(), value.clone());
                }
                ("$defs" | "definitions", Value::Object(_)) => {
                    root.insert(key.clone(), value.clone());
                }
                ("description" | "title", Value::String(_)) => {}
                (_, Value::Object(_)) => {
                    properties.insert(key.clone(), value.clone());
                }
                _ => {
                    return Err(Fault::new(
                        key,
                        "parameters",
                        format!("expected the schema of a parameter, found {value}"),
                    ));
                }
            }
        }
        root.insert("properties".into(), properties.into());
        Ok(root)
    }

    fn schema(&mut self, schema: &Value, at: &str) -> Result<Value, Fault> {
        match schema {
            Value::Bool(_) => Ok(schema.clone()),
            Value::Object(map) => self.object(map, at).map(Value::Object),
            other => Err(Fault::new(
                at,
                "schema",
                format!("expected an object, true or false, found {other}"),
            )),
        }
    }

    fn object(&mut self, map: &Map<String, Value>, at: &str) -> Result<Map<String, Value>, Fault> {
        let mut out = Map::new();
        let mut lifted: Vec<Value> = Vec::new();
        for (key, value) in map {
            match key.as_str() {
                "$schema" | "$id" | "id" => continue,
                "required" if value.is_boolean() => continue,
                _ => {}
            }
            if matches!(treatment(key), Treatment::Unknown) {
                self.odd(at, key, "unknown key, not used");
                continue;
            }
            let new = if key == "items" && value.is_array() {
                let items = self.list(value, key, at)?;
                out.insert("prefixItems".into(), items);
                continue;
            } else if ONE.contains(&key.as_str()) {
                let place = match key.as_str() {
                    "items" => format!("{at}[]"),
                    _ => below(at, "*"),
                };
                self.schema(value, &place)?
            } else if LISTS.contains(&key.as_str()) {
                self.list(value, key, at)?
            } else if MAPS.contains(&key.as_str()) {
                self.map(value, key, at, &mut lifted)?
            } else {
                value.clone()
            };
            out.insert(key.clone(), new);
        }
        if let Some(rest) = out.shift_remove("additionalItems")
            && out.contains_key("prefixItems")
        {
            let rest = self.schema(&rest, &format!("{at}[]"))?;
            out.insert("items".into(), rest);
        }
        self.lift(&mut out, lifted, at)?;
        exclusive_flags(&mut out, at)?;
        Ok(match map.get("nullable") {
            Some(Value::Bool(true)) => nullable(out),
            Some(Value::Bool(false)) | None => without(out, "nullable"),
            Some(other) => {
                return Err(Fault::new(
                    at,
                    "nullable",
                    format!("expected true or false, found {other}"),
                ));
            }
        })
    }

    fn list(&mut self, value: &Value, key: &str, at: &str) -> Result<Value, Fault> {
        let list = value
            .as_array()
            .ok_or_else(|| Fault::new(at, key, format!("expected a list of schemas, found {value}")))?;
        let place = |i: usize| match key {
            "items" | "prefixItems" => format!("{at}[{i}]"),
            _ => at.to_string(),
        };
        list.iter()
            .enumerate()
            .map(|(i, schema)| self.schema(schema, &place(i)))
            .collect()
    }

    fn map(&mut self, value: &Value, key: &str, at: &str, lifted: &mut Vec<Value>) -> Result<Value, Fault> {
        let map = value
            .as_object()
            .ok_or_else(|| Fault::new(at, key, format!("expected an object of schemas, found {value}")))?;
        let mut out = Map::new();
        for (name, schema) in map {
            let place = match key {
                "properties" => below(at, name),
                _ => format!("{key}.{name}"),
            };
            if key == "properties" {
                match schema.get("required") {
                    Some(Value::Bool(true)) => {
                        lifted.push(name.as_str().into());
                        self.odd(&place, "required", "true inside a parameter: read as required");
                    }
                    Some(Value::Bool(false)) => {
                        self.odd(&place, "required", "false inside a parameter: read as optional")
                    }
                    _ => {}
                }
            }
            out.insert(name.clone(), self.schema(schema, &place)?);
        }
        Ok(Value::Object(out))
    }

    /// Adds the names marked `required: true` to the object's own list.
    fn lift(&mut self, out: &mut Map<String, Value>, lifted: Vec<Value>, at: &str) -> Result<(), Fault> {
        if lifted.is_empty() {
            return Ok(());
        }
        match out.entry("required").or_insert_with(|| json!([])) {
            Value::Array(list) => {
                for name in lifted {
                    if !list.contains(&name) {
                        list.push(name);
                    }
                }
                Ok(())
            }
            other => Err(Fault::new(
                at,
                "required",
                format!("expected a list of names, found {other}"),
            )),
        }
    }
}

/// Draft 4: `exclusiveMinimum: true` beside `minimum`.
fn exclusive_flags(out: &mut Map<String, Value>, at: &str) -> Result<(), Fault> {
    for (flag, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        match out.get(flag) {
            Some(Value::Bool(true)) => {
                let value = out
                    .shift_remove(bound)
                    .ok_or_else(|| Fault::new(at, flag, format!("true, but there is no {bound}")))?;
                out.insert(flag.into(), value);
            }
            Some(Value::Bool(false)) => {
                out.shift_remove(flag);
            }
            _ => {}
        }
    }
    Ok(())
}

/// The same schema, or null.
fn nullable(out: Map<String, Value>) -> Map<String, Value> {
    let mut out = without(out, "nullable");
    let composed = ["$ref", "anyOf", "oneOf", "allOf", "const"]
        .iter()
        .any(|key| out.contains_key(*key));
    if composed || (!out.contains_key("type") && !out.contains_key("enum")) {
        let mut wrapped = Map::new();
        for key in ["$defs", "definitions"] {
            if let Some(definitions) = out.shift_remove(key) {
                wrapped.insert(key.into(), definitions);
            }
        }
        wrapped.insert("anyOf".into(), json!([out, { "type": "null" }]));
        return wrapped;
    }
    match out.get_mut("type") {
        Some(Value::Array(kinds)) if !kinds.contains(&"null".into()) => kinds.push("null".into()),
        Some(kind @ Value::String(_)) if *kind != "null" => *kind = json!([kind, "null"]),
        _ => {}
    }
    if let Some(Value::Array(values)) = out.get_mut("enum")
        && !values.is_empty()
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    out
}

fn without(mut map: Map<String, Value>, key: &str) -> Map<String, Value> {
    map.shift_remove(key);
    map
}
