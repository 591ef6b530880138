//! Btrfs: the copy-on-write file system of trees, in the on-disk format of Linux.
mod body;
mod check;
mod chunks;
mod commit;
mod edit;
mod forced;
mod forest;
mod format;
mod fs;
mod inodes;
mod mkfs;
mod mount;
mod names;
mod nodes;
mod persist;
mod pieces;
mod range;
mod read;
mod refs;
mod refusals;
mod replay;
mod space;
mod sums;
mod walk;
mod write;
mod xattrs;

pub use crate::format::superblock::SuperError;
pub use crate::format::{Block, NODE, SECTOR};
pub use check::{Finding, Image, check};
pub use forest::NodeStats;
pub use fs::{Counts, CowFs, Private};
pub use mkfs::{Blocks, MkfsError, MkfsOptions, format, mkfs};
pub use mount::{MountError, MountOptions, Recovery, mount, mount_with};
pub use nodes::TreeKind;
pub use persist::{
    Batch, Btrfs, ChangedNode, FreshNode, Overwrite, Persist, Reason, Replacement, publish_copies,
    purpose, write_nodes, write_run,
};
