//! zonefs: the rules of `zonefs.rst`, as a program meets them.

mod bench;
mod conventional;
mod errors;
mod limits;
mod sequential;
mod tree;
