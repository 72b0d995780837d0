//! One binary for all acceptance tests, because candle links slowly.
#![allow(missing_docs)]

mod cpu;
mod formats;
mod golden;
mod parity;
