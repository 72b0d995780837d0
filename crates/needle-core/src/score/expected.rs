//! The calls that are wanted, where several values may be right, and whether a call made is one of them.

use serde_json::{Map, Value, json};

use crate::{schema::equal, tool::ToolCall};

/// A call that is wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpectedCall {
    /// The tool's name.
    pub name: String,
    /// The arguments that may be given; any other is wrong.
    pub arguments: Vec<ExpectedArgument>,
}

/// An argument that is wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpectedArgument {
    /// Its name.
    pub name: String,
    /// What it may be.
    pub allowed: Allowed,
    /// Whether it may be left out.
    pub presence: Presence,
}

/// Whether an argument may be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It may not.
    Required,
    /// It may.
    Optional,
}

/// What a value may be.
#[derive(Clone, Debug, PartialEq)]
pub enum Allowed {
    /// This value.
    Value(Value),
    /// A list of as many items, each as this says.
    List(Vec<Allowed>),
    /// An object with these members.
    Object(Vec<ExpectedArgument>),
    /// Any of these.
    OneOf(Vec<Allowed>),
}

/// How texts are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wording {
    /// To the letter.
    #[default]
    Exact,
    /// Without capitals, spaces and the marks `, . / - _ * ^`; both kinds of quotes are the same. BFCL's rule.
    Loose,
}

impl ExpectedCall {
    /// Exactly this call.
    pub fn exactly(call: &ToolCall) -> Self {
        let arguments = call.arguments.as_object().into_iter().flatten();
        Self {
            name: call.name.clone(),
            arguments: arguments
                .map(|(name, value)| ExpectedArgument {
                    name: name.clone(),
                    allowed: Allowed::Value(value.clone()),
                    presence: Presence::Required,
                })
                .collect(),
        }
    }

    /// The call as JSON, with the first of the values that may be; for people to read.
    pub fn to_json(&self) -> Value {
        json!({ "name": self.name, "arguments": first_of(&self.arguments) })
    }

    /// Whether a call is this one.
    pub(super) fn admits(&self, call: &ToolCall, wording: Wording) -> bool {
        let given = call.arguments.as_object();
        self.name == call.name && given.is_some_and(|given| members(&self.arguments, given, wording))
    }

    /// Arguments of a call that are right.
    pub(super) fn right(&self, call: &ToolCall, wording: Wording) -> usize {
        let given = call.arguments.as_object().into_iter().flatten();
        let right = |name: &str, value: &Value| {
            let wanted = self.arguments.iter().find(|argument| argument.name == name);
            wanted.is_some_and(|argument| argument.allowed.admits(value, wording))
        };
        given.filter(|(name, value)| right(name, value)).count()
    }

    /// Arguments that are wanted of a call: those that may not be left out, and those that it gives.
    pub(super) fn wanted(&self, call: Option<&ToolCall>) -> usize {
        let given = |name: &str| call.is_some_and(|call| call.arguments.get(name).is_some());
        let wanted = |argument: &&ExpectedArgument| argument.presence == Presence::Required || given(&argument.name);
        self.arguments.iter().filter(wanted).count()
    }
}

impl Allowed {
    fn admits(&self, value: &Value, wording: Wording) -> bool {
        match (self, value) {
            (Self::OneOf(any), _) => any.iter().any(|one| one.admits(value, wording)),
            (Self::List(items), Value::Array(values)) => {
                items.len() == values.len()
                    && items
                        .iter()
                        .zip(values)
                        .all(|(item, value)| item.admits(value, wording))
            }
            (Self::Object(wanted), Value::Object(given)) => members(wanted, given, wording),
            (Self::Value(wanted), _) => match wording {
                Wording::Exact => equal(wanted, value),
                Wording::Loose => equal(&loose(wanted), &loose(value)),
            },
            (Self::List(_) | Self::Object(_), _) => false,
        }
    }

    fn first(&self) -> Value {
        match self {
            Self::Value(value) => value.clone(),
            Self::List(items) => items.iter().map(Self::first).collect(),
            Self::Object(members) => first_of(members).into(),
            Self::OneOf(any) => any.first().map_or(Value::Null, Self::first),
        }
    }
}

fn first_of(arguments: &[ExpectedArgument]) -> Map<String, Value> {
    let wanted = arguments
        .iter()
        .filter(|argument| argument.presence == Presence::Required);
    wanted
        .map(|argument| (argument.name.clone(), argument.allowed.first()))
        .collect()
}

/// Whether the members given are those wanted, no more and no fewer.
fn members(wanted: &[ExpectedArgument], given: &Map<String, Value>, wording: Wording) -> bool {
    let known = |name: &String| wanted.iter().any(|argument| argument.name == *name);
    given.keys().all(known)
        && wanted.iter().all(|argument| match given.get(&argument.name) {
            Some(value) => argument.allowed.admits(value, wording),
            None => argument.presence == Presence::Optional,
        })
}

/// A value whose texts are all in loose wording.
fn loose(value: &Value) -> Value {
    match value {
        Value::String(text) => {
            let kept = text.chars().filter(|char| !" ,./-_*^".contains(*char));
            let plain: String = kept.map(|char| if char == '\'' { '"' } else { char }).collect();
            plain.to_lowercase().into()
        }
        Value::Array(items) => items.iter().map(loose).collect(),
        Value::Object(members) => members.iter().map(|(key, value)| (key.clone(), loose(value))).collect(),
        other => other.clone(),
    }
}
