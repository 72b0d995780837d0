//! `allOf`, and keywords beside `$ref` or `anyOf`: the node that fits two nodes at once.

use std::sync::Arc;

use serde_json::Value;

use super::budget::Budget;
use super::fault::{Fault, below};
use super::member::admits;
use super::node::{Array, Extra, Never, Node, Number, Object, Presence, Property, Text};

/// How deep two nodes are merged into each other.
const DEPTH_LIMIT: usize = 40;

/// What fits both `a` and `b`; `keyword` is what joins them, for the message.
pub(crate) fn merge(
    a: &Arc<Node>,
    b: &Arc<Node>,
    at: &str,
    keyword: &str,
    budget: &mut Budget,
) -> Result<Arc<Node>, Fault> {
    Merge {
        keyword,
        depth: 0,
        budget,
    }
    .nodes(a, b, at)
}

struct Merge<'a> {
    keyword: &'a str,
    depth: usize,
    budget: &'a mut Budget,
}

impl Merge<'_> {
    fn nodes(&mut self, a: &Arc<Node>, b: &Arc<Node>, at: &str) -> Result<Arc<Node>, Fault> {
        if Arc::ptr_eq(a, b) {
            return Ok(a.clone());
        }
        if self.depth == DEPTH_LIMIT {
            return Err(Fault::new(
                at,
                self.keyword,
                format!("merging goes deeper than {DEPTH_LIMIT} levels"),
            ));
        }
        self.budget.spend(1, at, self.keyword)?;
        self.depth += 1;
        let merged = self.pair(a, b, at);
        self.depth -= 1;
        merged
    }

    fn pair(&mut self, a: &Arc<Node>, b: &Arc<Node>, at: &str) -> Result<Arc<Node>, Fault> {
        Ok(match (&**a, &**b) {
            (Node::Never(_), _) | (_, Node::Any) => a.clone(),
            (_, Node::Never(_)) | (Node::Any, _) => b.clone(),
            (Node::Union(branches), _) => self.each(branches, b, at)?,
            (_, Node::Union(branches)) => self.each(branches, a, at)?,
            (Node::Literals(values), _) => self.filter(values, b, at)?,
            (_, Node::Literals(values)) => self.filter(values, a, at)?,
            (Node::Text(a), Node::Text(b)) => self.settled(a.and(b).settle(at)),
            (Node::Number(a), Node::Number(b)) => self.settled(a.and(b, at)),
            (Node::Array(a), Node::Array(b)) => Arc::new(self.arrays(a, b, at)?),
            (Node::Object(a), Node::Object(b)) => Arc::new(self.objects(a, b, at)?),
            _ => Node::contradiction(Fault::new(
                at,
                self.keyword,
                "the types contradict each other, so nothing fits",
            )),
        })
    }

    fn settled(&self, node: Result<Node, Fault>) -> Arc<Node> {
        node.map_or_else(Node::contradiction, Arc::new)
    }

    fn each(&mut self, branches: &[Arc<Node>], other: &Arc<Node>, at: &str) -> Result<Arc<Node>, Fault> {
        let merged = branches
            .iter()
            .map(|branch| self.nodes(branch, other, at))
            .collect::<Result<_, _>>()?;
        Ok(Node::union(merged))
    }

    fn filter(&self, values: &[Value], other: &Node, at: &str) -> Result<Arc<Node>, Fault> {
        let mut kept = Vec::new();
        for value in values {
            if admits(other, value)? {
                kept.push(value.clone());
            }
        }
        Ok(match kept.is_empty() {
            true => Node::contradiction(Fault::new(
                at,
                self.keyword,
                "no value of the enum fits, so nothing does",
            )),
            false => Arc::new(Node::Literals(kept)),
        })
    }

    fn arrays(&mut self, a: &Array, b: &Array, at: &str) -> Result<Node, Fault> {
        let prefix = (0..a.prefix.len().max(b.prefix.len()))
            .map(|i| {
                self.nodes(
                    a.prefix.get(i).unwrap_or(&a.items),
                    b.prefix.get(i).unwrap_or(&b.items),
                    &format!("{at}[{i}]"),
                )
            })
            .collect::<Result<_, _>>()?;
        let array = Array {
            prefix,
            items: self.nodes(&a.items, &b.items, &format!("{at}[]"))?,
            shortest: a.shortest.max(b.shortest),
            longest: least(a.longest, b.longest),
            distinct: a.distinct || b.distinct,
        };
        Ok(array.settle(at))
    }

    fn objects(&mut self, a: &Object, b: &Object, at: &str) -> Result<Node, Fault> {
        let mut properties = Vec::new();
        for property in &a.properties {
            let other = b.properties.iter().find(|other| other.name == property.name);
            properties.push(self.property(property, other, b, at)?);
        }
        for property in b
            .properties
            .iter()
            .filter(|p| a.properties.iter().all(|other| other.name != p.name))
        {
            properties.push(self.property(property, None, a, at)?);
        }
        let extra = match (&a.extra, &b.extra) {
            (Extra::Forbidden, _) | (_, Extra::Forbidden) => Extra::Forbidden,
            (Extra::Unstated, other) | (other, Extra::Unstated) => other.clone(),
            (Extra::Allowed(a), Extra::Allowed(b)) => Extra::Allowed(self.nodes(a, b, &below(at, "*"))?),
        };
        let object = Object {
            properties,
            declares: a.declares || b.declares,
            extra,
            fewest: a.fewest.max(b.fewest),
            most: least(a.most, b.most),
        };
        Ok(object.settle(at))
    }

    /// `property` of one side, against the other side's property of that name or its rule for other keys.
    fn property(
        &mut self,
        property: &Property,
        other: Option<&Property>,
        side: &Object,
        at: &str,
    ) -> Result<Property, Fault> {
        let node = match (other, &side.extra) {
            (Some(other), _) => self.nodes(&property.node, &other.node, &below(at, &property.name))?,
            (None, Extra::Unstated) => property.node.clone(),
            (None, Extra::Forbidden) => Arc::new(Node::Never(Never::Forbidden)),
            (None, Extra::Allowed(extra)) => self.nodes(&property.node, extra, &below(at, &property.name))?,
        };
        let required = [Some(property), other]
            .into_iter()
            .flatten()
            .any(|p| p.presence == Presence::Required);
        Ok(Property {
            name: property.name.clone(),
            node,
            presence: if required {
                Presence::Required
            } else {
                Presence::Optional
            },
        })
    }
}

fn least<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

impl Text {
    fn and(&self, other: &Self) -> Self {
        let mut rules = self.rules.clone();
        rules.extend(other.rules.iter().filter(|rule| !self.rules.contains(rule)).cloned());
        Self {
            shortest: self.shortest.max(other.shortest),
            longest: least(self.longest, other.longest),
            rules,
        }
    }
}

impl Number {
    fn and(&self, other: &Self, at: &str) -> Result<Node, Fault> {
        let mut both = self.clone();
        both.whole |= other.whole;
        both.plain |= other.plain;
        if let Some(low) = other.low {
            both.raise(low);
        }
        if let Some(high) = other.high {
            both.lower(high);
        }
        both.step = match (self.step, other.step) {
            (Some(a), Some(b)) => Some(
                a.common_multiple(b)
                    .ok_or_else(|| Fault::new(at, "multipleOf", "the steps together have too many digits"))?,
            ),
            (a, b) => a.or(b),
        };
        both.settle()
            .map(Node::Number)
            .map_err(|reason| Fault::new(at, both.keyword(), reason))
    }
}

impl Array {
    /// The array with its bounds made consistent, or nothing.
    pub(crate) fn settle(mut self, at: &str) -> Node {
        let reachable = match self.prefix.iter().position(|item| item.is_never()) {
            Some(first) => Some(first),
            None => self.items.is_never().then_some(self.prefix.len()),
        };
        self.longest = least(self.longest, reachable);
        match self.longest {
            Some(longest) if self.shortest > longest => {
                let why = self.prefix.get(longest).unwrap_or(&self.items);
                impossible(
                    why,
                    at,
                    "minItems",
                    format!("{} items are asked for, but only {longest} can be had", self.shortest),
                )
            }
            _ => Node::Array(self),
        }
    }
}

impl Object {
    /// The object without the keys that nothing fits, or nothing.
    pub(crate) fn settle(mut self, at: &str) -> Node {
        if let Some(property) = self
            .properties
            .iter()
            .find(|p| p.presence == Presence::Required && p.node.is_never())
        {
            let reason = format!("{:?} must appear, but no value fits it", property.name);
            return impossible(&property.node, at, "required", reason);
        }
        self.properties.retain(|property| !property.node.is_never());
        let required = self
            .properties
            .iter()
            .filter(|p| p.presence == Presence::Required)
            .count();
        let contradiction = |key: &str, reason: String| Node::Never(Never::Contradiction(Fault::new(at, key, reason)));
        match self.most {
            Some(most) if required > most => {
                return contradiction(
                    "maxProperties",
                    format!("{required} keys are required, but at most {most} may appear"),
                );
            }
            Some(most) if self.fewest > most => {
                return contradiction(
                    "minProperties",
                    format!("{} is above maxProperties {most}", self.fewest),
                );
            }
            _ => {}
        }
        if self.open().is_none() && self.fewest > self.properties.len() {
            let count = self.properties.len();
            return contradiction(
                "minProperties",
                format!("{} keys are asked for, but only {count} are declared", self.fewest),
            );
        }
        Node::Object(self)
    }
}

/// Nothing fits, because nothing fits `cause`: the recursion limit stays what it is, all else is a contradiction.
fn impossible(cause: &Node, at: &str, keyword: &str, reason: String) -> Node {
    Node::Never(match cause {
        Node::Never(Never::Deeper(fault)) => Never::Deeper(fault.clone()),
        Node::Never(Never::Contradiction(fault)) => Never::Contradiction(fault.clone()),
        _ => Never::Contradiction(Fault::new(at, keyword, reason)),
    })
}
