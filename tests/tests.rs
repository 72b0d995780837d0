//! One binary for all acceptance tests, because candle links slowly.
#![allow(missing_docs)]

mod allocations;
mod formats;
mod golden;
