//! The user's processes of a power-cut test: the program that is recorded, and the checker that
//! runs on each recovered tree.
//!
//! # Invariants
//!
//! - A process here leads a process group of its own, which is killed as a whole once its leader
//!   has ended or has run out of time. Nothing of it is left for the next.
//! - A signal that ends this process reaches the running group first ([`Reins`]).
//! - Output of the program that was printed before one of its calls began is taken before that call
//!   ([`Output`]).
//! - A checker gets a tree of ordinary files, which it may change: the tree is made anew for each
//!   check.
//!
//! This crate knows neither the mount of the program nor the way in which the trees were recovered.

mod check;
mod output;
mod reins;
mod run;
mod tree;

pub use check::{Checked, Checker, Outcome};
pub use output::Output;
pub use reins::Reins;
pub use run::{run, user};
