//! Everything about the kernels that a machine without a GPU can show: one binary, one module a subject.
#![allow(missing_docs, clippy::unwrap_used)]

mod faults;
mod golden;
mod goldens;
mod kernels;
mod plan;
mod texts;
