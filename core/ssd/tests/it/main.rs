//! The drive, tested from outside.

mod smoke;
