//! `oneOf`: a union, where no value we could write fits two branches.

use std::sync::Arc;

use serde_json::Value;

use super::member::{admits, equal};
use super::node::{Array, Extra, Node, Number, Object, Presence};

/// How many values a finite `oneOf` may have in all.
const VALUES_LIMIT: usize = 256;

/// The values that fit exactly one of `branches`, or why that cannot be told.
pub(crate) fn one_of(branches: Vec<Arc<Node>>) -> Result<Arc<Node>, String> {
    let finite: Option<Vec<Vec<Value>>> = branches
        .iter()
        .map(|branch| {
            if branch.is_never() {
                Some(Vec::new())
            } else {
                branch.finite(VALUES_LIMIT)
            }
        })
        .collect();
    if let Some(sets) = finite {
        let count = |value: &Value| {
            sets.iter()
                .filter(|set| set.iter().any(|other| equal(other, value)))
                .count()
        };
        let once: Vec<Value> = sets
            .iter()
            .flatten()
            .filter(|value| count(value) == 1)
            .cloned()
            .collect();
        return match once.is_empty() {
            true => Err("every value fits several branches, so none is valid".into()),
            false => Ok(Arc::new(Node::Literals(once))),
        };
    }
    for (i, a) in branches.iter().enumerate() {
        for (j, b) in branches.iter().enumerate().filter(|(j, _)| *j != i) {
            if overlaps(a, b) {
                return Err(format!(
                    "a value could fit branch {} and branch {} at once; use anyOf if it may",
                    i.min(j) + 1,
                    i.max(j) + 1
                ));
            }
        }
    }
    Ok(Node::union(branches))
}

/// Whether something that we write for `ours` could fit `theirs` by the rules of JSON Schema. The difference lies in
/// objects that do not state `additionalProperties`: we write no other keys there, while the standard admits them.
fn overlaps(ours: &Node, theirs: &Node) -> bool {
    match (ours, theirs) {
        (Node::Never(_), _) | (_, Node::Never(_)) => false,
        (Node::Any, _) | (_, Node::Any) => true,
        (Node::Union(branches), _) => branches.iter().any(|branch| overlaps(branch, theirs)),
        (_, Node::Union(branches)) => branches.iter().any(|branch| overlaps(ours, branch)),
        (Node::Literals(values), other) | (other, Node::Literals(values)) => {
            values.iter().any(|value| admits(&opened(other), value).unwrap_or(true))
        }
        (Node::Text(a), Node::Text(b)) => {
            let apart = |a: Option<u32>, b: u32| a.is_some_and(|longest| longest < b);
            !apart(a.longest, b.shortest) && !apart(b.longest, a.shortest)
        }
        (Node::Number(a), Node::Number(b)) => !below(a, b) && !below(b, a),
        (Node::Array(a), Node::Array(b)) => arrays(a, b),
        (Node::Object(a), Node::Object(b)) => objects(a, b),
        _ => false,
    }
}

/// A node as the standard reads it on its first level.
fn opened(node: &Node) -> Node {
    match node {
        Node::Object(object) => Node::Object(Object {
            declares: false,
            extra: match &object.extra {
                Extra::Unstated => Extra::Allowed(Arc::new(Node::Any)),
                other => other.clone(),
            },
            ..object.clone()
        }),
        Node::Literals(values) => Node::Literals(values.clone()),
        Node::Text(text) => Node::Text(text.clone()),
        Node::Number(number) => Node::Number(number.clone()),
        Node::Array(array) => Node::Array(array.clone()),
        Node::Union(branches) => Node::Union(branches.clone()),
        Node::Any | Node::Never(_) => Node::Any,
    }
}

/// Whether all of `a` lies below all of `b`.
fn below(a: &Number, b: &Number) -> bool {
    match (a.high, b.low) {
        (Some(high), Some(low)) => {
            high.value < low.value || (high.value == low.value && !(high.inclusive && low.inclusive))
        }
        _ => false,
    }
}

fn arrays(a: &Array, b: &Array) -> bool {
    let apart = |a: Option<usize>, b: usize| a.is_some_and(|longest| longest < b);
    if apart(a.longest, b.shortest) || apart(b.longest, a.shortest) {
        return false;
    }
    (0..a.shortest.max(b.shortest))
        .all(|i| overlaps(a.prefix.get(i).unwrap_or(&a.items), b.prefix.get(i).unwrap_or(&b.items)))
}

fn objects(ours: &Object, theirs: &Object) -> bool {
    let find = |object: &Object, name: &str| object.properties.iter().find(|p| p.name == name).cloned();
    let open = ours.open();
    // A key they require must be one we can write, with a value that fits both.
    for their in theirs.properties.iter().filter(|p| p.presence == Presence::Required) {
        let our = find(ours, &their.name).map(|p| p.node).or_else(|| open.clone());
        if our.is_none_or(|our| !overlaps(&our, &their.node)) {
            return false;
        }
    }
    // A key we always write must be one they admit, with a value that fits both.
    for our in ours.properties.iter().filter(|p| p.presence == Presence::Required) {
        let apart = match (find(theirs, &our.name), &theirs.extra) {
            (Some(their), _) => !overlaps(&our.node, &their.node),
            (None, Extra::Forbidden) => true,
            (None, Extra::Allowed(extra)) => !overlaps(&our.node, extra),
            (None, Extra::Unstated) => false,
        };
        if apart {
            return false;
        }
    }
    true
}
