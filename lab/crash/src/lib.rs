//! The power cut at every event: what is left, whether it recovers, and whether
//! it is what was promised.
//!
//! # How a cut is tried
//!
//! A [`Subject`] runs once. Before each chosen event it is asked what a power cut
//! at this instant leaves, which costs little because media are shared
//! copy-on-write; what is left is powered on in a kernel of its own, recovered and
//! judged, and the run goes on as if nothing had happened. So a hundred cuts cost
//! one run and a hundred recoveries.
//!
//! Power also fails while a system recovers: of some points, chosen by the seed,
//! recovery is cut too, and what that leaves is recovered and judged in turn.
//!
//! # How files are judged
//!
//! A [`Witness`] stands between the file API and a file system and writes a
//! [`Chronicle`] of the names; a [`Scribe`] observes the file API and adds contents
//! and forces. After recovery the chronicle judges what is [`Shown`].
//!
//! # How blocks are judged
//!
//! [`Units`] notes the versions of each unit of 4 KiB, and judges which are there.
//!
//! # Invariants
//!
//! - A run, its points and its cuts in recovery are functions of the subject and
//!   the seed; a [`Cut`] names one of them for good.
//! - Judging changes nothing of the run: with or without it, the same events follow.

mod adopt;
mod alone;
mod attributes;
mod chronicle;
mod explore;
mod file;
mod judge;
mod outside;
mod points;
mod spans;
mod units;
mod witness;

pub use self::units::Units;
pub use attributes::Attributes;
pub use chronicle::{Chronicle, Leads, Ticket};
pub use explore::{Bound, Exploration, Failure, Fault, Progress, Recovering, Subject, Verdict};
pub use explore::{explore, explore_while};
pub use judge::{Seen, Shown};
pub use outside::{OutsideError, btrfs_check, e2fsck, fsck_f2fs};
pub use points::{Cut, Points};
pub use witness::{Scribe, Settles, Witness};
