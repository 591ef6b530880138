//! Parakeet: where a file belongs, told to any interface that can be told something.
//!
//! # The idea
//!
//! A drive keeps apart what it is told to keep apart, and each kind of drive is told in
//! another way. Programs do not know these ways, and whoever runs a program knows which of
//! its files live how long, or can learn it from a recording. So the knowledge is put down
//! once, in a form that belongs to no drive: **streams**, which are the writers of a
//! program, and in each of them **lifetime groups**, files that are expected to die
//! together. Rules say which file is of which stream; a translation says what a drive is
//! told, and what is lost on the way.
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
//! - It decides and does nothing: no input or output, no clock, no chance. Times are given,
//!   paths are bytes, and what it answers is a function of what it was told.
//! - A file that no rule names is none of its business: it is answered with nothing, and
//!   nothing of it is kept once it is closed.
//! - Memory is bounded, whatever a program does: by limits that have names.
//! - Rules that were learned are written as a person writes them, and read as those are.
//!
//! # What a library before a program can know
//!
//! Of a file it knows the path, the flags and the permissions, the program and the thread,
//! when it is opened; what the program says by `fcntl(F_SET_RW_HINT)`, which comes after
//! that and before the first byte; its size as it is written, and when it is renamed and
//! removed. The level of a table of RocksDB is none of these. RocksDB hints a lifetime that
//! is made of the level, so its own map can be followed; the tuned map tells levels apart
//! that RocksDB hints alike, so it needs somebody who knows the level ([`event::Opening`]
//! has a place for it). See `rules/sets/rocksdb.toml` and `rocksdb-tuned.toml`.
//!
//! # What the dissertation leaves open, and what was chosen
//!
//! - *Which group a file is of* ("creation time or other parameters"): each stream says so
//!   ([`directive::Grouping`]); a batch of files that come one after another, without.
//! - *Which hint a log gets*: the text calls it very short-lived and the listing says
//!   medium. Both are maps ([`translate::HintMap`]); the one by the names of the classes is
//!   used unless asked otherwise.
//! - *What distance a DBSCAN over printed binary digits measures*: both readings are there
//!   ([`learn::dbscan::Reading`]); the digits as a decimal number are the default, which is
//!   what the listing does.
//! - *How streams get on fewer targets*: neighbours in lifetime share one, at the least
//!   cost ([`translate::Fold`]).
//! - *Rules by extension*: here by patterns of paths, flags, permissions, sizes, programs,
//!   threads, hints and levels; the first that matches decides.
//!
//! # Arithmetic
//!
//! Asking a rule costs at most (bytes of the path) × (parts of the pattern) steps, a few
//! thousand for a long path; only opening, hinting and renaming ask. A write costs one
//! look-up among the files that are remembered. A remembered file takes about 200 bytes.
//!
//! # Where to start reading
//!
//! [`directive`] has the words; [`rules`] and its `sets`; [`decide`] is what a library
//! calls; [`translate`]; then [`learn`], and [`judge`], which says whether it was any use.

pub mod decide;
pub mod directive;
pub mod event;
pub mod flags;
pub mod judge;
pub mod learn;
pub mod rules;
mod scale;
pub mod translate;
