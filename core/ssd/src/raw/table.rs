//! The chunks in the firmware's memory: their state and write pointer, rebuilt at power-on.
//!
//! Invariants: the table is not stored; [`Table::found`] rebuilds it from the flash. The blocks of
//! a chunk below its write pointer are readable. A chunk is open if it has such blocks and its next
//! program can be made.

use super::config::RawGeometry;
use super::rules::{ChunkState, Found, found};
use nand::{BlockState, Media};

/// A chunk in the firmware's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) state: ChunkState,
    /// Write pointer: blocks of 4 KiB written.
    pub(super) wp: u32,
    /// Reads of the chunk's flash that have begun and not completed; an erase waits for them.
    pub(super) readers: u32,
}

pub(super) struct Table {
    pub(super) chunks: Vec<Chunk>,
    /// Stamp of the next program.
    pub(super) stamp: u64,
}

impl Table {
    /// The chunks as the flash has them.
    pub(super) fn found(geometry: &RawGeometry, media: &Media) -> Self {
        let mut stamp = 0;
        let chunks = (0..geometry.all_chunks()).map(|chunk| {
            let (programs, last) = leading(geometry, media, chunk);
            stamp = stamp.max(last);
            Chunk {
                state: found(find(geometry, media, chunk, programs)),
                wp: programs * geometry.write_min,
                readers: 0,
            }
        });
        Self {
            chunks: chunks.collect(),
            stamp: stamp + 1,
        }
    }

    /// Panics if an invariant of the firmware's memory does not hold.
    pub(super) fn check(&self, geometry: &RawGeometry) {
        for (number, chunk) in self.chunks.iter().enumerate() {
            let whole = chunk.wp.is_multiple_of(geometry.write_min);
            let fits = match chunk.state {
                ChunkState::Free => chunk.wp == 0,
                ChunkState::Open => chunk.wp < geometry.blocks,
                ChunkState::Closed => chunk.wp <= geometry.blocks,
                ChunkState::Offline => true,
            };
            assert!(whole && fits, "chunk {number} is {chunk:?}");
        }
    }
}

/// Readable programs of a chunk, counted from its first, and the highest stamp among them.
fn leading(geometry: &RawGeometry, media: &Media, chunk: u32) -> (u32, u64) {
    let (row, step) = (
        geometry.blocks_of(chunk),
        media.geometry().pages_per_program,
    );
    let all = 0..media.geometry().pages_per_block / step;
    let mut last = 0;
    let count = all.take_while(|program| {
        let mut stamps = row.blocks().map(|block| media.page(block, program * step));
        stamps.all(|page| {
            page.is_some_and(|page| {
                last = last.max(page.stamp);
                true
            })
        })
    });
    (count.count() as u32, last)
}

fn find(geometry: &RawGeometry, media: &Media, chunk: u32, programs: u32) -> Found {
    let (row, step) = (
        geometry.blocks_of(chunk),
        media.geometry().pages_per_program,
    );
    let all = |state: BlockState| row.blocks().all(|block| media.state(block) == state);
    let bad = row
        .blocks()
        .any(|block| media.state(block) == BlockState::Bad);
    let next = programs * step;
    let goes_on = row.blocks().all(|block| media.written(block) == next);
    match programs {
        0 if bad => Found::Bad,
        0 if all(BlockState::Erased) => Found::Blank,
        _ if programs > 0 && !bad && goes_on && next < media.geometry().pages_per_block => {
            Found::Part
        }
        _ => Found::End,
    }
}
