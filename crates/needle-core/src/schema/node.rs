//! The tree of constraints that a schema is read into. Shared nodes are shared: a recursive definition is a graph of them.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value;

use super::Decimal;
use super::fault::Fault;

/// What a value may be.
#[derive(Debug)]
pub(crate) enum Node {
    /// Nothing at all, and why.
    Never(Never),
    /// Any JSON value.
    Any,
    /// One of these values; never empty.
    Literals(Vec<Value>),
    /// A string.
    Text(Text),
    /// A number.
    Number(Number),
    /// An array.
    Array(Array),
    /// An object.
    Object(Object),
    /// One of these, none of which is a union or `Never`; at least two.
    Union(Vec<Arc<Node>>),
}

/// Why nothing fits.
#[derive(Clone, Debug)]
pub(crate) enum Never {
    /// The schema is `false`: left out where it may be.
    Forbidden,
    /// The recursion limit: left out where it may be.
    Deeper(Fault),
    /// The constraints contradict each other: the schema is refused, unless another branch of a union remains.
    Contradiction(Fault),
}

/// Constraints on a string. Lengths count Unicode scalar values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Text {
    pub(crate) shortest: u32,
    pub(crate) longest: Option<u32>,
    pub(crate) rules: Vec<TextRule>,
}

/// One rule on the whole of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Format {
    Date,
    Time,
    DateTime,
    Duration,
    Email,
    Hostname,
    Ipv4,
    Ipv6,
    Uuid,
    Uri,
}

/// One rule on a string.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum TextRule {
    /// An ECMA-262 pattern, not anchored.
    Pattern(String),
    /// A named format.
    Format(Format),
}

impl Format {
    const NAMES: [(&'static str, Self); 10] = [
        ("date", Self::Date),
        ("time", Self::Time),
        ("date-time", Self::DateTime),
        ("duration", Self::Duration),
        ("email", Self::Email),
        ("hostname", Self::Hostname),
        ("ipv4", Self::Ipv4),
        ("ipv6", Self::Ipv6),
        ("uuid", Self::Uuid),
        ("uri", Self::Uri),
    ];

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::NAMES
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, format)| *format)
    }

    pub(crate) fn name(self) -> &'static str {
        Self::NAMES
            .iter()
            .find(|(_, format)| *format == self)
            .map_or("", |(name, _)| name)
    }
}

/// One end of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Bound {
    pub(crate) value: Decimal,
    pub(crate) inclusive: bool,
}

/// Constraints on a number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Number {
    pub(crate) whole: bool,
    pub(crate) low: Option<Bound>,
    pub(crate) high: Option<Bound>,
    /// Above zero.
    pub(crate) step: Option<Decimal>,
    /// A bound was given that lies beyond every number we write: it holds as soon as no exponent is written.
    pub(crate) plain: bool,
}

/// Constraints on an array.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    /// The first items, one by one.
    pub(crate) prefix: Vec<Arc<Node>>,
    /// All others.
    pub(crate) items: Arc<Node>,
    pub(crate) shortest: usize,
    pub(crate) longest: Option<usize>,
    pub(crate) distinct: bool,
}

/// Whether a key must appear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Required,
    Optional,
}

/// One declared key of an object.
#[derive(Clone, Debug)]
pub(crate) struct Property {
    pub(crate) name: String,
    pub(crate) node: Arc<Node>,
    pub(crate) presence: Presence,
}

/// Keys that are not declared.
#[derive(Clone, Debug)]
pub(crate) enum Extra {
    /// The schema says nothing: open where it does not declare `properties` either, closed otherwise.
    Unstated,
    /// `additionalProperties: false`.
    Forbidden,
    /// Any other key, with such a value.
    Allowed(Arc<Node>),
}

/// Constraints on an object. Keys are written in this order.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) properties: Vec<Property>,
    /// Whether the schema declares `properties`, be it none.
    pub(crate) declares: bool,
    pub(crate) extra: Extra,
    pub(crate) fewest: usize,
    pub(crate) most: Option<usize>,
}

impl Node {
    /// The one node that is nothing because of `fault`.
    pub(crate) fn contradiction(fault: Fault) -> Arc<Self> {
        Arc::new(Self::Never(Never::Contradiction(fault)))
    }

    pub(crate) fn is_never(&self) -> bool {
        matches!(self, Self::Never(_))
    }

    /// The union of `branches`: those that are nothing drop out, nested unions are flattened, and what
    /// stands there already is not added again.
    pub(crate) fn union(branches: Vec<Arc<Node>>) -> Arc<Self> {
        let mut kept: Vec<Arc<Node>> = Vec::new();
        let mut literals: Vec<Value> = Vec::new();
        let mut written: HashSet<String> = HashSet::new();
        let mut seen = Seen::default();
        let mut first_never = None;
        for branch in branches {
            match &*branch {
                Self::Any => return branch,
                Self::Never(_) => {
                    first_never.get_or_insert(branch);
                }
                Self::Union(inner) => kept.extend(inner.iter().filter(|inner| seen.add(inner)).cloned()),
                Self::Literals(values) => {
                    literals.extend(values.iter().filter(|value| written.insert(value.to_string())).cloned());
                }
                _ if seen.add(&branch) => kept.push(branch),
                _ => {}
            }
        }
        if !literals.is_empty() {
            kept.push(Arc::new(Self::Literals(literals)));
        }
        match (kept.len(), first_never) {
            (0, Some(never)) => never,
            (0, None) => Arc::new(Self::Never(Never::Forbidden)),
            (1, _) => kept.swap_remove(0),
            _ => Arc::new(Self::Union(kept)),
        }
    }

    /// Number of branches.
    pub(crate) fn width(&self) -> usize {
        match self {
            Self::Union(branches) => branches.len(),
            _ => 1,
        }
    }

    /// Every value, where there are at most `limit` of them, and each once.
    pub(crate) fn finite(&self, limit: usize) -> Option<Vec<Value>> {
        match self {
            Self::Literals(values) => (values.len() <= limit).then(|| values.clone()),
            Self::Number(number) => number.finite(limit),
            Self::Union(branches) => {
                let mut all: Vec<Value> = Vec::new();
                for branch in branches {
                    for value in branch.finite(limit)? {
                        if !all.iter().any(|known| super::member::equal(known, &value)) {
                            all.push(value);
                        }
                    }
                }
                (all.len() <= limit).then_some(all)
            }
            Self::Never(_) | Self::Any | Self::Text(_) | Self::Array(_) | Self::Object(_) => None,
        }
    }
}

/// Branches that a union has already. Arrays and objects count as equal only where they are shared.
#[derive(Default)]
struct Seen {
    shared: HashSet<*const Node>,
    texts: HashSet<Text>,
    numbers: HashSet<Number>,
}

impl Seen {
    /// Whether `node` is new.
    fn add(&mut self, node: &Arc<Node>) -> bool {
        self.shared.insert(Arc::as_ptr(node))
            && match &**node {
                Node::Text(text) => self.texts.insert(text.clone()),
                Node::Number(number) => self.numbers.insert(number.clone()),
                _ => true,
            }
    }
}

impl Object {
    /// What the keys that are not declared may hold, `None` where there may be none.
    pub(crate) fn open(&self) -> Option<Arc<Node>> {
        match &self.extra {
            Extra::Allowed(node) if !node.is_never() => Some(node.clone()),
            Extra::Unstated if !self.declares => Some(Arc::new(Node::Any)),
            Extra::Unstated | Extra::Forbidden | Extra::Allowed(_) => None,
        }
    }
}
