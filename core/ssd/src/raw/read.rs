//! Reads: blocks of a list that lie in one page row are read together, all rows in parallel.

use super::config::{Place, Ppa};
use super::report::Noticed;
use super::rules::{ChunkState, RawStatus};
use super::write::{META_ZERO, Meta, meta_of};
use super::{Chunks, Firmware, META, RawError};
use crate::ledger::ReadCause;
use crate::zoned::Unwritten;
use nand::{NandError, Payload, Priority, Row, UNIT};
use sim::join_all;
use units::SECTOR;

/// A block as read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawBlock {
    /// Contents of the block; zeros if it was not written and the drive allows such reads.
    pub payload: Payload,
    /// Metadata that the host wrote beside the block.
    pub meta: Meta,
}

/// Blocks of one page row that are read together.
struct RowRead {
    chunk: u32,
    row: Row,
    /// Positions of the blocks in the list.
    members: Vec<usize>,
}

impl Chunks {
    /// Reads the blocks at `at`, up to 64 of them, for `cause`.
    ///
    /// # Errors
    /// For an impossible list or address, for blocks that are not readable yet if the drive rejects
    /// such reads, and for flash that cannot be read.
    //= ocssd-2.0 3.2
    pub async fn read(&self, at: &[Ppa], cause: ReadCause) -> Result<Vec<RawBlock>, RawError> {
        let inner = &self.inner;
        inner.core.count_command(true);
        let places = inner.places(at)?;
        let limits = &inner.core.config.controller.limits;
        inner.pass(limits.read, at.len()).await;
        let read = inner.read(&places, cause).await?;
        let sectors = at.len() as u64 * (UNIT as u64 / SECTOR);
        inner.core.state.borrow_mut().ledger.host_read_sectors += sectors;
        Ok(read)
    }

    /// Contents of a block without taking time; `None` if it cannot be read. For test oracles.
    #[must_use]
    pub fn peek(&self, at: Ppa) -> Option<RawBlock> {
        let inner = &self.inner;
        let place = inner.geometry.place(at)?;
        let readable = inner.written(place);
        readable.then(|| inner.block(place)).flatten()
    }
}

impl Firmware {
    /// Whether the unit of a block is on flash.
    fn written(&self, place: Place) -> bool {
        let chunk = self.geometry.chunk_index(place);
        let chunk = self.table.borrow().chunks[chunk as usize];
        chunk.state != ChunkState::Offline && place.block < chunk.wp
    }

    /// Whether the host may read a block.
    //= ocssd-2.0 1.2.5
    fn readable(&self, place: Place) -> bool {
        let chunk = self.geometry.chunk_index(place);
        let chunk = self.table.borrow().chunks[chunk as usize];
        let end = match chunk.state {
            ChunkState::Open => chunk.wp.saturating_sub(self.geometry.cached),
            ChunkState::Closed => chunk.wp,
            ChunkState::Free | ChunkState::Offline => 0,
        };
        place.block < end
    }

    /// Contents of a block on flash; `None` if its page cannot be read.
    fn block(&self, place: Place) -> Option<RawBlock> {
        let (row, sector) = self.geometry.row(place);
        let id = row.blocks().next()?;
        let media = self.core.nand.media();
        let page = media.page(id, row.page)?;
        let words = media.geometry().spare_words as usize;
        Some(RawBlock {
            meta: meta_of(page.words().skip(sector as usize * words)),
            payload: media.payload(id, row.page, sector),
        })
    }

    /// Reads blocks, in the order of `places`.
    pub(super) async fn read(
        &self,
        places: &[Place],
        cause: ReadCause,
    ) -> Result<Vec<RawBlock>, RawError> {
        let unreadable = places
            .iter()
            .enumerate()
            .filter(|(_, p)| !self.readable(**p));
        let failed = unreadable.fold(0, |failed, (index, _)| failed | 1 << index);
        if failed != 0 && self.unwritten == Unwritten::Error {
            let status = RawStatus::Unwritten;
            return Err(RawError { status, failed });
        }
        let rows = self.rows(places, failed);
        let reads = rows.iter().map(|row| self.read_row(row, cause)).collect();
        let done = join_all(reads).await;
        let lost = rows.iter().zip(&done).filter(|(_, done)| !**done);
        let lost = lost.flat_map(|(row, _)| &row.members);
        let lost = lost.fold(0, |lost, member| lost | 1 << member);
        if lost != 0 {
            let mut smart = self.core.smart.get();
            smart.media_errors += 1;
            self.core.smart.set(smart);
            return Err(RawError {
                status: RawStatus::UnrecoveredRead,
                failed: lost,
            });
        }
        let blocks = places.iter().enumerate().map(|(index, &place)| {
            let wanted = failed >> index & 1 == 0;
            let read = wanted.then(|| self.block(place)).flatten();
            read.unwrap_or(RawBlock {
                payload: Payload::Zero,
                meta: META_ZERO,
            })
        });
        Ok(blocks.collect())
    }

    /// The rows to read, without the blocks in the mask `left_out`.
    fn rows(&self, places: &[Place], left_out: u64) -> Vec<RowRead> {
        let mut rows: Vec<RowRead> = Vec::new();
        for (index, &place) in places.iter().enumerate() {
            if left_out >> index & 1 == 1 {
                continue;
            }
            let (row, _) = self.geometry.row(place);
            let chunk = self.geometry.chunk_index(place);
            let same = |other: &&mut RowRead| other.chunk == chunk && other.row.page == row.page;
            match rows.iter_mut().find(same) {
                Some(other) => {
                    other.row.planes |= row.planes;
                    other.members.push(index);
                }
                None => rows.push(RowRead {
                    chunk,
                    row,
                    members: vec![index],
                }),
            }
        }
        rows
    }

    fn count(&self, row: Row, cause: ReadCause) {
        let pages = u64::from(row.planes.count_ones());
        self.core.state.borrow_mut().ledger.reads[cause as usize] += pages;
    }

    /// Reads a row. Returns whether all its blocks were readable.
    async fn read_row(&self, read: &RowRead, cause: ReadCause) -> bool {
        let chunk = read.chunk as usize;
        self.table.borrow_mut().chunks[chunk].readers += 1;
        self.count(read.row, cause);
        let bytes = read.members.len() * (UNIT + META);
        let done = self.core.nand.read(read.row, bytes as u32, Priority::Read);
        let done = done.await;
        self.table.borrow_mut().chunks[chunk].readers -= 1;
        self.read.notify(&self.core.sim);
        if done == Err(NandError::Uncorrectable) {
            self.notice(read.chunk, Noticed::Unrecoverable);
        }
        done.is_ok()
    }
}

/// Takes the time of a binary search for the write pointer of every chunk that has one, all
/// parallel units concurrently. Pages that cannot be read count as unwritten; the read still takes
/// its time.
pub(super) async fn find_pointers(firmware: &Firmware) {
    let geometry = &firmware.geometry;
    let units = (0..geometry.all_units()).map(|unit| async move {
        for chunk in unit * geometry.chunks..(unit + 1) * geometry.chunks {
            let entry = firmware.table.borrow().chunks[chunk as usize];
            if entry.state == ChunkState::Free {
                continue;
            }
            let step = firmware.core.nand.geometry().pages_per_program;
            let (mut low, mut high) = (0, geometry.blocks / geometry.write_min);
            while low < high {
                let middle = low.midpoint(high);
                let row = Row {
                    page: middle * step,
                    ..geometry.blocks_of(chunk)
                };
                let spare = firmware.core.nand.geometry().spare_bytes * row.planes.count_ones();
                firmware.count(row, ReadCause::Recovery);
                let read = firmware.core.nand.read(row, spare, Priority::Normal);
                match read.await {
                    Ok(()) => low = middle + 1,
                    Err(_) => high = middle,
                }
            }
        }
    });
    join_all(units.collect()).await;
}
