//! One line at a time: every form that is read, and the reason for every one that is not.

use needle_core::{Tokenizer, data::Caution};
use serde_json::{Value, json};

use super::read;
use crate::golden;

const TOOL: &str = r#"{"name":"set_lamp","description":"Switch a lamp.","parameters":{"type":"object","properties":{"room":{"type":"string"},"level":{"type":"integer","maximum":100}},"required":["room"]}}"#;
const CALL: &str = r#"[{"name":"set_lamp","arguments":{"room":"hall","level":7}}]"#;

fn text(json: &str) -> String {
    Value::from(json).to_string()
}

/// A10: tools and answers given as texts, wrapped, in OpenAI's form or with spaces are the same tokens as lists.
#[test]
fn all_spellings_of_a_row_are_the_same_tokens() {
    let spaced = TOOL.replace(':', " : ").replace(',', " , ");
    let lines = [
        format!(r#"{{"query":"hall to 7","tools":[{TOOL}],"answers":{CALL}}}"#),
        format!(r#"{{"query":"hall to 7","tools":{},"answers":{}}}"#, text(&format!("[{spaced}]")), text(CALL)),
        format!(r#"{{"query":"hall to 7","tools":{TOOL},"function_calls":{CALL}}}"#),
        format!(r#"{{"query":"hall to 7","tools":[{{"type":"function","function":{TOOL}}}],"answers":{CALL}}}"#),
        r#"{"query":"hall to 7","tools":[TOOL],"answers":{"arguments":"{\"room\": \"hall\", \"level\": 7}","name":"set_lamp","id":"c1"}}"#
            .replace("TOOL", TOOL),
        r#"{"messages":[{"role":"user","content":"hall to 7"},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"set_lamp","arguments":"{\"room\":\"hall\",\"level\":7}"}}]}],"tools":[{"type":"function","function":TOOL}]}"#
            .replace("TOOL", TOOL),
    ];
    let data = read(&lines.join("\n"));
    assert_eq!(
        (data.rows.len(), data.rejected.len(), data.warnings.len()),
        (6, 0, 0),
        "{data:?}"
    );
    let tokenizer = std::fs::read(golden::path("gen2/tokenizer.model")).unwrap();
    let tokenizer = Tokenizer::from_sentencepiece(&tokenizer).unwrap();
    let first = data.rows[0].encode(&tokenizer);
    assert_eq!(
        tokenizer.decode(&first.target[..first.target.len() - 1]),
        format!("<tool_call>{CALL}</tool_call><|im_end|>")
    );
    for row in &data.rows {
        assert_eq!(row.encode(&tokenizer), first, "line {}", row.line);
    }
    assert_eq!(data.duplicates.len(), 5);
}

/// Rows are what the reference trains on, wherever it is given lists.
#[test]
fn rows_are_the_references_where_it_is_given_lists() {
    for generation in [2, 3] {
        let folder = format!("gen{generation}/training");
        let bytes = std::fs::read(golden::path(&format!("gen{generation}/tokenizer.model"))).unwrap();
        let tokenizer = Tokenizer::from_sentencepiece(&bytes).unwrap();
        let examples = std::fs::read_to_string(golden::path(&format!("{folder}/examples.jsonl"))).unwrap();
        let rendered = std::fs::read_to_string(golden::path(&format!("{folder}/rendered.jsonl"))).unwrap();
        let rendered: Vec<Value> = rendered
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let mut equal = 0;
        for row in read(&examples).rows {
            let expected = &rendered[row.line - 1];
            assert_eq!(expected["used"], true);
            let prompt = row.example.prompt().text == expected["prompt"].as_str().unwrap();
            let target = row.example.target() == expected["target"].as_str().unwrap();
            if prompt && target {
                let encoded = row.encode(&tokenizer);
                assert_eq!(json!(encoded.prompt[1..]), expected["prompt_ids"]);
                assert_eq!(
                    json!(encoded.target[..encoded.target.len() - 1]),
                    expected["target_ids"]
                );
                assert_eq!(encoded.prompt[0], tokenizer.bos_id());
                assert_eq!(encoded.target.last(), Some(&tokenizer.eos_id()));
                equal += 1;
            }
        }
        // The others have tools or answers as texts with spaces, null for a list, keys in another order, or keys of their own.
        assert!(equal >= 20, "{equal}");
    }
}

#[test]
fn a_line_that_cannot_be_used_is_named_with_its_reason() {
    let cases: &[(&str, &str)] = &[
        ("{", "not JSON"),
        ("[", "is the file one list?"),
        ("7", "the line should be an object, found a number"),
        ("{\"text\":\"x\"}", "there is neither \"query\" nor \"messages\""),
        (r#"{"query":5}"#, "query should be a text, found a number"),
        (
            r#"{"query":"x","tools":"[{\"name\":"}"#,
            "tools is a text that is not JSON",
        ),
        (r#"{"query":"x","tools":"7"}"#, "tools should be a list, found a number"),
        (r#"{"query":"x","answers":"[{]"}"#, "answers is a text that is not JSON"),
        (
            r#"{"query":"x","answers":5}"#,
            "answers: expected a list of calls, found a number",
        ),
        (
            r#"{"query":"x","answers":[5]}"#,
            "answers: call 1: expected an object, found a number",
        ),
        (
            r#"{"query":"x","answers":[{"arguments":{}}]}"#,
            "answers: call 1: \"name\" is missing",
        ),
        (
            r#"{"query":"x","answers":[{"name":""}]}"#,
            "answers: call 1: the name is empty",
        ),
        (
            r#"{"query":"x","answers":[{"name":"a"},{"name":"b","arguments":"{"}]}"#,
            "answers: call 2 of b: the arguments are not JSON",
        ),
        (
            r#"{"query":"x","answers":[{"name":"a","arguments":[1]}]}"#,
            "call 1 of a: expected an object of arguments, found a list",
        ),
        (
            r#"{"query":"x","category":1}"#,
            "category should be a text, found a number",
        ),
        (r#"{"messages":{}}"#, "messages should be a list, found an object"),
        (
            r#"{"messages":[{"role":"user"},{"role":"assistant"},{"role":"tool"},{"role":"assistant"}]}"#,
            "one user and one assistant turn, found user, assistant, tool, assistant",
        ),
    ];
    let lines: Vec<&str> = cases.iter().map(|(line, _)| *line).collect();
    let data = read(&lines.join("\n"));
    assert_eq!((data.rows.len(), data.rejected.len()), (0, cases.len()));
    for (at, (found, (line, reason))) in data.rejected.iter().zip(cases).enumerate() {
        assert_eq!(found.line, at + 1);
        assert!(found.reason.contains(reason), "{line}: {}", found.reason);
    }
    let error = data.expect_rows().unwrap_err().to_string();
    assert!(
        error.contains("no usable examples in test: 17 of 17 lines rejected; line 1: not JSON"),
        "{error}"
    );
}

#[test]
fn what_is_odd_is_a_warning_and_the_row_stays() {
    let offered = |answers: &str| {
        format!(
            r#"{{"query":"{}","tools":[{TOOL}],"answers":{answers}}}"#,
            answers.len()
        )
    };
    let lines = [
        offered(r#"[{"name":"set_lamp","arguments":{"room":"hall","level":101}}]"#),
        offered(r#"[{"name":"set_lamp","arguments":{"level":1}}]"#),
        offered(r#"[{"name":"paint","arguments":{}}]"#),
        offered(r#"[{"name":"set_lamp","arguments":{"level":1,"room":"hall"}}]"#),
        r#"{"query":"x","tools":[{"name":"a","parameters":{"type":"object","properties":{"k":{"enum":[]}}}}],"answers":[]}"#
            .into(),
        r#"{"query":" ","tools":[],"answers":[]}"#.into(),
        r#"{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}]}"#.into(),
        r#"{"query":"same","answers":[{"name":"a"}]}"#.into(),
        r#"{"query":"Same?","answers":[]}"#.into(),
    ];
    let data = read(&lines.join("\n"));
    assert_eq!((data.rows.len(), data.rejected.len()), (9, 0));
    let kinds: Vec<(usize, &str)> = data
        .warnings
        .iter()
        .map(|found| (found.line, found.caution.kind()))
        .collect();
    let expected = [
        (1, "answer"),
        (2, "answer"),
        (3, "answer"),
        (4, "order"),
        (5, "tools"),
        (6, "empty_query"),
        (7, "words"),
        (8, "answer"),
        (9, "contradiction"),
    ];
    assert_eq!(kinds, expected, "{:?}", data.warnings);
    assert_eq!(data.warnings[8].caution, Caution::Contradiction { line: 8 });
    assert!(
        data.warnings[0].to_string().contains("set_lamp: level"),
        "{}",
        data.warnings[0]
    );
    assert!(data.rows[4].tools.is_none());
}

#[test]
fn equal_rows_are_found_whatever_their_capitals_and_spaces() {
    let data = read(
        r#"{"query":"ping the hub","tools":[{"name":"ping"}],"answers":[{"name":"ping"}]}
{"query":"  Ping  the hub. ","tools":"[{\"name\":  \"ping\"}]","answers":[{"name":"ping","arguments":"{}"}]}
{"query":"ping the hub","tools":[{"name":"pong"}],"answers":[]}"#,
    );
    let found: Vec<(usize, usize)> = data.duplicates.iter().map(|found| (found.line, found.first)).collect();
    assert_eq!(found, [(2, 1)]);
}

#[test]
fn a_row_written_out_reads_back_the_same() {
    let examples = std::fs::read_to_string(golden::path("gen3/training/examples.jsonl")).unwrap();
    let data = read(&examples);
    let lines: Vec<String> = data.rows.iter().map(|row| row.to_line()).collect();
    let again = read(&lines.join("\n"));
    assert_eq!(again.rejected, []);
    for (row, again) in data.rows.iter().zip(&again.rows) {
        assert_eq!(row.example, again.example);
        assert_eq!((&row.category, &row.calls), (&again.category, &again.calls));
    }
}
