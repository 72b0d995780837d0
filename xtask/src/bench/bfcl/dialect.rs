//! The dialect of the data: its type names, and answers that list alternatives.

use serde_json::{Map, Value};

/// The first of the allowed values everywhere; `""` among them means that the key may be left out.
pub(super) fn concrete(arguments: &Value) -> Value {
    let pick = |alternatives: &Value| match alternatives {
        Value::Array(list) if list.first() == Some(&"".into()) && list.len() > 1 => None,
        Value::Array(list) => list.first().map(inner),
        other => Some(inner(other)),
    };
    match arguments {
        Value::Object(map) => map
            .iter()
            .filter_map(|(key, value)| Some((key.clone(), pick(value)?)))
            .collect(),
        other => other.clone(),
    }
}

/// A value inside an answer: objects hold alternatives again.
fn inner(value: &Value) -> Value {
    match value {
        Value::Object(map) if map.values().all(Value::is_array) => concrete(value),
        Value::Array(list) => list.iter().map(inner).collect(),
        other => other.clone(),
    }
}

/// The same value with the keys of its objects in declared order, which is the order the grammar writes.
pub(super) fn in_order(value: &Value, schema: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut left = map.clone();
            let mut ordered = Map::new();
            for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
                if let Some(value) = left.shift_remove(name) {
                    ordered.insert(name.clone(), in_order(&value, schema));
                }
            }
            ordered.extend(left);
            ordered.into()
        }
        Value::Array(list) => list.iter().map(|item| in_order(item, &schema["items"])).collect(),
        other => other.clone(),
    }
}

/// A tool of the data with its types in the names of JSON Schema.
pub(super) fn tool(tool: &Value) -> Value {
    let mut out = Map::new();
    for key in ["name", "description", "parameters"] {
        if let Some(value) = tool.get(key) {
            out.insert(
                key.into(),
                if key == "parameters" {
                    schema(value)
                } else {
                    value.clone()
                },
            );
        }
    }
    out.into()
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
