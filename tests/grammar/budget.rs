//! A50: a completion that is cut short is never reported as complete.

use needle_core::ToolCall;
use needle_core::grammar::{Grammar, GrammarOptions};
use serde_json::Value;

use super::{Random, gen2, generator, vocabulary::longest_match};

/// Every cut of one long completion, token by token.
#[test]
fn every_cut_of_one_call() {
    let tools = needle_core::ToolSet::parse(
        r#"[{"name":"send_mail","parameters":{"type":"object","properties":{"to":{"type":"array","items":{"type":"string","format":"email"}},"body":{"type":"string"},"when":{"type":"string","format":"date-time"}},"required":["to","body"]}}]"#,
    )
    .unwrap();
    let grammar = Grammar::compile(&tools, gen2(), &GrammarOptions::default()).unwrap();
    let text = r#"[{"name":"send_mail","arguments":{"to":["ann@example.org","bob@example.org"],"body":"line 1\nsays \"hello\"","when":"2024-02-29T07:30:00Z"}},{"name":"send_mail","arguments":{"to":[],"body":""}}]"#;
    let mut ids = vec![8042, 6];
    ids.extend(longest_match(gen2(), b"\nann and bob -> to\n"));
    ids.extend([7, longest_match(gen2(), b"\n")[0], 10]);
    ids.extend(longest_match(gen2(), text.as_bytes()));
    ids.extend([11, 5]);
    assert!(ids.len() > 80);
    for budget in 1..=ids.len() {
        let mut matcher = grammar.matcher();
        ids[..budget].iter().for_each(|id| matcher.accept(*id).unwrap());
        assert_eq!(matcher.is_complete(), budget == ids.len(), "{budget}");
        assert_eq!(matcher.is_accepting(), budget >= ids.len() - 1, "{budget}");
        if matcher.is_accepting() {
            assert_eq!(ToolCall::parse_list(&matcher.calls_json()).unwrap().len(), 2);
        }
    }
}

/// Random walks over random tools, cut at every length from 1 to 80: complete means whole JSON.
#[test]
fn random_cuts() {
    let mut complete = 0;
    for seed in 0..60 {
        let tools = generator::tools(seed);
        let Ok(tools) = needle_core::ToolSet::from_json(&tools) else {
            continue;
        };
        let grammar = Grammar::compile(&tools, gen2(), &GrammarOptions::default()).unwrap();
        let mut random = Random(seed);
        let mut matcher = grammar.matcher();
        for _budget in 1..=80 {
            let choices: Vec<u32> = matcher.mask().unwrap().iter().collect();
            matcher.accept(*random.pick(&choices)).unwrap();
            let whole = serde_json::from_str::<Value>(&matcher.calls_json()).is_ok_and(|calls| calls.is_array());
            assert!(!matcher.is_complete() || whole, "{}", matcher.calls_json());
            complete += usize::from(matcher.is_complete());
        }
    }
    assert!(complete > 0);
}
