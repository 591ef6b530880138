//! What tells the members of the family apart.

use super::journal::CommitEntry;
use super::medium::Medium;
use super::snapshot::Piece;
use host::BytePort;
use vfs::Result;

/// How lines become durable together.
#[allow(async_fn_in_trait, reason = "a simulation is one thread")]
pub trait Durable<P: BytePort>: Sized + 'static {
    /// Whether it has to know what changed lines held before, and the superblock has to
    /// say that a mount has something to bring back.
    const UNDOES: bool = false;

    /// Makes the lines of `pieces` durable, and with them that of `entry`, which says
    /// that contents in the journal count; together they are two or more, or an entry.
    /// After a power cut at any time all of them are there or none. Others may be on
    /// their way at the same time, with other lines.
    ///
    /// # Errors
    /// `EIO`; nothing is asked of it any more then but to leave.
    async fn persist(
        &self,
        medium: &Medium<P>,
        pieces: &[&Piece],
        entry: Option<&CommitEntry>,
    ) -> Result<()>;

    /// The last word of a clean unmount.
    ///
    /// # Errors
    /// `EIO`.
    async fn leave(&self, medium: &Medium<P>) -> Result<()>;
}
