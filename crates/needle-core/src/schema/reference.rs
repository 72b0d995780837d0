//! `$ref`: pointers inside the parameters, and which of them lead back to themselves.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::fault::Fault;

/// The definitions of one schema.
pub(crate) struct References<'a> {
    root: &'a Value,
    recursive: HashMap<String, bool>,
}

impl<'a> References<'a> {
    pub(crate) fn new(root: &'a Value) -> Self {
        Self {
            root,
            recursive: HashMap::new(),
        }
    }

    /// The schema that `reference` points to.
    pub(crate) fn resolve(&self, reference: &str, at: &str) -> Result<&'a Value, Fault> {
        let pointer = reference
            .strip_prefix('#')
            .filter(|pointer| pointer.is_empty() || pointer.starts_with('/'));
        let Some(pointer) = pointer else {
            return Err(Fault::new(
                at,
                "$ref",
                format!("{reference:?} does not point inside the parameters (\"#/…\")"),
            ));
        };
        self.root.pointer(pointer).ok_or_else(|| {
            Fault::new(
                at,
                "$ref",
                format!("{reference:?} points to nothing inside the parameters"),
            )
        })
    }

    /// Whether following `reference` can lead to it again.
    pub(crate) fn is_recursive(&mut self, reference: &str) -> bool {
        if let Some(known) = self.recursive.get(reference) {
            return *known;
        }
        let mut seen: HashSet<&str> = HashSet::new();
        let mut open: Vec<&Value> = self.target(reference).into_iter().collect();
        while let Some(value) = open.pop() {
            for next in direct(value) {
                if seen.insert(next) {
                    open.extend(self.target(next));
                }
            }
        }
        let recursive = seen.contains(reference);
        self.recursive.insert(reference.into(), recursive);
        recursive
    }

    fn target(&self, reference: &str) -> Option<&'a Value> {
        self.root.pointer(reference.strip_prefix('#')?)
    }
}

/// The references that stand anywhere below `value`, except in definitions nobody has pointed to yet.
fn direct(value: &Value) -> Vec<&str> {
    let mut found = Vec::new();
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(map) => {
                if let Some(Value::String(reference)) = map.get("$ref") {
                    found.push(reference.as_str());
                }
                open.extend(
                    map.iter()
                        .filter(|(key, _)| !matches!(key.as_str(), "$defs" | "definitions" | "enum" | "const"))
                        .map(|(_, v)| v),
                );
            }
            Value::Array(list) => open.extend(list),
            _ => {}
        }
    }
    found
}
