//! NOVA: a file system whose every inode has a log, over a port of bytes.
//!
//! After Xu and Swanson (FAST 2016), in our own code and our own format. The medium
//! is mapped into memory: contents are loaded and stored where they lie, without a
//! page cache, and nothing goes through the block view of the port. Metadata are
//! entries of logs, one log an inode; what is looked up lies in memory and is built
//! from the log when the inode is first used. Contents are written to new pages.
//!
//! # Invariants
//!
//! - A log ends at the tail in the first line of its inode, and storing that line is
//!   what commits. What several inodes commit together is in a journal before.
//! - Every call is durable when it returns.
//! - What a commit frees is used again only after it.
//! - Bytes of the medium are not trusted: they are refused with an error, and no
//!   walk over them is longer than the medium is large.
//! - Whoever changes an inode has its turn; turns are taken by number, and the
//!   journal of a core after all of them.
//!
//! # Where to start reading
//!
//! `format` and `entry` have one home per byte layout; `pieces`, `state` and `log`
//! what an inode is in memory; `commit` how something becomes durable; `clean` how
//! logs are cleaned; `file`, `names` and `xattrs` the verbs; `mount` what follows a
//! power cut.

mod alloc;
mod body;
mod check;
mod clean;
mod commit;
mod entry;
mod file;
mod format;
mod fs;
mod log;
mod mkfs;
mod mount;
mod names;
mod pieces;
mod refusals;
mod state;
mod xattrs;

pub use check::{Finding, check};
pub use clean::Cleaning;
pub use fs::{NovaFs, Private};
pub use mkfs::{MkfsOptions, mkfs};
pub use mount::{Damage, MountError, MountOptions};
