//! The byte port: what a file system asks for that writes parts of pages.
//!
//! A drive with such a port is mapped into the memory of the host. Its unit is the
//! cache line of 64 bytes; lines and blocks are two views of the same bytes.
//!
//! # The contract
//!
//! - Whoever reads, by lines or blocks, sees the newest bytes, durable or not.
//! - A store is posted: until a [`BytePort::verify`] that began after it has ended, a
//!   power cut keeps it or not, each line for itself.
//! - A store with a transaction lasts only once the transaction has committed; until
//!   then nobody else may store to those lines.
//! - A write of a block counts for all lines in it, newer and older ones.

use crate::ledger::Who;
use crate::port::BlockPort;
use ssd::ByteError;

/// Something that is read and written in lines as well as in sectors.
#[allow(async_fn_in_trait, reason = "a simulation is one thread")]
pub trait BytePort: BlockPort {
    /// Whether the firmware has transactions.
    fn has_transactions(&self) -> bool;

    /// Most lines that transactions which have not committed may have together; 0
    /// without transactions.
    fn transaction_lines(&self) -> u64;

    /// Reads the lines at byte `at` into `out`.
    ///
    /// # Errors
    /// If they are not whole lines of the drive, or its medium fails.
    async fn load(&self, at: u64, out: &mut [u8], who: Who) -> Result<(), ByteError>;

    /// Writes the lines at byte `at`, for transaction `tx`; 0 is none.
    ///
    /// # Errors
    /// If they are not whole lines of the drive, if a line belongs to another open
    /// transaction, or `tx` has committed or is too large; nothing is stored then.
    async fn store(&self, at: u64, bytes: &[u8], tx: u32, who: Who) -> Result<(), ByteError>;

    /// Makes every completed store durable, by a read of no bytes that they are not
    /// overtaken by.
    //= bytefs 4.2
    ///
    /// # Errors
    /// If a store was refused when it arrived, whoever posted it: the first such error
    /// since the drive recovered or was powered on. So also if nothing can be written
    /// any more.
    async fn verify(&self) -> Result<(), ByteError>;

    /// Commits `tx`, all of whose stores were verified.
    //= bytefs 4.3
    ///
    /// # Errors
    /// If nothing was stored under that number, or it has committed, or there are no
    /// transactions.
    async fn commit(&self, tx: u32) -> Result<(), ByteError>;

    /// Brings home what had committed before the power went, and drops what had not.
    /// To be called before anything is stored. Nothing is told any more of stores that
    /// were refused before.
    //= bytefs 4.7
    ///
    /// # Errors
    /// If that was done since power-on, or is being done, and nothing changes then; if
    /// the medium fails.
    async fn recover(&self) -> Result<(), ByteError>;

    /// Lets the drive recover unless it has since power-on, or does so now for somebody
    /// else, and says whether it did.
    ///
    /// # Errors
    /// If the medium fails.
    async fn recover_once(&self) -> Result<bool, ByteError> {
        match self.recover().await {
            Ok(()) => Ok(true),
            Err(ByteError::Recovered) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
