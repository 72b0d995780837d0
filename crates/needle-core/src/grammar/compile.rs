//! Tools → productions: the JSON array of calls, with every argument inside its schema.

use std::collections::HashMap;
use std::sync::Arc;

use llguidance::api::GrammarInit;
use serde_json::Value;

use super::rules::{Rules, Symbol};
use super::{GrammarOptions, lexeme, members};
use crate::error::{Error, Result};
use crate::schema::{Array, FREE_DEPTH, Fault, Node, Number, Object, Text, below};
use crate::tool::Tool;

/// How many values `uniqueItems` may range over.
const DISTINCT_LIMIT: usize = 64;

/// The productions, and whether an object in them takes keys that no schema names.
pub(super) struct Compiled {
    pub(super) init: GrammarInit,
    pub(super) open_keys: bool,
}

/// The array of calls of `tools`, which are the offered ones.
pub(super) fn calls<'a>(
    tools: impl Iterator<Item = (&'a Tool, &'a Arc<Node>)>,
    options: &GrammarOptions,
) -> Result<Compiled> {
    let mut compiler = Compiler {
        rules: Rules::new()?,
        nodes: HashMap::new(),
        texts: HashMap::new(),
        numbers: HashMap::new(),
        free: Vec::new(),
        open_keys: false,
    };
    let mut branches = Vec::new();
    for (tool, arguments) in tools {
        let head = format!("{{\"name\":{},\"arguments\":", Value::from(tool.name()));
        let head = compiler.rules.text(&head)?;
        let body = compiler
            .node(arguments, "")
            .map_err(|refusal| refusal.of_tool(tool.name()))?;
        let close = compiler.rules.text("}")?;
        branches.push(compiler.rules.sequence(&[head, body, close])?);
    }
    let (least, most) = (options.fewest_calls, options.most_calls);
    if least > 0 && branches.is_empty() {
        return Err(Error::Tools("a call is required, but no tool is offered".into()));
    }
    if most.is_some_and(|most| most < least) {
        return Err(Error::Tools(format!(
            "at least {least} calls are required, but fewer are allowed"
        )));
    }
    let call = (!branches.is_empty() && most != Some(0))
        .then(|| compiler.rules.choice(&branches))
        .transpose()?;
    let array = compiler.list(call, least, most)?;
    Ok(Compiled {
        init: compiler.rules.finish(array)?,
        open_keys: compiler.open_keys,
    })
}

/// A schema that cannot be compiled, or a failure of the engine.
enum Refusal {
    Fault(Fault),
    Other(Error),
}

impl Refusal {
    fn of_tool(self, tool: &str) -> Error {
        match self {
            Self::Fault(fault) => fault.of_tool(tool),
            Self::Other(error) => error,
        }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

type Compile<T> = std::result::Result<T, Refusal>;

struct Compiler {
    rules: Rules,
    /// Symbols of nodes already compiled, by address: the tools hold them for longer than the compilation takes.
    nodes: HashMap<*const Node, Symbol>,
    /// Symbols of strings and numbers by their constraints, which tools tend to share.
    texts: HashMap<Text, Symbol>,
    numbers: HashMap<Number, Symbol>,
    /// Symbols of values under no constraint, by how deep they still nest.
    free: Vec<Symbol>,
    open_keys: bool,
}

impl Compiler {
    fn node(&mut self, node: &Arc<Node>, at: &str) -> Compile<Symbol> {
        let address = Arc::as_ptr(node);
        if let Some(symbol) = self.nodes.get(&address) {
            return Ok(*symbol);
        }
        let keyword = |(keyword, reason): lexeme::Reason| Fault::new(at, keyword, reason);
        let symbol = match &**node {
            Node::Never(_) => return Err(Fault::new(at, "schema", "nothing fits").into()),
            Node::Any => return Ok(self.any(FREE_DEPTH)?),
            Node::Literals(values) => self.literals(values)?,
            Node::Text(text) => match self.texts.get(text) {
                Some(symbol) => *symbol,
                None => {
                    let symbol = self.rules.terminal(lexeme::text(text).map_err(keyword)?)?;
                    *self.texts.entry(text.clone()).insert_entry(symbol).get()
                }
            },
            Node::Number(number) => match self.numbers.get(number) {
                Some(symbol) => *symbol,
                None => {
                    let symbol = self.rules.terminal(lexeme::number(number).map_err(keyword)?)?;
                    *self.numbers.entry(number.clone()).insert_entry(symbol).get()
                }
            },
            Node::Array(array) => self.array(array, at)?,
            Node::Object(object) => self.object(object, at)?,
            Node::Union(branches) => {
                let branches = branches
                    .iter()
                    .map(|branch| self.node(branch, at))
                    .collect::<Compile<Vec<_>>>()?;
                self.rules.choice(&branches)?
            }
        };
        self.nodes.insert(address, symbol);
        Ok(symbol)
    }

    /// One of these values. Lists and objects are spelt out bracket by bracket, like all others: the lexer takes the
    /// longest text it can, so no terminal may begin with the whole of another.
    fn literals(&mut self, values: &[Value]) -> Result<Symbol> {
        let (nested, scalars): (Vec<&Value>, Vec<&Value>) =
            values.iter().partition(|value| value.is_array() || value.is_object());
        let mut branches = Vec::new();
        if !scalars.is_empty() {
            branches.push(self.rules.terminal(lexeme::literals(scalars))?);
        }
        for value in nested {
            branches.push(self.literal(value)?);
        }
        self.rules.choice(&branches)
    }

    fn literal(&mut self, value: &Value) -> Result<Symbol> {
        let mut parts = Vec::new();
        match value {
            Value::Array(items) => {
                parts.push(self.rules.text("[")?);
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        parts.push(self.rules.text(",")?);
                    }
                    parts.push(self.literal(item)?);
                }
                parts.push(self.rules.text("]")?);
            }
            Value::Object(members) => {
                parts.push(self.rules.text("{")?);
                for (i, (key, value)) in members.iter().enumerate() {
                    if i > 0 {
                        parts.push(self.rules.text(",")?);
                    }
                    let value = self.literal(value)?;
                    parts.push(self.member(key, value)?);
                }
                parts.push(self.rules.text("}")?);
            }
            scalar => parts.push(self.rules.text(&scalar.to_string())?),
        }
        self.rules.sequence(&parts)
    }

    /// A key and its value.
    fn member(&mut self, key: &str, value: Symbol) -> Result<Symbol> {
        let key = self.rules.text(&Value::from(key).to_string())?;
        let colon = self.rules.text(":")?;
        self.rules.sequence(&[key, colon, value])
    }

    /// Any value that nests at most `depth` deep.
    fn any(&mut self, depth: usize) -> Result<Symbol> {
        while self.free.len() <= depth {
            let scalars = [Value::Null, true.into(), false.into()];
            let mut branches = vec![
                self.rules.terminal(lexeme::literals(&scalars))?,
                self.rules.terminal(lexeme::string())?,
                self.rules.terminal(lexeme::any_number())?,
            ];
            if let Some(inner) = self.free.last().copied() {
                branches.push(self.list(Some(inner), 0, None)?);
                let key = self.rules.terminal(lexeme::other_key(&[]))?;
                let colon = self.rules.text(":")?;
                let member = self.rules.sequence(&[key, colon, inner])?;
                branches.push(self.between("{", Some(member), 0, None, "}")?);
            }
            let symbol = self.rules.choice(&branches)?;
            self.free.push(symbol);
        }
        self.open_keys |= depth > 0;
        Ok(self.free[depth])
    }

    /// `[`, `least` to `most` times the item with commas between, `]`.
    fn list(&mut self, item: Option<Symbol>, least: usize, most: Option<usize>) -> Result<Symbol> {
        self.between("[", item, least, most, "]")
    }

    fn between(
        &mut self,
        open: &str,
        item: Option<Symbol>,
        least: usize,
        most: Option<usize>,
        close: &str,
    ) -> Result<Symbol> {
        let (open, close) = (self.rules.text(open)?, self.rules.text(close)?);
        let items = self.rules.items(item, 0, least, most)?;
        match items {
            Some(items) => self.rules.sequence(&[open, items, close]),
            None => Err(Error::Grammar("an empty list where items are asked for".into())),
        }
    }

    fn array(&mut self, array: &Array, at: &str) -> Compile<Symbol> {
        if array.distinct {
            return self.distinct(array, at);
        }
        let item = match (&*array.items, array.longest) {
            (Node::Never(_), _) => None,
            (_, Some(longest)) if longest <= array.prefix.len() => None,
            _ => Some(self.node(&array.items, &format!("{at}[]"))?),
        };
        let count = array.prefix.len();
        let (least, most) = (
            array.shortest.saturating_sub(count),
            array.longest.map(|longest| longest.saturating_sub(count)),
        );
        let mut tail = self.rules.items(item, count, least, most)?;
        for (i, node) in array.prefix.iter().enumerate().rev() {
            let mut options = Vec::new();
            if i >= array.shortest {
                options.push(self.rules.nothing()?);
            }
            if let (Some(tail), true) = (tail, array.longest.is_none_or(|longest| i < longest)) {
                let item = self.node(node, &format!("{at}[{i}]"))?;
                let comma = self.rules.text(",")?;
                options.push(match i {
                    0 => self.rules.sequence(&[item, tail])?,
                    _ => self.rules.sequence(&[comma, item, tail])?,
                });
            }
            tail = (!options.is_empty()).then(|| self.rules.choice(&options)).transpose()?;
        }
        let tail = tail.ok_or_else(|| Fault::new(at, "minItems", "no list fits"))?;
        let (open, close) = (self.rules.text("[")?, self.rules.text("]")?);
        Ok(self.rules.sequence(&[open, tail, close])?)
    }

    /// A list of values that are all different, out of a finite set.
    fn distinct(&mut self, array: &Array, at: &str) -> Compile<Symbol> {
        let values = array.items.finite(DISTINCT_LIMIT).filter(|_| array.prefix.is_empty());
        let Some(values) = values else {
            let reason = format!("only lists over at most {DISTINCT_LIMIT} known values can be kept free of repeats");
            return Err(Fault::new(at, "uniqueItems", reason).into());
        };
        if array.shortest > values.len() {
            let reason = format!(
                "{} different items are asked for, but there are only {}",
                array.shortest,
                values.len()
            );
            return Err(Fault::new(at, "minItems", reason).into());
        }
        let parts = values
            .iter()
            .map(|value| self.literal(value))
            .collect::<Result<Vec<_>>>()?;
        let most = array.longest.unwrap_or(values.len()).min(values.len());
        let items = self.rules.distinct(&parts, array.shortest, most)?;
        let (open, close) = (self.rules.text("[")?, self.rules.text("]")?);
        Ok(self.rules.sequence(&[open, items, close])?)
    }

    /// Keys in declared order, each with its value, then keys that are not declared.
    fn object(&mut self, object: &Object, at: &str) -> Compile<Symbol> {
        let mut members = Vec::new();
        for property in &object.properties {
            let value = self.node(&property.node, &below(at, &property.name))?;
            members.push((self.member(&property.name, value)?, property.presence));
        }
        let other = match object.open() {
            None => None,
            Some(node) => {
                self.open_keys = true;
                let taken: Vec<&str> = object
                    .properties
                    .iter()
                    .map(|property| property.name.as_str())
                    .collect();
                let key = self.rules.terminal(lexeme::other_key(&taken))?;
                let colon = self.rules.text(":")?;
                let value = match &*node {
                    Node::Any => self.any(FREE_DEPTH - 1)?,
                    _ => self.node(&node, &below(at, "*"))?,
                };
                Some(self.rules.sequence(&[key, colon, value])?)
            }
        };
        let inside = members::inside(&mut self.rules, object, &members, other)?;
        let inside = inside.ok_or_else(|| Fault::new(at, "minProperties", "no object fits"))?;
        let (open, close) = (self.rules.text("{")?, self.rules.text("}")?);
        Ok(self.rules.sequence(&[open, inside, close])?)
    }
}
