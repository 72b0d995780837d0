//! The members of an object as productions: declared keys in their order, each at most once, then the others.

use std::collections::HashMap;

use super::rules::{Rules, Symbol};
use crate::error::Result;
use crate::schema::{Object, Presence};

/// What stands between the braces, or `None` where nothing can: `members` are the declared keys with their values, `other`
/// is any other key with its value.
pub(super) fn inside(
    rules: &mut Rules,
    object: &Object,
    members: &[(Symbol, Presence)],
    other: Option<Symbol>,
) -> Result<Option<Symbol>> {
    let mut walk = Members {
        members,
        other,
        fewest: object.fewest,
        most: object.most,
        cap: object.most.unwrap_or(object.fewest.max(1)),
        known: HashMap::new(),
    };
    walk.from(rules, 0, 0)
}

/// The members of one object: which come next depends on how many declared ones are behind and how many were written.
struct Members<'a> {
    members: &'a [(Symbol, Presence)],
    other: Option<Symbol>,
    fewest: usize,
    most: Option<usize>,
    /// Counts above this make no difference.
    cap: usize,
    known: HashMap<(usize, usize), Option<Symbol>>,
}

impl Members<'_> {
    /// The members from the declared one at `index` on, after `written` of any kind; `None` where none can be right.
    fn from(&mut self, rules: &mut Rules, index: usize, written: usize) -> Result<Option<Symbol>> {
        if let Some(symbol) = self.known.get(&(index, written)) {
            return Ok(*symbol);
        }
        let symbol = match self.members.get(index) {
            None => {
                let least = self.fewest.saturating_sub(written);
                rules.items(self.other, written, least, self.most.map(|most| most - written))?
            }
            Some((member, presence)) => {
                let mut options = Vec::new();
                if self.most.is_none_or(|most| written < most)
                    && let Some(rest) = self.from(rules, index + 1, (written + 1).min(self.cap))?
                {
                    let comma = rules.text(",")?;
                    options.push(match written {
                        0 => rules.sequence(&[*member, rest])?,
                        _ => rules.sequence(&[comma, *member, rest])?,
                    });
                }
                if *presence == Presence::Optional {
                    options.extend(self.from(rules, index + 1, written)?);
                }
                (!options.is_empty()).then(|| rules.choice(&options)).transpose()?
            }
        };
        self.known.insert((index, written), symbol);
        Ok(symbol)
    }
}
