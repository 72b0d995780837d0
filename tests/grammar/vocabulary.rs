//! Vocabularies for the tests: single bytes, and the published tokenizer read from its SentencePiece file.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock};

use needle_core::grammar::{Markers, Token, TokenKind, Vocabulary};

/// Id of the first marker of the byte vocabulary.
const FIRST: u32 = 256;

/// One token a byte, then `<tool_call>`, `</tool_call>`, `<think>`, `</think>`, `<|im_end|>` and the end.
pub(super) fn bytes() -> &'static Vocabulary {
    static VOCABULARY: OnceLock<Vocabulary> = OnceLock::new();
    VOCABULARY.get_or_init(|| with_extra(Vec::new()))
}

/// The byte vocabulary with more text tokens behind the markers.
pub(super) fn with_extra(extra: Vec<Vec<u8>>) -> Vocabulary {
    let token = |bytes: Vec<u8>, kind| Token { bytes, kind };
    let mut tokens: Vec<Token> = (0..=255).map(|byte| token(vec![byte], TokenKind::Byte)).collect();
    for marker in ["<tool_call>", "</tool_call>", "<think>", "</think>", "<|im_end|>"] {
        tokens.push(token(marker.into(), TokenKind::Marker));
    }
    tokens.push(token(b"</s>".to_vec(), TokenKind::Control));
    tokens.extend(extra.into_iter().map(|bytes| token(bytes, TokenKind::Normal)));
    let markers = Markers {
        tool_call: (FIRST, FIRST + 1),
        think: Some((FIRST + 2, FIRST + 3)),
        im_end: Some(FIRST + 4),
        eos: FIRST + 5,
    };
    Vocabulary::new(tokens, markers).unwrap()
}

/// Generation 2's tokenizer.
pub(super) fn gen2() -> &'static Vocabulary {
    static VOCABULARY: OnceLock<Vocabulary> = OnceLock::new();
    VOCABULARY.get_or_init(|| from_file("gen2"))
}

/// The stand-in for generation 3's tokenizer.
pub(super) fn gen3() -> &'static Vocabulary {
    static VOCABULARY: OnceLock<Vocabulary> = OnceLock::new();
    VOCABULARY.get_or_init(|| from_file("gen3"))
}

fn from_file(generation: &str) -> Vocabulary {
    let path = format!("{}/golden/{generation}/tokenizer.model", env!("CARGO_MANIFEST_DIR"));
    let tokens = pieces(&std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}")));
    let markers = Markers {
        tool_call: (10, 11),
        think: Some((6, 7)),
        im_end: Some(5),
        eos: 1,
    };
    Vocabulary::new(tokens, markers).unwrap()
}

/// The pieces of a SentencePiece file: field 1 of the message, each with its text (1) and its type (3).
fn pieces(file: &[u8]) -> Vec<Token> {
    let mut tokens = Vec::new();
    for (field, body) in fields(file) {
        if field != 1 {
            continue;
        }
        let (mut text, mut kind) = (String::new(), 1);
        for (field, value) in fields(body) {
            match field {
                1 => text = String::from_utf8(value.to_vec()).unwrap(),
                3 => kind = value[0],
                _ => {}
            }
        }
        let bytes = text.replace('▁', " ").into_bytes();
        tokens.push(match kind {
            1 => Token {
                bytes,
                kind: TokenKind::Normal,
            },
            2 => Token {
                bytes,
                kind: TokenKind::Unknown,
            },
            4 => Token {
                bytes,
                kind: TokenKind::Marker,
            },
            6 => Token {
                bytes: vec![u8::from_str_radix(&text[3..5], 16).unwrap()],
                kind: TokenKind::Byte,
            },
            _ => Token {
                bytes,
                kind: TokenKind::Control,
            },
        });
    }
    tokens
}

/// The fields of a protobuf message; numbers as the byte they start with, which is all that is asked for here.
fn fields(mut bytes: &[u8]) -> Vec<(u64, &[u8])> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let byte = bytes[0];
            *bytes = &bytes[1..];
            value |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        value
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let length = match key & 7 {
            0 => {
                let start = bytes;
                varint(&mut bytes);
                found.push((key >> 3, &start[..1]));
                continue;
            }
            1 => 8,
            2 => varint(&mut bytes) as usize,
            5 => 4,
            other => panic!("wire type {other}"),
        };
        found.push((key >> 3, &bytes[..length]));
        bytes = &bytes[length..];
    }
    found
}

/// Ids by the bytes they spell.
type Table = HashMap<Vec<u8>, u32>;

/// Cuts text into the longest tokens from the left: not the tokenizer's own cut, but one of its spellings.
pub(super) fn longest_match(vocabulary: &Vocabulary, text: &[u8]) -> Vec<u32> {
    static TABLES: OnceLock<Mutex<HashMap<usize, Table>>> = OnceLock::new();
    let mut tables = TABLES.get_or_init(Default::default).lock().unwrap();
    let table = tables.entry(vocabulary.len()).or_insert_with(|| {
        let mut table = HashMap::new();
        for wanted in [TokenKind::Normal, TokenKind::Byte] {
            for id in 0..vocabulary.len() as u32 {
                let token = vocabulary.token(id).unwrap();
                if token.kind == wanted {
                    table.entry(token.bytes.clone()).or_insert(id);
                }
            }
        }
        table
    });
    let (mut ids, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let length = (1..=rest.len().min(400))
            .rev()
            .find(|n| table.contains_key(&rest[..*n]))
            .unwrap();
        ids.push(table[&rest[..length]]);
        rest = &rest[length..];
    }
    ids
}
