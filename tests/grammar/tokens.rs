//! Tokens of unusual shape: single bytes of a character, and very long ones.

use needle_core::ToolSet;
use needle_core::grammar::{Grammar, GrammarOptions, Markers, Token, TokenKind, Vocabulary};

use super::{compile, follow, vocabulary};

/// Characters are never cut in half: after the first byte of one only its other bytes may come.
#[test]
fn reasoning_stays_text() {
    let grammar = compile(&ToolSet::parse(r#"[{"name":"ping"}]"#).unwrap()).unwrap();
    let mut matcher = grammar.matcher();
    matcher.accept(258).unwrap();
    for byte in "é日😀".bytes() {
        assert!(!matcher.mask().unwrap().is_allowed(0xFF));
        let inside = !(0x80..0xC0).contains(&byte);
        assert_eq!(matcher.mask().unwrap().is_allowed(259), inside, "{byte:x}");
        assert_eq!(matcher.mask().unwrap().is_allowed(u32::from(b'a')), inside, "{byte:x}");
        matcher.accept(u32::from(byte)).unwrap();
    }
    matcher.accept(259).unwrap();
}

/// A49: a token of 300 bytes is neither refused wrongly nor does it upset the walk.
#[test]
fn a_very_long_token() {
    let long = "x".repeat(300);
    let vocabulary = vocabulary::with_extra(vec![
        long.clone().into_bytes(),
        format!("\"{}", "y".repeat(299)).into_bytes(),
    ]);
    let tools = ToolSet::parse(r#"[{"name":"t","parameters":{"type":"object","properties":{"x":{"type":"string"},"y":{"type":"string","maxLength":299}},"required":["x"]}}]"#).unwrap();
    let grammar = Grammar::compile(&tools, &vocabulary, &GrammarOptions::default()).unwrap();
    let mut matcher = grammar.matcher();
    let bytes = |text: &str| text.bytes().map(u32::from).collect::<Vec<_>>();
    let (first, second) = (vocabulary.len() as u32 - 2, vocabulary.len() as u32 - 1);
    let mut ids = vec![256];
    ids.extend(bytes(r#"[{"name":"t","arguments":{"x":""#));
    ids.push(first);
    ids.push(first);
    ids.extend(bytes(r#"","y":"#));
    assert_eq!(follow(&mut matcher, &ids), None);
    assert!(matcher.mask().unwrap().is_allowed(second));
    assert!(!matcher.mask().unwrap().is_allowed(first));
    matcher.accept(second).unwrap();
    assert!(!matcher.mask().unwrap().is_allowed(first));
    assert_eq!(follow(&mut matcher, &bytes(r#""}}]"#)), None);
    assert!(
        Vocabulary::new(
            vec![Token {
                bytes: vec![b'a'; 1025],
                kind: TokenKind::Normal
            }],
            Markers {
                think: None,
                tool_call: (0, 0),
                im_end: None,
                eos: 0
            },
        )
        .is_err()
    );
    let longest = vocabulary::with_extra(vec![vec![b'a'; 1024]]);
    let grammar = Grammar::compile(&tools, &longest, &GrammarOptions::default()).unwrap();
    let mut matcher = grammar.matcher();
    let mut ids = vec![256];
    ids.extend(bytes(r#"[{"name":"t","arguments":{"x":""#));
    ids.push(longest.len() as u32 - 1);
    assert_eq!(follow(&mut matcher, &ids), None);
}

/// No object gets a key twice, not even by a token that holds both.
#[test]
fn tokens_that_repeat_a_key() {
    let twice = br#""a":1,"a""#.to_vec();
    let again = br#"a":"#.to_vec();
    let vocabulary = vocabulary::with_extra(vec![twice, again]);
    let (twice, again) = (vocabulary.len() as u32 - 2, vocabulary.len() as u32 - 1);
    let tools = ToolSet::parse(r#"[{"name":"t","parameters":{"type":"object","properties":{"x":{"type":"object"}}}}]"#)
        .unwrap();
    let grammar = Grammar::compile(&tools, &vocabulary, &GrammarOptions::default()).unwrap();
    let mut matcher = grammar.matcher();
    let bytes = |text: &str| text.bytes().map(u32::from).collect::<Vec<_>>();
    let mut ids = vec![256];
    ids.extend(bytes(r#"[{"name":"t","arguments":{"x":{"#));
    assert_eq!(follow(&mut matcher, &ids), None);
    assert!(!matcher.mask().unwrap().is_allowed(twice));
    assert_eq!(follow(&mut matcher, &bytes("\"")), None);
    assert!(matcher.mask().unwrap().is_allowed(again));
    assert_eq!(follow(&mut matcher, &bytes(r#"a":{"a":2},""#)), None);
    assert!(!matcher.mask().unwrap().is_allowed(again));
    assert!(matcher.accept(again).is_err());
    assert_eq!(follow(&mut matcher, &bytes(r#"b":3}}}]"#)), None);
}
