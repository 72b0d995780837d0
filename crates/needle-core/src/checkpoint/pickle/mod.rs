//! Python pickles read as data: nothing is imported, nothing is called.
//!
//! A pickle is a program for a small stack machine. [`machine`] runs the opcodes that build plain values, [`numpy`] knows
//! the few functions that NumPy's own pickles name and does by hand what they would do. Every other opcode and every other
//! name is an error. Values live in one arena and refer to each other by index, so shared and cyclic values cost nothing
//! to drop; walks over them are bounded.

mod cursor;
mod machine;
mod numpy;

use std::{collections::HashMap, path::Path};

use candle_core::DType;
use serde_json::{Map, Number, Value};

use self::numpy::{Element, Global};
use super::tree::Array;
use crate::{
    error::{Error, Result},
    weights::Bytes,
};

/// Containers inside each other; a checkpoint has eight.
const MAX_DEPTH: usize = 32;

/// Values visited in one walk; shared values count every time.
const MAX_VISITS: usize = 1 << 16;

/// A value's place in the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Id(u32);

#[derive(Clone, Debug)]
enum Node {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// UTF-8, in the file.
    Text(Bytes),
    Data(Data),
    Tuple(Vec<Id>),
    List(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    Global(Global),
    Element(Element),
    /// What `_reconstruct` returns: an array that BUILD has yet to fill.
    Unfilled,
    Array(NumpyArray),
}

impl Node {
    fn kind(&self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Bool(_) => "a bool",
            Self::Int(_) => "an int",
            Self::Float(_) => "a float",
            Self::Text(_) => "a str",
            Self::Data(_) => "bytes",
            Self::Tuple(_) => "a tuple",
            Self::List(_) => "a list",
            Self::Dict(_) => "a dict",
            Self::Global(_) => "a function or type",
            Self::Element(_) => "a dtype",
            Self::Unfilled => "an array without values",
            Self::Array(_) => "an array",
        }
    }
}

#[derive(Clone, Debug)]
struct Data {
    bytes: Bytes,
    /// Where they lie in the file, unless they were decoded.
    offset: Option<usize>,
}

/// A row-major array whose bytes are as many as its shape asks for.
#[derive(Clone, Debug)]
struct NumpyArray {
    element: Element,
    shape: Vec<usize>,
    data: Data,
}

/// A pickle's values.
pub(super) struct Pickle<'a> {
    file: &'a Path,
    nodes: Vec<Node>,
    root: Id,
}

/// A dict with text keys, taken apart.
pub(super) struct Fields(Vec<(String, Id)>);

impl Fields {
    pub(super) fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(name, _)| name == key)
    }

    pub(super) fn take(&mut self, key: &str) -> Option<Id> {
        let place = self.0.iter().position(|(name, _)| name == key)?;
        Some(self.0.remove(place).1)
    }

    /// A key that nobody took.
    pub(super) fn next_key(&self) -> Option<&str> {
        self.0.first().map(|(name, _)| name.as_str())
    }

    /// The entries that nobody took.
    pub(super) fn into_entries(self) -> Vec<(String, Id)> {
        self.0
    }
}

/// Whether a file begins as pickles of protocol 2 and later do.
pub(super) fn is_it(bytes: &[u8]) -> bool {
    matches!(bytes, [machine::PROTO, 0..=9, ..])
}

impl<'a> Pickle<'a> {
    /// Runs a whole pickle.
    ///
    /// # Errors
    /// [`Error::Format`] names the opcode or the name that is refused, and where.
    pub(super) fn read(bytes: &Bytes, file: &'a Path) -> Result<Self> {
        let (nodes, root) = machine::run(bytes).map_err(|reason| Error::format(file, format!("pickle: {reason}")))?;
        Ok(Self { file, nodes, root })
    }

    fn error(&self, reason: impl Into<String>) -> Error {
        Error::format(self.file, format!("pickle: {}", reason.into()))
    }

    fn node(&self, id: Id) -> &Node {
        // Ids are only made by pushing to the arena.
        &self.nodes[id.0 as usize]
    }

    /// The pickle's value, a dict.
    pub(super) fn root(&self) -> Result<Fields> {
        self.fields(self.root)
    }

    /// A dict's entries; of a key set twice the last one.
    pub(super) fn fields(&self, id: Id) -> Result<Fields> {
        let Node::Dict(entries) = self.node(id) else {
            return Err(self.error(format!("expected a dict, found {}", self.node(id).kind())));
        };
        let (mut fields, mut places) = (vec![], HashMap::new());
        for &(key, value) in entries {
            let key = self.text(key)?;
            match places.get(&key) {
                Some(&place) => fields[place] = (key, value),
                None => {
                    places.insert(key.clone(), fields.len());
                    fields.push((key, value));
                }
            }
        }
        Ok(Fields(fields))
    }

    fn text(&self, id: Id) -> Result<String> {
        match self.node(id) {
            Node::Text(bytes) => Ok(String::from_utf8_lossy(bytes).into_owned()),
            other => Err(self.error(format!("expected a str, found {}", other.kind()))),
        }
    }

    /// A plain value as JSON.
    pub(super) fn json(&self, id: Id) -> Result<Value> {
        let mut visits = MAX_VISITS;
        self.json_within(id, MAX_DEPTH, &mut visits)
    }

    fn json_within(&self, id: Id, depth: usize, visits: &mut usize) -> Result<Value> {
        self.visit(depth, visits)?;
        let list = |ids: &[Id], visits: &mut usize| {
            let values = ids.iter().map(|&id| self.json_within(id, depth - 1, visits));
            Ok(Value::Array(values.collect::<Result<_>>()?))
        };
        match self.node(id) {
            Node::None => Ok(Value::Null),
            Node::Bool(value) => Ok(Value::Bool(*value)),
            Node::Int(value) => Ok(Value::Number((*value).into())),
            Node::Float(value) => {
                let number = Number::from_f64(*value).map(Value::Number);
                number.ok_or_else(|| self.error(format!("a float is {value}")))
            }
            Node::Text(_) => Ok(Value::String(self.text(id)?)),
            Node::Tuple(ids) | Node::List(ids) => list(ids, visits),
            Node::Dict(_) => {
                let mut object = Map::new();
                for (key, value) in self.fields(id)?.into_entries() {
                    object.insert(key, self.json_within(value, depth - 1, visits)?);
                }
                Ok(Value::Object(object))
            }
            other => Err(self.error(format!("expected a plain value, found {}", other.kind()))),
        }
    }

    /// The float arrays of a nested dict, keys joined by `/`.
    pub(super) fn arrays(&self, id: Id) -> Result<Vec<Array>> {
        let (mut arrays, mut visits) = (vec![], MAX_VISITS);
        self.collect(id, "", MAX_DEPTH, &mut visits, &mut arrays)?;
        Ok(arrays)
    }

    fn collect(&self, id: Id, prefix: &str, depth: usize, visits: &mut usize, arrays: &mut Vec<Array>) -> Result<()> {
        self.visit(depth, visits)?;
        for (key, value) in self.fields(id)?.into_entries() {
            let path = if prefix.is_empty() {
                key
            } else {
                format!("{prefix}/{key}")
            };
            match self.node(value) {
                Node::Dict(_) => self.collect(value, &path, depth - 1, visits, arrays)?,
                _ => arrays.push(self.array(value, path)?),
            }
            self.visit(depth, visits)?;
        }
        Ok(())
    }

    /// One float array.
    pub(super) fn array(&self, id: Id, path: String) -> Result<Array> {
        let found = match self.node(id) {
            Node::Array(array) => array,
            other => {
                let reason = format!("expected an array, found {}", other.kind());
                return Err(Error::tensor(self.file, path, reason));
            }
        };
        let dtype = match found.element {
            Element::F16 => DType::F16,
            Element::BF16 => DType::BF16,
            Element::F32 => DType::F32,
            Element::F64 => DType::F64,
            other => {
                let reason = format!("expected float values, found {}", other.name());
                return Err(Error::tensor(self.file, path, reason));
            }
        };
        Ok(Array {
            path,
            dtype,
            shape: found.shape.clone(),
            bytes: found.data.bytes.clone(),
            offset: found.data.offset,
        })
    }

    fn visit(&self, depth: usize, visits: &mut usize) -> Result<()> {
        if depth == 0 {
            return Err(self.error(format!("values are nested more than {MAX_DEPTH} deep")));
        }
        match visits.checked_sub(1) {
            Some(left) => *visits = left,
            None => return Err(self.error(format!("more than {MAX_VISITS} values"))),
        }
        Ok(())
    }
}
