//! The time kernel.

pub mod chance;

pub use chance::{Rng, Seed};
