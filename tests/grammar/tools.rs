//! Tools in all their spellings, what goes into the prompt, warnings, and the last check of a call.

use needle_core::{Error, Tool, ToolCall, ToolSet};
use serde_json::{Value, json};

use super::{admits, compile};

fn call(name: &str, arguments: Value) -> ToolCall {
    ToolCall {
        name: name.into(),
        arguments,
    }
}

/// A11: the builder's keys come as name, description, parameters; raw JSON keeps its own order.
#[test]
fn key_order_is_kept() {
    let tool = Tool::new("get_weather", "Get the weather.")
        .string("city", "which city")
        .enumeration("day", "which day", ["today", "tomorrow"])
        .optional();
    let tools = ToolSet::new([tool]).unwrap();
    let expected = concat!(
        r#"[{"name":"get_weather","description":"Get the weather.","parameters":{"type":"object","properties":{"#,
        r#""city":{"type":"string","description":"which city"},"day":{"type":"string","description":"which day","enum":["today","tomorrow"]}},"required":["city"]}}]"#
    );
    assert_eq!(tools.to_json().to_string(), expected);
    for raw in [
        r#"[{"name":"a","description":"d","parameters":{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"string"}}}}]"#,
        r#"[{"parameters":{"properties":{"z":{"type":"string"}},"type":"object"},"description":"d","name":"a"}]"#,
    ] {
        assert_eq!(ToolSet::parse(raw).unwrap().to_json().to_string(), raw);
    }
}

#[test]
fn every_spelling_of_a_tool() {
    let expected =
        r#"[{"name":"f","parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}]"#;
    let inner = &expected[1..expected.len() - 1];
    for text in [
        expected.to_string(),
        inner.to_string(),
        format!(r#"[{{"type":"function","function":{inner}}}]"#),
        format!(r#"{{"function":{inner}}}"#),
        format!(r#"{{"tools":[{inner}]}}"#),
    ] {
        let tools = ToolSet::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(tools.to_json().to_string(), expected, "{text}");
        assert_eq!(tools.warnings().count(), 0, "{text}");
        let grammar = compile(&tools).unwrap();
        assert!(admits(&grammar, r#"[{"name":"f","arguments":{"city":"a"}}]"#));
        assert!(!admits(&grammar, r#"[{"name":"f","arguments":{}}]"#));
    }
}

/// A12: the flat style with `required: true`, a misspelt key and a list without items: read, with a warning for each oddity.
#[test]
fn the_flat_style_and_its_oddities() {
    let mut catalogue = Vec::new();
    for i in 0..40 {
        catalogue.push(json!({
            "name": format!("tool_{i}"),
            "descrptiion": "a misspelt key",
            "parameters": { "city": { "type": "string", "required": true, "descripton": "x" }, "days": { "type": "array" }, "unit": { "type": "string", "enum": ["metric", "imperial"], "required": false } }
        }));
    }
    let tools = ToolSet::from_json(&Value::from(catalogue.clone())).unwrap();
    assert_eq!(tools.to_json(), Value::from(catalogue));
    let warnings: Vec<String> = tools.warnings().take(4).map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "tool tool_0: descrptiion: unknown key, not used",
            "tool tool_0: city: required: true inside a parameter: read as required",
            "tool tool_0: city: descripton: unknown key, not used",
            "tool tool_0: unit: required: false inside a parameter: read as optional",
        ]
    );
    assert_eq!(tools.warnings().count(), 160);
    let grammar = compile(&tools).unwrap();
    assert!(admits(&grammar, r#"[{"name":"tool_7","arguments":{"city":"a"}}]"#));
    assert!(admits(
        &grammar,
        r#"[{"name":"tool_39","arguments":{"city":"a","days":["mon",2],"unit":"metric"}}]"#
    ));
    assert!(!admits(&grammar, r#"[{"name":"tool_7","arguments":{"days":[]}}]"#));
    assert!(!admits(&grammar, r#"[{"name":"tool_7","arguments":{"city":1}}]"#));
}

#[test]
fn what_is_no_tool() {
    let text = |text: &str| ToolSet::parse(text).unwrap_err().to_string();
    assert!(text("[{").starts_with("tools: not JSON: "));
    assert_eq!(text("5"), "tools: expected a list of tools or one tool, found a number");
    assert_eq!(
        text(r#"[{"name":"a"},"b"]"#),
        "tools: tool 2: expected an object, found a text"
    );
    assert_eq!(text("[{}]"), "tools: tool 1: \"name\" is missing");
    assert_eq!(text(r#"[{"name":""}]"#), "tools: tool 1: the name is empty");
    assert_eq!(
        text(r#"[{"name":"a"},{"name":"a"}]"#),
        "tools: there are two tools named \"a\""
    );
    assert_eq!(
        text(r#"[{"name":"a","inputSchema":{"type":"object"}}]"#),
        "tools: tool a: \"parameters\" is missing, but there is \"inputSchema\""
    );
    assert_eq!(
        text(r#"[{"name":"a","parameters":{"city":"string"}}]"#),
        "tool a: parameters: \"city\" is neither a keyword nor the schema of a parameter, and nothing else is declared"
    );
    assert_eq!(
        text(r#"[{"name":"a","parameters":{"type":"string"}}]"#),
        "tool a: type: the parameters must be an \"object\", found \"string\""
    );
    assert_eq!(
        text(r#"[{"name":"a","parameters":[]}]"#),
        "tool a: parameters: expected an object, found []"
    );
}

#[test]
fn mistakes_of_the_builder() {
    let twice = ToolSet::new([Tool::new("a", "").string("x", "").number("x", "")]).unwrap_err();
    assert_eq!(twice.to_string(), "tool a: the parameter \"x\" is declared twice");
    let early = ToolSet::new([Tool::new("a", "").keyword("minimum", 1)]).unwrap_err();
    assert_eq!(
        early.to_string(),
        "tool a: keyword(\"minimum\") stands before any parameter"
    );
    assert!(ToolSet::new([Tool::new("a", "").optional()]).is_err());
    let given = Tool::from_json(&json!({ "name": "a" })).unwrap();
    assert!(ToolSet::new([given.clone()]).is_ok());
    assert_eq!(
        ToolSet::new([given.string("x", "")]).unwrap_err().to_string(),
        "tool a: parameter() cannot add to a tool given as JSON"
    );
    assert!(
        ToolSet::new([Tool::new("a", "")
            .integer("x", "")
            .keyword("minimum", 5)
            .keyword("maximum", 4)])
        .is_err()
    );
}

#[test]
fn handlers_run() {
    let tool = Tool::new("double", "")
        .integer("n", "")
        .handler(|arguments| match arguments["n"].as_i64() {
            Some(n) => Ok(json!(2 * n)),
            None => Err("no number".into()),
        });
    let handler = tool.callback().unwrap().clone();
    assert_eq!(handler(&json!({ "n": 21 })).unwrap(), 42);
    assert_eq!(handler(&json!({})).unwrap_err().to_string(), "no number");
    assert!(Tool::new("none", "").callback().is_none());
}

/// A26: enum values may have spaces, and names any characters.
#[test]
fn values_and_names_of_all_kinds() {
    let tool = Tool::new("é😀 \"x\"", "").enumeration("side", "", ["left half", "right_half", "\\"]);
    let grammar = compile(&ToolSet::new([tool]).unwrap()).unwrap();
    assert!(admits(
        &grammar,
        r#"[{"name":"é😀 \"x\"","arguments":{"side":"left half"}}]"#
    ));
    assert!(admits(&grammar, r#"[{"name":"é😀 \"x\"","arguments":{"side":"\\"}}]"#));
    assert!(!admits(
        &grammar,
        r#"[{"name":"é😀 \"x\"","arguments":{"side":"left_half"}}]"#
    ));
}

#[test]
fn the_last_check() {
    let tools = ToolSet::new([Tool::new("lamp", "")
        .string("room", "")
        .integer("level", "")
        .keyword("minimum", 0)
        .keyword("maximum", 100)
        .optional()
        .parameter("since", json!({ "type": "string", "format": "date" }))
        .optional()
        .parameter("note", json!({ "type": "string", "nullable": true }))
        .optional()])
    .unwrap();
    tools
        .check_call(&call(
            "lamp",
            json!({ "room": "hall", "level": 30, "since": "2024-02-29", "note": null }),
        ))
        .unwrap();
    let wrong = |name: &str, arguments: Value| match tools.check_call(&call(name, arguments)) {
        Err(Error::Call { field, .. }) => field.unwrap_or_default(),
        other => panic!("{other:?}"),
    };
    assert_eq!(wrong("light", json!({ "room": "hall" })), "");
    assert_eq!(wrong("lamp", json!({})), "");
    assert_eq!(wrong("lamp", json!({ "room": 5 })), "room");
    assert_eq!(wrong("lamp", json!({ "room": "hall", "level": 101 })), "level");
    assert_eq!(wrong("lamp", json!({ "room": "hall", "since": "2023-02-29" })), "since");
    assert_eq!(wrong("lamp", json!({ "room": "hall", "colour": "red" })), "colour");
    assert_eq!(wrong("lamp", json!([])), "");
}

#[test]
fn calls_are_read_back() {
    let calls = ToolCall::parse_list(r#"[{"name":"a","arguments":{"z":1.50,"a":null}}]"#).unwrap();
    assert_eq!(
        serde_json::to_string(&calls).unwrap(),
        r#"[{"name":"a","arguments":{"z":1.50,"a":null}}]"#
    );
    assert!(ToolCall::parse_list(r#"[{"name":"a""#).is_err());
    assert!(ToolCall::parse_list("null").is_err());
}

/// A name in `required` that is not declared is asked for all the same, and said so.
#[test]
fn required_names_that_are_not_declared() {
    let tools = ToolSet::parse(
        r#"[{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"integer"}},"required":["b"]}}]"#,
    )
    .unwrap();
    assert_eq!(
        tools.warnings().map(ToString::to_string).collect::<Vec<_>>(),
        ["tool f: required: names \"b\", which is not among the properties: any value fits it"]
    );
    let grammar = compile(&tools).unwrap();
    assert!(admits(&grammar, r#"[{"name":"f","arguments":{"a":1,"b":[]}}]"#));
    assert!(!admits(&grammar, r#"[{"name":"f","arguments":{"a":1}}]"#));
}
