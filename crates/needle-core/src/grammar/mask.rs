//! The set of tokens that may come next.

use llguidance::toktrie::SimpleVob;

/// Which tokens may come next, one bit each.
#[derive(Clone, Debug)]
pub struct TokenMask {
    bits: SimpleVob,
}

impl TokenMask {
    pub(super) fn new(bits: SimpleVob) -> Self {
        Self { bits }
    }

    /// A mask of `vocabulary` tokens that allows just `ids`.
    pub(super) fn of(vocabulary: usize, ids: impl IntoIterator<Item = u32>) -> Self {
        let mut bits = SimpleVob::alloc(vocabulary);
        ids.into_iter().for_each(|id| bits.allow_token(id));
        Self { bits }
    }

    pub(super) fn allow(&mut self, id: u32) {
        self.bits.allow_token(id);
    }

    pub(super) fn disallow(&mut self, id: u32) {
        self.bits.disallow_token(id);
    }

    /// Whether the token may come next. Ids outside the vocabulary may not.
    pub fn is_allowed(&self, id: u32) -> bool {
        (id as usize) < self.bits.len() && self.bits.is_allowed(id)
    }

    /// How many tokens may come next.
    pub fn count(&self) -> usize {
        self.bits.num_set()
    }

    /// The one token that may come next, if there is just one.
    pub fn single(&self) -> Option<u32> {
        let mut ids = self.iter();
        ids.next().filter(|_| ids.next().is_none())
    }

    /// The tokens that may come next, in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.bits.iter()
    }

    /// Sets the logit of every token that may not come next to minus infinity, those beyond the vocabulary as well.
    pub fn apply(&self, logits: &mut [f32]) {
        for (word, chunk) in self
            .bits
            .as_slice()
            .iter()
            .chain(std::iter::repeat(&0))
            .zip(logits.chunks_mut(32))
        {
            if *word == u32::MAX {
                continue;
            }
            for (bit, logit) in chunk.iter_mut().enumerate() {
                if word >> bit & 1 == 0 {
                    *logit = f32::NEG_INFINITY;
                }
            }
        }
    }
}
