//! ByteFS: metadata and small changes of files go to the drive as cache lines, in
//! transactions of its firmware; large ones go as blocks.
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
//! - With its last handle a transaction is **closed**, and a task of its own brings it
//!   to the drive: contents that it leads to, a copy of its lines, these under a TxID,
//!   one verification, `COMMIT`. The end of `COMMIT` is the durable point. The call goes
//!   on at once, unlocks its directory or file, and returns after that point: see
//!   [`extfs::Persist::settle`]. Who waits stores some of the lines meanwhile.
//! - While others are on their way before it, a closed transaction is opened again by
//!   who touches a line of it. So what piles up during one commit is the next one, as
//!   with the groups of a journal.
//! - A page that is written back is compared with the duplicate that the cache made
//!   when it was first changed. If less than an eighth of it differs it goes as lines,
//!   atomically, else as a block.
//! - Direct requests of up to 512 bytes go by bytes, at any offset.
//! - With [`Data::Journal`] contents commit with the transaction that leads to them.
//!   Small changes are lines of it. Pages are copied to the blocks of a journal, in the
//!   records of JBD2, and the first line of the commit block, which bears the TxID, is a
//!   line of the transaction too: so the record counts exactly if the drive has
//!   committed that. Copies then go home, and what a cut has kept from it is replayed
//!   once the drive has recovered.
//! - After a power cut the drive drops the lines of transactions without `COMMIT` and
//!   brings the others home, before anything is read. What is then on it is an image in
//!   the format of ext4, which `e2fsck` accepts and Linux mounts.
//!
//! # Invariants
//!
//! - A line is in at most one transaction that is not copied, and on the drive in at
//!   most one that has not committed: versions of a line are in the order of commits.
//! - A transaction is durable as a whole, and not before those whose lines it changed.
//!   Changes of names and attributes are durable in the order in which they ended.
//! - Contents that were written before a transaction commits are on the medium first,
//!   as in the ordered mode of ext4.
//! - `write` and `end` wait for nobody; a commit waits for transactions that were copied
//!   before it and for contents, and for no handle: the task of one that is opened again
//!   ends at once. So the body may end handles with the turn of a file in hand, and who
//!   waits for room waits for tasks that need nothing of his.
//! - A failed commit makes the file system read-only; nothing commits after it.
//!
//! # What the paper leaves open, and what was chosen
//!
//! Letters and numbers in brackets name gaps of the paper as this project counts them.
//!
//! - **Conflicts** (A9). The paper blocks whoever writes to what another transaction
//!   changes. A body that waits inside `write` would deadlock, so handles that meet at
//!   a line become one transaction as long as its lines are not copied, and one follows
//!   the other's commit after that. One that has contents by bytes is copied as it is closed, so that later
//!   contents of the same lines come after it, and takes in nobody then.
//! - **Order.** A call that changed names or attributes returns once that is durable.
//!   Of calls that overlap the order is that in which their handles ended, as in ext4: a
//!   handle that ends joins what ended before it and is not copied, and follows the
//!   rest, so what piles up during one commit is one group. Write-back is out of that
//!   line, as programs are promised nothing of it before they force: names do not wait
//!   for contents that they have no line in common with. `force` waits for every handle
//!   up to its own. Freeing what had its last name taken is waited for by nobody.
//! - **When to commit.** The paper persists the inode with the write and commits with
//!   the `fsync`. This body allocates late and changes the inode when pages are written
//!   back, so a commit follows its contents there; changes of names commit at once.
//! - **Starving** cannot happen: with [`Options::handles`] in a transaction new handles
//!   wait until it is copied, and if somebody waits for it, as soon as it waits for
//!   nothing but its handles, as they do while a transaction of JBD2 is locked.
//! - **Oversized transactions.** Handles reserve lines, 64 for a block, of
//!   [`Options::open_lines`], and of what the drive's log takes, if less. A handle
//!   that gets no more ends at a consistent point and another one goes on, so a large
//!   truncation is several transactions, and the list of orphans finishes it.
//! - **Blocks that become metadata** (A2). A block write drops at once what the log has
//!   of the block, committed or not; so it is for blocks that nothing durable leads to.
//!   All 64 lines of a new block have changed, so by the same rule it goes as one block,
//!   before `COMMIT`. All other metadata go by lines.
//! - **The superblock** goes as a block (Table 3) where it alone changes: at mount and
//!   unmount, when nothing of it can be under way. The list of orphans, whose head is
//!   in it, goes by lines.
//! - **One line** needs no number: it is stored under 0, which counts at once (A8).
//! - **TxIDs** (A5) are reserved in runs by a record in the boot area (`format.rs`),
//!   go on over mounts, and begin anew after 2^32 - 1. The drive refuses one that it
//!   knows as committed; it is left out. A drive on which somebody died without an
//!   unmount and without a power cut is refused: nothing tells what is open there.
//! - **R** (A18) is read strictly, seven lines at most; direct requests inclusively.
//!   Both are options. A page of which nothing has changed is not written.
//! - **What a block holds** is not always what its page had: it may be new to the file,
//!   and behind the end on the medium a power cut may have left anything. Such lines
//!   count as changed, up to the end of the file. So an append to a page that is there
//!   stores the lines of the append.
//! - **Verification** (A19) is one a transaction; data stored by lines is part of the
//!   transaction that leads to it if nobody else has that open, else one of its own.
//! - **A full log** is the drive's business: a store and a `COMMIT` wait there until
//!   cleaning has made room. A refusal is a failure, and ends all changes.
//! - **The commit entry** of a record (BF-F11): the paper appends it when the
//!   transaction commits, and does not say what a cut between the two leaves. Here it is
//!   a part of the transaction. An entry by itself is a transaction with a number too.
//! - **A block in the journal** that is not home takes no lines, which a replay would
//!   write over: small changes of it go as pages through the journal as well, and blocks
//!   that were freed are handed out again once no record has them. Home writes begin as
//!   soon as a record has committed, and a round of them ends with the superblock of the
//!   journal. Transactions with records go one at a time, in line with all others.
//! - **Contents that no journal takes**, beyond its size in one transaction, are written
//!   before `COMMIT` as in the ordered mode; what is atomic is so much of one write-back
//!   of a file. A write that overwrites and appends is two of them.
//! - **Flush.** Contents that went as blocks are flushed before `COMMIT`; those who want
//!   it at the same time share it. Neither ByteFS nor ext4 sends one to a drive that
//!   says it has no volatile cache, which a mapped drive does.
//!
//! # What an update of an inode costs
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
//! # What is not built
//!
//! Adjacent lines are one store within a block, not across blocks. Free lists are not
//! kept for each processor: one simulation is one thread.
//!
//! # Where to start reading
//!
//! Most of it is in [`extfs::lines`], which PMFS shares: the table of transactions, the
//! way of one to the drive, contents by lines and blocks. Here is what makes it ByteFS:
//! `firmware`, which stores lines under a TxID; `ids` and `format`, where TxIDs come
//! from; `mount`. [`dual`] is the variant for drives without transactions.

mod config;
pub mod dual;
mod firmware;
mod format;
mod ids;
mod mount;

pub use config::{Data, Options, Variant};
pub use extfs::lines::{Handle, Metrics, changed_lines};
pub use firmware::{ByteFs, Firmware};
pub use mount::{ByteFsError, format, mkfs_options, mount};
