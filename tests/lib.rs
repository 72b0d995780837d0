//! The acceptance tests of the workspace live in `tests.rs` and its modules; this library is empty.
