//! Paging of tables between memory and the medium, and checkpoints.
//!
//! Invariants: a table is dropped only when the medium has its current version. A checkpoint takes
//! effect with its header, which is written with force after everything that the header leads to;
//! until then everything that the previous checkpoint leads to stays intact.
//= remap 3.3

use crate::format::{
    Header, NONE, PER_DIRECTORY, PER_PAGE, decode_page, encode_directory, encode_header, payload,
};
use crate::layout::{HEADERS, SECTORS};
use crate::port::Shared;
use crate::tables::Snapshot;
use host::{BlockPort, Purpose};
use nand::UNIT;
use ssd::IoError;

/// Reasons why the pages of a table cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageError {
    /// The page has a wrong checksum or is lost; `unit` is its place on the medium.
    Damaged {
        page: u32,
        unit: u32,
    },
    Io(IoError),
}

impl From<PageError> for IoError {
    fn from(error: PageError) -> Self {
        match error {
            PageError::Damaged { unit, .. } => Self::Media(u64::from(unit) * SECTORS),
            PageError::Io(error) => error,
        }
    }
}

impl<P: BlockPort> Shared<P> {
    /// Loads a table, and drops others if the limit on memory is exceeded.
    pub(crate) async fn load(&self, part: u32) -> Result<(), IoError> {
        let _turn = self.paging.acquire(1).await;
        if self.state.borrow().tables.is_in_memory(part) {
            return Ok(());
        }
        let pages = self.read_pages(part).await?;
        self.state.borrow_mut().tables.fill(part, &pages);
        self.make_room(part).await
    }

    /// Reads and decodes the pages of a table that are on the medium.
    pub(crate) async fn read_pages(
        &self,
        part: u32,
    ) -> Result<Vec<(u32, [u32; PER_PAGE])>, PageError> {
        let places = self.state.borrow().tables.places(part);
        let at = |&(page, place)| self.layout.page_at(page, place);
        let units: Vec<u32> = places.iter().filter_map(at).collect();
        let payloads = self.read_units(&units, Purpose::Metadata).await;
        let payloads = payloads.map_err(PageError::Io)?;
        let mut pages = Vec::with_capacity(places.len());
        let mut block = [0; UNIT];
        for (&(page, _), (&unit, payload)) in places.iter().zip(units.iter().zip(&payloads)) {
            let mut entries = [NONE; PER_PAGE];
            let is_read = payload.copy_to(0, &mut block)
                && decode_page(&block, &mut entries, page, self.sums);
            if !is_read {
                return Err(PageError::Damaged { page, unit });
            }
            pages.push((page, entries));
        }
        self.state.borrow_mut().metrics.tables_read += u64::from(!pages.is_empty());
        Ok(pages)
    }

    /// Drops tables until the rest fits the limit on memory.
    pub(crate) async fn shrink(&self) -> Result<(), IoError> {
        let Some(most) = self.options.memory else {
            return Ok(());
        };
        if self.state.borrow().tables.memory() <= most.0 {
            return Ok(());
        }
        let _turn = self.paging.acquire(1).await;
        self.make_room(NONE).await
    }

    /// Drops least recently used tables until the limit on memory holds, but neither `keep` nor the
    /// last table.
    async fn make_room(&self, keep: u32) -> Result<(), IoError> {
        // After a failed write memory may be newer than the medium: drop nothing.
        let Some(most) = self.options.memory.filter(|_| self.failed.get().is_none()) else {
            return Ok(());
        };
        while self.state.borrow().tables.memory() > most.0 {
            let Some(victim) = self.state.borrow().tables.victim(keep) else {
                break;
            };
            if keep == NONE && self.state.borrow().tables.victim(victim).is_none() {
                break;
            }
            let snapshot = self.write_dirty(victim).await?;
            let state = &mut *self.state.borrow_mut();
            let dropped = state.tables.drop_unchanged(victim, &snapshot);
            state.metrics.tables_dropped += u64::from(dropped);
        }
        Ok(())
    }

    /// Writes the dirty pages of a table.
    async fn write_dirty(&self, part: u32) -> Result<Snapshot, IoError> {
        let snapshot = self.state.borrow_mut().tables.snapshot(part, self.sums);
        let at = |page: &(u32, _, _)| self.layout.page_at(page.0, page.1);
        let units: Vec<u32> = snapshot.pages.iter().filter_map(at).collect();
        let payloads: Vec<_> = snapshot.pages.iter().map(|page| page.2.clone()).collect();
        let written = self.write_units(&units, &payloads, Purpose::Metadata, false);
        written.await.map_err(|error| self.fail(error))?;
        let state = &mut *self.state.borrow_mut();
        state.tables.written(&snapshot);
        state.metrics.table_blocks += units.len() as u64;
        Ok(snapshot)
    }

    /// Writes a checkpoint: makes the tables durable and empties the log. The caller holds
    /// `commits`, or is a mount, so no transaction is applied meanwhile.
    //= remap 3.5
    pub(crate) async fn checkpoint(&self) -> Result<(), IoError> {
        let _turn = self.paging.acquire(1).await;
        let dirty = self.state.borrow().tables.dirty();
        for part in dirty {
            self.write_dirty(part).await?;
        }
        let header = {
            let state = self.state.borrow();
            Header {
                sequence: state.log.sequence + 1,
                next_tx: state.log.next_tx,
                log_at: state.log.head,
                entries: state.tables.entries(),
            }
        };
        let blocks = self.write_directory(header.sequence).await?;
        self.port.flush().await?;
        let at = HEADERS[(header.sequence % 2) as usize];
        let block = [payload(encode_header(&header, self.sums))];
        self.write_units(&[at], &block, Purpose::Metadata, true)
            .await?;
        let state = &mut *self.state.borrow_mut();
        state.tables.stabilise();
        state.log.used = 0;
        state.log.sequence = header.sequence;
        state.metrics.checkpoints += 1;
        state.metrics.checkpoint_blocks += blocks + 1;
        Ok(())
    }

    /// Writes the directory of checkpoint `sequence`; returns the number of its blocks.
    async fn write_directory(&self, sequence: u64) -> Result<u64, IoError> {
        let (mut units, mut payloads) = (Vec::new(), Vec::new());
        {
            let state = self.state.borrow();
            let chunks = (0..).zip(state.tables.directory().chunks(PER_DIRECTORY));
            for (index, places) in chunks {
                let block = encode_directory(places, sequence, index, self.sums);
                units.push(self.layout.directory_at(sequence) + index);
                payloads.push(payload(block));
            }
        }
        let written = self.write_units(&units, &payloads, Purpose::Metadata, false);
        written.await?;
        Ok(units.len() as u64)
    }
}
