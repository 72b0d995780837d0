//! BFCL's two files, in lines of our own in its form.

use needle_core::score::{Wording, bfcl, compare};

const QUESTIONS: &str = r#"{"id":"simple_python_0","question":[[{"role":"system","content":"Be brief."},{"role":"user","content":"area of base 10 and height 5"}]],"function":[{"name":"area","description":"d","parameters":{"type":"dict","properties":{"base":{"type":"float"},"height":{"type":"integer"},"unit":{"type":"string"}},"required":["base","height"]}}]}
{"id":"live_irrelevance_1-0-0","question":[[{"role":"user","content":"hi"}]],"function":[]}
{"id":"live_relevance_0-0-0","question":[[{"role":"user","content":"hi"}]],"function":[]}
{"id":"multi_turn_base_0","question":[[{"role":"user","content":"a"}],[{"role":"user","content":"b"}]],"function":[]}
not json
{"id":"parallel_1","question":[[{"role":"user","content":"two"}]],"function":{"name":"put","parameters":{"type":"dict","properties":{"box":{"type":"dict","properties":{"w":{"type":"float"}}},"tags":{"type":"array","items":{"type":"string"}}},"required":["box"]}}}"#;
const ANSWERS: &str = r#"{"id":"simple_python_0","ground_truth":[{"area":{"base":[10],"height":[5],"unit":["units",""]}}]}
{"id":"multi_turn_base_0","ground_truth":[]}
{"id":"parallel_1","ground_truth":[{"put":{"box":[{"w":[1.5,2]}],"tags":[["Red","blue"]]}},{"put":{"box":[{"w":[3]}],"tags":[""]}}]}"#;

#[test]
fn questions_of_one_turn_are_cases_and_the_rest_is_named() {
    assert!(bfcl::is_questions(QUESTIONS) && !bfcl::is_questions("{\"query\":\"x\"}") && !bfcl::is_questions(""));
    let (cases, rejected) = bfcl::cases(QUESTIONS, Some(ANSWERS)).unwrap();
    let found: Vec<(&str, &str, usize)> = cases
        .iter()
        .map(|case| (case.id.as_str(), case.category.as_str(), case.expected.len()))
        .collect();
    let expected = [
        ("simple_python_0", "simple_python", 1),
        ("live_irrelevance_1-0-0", "live_irrelevance", 0),
        ("parallel_1", "parallel", 2),
    ];
    assert_eq!(found, expected);
    assert_eq!(cases[0].system.as_deref(), Some("Be brief."));
    let tools = cases[0].tools.as_ref().unwrap().to_json();
    assert_eq!(tools[0]["parameters"]["properties"]["base"]["type"], "number");
    let lines: Vec<usize> = rejected.iter().map(|found| found.line).collect();
    assert_eq!(lines, [3, 4, 5]);
    assert!(rejected[0].reason.contains("no possible answer") && rejected[1].reason.contains("several turns"));
}

#[test]
fn its_answers_admit_what_its_checker_admits() {
    let (cases, _) = bfcl::cases(QUESTIONS, Some(ANSWERS)).unwrap();
    for (case, made, exact) in [
        (0, r#"[{"name":"area","arguments":{"base":10.0,"height":5}}]"#, true),
        (
            0,
            r#"[{"name":"area","arguments":{"base":10,"height":5,"unit":"Units"}}]"#,
            true,
        ),
        (
            0,
            r#"[{"name":"area","arguments":{"base":10,"height":5,"unit":"cm"}}]"#,
            false,
        ),
        (0, r#"[{"name":"area","arguments":{"base":10}}]"#, false),
        (1, "[]", true),
        (
            2,
            r#"[{"name":"put","arguments":{"box":{"w":3}}},{"name":"put","arguments":{"box":{"w":2.0},"tags":["red","Blue"]}}]"#,
            true,
        ),
        (
            2,
            r#"[{"name":"put","arguments":{"box":{"w":3}}},{"name":"put","arguments":{"box":{"w":2},"tags":["blue","red"]}}]"#,
            false,
        ),
    ] {
        let case = &cases[case];
        assert_eq!(case.wording, Wording::Loose);
        let made: Vec<needle_core::ToolCall> = serde_json::from_str(made).unwrap();
        assert_eq!(compare(&case.expected, &made, case.wording).exact, exact, "{made:?}");
    }
}

#[test]
fn answers_of_another_form_are_an_error_that_names_the_line() {
    let error = bfcl::cases(QUESTIONS, Some("{\"id\":\"a\"}")).unwrap_err().to_string();
    assert!(
        error.contains("possible answers, line 1: expected \"id\" and \"ground_truth\""),
        "{error}"
    );
    let (cases, rejected) = bfcl::cases(QUESTIONS, None).unwrap();
    assert_eq!((cases.len(), rejected.len()), (1, 5));
}
