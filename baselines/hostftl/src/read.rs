//! Reads: what is newer than the table from the buffer, the rest from flash.

use crate::state::Inner;
use host::{RawPort, Who};
use nand::{Payload, UNIT};
use sim::join_all;
use ssd::{IoError, MOST_ADDRESSES, Ppa, RawBlock, ReadCause};
use units::SECTOR;

/// Sectors of 512 bytes in one that is mapped.
pub(crate) const PER_SECTOR: u64 = UNIT as u64 / SECTOR;

impl<P: RawPort> Inner<P> {
    /// The contents of `count` sectors from `first` on.
    pub(crate) async fn read_sectors(
        &self,
        first: u32,
        count: u32,
        who: Who,
    ) -> Result<Vec<Payload>, IoError> {
        let (mut contents, places) = self.look_up(first, count);
        let reads = places
            .chunks(MOST_ADDRESSES)
            .map(|places| self.read_blocks(places, who));
        let read = join_all(reads.collect()).await;
        {
            let state = &mut *self.state.borrow_mut();
            for &(_, place) in &places {
                let line = state.lines.of(place);
                state.lines.lines[line].readers -= 1;
            }
        }
        self.progress.notify(&self.sim);
        for (places, blocks) in places.chunks(MOST_ADDRESSES).zip(read) {
            for (&(index, _), block) in places.iter().zip(blocks?) {
                contents[index] = block.payload;
            }
        }
        Ok(contents)
    }

    /// What is known of sectors without the flash, and the others by where they are: those
    /// lines have a reader more.
    fn look_up(&self, first: u32, count: u32) -> (Vec<Payload>, Vec<(usize, u32)>) {
        let state = &mut *self.state.borrow_mut();
        let mut contents = vec![Payload::Zero; count as usize];
        let mut places = Vec::new();
        for (index, sector) in (first..first + count).enumerate() {
            if let Some(newest) = state.buffer.newest(sector) {
                contents[index] = newest.cloned().unwrap_or_default();
            } else if let Some(place) = state.table.get(sector) {
                let line = state.lines.of(place);
                state.lines.lines[line].readers += 1;
                places.push((index, place));
            }
        }
        (contents, places)
    }

    async fn read_blocks(
        &self,
        places: &[(usize, u32)],
        who: Who,
    ) -> Result<Vec<RawBlock>, IoError> {
        let at: Vec<Ppa> = places.iter().map(|&(_, place)| self.ppa(place)).collect();
        let read = self.port.read(&at, ReadCause::Host, who).await;
        read.map_err(|error| {
            let bad = places[error.failed.trailing_zeros() as usize % places.len()].1;
            let state = self.state.borrow();
            let sector = state.lines.owner(bad).unwrap_or(0);
            IoError::Media(u64::from(sector) * PER_SECTOR)
        })
    }
}
