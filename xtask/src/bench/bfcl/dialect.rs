//! The dialect of the data: answers that list alternatives, and the order of their keys. Its type names are the library's affair.

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
