//! Dates among a call's arguments whose year contradicts the text.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Sources, scan::Scan};

/// Paths of argument leaves that contradict the text, as `Tool.path` (`book.legs[0].day`): sorted, none twice.
///
/// `schema` is the tool's `parameters`. Only strings under `format: date` or `date-time` that begin with four digits and
/// a dash are tested, and only where [`Sources::licensed_years`] has any year. `$ref` is followed, a union with a single
/// branch besides null stands for that branch, declared properties and `items` are descended. Everything else is left
/// alone: plain strings, dates of another form, null, undeclared keys. `text` need not have been noted before.
pub fn ungrounded(sources: &Sources, text: &str, tool_name: &str, schema: &Value, arguments: &Value) -> Vec<String> {
    let dates = Dates::check(&sources.licensed_years(text), schema, arguments);
    dates.wrong.iter().map(|path| format!("{tool_name}.{path}")).collect()
}

/// The dates of one call, by path inside the arguments.
#[derive(Default)]
pub(super) struct Dates {
    /// All that were tested.
    pub(super) tested: BTreeSet<String>,
    /// Those whose year nobody wrote.
    pub(super) wrong: BTreeSet<String>,
}

impl Dates {
    pub(super) fn check(years: &BTreeSet<i32>, schema: &Value, arguments: &Value) -> Self {
        let mut dates = Self::default();
        if !years.is_empty() {
            dates.walk(years, schema, schema, arguments, String::new());
        }
        dates
    }

    fn walk(&mut self, years: &BTreeSet<i32>, root: &Value, node: &Value, value: &Value, path: String) {
        let node = single_branch(resolve(node, root), root);
        let is_date = matches!(node.get("format").and_then(Value::as_str), Some("date" | "date-time"));
        match value {
            Value::String(date) if is_date => {
                if let Some(year) = leading_year(date) {
                    if !is_licensed(years, year) {
                        self.wrong.insert(path.clone());
                    }
                    self.tested.insert(path);
                }
            }
            Value::Object(fields) => {
                let properties = node.get("properties");
                for (key, value) in fields {
                    if let Some(node) = properties.and_then(|properties| properties.get(key)) {
                        self.walk(years, root, node, value, child(&path, key));
                    }
                }
            }
            Value::Array(items) => {
                if let Some(node) = node.get("items") {
                    for (index, value) in items.iter().enumerate() {
                        self.walk(years, root, node, value, format!("{path}[{index}]"));
                    }
                }
            }
            _ => {}
        }
    }
}

/// The path of a key below `path`.
pub(super) fn child(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.into()
    } else {
        format!("{path}.{key}")
    }
}

/// Follows `$ref` inside the document; one that leads nowhere or round in a circle ends the walk.
fn resolve<'a>(mut node: &'a Value, root: &'a Value) -> &'a Value {
    let mut followed = BTreeSet::new();
    while let Some(reference) = node.get("$ref").and_then(Value::as_str) {
        if !followed.insert(reference) {
            break;
        }
        node = reference
            .strip_prefix('#')
            .and_then(|pointer| root.pointer(pointer))
            .unwrap_or(&Value::Null);
    }
    node
}

/// The one branch besides null of a union, else the node itself.
fn single_branch<'a>(node: &'a Value, root: &'a Value) -> &'a Value {
    let union = |key| {
        node.get(key)
            .and_then(Value::as_array)
            .filter(|branches| !branches.is_empty())
    };
    let branches = union("anyOf")
        .or_else(|| union("oneOf"))
        .map(Vec::as_slice)
        .unwrap_or_default();
    let mut concrete = branches
        .iter()
        .map(|branch| resolve(branch, root))
        .filter(|branch| branch.get("type") != Some(&"null".into()));
    match (concrete.next(), concrete.next()) {
        (Some(branch), None) => branch,
        _ => node,
    }
}

fn leading_year(date: &str) -> Option<i32> {
    let date = Scan::new(date);
    date.shape(0, "0000-")?;
    date.latin(0, 4).parse().ok()
}

/// A year written with one or two digits stands for every year that ends in it.
fn is_licensed(years: &BTreeSet<i32>, year: i32) -> bool {
    years.contains(&year) || years.contains(&(year % 100))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn marks(text: &str, schema: Value, arguments: Value) -> Vec<String> {
        ungrounded(&Sources::new(None), text, "book", &schema, &arguments)
    }

    #[test]
    fn a_date_with_slashes_poisons_nothing() {
        let schema = json!({"properties": {"due": {"type": "string", "format": "date"}}});
        let mut sources = Sources::new(None);
        for (text, due) in [
            ("Bill Lovelace Ltd, to be paid by 5/6/24", "2024-06-05"),
            ("the second one is due 2027-03-01", "2027-03-01"),
        ] {
            sources.note(text);
            assert!(
                ungrounded(&sources, text, "bill", &schema, &json!({"due": due})).is_empty(),
                "{text}"
            );
        }
        let wrong = json!({"due": "2024-03-01"});
        assert_eq!(
            ungrounded(&sources, "and the third", "bill", &schema, &wrong),
            ["bill.due"]
        );
    }

    #[test]
    fn two_digits_allow_the_years_that_end_in_them() {
        let schema = json!({"properties": {"due": {"format": "date"}}});
        for (due, marked) in [("2024-06-05", false), ("1924-06-05", false), ("2025-06-05", true)] {
            assert_eq!(
                !marks("due 5 June 24", schema.clone(), json!({"due": due})).is_empty(),
                marked,
                "{due}"
            );
        }
    }

    #[test]
    fn references_unions_lists_and_plain_strings() {
        let schema = json!({
            "$defs": {"day": {"type": "string", "format": "date"}, "loop": {"$ref": "#/$defs/loop"}},
            "properties": {
                "legs": {"type": "array", "items": {"properties": {"day": {"$ref": "#/$defs/day"}}}},
                "back": {"anyOf": [{"$ref": "#/$defs/day"}, {"type": "null"}]},
                "first": {"oneOf": [{"format": "date-time"}, {"type": "null"}]},
                "many": {"anyOf": [{"format": "date"}, {"type": "integer"}]},
                "note": {"type": "string"},
                "inner": {"$ref": "#"},
                "circle": {"$ref": "#/$defs/loop"},
                "nowhere": {"$ref": "#/$defs/none"},
                "odd": true
            }
        });
        let arguments = json!({
            "legs": [{"day": "2026-01-01"}, {"day": "2020-01-01", "other": "2020-01-01"}, {"day": null}, 7],
            "back": "2020-05-05", "first": "2020-05-05T10:00", "many": "2020-05-05", "note": "2020-05-05",
            "inner": {"back": "2021-05-05"}, "circle": "2020-05-05", "nowhere": "2020-05-05", "odd": "2020-05-05"
        });
        let expected = ["book.back", "book.first", "book.inner.back", "book.legs[1].day"];
        assert_eq!(marks("in May 2026", schema, arguments), expected);
    }

    #[test]
    fn dates_of_another_form_are_never_marked() {
        let schema = json!({"properties": {"day": {"format": "date"}}});
        for day in [
            json!("5/6/24"),
            json!("June 5"),
            json!("20260605"),
            json!(""),
            json!(2020),
            json!(null),
        ] {
            assert!(
                marks("on 5 June 2026", schema.clone(), json!({"day": day})).is_empty(),
                "{day}"
            );
        }
        assert!(
            marks("on 5 June", schema, json!({"day": "1999-01-01"})).is_empty(),
            "no year, no check"
        );
    }
}
