//! Typed values out of texts.

use needle_core::{Extractor, Needle};
use serde_json::json;

use super::{demo, home};

#[derive(Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
#[schemars(title = "contact", description = "Contact details found in a text.")]
struct Contact {
    name: String,
    email: Option<String>,
}

#[test]
fn a_type_is_filled_from_a_text() {
    let agent = home().build().unwrap();
    let contact: Option<Contact> = agent.extract("Contact: Lena Silva <lena@mail.com>").unwrap();
    let contact = contact.expect("the demo finds a contact");
    assert!(contact.name.contains("Lena"), "{contact:?}");
}

#[test]
fn nothing_that_matches_is_none_and_the_agent_is_left_alone() {
    let mut agent = home().build().unwrap();
    let before = agent.complete("make it 21 in here").unwrap().function_calls;
    let _: Option<Contact> = agent.extract("tell me a joke").unwrap();
    agent.reset();
    assert_eq!(agent.complete("make it 21 in here").unwrap().function_calls, before);
}

#[test]
fn an_extraction_between_two_queries_changes_no_tools() {
    let mut agent = Needle::builder()
        .engine(demo())
        .tool(super::thermostat())
        .build()
        .unwrap();
    agent.extract::<Contact>("Ada, ada@mail.com").unwrap();
    assert_eq!(
        agent.complete("make it 21 in here").unwrap().function_calls[0].name,
        "set_thermostat"
    );
}

#[test]
fn a_schema_that_cannot_be_honoured_names_its_field() {
    let schema = json!({ "title": "paint", "type": "object", "properties": { "colour": { "enum": [] } } });
    let error = Extractor::new(demo(), &schema).unwrap_err().to_string();
    assert!(error.contains("paint") && error.contains("colour"), "{error}");
}

#[test]
fn a_text_that_does_not_fit_is_an_error() {
    let agent = home().build().unwrap();
    assert!(agent.extract::<Contact>(&"word ".repeat(3000)).is_err());
}
