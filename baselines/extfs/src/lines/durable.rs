//! The part in which strategies of cache lines differ.

use super::journal::CommitEntry;
use super::medium::Medium;
use super::snapshot::Piece;
use vfs::Result;

/// Makes the cache lines of a transaction durable atomically.
#[allow(async_fn_in_trait, reason = "a simulation is one thread")]
pub trait Durable: Sized + 'static {
    /// Whether the strategy needs the old bytes of changed lines, and the superblock has
    /// to state that a mount may have lines to roll back.
    const UNDOES: bool = false;

    /// Makes the lines of `pieces` durable, and with them the line of `entry`, which
    /// commits contents in the journal. There are two lines or more, or an entry. A power
    /// cut at any time leaves all of them or none. Calls with disjoint lines may overlap.
    ///
    /// # Errors
    /// `EIO`; the strategy then calls nothing but [`Self::leave`].
    async fn persist(
        &self,
        medium: &Medium,
        pieces: &[&Piece],
        entry: Option<&CommitEntry>,
    ) -> Result<()>;

    /// Records a clean unmount on the medium; the last call.
    ///
    /// # Errors
    /// `EIO` if the medium fails.
    async fn leave(&self, medium: &Medium) -> Result<()>;
}
