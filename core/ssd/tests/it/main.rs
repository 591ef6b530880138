//! The drive, tested from outside.

mod image;
mod placement;
mod power;
mod steady;
mod support;
mod theory;
