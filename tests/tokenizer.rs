//! The tokenizer against SentencePiece's own results, and against damaged files.

use std::{
    fs,
    sync::LazyLock,
    time::{Duration, Instant},
};

use needle_core::{Error, Tokenizer, tokenizer::PieceKind};
use proptest::prelude::*;
use serde_json::Value;

use crate::golden;

struct Case {
    model: &'static str,
    archive: &'static str,
    lines: &'static str,
    encoded: usize,
}

const CASES: [Case; 3] = [
    Case {
        model: "gen2/tokenizer.model",
        archive: "gen2/cact/tok64_w4",
        lines: "gen2/tokenizer/",
        encoded: 651,
    },
    Case {
        model: "gen3/tokenizer.model",
        archive: "gen3/cact/tok64_w4",
        lines: "gen3/tokenizer/tokenizer.",
        encoded: 697,
    },
    Case {
        model: "gen3/tokenizer_noprefix.model",
        archive: "gen3/cact/tokn48_w4",
        lines: "gen3/tokenizer/tokenizer_noprefix.",
        encoded: 697,
    },
];

impl Case {
    fn model(&self) -> Tokenizer {
        Tokenizer::from_sentencepiece(&read(self.model)).unwrap()
    }

    /// The archive's last tensor, which is its tokenizer.
    fn blob(&self) -> Vec<u8> {
        let archive = read(&format!("{}.cact", self.archive));
        let u32_at = |at: usize| u32::from_le_bytes(archive[at..at + 4].try_into().unwrap()) as usize;
        let u64_at = |at: usize| u64::from_le_bytes(archive[at..at + 8].try_into().unwrap()) as usize;
        let header_bytes = if self.archive.starts_with("gen2") {
            30 * 4
        } else {
            49 * 4
        };
        let (tensors, codebook_len) = (u32_at(4), u32_at(8));
        let record = header_bytes + codebook_len * 4 + (tensors - 1) * 44;
        assert_eq!(archive[record], 4, "the last tensor is not RAW");
        let offset = u64_at(record + 20);
        archive[offset..offset + u64_at(record + 28)].to_vec()
    }
}

static TOKENIZERS: LazyLock<[Tokenizer; 3]> = LazyLock::new(|| CASES.each_ref().map(Case::model));

fn read(relative: &str) -> Vec<u8> {
    fs::read(golden::path(relative)).unwrap()
}

fn lines(relative: &str) -> Vec<Value> {
    let text = String::from_utf8(read(relative)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub(crate) fn ids(value: &Value) -> Vec<u32> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|id| id.as_u64().unwrap() as u32)
        .collect()
}

fn streamed(tokenizer: &Tokenizer, ids: &[u32]) -> String {
    let mut stream = tokenizer.stream();
    let mut text: String = ids.iter().map(|&id| stream.push(id)).collect();
    text.push_str(&stream.finish());
    text
}

#[test]
fn every_golden_line_from_the_model_its_blob_and_the_archive() {
    for case in &CASES {
        let model = case.model();
        let again = Tokenizer::from_archive_blob(&model.to_archive_blob()).unwrap();
        let archive = Tokenizer::from_archive_blob(&case.blob()).unwrap();
        let encoded = lines(&format!("{}encode.jsonl", case.lines));
        let decoded = lines(&format!("{}decode.jsonl", case.lines));
        assert_eq!((encoded.len(), decoded.len()), (case.encoded, 160));
        for tokenizer in [&model, &again, &archive] {
            for line in &encoded {
                assert_eq!(
                    tokenizer.encode(line["text"].as_str().unwrap()),
                    ids(&line["ids"]),
                    "{} {line}",
                    case.model
                );
            }
            for line in encoded.iter().chain(&decoded) {
                let expected = line["decoded"].as_str().unwrap();
                assert_eq!(tokenizer.decode(&ids(&line["ids"])), expected, "{} {line}", case.model);
                assert_eq!(
                    streamed(tokenizer, &ids(&line["ids"])),
                    expected,
                    "{} {line}",
                    case.model
                );
            }
        }
    }
}

#[test]
fn the_blob_is_the_archives_byte_for_byte() {
    for case in &CASES {
        let blob = case.blob();
        assert!(case.model().to_archive_blob() == blob, "{}", case.archive);
        assert!(
            Tokenizer::from_archive_blob(&blob).unwrap().to_archive_blob() == blob,
            "{}",
            case.archive
        );
    }
}

#[test]
fn prompts_and_answers_of_whole_archives() {
    for case in &CASES {
        let tokenizer = Tokenizer::from_archive_blob(&case.blob()).unwrap();
        for line in lines(&format!("{}.text.jsonl", case.archive)) {
            let mut prompt_ids = vec![tokenizer.bos_id()];
            prompt_ids.extend(tokenizer.encode(line["prompt"].as_str().unwrap()));
            assert_eq!(prompt_ids, ids(&line["prompt_ids"]), "{line}");
            assert_eq!(tokenizer.decode(&ids(&line["ids"])), line["text"].as_str().unwrap());
        }
    }
}

#[test]
fn threads_share_a_tokenizer() {
    fn shared<T: Send + Sync + Clone>(_: &T) {}
    let tokenizer = TOKENIZERS[0].clone();
    shared(&tokenizer);
    let ids = std::thread::spawn(move || tokenizer.encode("one text")).join().unwrap();
    assert_eq!(ids, TOKENIZERS[0].encode("one text"));
}

#[test]
fn roles_kinds_and_spellings() {
    let markers = [
        "<|im_start|>",
        "<|im_end|>",
        "<think>",
        "</think>",
        "<tools>",
        "</tools>",
        "<tool_call>",
        "</tool_call>",
        "<tool_result>",
        "</tool_result>",
        "<context>",
        "</context>",
        "<extract>",
        "</extract>",
        "<schema>",
        "</schema>",
    ];
    for (case, count, pieces) in [(&CASES[0], 10, 8192), (&CASES[1], 16, 2048), (&CASES[2], 16, 2048)] {
        let tokenizer = case.model();
        assert_eq!(tokenizer.vocab_size(), pieces);
        let roles = [
            tokenizer.pad_id(),
            tokenizer.eos_id(),
            tokenizer.bos_id(),
            tokenizer.unk_id(),
        ];
        assert_eq!(roles, [0, 1, 2, 3]);
        for (id, marker) in (4..).zip(&markers[..count]) {
            assert_eq!(tokenizer.id(marker), Some(id));
            assert_eq!(tokenizer.piece(id), Some(*marker));
            assert_eq!(tokenizer.kind(id), Some(PieceKind::UserDefined));
        }
        assert_eq!(tokenizer.kind(tokenizer.id("<0x41>").unwrap()), Some(PieceKind::Byte));
        assert_eq!(tokenizer.kind(tokenizer.unk_id()), Some(PieceKind::Unknown));
        assert_eq!(tokenizer.kind(tokenizer.eos_id()), Some(PieceKind::Control));
        assert_eq!(tokenizer.kind(pieces as u32), None);
        assert_eq!(tokenizer.piece(u32::MAX), None);
        assert_eq!(tokenizer.id("no such piece"), None);
        assert_eq!(tokenizer.decode(&[u32::MAX]), " ⁇ ");

        let bytes = tokenizer.token_bytes();
        assert_eq!(bytes.len(), pieces);
        assert_eq!(bytes[tokenizer.id("<0xE9>").unwrap() as usize], [0xE9]);
        assert_eq!(bytes[tokenizer.id("▁").unwrap() as usize], b" ");
        assert_eq!(bytes[4], b"<|im_start|>");
        assert_eq!(bytes[tokenizer.eos_id() as usize], b"");
    }
}

#[test]
fn a_megabyte_takes_no_time_that_grows_with_its_square() {
    let tokenizer = CASES[0].model();
    let samples = lines("gen2/tokenizer/encode.jsonl");
    let mut mixed = String::new();
    for line in samples.iter().cycle() {
        if mixed.len() >= 1_000_000 {
            break;
        }
        mixed.push_str(line["text"].as_str().unwrap());
        mixed.push(' ');
    }
    let prose = "Please remind me to water the plants at eight in the evening. ".repeat(16_200);
    for text in [mixed, prose, "anana".repeat(200_000), "<".repeat(1_000_000)] {
        assert!(text.len() >= 1_000_000);
        // A tenth of a second by itself; merging by comparing all pairs would take hours.
        let start = Instant::now();
        assert!(!tokenizer.encode(&text).is_empty());
        let elapsed = start.elapsed();
        assert!(elapsed < Duration::from_secs(60), "{elapsed:?} for {:?}…", &text[..20]);
    }
}

/// A table as an archive stores it: flags, then pieces.
fn blob(add_dummy_prefix: u8, byte_fallback: u8, pieces: &[(&str, f32, u8)]) -> Vec<u8> {
    let mut blob = Vec::new();
    for number in [pieces.len() as u32, 0, 1, 2, 3] {
        blob.extend(number.to_le_bytes());
    }
    blob.extend([add_dummy_prefix, byte_fallback, 0, 0]);
    for (text, score, kind) in pieces {
        blob.extend(score.to_le_bytes());
        blob.push(*kind);
        blob.extend((text.len() as u16).to_le_bytes());
        blob.extend(text.as_bytes());
    }
    blob
}

const SPECIAL: [(&str, f32, u8); 4] = [("<pad>", 0.0, 2), ("</s>", 0.0, 2), ("<s>", 0.0, 2), ("<unk>", 0.0, 1)];

fn with(pieces: &[(&str, f32, u8)]) -> Vec<u8> {
    blob(0, 0, &[&SPECIAL, pieces].concat())
}

#[test]
fn a_piece_of_300_bytes() {
    let long = "x".repeat(300);
    let marker = "é".repeat(150);
    let mut pieces = vec![(long.as_str(), 0.0, 0), (marker.as_str(), 0.0, 3), ("a", -5.0, 0)];
    // The long piece is reached by one more letter at a time.
    let steps: Vec<String> = (1..300).map(|len| "x".repeat(len)).collect();
    pieces.extend(steps.iter().map(|step| (step.as_str(), -2.0, 0)));
    let tokenizer = Tokenizer::from_archive_blob(&with(&pieces)).unwrap();
    assert_eq!(tokenizer.encode(&format!("a{long}a{marker}a")), [6, 4, 6, 5, 6]);
    assert_eq!(tokenizer.token_bytes()[4].len(), 300);
    let again = Tokenizer::from_archive_blob(&tokenizer.to_archive_blob()).unwrap();
    assert_eq!(again.decode(&[6, 4, 6, 5, 6]), format!("a{long}a{marker}a"));
}

fn refusal(result: Result<Tokenizer, Error>) -> String {
    match result {
        Err(Error::Tokenizer(reason)) => reason,
        other => panic!("expected a tokenizer error, found {other:?}"),
    }
}

#[test]
fn a_blob_that_lies_is_refused_by_name() {
    let patched = |at: usize, byte: u8| {
        let mut blob = with(&[("a", 0.0, 0)]);
        blob[at] = byte;
        blob
    };
    let cases = [
        (patched(0, 9), "9 pieces are announced, at most 7 fit the table"),
        (
            patched(0, 6),
            "cut short at byte 77: the score of piece 5 needs 4 bytes, 0 are left",
        ),
        (patched(2, 9), "589829 pieces are announced"),
        (patched(0, 4), "8 bytes follow the last of 4 pieces"),
        (patched(4, 200), "pad id 200 is beyond the 5 pieces"),
        (patched(8, 4), "eos piece 4 (\"a\") should be Control, found Normal"),
        (patched(16, 0), "unk piece 0"),
        (patched(20, 2), "add_dummy_prefix should be 0 or 1, found 2"),
        (patched(21, 1), "piece <0x00> is missing"),
        (patched(22, 1), "reserved field should be 0, found 1"),
        (patched(28, 5), "piece 0 is of kind 5"),
        (with(&[("", 0.0, 0)]), "piece 4 is empty"),
        (with(&[("a", f32::NAN, 0)]), "piece 4 (\"a\") has the score NaN"),
        (
            with(&[("a", 0.0, 0), ("a", 0.0, 0)]),
            "pieces 4 and 5 are both spelt \"a\"",
        ),
        (with(&[("b", 0.0, 1)]), "2 pieces are the unknown piece"),
        (with(&[("<0x4a>", 0.0, 4)]), "byte piece 4 is spelt \"<0x4a>\""),
        (Vec::new(), "cut short at byte 0: the number of pieces needs 4 bytes"),
    ];
    for (blob, expected) in cases {
        let reason = refusal(Tokenizer::from_archive_blob(&blob));
        assert!(reason.contains(expected), "{reason:?} should tell of {expected:?}");
    }
    let mut not_utf8 = with(&[("a", 0.0, 0)]);
    *not_utf8.last_mut().unwrap() = 0xFF;
    assert!(refusal(Tokenizer::from_archive_blob(&not_utf8)).contains("piece 4 is not UTF-8"));
}

#[test]
fn a_blob_cut_anywhere_is_refused() {
    let whole = with(&[("a", -1.0, 0), ("▁a", -2.0, 0), ("<m>", 0.0, 3)]);
    assert!(Tokenizer::from_archive_blob(&whole).is_ok());
    for len in 0..whole.len() {
        refusal(Tokenizer::from_archive_blob(&whole[..len]));
    }
}

/// A protobuf field that holds bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    assert!(bytes.len() < 128 && number < 16);
    [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
}

/// A protobuf field that holds a small number.
fn number(number: u16, value: u8) -> Vec<u8> {
    let key = number << 3;
    if key < 128 {
        vec![key as u8, value]
    } else {
        vec![key as u8 | 0x80, (key >> 7) as u8, value]
    }
}

fn model_piece(text: &str, kind: u8) -> Vec<u8> {
    field(1, &[field(1, text.as_bytes()), number(3, kind)].concat())
}

#[test]
fn a_model_that_cannot_be_followed_is_refused_by_name() {
    let pieces = [
        model_piece("<pad>", 3),
        model_piece("</s>", 3),
        model_piece("<s>", 3),
        model_piece("<unk>", 2),
        model_piece("a", 1),
    ]
    .concat();
    let bpe = number(3, 2);
    let plain = number(4, 0);
    let model = |trainer: &[u8], normalizer: &[u8]| [&pieces[..], &field(2, trainer), &field(3, normalizer)].concat();
    let good = model(&bpe, &plain);
    let tokenizer = Tokenizer::from_sentencepiece(&good).unwrap();
    assert_eq!(tokenizer.encode("aa"), [3, 4, 4]);

    let charsmap = [field(1, b"nmt_nfkc"), field(2, b"rewrites")].concat();
    let surface = [&[0xE2, 0x02, 1][..], b"?"].concat();
    let cases = [
        (Vec::new(), "it has no pieces"),
        (model(&number(3, 1), &plain), "should be BPE, found unigram"),
        (model(&number(3, 4), &plain), "should be BPE, found char"),
        (model(&[], &plain), "should be BPE, found unigram"),
        (model(&bpe, &[]), "remove_extra_whitespaces is not supported"),
        (
            model(&bpe, &[plain.clone(), number(5, 0)].concat()),
            "escape_whitespaces = false",
        ),
        (
            model(&bpe, &[plain.clone(), charsmap].concat()),
            "the normalizer \"nmt_nfkc\" is not supported",
        ),
        (
            model(&[bpe.clone(), number(24, 1)].concat(), &plain),
            "treat_whitespace_as_suffix",
        ),
        (
            model(&[bpe.clone(), number(35, 1)].concat(), &plain),
            "piece <0x00> is missing",
        ),
        (
            model(&[bpe.clone(), surface].concat(), &plain),
            "unk_surface should be \" ⁇ \", found \"?\"",
        ),
        (
            [good.clone(), model_piece("b", 5)].concat(),
            "piece 5 (\"b\") is an unused piece",
        ),
        (
            [good.clone(), model_piece("b", 9)].concat(),
            "piece 5 (\"b\") is of the unknown kind 9",
        ),
        (
            [field(2, &bpe), model_piece("<unk>", 2), field(3, &plain)].concat(),
            "the model has no pad piece",
        ),
        ([good.clone(), vec![0x0B]].concat(), "wire type 3 in field 1"),
        ([good.clone(), vec![0x80; 11]].concat(), "longer than 64 bits"),
        (
            [good.clone(), vec![0x0A, 0x7F, 0]].concat(),
            "cut short: 127 bytes expected, 1 are left",
        ),
    ];
    for (model, expected) in cases {
        let reason = refusal(Tokenizer::from_sentencepiece(&model));
        assert!(reason.contains(expected), "{reason:?} should tell of {expected:?}");
    }
    for len in 0..good.len() {
        refusal(Tokenizer::from_sentencepiece(&good[..len]));
    }
    let reason = refusal(Tokenizer::from_sentencepiece(&read("gen2/cact/tok64_w4.cact")));
    assert!(reason.starts_with("not a SentencePiece model"), "{reason}");
}

proptest! {
    #[test]
    fn a_text_comes_back(text in ".{0,60}", spaces in "[ \t\n<a]{0,20}") {
        // `▁` is how a space is spelt, so it comes back as one.
        for text in [text.replace('▁', " "), spaces] {
            for tokenizer in &*TOKENIZERS {
                let ids = tokenizer.encode(&text);
                prop_assert_eq!(&tokenizer.decode(&ids), &text);
                let bytes = tokenizer.token_bytes();
                let joined = tokenizer.encode_continuation(&text).iter().flat_map(|&id| bytes[id as usize].clone()).collect();
                prop_assert_eq!(&String::from_utf8(joined).unwrap(), &text);
            }
        }
    }

    #[test]
    fn a_stream_gives_what_decoding_gives(
        words in prop::collection::vec(0u32..2100, 0..12),
        bytes in prop::collection::vec(0u32..300, 0..24),
    ) {
        for ids in [&words, &bytes] {
            for tokenizer in &TOKENIZERS[1..] {
                prop_assert_eq!(streamed(tokenizer, ids), tokenizer.decode(ids));
                prop_assert_eq!(tokenizer.decode(ids), literally(tokenizer, ids));
            }
        }
    }

    #[test]
    fn random_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0usize..90, byte: u8) {
        let _ = Tokenizer::from_archive_blob(&bytes);
        let _ = Tokenizer::from_sentencepiece(&bytes);
        bytes = with(&[("a", -1.0, 0), ("<m>", 0.0, 3)]);
        let at = at % bytes.len();
        bytes[at] = byte;
        let _ = Tokenizer::from_archive_blob(&bytes);
    }
}

/// Decoding by its definition: runs of byte pieces are read as UTF-8, one U+FFFD a byte that is not; the first other piece that
/// is not silent loses its leading space if nothing was written before it.
fn literally(tokenizer: &Tokenizer, ids: &[u32]) -> String {
    let bytes = tokenizer.token_bytes();
    let has_prefix = tokenizer.encode("a") != tokenizer.encode_continuation("a");
    let (mut text, mut at, mut first) = (String::new(), 0, has_prefix);
    while at < ids.len() {
        let is_byte = |id: &u32| tokenizer.kind(*id) == Some(PieceKind::Byte);
        let run: Vec<u8> = ids[at..]
            .iter()
            .take_while(|id| is_byte(id))
            .map(|&id| bytes[id as usize][0])
            .collect();
        if !run.is_empty() {
            for chunk in run.utf8_chunks() {
                text += chunk.valid();
                text += &"\u{FFFD}".repeat(chunk.invalid().len());
            }
            (at, first) = (at + run.len(), false);
            continue;
        }
        let piece = tokenizer.piece(ids[at]).unwrap_or("<unk>");
        match tokenizer.kind(ids[at]) {
            Some(PieceKind::Control) => {}
            None | Some(PieceKind::Unknown) => (text, first) = (text + " ⁇ ", false),
            Some(_) => {
                text += &piece
                    .strip_prefix('▁')
                    .filter(|_| first)
                    .unwrap_or(piece)
                    .replace('▁', " ");
                first = false;
            }
        }
        at += 1;
    }
    text
}
