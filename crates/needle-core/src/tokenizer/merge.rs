//! Text to ids: markers first, then the best-scored neighbours are joined until no join is a piece.
//!
//! Equation: among all adjacent `(a, b)` with `a·b` in the vocabulary, join the one with the highest score, the leftmost
//! on a tie; repeat. A heap of candidates makes that `O(n log n)`; a candidate that an earlier join has overtaken is
//! recognised by its length and dropped. Where two characters stand side by side in no piece, no join can reach across,
//! so the text is cut there and merged run by run, which keeps the heap small.

use std::{cmp::Ordering, collections::BinaryHeap};

use super::{SPACE_SIGN, vocabulary::Vocabulary};

/// Where a text stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// At the beginning, where a vocabulary may want a space put before it.
    OfText,
    /// After other text.
    Inside,
}

pub(super) fn encode(vocabulary: &Vocabulary, text: &str, start: Start) -> Vec<u32> {
    if text.is_empty() {
        return Vec::new();
    }
    let mut spelt = String::with_capacity(text.len() + text.len() / 2);
    if vocabulary.table.add_dummy_prefix && start == Start::OfText {
        spelt.push(SPACE_SIGN);
    }
    spelt.extend(text.chars().map(|char| if char == ' ' { SPACE_SIGN } else { char }));

    let mut merger = Merger {
        vocabulary,
        symbols: Vec::new(),
        candidates: BinaryHeap::new(),
        ids: Vec::new(),
    };
    let (mut from, mut at) = (0, 0);
    let mut previous = None;
    while let Some(char) = spelt[at..].chars().next() {
        if let Some((id, len)) = vocabulary.marker(&spelt[at..]) {
            merger.run(&spelt[from..at]);
            merger.ids.push(id);
            at += len;
            from = at;
            previous = None;
            continue;
        }
        if previous.is_some_and(|previous| !vocabulary.may_join(previous, char)) {
            merger.run(&spelt[from..at]);
            from = at;
        }
        at += char.len_utf8();
        previous = Some(char);
    }
    merger.run(&spelt[from..]);
    merger.ids
}

/// A stretch of the run, at the index of its first byte: one character, or what characters were joined to. Pieces are
/// at most 65,535 bytes long.
#[derive(Clone, Copy, Default)]
struct Symbol {
    /// Its bytes; 0 where no symbol begins (any more).
    len: u16,
    /// Bytes of its left neighbour; 0 at the start of the run.
    before: u16,
}

/// Two neighbours whose text is a piece.
struct Candidate {
    score: f32,
    /// Bytes of both together.
    len: u16,
    left: usize,
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        // As in SentencePiece 0.2.3, 0.0 is above -0.0.
        self.score.total_cmp(&other.score).then(other.left.cmp(&self.left))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate {}

/// The merge loop; its buffers live from one run to the next.
struct Merger<'a> {
    vocabulary: &'a Vocabulary,
    symbols: Vec<Symbol>,
    candidates: BinaryHeap<Candidate>,
    ids: Vec<u32>,
}

impl Merger<'_> {
    /// Appends the ids of a text without markers.
    fn run(&mut self, text: &str) {
        self.symbols.clear();
        self.symbols.resize(text.len(), Symbol::default());
        let mut before = 0;
        for (start, char) in text.char_indices() {
            let len = char.len_utf8() as u16;
            self.symbols[start] = Symbol { len, before };
            before = len;
        }
        let mut left = 0;
        while left < text.len() {
            self.consider(text, left);
            left += self.symbols[left].len as usize;
        }
        while let Some(candidate) = self.candidates.pop() {
            self.join(text, candidate);
        }
        let mut start = 0;
        while start < text.len() {
            let end = start + self.symbols[start].len as usize;
            self.emit(&text[start..end]);
            start = end;
        }
    }

    /// Bytes of a symbol and its right neighbour together, if it has one.
    fn pair_len(&self, left: usize) -> Option<usize> {
        let len = self.symbols[left].len as usize;
        let right = self.symbols.get(left + len)?;
        Some(len + right.len as usize)
    }

    /// Remembers a symbol and its right neighbour if their text is a piece.
    fn consider(&mut self, text: &str, left: usize) {
        let Some(len) = self.pair_len(left) else { return };
        if let Some(score) = self.vocabulary.score(&text[left..left + len]) {
            let len = len as u16;
            self.candidates.push(Candidate { score, len, left });
        }
    }

    fn join(&mut self, text: &str, candidate: Candidate) {
        let Candidate { len, left, .. } = candidate;
        let left_len = self.symbols[left].len;
        if left_len == 0 || self.pair_len(left) != Some(len as usize) {
            return;
        }
        self.symbols[left + left_len as usize].len = 0;
        self.symbols[left].len = len;
        if let Some(next) = self.symbols.get_mut(left + len as usize) {
            next.before = len;
        }
        if left > 0 {
            self.consider(text, left - self.symbols[left].before as usize);
        }
        self.consider(text, left);
    }

    fn emit(&mut self, text: &str) {
        let unknown = self.vocabulary.table.special.unk;
        let id = self.vocabulary.find(text).unwrap_or(unknown);
        if id != unknown {
            self.ids.push(id);
        } else if let Some(bytes) = self.vocabulary.fallback(text) {
            self.ids.extend(bytes);
        } else if self.ids.last() != Some(&unknown) {
            self.ids.push(unknown);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::vocabulary::{Piece, PieceKind, Special, Table};

    /// Four special pieces, one marker, then the given texts with their scores.
    fn vocabulary(texts: &[(&str, f32)]) -> Vocabulary {
        let special = [
            ("<pad>", PieceKind::Control),
            ("</s>", PieceKind::Control),
            ("<s>", PieceKind::Control),
            ("<unk>", PieceKind::Unknown),
            ("<m>", PieceKind::UserDefined),
        ];
        let special = special.into_iter().map(|(text, kind)| (text, 0.0, kind));
        let normal = texts.iter().map(|&(text, score)| (text, score, PieceKind::Normal));
        let piece = |(text, score, kind): (&str, f32, PieceKind)| Piece {
            text: text.into(),
            score,
            kind,
        };
        Vocabulary::new(Table {
            pieces: special.chain(normal).map(piece).collect(),
            special: Special {
                pad: 0,
                eos: 1,
                bos: 2,
                unk: 3,
            },
            add_dummy_prefix: false,
            byte_fallback: false,
        })
        .unwrap()
    }

    /// The equation as it stands, for a text without markers.
    fn literally(vocabulary: &Vocabulary, text: &str) -> Vec<String> {
        let mut symbols: Vec<String> = text.chars().map(String::from).collect();
        loop {
            let pairs = symbols.windows(2).map(|pair| vocabulary.score(&pair.concat()));
            let mut best: Option<(f32, usize)> = None;
            for (left, score) in pairs.enumerate() {
                if let Some(score) = score.filter(|&score| best.is_none_or(|(highest, _)| score > highest)) {
                    best = Some((score, left));
                }
            }
            let Some((_, left)) = best else { return symbols };
            let right = symbols.remove(left + 1);
            symbols[left].push_str(&right);
        }
    }

    #[test]
    fn the_heap_gives_what_the_equation_gives() {
        // Scores tie, one piece has two spellings as a pair, and one has no path of joins at all.
        let texts = [
            ("a", -9.0),
            ("b", -9.0),
            ("c", -9.0),
            ("ab", -1.0),
            ("ba", -1.0),
            ("aa", -2.0),
            ("bc", -1.0),
            ("aab", -0.5),
            ("abab", -0.25),
            ("cc", -3.0),
            ("ccc", -3.0),
            ("bab", 0.0),
            ("cabba", 2.0),
        ];
        let vocabulary = vocabulary(&texts);
        let mut state = 1u64;
        for length in (0..40).cycle().take(4000) {
            let text: String = (0..length)
                .map(|_| {
                    state = state
                        .wrapping_mul(6364136223846793005)
                        .wrapping_add(1442695040888963407);
                    ['a', 'b', 'c'][(state >> 33) as usize % 3]
                })
                .collect();
            let expected: Vec<u32> = literally(&vocabulary, &text)
                .iter()
                .map(|piece| vocabulary.find(piece).unwrap())
                .collect();
            assert_eq!(encode(&vocabulary, &text, Start::Inside), expected, "{text}");
        }
    }

    #[test]
    fn unknown_neighbours_are_one_unknown_piece() {
        let vocabulary = vocabulary(&[("a", -1.0)]);
        assert_eq!(encode(&vocabulary, "xyza<m>xa", Start::Inside), [3, 5, 4, 3, 5]);
    }
}
