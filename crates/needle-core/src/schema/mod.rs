//! A tool's JSON schema as we honour it: read once into a small tree of exact constraints, or refused by name.
//!
//! The grammar is built from that tree alone, so whatever is not in it cannot be promised. The rule for every keyword is
//! therefore: honoured in full, or refused with the tool, the field and the keyword; annotations are passed over.
//!
//! | keyword | how it is honoured |
//! | --- | --- |
//! | `type` (also a list), `enum`, `const`, `nullable` | in full; a schema without `type` takes the types its other keywords speak of |
//! | `minimum`, `maximum`, `exclusive…` (also draft 4's booleans), `multipleOf` | exact decimal arithmetic |
//! | `minLength`, `maxLength`, `pattern`, `format` | together, as an intersection; patterns are ECMA-262 and unanchored |
//! | `format` | date, time, date-time, duration, email, hostname, ipv4, ipv6, uuid, uri; of OpenAPI and Rust int8 to uint64, float, double, password |
//! | `properties`, `required`, `additionalProperties`, `minProperties`, `maxProperties` | keys appear in declared order, then others |
//! | `propertyNames` | a finite set of names only |
//! | `items`, `prefixItems`, `minItems`, `maxItems`, `uniqueItems` | `uniqueItems` over at most 64 known values |
//! | `anyOf`, `allOf` | union; merged |
//! | `oneOf` | where the branches provably exclude each other, or are all finite |
//! | `$ref`, `$defs`, `definitions` | pointers inside the schema; recursion up to [`RECURSION_LIMIT`] |
//!
//! One tool may have [`SIZE_LIMIT`] parts, counted once references are followed, unions flattened and `allOf` merged (equal
//! branches count once), at most 128 of them inside each other; `prefixItems` takes at most 256 schemas.
//!
//! Readings that are stricter than JSON Schema:
//! - Keys are written in the order of `properties`; a key of the input that is not declared comes after them.
//! - An object that declares `properties` and says nothing of `additionalProperties` takes no other key. One that declares
//!   no properties at all takes any, except the parameters of a tool, which are then empty.
//! - A list without `items` takes any values, and a parameter without any keyword takes any value.
//! - Numbers that carry a bound are written without an exponent, with at most 20 digits before the point and as many
//!   after it as a double can tell apart, and those with `multipleOf` have at most 15 digits in all; free ones have at
//!   most 36 digits on either side of the point.
//! - Formats admit what the last check admits and a little less: no leap seconds, no host names with a double hyphen.
//! - Values under no constraint nest at most [`FREE_DEPTH`] deep, and their keys carry no escapes.

mod budget;
mod build;
mod constraint;
mod decimal;
mod exclusive;
mod fault;
mod keywords;
mod member;
mod merge;
mod node;
mod reference;
mod standard;

pub use budget::SIZE_LIMIT;
pub(crate) use decimal::{Decimal, gcd};
pub(crate) use fault::{Fault, below};
pub(crate) use member::{equal, misfit};
pub(crate) use node::{Array, Bound, Format, Node, Number, Object, Presence, Property, Text, TextRule};

use std::sync::Arc;

use serde_json::Value;

/// How often references to recursive definitions are followed along one path. What lies deeper is left out where it may
/// be, and the schema is refused where it may not.
pub const RECURSION_LIMIT: usize = 6;

/// How deep arrays and objects nest inside a value that no schema constrains.
pub const FREE_DEPTH: usize = 5;

/// The parameters of one tool, read and understood.
#[derive(Clone, Debug)]
pub(crate) struct Parameters {
    /// What the arguments may be: an object, or a union of objects.
    pub(crate) node: Arc<Node>,
    /// The same as standard JSON Schema (draft 2020-12), for the last check.
    pub(crate) standard: Value,
    /// Oddities that were read in some way all the same.
    pub(crate) oddities: Vec<Oddity>,
}

/// Something in a schema that was read all the same, and may not be what its author meant.
#[derive(Clone, Debug)]
pub(crate) struct Oddity {
    /// Path of the field, empty for the parameters themselves.
    pub(crate) field: String,
    /// The key.
    pub(crate) key: String,
    /// How it was read.
    pub(crate) reading: String,
}

/// Reads the value of a tool's `parameters`, in JSON Schema or in the flat style.
pub(crate) fn read(parameters: &Value) -> Result<Parameters, Fault> {
    let (standard, oddities) = standard::standardise(parameters)?;
    let (node, more) = build::arguments(&standard)?;
    Ok(Parameters {
        node,
        standard,
        oddities: oddities.into_iter().chain(more).collect(),
    })
}
