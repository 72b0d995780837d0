//! Agents do not disturb each other.

use std::thread;

use needle_core::Needle;

use super::{demo, home, random, thermostat, weather};

const QUERIES: [&str; 4] = [
    "dim the kitchen to 30",
    "make it 21 in here",
    "set a timer for 12 minutes",
    "tell me a joke",
];

/// A1: the earlier agent answered with the later one's tools.
#[test]
fn an_agent_keeps_its_own_tools() {
    let mut first = Needle::builder().engine(demo()).tool(thermostat()).build().unwrap();
    let mut second = Needle::builder().engine(demo()).tool(weather()).build().unwrap();
    let before = first.complete("make it 21 in here").unwrap().function_calls;
    assert_eq!(
        second.complete("what's the weather in Lagos").unwrap().function_calls[0].name,
        "get_weather"
    );
    first.reset();
    assert_eq!(first.complete("make it 21 in here").unwrap().function_calls, before);
    assert_eq!(before[0].name, "set_thermostat");
}

/// A2: base weights answered as tuned ones after those were loaded.
#[test]
fn another_model_in_the_process_changes_nothing() {
    let ask = || home().build().unwrap().complete(QUERIES[0]).unwrap().function_calls;
    let before = ask();
    Needle::builder()
        .engine(random())
        .tool(weather())
        .max_new_tokens(20)
        .build()
        .unwrap()
        .complete("hello")
        .unwrap();
    assert_eq!(ask(), before);
}

/// A25: 24 threads of 20 queries on one model equal the serial answers.
#[test]
fn many_threads_share_one_model() {
    let mut serial = home().stateless().build().unwrap();
    let expected: Vec<_> = QUERIES
        .iter()
        .map(|query| serial.complete(query).unwrap().function_calls)
        .collect();
    thread::scope(|scope| {
        for offset in 0..24 {
            let expected = &expected;
            scope.spawn(move || {
                let mut agent = home().stateless().build().unwrap();
                for turn in 0..20 {
                    let at = (offset + turn) % QUERIES.len();
                    assert_eq!(agent.complete(QUERIES[at]).unwrap().function_calls, expected[at]);
                }
            });
        }
    });
}
