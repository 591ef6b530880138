//! Transactions of the firmware: store the cache lines under a TxID, verify once, and
//! send `COMMIT`. **The end of `COMMIT` is the durable point.**
//!
//! Invariant: a TxID is used only once the record on the medium covers it.

use crate::format::Record;
use crate::ids::Ids;
use extfs::lines::{CommitEntry, Durable, Lines, Medium, Piece, broken};
use host::{BytePort, Purpose};
use sim::{Lock, Sim};
use ssd::ByteError;
use ssd::wlog::{CommitError, LINE, StoreError};
use std::borrow::Borrow;
use vfs::Result;

/// The strategy of ByteFS: cache lines, in transactions of the firmware.
pub type ByteFs = Lines<Firmware>;

/// Commits cache lines in transactions of the firmware; owns the reserved TxIDs.
pub struct Firmware {
    ids: Lock<Ids>,
    /// Number of TxIDs that one reservation covers.
    run: u32,
}

impl Firmware {
    pub(crate) fn new(sim: &Sim, ids: Ids, run: u32) -> Self {
        Self {
            ids: Lock::new(sim, ids),
            run,
        }
    }

    /// Stores the first piece under the next TxID that the drive accepts, and returns it.
    /// Skips TxIDs that the drive still knows as committed.
    async fn store_first<T: Borrow<Piece>>(
        &self,
        medium: &Medium,
        piece: impl Fn(u32) -> T,
    ) -> Result<u32> {
        for _ in 0..self.run.max(1) {
            let id = self.next_id(medium).await?;
            match medium.store(piece(id).borrow(), id).await {
                Ok(()) => return Ok(id),
                Err(ByteError::Store(StoreError::Committed(_))) => {
                    medium.count(|m| m.skipped_ids += 1);
                }
                Err(error) => return Err(broken(error)),
            }
        }
        Err(broken(CommitError::Committed(0).into()))
    }

    /// The next reserved TxID; makes a reservation if none is left.
    async fn next_id(&self, medium: &Medium) -> Result<u32> {
        let mut ids = self.ids.lock().await;
        loop {
            if let Some(id) = ids.take() {
                return Ok(id);
            }
            let record = ids.reservation(self.run);
            write_record(medium, record).await?;
            ids.reserved(record);
        }
    }
}

impl Durable for Firmware {
    //= bytefs 4.3
    //= bytefs 4.6
    async fn persist(
        &self,
        medium: &Medium,
        pieces: &[&Piece],
        entry: Option<&CommitEntry>,
    ) -> Result<()> {
        let (id, rest) = match entry {
            Some(entry) => (
                self.store_first(medium, |id| entry.piece(id)).await?,
                pieces,
            ),
            None => (self.store_first(medium, |_| pieces[0]).await?, &pieces[1..]),
        };
        let id_of_rest = match vfs::mutant::is("bytefs-lines-outside-transaction") {
            true => 0,
            false => id,
        };
        medium.store_all(rest, id_of_rest).await.map_err(broken)?;
        medium.verify().await?;
        medium.count(|m| m.commits += 1);
        medium.port().commit(id).await.map_err(broken)
    }

    /// Stores the record of a clean unmount.
    async fn leave(&self, medium: &Medium) -> Result<()> {
        let record = self.ids.lock().await.left();
        write_record(medium, record).await
    }
}

/// Replaces the record on the medium, and in the cached block 0 that it shares with
/// the superblock.
pub(crate) async fn write_record(medium: &Medium, record: Record) -> Result<()> {
    let line = record.encode();
    if let Some(buffer) = medium.cached(0) {
        buffer.bytes_mut()[..LINE].copy_from_slice(&line);
    }
    let who = medium.who(Purpose::Superblock);
    let stored = medium.port().store(0, &line, 0, who).await;
    stored.map_err(broken)?;
    medium.verify().await
}
