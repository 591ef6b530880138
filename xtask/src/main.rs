//! checks
fn main() {}
