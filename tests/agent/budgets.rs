//! Completions that are cut short are never taken for whole ones.

use needle_core::{ErrorCode, StopReason};

use super::home;

/// A13, A50: at every budget, an answer is either whole or an error without calls.
#[test]
fn no_budget_makes_half_a_call_a_success() {
    let whole = home().build().unwrap().complete("dim the kitchen to 30").unwrap();
    for budget in 1..=80 {
        let response = home()
            .max_new_tokens(budget)
            .build()
            .unwrap()
            .complete("dim the kitchen to 30")
            .unwrap();
        if budget >= whole.completion_tokens {
            assert_eq!(response.function_calls, whole.function_calls, "budget {budget}");
            continue;
        }
        assert!(!response.success, "budget {budget}");
        assert_eq!(
            (response.error_code, response.stop_reason),
            (Some(ErrorCode::Truncated), StopReason::Budget)
        );
        assert!(response.function_calls.is_empty() && response.suppressed_calls.is_empty());
        assert!(response.completion_tokens <= budget);
    }
}

#[test]
fn a_conversation_goes_on_after_a_cut() {
    let mut agent = home().max_new_tokens(6).build().unwrap();
    assert!(!agent.complete("dim the kitchen to 30").unwrap().success);
    let next = agent.complete("dim the kitchen to 30").unwrap();
    assert_eq!(next.success, next.stop_reason == StopReason::End);
    agent.reset();
    assert!(agent.complete("tell me a joke").unwrap().success);
}
