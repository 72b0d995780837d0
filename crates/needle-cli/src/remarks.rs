//! What is worth saying about an answer beside it: warnings, and calls that were withheld.

use needle_core::Response;

use crate::notice;

/// On stderr; `least` is the confidence that was asked for.
pub(crate) fn say(response: &Response, least: Option<f32>) {
    withheld(response, least).iter().for_each(notice::say);
    let warnings = response.warnings.iter();
    warnings.for_each(|warning| notice::say(format!("warning: {}", notice::flat(warning))));
}

/// One line a call that the answer is too unsure of. Invalid calls are the answer's error, which is reported as such.
fn withheld(response: &Response, least: Option<f32>) -> Vec<String> {
    let (true, Some(confidence), Some(least)) = (response.success, response.confidence, least) else {
        return Vec::new();
    };
    // Rounded down, so that it never looks like what was asked for.
    let confidence = (confidence * 100.0).floor() / 100.0;
    let line = |name: &str| format!("withheld: {name} (confidence {confidence:.2} below {least})");
    response.suppressed_calls.iter().map(|call| line(&call.name)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_withheld_call_is_named_with_its_confidence() -> Result<(), serde_json::Error> {
        let mut response: Response = serde_json::from_value(json!({
            "type": "call", "success": true, "error": null, "error_code": null, "function_calls": [],
            "suppressed_calls": [{ "name": "set_timer", "arguments": { "minutes": 5 } }], "reasoning": null,
            "confidence": 0.499, "validation": { "ungrounded": [], "negation": false }, "stop_reason": "end",
            "prompt_tokens": 1, "completion_tokens": 1, "prefill_tps": 1.0, "decode_tps": 1.0, "peak_ram_mb": null,
            "device": "cpu", "dtype": "f32",
        }))?;
        let line = "withheld: set_timer (confidence 0.49 below 0.999)";
        assert_eq!(withheld(&response, Some(0.999)), [line]);
        response.suppressed_calls.clear();
        assert!(withheld(&response, Some(0.999)).is_empty());
        Ok(())
    }
}
