//! NOVA: a file system with a log for every inode, over a port of bytes.
//!
//! After Xu and Swanson (FAST 2016), in our own code and our own format. The medium is mapped into
//! memory: contents are loaded and stored in place, without a page cache, and nothing goes through
//! the block view of the port. Metadata are entries of logs, one log per inode; the state of an
//! inode lies in memory and is built from its log when the inode is first used. Contents are
//! written to new pages.
//!
//! # Invariants
//!
//! - A log ends at the tail in the first line of its inode, and storing that line commits. A commit
//!   of several inodes is recorded in a journal first.
//! - Every call is durable when it returns.
//! - Space that a commit frees is reused only after it.
//! - Bytes of the medium are not trusted: damage is reported as an error, and no walk is longer
//!   than the medium is large.
//! - A call that changes an inode holds its `turn`; turns are taken in the order of inode numbers,
//!   and the journal of a core after all of them.
//!
//! # Where to start reading
//!
//! `format` and `entry` hold each byte layout once; `pieces`, `state` and `log` the state of an
//! inode in memory; `commit` the protocol of durability; `clean` the cleaning of logs; `file`,
//! `names` and `xattrs` the calls; `mount` the recovery after a power cut.

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
