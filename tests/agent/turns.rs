//! Single turns and conversations.

use needle_core::{Error, Flow, Needle, ResponseType, StopReason};
use serde_json::json;

use super::{demo, home, timer};

#[test]
fn a_call_is_complete_and_valid() {
    let response = home().build().unwrap().complete("dim the kitchen to 30").unwrap();
    assert_eq!(
        (response.kind, response.success, response.stop_reason),
        (ResponseType::Call, true, StopReason::End)
    );
    assert_eq!(response.function_calls[0].name, "set_lights");
    assert_eq!(
        response.function_calls[0].arguments,
        json!({ "room": "kitchen", "brightness": 30 })
    );
    assert_eq!(response.confidence, None, "the demo has no confidence head");
    assert_eq!((response.device.as_str(), response.dtype.as_str()), ("cpu", "f32"));
}

#[test]
fn a_refusal_is_an_empty_list() {
    let response = home().build().unwrap().complete("tell me a joke").unwrap();
    assert_eq!((response.kind, response.success), (ResponseType::Refuse, true));
    assert!(response.function_calls.is_empty());
}

#[test]
fn the_envelope_reads_back_what_it_wrote() {
    let response = home().build().unwrap().complete("set a timer for 12 minutes").unwrap();
    let text = serde_json::to_string(&response).unwrap();
    assert_eq!(serde_json::from_str::<needle_core::Response>(&text).unwrap(), response);
    for key in [
        "type",
        "success",
        "error",
        "error_code",
        "function_calls",
        "suppressed_calls",
        "reasoning",
        "confidence",
    ] {
        assert!(text.contains(&format!("\"{key}\":")), "{key} in {text}");
    }
}

#[test]
fn reset_forgets_and_stateless_never_remembers() {
    let fresh = |query: &str| home().build().unwrap().complete(query).unwrap().function_calls;
    let queries = [
        "dim the kitchen to 30",
        "make it 21 in here",
        "set a timer for 12 minutes",
        "tell me a joke",
    ];
    let mut stateless = home().stateless().build().unwrap();
    let mut reset = home().build().unwrap();
    for round in 0..5 {
        for query in queries {
            let response = stateless.complete(query).unwrap();
            assert_eq!(response.function_calls, fresh(query), "round {round}: {query}");
            assert!(response.warnings.is_empty());
            assert_eq!(reset.complete(query).unwrap().function_calls, fresh(query));
            reset.reset();
        }
    }
}

/// A16: unrelated queries pile up silently.
#[test]
fn the_fifth_query_of_a_conversation_warns() {
    let mut agent = home().build().unwrap();
    for turn in 1..=6 {
        let response = agent.complete("make it 21 in here").unwrap();
        assert_eq!(
            response.warnings.len(),
            usize::from(turn >= 5),
            "turn {turn}: {:?}",
            response.warnings
        );
    }
}

#[test]
fn a_long_conversation_stays_within_its_window() {
    let mut agent = home().build().unwrap();
    for turn in 0..60 {
        let response = agent.complete("dim the kitchen to 30").unwrap();
        assert!(response.success, "turn {turn}: {:?}", response.error);
        assert!(
            turn == 0 || response.prompt_tokens < 60,
            "turn {turn} read {} tokens",
            response.prompt_tokens
        );
    }
}

/// A23: a prompt past the window is refused, never cut.
#[test]
fn a_prompt_that_does_not_fit_is_an_error_with_both_numbers() {
    let mut agent = home().build().unwrap();
    let query = format!("{} weather in Lagos?", "word ".repeat(4000));
    match agent.complete(&query) {
        Err(Error::PromptTooLong { tokens, limit: 511 }) => assert!(tokens > 4000),
        other => panic!("{other:?}"),
    }
    assert_eq!(
        agent.complete("make it 21 in here").unwrap().function_calls.len(),
        1,
        "the agent goes on"
    );
}

#[test]
fn a_stream_shows_the_whole_completion_and_may_stop_it() {
    let mut agent = home().build().unwrap();
    let mut text = String::new();
    let response = agent.complete_streaming("make it 21 in here", |piece| {
        text += piece;
        Flow::Continue
    });
    assert!(response.unwrap().success);
    assert_eq!(
        text,
        r#"<tool_call>[{"name":"set_thermostat","arguments":{"temperature":21}}]</tool_call>"#
    );
    let stopped = agent.complete_streaming("make it 21 in here", |_| Flow::Stop).unwrap();
    assert_eq!((stopped.success, stopped.stop_reason), (false, StopReason::Caller));
    assert!(stopped.function_calls.is_empty());
}

#[test]
fn free_form_calls_are_checked_afterwards() {
    let mut agent = home().free_form().build().unwrap();
    let response = agent.complete("make it 21 in here").unwrap();
    for call in response.function_calls.iter() {
        agent.tools().check_call(call).unwrap();
    }
}

#[test]
fn the_date_fact_is_put_in_front_and_stays_for_the_conversation() {
    let mut dated = Needle::builder()
        .engine(demo())
        .tool(timer())
        .system("location: Lagos")
        .auto_date()
        .build()
        .unwrap();
    let mut plain = Needle::builder()
        .engine(demo())
        .tool(timer())
        .system("location: Lagos")
        .build()
        .unwrap();
    let (first, bare) = (
        dated.complete("12 minutes").unwrap(),
        plain.complete("12 minutes").unwrap(),
    );
    assert_eq!(first.success, bare.success);
    assert!(
        dated.complete("5 minutes").unwrap().prompt_tokens < 40,
        "the beginning was read once"
    );
}

#[test]
fn impossible_settings_are_refused() {
    for (builder, word) in [
        (home().min_confidence(1.5), "min_confidence"),
        (home().top_tools(0), "top_tools"),
        (Needle::builder().tool(timer()), "no weights"),
    ] {
        let error = builder.build().unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
}

/// A second turn equals one whole pass over the same tokens: nothing is lost or fed twice between turns.
#[test]
fn a_conversation_is_the_plain_sequence_of_its_tokens() {
    use needle_core::{Constraint, DecodeOptions, Window, generate_within, grammar, prompt};
    let engine = demo();
    let (tokenizer, mut agent) = (engine.tokenizer(), home().build().unwrap());
    let tools = needle_core::compact_json(&agent.tools().to_json());
    let queries = [
        "make it 21 in here",
        "dim the kitchen to 30",
        "set a timer for 12 minutes",
    ];

    let set = agent.tools().clone();
    let grammar = grammar::Grammar::compile(&set, engine.vocabulary().unwrap(), &Default::default()).unwrap();
    let encode = |text: &str| tokenizer.encode_continuation(text);
    let end_of_turn = tokenizer.id(prompt::IM_END).unwrap();
    let mut sequence = Vec::new();
    for (turn, query) in queries.iter().enumerate() {
        let mut found = String::new();
        agent
            .complete_streaming(query, |text| {
                found += text;
                Flow::Continue
            })
            .unwrap();
        let first = prompt::Prompt {
            system: None,
            tools: &tools,
            query,
        };
        sequence.extend(match turn {
            0 => first.render().encode(tokenizer).ids,
            _ => prompt::Turn::User(query).encode(tokenizer),
        });
        let mut session = engine.runner().session(Window { size: 512, sinks: 0 }).unwrap();
        let mut matcher = grammar.matcher();
        let constraint = Constraint {
            matcher: &mut matcher,
            encode: &encode,
        };
        let options = DecodeOptions::until(&engine.end_ids());
        let whole = generate_within(&mut session, &sequence, &options, constraint, |_| Flow::Continue).unwrap();
        assert_eq!(found, tokenizer.decode(&whole.ids), "turn {turn}");
        sequence.extend(whole.ids);
        sequence.push(end_of_turn);
    }
}
