//! One binary for all acceptance tests, because candle links slowly.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

mod agent;
mod allocations;
mod cpu;
mod data;
mod finetune;
mod formats;
mod golden;
mod gpu;
mod grammar;
mod grounding;
mod hub;
mod parity;
mod pretrain;
mod prompt;
mod score;
mod scratch;
mod synth;
mod tokenizer;
mod train;
mod vocabulary;
