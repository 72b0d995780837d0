//! Examples out of what a large model wrote: a JSON list, perhaps with prose around it, perhaps cut off.

use serde_json::Value;

/// The objects of the list that has the most: whole ones only, so of a list that was cut the last is left out. Prose before,
/// between and after does not matter.
pub(super) fn objects(text: &str) -> Vec<Value> {
    let trimmed = text.trim();
    if let Ok(value) = serde_json::from_str::<Value>(trimmed) {
        return inside(value);
    }
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        let mut stream = serde_json::Deserializer::from_str(&rest[at..]).into_iter::<Value>();
        match stream.next() {
            Some(Ok(value)) => {
                let end = at + stream.byte_offset();
                found.extend(inside(value));
                rest = &rest[end..];
            }
            _ => rest = &rest[at + 1..],
        }
    }
    found
}

/// The examples in a value: the items of a list, a list under some key, or the one that it is.
fn inside(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items.into_iter().filter(Value::is_object).collect(),
        Value::Object(fields) if !fields.contains_key("query") => {
            let list = fields.into_iter().find(|(_, value)| value.is_array());
            list.map_or_else(Vec::new, |(_, list)| inside(list))
        }
        one @ Value::Object(_) => vec![one],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queries(text: &str) -> Vec<String> {
        let found = objects(text);
        found
            .iter()
            .map(|value| value["query"].as_str().unwrap_or("?").to_owned())
            .collect()
    }

    #[test]
    fn lists_in_prose_in_fences_and_under_keys() {
        for text in [
            r#"[{"query":"a"},{"query":"b"}]"#,
            "Sure! Here they are:\n```json\n[{\"query\":\"a\"},\n{\"query\":\"b\"}]\n```\nAnything {else}?",
            r#"{"examples":[{"query":"a"},{"query":"b"}]}"#,
            "{\"query\":\"a\"}\n{\"query\":\"b\"}\n",
        ] {
            assert_eq!(queries(text), ["a", "b"], "{text}");
        }
    }

    #[test]
    fn what_was_cut_off_is_left_out() {
        assert_eq!(
            queries(r#"[{"query":"a","answers":[{"name":"x"}]},{"query":"b","ans"#),
            ["a"]
        );
        assert_eq!(queries("I cannot help with that."), Vec::<String>::new());
        assert_eq!(queries("[1, 2]"), Vec::<String>::new());
    }
}
