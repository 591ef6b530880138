//! Operations on small files.
fn main() {}
