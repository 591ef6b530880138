//! Copies of lines, as they were when their transaction was closed.

use super::compare::runs;
use crate::buffer::Buffer;
use host::{Purpose, Who};
use nand::UNIT;
use ssd::wlog::LINE;
use units::Origin;

/// Lines of a page of file contents that have changed.
pub(super) struct Image {
    pub(super) block: u64,
    pub(super) mask: u64,
    pub(super) bytes: Box<[u8; UNIT]>,
    pub(super) who: Who,
}

impl Image {
    pub(super) fn lines(&self) -> u64 {
        u64::from(self.mask.count_ones())
    }
}

/// Whom lines are booked under.
#[derive(Clone, Copy, Debug)]
pub(super) enum Booked {
    /// Metadata for this purpose.
    Metadata(Purpose),
    /// Contents of a file.
    Contents(Who),
}

impl Booked {
    /// The same, if metadata are `origin`'s.
    pub(super) const fn who(self, origin: Origin) -> Who {
        match self {
            Self::Metadata(purpose) => Who { origin, purpose },
            Self::Contents(who) => who,
        }
    }
}

/// Lines of one block.
pub struct Piece {
    pub(super) block: u64,
    pub(super) mask: u64,
    /// It is new: nothing that is durable leads to it yet.
    pub(super) new: bool,
    pub(super) booked: Booked,
    /// Its lines one after the other.
    bytes: Vec<u8>,
    /// What they held before, the same way, if that was kept.
    old: Vec<u8>,
}

fn pack(mask: u64, bytes: &[u8; UNIT]) -> Vec<u8> {
    let mut packed = Vec::with_capacity(mask.count_ones() as usize * LINE);
    for (first, len) in runs(mask) {
        packed.extend_from_slice(&bytes[first * LINE..(first + len) * LINE]);
    }
    packed
}

impl Piece {
    /// Lines of metadata.
    pub(super) fn of_buffer(
        buffer: &Buffer,
        mask: u64,
        new: bool,
        old: Option<&[u8; UNIT]>,
    ) -> Self {
        Self {
            block: buffer.block,
            mask,
            new,
            booked: Booked::Metadata(buffer.purpose.get()),
            bytes: pack(mask, &buffer.bytes()),
            old: old.map_or_else(Vec::new, |old| pack(mask, old)),
        }
    }

    /// Lines of file contents.
    pub(super) fn of_image(image: &Image) -> Self {
        Self {
            block: image.block,
            mask: image.mask,
            new: false,
            booked: Booked::Contents(image.who),
            bytes: pack(image.mask, &image.bytes),
            old: Vec::new(),
        }
    }

    /// The first line of a block.
    pub(super) fn of_line(block: u64, purpose: Purpose, line: &[u8; LINE]) -> Self {
        Self {
            block,
            mask: 1,
            new: false,
            booked: Booked::Metadata(purpose),
            bytes: line.to_vec(),
            old: Vec::new(),
        }
    }

    pub(super) const fn is_metadata(&self) -> bool {
        matches!(self.booked, Booked::Metadata(_))
    }

    pub(super) const fn is_whole(&self) -> bool {
        self.mask == u64::MAX
    }

    pub(super) const fn is_whole_superblock(&self) -> bool {
        self.block == 0 && self.is_whole()
    }

    /// How many lines.
    pub(super) fn lines(&self) -> u64 {
        u64::from(self.mask.count_ones())
    }

    /// Adjacent lines as one: where they go, in bytes of the drive, and their bytes.
    pub(super) fn stores(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.placed(&self.bytes)
    }

    /// The same of what the lines held before; nothing if that was not kept.
    pub(super) fn old(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.placed(&self.old)
    }

    fn placed<'a>(&'a self, lines: &'a [u8]) -> impl Iterator<Item = (u64, &'a [u8])> {
        let mut rest = lines;
        let runs = runs(self.mask).take_while(|_| !lines.is_empty());
        runs.map(move |(first, len)| {
            let (bytes, after) = rest.split_at(len * LINE);
            rest = after;
            (self.block * UNIT as u64 + (first * LINE) as u64, bytes)
        })
    }

    /// All bytes of a piece that is a whole block.
    pub(super) fn block_bytes(&self) -> &[u8] {
        debug_assert!(self.is_whole());
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_are_the_runs_of_the_mask_with_their_bytes() {
        let mut bytes = Box::new([0; UNIT]);
        let lines = bytes.chunks_mut(LINE).enumerate();
        lines.for_each(|(line, bytes)| bytes.fill(line as u8));
        let who = Who::default();
        let (block, mask) = (3, 1 << 63 | 0b1_1100);
        let image = Image {
            block,
            mask,
            bytes,
            who,
        };
        let piece = Piece::of_image(&image);
        let stores: Vec<_> = piece.stores().collect();
        let [(first, some), (second, one)] = stores[..] else {
            panic!("{} stores", stores.len());
        };
        assert_eq!((first, some.len()), (3 * 4_096 + 2 * 64, 3 * 64));
        assert_eq!((some[0], some[191]), (2, 4));
        assert_eq!((second, one), (3 * 4_096 + 63 * 64, &[63; 64][..]));
        assert_eq!(piece.lines(), 4);
    }
}
