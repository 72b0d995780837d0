//! Chance from a seed: SplitMix64, the same on every machine.

pub(super) struct Dice(pub(super) u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number from `low` to `high`, both possible.
    pub(super) fn between(&mut self, low: i64, high: i64) -> i64 {
        low + (self.next() % (high - low + 1) as u64) as i64
    }

    /// True with this chance in a hundred.
    pub(super) fn percent(&mut self, chance: i64) -> bool {
        self.between(0, 99) < chance
    }

    /// One of them; the lists are never empty.
    pub(super) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.between(0, of.len() as i64 - 1) as usize]
    }

    /// One of these words.
    pub(super) fn word(&mut self, of: &[&'static str]) -> &'static str {
        let word: &&str = self.pick(of);
        word
    }
}
