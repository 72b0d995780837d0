//! Whether a value belongs to a node: to thin out an `enum`, to tell the branches of `oneOf` apart, and to find keys that
//! the last check would let pass.

use serde_json::{Value, json};

use super::Decimal;
use super::fault::Fault;
use super::node::{Array, Node, Number, Object, Presence, Text, TextRule};

/// Whether `value` fits `node`.
pub(crate) fn admits(node: &Node, value: &Value) -> Result<bool, Fault> {
    Ok(match (node, value) {
        (Node::Never(_), _) => false,
        (Node::Any, _) => true,
        (Node::Literals(values), _) => values.iter().any(|known| equal(known, value)),
        (Node::Text(text), Value::String(string)) => text.admits(string, value)?,
        (Node::Number(number), Value::Number(value)) => number.admits(&value.to_string()),
        (Node::Array(array), Value::Array(values)) => array.admits(values)?,
        (Node::Object(object), Value::Object(map)) => object.misfit(map)?.is_none(),
        (Node::Union(branches), _) => any(branches.iter().map(|branch| admits(branch, value)))?,
        (Node::Text(_) | Node::Number(_) | Node::Array(_) | Node::Object(_), _) => false,
    })
}

/// Why `value` does not fit `node`, by the key at fault where there is one; `None` where it fits.
pub(crate) fn misfit(node: &Node, value: &Value) -> Result<Option<String>, Fault> {
    match (node, value) {
        (Node::Object(object), Value::Object(map)) => object.misfit(map),
        _ => Ok((!admits(node, value)?).then(String::new)),
    }
}

/// Equality of JSON Schema: numbers by value, objects without order.
pub(crate) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.to_string(), b.to_string());
            a == b || matches!((Decimal::parse(&a), Decimal::parse(&b)), (Ok(a), Ok(b)) if a == b)
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        _ => a == b,
    }
}

fn any(mut results: impl Iterator<Item = Result<bool, Fault>>) -> Result<bool, Fault> {
    results.try_fold(false, |found, next| Ok(found || next?))
}

impl Text {
    fn admits(&self, string: &str, value: &Value) -> Result<bool, Fault> {
        let length = string.chars().count();
        if length < self.shortest as usize || self.longest.is_some_and(|longest| length > longest as usize) {
            return Ok(false);
        }
        for rule in &self.rules {
            let schema = match rule {
                TextRule::Pattern(pattern) => json!({ "pattern": pattern }),
                TextRule::Format(format) => json!({ "format": format.name() }),
            };
            let validator = jsonschema::draft202012::options()
                .should_validate_formats(true)
                .build(&schema);
            let validator = validator.map_err(|error| Fault::new("", "pattern", error.to_string()))?;
            if !validator.is_valid(value) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Number {
    fn admits(&self, text: &str) -> bool {
        let Ok(value) = Decimal::parse(text) else {
            // Too large or too fine for exact arithmetic, as only free numbers are written.
            let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
            return self.low.is_none() && self.high.is_none() && self.step.is_none() && (plain || !self.whole);
        };
        let above = self
            .low
            .is_none_or(|low| value > low.value || (low.inclusive && value == low.value));
        let below = self
            .high
            .is_none_or(|high| value < high.value || (high.inclusive && value == high.value));
        let whole = !self.whole || value.is_multiple_of(Decimal::ONE);
        above && below && whole && self.step.is_none_or(|step| value.is_multiple_of(step))
    }
}

impl Array {
    fn admits(&self, values: &[Value]) -> Result<bool, Fault> {
        if values.len() < self.shortest || self.longest.is_some_and(|longest| values.len() > longest) {
            return Ok(false);
        }
        if self.distinct
            && values
                .iter()
                .enumerate()
                .any(|(i, a)| values[..i].iter().any(|b| equal(a, b)))
        {
            return Ok(false);
        }
        for (i, value) in values.iter().enumerate() {
            if !admits(self.prefix.get(i).unwrap_or(&self.items), value)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Object {
    /// The first key that does not fit, or is missing, or is one too many.
    fn misfit(&self, map: &serde_json::Map<String, Value>) -> Result<Option<String>, Fault> {
        let missing = self
            .properties
            .iter()
            .find(|p| p.presence == Presence::Required && !map.contains_key(&p.name));
        if let Some(property) = missing {
            return Ok(Some(property.name.clone()));
        }
        if map.len() < self.fewest || self.most.is_some_and(|most| map.len() > most) {
            return Ok(Some(String::new()));
        }
        let open = self.open();
        for (key, value) in map {
            let declared = self
                .properties
                .iter()
                .find(|property| property.name == *key)
                .map(|property| &property.node);
            let fits = match declared.or(open.as_ref()) {
                None => false,
                Some(node) => admits(node, value)?,
            };
            if !fits {
                return Ok(Some(key.clone()));
            }
        }
        Ok(None)
    }
}
