//! Exploration of power cuts, and the judges of what recovers from them.
//!
//! # How a cut is tried
//!
//! A [`Subject`] runs once. Before each chosen event the explorer takes the state that a
//! power cut would leave, which is cheap because media are shared copy-on-write. That state
//! is powered on in a kernel of its own, recovered and judged; the run continues
//! undisturbed. A hundred cuts cost one run and a hundred recoveries.
//!
//! Power also fails during recovery: at points that the seed chooses, recovery is cut too,
//! and the state that this leaves is recovered and judged in turn.
//!
//! A run ends at a [`Bound`] if a failing medium keeps its workload busy for ever, or if its
//! history would fill the memory.
//!
//! # How files are judged
//!
//! A [`Witness`] between the file API and a file system records names in a [`Chronicle`]; a
//! [`Scribe`] observes the file API and adds contents and forces. After recovery the
//! chronicle judges the tree that is [`Shown`].
//!
//! # How blocks are judged
//!
//! [`Units`] records the versions of each unit of 4 KiB and judges which of them are shown.
//!
//! # How calls are repeated
//!
//! A [`Recorder`] and its [`Tape`] make a [`Recording`] of the calls on a mount, with contents and
//! with the output of the program between them; [`play()`] repeats it on a mount whose power is cut.
//!
//! # Invariants
//!
//! - A run, its points and its cuts in recovery are functions of the subject and
//!   the seed; a [`Cut`] names one of them for good.
//! - Judging changes nothing of the run: with or without it, the same events follow.

mod adopt;
mod alone;
mod attributes;
mod calls;
mod chronicle;
mod explore;
mod file;
mod judge;
mod memory;
mod outside;
mod points;
mod spans;
mod units;
mod witness;

pub use self::units::{Contents, Units};
pub use attributes::Attributes;
pub use calls::{Call, CodeError, Name, Owned, Played, Recorder, Recording, Tape, play};
pub use chronicle::{Chronicle, Leads, Ticket};
pub use explore::{
    Bound, Bounds, Exploration, Failure, Fault, Progress, Recovering, Subject, Verdict,
};
pub use explore::{explore, explore_while};
pub use judge::{Seen, Shown};
pub use outside::{OutsideError, btrfs_check, e2fsck, fsck_f2fs};
pub use points::{Cut, Points};
pub use witness::{Scribe, Settles, Witness};
