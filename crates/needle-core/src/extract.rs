//! Typed values out of a text: one tool whose parameters are the type's schema, called at most once.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    agent::{Needle, Strictness},
    engine::Engine,
    error::{Error, Result},
    grounding::{self, Sources},
    response::Response,
    tool::Tool,
};

/// Extracts values of one schema from any number of texts. Each text stands alone.
#[derive(Debug)]
pub struct Extractor {
    agent: Needle,
    name: String,
    /// The parameters of the one tool.
    schema: Value,
    strictness: Strictness,
}

/// What one text gave.
#[derive(Clone, Debug)]
pub struct Extraction {
    /// The value, `None` when nothing in the text matches.
    pub value: Option<Value>,
    /// The whole answer, with confidence and validation.
    pub response: Response,
}

impl Extractor {
    /// Compiles a schema: an object's, its `title` naming what is looked for and its `description` explaining it.
    ///
    /// # Errors
    /// [`Error::Schema`] for a schema that cannot be honoured, naming the field.
    pub fn new(engine: &Arc<Engine>, schema: &Value) -> Result<Self> {
        let title = schema["title"].as_str().unwrap_or("extract");
        let name: String = snake(title);
        let about = match schema["description"].as_str() {
            Some(description) => description.to_owned(),
            None => format!("Extract {} from the text.", name.replace('_', " ")),
        };
        let mut parameters = schema.clone();
        if let Value::Object(fields) = &mut parameters {
            // In a flat schema these may be names of fields.
            ["title", "description", "$schema"].iter().for_each(|key| {
                if fields.get(*key).is_some_and(Value::is_string) {
                    fields.shift_remove(*key);
                }
            });
        }
        let tool = serde_json::json!({ "name": name, "description": about, "parameters": parameters });
        let builder = Needle::builder()
            .engine(engine)
            .tool(Tool::from_json(&tool)?)
            .stateless()
            .most_calls(1);
        let agent = builder.build()?;
        Ok(Self {
            agent,
            name,
            schema: parameters,
            strictness: Strictness::Lenient,
        })
    }

    /// For a Rust type.
    ///
    /// # Errors
    /// As [`Extractor::new`].
    pub fn of<T: JsonSchema>(engine: &Arc<Engine>) -> Result<Self> {
        Self::new(engine, schemars::schema_for!(T).as_value())
    }

    /// Tokens that a completion may take; 256 unless chosen.
    pub fn max_new_tokens(mut self, tokens: usize) -> Self {
        self.agent.limit_tokens(tokens);
        self
    }

    /// Refuses values that contradict the text instead of returning them.
    pub fn strict(mut self) -> Self {
        self.strictness = Strictness::Strict;
        self
    }

    /// The value that a text holds.
    ///
    /// # Errors
    /// [`Error::PromptTooLong`] for a text that does not fit, [`Error::Extraction`] when the completion was cut short or, when
    /// strict, when fields contradict the text: they are named.
    pub fn extract(&mut self, text: &str) -> Result<Extraction> {
        let response = self.agent.complete(text)?;
        if !response.success {
            let reason = response.error.clone().unwrap_or_else(|| "the completion failed".into());
            return Err(Error::Extraction {
                name: self.name.clone(),
                fields: Vec::new(),
                reason,
            });
        }
        let call = response.function_calls.first().or(response.suppressed_calls.first());
        let value = call.map(|call| call.arguments.clone());
        if let (Strictness::Strict, Some(value)) = (self.strictness, &value) {
            let (sources, marked) = (Sources::default(), &response.validation.ungrounded);
            let fields = grounding::extraction_faults(&sources, text, &self.name, &self.schema, value, marked);
            if !fields.is_empty() {
                let reason = "the text says otherwise".to_owned();
                return Err(Error::Extraction {
                    name: self.name.clone(),
                    fields,
                    reason,
                });
            }
        }
        Ok(Extraction { value, response })
    }
}

impl Needle {
    /// A value of type `T` out of a text; `None` when nothing in it matches. The agent's own tools and conversation are left
    /// alone.
    ///
    /// # Errors
    /// As [`Extractor::extract`], and [`Error::Extraction`] when the value does not deserialise, naming the field.
    pub fn extract<T: DeserializeOwned + JsonSchema>(&self, text: &str) -> Result<Option<T>> {
        let mut extractor = Extractor::of::<T>(self.engine())?;
        let Some(value) = extractor.extract(text)?.value else {
            return Ok(None);
        };
        serde_path_to_error::deserialize(value)
            .map(Some)
            .map_err(|error| Error::Extraction {
                name: extractor.name,
                fields: vec![error.path().to_string()],
                reason: error.inner().to_string(),
            })
    }
}

/// `InvoiceLine` as `invoice_line`.
fn snake(title: &str) -> String {
    let mut name = String::new();
    let mut before = ' ';
    for char in title.chars() {
        if char.is_uppercase() && before.is_lowercase() {
            name.push('_');
        }
        before = char;
        match char.is_alphanumeric() {
            true => name.extend(char.to_lowercase()),
            false => name.push('_'),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_become_tool_names() {
        assert_eq!(snake("InvoiceLine"), "invoice_line");
        assert_eq!(snake("Flight booking"), "flight_booking");
        assert_eq!(snake("HTTPRequest"), "httprequest");
    }
}
