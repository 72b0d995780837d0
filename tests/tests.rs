//! One binary for all acceptance tests, because candle links slowly.
#![allow(missing_docs, clippy::unwrap_used)]

mod allocations;
mod formats;
mod golden;
