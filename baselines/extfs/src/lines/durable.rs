//! What tells the members of the family apart.

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

    /// Makes the lines of `pieces`, two or more, durable: after a power cut at any
    /// time all of them are there or none. Others may be on their way at the same
    /// time, with other lines.
    ///
    /// # Errors
    /// `EIO`; nothing is asked of it any more then but to leave.
    async fn persist(&self, medium: &Medium<P>, pieces: &[&Piece]) -> Result<()>;

    /// The last word of a clean unmount.
    ///
    /// # Errors
    /// `EIO`.
    async fn leave(&self, medium: &Medium<P>) -> Result<()>;
}
