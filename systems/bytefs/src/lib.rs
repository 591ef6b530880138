//! ByteFS: metadata and small changes of files go to the drive as cache lines, in
//! transactions of its firmware; large changes go as blocks.
//!
//! A **strategy** ([`ByteFs`]) for the extent file system, so that ByteFS and ext4
//! differ in how changes persist and in nothing else. The drive is a
//! [`host::BytePort`]: lines and blocks over the same bytes, `COMMIT` and `RECOVER`.
//!
//! # The mechanism
//!
//! - A handle notes which lines of 64 bytes it changes. Where ext4 logs a block and
//!   writes it again later, ByteFS stores those lines once; the drive's own log is the
//!   redo log.
//! - With its last handle a transaction is **closed**. A force, its age or its size makes
//!   it commit, in a task of its own: write the contents that it maps, copy its lines,
//!   store the copies under a TxID, verify once, `COMMIT`. The end of `COMMIT` is the
//!   durable point.
//! - If [`Options::strict`], a transaction commits as soon as it is closed. The call
//!   continues at once, unlocks its directory or file, and returns after the durable
//!   point: see [`extfs::Persist::settle`]. A waiting call stores some of the lines
//!   meanwhile.
//! - Until it is copied, a handle that touches a line of a closed transaction, or ends in
//!   order, reopens it. So changes between two forces, or during one commit, form the next
//!   transaction, as in group commit.
//! - A page that is written back is compared with the duplicate that the cache made
//!   when it was first changed. If less than an eighth of it differs it goes as lines,
//!   atomically, else as a block.
//! - Direct requests of up to 512 bytes go by bytes, at any offset.
//! - With [`Data::Journal`] contents commit with the transaction that maps them.
//!   Small changes are lines of that transaction. Pages are copied to the blocks of a
//!   journal, in records of JBD2, and the first line of the commit block, which bears the
//!   TxID, is a line of the transaction too: so the record counts exactly if the drive
//!   has committed the transaction. Copies then go home; after a power cut, recovery of
//!   the drive and then a replay of the journal write the remaining copies home.
//! - After a power cut the drive drops the lines of transactions without `COMMIT` and
//!   writes the others home, before anything is read. The medium then holds an image in
//!   the format of ext4, which `e2fsck` accepts and Linux mounts.
//!
//! # Invariants
//!
//! - A line is in at most one transaction that is not copied, and on the drive in at
//!   most one that has not committed: versions of a line are in the order of commits.
//! - A transaction is durable as a whole, and not before transactions whose lines it
//!   changed. Changes of names and attributes are durable in the order in which they
//!   ended.
//! - Contents written before a transaction commits are on the medium first, as in the
//!   ordered mode of ext4.
//! - `write` and `end` never wait; a commit waits for transactions copied before it and
//!   for contents, but for no handle: the commit task of a reopened transaction ends at
//!   once. So the body may end handles while it holds an inode lock, and a task that
//!   waits for room waits only for tasks that need none of its resources.
//! - A failed commit makes the file system read-only; nothing commits after it.
//!
//! # Gaps of the paper, and choices made here
//!
//! Letters and numbers in brackets name gaps of the paper as this project counts them.
//!
//! - **Conflicts** (A9). The paper blocks a write to data that another transaction
//!   changes. A body that waits inside `write` would deadlock, so handles that change
//!   the same line share one transaction as long as its lines are not copied; after
//!   that, the later transaction commits after the copied one. A transaction with
//!   contents by bytes is copied as it closes, so that later contents of the same lines
//!   come after it; it accepts no further handles.
//! - **Order.** Changes of names and attributes commit in the order in which their handles
//!   ended, as in ext4: a handle that ends joins ended transactions that are not copied, and follows
//!   the copied ones, so changes made during one commit form one group. Write-back is
//!   exempt from this order, as programs are promised nothing of it before they force:
//!   changes of names do not wait for contents unless they share a line. `force` waits
//!   for every handle up to its own. No call waits for the freeing of an unlinked file.
//! - **When to commit.** The paper stores the lines of an inode with the write and commits
//!   with the `fsync` (4.8). Here the lines wait in memory for that `fsync` too, so lines
//!   that many calls change are stored once; without one a transaction commits at an age of
//!   5 s, as in ext4, or when the lines of all take a quarter of [`Options::open_lines`].
//!   This body allocates late and changes the inode when pages are written back, so a
//!   commit follows its contents there.
//! - **Starvation** cannot happen: once a transaction has [`Options::handles`] handles,
//!   new handles wait until it is copied. If a task waits for the transaction, they wait
//!   as soon as only open handles delay it, as while a transaction of JBD2 is locked.
//! - **Oversized transactions.** Handles reserve lines, 64 for a block, of
//!   [`Options::open_lines`], and of what the drive's log takes, if less. A handle
//!   that gets no more ends at a consistent point and another handle continues, so a
//!   large truncation is several transactions, and the list of orphans finishes it.
//! - **Blocks that become metadata** (A2). A block write drops at once all lines of the
//!   block in the log, committed or not; so it is used only for blocks that no durable
//!   metadata maps. All 64 lines of a new block have changed, so by the same rule it is
//!   written as one block, before `COMMIT`. All other metadata go by lines.
//! - **The superblock** goes as a block (Table 3) where it alone changes: at mount and
//!   unmount, when none of its lines can be in flight. The list of orphans, whose head
//!   is in the superblock, goes by lines.
//! - **One line** needs no TxID: it is stored under 0, which counts at once (A8).
//! - **TxIDs** (A5) are reserved in runs by a record in the boot area (`format.rs`),
//!   continue across mounts, and wrap after 2^32 - 1. The drive rejects a TxID that it
//!   knows as committed; that TxID is skipped. A drive whose last mount ended without an
//!   unmount or a power cut is rejected: its open transactions are unknown.
//! - **R** (A18) is read strictly, seven lines at most; direct requests inclusively.
//!   Both are options. A page without a change is not written.
//! - **Old contents of a block** may differ from the duplicate of its page: the block
//!   may be new to the file, and a power cut may have left any bytes behind the end of
//!   the file on the medium. Such lines count as changed, up to the end of the file. So
//!   an append to an existing page stores the lines of the append.
//! - **Verification** (A19) happens once a transaction. Data stored by lines is part of
//!   the transaction that maps it if no other handle has that open, else a transaction
//!   of its own.
//! - **A full log** is left to the drive: a store and a `COMMIT` wait there until
//!   cleaning has made room. A rejected store or `COMMIT` is a failure, and ends all
//!   changes.
//! - **The commit entry** of a record (BF-F11): the paper appends it when the
//!   transaction commits, and leaves open the state after a cut between the two. Here
//!   the entry is a part of the transaction. An entry alone is a transaction with a TxID
//!   too.
//! - **A block in the journal** that is not home takes no lines, which a replay would
//!   overwrite: small changes of it go as pages through the journal as well, and freed
//!   blocks are reused once no record has them. Home writes begin as soon as a record
//!   has committed, and a round of them ends with the superblock of the journal.
//!   Transactions with records commit one at a time, in order with all others.
//! - **Contents too large for the journal** in one transaction are written before
//!   `COMMIT` as in the ordered mode; the part of one write-back of a file that fits is
//!   atomic. A write that overwrites and appends takes two write-backs.
//! - **Flush.** Contents written as blocks are flushed before `COMMIT`; concurrent
//!   commits share a flush. Neither ByteFS nor ext4 flushes a drive that reports no
//!   volatile cache, as a mapped drive does.
//!
//! # Cost of an inode update
//!
//! The paper has inodes of 128 bytes whose first line is the hot half. So has ext4:
//! mode, owner, links, times, flags and the low half of the size lie in bytes 0 to 39,
//! in the first line, with the head of the map and its first extent behind them; the
//! second has the other extents and the high half of the size. But it also has the
//! checksum, of all 128 bytes (and the third line of an inode of 256 the fractions of
//! times). So an update takes 2 lines with inodes of 128 bytes and 3 with 256, adjacent,
//! one store and one `COMMIT`, where the paper needs 1 line and none. An image without
//! `metadata_csum` would have it in one line; `mkfs` makes none.
//!
//! A new file takes 8 or 9 lines: bitmap, descriptor (with the bitmap's checksum),
//! inode, entry, checksum of the directory's block, inode of the directory; ext4 logs
//! the blocks that they lie in.
//!
//! # Not built
//!
//! Adjacent lines are one store within a block, not across blocks. Free lists are not
//! kept for each processor: one simulation is one thread.
//!
//! # Where to start reading
//!
//! Most of ByteFS is in [`extfs::lines`], which PMFS shares: the table of transactions,
//! the commit path, contents by lines and blocks. This crate adds `firmware`, which
//! stores lines under a TxID; `ids` and `format`, which reserve TxIDs; and `mount`.
//! [`dual`] is the variant for drives without transactions.

mod config;
pub mod dual;
mod firmware;
mod format;
mod ids;
mod mount;

pub use config::{Data, Options, Variant};
pub use extfs::lines::{Handle, Metrics, changed_lines};
pub use firmware::{ByteFs, Firmware};
pub use mount::{ByteFsError, format, into_any, mkfs_options, mount};
