//! Agents on the demo model, and on a random model that has heads: turns, runs, isolation, budgets, retrieval, extraction.
//!
//! Names such as A13 point to the users' reports that the tests grew out of.

mod budgets;
mod extraction;
mod heads;
mod isolation;
mod runs;
mod turns;

use std::sync::{Arc, OnceLock};

use needle_core::{DeviceSpec, Engine, Needle, NeedleBuilder, Tool};

use crate::golden;

/// The demo model, opened once for all tests.
fn demo() -> &'static Arc<Engine> {
    static ENGINE: OnceLock<Arc<Engine>> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::demo(DeviceSpec::Cpu).unwrap())
}

/// A random model with a real tokenizer, a confidence head and a contrastive head.
fn random() -> &'static Arc<Engine> {
    static ENGINE: OnceLock<Arc<Engine>> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::open(&golden::path("gen2/cact/tok64_w4.cact"), DeviceSpec::Cpu).unwrap())
}

fn thermostat() -> Tool {
    Tool::new("set_thermostat", "Set the thermostat to a temperature.").integer("temperature", "")
}

fn weather() -> Tool {
    Tool::new("get_weather", "Get the current weather for a city.").string("city", "")
}

fn timer() -> Tool {
    Tool::new("set_timer", "Start a countdown timer.").integer("minutes", "")
}

/// An agent on the demo model with the tools of `examples/home.json`.
fn home() -> NeedleBuilder {
    let tools = needle_core::ToolSet::parse(include_str!("../../examples/home.json")).unwrap();
    Needle::builder().engine(demo()).tools(&tools)
}
