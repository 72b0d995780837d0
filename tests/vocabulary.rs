//! Vocabularies learnt here: what they hold, that they spell every text, and their `.model` form.

use needle_core::{
    Tokenizer,
    tokenizer::{PieceKind, TokenizerOptions},
};

const TEXT: &str = include_str!("../docs/grammar.md");
const OTHER: &str = include_str!("../docs/parity.md");

fn learnt(texts: &[&str]) -> Tokenizer {
    let options = TokenizerOptions {
        vocab_size: 600,
        coverage: 1.0,
        ..TokenizerOptions::default()
    };
    options.train(texts).unwrap()
}

#[test]
fn pieces_stand_in_their_order_and_every_text_is_spelt() {
    let tokenizer = learnt(&[TEXT, "0123456789"]);
    assert_eq!(tokenizer.vocab_size(), 600);
    assert_eq!(tokenizer.id("<tool_call>"), Some(10));
    assert_eq!(tokenizer.kind(13), Some(PieceKind::UserDefined));
    assert_eq!(tokenizer.id("<0x00>"), Some(14));
    assert!(tokenizer.encode(TEXT).len() * 2 < TEXT.len());
    for text in [TEXT, OTHER, "", " ", "  日本語 😀 \u{1}\n", "<tools>[1203]</tools>"] {
        assert_eq!(tokenizer.decode(&tokenizer.encode(text)), text);
    }
    let digits = tokenizer.encode("1203");
    let digits: Vec<_> = digits.iter().filter_map(|&id| tokenizer.piece(id)).collect();
    assert_eq!(digits, ["▁", "1", "2", "0", "3"]);
}

#[test]
fn the_order_of_the_texts_does_not_matter() {
    let one = learnt(&[TEXT, OTHER]).to_archive_blob();
    assert_eq!(one, learnt(&[OTHER, TEXT]).to_archive_blob());
    assert_ne!(one, learnt(&[TEXT]).to_archive_blob());
}

#[test]
fn an_earlier_piece_is_as_frequent_as_any_later_one() {
    let options = TokenizerOptions {
        vocab_size: 4 + 10 + 256 + 4 + 2,
        ..TokenizerOptions::default()
    };
    let tokenizer = options.train(["abab abab abc"]).unwrap();
    let pieces: Vec<_> = (270..276).filter_map(|id| tokenizer.piece(id)).collect();
    assert_eq!(pieces[0], "ab", "five times");
    assert_eq!(pieces[1], "▁ab", "then three times, abab twice");
    assert_eq!(pieces[2..], ["a", "b", "▁", "c"]);
}

#[test]
fn a_size_that_cannot_be_is_refused_with_the_one_that_can() {
    let size = |vocab_size| TokenizerOptions {
        vocab_size,
        ..TokenizerOptions::default()
    };
    let small = size(100).train(["abc"]).unwrap_err().to_string();
    assert!(small.contains("no room for the 274"), "{small}");
    let large = size(5000).train(["abcabc"]).unwrap_err().to_string();
    assert!(large.contains("the texts give 27") && large.contains("5000"), "{large}");
    let markers = TokenizerOptions {
        markers: vec!["<a>".into(), "<a>".into()],
        ..size(400)
    };
    assert!(markers.train(["abc"]).unwrap_err().to_string().contains("given twice"));
}

#[test]
fn the_model_file_is_read_back_unchanged() {
    let golden = |name| std::fs::read(crate::golden::path(name)).unwrap();
    let published = [
        "gen2/tokenizer.model",
        "gen3/tokenizer.model",
        "gen3/tokenizer_noprefix.model",
    ];
    let published = published.map(|name| Tokenizer::from_sentencepiece(&golden(name)).unwrap());
    for tokenizer in published.into_iter().chain([learnt(&[TEXT])]) {
        let again = Tokenizer::from_sentencepiece(&tokenizer.to_sentencepiece()).unwrap();
        assert_eq!(again.to_archive_blob(), tokenizer.to_archive_blob());
    }
}
