//! Grounding against the reference's answers on generated texts, and against texts that nobody planned.

use std::collections::BTreeSet;

use needle_core::grounding::{
    LocalTime, NEGATED_REQUEST, Sources, extraction_faults, negation, source_years, unforgiven, ungrounded, with_date,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::golden;

/// The golden cases of one kind, at least `count` of them.
fn cases(kind: &str, count: usize) -> Vec<Value> {
    let text = String::from_utf8(golden::bytes("grounding.jsonl")).unwrap();
    let all = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let cases: Vec<Value> = all.filter(|case| case["kind"] == kind).collect();
    assert!(cases.len() >= count, "{} cases of kind {kind}", cases.len());
    cases
}

fn parameters() -> Value {
    cases("parameters", 1)[0]["parameters"].clone()
}

fn text(case: &Value) -> &str {
    case["text"].as_str().unwrap()
}

fn years(case: &Value) -> BTreeSet<i32> {
    case["years"]
        .as_array()
        .unwrap()
        .iter()
        .map(|year| year.as_i64().unwrap() as i32)
        .collect()
}

fn strings(list: &Value) -> Vec<String> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|entry| entry.as_str().unwrap().into())
        .collect()
}

/// A conversation in which the case's earlier turns were said.
fn sources(case: &Value) -> Sources {
    let mut sources = Sources::new(case["system"].as_str());
    for turn in case["earlier"].as_array().into_iter().flatten() {
        sources.note(turn.as_str().unwrap());
    }
    sources
}

#[test]
fn years_of_texts() {
    for case in cases("years", 300) {
        assert_eq!(source_years(text(&case)), years(&case), "{case}");
    }
}

#[test]
fn licensed_years() {
    for case in cases("licensed", 120) {
        let mut sources = sources(&case);
        assert_eq!(sources.licensed_years(text(&case)), years(&case), "{case}");
        sources.note(text(&case));
        assert_eq!(sources.licensed_years(text(&case)), years(&case), "noted: {case}");
    }
}

#[test]
fn marked_dates() {
    let parameters = parameters();
    for case in cases("marked", 120) {
        let found = ungrounded(&sources(&case), text(&case), "plan", &parameters, &case["arguments"]);
        assert_eq!(found, strings(&case["marked"]), "{case}");
    }
}

#[test]
fn strict_runs() {
    for case in cases("run", 120) {
        let left = unforgiven(
            &sources(&case),
            text(&case),
            "plan",
            &case["arguments"],
            &strings(&case["marked"]),
        );
        assert_eq!(left, strings(&case["left"]), "{case}");
    }
}

#[test]
fn strict_extractions() {
    let parameters = parameters();
    for case in cases("extraction", 60) {
        let marked = strings(&case["marked"]);
        let found = extraction_faults(
            &sources(&case),
            text(&case),
            "plan",
            &parameters,
            &case["arguments"],
            &marked,
        );
        assert_eq!(found, strings(&case["faults"]), "{case}");
    }
}

#[test]
fn date_facts() {
    for case in cases("date", 20) {
        let now: Vec<u32> = serde_json::from_value(case["now"].clone()).unwrap();
        let [year, month, day, hour, minute] = now[..] else {
            panic!("{case}")
        };
        let now = LocalTime {
            year: year as i32,
            month,
            day,
            hour,
            minute,
        };
        let system = case["system"].as_str().unwrap();
        assert_eq!(with_date(system, now), text(&case), "{case}");
        assert_eq!(with_date(text(&case), now), text(&case), "once is enough: {case}");
    }
}

#[test]
fn a_strict_run_from_mark_to_refusal() {
    let parameters = parameters();
    let mut sources = Sources::new(Some("date: 2026-07-31 Fri 09:05"));
    let query = "Set the plan for 3 March 2025, 20 seats";
    sources.note(query);
    let arguments = json!({"day": "2024-03-03", "count": 20});
    let mut marked = ungrounded(&sources, query, "plan", &parameters, &arguments);
    assert_eq!(marked, ["plan.day"]);
    marked.push("plan.count".into());
    assert_eq!(unforgiven(&sources, query, "plan", &arguments, &marked), ["day"]);
}

#[test]
fn a_negated_extraction_is_refused() {
    let text = "don't log the 15 I spent";
    assert!(negation(text));
    let found = extraction_faults(&Sources::new(None), text, "log", &json!({}), &json!({"sum": 15}), &[]);
    assert_eq!(found, [NEGATED_REQUEST]);
}

/// No text panics, and what is marked is always a path under the tool.
#[test]
fn any_text_is_read() {
    let parameters = parameters();
    let texts = r"(\PC|june |may |5|2026|-|/|,|\.|date:|year |don't |never | )*";
    proptest!(|(text in texts, month in any::<u32>(), day in any::<u32>(), year in any::<i32>())| {
        let arguments = json!({"day": text, "count": 5, "legs": [{"day": "2020-01-01"}]});
        let sources = Sources::new(Some(&text));
        let marked = ungrounded(&sources, &text, "plan", &parameters, &arguments);
        prop_assert!(marked.iter().all(|entry| entry.starts_with("plan.")));
        let left = unforgiven(&sources, &text, "plan", &arguments, &marked);
        prop_assert!(left.len() <= marked.len());
        extraction_faults(&sources, &text, "plan", &parameters, &arguments, &marked);
        negation(&text);
        let fact = with_date(&text, LocalTime { year, month, day, hour: 1, minute: 2 });
        prop_assert!(fact.ends_with(&*text) || text.trim().is_empty());
    });
}
