//! The calls made against the calls wanted.

use serde::Serialize;

use super::{ExpectedCall, Wording};
use crate::tool::ToolCall;

/// What a comparison finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// The same calls, each as often, in any order.
    pub exact: bool,
    /// The same names, each as often.
    pub tools: bool,
    /// The arguments.
    pub arguments: ArgumentCounts,
}

/// Arguments of all calls together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ArgumentCounts {
    /// Given and right.
    pub right: usize,
    /// Given.
    pub given: usize,
    /// Wanted.
    pub wanted: usize,
}

/// Compares; see [`crate::score`] for what counts as what.
pub fn compare(expected: &[ExpectedCall], made: &[ToolCall], wording: Wording) -> Comparison {
    Comparison {
        exact: expected.len() == made.len() && all_matched(expected, made, wording),
        tools: same_names(expected, made),
        arguments: arguments(expected, made, wording),
    }
}

fn same_names(expected: &[ExpectedCall], made: &[ToolCall]) -> bool {
    let mut wanted: Vec<&str> = expected.iter().map(|call| call.name.as_str()).collect();
    let mut found: Vec<&str> = made.iter().map(|call| call.name.as_str()).collect();
    wanted.sort_unstable();
    found.sort_unstable();
    wanted == found
}

/// Whether every call that is wanted has a call made of its own: a matching of the two sides, found along augmenting paths.
fn all_matched(expected: &[ExpectedCall], made: &[ToolCall], wording: Wording) -> bool {
    let fits: Vec<Vec<bool>> = expected
        .iter()
        .map(|wanted| made.iter().map(|call| wanted.admits(call, wording)).collect())
        .collect();
    let mut owners = vec![None; made.len()];
    (0..expected.len()).all(|wanted| augment(wanted, &fits, &mut owners, &mut vec![false; made.len()]))
}

fn augment(wanted: usize, fits: &[Vec<bool>], owners: &mut [Option<usize>], seen: &mut [bool]) -> bool {
    for call in 0..owners.len() {
        if !fits[wanted][call] || std::mem::replace(&mut seen[call], true) {
            continue;
        }
        let free = match owners[call] {
            None => true,
            Some(owner) => augment(owner, fits, owners, seen),
        };
        if free {
            owners[call] = Some(wanted);
            return true;
        }
    }
    false
}

/// Each wanted call takes the call of its name, among those left, with the most right arguments.
fn arguments(expected: &[ExpectedCall], made: &[ToolCall], wording: Wording) -> ArgumentCounts {
    let mut left: Vec<&ToolCall> = made.iter().collect();
    let given = |call: &ToolCall| call.arguments.as_object().map_or(0, |arguments| arguments.len());
    let mut counts = ArgumentCounts {
        given: made.iter().map(given).sum(),
        ..ArgumentCounts::default()
    };
    for wanted in expected {
        let named = left.iter().enumerate().filter(|(_, call)| call.name == wanted.name);
        let nearest = named.max_by_key(|(at, call)| (wanted.right(call, wording), std::cmp::Reverse(*at)));
        let nearest = nearest.map(|(at, _)| at).map(|at| left.remove(at));
        counts.wanted += wanted.wanted(nearest);
        counts.right += nearest.map_or(0, |call| wanted.right(call, wording));
    }
    counts
}
