//! Shimmer: files of unmodified programs, placed in zones.
//!
//! # The idea
//!
//! Programs that write logs write each file sequentially and delete it as a whole. So a file's map
//! is a short list of runs in zones, a zone needs no more than a count of its live blocks, and if
//! files that are deleted together share zones, these zones are invalidated as a whole and reset
//! without relocation.
//!
//! This crate is that file system without any I/O: a state machine that takes calls and emits
//! [`Command`]s to zones. A driver executes them and reports their results. Two very different
//! drivers use it: a simulation, which awaits many commands at a time under a virtual clock, and a
//! preload library's daemon, whose threads execute them blocking, in any order. Methods of a trait
//! would have to be `async` for the one and not for the other.
//!
//! # Invariants
//!
//! - At most one command per zone is in progress, so a driver need not order commands.
//! - A record of the location of data is written after the data are durable. A sync that was
//!   acknowledged survives a power cut, with exactly its bytes.
//! - A zone is reset only once no durable record refers to it, and no read of it is in progress.
//! - A write that zones cannot hold is refused with [`Refusal::Demote`]; it never succeeds in
//!   appearance only.
//! - Bytes read from zones cause no panic, and no allocation of a length that they claim.
//!
//! # Questions that the dissertation leaves open, and our choices
//!
//! - *Sync of a partly filled buffer*: the buffer is written padded to a block of 4 KiB, not to its
//!   whole extent, which would cost 32 MiB a sync. The bytes of the last block are kept and written
//!   again with the data that follow, in the next block. So files stay aligned to blocks, and can
//!   be mapped.
//! - *Extents that are not shared, and padded*: an extent is the unit of writing. It is not padded:
//!   the next extent uses the rest of the zone. It never crosses the end of a zone.
//! - *Saving whole maps at each sync* is not safe against a power cut, and its cost grows with the
//!   maps. We write a log of changes, with snapshots in two zones in turn.
//! - *A write to the past* succeeds if it hits the buffer. The caller must move the file to an
//!   ordinary file system for any other one.
//! - *Truncation* shortens a file; the dissertation only pretends to.
//! - *A lifetime group* is a number; a zone holds one group of one stream, unless zones must be
//!   shared.
//! - *Start of relocation*: when fewer free zones are left than half the threshold of reclaiming,
//!   and no zone can be reset. One zone is reserved as a target.
//! - *Limits of zones*: with too many open zones, the least recently used one is closed. With too
//!   many active ones, the fullest is finished if there is room enough without it, else a zone is
//!   shared.
//!
//! # Arithmetic
//!
//! A sync of `n` new bytes writes `ceil(n / 4096)` blocks of data, or one more, and one block of
//! the log, with a flush after each. A run takes 24 bytes of memory and 37 of a snapshot. Without
//! syncs a file of 1 GiB has at most 32 runs, and one more for each zone. Buffers take at most
//! twice `buffers` extents.
//!
//! # Where to start reading
//!
//! `command` defines the interface; `core` has the calls; `write` and `flight` follow data to a
//! zone; `choose` selects the zone; `log` has the durable point, and `record` its byte layout; then
//! `reclaim` and `recover`.

mod check;
mod choose;
mod command;
mod config;
mod core;
mod file;
mod flight;
mod log;
mod names;
mod reclaim;
mod record;
mod recover;
mod runs;
mod sync;
mod write;
mod zones;

pub use command::{Command, Data, Demote, Failure, FileId, Part, Piece, Refusal, Ticket};
pub use config::{BLOCK, LOG_ZONES, Limits, Options, Placement, Policy, ZoneReport};
pub use core::{Core, Counts, Status};
pub use recover::OpenError;
pub use sync::SyncId;
