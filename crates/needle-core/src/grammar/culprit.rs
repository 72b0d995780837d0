//! Which tool and field the engine stumbled over: its own messages name neither.

use std::sync::Arc;

use super::{GrammarOptions, Vocabulary, compile};
use crate::error::Error;
use crate::schema::{Fault, Node, Object, Property};
use crate::tool::Tool;

/// The error for `tools`, which the engine refused together with `reason`: it names the first tool that is too much, alone
/// or after those before it, and its field where that field alone is.
pub(super) fn find(tools: &[(&Tool, &Arc<Node>)], vocabulary: &Vocabulary, reason: String) -> Error {
    let (mut fits, mut fails) = (0, tools.len());
    while fits + 1 < fails {
        let middle = fits.midpoint(fails);
        match refused(&tools[..middle], vocabulary) {
            true => fails = middle,
            false => fits = middle,
        }
    }
    let Some((tool, arguments)) = fails.checked_sub(1).and_then(|last| tools.get(last)) else {
        return Error::Grammar(reason);
    };
    let (field, keyword) = match &***arguments {
        Node::Object(object) => field(tool, object, vocabulary),
        _ => None,
    }
    .unwrap_or(("", "parameters"));
    Fault::new(field, keyword, format!("too complex to compile: {reason}")).of_tool(tool.name())
}

/// The first parameter that is refused alone.
fn field<'a>(tool: &Tool, object: &'a Object, vocabulary: &Vocabulary) -> Option<(&'a str, &'static str)> {
    let alone = |property: &Property| {
        let only = Object {
            properties: vec![property.clone()],
            fewest: 0,
            most: None,
            ..object.clone()
        };
        refused(&[(tool, &Arc::new(Node::Object(only)))], vocabulary)
    };
    let found = object.properties.iter().find(|property| alone(property))?;
    let keyword = match &*found.node {
        Node::Number(number) if number.step.is_some() => "multipleOf",
        Node::Text(text) if !text.rules.is_empty() => "pattern",
        _ => "schema",
    };
    Some((&found.name, keyword))
}

fn refused(tools: &[(&Tool, &Arc<Node>)], vocabulary: &Vocabulary) -> bool {
    match compile::calls(tools.iter().copied(), &GrammarOptions::default()) {
        Ok(compiled) => {
            let parser = vocabulary.inner.factory.create_parser_from_init_default(compiled.init);
            llguidance::Matcher::new(parser).get_error().is_some()
        }
        Err(_) => true,
    }
}
