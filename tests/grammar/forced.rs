//! Forced stretches: what they hold, and that feeding them gives the same completions as asking for every token.

use needle_core::ToolSet;
use needle_core::grammar::{Grammar, GrammarOptions};

use super::vocabulary::longest_match;
use super::{Random, gen2};

const TOOLS: &str = r#"[{"name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string","enum":["Köln","Lagos"]},"unit":{"const":"metric"}},"required":["city","unit"]}},
    {"name":"set_lamp","parameters":{"type":"object","properties":{"level":{"type":"integer","minimum":10,"maximum":19}},"required":["level"]}}]"#;

fn grammar(fewest: usize, most: Option<usize>) -> Grammar {
    let options = GrammarOptions {
        fewest_calls: fewest,
        most_calls: most,
        ..GrammarOptions::default()
    };
    Grammar::compile(&ToolSet::parse(TOOLS).unwrap(), gen2(), &options).unwrap()
}

#[test]
fn keys_and_names_are_forced() {
    let mut matcher = grammar(1, Some(1)).matcher();
    let encode = |text: &str| longest_match(gen2(), text.as_bytes());
    matcher.accept(10).unwrap();
    assert_eq!(
        String::from_utf8(matcher.forced_bytes().unwrap()).unwrap(),
        r#"[{"name":""#
    );
    encode(r#"[{"name":"set"#)
        .into_iter()
        .for_each(|id| matcher.accept(id).unwrap());
    assert_eq!(
        String::from_utf8(matcher.forced_bytes().unwrap()).unwrap(),
        r#"_lamp","arguments":{"level":1"#
    );
    encode(r#"_lamp","arguments":{"level":15"#)
        .into_iter()
        .for_each(|id| matcher.accept(id).unwrap());
    let closing = matcher.forced(encode).unwrap();
    assert!(!closing.is_empty());
    closing.into_iter().for_each(|id| matcher.accept(id).unwrap());
    while let [id, ..] = matcher.forced(encode).unwrap()[..] {
        matcher.accept(id).unwrap();
    }
    assert_eq!(
        matcher.calls_json(),
        r#"[{"name":"set_lamp","arguments":{"level":15}}]"#
    );
    assert!(matcher.is_accepting() && !matcher.is_complete());
}

#[test]
fn nothing_is_forced_where_there_is_a_choice() {
    let mut matcher = grammar(0, None).matcher();
    let encode = |text: &str| longest_match(gen2(), text.as_bytes());
    assert!(matcher.forced(encode).unwrap().is_empty());
    matcher.accept(6).unwrap();
    assert!(matcher.forced(encode).unwrap().is_empty());
    matcher.accept(7).unwrap();
    assert!(matcher.forced(encode).unwrap().is_empty());
    matcher.accept(10).unwrap();
    // `[` is forced as text, but tokens such as `[{"` begin with it: which one is the model's choice.
    assert!(matcher.forced(encode).unwrap().is_empty());
    for id in [encode("[]")[..].to_vec(), vec![11, 5]].concat() {
        matcher.accept(id).unwrap();
    }
    assert!(matcher.forced(encode).unwrap().is_empty());
}

/// An encoder that spells something else forces nothing.
#[test]
fn a_wrong_encoder_forces_nothing() {
    let mut matcher = grammar(1, Some(1)).matcher();
    matcher.accept(10).unwrap();
    assert!(matcher.forced(|_| vec![0, 1, 2]).unwrap().is_empty());
    assert!(matcher.forced(|_| vec![99_999]).unwrap().is_empty());
    assert!(
        matcher
            .forced(|text| longest_match(gen2(), text.to_uppercase().as_bytes()))
            .unwrap()
            .is_empty()
    );
}

/// Taking forced stretches leaves the model every choice it had: the walks spell the same texts.
#[test]
fn forced_stretches_are_what_a_walk_would_write() {
    let grammar = grammar(1, Some(2));
    let encode = |text: &str| longest_match(gen2(), text.as_bytes());
    let (mut asked, mut fed) = (0, 0);
    for seed in 0..200 {
        let mut random = Random(seed);
        let (mut matcher, mut replay) = (grammar.matcher(), grammar.matcher());
        matcher.accept(10).unwrap();
        replay.accept(10).unwrap();
        while !matcher.is_complete() {
            let mut next = matcher.forced(encode).unwrap();
            fed += next.len();
            if next.is_empty() {
                let choices: Vec<u32> = matcher.mask().unwrap().iter().collect();
                next = vec![*random.pick(&choices)];
                asked += 1;
            }
            for id in next {
                assert!(
                    replay.mask().unwrap().is_allowed(id),
                    "forced token {id} is not allowed"
                );
                matcher.accept(id).unwrap();
                replay.accept(id).unwrap();
            }
        }
        assert_eq!(matcher.calls_json(), replay.calls_json());
    }
    assert!(fed > asked, "{fed} tokens forced, {asked} asked for");
}
