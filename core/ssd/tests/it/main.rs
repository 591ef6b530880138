//! The drive, tested from outside.

mod image;
mod smoke;
