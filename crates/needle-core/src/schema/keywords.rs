//! The keywords of JSON Schema, sorted by what becomes of them.

/// Keywords that say nothing about which values are valid.
const ANNOTATIONS: [&str; 17] = [
    "title",
    "description",
    "default",
    "examples",
    "example",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$comment",
    "$schema",
    "$id",
    "id",
    "$defs",
    "definitions",
    "contentMediaType",
    "contentEncoding",
    "discriminator",
];

/// Keywords that are honoured in full.
const HONOURED: [&str; 29] = [
    "type",
    "enum",
    "const",
    "nullable",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "items",
    "prefixItems",
    "additionalItems",
    "minItems",
    "maxItems",
    "uniqueItems",
    "properties",
    "required",
    "additionalProperties",
    "minProperties",
    "maxProperties",
    "propertyNames",
    "anyOf",
    "oneOf",
    "allOf",
    "$ref",
];

/// Keywords of the standard that cannot be honoured.
const REFUSED: [&str; 20] = [
    "not",
    "if",
    "then",
    "else",
    "contains",
    "minContains",
    "maxContains",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "unevaluatedItems",
    "unevaluatedProperties",
    "patternProperties",
    "$dynamicRef",
    "$recursiveRef",
    "$anchor",
    "$dynamicAnchor",
    "$recursiveAnchor",
    "extends",
    "disallow",
];

/// Formats that need no rule of their own: OpenAPI's names for what `type` already says.
pub(crate) const SILENT_FORMATS: [&str; 3] = ["float", "double", "password"];

/// The range of a format that names a machine's integer.
pub(crate) fn integer_format(name: &str) -> Option<(i128, i128)> {
    let (signed, bits) = match name {
        "int8" => (true, 8),
        "int16" => (true, 16),
        "int32" => (true, 32),
        "int64" | "int" => (true, 64),
        "uint8" => (false, 8),
        "uint16" => (false, 16),
        "uint32" => (false, 32),
        "uint64" | "uint" => (false, 64),
        _ => return None,
    };
    Some(match signed {
        true => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        false => (0, (1 << bits) - 1),
    })
}

/// What becomes of a keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Treatment {
    Silent,
    Honoured,
    Refused,
    Unknown,
}

/// What becomes of `keyword`.
pub(crate) fn treatment(keyword: &str) -> Treatment {
    if HONOURED.contains(&keyword) {
        Treatment::Honoured
    } else if REFUSED.contains(&keyword) {
        Treatment::Refused
    } else if ANNOTATIONS.contains(&keyword) || keyword.starts_with("x-") {
        Treatment::Silent
    } else {
        Treatment::Unknown
    }
}

/// A JSON type, with `integer` as JSON Schema counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Null,
    Boolean,
    Integer,
    Number,
    String,
    Array,
    Object,
}

impl Type {
    const NAMES: [(&'static str, Self); 7] = [
        ("null", Self::Null),
        ("boolean", Self::Boolean),
        ("integer", Self::Integer),
        ("number", Self::Number),
        ("string", Self::String),
        ("array", Self::Array),
        ("object", Self::Object),
    ];

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::NAMES
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, kind)| *kind)
    }

    /// The type that `keyword` speaks of, where it speaks of one alone.
    pub(crate) fn implied_by(keyword: &str) -> Option<Self> {
        Some(match keyword {
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => Self::Number,
            "minLength" | "maxLength" | "pattern" | "format" => Self::String,
            "items" | "prefixItems" | "minItems" | "maxItems" | "uniqueItems" => Self::Array,
            "properties"
            | "required"
            | "additionalProperties"
            | "minProperties"
            | "maxProperties"
            | "propertyNames" => Self::Object,
            _ => return None,
        })
    }
}
