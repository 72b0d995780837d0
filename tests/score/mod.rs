//! Comparing calls, counting, BFCL's files, and whole evaluations with the demo model.

mod bfcl;
mod compare;
mod counts;
mod evaluate;
