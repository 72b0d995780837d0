//! Whole evaluations with the demo model.

use std::sync::{Arc, OnceLock};

use needle_core::{
    DeviceSpec, Engine,
    data::Dataset,
    score::{self, Case, EvalOptions, Form, Report},
};

fn demo() -> &'static Arc<Engine> {
    static ENGINE: OnceLock<Arc<Engine>> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::demo(DeviceSpec::Cpu).unwrap())
}

const HOME: &str = include_str!("../../examples/home.json");

/// Three that the demo model gets right, one with another answer than it gives, one refusal.
fn cases() -> Vec<Case> {
    let line = |query: &str, answers: &str| {
        let tools = serde_json::from_str::<serde_json::Value>(HOME).unwrap();
        let answers: serde_json::Value = serde_json::from_str(answers).unwrap();
        serde_json::json!({ "query": query, "tools": tools, "answers": answers }).to_string()
    };
    let lines = [
        line(
            "dim the kitchen to 30",
            r#"[{"name":"set_lights","arguments":{"brightness":30.0,"room":"kitchen"}}]"#,
        ),
        line(
            "set a timer for 12 minutes",
            r#"[{"name":"set_timer","arguments":{"minutes":12}}]"#,
        ),
        line(
            "make it 21 in here",
            r#"[{"name":"set_thermostat","arguments":{"temperature":22}}]"#,
        ),
        line("tell me a joke", "[]"),
    ];
    let data = Dataset::read(lines.join("\n").as_bytes(), "test").unwrap();
    score::cases(&data.rows)
}

fn evaluate(cases: &[Case], sessions: usize) -> Report {
    let options = EvalOptions {
        sessions: Some(sessions),
        ..EvalOptions::default()
    };
    score::evaluate(demo(), cases, &options, |_| {}).unwrap()
}

#[test]
fn calls_refusals_and_arguments_are_counted() {
    let mut seen = Vec::new();
    let report = score::evaluate(demo(), &cases(), &EvalOptions::default(), |progress| {
        seen.push(progress)
    })
    .unwrap();
    assert_eq!(
        (report.overall.exact.right, report.overall.exact.n),
        (3, 4),
        "{:?}",
        report.outcomes
    );
    assert_eq!((report.overall.tools.right, report.overall.tools.n), (3, 3));
    assert_eq!(
        (
            report.overall.argument_precision.right,
            report.overall.argument_recall.n
        ),
        (3, 4)
    );
    assert_eq!((report.overall.refusals.right, report.overall.refusals.n), (1, 1));
    assert_eq!((report.overall.faults, report.form), (0, "constrained"));
    let categories: Vec<&str> = report.categories.iter().map(|scores| scores.name.as_str()).collect();
    assert_eq!(categories, ["refusal", "single"]);
    assert_eq!(report.tools.len(), 3);
    assert_eq!(report.errors()[0].query, "make it 21 in here");
    // The demo model has no head that could be sure of anything.
    assert_eq!(report.reliability, None);
    let last = seen.last().unwrap();
    assert_eq!((seen.len(), last.done, last.exact, last.total), (4, 4, 3, 4));
    let markdown = report.markdown();
    assert!(
        markdown.contains("| single | 3 | 66.7 %") && markdown.contains("| all | 4 | 75.0 %"),
        "{markdown}"
    );
}

#[test]
fn the_number_of_sessions_changes_nothing() {
    let many: Vec<Case> = cases().into_iter().cycle().take(40).collect();
    let (one, four) = (evaluate(&many, 1), evaluate(&many, 4));
    assert_eq!(one.outcomes, four.outcomes);
    assert_eq!(one.overall, four.overall);
    assert_eq!(one.overall.exact.right, 30);
}

#[test]
fn what_is_one_cases_affair_is_a_fault_of_it() {
    let mut cases = cases();
    cases[0].query = "word ".repeat(4000);
    cases[1].tools = Err("refused".into());
    let report = evaluate(&cases, 2);
    assert_eq!((report.overall.faults, report.overall.exact.right), (2, 1));
    let fault = report.outcomes[0].fault.as_deref().unwrap();
    assert!(fault.starts_with("the prompt has "), "{fault}");
    assert_eq!(report.outcomes[1].fault.as_deref(), Some("refused"));
    assert_eq!(report.overall.argument_recall.n, 4);
    assert_eq!(report.errors()[0].id, "line 1");
}

#[test]
fn a_cut_answer_and_free_form_are_no_calls_unless_they_are_valid() {
    let options = EvalOptions {
        form: Form::Free,
        max_new_tokens: 5,
        ..EvalOptions::default()
    };
    let report = score::evaluate(demo(), &cases()[..2], &options, |_| {}).unwrap();
    assert_eq!((report.overall.faults, report.form), (2, "free"));
    let report = score::evaluate(demo(), &[], &EvalOptions::default(), |_| {}).unwrap();
    assert_eq!(report.overall.exact.n, 0);
}
