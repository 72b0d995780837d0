//! One binary for all acceptance tests, because candle links slowly.
#![allow(missing_docs, clippy::unwrap_used)]

mod agent;
mod allocations;
mod formats;
mod golden;
mod grammar;
mod grounding;
mod hub;
mod parity;
mod prompt;
mod tokenizer;
