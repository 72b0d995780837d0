//! Standard schema → tree of constraints. Every keyword is read here or refused here.

mod object;

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::budget::{Budget, NESTING_LIMIT};
use super::constraint::{COUNT_LIMIT, Keywords};
use super::fault::Fault;
use super::keywords::{Treatment, Type, treatment};
use super::member::admits;
use super::merge::merge;
use super::node::{Array, Never, Node};
use super::reference::References;
use super::{Oddity, RECURSION_LIMIT, exclusive};

/// How many schemas `prefixItems` may list.
const PREFIX_LIMIT: usize = 256;
/// How many names `propertyNames` may allow, and how many values an `enum` may hold.
const NAMES_LIMIT: usize = 1_000;

/// The arguments of a tool: an object, or a union of objects.
pub(crate) fn arguments(root: &Value) -> Result<(Arc<Node>, Vec<Oddity>), Fault> {
    let mut builder = Builder {
        references: References::new(root),
        known: HashMap::new(),
        budget: Budget::default(),
        nesting: 0,
        oddities: Vec::new(),
    };
    let node = builder.stated(root, Place::root())?;
    match &*node {
        Node::Never(Never::Contradiction(fault) | Never::Deeper(fault)) => Err(fault.clone()),
        Node::Never(Never::Forbidden) => Err(Fault::new("", "parameters", "nothing fits")),
        _ => Ok((node, builder.oddities)),
    }
}

/// Where a schema stands.
#[derive(Clone)]
struct Place {
    /// Path of the field.
    at: String,
    /// References to recursive definitions followed so far.
    depth: usize,
    /// The types that the schema around a branch allows.
    types: Option<Vec<Type>>,
}

impl Place {
    fn root() -> Self {
        Self {
            at: String::new(),
            depth: 0,
            types: None,
        }
    }

    fn child(&self, at: String) -> Self {
        Self {
            at,
            depth: self.depth,
            types: None,
        }
    }
}

struct Builder<'a> {
    references: References<'a>,
    known: HashMap<(String, usize), Arc<Node>>,
    budget: Budget,
    /// Schemas being read, one inside the other.
    nesting: usize,
    oddities: Vec<Oddity>,
}

impl<'a> Builder<'a> {
    /// A schema that its author wrote for its own sake: a contradiction in it is an error even where it is optional.
    fn stated(&mut self, schema: &'a Value, place: Place) -> Result<Arc<Node>, Fault> {
        let node = self.schema(schema, place)?;
        match &*node {
            Node::Never(Never::Contradiction(fault)) => Err(fault.clone()),
            _ => Ok(node),
        }
    }

    fn schema(&mut self, schema: &'a Value, place: Place) -> Result<Arc<Node>, Fault> {
        self.budget.spend(1, &place.at, "schema")?;
        if self.nesting == NESTING_LIMIT {
            let reason =
                format!("more than {NESTING_LIMIT} schemas lie inside each other once references are followed");
            return Err(Fault::new(&place.at, "schema", reason));
        }
        self.nesting += 1;
        let node = self.read(schema, place);
        self.nesting -= 1;
        node
    }

    fn read(&mut self, schema: &'a Value, place: Place) -> Result<Arc<Node>, Fault> {
        let map = match schema {
            Value::Bool(true) => return Ok(Arc::new(Node::Any)),
            Value::Bool(false) => return Ok(Arc::new(Node::Never(Never::Forbidden))),
            Value::Object(map) => map,
            other => {
                return Err(Fault::new(
                    &place.at,
                    "schema",
                    format!("expected an object, true or false, found {other}"),
                ));
            }
        };
        let keywords = Keywords { map, at: &place.at };
        if let Some(key) = map.keys().find(|key| treatment(key) == Treatment::Refused) {
            return Err(keywords.fault(key, "this keyword cannot be honoured"));
        }
        let types = keywords
            .types()?
            .or_else(|| place.types.clone())
            .or_else(|| implied(map));
        let mut node = match &types {
            None => Arc::new(Node::Any),
            Some(types) => {
                let nodes = types
                    .iter()
                    .map(|kind| self.typed(*kind, keywords, &place))
                    .collect::<Result<_, _>>()?;
                Node::union(nodes)
            }
        };
        if let Some(values) = self.literals(keywords)? {
            node = only(&values, &node, keywords)?;
        }
        let branch = Place { types, ..place.clone() };
        if let Some(reference) = keywords.get("$ref") {
            let target = self.reference(reference, &place)?;
            node = merge(&node, &target, &place.at, "$ref", &mut self.budget)?;
        }
        for part in list(keywords, "allOf")? {
            let part = self.schema(part, branch.clone())?;
            node = merge(&node, &part, &place.at, "allOf", &mut self.budget)?;
        }
        if map.contains_key("anyOf") {
            let branches = list(keywords, "anyOf")?
                .iter()
                .map(|part| self.schema(part, branch.clone()))
                .collect::<Result<_, _>>()?;
            let union = Node::union(branches);
            self.budget.spend(union.width(), &place.at, "anyOf")?;
            node = merge(&node, &union, &place.at, "anyOf", &mut self.budget)?;
        }
        if map.contains_key("oneOf") {
            node = self.one_of(&node, keywords, &branch)?;
        }
        Ok(node)
    }

    fn one_of(&mut self, node: &Arc<Node>, keywords: Keywords<'a, '_>, branch: &Place) -> Result<Arc<Node>, Fault> {
        let mut branches = Vec::new();
        for (i, part) in list(keywords, "oneOf")?.iter().enumerate() {
            let typed = ["type", "enum", "const", "$ref", "anyOf", "oneOf", "allOf"]
                .iter()
                .any(|key| part.get(*key).is_some());
            if branch.types.is_none() && !typed {
                return Err(keywords.fault(
                    "oneOf",
                    format!("branch {} states no type, so it cannot be told apart", i + 1),
                ));
            }
            let part = self.schema(part, branch.clone())?;
            branches.push(merge(node, &part, &branch.at, "oneOf", &mut self.budget)?);
        }
        exclusive::one_of(branches).map_err(|reason| keywords.fault("oneOf", reason))
    }

    fn typed(&mut self, kind: Type, keywords: Keywords<'a, '_>, place: &Place) -> Result<Arc<Node>, Fault> {
        Ok(Arc::new(match kind {
            Type::Null => Node::Literals(vec![Value::Null]),
            Type::Boolean => Node::Literals(vec![true.into(), false.into()]),
            Type::Integer => Node::Number(keywords.number(true)?),
            Type::Number => Node::Number(keywords.number(false)?),
            Type::String => keywords.text()?.settle(keywords.at)?,
            Type::Array => self.array(keywords, place)?,
            Type::Object => self.object(keywords, place)?,
        }))
    }

    fn array(&mut self, keywords: Keywords<'a, '_>, place: &Place) -> Result<Node, Fault> {
        let (shortest, longest) = keywords.counts("minItems", "maxItems")?;
        if shortest > COUNT_LIMIT {
            return Err(keywords.fault("minItems", format!("{shortest} is above {COUNT_LIMIT}")));
        }
        let prefix = list_or_none(keywords, "prefixItems")?;
        if prefix.len() > PREFIX_LIMIT {
            let reason = format!("{} schemas, at most {PREFIX_LIMIT} can be honoured", prefix.len());
            return Err(keywords.fault("prefixItems", reason));
        }
        let prefix = prefix
            .iter()
            .enumerate()
            .map(|(i, item)| self.stated(item, place.child(format!("{}[{i}]", place.at))))
            .collect::<Result<Vec<_>, _>>()?;
        let items = match keywords.get("items") {
            None => Arc::new(Node::Any),
            Some(items) => self.stated(items, place.child(format!("{}[]", place.at)))?,
        };
        let distinct = match keywords.get("uniqueItems") {
            None | Some(Value::Bool(false)) => false,
            Some(Value::Bool(true)) => longest.is_none_or(|longest| longest > 1),
            Some(other) => return Err(keywords.fault("uniqueItems", format!("expected true or false, found {other}"))),
        };
        let array = Array {
            prefix,
            items,
            shortest,
            longest,
            distinct,
        };
        Ok(array.settle(keywords.at))
    }

    fn reference(&mut self, reference: &Value, place: &Place) -> Result<Arc<Node>, Fault> {
        let Some(reference) = reference.as_str() else {
            return Err(Fault::new(
                &place.at,
                "$ref",
                format!("expected a string, found {reference}"),
            ));
        };
        let target = self.references.resolve(reference, &place.at)?;
        let depth = place.depth + usize::from(self.references.is_recursive(reference));
        if depth > RECURSION_LIMIT {
            let fault = Fault::new(
                &place.at,
                "$ref",
                format!("{reference:?} does not end within {RECURSION_LIMIT} rounds"),
            );
            return Ok(Arc::new(Node::Never(Never::Deeper(fault))));
        }
        let key = (reference.to_string(), depth);
        if let Some(node) = self.known.get(&key) {
            return Ok(node.clone());
        }
        let inside = Place {
            depth,
            ..place.child(place.at.clone())
        };
        let node = self.schema(target, inside)?;
        self.known.insert(key, node.clone());
        Ok(node)
    }

    /// The values of `enum` and `const` together.
    fn literals(&self, keywords: Keywords<'a, '_>) -> Result<Option<Vec<&'a Value>>, Fault> {
        let mut values: Option<Vec<&Value>> = match keywords.get("enum") {
            None => None,
            Some(Value::Array(list)) if list.is_empty() => {
                return Err(keywords.fault("enum", "the list is empty, so nothing fits"));
            }
            Some(Value::Array(list)) if list.len() > NAMES_LIMIT => {
                return Err(keywords.fault(
                    "enum",
                    format!("{} values, at most {NAMES_LIMIT} can be honoured", list.len()),
                ));
            }
            Some(Value::Array(list)) => Some(list.iter().collect()),
            Some(other) => return Err(keywords.fault("enum", format!("expected a list of values, found {other}"))),
        };
        if let Some(constant) = keywords.get("const") {
            let fits = values.is_none_or(|values| values.contains(&constant));
            values = Some(if fits { vec![constant] } else { Vec::new() });
        }
        Ok(values)
    }
}

/// The given values, as far as the other keywords beside them let them stand.
fn only(values: &[&Value], node: &Arc<Node>, keywords: Keywords<'_, '_>) -> Result<Arc<Node>, Fault> {
    let mut kept: Vec<Value> = Vec::new();
    for value in values {
        if admits(node, value)? && !kept.contains(value) {
            kept.push((*value).clone());
        }
    }
    let key = if keywords.get("enum").is_some() {
        "enum"
    } else {
        "const"
    };
    Ok(match kept.is_empty() {
        true => Node::contradiction(keywords.fault(key, "no value fits the other keywords")),
        false => Arc::new(Node::Literals(kept)),
    })
}

/// The types that a schema's other keywords speak of.
fn implied(map: &Map<String, Value>) -> Option<Vec<Type>> {
    if map.contains_key("enum") || map.contains_key("const") {
        return None;
    }
    let mut kinds: Vec<Type> = Vec::new();
    for kind in map.keys().filter_map(|key| Type::implied_by(key)) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    (!kinds.is_empty()).then_some(kinds)
}

fn list<'a>(keywords: Keywords<'a, '_>, key: &str) -> Result<&'a [Value], Fault> {
    let schemas = list_or_none(keywords, key)?;
    match (keywords.get(key), schemas.is_empty()) {
        (Some(_), true) => Err(keywords.fault(key, "the list is empty")),
        _ => Ok(schemas),
    }
}

fn list_or_none<'a>(keywords: Keywords<'a, '_>, key: &str) -> Result<&'a [Value], Fault> {
    match keywords.get(key) {
        None => Ok(&[]),
        Some(Value::Array(schemas)) => Ok(schemas),
        Some(other) => Err(keywords.fault(key, format!("expected a list of schemas, found {other}"))),
    }
}
