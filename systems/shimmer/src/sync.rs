//! Syncs: waits for durability.

use crate::Core;
use crate::command::{Failure, FileId, Refusal};

/// A wait of a caller, for data in zones or for durability.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sync {
    /// File that is waited for; `None` for all files.
    file: Option<FileId>,
    /// Number of the last chunk that must be in zones.
    chunk: u64,
    /// Batch of the log that must then be durable; `None` until it is known.
    batch: Option<u64>,
    /// Whether durability is required, or only data in zones.
    durable: bool,
}

/// Number of a wait, for [`Core::poll_sync`].
pub type SyncId = u64;

impl Core {
    /// Starts a sync of a file: of its data, then of its metadata.
    ///
    /// # Errors
    /// [`Refusal::Missing`] if the file does not exist.
    //= dissertation 5.4.3
    pub fn sync(&mut self, id: FileId) -> Result<SyncId, Refusal> {
        if !self.files.contains_key(&id) {
            return Err(Refusal::Missing);
        }
        self.seal(id);
        Ok(self.wait(Some(id), true))
    }

    /// Starts to write a file back to the zones, so that none of it is in memory alone. This does
    /// not make it durable.
    ///
    /// # Errors
    /// [`Refusal::Missing`] if the file does not exist.
    pub fn drain(&mut self, id: FileId) -> Result<SyncId, Refusal> {
        if !self.files.contains_key(&id) {
            return Err(Refusal::Missing);
        }
        self.seal(id);
        Ok(self.wait(Some(id), false))
    }

    /// Starts a sync of all changes so far.
    pub fn sync_all(&mut self) -> SyncId {
        let filled: Vec<_> = self.filled.iter().copied().collect();
        for id in filled {
            self.seal(id);
        }
        self.wait(None, true)
    }

    fn wait(&mut self, file: Option<FileId>, durable: bool) -> SyncId {
        let id = self.next_sync;
        self.next_sync += 1;
        let chunk = self.chunks;
        self.syncs.insert(
            id,
            Sync {
                file,
                chunk,
                batch: None,
                durable,
            },
        );
        self.pump();
        id
    }

    /// The outcome of a wait, which is forgotten then; `None` while it is in progress.
    ///
    /// # Panics
    /// If there is no such wait.
    pub fn poll_sync(&mut self, id: SyncId) -> Option<Result<(), Refusal>> {
        let sync = *self.syncs.get(&id).expect("a wait that is not over");
        let outcome = self.look_at(id, sync)?;
        self.syncs.remove(&id);
        Some(outcome)
    }

    fn look_at(&mut self, id: SyncId, sync: Sync) -> Option<Result<(), Refusal>> {
        if self.log.failed {
            return Some(Err(Refusal::Failed(Failure)));
        }
        if self.has_chunks(sync) {
            self.pump();
            let stuck = self.flights.is_empty();
            return stuck.then(|| Err(self.no_zone()));
        }
        if !sync.durable {
            return Some(Ok(()));
        }
        let batch = sync.batch.unwrap_or_else(|| self.batch_of(sync));
        if self.log.durable >= batch {
            return Some(Ok(()));
        }
        self.syncs.insert(
            id,
            Sync {
                batch: Some(batch),
                ..sync
            },
        );
        self.log.want(batch);
        self.pump();
        None
    }

    /// The batch with the latest record that the wait is for.
    fn batch_of(&self, sync: Sync) -> u64 {
        let all = self.log.newest();
        match sync.file.map(|id| self.files.get(&id)) {
            Some(Some(file)) => file.batch.min(all),
            _ => all,
        }
    }

    fn has_chunks(&self, sync: Sync) -> bool {
        let old = |file: &crate::file::File| {
            file.sealed
                .front()
                .is_some_and(|chunk| chunk.number <= sync.chunk)
        };
        match sync.file {
            Some(id) => self.files.get(&id).is_some_and(old),
            None => self.files.values().any(old),
        }
    }

    fn no_zone(&self) -> Refusal {
        let left = self
            .zones
            .room(self.options.relocate, self.reserve().into());
        let left = left.min(self.promised.saturating_sub(1));
        Refusal::NoSpace(Box::new(self.zones.refuse(self.promised, left, 0)))
    }
}
