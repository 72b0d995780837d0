//! Tools: what the model may call, how it is declared, and what runs it.
//!
//! A tool is declared by the builder of [`Tool`], or as JSON in any of the spellings that [`ToolSet::from_json`] lists. A
//! [`ToolSet`] reads every schema once, refuses what cannot be honoured (see [`crate::schema`]) and is what grammars and
//! prompts are made of.

mod call;
mod read;
mod set;
mod typed;

pub use call::ToolCall;
pub use set::{ToolSet, Warning};

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::error::{Error, Result};

/// What a handler may fail with.
pub type HandlerError = Box<dyn std::error::Error + Send + Sync>;

/// Runs a call: arguments in, result out.
pub type Handler = Arc<dyn Fn(&Value) -> std::result::Result<Value, HandlerError> + Send + Sync>;

/// Something the model may call.
///
/// ```
/// use needle_core::tool::Tool;
/// let lamp = Tool::new("set_lamp", "Switch a lamp on or off, or dim it.")
///     .string("room", "which room")
///     .integer("level", "brightness in percent").keyword("minimum", 0).keyword("maximum", 100).optional()
///     .handler(|arguments| Ok(serde_json::json!({ "done": arguments["room"] })));
/// ```
#[derive(Clone)]
pub struct Tool {
    name: String,
    /// As it goes into the prompt, keys in their order.
    json: Value,
    parameters: Value,
    /// The parameters that the builder has so far; `None` for a tool given as JSON.
    built: Option<Built>,
    handler: Option<Handler>,
    /// What went wrong while building, reported when the tool is put into a set.
    mistake: Option<String>,
    warnings: Vec<Warning>,
}

#[derive(Clone, Default)]
struct Built {
    properties: Map<String, Value>,
    required: Vec<String>,
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool")
            .field("json", &self.json)
            .field("handler", &self.handler.is_some())
            .finish()
    }
}

impl Tool {
    /// A tool without parameters. Its JSON has the keys name, description, parameters, in this order: the order matters to
    /// the model.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        let (name, description) = (name.into(), description.into());
        let tool = Self {
            json: json!({ "name": name, "description": description }),
            name,
            parameters: Value::Null,
            built: Some(Built::default()),
            handler: None,
            mistake: None,
            warnings: Vec::new(),
        };
        tool.declare("new", |_| Ok(()))
    }

    /// A tool given as JSON, in any of the spellings that [`ToolSet::from_json`] lists. It goes into the prompt with its
    /// own keys in their own order.
    ///
    /// # Errors
    /// [`Error::Tools`] for what is no tool.
    pub fn from_json(value: &Value) -> Result<Self> {
        read::tool(value, 1)
    }

    /// Adds a required string. Spell closed sets as people say them, and prefer [`Tool::enumeration`] for them.
    pub fn string(self, name: &str, description: &str) -> Self {
        self.described(name, "string", description)
    }

    /// Adds a required whole number.
    pub fn integer(self, name: &str, description: &str) -> Self {
        self.described(name, "integer", description)
    }

    /// Adds a required number.
    pub fn number(self, name: &str, description: &str) -> Self {
        self.described(name, "number", description)
    }

    /// Adds a required truth value.
    pub fn boolean(self, name: &str, description: &str) -> Self {
        self.described(name, "boolean", description)
    }

    /// Adds a required string out of `values`. The model copies what the user says, so spell the values the way people
    /// speak: "left half" is found where `left_half` is not.
    pub fn enumeration<'a>(self, name: &str, description: &str, values: impl IntoIterator<Item = &'a str>) -> Self {
        let values: Vec<&str> = values.into_iter().collect();
        self.parameter(
            name,
            json!({ "type": "string", "description": description, "enum": values }),
        )
    }

    /// Adds a required list whose items satisfy the JSON schema `items`.
    pub fn array(self, name: &str, description: &str, items: Value) -> Self {
        self.parameter(
            name,
            json!({ "type": "array", "description": description, "items": items }),
        )
    }

    /// Adds a required parameter with a JSON schema of its own.
    pub fn parameter(self, name: &str, schema: Value) -> Self {
        self.declare("parameter", |built| {
            built.required.push(name.into());
            match built.properties.insert(name.into(), schema) {
                None => Ok(()),
                Some(_) => Err(format!("the parameter {name:?} is declared twice")),
            }
        })
    }

    /// The last parameter may be left out.
    pub fn optional(self) -> Self {
        self.declare("optional", |built| match built.properties.keys().next_back() {
            Some(last) => {
                built.required.retain(|name| name != last);
                Ok(())
            }
            None => Err("optional() stands before any parameter".into()),
        })
    }

    /// Adds a keyword of JSON Schema to the last parameter, such as `minimum` or `pattern`.
    pub fn keyword(self, key: &str, value: impl Into<Value>) -> Self {
        self.declare("keyword", |built| match built.properties.values_mut().next_back() {
            Some(Value::Object(schema)) => {
                schema.insert(key.into(), value.into());
                Ok(())
            }
            _ => Err(format!("keyword({key:?}) stands before any parameter")),
        })
    }

    /// What runs a call of this tool.
    pub fn handler<F>(mut self, run: F) -> Self
    where
        F: Fn(&Value) -> std::result::Result<Value, HandlerError> + Send + Sync + 'static,
    {
        self.handler = Some(Arc::new(run));
        self
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The tool as it goes into the prompt.
    pub fn to_json(&self) -> &Value {
        &self.json
    }

    /// What runs a call, if anything does.
    pub fn callback(&self) -> Option<&Handler> {
        self.handler.as_ref()
    }

    fn described(self, name: &str, kind: &str, description: &str) -> Self {
        match description {
            "" => self.parameter(name, json!({ "type": kind })),
            _ => self.parameter(name, json!({ "type": kind, "description": description })),
        }
    }

    /// Changes the parameters and renders them anew; the first mistake is kept until the tool is put into a set.
    fn declare(mut self, what: &str, change: impl FnOnce(&mut Built) -> std::result::Result<(), String>) -> Self {
        let mistake = match &mut self.built {
            None => Some(format!("{what}() cannot add to a tool given as JSON")),
            Some(built) => {
                let mistake = change(built).err();
                self.parameters = json!({ "type": "object", "properties": built.properties });
                if !built.required.is_empty() {
                    self.parameters["required"] = json!(built.required);
                }
                self.json["parameters"] = self.parameters.clone();
                mistake
            }
        };
        self.mistake = self.mistake.or(mistake);
        self
    }

    fn check(&self) -> Result<()> {
        match &self.mistake {
            None => Ok(()),
            Some(reason) => Err(Error::Schema {
                tool: self.name.clone(),
                field: None,
                reason: reason.clone(),
            }),
        }
    }
}
