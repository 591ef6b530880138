//! zonefs: the rules of `zonefs.rst`, from a program's point of view.

mod bench;
mod conventional;
mod errors;
mod limits;
mod sequential;
mod tree;
