//! Checks and chores of the repository: `cargo xtask <task>`.
fn main() {}
