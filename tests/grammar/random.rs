//! The proof by random walks: whatever the grammar lets through is JSON and satisfies the schema by another judge.

use needle_core::grammar::{Grammar, GrammarOptions, TokenMask};
use needle_core::{Error, ToolCall, ToolSet};
use serde_json::{Value, json};

use super::vocabulary::longest_match;
use super::{Random, gen2, generator};

/// Schemas of the proof.
const SCHEMAS: u64 = 2_400;
/// Tokens after which a walk is given up; it counts as unfinished.
const LONGEST: usize = 300;

/// Random logits under the mask: mostly any allowed token, often one that closes something, so that walks end.
fn choose(random: &mut Random, mask: &TokenMask, closing: &[u32]) -> u32 {
    let close: Vec<u32> = closing.iter().copied().filter(|id| mask.is_allowed(*id)).collect();
    if !close.is_empty() && random.chance(40) {
        return *random.pick(&close);
    }
    let mut logits: Vec<f32> = vec![0.0; gen2().len()];
    mask.apply(&mut logits);
    let open = |id: &usize| logits[*id] == 0.0;
    let start = random.below(logits.len());
    (start..logits.len()).chain(0..start).find(open).unwrap() as u32
}

/// The tokens that only close something.
fn closing() -> Vec<u32> {
    let closes = |id: &u32| {
        gen2()
            .token(*id)
            .unwrap()
            .bytes
            .iter()
            .all(|byte| b"\"}]".contains(byte))
    };
    (14..gen2().len() as u32).filter(closes).collect()
}

fn one_call() -> GrammarOptions {
    GrammarOptions {
        fewest_calls: 1,
        most_calls: Some(1),
        ..GrammarOptions::default()
    }
}

#[test]
fn finished_walks_satisfy_their_schemas() {
    let closing = closing();
    let options = GrammarOptions {
        most_calls: Some(2),
        ..one_call()
    };
    let encode = |text: &str| longest_match(gen2(), text.as_bytes());
    let (mut refused, mut finished, mut calls_checked) = (Vec::new(), 0, 0);
    for seed in 0..SCHEMAS {
        let json = generator::tools(seed);
        let compiled =
            ToolSet::from_json(&json).and_then(|tools| Ok((Grammar::compile(&tools, gen2(), &options)?, tools)));
        let (grammar, tools) = match compiled {
            Ok(compiled) => compiled,
            Err(error @ Error::Schema { .. }) => {
                refused.push(error.to_string());
                continue;
            }
            Err(other) => panic!("{json}: {other}"),
        };
        let mut random = Random(seed ^ 0xABCD);
        let mut matcher = grammar.matcher();
        matcher.accept(10).unwrap();
        for _ in 0..LONGEST {
            let mask = matcher.mask().unwrap_or_else(|error| panic!("{json}: {error}"));
            assert!(mask.count() > 0, "{json}: dead end");
            let next = choose(&mut random, mask, &closing);
            // Now and then what is forced is taken as one stretch: it must be allowed token by token.
            let stretch = if random.chance(30) {
                matcher.forced(encode).unwrap()
            } else {
                Vec::new()
            };
            for token in if stretch.is_empty() { vec![next] } else { stretch } {
                assert!(matcher.mask().unwrap().is_allowed(token), "{json}: {token}");
                matcher.accept(token).unwrap();
            }
            if matcher.is_complete() {
                break;
            }
        }
        if !matcher.is_complete() {
            continue;
        }
        finished += 1;
        let text = matcher.calls_json().into_owned();
        let calls = ToolCall::parse_list(&text).unwrap_or_else(|error| panic!("{json}: {error}: {text}"));
        assert!((1..=2).contains(&calls.len()));
        for call in calls {
            judge(&json, &call);
            tools
                .check_call(&call)
                .unwrap_or_else(|error| panic!("{json}: {error}: {text}"));
            calls_checked += 1;
        }
    }
    let share = finished * 100 / (SCHEMAS as usize - refused.len());
    assert!(
        refused.len() < SCHEMAS as usize / 20,
        "{} refused: {:#?}",
        refused.len(),
        &refused[..20]
    );
    assert!(share >= 90, "only {share} % of the walks finished");
    assert!(
        finished >= 2_000 && calls_checked >= finished,
        "{finished} walks, {calls_checked} calls"
    );
}

/// A union admits whatever one of its branches admits, whatever the other is: nothing is lost where they begin alike.
#[test]
fn unions_admit_what_their_branches_admit() {
    let closing = closing();
    let mut checked = 0;
    for seed in 0..700 {
        let mut random = Random(seed);
        let (one, other) = (generator::one(&mut random), generator::one(&mut random));
        let compile = |schema: &Value| super::one_parameter(schema).and_then(|tools| super::compile(&tools));
        let single = super::one_parameter(&one).and_then(|tools| Grammar::compile(&tools, gen2(), &one_call()));
        let (Ok(single), Ok(left), Ok(right)) = (
            single,
            compile(&json!({ "anyOf": [one, other] })),
            compile(&json!({ "anyOf": [other, one] })),
        ) else {
            continue;
        };
        let mut matcher = single.matcher();
        matcher.accept(10).unwrap();
        for _ in 0..LONGEST {
            let next = choose(&mut random, matcher.mask().unwrap(), &closing);
            matcher.accept(next).unwrap();
            if matcher.is_accepting() {
                let text = matcher.calls_json();
                assert!(super::admits(&left, &text), "{one} or {other}: {text}");
                assert!(super::admits(&right, &text), "{other} or {one}: {text}");
                checked += 1;
                break;
            }
        }
    }
    assert!(checked >= 500, "{checked}");
}

/// The call against the schema as it was written, by the validator alone.
fn judge(tools: &Value, call: &ToolCall) {
    let tool = tools
        .as_array()
        .unwrap()
        .iter()
        .find(|tool| tool["name"] == call.name.as_str())
        .unwrap();
    let validator = jsonschema::draft202012::options()
        .should_validate_formats(true)
        .build(&tool["parameters"])
        .unwrap();
    let errors: Vec<String> = validator
        .iter_errors(&call.arguments)
        .map(|error| error.to_string())
        .collect();
    assert!(
        errors.is_empty(),
        "{}: {} by {}",
        call.arguments,
        errors.join("; "),
        tool["parameters"]
    );
}

/// Small changes to a right call: each is refused at the token that makes it wrong.
#[test]
fn mutations_are_refused() {
    let tools = json!([
        { "name": "lamp", "parameters": { "type": "object", "properties": { "room": { "enum": ["hall", "study"] }, "level": { "type": "integer", "minimum": 0, "maximum": 100 } }, "required": ["room"], "additionalProperties": false } },
        { "name": "ping" },
    ]);
    let grammar = super::compile(&ToolSet::from_json(&tools).unwrap()).unwrap();
    let right = r#"[{"name":"lamp","arguments":{"room":"hall","level":30}},{"name":"ping","arguments":{}}]"#;
    assert!(super::admits(&grammar, right));
    for (from, to) in [
        ("lamp", "lamb"),
        ("lamp", "lam"),
        ("ping", "pong"),
        (r#""room":"hall","#, ""),
        ("hall", "Hall"),
        ("hall", "hal"),
        ("30", "101"),
        ("30", "-1"),
        ("30", "\"30\""),
        ("30", "30.0"),
        ("30", "null"),
        ("level", "lvl"),
        (r#""level":30"#, r#""level":30,"level":30"#),
        (r#""level":30"#, r#""level":30,"warm":true"#),
        ("{}", r#"{"a":1}"#),
        ("\"arguments\"", "\"args\""),
        (",{", ", {"),
        ("}]", "},]"),
        ("}]", "}"),
        ("[{", "{"),
    ] {
        let wrong = right.replacen(from, to, 1);
        assert_ne!(wrong, right);
        assert!(!super::admits(&grammar, &wrong), "{wrong}");
    }
    // Every byte removed or doubled breaks it, but for digits and for braces in pairs.
    for i in 0..right.len() {
        for cut in [
            format!("{}{}", &right[..i], &right[i + 1..]),
            format!("{}{}", &right[..=i], &right[i..]),
        ] {
            let digits = right.as_bytes()[i].is_ascii_digit();
            assert!(digits || !super::admits(&grammar, &cut), "{cut}");
        }
    }
}
