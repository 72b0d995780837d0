//! Confidence and retrieval, on a random model that has both heads: the numbers mean nothing, their handling does.

use needle_core::{Needle, Tool, ToolIndex, ToolSet, retrieval};

use super::{demo, random, weather};

fn tools(count: usize) -> ToolSet {
    ToolSet::new(
        (0..count).map(|i| Tool::new(format!("tool_{i}"), format!("Does thing number {i}.")).string("place", "")),
    )
    .unwrap()
}

#[test]
fn confidence_is_a_probability_and_withholds_weak_calls() {
    let ask = |least: f32| {
        let builder = Needle::builder()
            .engine(random())
            .tool(weather())
            .max_new_tokens(120)
            .min_confidence(least);
        builder.build().unwrap().complete("weather in Lagos").unwrap()
    };
    let error = Needle::builder()
        .engine(demo())
        .tool(weather())
        .min_confidence(0.5)
        .build()
        .unwrap_err()
        .to_string();
    assert!(error.contains("no confidence head"), "{error}");
    let open = ask(0.0);
    if let Some(confidence) = open.confidence {
        assert!((0.0..=1.0).contains(&confidence));
        let strict = ask(1.0);
        assert!(strict.function_calls.is_empty());
        assert_eq!(strict.suppressed_calls, open.function_calls);
    }
    assert_eq!(open.confidence.is_some(), open.success);
}

/// A24: of 60 tools the one that the query names is offered.
#[test]
fn a_named_tool_is_always_offered() {
    let mut agent = Needle::builder()
        .engine(random())
        .tools(&tools(60))
        .max_new_tokens(1)
        .build()
        .unwrap();
    let offered = agent.complete("use tool_37 on Lagos").unwrap().offered_tools.unwrap();
    assert_eq!(offered.len(), 5);
    assert!(offered.contains(&"tool_37".to_owned()), "{offered:?}");
}

#[test]
fn an_index_embeds_only_what_changed() {
    let folder = std::env::temp_dir().join(format!("needle-index-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("tools.json");
    let build = |set: &ToolSet| ToolIndex::build(random(), set, Some(&file)).unwrap();
    assert_eq!(build(&tools(6)).embedded(), 6);
    assert_eq!(build(&tools(6)).embedded(), 0);
    assert_eq!(build(&tools(8)).embedded(), 2);
    assert_eq!(ToolIndex::build(random(), &tools(6), None).unwrap().embedded(), 6);
    let ranked = build(&tools(8)).rank(random(), "thing number 3").unwrap();
    assert_eq!(ranked.len(), 8);
    assert!(ranked.iter().all(|tool| (-1.001..=1.001).contains(&tool.similarity)));
    std::fs::write(&file, "{").unwrap();
    let error = ToolIndex::build(random(), &tools(6), Some(&file))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("tools.json") && error.contains("not a tool index"),
        "{error}"
    );
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_model_without_a_head_says_so() {
    let error = retrieval::embed(demo(), "hello").unwrap_err().to_string();
    assert!(error.contains("no contrastive head"), "{error}");
    let mut agent = Needle::builder()
        .engine(demo())
        .tools(&tools(6))
        .max_new_tokens(1)
        .build()
        .unwrap();
    let warnings = agent.complete("use tool_3").unwrap().warnings;
    assert!(
        warnings.iter().any(|warning| warning.contains("all 6 tools")),
        "{warnings:?}"
    );
}

#[test]
fn vectors_have_unit_length() {
    let vector = retrieval::embed(random(), "what's the weather").unwrap();
    assert!((vector.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-4);
}
