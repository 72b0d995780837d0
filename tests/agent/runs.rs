//! Runs: handlers are called, their results and errors go back to the model.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use needle_core::{Flow, Needle, RunOptions, Tool};
use serde_json::{Value, json};

use super::{demo, home, thermostat};

/// A37: a registered closure is executed, once.
#[test]
fn a_handler_runs_once_and_its_result_is_returned() {
    let count = Arc::new(AtomicUsize::new(0));
    let seen = count.clone();
    let tool = thermostat().handler(move |args| {
        seen.fetch_add(1, Ordering::SeqCst);
        Ok(json!({ "now": args["temperature"] }))
    });
    let mut agent = Needle::builder().engine(demo()).tool(tool).build().unwrap();
    let response = agent.run("make it 21 in here").unwrap();
    assert_eq!(response.results.first(), Some(&json!({ "now": 21 })));
    assert_eq!(response.results.len(), response.function_calls.len());
    assert_eq!(count.load(Ordering::SeqCst), response.results.len());
}

#[test]
fn a_handlers_error_and_a_missing_handler_become_results() {
    let failing = thermostat().handler(|_| Err("the boiler is off".into()));
    let mut agent = Needle::builder().engine(demo()).tool(failing).build().unwrap();
    let options = RunOptions {
        max_steps: 1,
        ..RunOptions::default()
    };
    let response = agent
        .run_with("make it 21 in here", options, |_| Flow::Continue)
        .unwrap();
    assert_eq!(response.results, [json!({ "error": "the boiler is off" })]);

    let mut agent = Needle::builder().engine(demo()).tool(thermostat()).build().unwrap();
    let response = agent
        .run_with("make it 21 in here", options, |_| Flow::Continue)
        .unwrap();
    assert_eq!(
        response.results,
        [json!({ "error": "tool set_thermostat has no handler" })]
    );
}

#[test]
fn a_run_ends() {
    let mut agent = home().build().unwrap();
    for query in ["dim the kitchen to 30", "make it 21 in here", "tell me a joke"] {
        let response = agent.run(query).unwrap();
        assert!(
            response.function_calls.len() <= 16,
            "{query}: {} calls",
            response.function_calls.len()
        );
        agent.reset();
    }
}

#[test]
fn typed_handlers_get_their_arguments() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Target {
        /// The temperature.
        temperature: i64,
    }
    let tool = Tool::typed(
        "set_thermostat",
        "Set the thermostat to a temperature.",
        |target: Target| Ok::<Value, std::convert::Infallible>(json!(target.temperature + 1)),
    );
    let mut agent = Needle::builder().engine(demo()).tool(tool).build().unwrap();
    let response = agent.run("make it 21 in here").unwrap();
    assert_eq!(response.results.first(), Some(&json!(22)));
}
