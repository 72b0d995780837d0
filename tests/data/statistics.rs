//! Counts over a set, and rows that are too long.

use needle_core::{
    Checkpoint,
    data::{Dataset, Spread},
};

use super::read;

#[test]
fn percentiles_are_values_that_occur() {
    let spread = Spread::of((1..=200).rev().collect());
    assert_eq!(
        (spread.min, spread.p50, spread.p90, spread.p95, spread.p99, spread.max),
        (1, 100, 180, 190, 198, 200)
    );
    assert_eq!(spread.mean, 100.5);
    assert_eq!(Spread::of(vec![7]).p99, 7);
    assert_eq!(Spread::of(Vec::new()), Spread::default());
}

#[test]
fn kinds_tools_and_tokens_are_counted() {
    let data = read(
        r#"{"query":"a b","tools":[{"name":"ping"},{"name":"pong"}],"answers":[{"name":"pong"}],"reasoning":"r","system":"s"}
{"query":"c","tools":[{"name":"ping"}],"answers":[],"category":"chat"}
{"query":"d","tools":[{"name":"ping"}],"answers":[{"name":"ping"},{"name":"ping"}]}
{"query":"d","tools":[{"name":"ping"}],"answers":[{"name":"ping"},{"name":"ping"}]}
nothing"#,
    );
    let tokenizer = Checkpoint::demo().unwrap().tokenizer().unwrap();
    let counts = data.statistics(Some(&tokenizer));
    assert_eq!(
        (counts.rows, counts.rejected, counts.duplicates, counts.warned),
        (4, 1, 1, 0)
    );
    assert_eq!(
        (
            counts.refusals,
            counts.parallel,
            counts.with_reasoning,
            counts.with_system
        ),
        (1, 2, 1, 1)
    );
    let categories: Vec<_> = counts
        .categories
        .iter()
        .map(|(name, rows)| (name.as_str(), *rows))
        .collect();
    assert_eq!(categories, [("chat", 1), ("parallel", 2), ("single", 1)]);
    let tools: Vec<_> = counts
        .tools
        .iter()
        .map(|tool| (tool.name.as_str(), tool.offered, tool.called))
        .collect();
    assert_eq!(tools, [("ping", 4, 4), ("pong", 1, 1)]);
    let tokens = counts.tokens.unwrap();
    let lengths: Vec<usize> = data.rows.iter().map(|row| row.encode(&tokenizer).len()).collect();
    assert_eq!(tokens.sum, lengths.iter().sum::<usize>());
    assert_eq!(tokens.total.max, *lengths.iter().max().unwrap());
}

#[test]
fn rows_that_are_too_long_are_named_with_what_is_cut() {
    let data = read(&super::rows(3));
    let tokenizer = Checkpoint::demo().unwrap().tokenizer().unwrap();
    let (encoded, all) = (data.rows[1].encode(&tokenizer), data.rows.len());
    assert_eq!(data.overlong(&tokenizer, encoded.len()), []);
    let found = data.overlong(&tokenizer, encoded.len() - 3);
    assert_eq!(
        (found.len(), found[1].line, found[1].tokens, found[1].target_cut),
        (all, 2, encoded.len(), 3)
    );
    assert_eq!(data.overlong(&tokenizer, 1)[0].target_cut, encoded.target.len());
}

/// A22: the sample of this repository is sound, and small enough for the demo model.
#[test]
fn the_sample_is_sound() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/finetune.jsonl");
    let data = Dataset::open(path.as_ref()).unwrap();
    assert_eq!(
        (
            data.rejected.as_slice(),
            data.warnings.as_slice(),
            data.duplicates.as_slice()
        ),
        (&[][..], &[][..], &[][..])
    );
    let tokenizer = Checkpoint::demo().unwrap().tokenizer().unwrap();
    let counts = data.statistics(Some(&tokenizer));
    assert!(counts.rows >= 200 && counts.refusals >= 20, "{counts:?}");
    assert_eq!(counts.tools.len(), 6);
    assert!(counts.tokens.as_ref().unwrap().prompt.max < 160, "{counts:?}");
    let tools = needle_core::ToolSet::parse(include_str!("../../examples/boathouse.json")).unwrap();
    for row in &data.rows {
        for tool in row.tools.as_ref().unwrap().tools() {
            assert_eq!(tools.find(tool.name()).unwrap().to_json(), tool.to_json());
        }
    }
}
