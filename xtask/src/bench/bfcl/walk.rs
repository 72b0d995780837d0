//! Random walks along a grammar: any token that it allows, with a leaning to those that close something, so that most end.

use anyhow::{Context, Result, ensure};
use needle_core::{ToolCall, ToolSet, grammar::Grammar};

/// Tokens, here bytes, after which a walk is given up.
const LONGEST: usize = 2_000;

/// The calls of a walk, `None` where it did not come to an end.
pub(super) fn finished(grammar: &Grammar, seed: u64) -> Result<Option<String>> {
    let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut below = move |limit: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % limit as u64) as usize
    };
    let vocabulary = grammar.vocabulary();
    let closes = |id: &u32| {
        let bytes = vocabulary.token(*id).map_or(&[][..], |token| &token.bytes);
        !bytes.is_empty() && bytes.iter().all(|byte| b"\"}]".contains(byte))
    };
    let mut matcher = grammar.matcher();
    matcher.accept(vocabulary.markers().tool_call.0)?;
    for _ in 0..LONGEST {
        let allowed: Vec<u32> = matcher.mask()?.iter().collect();
        ensure!(!allowed.is_empty(), "a dead end behind {}", matcher.calls_json());
        let closing: Vec<u32> = allowed.iter().copied().filter(closes).collect();
        let from = if !closing.is_empty() && below(100) < 40 {
            &closing
        } else {
            &allowed
        };
        matcher.accept(from[below(from.len())])?;
        if matcher.is_complete() {
            return Ok(Some(matcher.calls_json().into_owned()));
        }
    }
    Ok(None)
}

/// Whether the text is a list of calls that pass the last check.
pub(super) fn judge(text: &str, tools: &ToolSet) -> Result<()> {
    for call in ToolCall::parse_list(text)? {
        tools.check_call(&call).with_context(|| call.name.clone())?;
    }
    Ok(())
}
