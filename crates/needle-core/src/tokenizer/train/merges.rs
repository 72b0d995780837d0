//! The merging itself: the most frequent neighbours become one piece, until there are enough.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, HashSet},
};

use super::words::Words;

type Pair = (u32, u32);

/// A character outside the alphabet: nothing is joined across it.
const BARRIER: u32 = u32::MAX;

/// Words as symbols, and how often every two of them meet.
pub(super) struct Merges {
    symbols: Symbols,
    words: Vec<(Vec<u32>, u64)>,
    meetings: HashMap<Pair, Meetings>,
    queue: BinaryHeap<Candidate>,
    longest: usize,
    alphabet: usize,
}

#[derive(Default)]
struct Meetings {
    count: u64,
    /// Words in which the two have met; some may have lost them since.
    words: HashSet<usize>,
}

/// Frequent first; of equals the shorter, then the one that is spelt first.
type Candidate = (u64, Reverse<usize>, Reverse<String>, Reverse<Pair>);

impl Merges {
    pub(super) fn new(words: &Words<'_>, alphabet: &[char], longest: usize) -> Self {
        let mut symbols = Symbols::default();
        for char in alphabet {
            symbols.id(&char.to_string());
        }
        let spell = |word: &str| {
            word.chars()
                .map(|char| symbols.find(&char.to_string()).unwrap_or(BARRIER))
                .collect()
        };
        let words = words
            .sorted()
            .into_iter()
            .map(|(word, count)| (spell(word), count))
            .collect();
        let mut merges = Self {
            symbols,
            words,
            meetings: HashMap::new(),
            queue: BinaryHeap::new(),
            longest,
            alphabet: alphabet.len(),
        };
        for word in 0..merges.words.len() {
            merges.count(word, |meetings, count| meetings.count += count);
        }
        for pair in merges.meetings.keys().copied().collect::<Vec<_>>() {
            merges.enqueue(pair);
        }
        merges
    }

    /// The first `wanted` pieces in the order of their merging; fewer when no two symbols meet twice any more.
    pub(super) fn take(mut self, wanted: usize) -> Vec<String> {
        let target = self.alphabet + wanted;
        while self.symbols.texts.len() < target {
            let Some((count, _, Reverse(text), Reverse(pair))) = self.queue.pop() else {
                break;
            };
            let now = self.meetings.get(&pair).map_or(0, |meetings| meetings.count);
            if now == count {
                self.merge(pair, &text);
            } else {
                self.enqueue(pair);
            }
        }
        self.symbols.texts.split_off(self.alphabet)
    }

    fn enqueue(&mut self, pair: Pair) {
        let count = self.meetings.get(&pair).map_or(0, |meetings| meetings.count);
        let text = self.symbols.text(pair.0).to_owned() + self.symbols.text(pair.1);
        let length = text.chars().count();
        if count >= 2 && length <= self.longest {
            self.queue.push((count, Reverse(length), Reverse(text), Reverse(pair)));
        }
    }

    /// Joins a pair wherever it stands. Its text may be a piece already, met in another way.
    fn merge(&mut self, pair: Pair, text: &str) {
        let joined = self.symbols.id(text);
        let Some(Meetings { words, .. }) = self.meetings.remove(&pair) else {
            return;
        };
        let mut touched = HashSet::new();
        for word in words {
            self.count(word, |meetings, count| {
                meetings.count = meetings.count.saturating_sub(count)
            });
            let symbols = &mut self.words[word].0;
            let mut written = 0;
            let mut read = 0;
            while read < symbols.len() {
                let here = (symbols[read], symbols.get(read + 1).copied().unwrap_or(BARRIER)) == pair;
                symbols[written] = if here { joined } else { symbols[read] };
                written += 1;
                read += if here { 2 } else { 1 };
            }
            symbols.truncate(written);
            self.count(word, |meetings, count| meetings.count += count);
            let symbols = &self.words[word].0;
            touched.extend(pairs(symbols).filter(|&(left, right)| left == joined || right == joined));
        }
        self.meetings.remove(&pair);
        for pair in touched {
            self.enqueue(pair);
        }
    }

    fn count(&mut self, word: usize, change: impl Fn(&mut Meetings, u64)) {
        let (symbols, count) = &self.words[word];
        for pair in pairs(symbols) {
            let meetings = self.meetings.entry(pair).or_default();
            meetings.words.insert(word);
            change(meetings, *count);
        }
    }
}

fn pairs(symbols: &[u32]) -> impl Iterator<Item = Pair> {
    let pairs = symbols.iter().copied().zip(symbols.iter().copied().skip(1));
    pairs.filter(|&(left, right)| left != BARRIER && right != BARRIER)
}

#[derive(Default)]
struct Symbols {
    texts: Vec<String>,
    ids: HashMap<String, u32>,
}

impl Symbols {
    fn find(&self, text: &str) -> Option<u32> {
        self.ids.get(text).copied()
    }

    fn id(&mut self, text: &str) -> u32 {
        if let Some(id) = self.find(text) {
            return id;
        }
        let id = self.texts.len() as u32;
        self.texts.push(text.to_owned());
        self.ids.insert(text.to_owned(), id);
        id
    }

    fn text(&self, id: u32) -> &str {
        &self.texts[id as usize]
    }
}
