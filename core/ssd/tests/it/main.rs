//! The drive, tested from outside.

mod power;
mod support;
