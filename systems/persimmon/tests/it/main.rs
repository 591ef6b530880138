//! Persimmon through its public verbs, on the drive itself.

mod bench;
mod cuts;
