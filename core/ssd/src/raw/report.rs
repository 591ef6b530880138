//! Chunk descriptors that a host queries, and notifications that it receives.

use super::config::Ppa;
use super::rules::{ChunkState, RawStatus};
use super::{Chunks, Firmware, RawError};
use std::collections::VecDeque;

/// The descriptor of a chunk. Every chunk is written in order.
//= ocssd-2.0 2.2
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkInfo {
    /// Index of the chunk in the drive: ordered by group, unit, chunk.
    pub chunk: u32,
    /// State of the chunk.
    pub state: ChunkState,
    /// Wear of the chunk's most erased block: 255 at the rated cycles and beyond.
    pub wear: u8,
    /// Address of the chunk's first block.
    pub start: Ppa,
    /// Blocks of the chunk; in a closed one, those below its write pointer.
    pub blocks: u32,
    /// Blocks written; the next write starts there if the chunk is free or open.
    pub write_pointer: u32,
}

/// Kind of a notification.
//= ocssd-2.0 2.3
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Noticed {
    /// A program of the chunk failed, and it was closed: the host should move its data.
    EarlyClose,
    /// The chunk went offline.
    Offline,
    /// A read of the chunk could not be corrected.
    Unrecoverable,
}

/// A notification about a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkNotice {
    /// Serial number of the notification, from 1.
    pub number: u64,
    /// Address of the chunk's first block.
    pub chunk: Ppa,
    /// Kind of the notification.
    pub what: Noticed,
}

/// Notifications that the host has not taken. Beyond [`MOST_NOTICES`] the oldest are dropped, which
/// shows in the serial numbers.
#[derive(Default)]
pub(super) struct Notices {
    count: u64,
    waiting: VecDeque<ChunkNotice>,
}

/// Notifications kept at most; chosen here.
const MOST_NOTICES: usize = 1024;

impl Chunks {
    /// Descriptors of `count` chunks from index `first` on.
    ///
    /// # Errors
    /// If there are no such chunks.
    //= ocssd-2.0 2.2
    pub async fn report(&self, first: u32, count: u32) -> Result<Vec<ChunkInfo>, RawError> {
        let inner = &self.inner;
        inner.core.sim.sleep(inner.config.controller.command).await;
        let end = first.checked_add(count);
        let end = end.filter(|&end| end <= inner.geometry.all_chunks());
        let end = end.ok_or(RawError::all(RawStatus::OutOfRange, 1))?;
        Ok((first..end).map(|chunk| inner.info(chunk)).collect())
    }

    /// The descriptor of a chunk without taking time, for observers outside the simulated host;
    /// `None` if there is no such chunk.
    #[must_use]
    pub fn info(&self, chunk: u32) -> Option<ChunkInfo> {
        let exists = chunk < self.inner.geometry.all_chunks();
        exists.then(|| self.inner.info(chunk))
    }

    /// Chunks in the state free.
    pub(crate) fn free(&self) -> u32 {
        let table = self.inner.table.borrow();
        let free = table.chunks.iter().filter(|c| c.state == ChunkState::Free);
        free.count() as u32
    }

    /// Removes and returns the notifications since the last call, oldest first.
    //= ocssd-2.0 2.3
    #[must_use]
    pub fn take_notices(&self) -> Vec<ChunkNotice> {
        self.inner.notices.borrow_mut().waiting.drain(..).collect()
    }
}

impl Firmware {
    fn info(&self, chunk: u32) -> ChunkInfo {
        let entry = self.table.borrow().chunks[chunk as usize];
        let media = self.core.nand.media();
        let blocks = self.geometry.blocks_of(chunk).blocks();
        let erases = blocks.map(|block| u64::from(media.erases(block))).max();
        let rated = u64::from(self.core.nand.endurance().max(1));
        ChunkInfo {
            chunk,
            state: entry.state,
            wear: (erases.unwrap_or(0) * 255 / rated).min(255) as u8,
            start: self.geometry.ppa(self.geometry.chunk_place(chunk)),
            blocks: match entry.state {
                ChunkState::Closed => entry.wp,
                _ => self.geometry.blocks,
            },
            write_pointer: entry.wp,
        }
    }

    pub(super) fn notice(&self, chunk: u32, what: Noticed) {
        let mut notices = self.notices.borrow_mut();
        notices.count += 1;
        let number = notices.count;
        let chunk = self.geometry.ppa(self.geometry.chunk_place(chunk));
        notices.waiting.push_back(ChunkNotice {
            number,
            chunk,
            what,
        });
        if notices.waiting.len() > MOST_NOTICES {
            notices.waiting.pop_front();
        }
    }
}
