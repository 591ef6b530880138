//! Parakeet: decides where files belong, for every interface that accepts placement hints.
//!
//! # The idea
//!
//! A drive can keep data apart only if it is told which data belong together, and each kind of
//! drive has its own interface for that. Programs do not know these interfaces; but the users of a
//! program know the lifetimes of its files, or can learn them from a recording. So this knowledge
//! is written down once, in a form independent of drives: **streams**, which are the writers of a
//! program, and in each of them **lifetime groups**, files that are expected to die together. Rules
//! assign files to streams; a translation maps them to the interface of a drive, and reports the
//! loss.
//!
//! ```text
//!  open, hint, rename, …                     a recording
//!        │                                        │
//!    [decide]  ◄── [rules] ◄── a rule file ◄── [learn] ◄─ [judge]
//!        │
//!    [directive]: stream, group
//!        │
//!   [translate] ──► hints · streams · placement handles · pools of zones
//! ```
//!
//! # Invariants
//!
//! - The crate only decides: it has no I/O, no clock and no randomness. Times are arguments, paths
//!   are bytes, and its answers are a function of its inputs.
//! - A file that no rule names gets no directive, and no state of it is kept once it is closed.
//! - Memory is bounded by named limits, whatever a program does.
//! - Learned rules are printed as a person would write them, and are read like those.
//!
//! # Knowledge available to a preload library
//!
//! Of a file a preload library knows the path, the flags and permissions, the program and the
//! thread at its opening; the program's hint by `fcntl(F_SET_RW_HINT)`, which comes after the
//! opening and before the first byte; its growing size; and its renames and removal. The level of a
//! RocksDB table is not among these. RocksDB derives its hint from the level, so its own map can be
//! followed. The tuned map separates levels with equal hints, so it needs a caller that knows the
//! level ([`event::Opening`] has a field for it). See `rules/sets/rocksdb.toml` and
//! `rocksdb-tuned.toml`.
//!
//! # Questions that the dissertation leaves open, and our choices
//!
//! - *The group of a file* ("creation time or other parameters"): each stream declares its policy
//!   ([`directive::Grouping`]); the default is a batch of files that come one after another.
//! - *The hint for a log*: the text calls it very short-lived, the listing medium. Both maps exist
//!   ([`translate::HintMap`]); the default is the one by the names of the classes.
//! - *The distance that DBSCAN measures over printed binary digits*: both readings exist
//!   ([`learn::dbscan::Reading`]); the default reads the digits as a decimal number, as the listing
//!   does.
//! - *More streams than targets*: neighbours in lifetime share one, at the least cost
//!   ([`translate::Fold`]).
//! - *Rules by extension*: our rules test patterns of paths, flags, permissions, sizes, programs,
//!   threads, hints and levels; the first one that matches decides.
//!
//! # Arithmetic
//!
//! Testing a rule takes at most (bytes of the path) × (parts of the pattern) steps, a few thousand
//! for a long path; rules are tested at opens, hints and renames only. A write takes one look-up
//! among the remembered files. A remembered file takes about 200 bytes.
//!
//! # Where to start reading
//!
//! [`directive`] defines the terms; then [`rules`] and its `sets`; [`decide`], which a library
//! calls; [`translate`]; at last [`learn`], and [`judge`], which evaluates its results.

pub mod decide;
pub mod directive;
pub mod event;
pub mod flags;
pub mod judge;
pub mod learn;
pub mod rules;
mod scale;
pub mod translate;
