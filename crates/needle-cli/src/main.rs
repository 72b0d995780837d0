//! The command `needle`: parse, dispatch, print the error once.
fn main() {}
