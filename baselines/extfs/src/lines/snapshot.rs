//! Copies of the lines of a transaction that commits.

use super::compare::runs;
use crate::buffer::Buffer;
use host::{Purpose, Who};
use nand::UNIT;
use ssd::wlog::LINE;
use units::Origin;

/// Changed lines of a page of file contents, with the bytes of the page.
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

/// Attribution of the stores of lines.
#[derive(Clone, Copy, Debug)]
pub(super) enum Booked {
    /// Metadata for this purpose, with the origin of the file system.
    Metadata(Purpose),
    /// Contents of a file, with the attribution of the write.
    Contents(Who),
}

impl Booked {
    /// Attribution for the drive, where requests for metadata come from `origin`.
    pub(super) const fn who(self, origin: Origin) -> Who {
        match self {
            Self::Metadata(purpose) => Who { origin, purpose },
            Self::Contents(who) => who,
        }
    }
}

/// Lines of one block, copied for a commit.
pub struct Piece {
    pub(super) block: u64,
    pub(super) mask: u64,
    /// The block is new: no durable structure references it yet.
    pub(super) new: bool,
    pub(super) booked: Booked,
    /// The lines of `mask`, packed without gaps.
    bytes: Vec<u8>,
    /// Former contents of the lines, packed the same way; empty if they were not kept.
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
    /// Copies the lines `mask` of a metadata block; `old` is the block before the transaction.
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

    /// Copies the changed lines of a page of file contents.
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

    /// A piece of one line, the first of a metadata block.
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

    /// Number of lines in the piece.
    pub(super) fn lines(&self) -> u64 {
        u64::from(self.mask.count_ones())
    }

    /// Stores of the piece, one per run of adjacent lines: address in bytes of the drive, and
    /// contents.
    pub(super) fn stores(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.placed(&self.bytes)
    }

    /// Former contents per run of adjacent lines, with addresses; empty if they were not kept.
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
    fn stores_of_a_piece_are_the_runs_of_its_mask() {
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
