//! Shares with their intervals, and confidence against truth.

use needle_core::score::{Outcome, Reliability, Scores, Share};
use serde_json::json;

#[test]
fn wilsons_interval_of_known_counts() {
    // Worked out in decimals of 30 digits.
    for (right, n, low, high) in [
        (0, 10, 0.0, 0.27753279),
        (5, 10, 0.23659309, 0.76340691),
        (10, 10, 0.72246721, 1.0),
        (46, 80, 0.46569290, 0.67743438),
        (1, 1, 0.20654931, 1.0),
    ] {
        let (found_low, found_high) = Share { right, n }.interval().unwrap();
        assert!(
            (found_low - low).abs() < 1e-6 && (found_high - high).abs() < 1e-6,
            "{right} of {n}: {found_low} {found_high}"
        );
    }
    assert_eq!(Share::default().interval(), None);
    assert_eq!(Share { right: 1, n: 4 }.words(), "1 of 4, 25.0 % (4.6 to 69.9)");
    let value = serde_json::to_value(Share::default()).unwrap();
    assert_eq!(
        value,
        json!({"right": 0, "n": 0, "share": null, "low": null, "high": null})
    );
}

fn outcome(confidence: Option<f32>, exact: bool) -> Outcome {
    Outcome {
        id: "line 1".into(),
        category: "single".into(),
        query: "q".into(),
        expected: vec![json!({"name": "a", "arguments": {"x": 1}})],
        made: Vec::new(),
        comparison: needle_core::score::Comparison {
            exact,
            tools: true,
            ..Default::default()
        },
        confidence,
        fault: None,
    }
}

#[test]
fn calibration_error_and_thresholds() {
    // Two bins: 0.85 and 0.95 sure (right, right), 0.25 sure twice (right, wrong).
    let outcomes = [
        outcome(Some(0.875), true),
        outcome(Some(0.9375), true),
        outcome(Some(0.25), true),
        outcome(Some(0.25), false),
        outcome(None, true),
    ];
    let found = Reliability::of(&outcomes).unwrap();
    assert_eq!((found.n, found.bins.len()), (4, 3));
    // (|0.25 - 0.5| · 2 + |0.875 - 1| + |0.9375 - 1|) / 4
    assert!((found.ece - 0.171875).abs() < 1e-9, "{}", found.ece);
    let half = found.thresholds.iter().find(|row| row.least == 0.5).unwrap();
    assert_eq!(
        (half.kept, half.exact),
        (Share { right: 2, n: 4 }, Share { right: 2, n: 2 })
    );
    assert_eq!(found.thresholds[0].exact, Share { right: 3, n: 4 });
    assert_eq!(Reliability::of(&outcomes[4..]), None);
    // A confidence of 1 belongs to the last bin.
    assert_eq!(Reliability::of(&[outcome(Some(1.0), true)]).unwrap().bins[0].from, 0.9);
}

#[test]
fn refusals_and_calls_are_counted_apart() {
    let mut refused = outcome(None, true);
    refused.expected.clear();
    let mut fault = outcome(None, false);
    fault.fault = Some("cut".into());
    fault.comparison.tools = false;
    fault.comparison.arguments.wanted = 1;
    let scores = Scores::of("all", &[outcome(None, true), refused, fault]);
    assert_eq!(scores.exact, Share { right: 2, n: 3 });
    assert_eq!(scores.tools, Share { right: 1, n: 2 });
    assert_eq!(scores.refusals, Share { right: 1, n: 1 });
    assert_eq!(scores.argument_recall, Share { right: 0, n: 1 });
    assert_eq!(scores.faults, 1);
}
