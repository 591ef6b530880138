//! Shimmer: files of unmodified programs, placed in zones.
//!
//! # The idea
//!
//! Programs that write logs write each file from its beginning to its end, and remove it
//! as a whole. So a file needs no more than a list of places in zones, zones need no more
//! than to know what of them is still needed, and who knows which files go together can
//! have zones that are empty all at once, which are reset without moving anything.
//!
//! This crate is that file system, without any input and output: a state machine that is
//! told of calls and gives out [`Command`]s to zones. Whoever has the zones does them and
//! says what became of them. Two very different hosts drive it that way: a simulation,
//! which awaits many commands at a time under a virtual clock, and a preload library,
//! whose threads do them blocking, whoever comes first. Functions of a trait would have
//! had to be `async` for the one and not for the other.
//!
//! # Invariants
//!
//! - Of one zone at most one command is under way, so that no order is asked of a driver.
//! - A record of where data are goes out after the data are durable; what a sync has
//!   acknowledged is there after a power cut, with exactly its bytes.
//! - A zone is reset only once no durable record leads into it, and nobody reads it.
//! - What does not fit a zone is refused with [`Refusal::Demote`]: nothing is pretended.
//! - Nothing that is read from zones causes a panic, or an allocation by a length.
//!
//! # What the dissertation leaves open, and what was chosen
//!
//! - *A sync of a buffer that is filled in part*: the buffer goes out padded to a block of
//!   4 KiB, not to its whole extent, which would cost 32 MiB a sync. The bytes of the last
//!   block are kept and written again with what follows, at the next block. So files stay
//!   aligned to blocks, and can be mapped.
//! - *Extents are never shared and padded*: an extent is what goes out at once. It is not
//!   padded: the rest of a zone is for the next one. It never crosses the end of a zone.
//! - *Saving maps as a whole at each sync* is not safe against a power cut, and costs by
//!   the size of the maps: a log of changes, with snapshots in two zones in turn.
//! - *A write to the past* that is still in the buffer is done there. Anything else is for
//!   the caller to move to an ordinary file system.
//! - *Truncation* shortens a file; the dissertation pretends to.
//! - *A lifetime group* is a number; a zone holds one group of one stream.
//! - *When is relocation needed?* When fewer than half of the free zones at which
//!   reclaiming begins are left, and none can be reset. One zone is kept to move to.
//! - *Too many open zones*: the one that was used longest ago is closed; too many active
//!   ones: the fullest is finished, if there is room enough without it, else shared.
//!
//! # Arithmetic
//!
//! A sync of `n` new bytes writes `ceil(n / 4096)` blocks, or one more, of data and one
//! block of the log, with a flush after each. A run takes 24 bytes of memory and 37 of a
//! snapshot. Without syncs a file of 1 GiB is 32 runs at most and one for each zone more.
//! Buffers take at most twice `buffers` extents.
//!
//! # Where to start reading
//!
//! `command` is what goes in and out; `core` has the calls; `write` and `flight` follow
//! data to a zone; `choose` decides which; `log` has the durable point, `record` the bytes;
//! `reclaim`; `recover`.

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
