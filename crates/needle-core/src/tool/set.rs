//! A set of tools whose schemas have been read: what grammars, prompts and the last check work from.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::{Tool, ToolCall, read};
use crate::error::{Error, Result};
use crate::schema::{self, Fault, Node, Parameters};
use crate::{fingerprint, json};

/// Something about a tool that is read in some way all the same, and may not be what its author meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The tool's name.
    pub tool: String,
    /// Path of the field inside the parameters, if it is about one.
    pub field: Option<String>,
    /// The key.
    pub key: String,
    /// What is odd and how it was read.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = self
            .field
            .as_ref()
            .map(|field| format!("{field}: "))
            .unwrap_or_default();
        write!(f, "tool {}: {field}{}: {}", self.tool, self.key, self.message)
    }
}

/// Tools with different names, in order. Cloning is cheap.
#[derive(Clone, Debug, Default)]
pub struct ToolSet {
    entries: Arc<Vec<Entry>>,
}

#[derive(Debug)]
struct Entry {
    tool: Tool,
    parameters: Parameters,
    validator: jsonschema::Validator,
    warnings: Vec<Warning>,
}

impl ToolSet {
    /// Reads the schemas of `tools`.
    ///
    /// # Errors
    /// [`Error::Schema`] for a schema that cannot be honoured, naming tool, field and keyword; [`Error::Tools`] for two
    /// tools of one name.
    pub fn new(tools: impl IntoIterator<Item = Tool>) -> Result<Self> {
        let mut names = HashSet::new();
        let mut entries = Vec::new();
        for tool in tools {
            tool.check()?;
            if !names.insert(tool.name.clone()) {
                return Err(Error::Tools(format!("there are two tools named {:?}", tool.name)));
            }
            entries.push(Entry::new(tool)?);
        }
        Ok(Self {
            entries: Arc::new(entries),
        })
    }

    /// Reads tools given as JSON. Understood are:
    /// - a list of tools, one tool, or an object with such a list under `tools`;
    /// - tools as they are (`name`, `description`, `parameters`) or wrapped as `{"type":"function","function":{…}}`;
    /// - `parameters` as JSON Schema of an object, or flat as `{"city":{"type":"string"}}`, where a parameter is optional
    ///   unless it says `required: true`; missing, `null` or `{}` for no parameters at all.
    ///
    /// Keys that are not understood give a [`Warning`].
    ///
    /// # Errors
    /// [`Error::Tools`] for what is no list of tools, and everything that [`ToolSet::new`] refuses.
    pub fn from_json(value: &Value) -> Result<Self> {
        Self::new(read::tools(value)?)
    }

    /// Reads tools out of a JSON text, as [`ToolSet::from_json`] does.
    ///
    /// # Errors
    /// [`Error::Tools`] for a text that is no JSON, and everything that [`ToolSet::from_json`] refuses.
    pub fn parse(text: &str) -> Result<Self> {
        let value = serde_json::from_str(text).map_err(|error| Error::Tools(format!("not JSON: {error}")))?;
        Self::from_json(&value)
    }

    /// The list of tools as it goes into the prompt: every tool as it was given, without its wrapper.
    pub fn to_json(&self) -> Value {
        self.tools().map(|tool| tool.to_json().clone()).collect()
    }

    /// SHA-256 of every tool as it goes into the prompt, by name.
    pub fn fingerprints(&self) -> BTreeMap<String, String> {
        let hash = |tool: &Tool| fingerprint::sha256(json::compact(tool.to_json()).as_bytes());
        self.tools().map(|tool| (tool.name.clone(), hash(tool))).collect()
    }

    /// The tools in order.
    pub fn tools(&self) -> impl Iterator<Item = &Tool> {
        self.entries.iter().map(|entry| &entry.tool)
    }

    /// The tool of that name.
    pub fn find(&self, name: &str) -> Option<&Tool> {
        self.tools().find(|tool| tool.name == name)
    }

    /// Number of tools.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no tools.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What was odd about the tools.
    pub fn warnings(&self) -> impl Iterator<Item = &Warning> {
        self.entries.iter().flat_map(|entry| &entry.warnings)
    }

    /// Checks a finished call against its tool's schema, with another validator than the grammar is built on.
    ///
    /// # Errors
    /// [`Error::Call`] for an unknown tool, a key that is not declared, or a value that does not fit.
    pub fn check_call(&self, call: &ToolCall) -> Result<()> {
        let wrong = |field: Option<String>, reason: String| Error::Call {
            tool: call.name.clone(),
            field,
            reason,
        };
        let entry = self.entries.iter().find(|entry| entry.tool.name == call.name);
        let entry = entry.ok_or_else(|| wrong(None, "there is no such tool".into()))?;
        if let Err(error) = entry.validator.validate(&call.arguments) {
            let field = error.instance_path().as_str().trim_start_matches('/').replace('/', ".");
            return Err(wrong((!field.is_empty()).then_some(field), error.to_string()));
        }
        match schema::misfit(&entry.parameters.node, &call.arguments) {
            Ok(None) => Ok(()),
            Ok(Some(key)) => Err(wrong(
                (!key.is_empty()).then_some(key),
                "does not fit the declared parameters".into(),
            )),
            Err(fault) => Err(fault.of_tool(&call.name)),
        }
    }

    /// Every tool with what its arguments may be.
    pub(crate) fn with_arguments(&self) -> impl Iterator<Item = (&Tool, &Arc<Node>)> {
        self.entries.iter().map(|entry| (&entry.tool, &entry.parameters.node))
    }
}

impl Entry {
    fn new(tool: Tool) -> Result<Self> {
        let parameters = schema::read(&tool.parameters).map_err(|fault| fault.of_tool(&tool.name))?;
        let options = jsonschema::draft202012::options().should_validate_formats(true);
        let validator = options.build(&parameters.standard).map_err(|error| {
            let field = error.instance_path().as_str().trim_start_matches('/').replace('/', ".");
            Fault::new(&field, "schema", error.to_string()).of_tool(&tool.name)
        })?;
        let mut warnings = tool.warnings.clone();
        warnings.extend(parameters.oddities.iter().map(|oddity| Warning {
            tool: tool.name.clone(),
            field: (!oddity.field.is_empty()).then(|| oddity.field.clone()),
            key: oddity.key.clone(),
            message: oddity.reading.clone(),
        }));
        Ok(Self {
            tool,
            parameters,
            validator,
            warnings,
        })
    }
}
