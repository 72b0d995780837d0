//! Hashed n-grams: which row of each table a position reads.
//!
//! For order index `o` and table `j` of that order, all in wrapping 32-bit arithmetic:
//! `a = 0x9E3779B9·(o·stride + j + 1)`; for `r` in `0..order`: `a = (a ⊕ token[t−r])·0x01000193`, a token before the start
//! counting as 0; `a ⊕= a ≫ 15`; row `a mod S`.

/// The hash's parameters.
#[derive(Clone, Debug)]
pub struct EngramHash {
    /// Lengths of the n-grams.
    pub orders: Vec<usize>,
    /// Tables per order.
    pub heads: usize,
    /// Seeds between one order and the next.
    pub stride: usize,
    /// Rows per table.
    pub slots: usize,
}

/// Rows for the last `count` tokens of `tokens`, position by position, tables in order: `count · orders · heads` numbers.
///
/// Tokens before the `count` ones are their history; where it ends, the text began.
pub fn engram_slots(hash: &EngramHash, tokens: &[u32], count: usize) -> Vec<u32> {
    let mut rows = Vec::with_capacity(count * hash.orders.len() * hash.heads);
    for t in tokens.len() - count..tokens.len() {
        for (o, &order) in hash.orders.iter().enumerate() {
            for j in 0..hash.heads {
                let mut a = 0x9E37_79B9u32.wrapping_mul((o * hash.stride + j + 1) as u32);
                for r in 0..order {
                    let token = if r <= t { tokens[t - r] } else { 0 };
                    a = (a ^ token).wrapping_mul(0x0100_0193);
                }
                rows.push((a ^ (a >> 15)) % hash.slots as u32);
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_changes_nothing_but_where_the_text_begins() {
        let hash = EngramHash {
            orders: vec![2, 3],
            heads: 2,
            stride: 2,
            slots: 96,
        };
        let tokens = [5, 9, 5, 9, 5, 0, 7];
        let whole = engram_slots(&hash, &tokens, tokens.len());
        for t in 2..tokens.len() {
            assert_eq!(engram_slots(&hash, &tokens[t - 2..=t], 1), whole[t * 4..][..4]);
        }
    }
}
