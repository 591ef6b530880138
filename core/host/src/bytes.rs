//! The byte port: the interface for file systems that write parts of pages.
//!
//! A drive with such a port is mapped into the memory of the host. Its unit is the
//! cache line of 64 bytes; lines and blocks are two views of the same bytes.
//!
//! # The contract
//!
//! - A read by lines or by blocks returns the newest bytes, durable or not.
//! - A store is posted: until a [`BytePort::verify`] that began after it has ended, a
//!   power cut keeps or loses each of its lines independently.
//! - A store of a transaction is durable only once the transaction has committed; until
//!   then no other transaction or plain store may write those lines.
//! - A write of a block supersedes all earlier stores to its lines.

use crate::ledger::Who;
use crate::port::BlockPort;
use ssd::ByteError;

/// A device with access by cache lines of 64 bytes as well as by sectors.
#[allow(async_fn_in_trait, reason = "a simulation is one thread")]
pub trait BytePort: BlockPort {
    /// Whether the firmware supports transactions, that is [`Self::commit`].
    fn has_transactions(&self) -> bool;

    /// Maximum number of lines of all uncommitted transactions together; 0 without
    /// transactions.
    fn transaction_lines(&self) -> u64;

    /// Reads the lines at byte `at` into `out`.
    ///
    /// # Errors
    /// If the range is not of whole lines of the drive, or its medium fails.
    async fn load(&self, at: u64, out: &mut [u8], who: Who) -> Result<(), ByteError>;

    /// Posts a store of `bytes` to the lines at byte `at`, for transaction `tx`; 0 is none.
    ///
    /// # Errors
    /// If the range is not of whole lines of the drive, if a line belongs to another open
    /// transaction, or `tx` has committed or is too large; nothing is stored then.
    async fn store(&self, at: u64, bytes: &[u8], tx: u32, who: Who) -> Result<(), ByteError>;

    /// Makes every completed store durable, by a read of no bytes, which cannot overtake
    /// the stores before it, and by a flush if the drive's battery does not keep lines.
    //= bytefs 4.2
    ///
    /// # Errors
    /// If the drive rejected a store on arrival, of any task: the first such error since
    /// the drive recovered or was powered on. A drive that can no longer be written reports
    /// its error in this way too.
    async fn verify(&self) -> Result<(), ByteError>;

    /// Commits `tx`; the caller has verified all of its stores.
    //= bytefs 4.3
    ///
    /// # Errors
    /// If `tx` has no stores, `tx` has committed, or the drive has no transactions.
    async fn commit(&self, tx: u32) -> Result<(), ByteError>;

    /// Replays the transactions that had committed before the power cut, and drops the
    /// others. Must be called before the first store. Clears the error of stores rejected
    /// earlier.
    //= bytefs 4.7
    ///
    /// # Errors
    /// [`ByteError::Recovered`], without any change, if a recovery has run since power-on
    /// or is running; if the medium fails.
    async fn recover(&self) -> Result<(), ByteError>;

    /// Recovers the drive unless a recovery has run since power-on or is running. Returns
    /// whether this call recovered it.
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
