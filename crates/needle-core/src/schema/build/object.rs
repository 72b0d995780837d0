//! Reads the keywords of an object.

use std::sync::Arc;

use serde_json::Value;

use super::super::Oddity;
use super::super::constraint::Keywords;
use super::super::fault::{Fault, below};
use super::super::keywords::Type;
use super::super::node::{Extra, Node, Object, Presence, Property};
use super::{Builder, NAMES_LIMIT, Place};

impl<'a> Builder<'a> {
    pub(super) fn object(&mut self, keywords: Keywords<'a, '_>, place: &Place) -> Result<Node, Fault> {
        let (fewest, most) = keywords.counts("minProperties", "maxProperties")?;
        if fewest > NAMES_LIMIT {
            return Err(keywords.fault("minProperties", format!("{fewest} is above {NAMES_LIMIT}")));
        }
        let required = keywords.names("required")?;
        let mut object = Object {
            properties: Vec::new(),
            declares: keywords.get("properties").is_some(),
            extra: match keywords.get("additionalProperties") {
                None => Extra::Unstated,
                Some(Value::Bool(false)) => Extra::Forbidden,
                Some(schema) => Extra::Allowed(self.stated(schema, place.child(below(&place.at, "*")))?),
            },
            fewest,
            most,
        };
        let declared = match keywords.get("properties") {
            None => None,
            Some(Value::Object(map)) => Some(map),
            Some(other) => {
                return Err(keywords.fault("properties", format!("expected an object of schemas, found {other}")));
            }
        };
        for (name, schema) in declared.into_iter().flatten() {
            let node = self.stated(schema, place.child(below(&place.at, name)))?;
            let presence = match required.contains(&name.as_str()) {
                true => Presence::Required,
                false => Presence::Optional,
            };
            object.properties.push(Property {
                name: name.clone(),
                node,
                presence,
            });
        }
        self.names(&mut object, keywords)?;
        for name in required {
            self.require(&mut object, name, keywords, place)?;
        }
        Ok(object.settle(keywords.at))
    }

    /// `propertyNames` with a finite set: the names become optional keys, and no other is left.
    fn names(&mut self, object: &mut Object, keywords: Keywords<'a, '_>) -> Result<(), Fault> {
        let Some(schema) = keywords.get("propertyNames") else {
            return Ok(());
        };
        let place = Place {
            types: Some(vec![Type::String]),
            ..Place::root().child(below(keywords.at, "*"))
        };
        let names = self.stated(schema, place)?;
        let Some(names) = names.finite(NAMES_LIMIT) else {
            return Err(keywords.fault(
                "propertyNames",
                "only a finite set of names (enum or const) can be honoured",
            ));
        };
        let value = object.open();
        object
            .properties
            .retain(|property| names.contains(&property.name.as_str().into()));
        for name in names.iter().filter_map(Value::as_str) {
            let declared = object.properties.iter().any(|property| property.name == name);
            if let (false, Some(node)) = (declared, &value) {
                object.properties.push(Property {
                    name: name.into(),
                    node: node.clone(),
                    presence: Presence::Optional,
                });
            }
        }
        object.declares = true;
        object.extra = Extra::Forbidden;
        Ok(())
    }

    /// A required name that `properties` does not declare.
    fn require(
        &mut self,
        object: &mut Object,
        name: &str,
        keywords: Keywords<'a, '_>,
        place: &Place,
    ) -> Result<(), Fault> {
        if let Some(property) = object.properties.iter_mut().find(|property| property.name == name) {
            property.presence = Presence::Required;
            return Ok(());
        }
        let node = match &object.extra {
            Extra::Forbidden => {
                return Err(keywords.fault(
                    "required",
                    format!("{name:?} is required, but not among the properties"),
                ));
            }
            Extra::Allowed(node) => node.clone(),
            // In a branch of anyOf or allOf the schema around it may declare the name.
            Extra::Unstated if place.types.is_some() => Arc::new(Node::Any),
            Extra::Unstated => {
                self.oddities.push(Oddity {
                    field: keywords.at.into(),
                    key: "required".into(),
                    reading: format!("names {name:?}, which is not among the properties: any value fits it"),
                });
                Arc::new(Node::Any)
            }
        };
        object.properties.push(Property {
            name: name.into(),
            node,
            presence: Presence::Required,
        });
        Ok(())
    }
}
