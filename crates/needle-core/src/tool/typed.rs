//! Tools whose parameters are a Rust type: the schema comes from the type, the handler gets a value of it.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{HandlerError, Tool};

impl Tool {
    /// A tool whose arguments deserialise to `T`. Doc comments of the fields become their descriptions.
    ///
    /// What the type's schema asks for and cannot be honoured is reported when the tool is put into a set.
    pub fn typed<T, E, F>(name: &str, description: &str, run: F) -> Self
    where
        T: DeserializeOwned + JsonSchema,
        E: Into<HandlerError>,
        F: Fn(T) -> Result<Value, E> + Send + Sync + 'static,
    {
        let mut parameters = schemars::schema_for!(T).to_value();
        if let Value::Object(fields) = &mut parameters {
            for key in ["$schema", "title", "description"] {
                fields.shift_remove(key);
            }
        }
        let json = json!({ "name": name, "description": description, "parameters": parameters });
        let tool =
            Self::from_json(&json).unwrap_or_else(|error| Self::new(name, description).mistaken(error.to_string()));
        tool.handler(move |arguments| {
            let arguments = serde_json::from_value(arguments.clone())?;
            run(arguments).map_err(Into::into)
        })
    }

    fn mistaken(mut self, mistake: String) -> Self {
        self.mistake = Some(mistake);
        self
    }
}
