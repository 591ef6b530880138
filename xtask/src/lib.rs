//! The house rules of the workspace as pure functions, and the commands that run them.
//!
//! Invariants: a rule reads values only (source texts, crates, limits) and returns findings. Access
//! to the disk and to other programs is in [`tree`], [`program`], and the modules named like a
//! command. A finding names a place and a remedy. This crate depends on no other crate of the
//! workspace, so that it still runs when they do not build.

pub mod bench;
pub mod check;
pub mod code;
pub mod copies;
pub mod deny;
pub mod finding;
pub mod program;
pub mod python;
pub mod release;
pub mod rules;
pub mod sources;
pub mod suite;
pub mod tools;
pub mod tree;

pub use finding::Finding;
pub use tree::{Tree, workspace_root};
