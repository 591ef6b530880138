//! How fast the machine runs.
fn main() {}
