//! What counts as the same call.

use needle_core::{
    ToolCall,
    score::{Allowed, ArgumentCounts, Comparison, ExpectedArgument, ExpectedCall, Presence, Wording, compare},
};

fn calls(json: &str) -> Vec<ToolCall> {
    serde_json::from_str(json).unwrap()
}

fn against(wanted: &str, made: &str) -> Comparison {
    let wanted: Vec<ExpectedCall> = calls(wanted).iter().map(ExpectedCall::exactly).collect();
    compare(&wanted, &calls(made), Wording::Exact)
}

#[test]
fn equal_calls_in_any_order_with_numbers_by_value() {
    let wanted = r#"[{"name":"a","arguments":{"x":3,"y":[1,{"k":"v","l":null}]}},{"name":"b","arguments":{}}]"#;
    let made = r#"[{"name":"b","arguments":{}},{"name":"a","arguments":{"y":[1.0,{"l":null,"k":"v"}],"x":3.0e0}}]"#;
    let found = against(wanted, made);
    assert!(found.exact && found.tools);
    let counts = ArgumentCounts {
        right: 2,
        given: 2,
        wanted: 2,
    };
    assert_eq!(found.arguments, counts);
    assert!(against("[]", "[]").exact);
}

#[test]
fn anything_else_is_another_call() {
    let wanted = r#"[{"name":"a","arguments":{"x":"Hall","n":1}}]"#;
    for (made, tools, [right, given]) in [
        ("[]", false, [0, 0]),
        (r#"[{"name":"b","arguments":{"x":"Hall","n":1}}]"#, false, [0, 2]),
        (r#"[{"name":"a","arguments":{"x":"hall","n":1}}]"#, true, [1, 2]),
        (r#"[{"name":"a","arguments":{"x":"Hall","n":"1"}}]"#, true, [1, 2]),
        (r#"[{"name":"a","arguments":{"x":"Hall"}}]"#, true, [1, 1]),
        (r#"[{"name":"a","arguments":{"x":"Hall","n":1,"z":0}}]"#, true, [2, 3]),
        (
            r#"[{"name":"a","arguments":{"x":"Hall","n":1}},{"name":"a","arguments":{"x":"Hall","n":1}}]"#,
            false,
            [2, 4],
        ),
        (r#"[{"name":"a","arguments":[1]}]"#, true, [0, 0]),
    ] {
        let found = against(wanted, made);
        assert_eq!((found.exact, found.tools), (false, tools), "{made}");
        let counts = ArgumentCounts {
            right,
            given,
            wanted: 2,
        };
        assert_eq!(found.arguments, counts, "{made}");
    }
    assert!(!against("[]", wanted).exact);
}

#[test]
fn arguments_are_held_against_the_nearest_call_of_the_name() {
    let wanted = r#"[{"name":"a","arguments":{"x":1,"y":1}},{"name":"a","arguments":{"x":2,"y":2}}]"#;
    let made = r#"[{"name":"a","arguments":{"x":2,"y":2}},{"name":"a","arguments":{"x":1,"y":9}}]"#;
    let counts = ArgumentCounts {
        right: 3,
        given: 4,
        wanted: 4,
    };
    assert_eq!(against(wanted, made).arguments, counts);
}

fn argument(name: &str, values: &[&str], presence: Presence) -> ExpectedArgument {
    ExpectedArgument {
        name: name.into(),
        allowed: Allowed::OneOf(values.iter().map(|value| Allowed::Value((*value).into())).collect()),
        presence,
    }
}

#[test]
fn several_values_may_be_right_and_some_arguments_left_out() {
    let wanted = [ExpectedCall {
        name: "a".into(),
        arguments: vec![
            argument("city", &["San Francisco, CA", "SF"], Presence::Required),
            argument("unit", &["", "metric"], Presence::Optional),
        ],
    }];
    for (made, wording, exact) in [
        (r#"{"city":"SF"}"#, Wording::Exact, true),
        (r#"{"city":"sf","unit":"Metric"}"#, Wording::Exact, false),
        (r#"{"city":"sf","unit":"Metric"}"#, Wording::Loose, true),
        (r#"{"city":"san francisco ca"}"#, Wording::Loose, true),
        (r#"{"city":"San Jose"}"#, Wording::Loose, false),
        (r#"{"unit":"metric"}"#, Wording::Loose, false),
        (r#"{"city":"SF","zip":1}"#, Wording::Loose, false),
    ] {
        let made = calls(&format!(r#"[{{"name":"a","arguments":{made}}}]"#));
        assert_eq!(compare(&wanted, &made, wording).exact, exact, "{made:?}");
    }
}

/// A greedy pairing would give the first call wanted the only call that the second one admits.
#[test]
fn calls_are_matched_as_a_whole() {
    let either = |values: &[&str]| ExpectedCall {
        name: "a".into(),
        arguments: vec![argument("x", values, Presence::Required)],
    };
    let made = calls(r#"[{"name":"a","arguments":{"x":"1"}},{"name":"a","arguments":{"x":"2"}}]"#);
    assert!(compare(&[either(&["1", "2"]), either(&["1"])], &made, Wording::Exact).exact);
    assert!(!compare(&[either(&["1"]), either(&["1"])], &made, Wording::Exact).exact);
}
