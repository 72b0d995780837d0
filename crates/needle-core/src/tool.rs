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
    handler: Option<Handler>,
    /// What went wrong while building, reported when the tool is put into a set.
    mistake: Option<String>,
    warnings: Vec<Warning>,
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
        let parameters = json!({ "type": "object", "properties": {} });
        Self {
            json: json!({ "name": name, "description": description, "parameters": parameters }),
            name,
            parameters,
            handler: None,
            mistake: None,
            warnings: Vec::new(),
        }
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
    pub fn parameter(mut self, name: &str, schema: Value) -> Self {
        let known = self.properties().insert(name.into(), schema).is_some();
        if known {
            self.mistake
                .get_or_insert_with(|| format!("the parameter {name:?} is declared twice"));
        }
        match self.schema().entry("required").or_insert_with(|| json!([])) {
            Value::Array(required) => required.push(name.into()),
            other => *other = json!([name]),
        }
        self.render()
    }

    /// The last parameter may be left out.
    pub fn optional(mut self) -> Self {
        let Some(name) = self.properties().keys().next_back().cloned() else {
            return self.misplaced("optional()");
        };
        let schema = self.schema();
        if let Some(Value::Array(required)) = schema.get_mut("required") {
            required.retain(|other| *other != name.as_str());
            if required.is_empty() {
                schema.shift_remove("required");
            }
        }
        self.render()
    }

    /// Adds a keyword of JSON Schema to the last parameter, such as `minimum` or `pattern`.
    pub fn keyword(mut self, key: &str, value: impl Into<Value>) -> Self {
        match self.properties().values_mut().next_back() {
            Some(Value::Object(schema)) => {
                schema.insert(key.into(), value.into());
                self.render()
            }
            _ => self.misplaced(&format!("keyword({key:?})")),
        }
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
    pub fn handler_of(&self) -> Option<&Handler> {
        self.handler.as_ref()
    }

    fn described(self, name: &str, kind: &str, description: &str) -> Self {
        match description {
            "" => self.parameter(name, json!({ "type": kind })),
            _ => self.parameter(name, json!({ "type": kind, "description": description })),
        }
    }

    fn misplaced(mut self, what: &str) -> Self {
        self.mistake
            .get_or_insert_with(|| format!("{what} stands before any parameter"));
        self
    }

    fn schema(&mut self) -> &mut Map<String, Value> {
        if !self.parameters.is_object() {
            self.parameters = json!({});
        }
        match &mut self.parameters {
            Value::Object(map) => map,
            _ => unreachable!("made an object above"),
        }
    }

    fn properties(&mut self) -> &mut Map<String, Value> {
        let properties = self.schema().entry("properties").or_insert_with(|| json!({}));
        if !properties.is_object() {
            *properties = json!({});
        }
        match properties {
            Value::Object(map) => map,
            _ => unreachable!("made an object above"),
        }
    }

    /// Puts the parameters into the JSON.
    fn render(mut self) -> Self {
        self.json["parameters"] = self.parameters.clone();
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
