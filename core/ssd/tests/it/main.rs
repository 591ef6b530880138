//! The drive, tested from outside.

mod image;
mod power;
mod progress;
mod steady;
mod support;
mod theory;
