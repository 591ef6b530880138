//! The drive, tested from outside.

mod image;
mod power;
mod steady;
mod support;
mod theory;
