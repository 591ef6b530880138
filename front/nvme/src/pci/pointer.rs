//! Location of a command's data in guest memory, from PRPs or SGLs.
//!
//! Invariants: the pieces found have exactly the bytes that the command moves. An endless list
//! is rejected after [`DESCRIPTORS_MAX`] descriptors.

use super::guest::{Memory, Unreachable};
use crate::entry::Entry;
use crate::status::Status;
use units::layout::Field;

/// Memory page size in bytes (CC.MPS = 0), the unit of PRP entries.
pub(super) const PAGE: u64 = 4096;
/// Most SGL descriptors of a command: four times as many as the longest transfer has pages.
const DESCRIPTORS_MAX: u64 = 1024;
/// Size of an SGL descriptor in bytes.
const DESCRIPTOR: u64 = 16;

const FIRST: Field<u64> = Field::at(24);
const SECOND: Field<u64> = Field::at(32);
const INLINE: Field<[u8; 16]> = Field::at(24);

/// A contiguous range of guest memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Guest address of the first byte.
    pub(super) at: u64,
    /// Length in bytes; not zero.
    pub(super) len: u64,
}

/// Pieces in the order of the data; contiguous neighbours are merged.
#[derive(Debug, Default)]
struct Pieces {
    pieces: Vec<Piece>,
    /// Bytes of the transfer that have no piece yet.
    left: u64,
}

impl Pieces {
    /// Adds the `len` bytes at `at`, or as many as are left.
    fn add(&mut self, at: u64, len: u64) {
        let len = len.min(self.left);
        self.left -= len;
        match self.pieces.last_mut() {
            Some(last) if last.at.wrapping_add(last.len) == at => last.len += len,
            _ if len > 0 => self.pieces.push(Piece { at, len }),
            _ => {}
        }
    }
}

impl From<Unreachable> for Status {
    fn from(_: Unreachable) -> Self {
        Self::DataTransfer
    }
}

/// Pieces of guest memory for the `len` data bytes of `entry`, from its PRPs or SGL.
pub(super) fn pieces(entry: &Entry, len: u64, memory: &impl Memory) -> Result<Vec<Piece>, Status> {
    if len == 0 {
        return Ok(Vec::new());
    }
    if entry.has_sgl() {
        segments(&INLINE.get(entry.bytes()), len, memory)
    } else {
        let (first, second) = (FIRST.get(entry.bytes()), SECOND.get(entry.bytes()));
        pages(first, second, len, memory)
    }
}

/// Resolves PRP entries: one page, two pages, or a page and a PRP list. The last entry of a full
/// list page names the next list.
//= nvme-2.1 4.3.1
fn pages(first: u64, second: u64, len: u64, memory: &impl Memory) -> Result<Vec<Piece>, Status> {
    let mut found = Pieces {
        left: len,
        ..Pieces::default()
    };
    if !first.is_multiple_of(4) {
        return Err(Status::PrpOffset);
    }
    found.add(first, PAGE - first % PAGE);
    if found.left == 0 {
        return Ok(found.pieces);
    }
    if found.left <= PAGE {
        found.add(page(second)?, PAGE);
        return Ok(found.pieces);
    }
    let mut list = second;
    if !list.is_multiple_of(8) {
        return Err(Status::PrpOffset);
    }
    while found.left > 0 {
        let wanted = found.left.div_ceil(PAGE);
        let room = (PAGE - list % PAGE) / 8;
        let mut bytes = vec![0; (wanted.min(room) * 8) as usize];
        memory.read(list, &mut bytes)?;
        let entries = bytes.chunks_exact(8).map(|entry| Field::at(0).get(entry));
        let mut entries: Vec<u64> = entries.collect();
        // A continued list starts at a page boundary, where it has room for data entries, so
        // every round makes progress.
        let goes_on = if wanted > room { entries.pop() } else { None };
        for entry in entries {
            found.add(page(entry)?, PAGE);
        }
        list = goes_on.map_or(Ok(list), page)?;
    }
    Ok(found.pieces)
}

/// Checks the address of a page after the first one: it must have no offset.
fn page(at: u64) -> Result<u64, Status> {
    at.is_multiple_of(PAGE)
        .then_some(at)
        .ok_or(Status::PrpOffset)
}

/// Types of SGL descriptors: data block, segment, last segment.
//= nvme-2.1 4.3.2
const BLOCK: u8 = 0x00;
const SEGMENT: u8 = 0x20;
const LAST_SEGMENT: u8 = 0x30;

/// Resolves an SGL: a single data block, or a chain of segments of descriptors.
//= nvme-2.1 4.3.2
fn segments(first: &[u8; 16], len: u64, memory: &impl Memory) -> Result<Vec<Piece>, Status> {
    let mut found = Pieces {
        left: len,
        ..Pieces::default()
    };
    let (at, bytes, kind) = descriptor(first);
    if kind == BLOCK {
        found.add(at, bytes);
        return all(found);
    }
    let (mut next, mut seen) = (Some((at, bytes, kind)), 0);
    while let Some((at, bytes, kind)) = next.take() {
        if !matches!(kind, SEGMENT | LAST_SEGMENT) {
            return Err(Status::SglTypeInvalid);
        }
        if bytes == 0 || !bytes.is_multiple_of(DESCRIPTOR) {
            return Err(Status::SglSegment);
        }
        let count = bytes / DESCRIPTOR;
        seen += count;
        if seen > DESCRIPTORS_MAX {
            return Err(Status::SglCount);
        }
        let mut list = vec![0; bytes as usize];
        memory.read(at, &mut list)?;
        for (number, own) in (1..).zip(list.chunks_exact(DESCRIPTOR as usize)) {
            let (at, bytes, own_kind) = descriptor(own);
            let is_end = number == count && kind == SEGMENT;
            match own_kind {
                BLOCK if !is_end => found.add(at, bytes),
                SEGMENT | LAST_SEGMENT if is_end => next = Some((at, bytes, own_kind)),
                BLOCK | SEGMENT | LAST_SEGMENT => return Err(Status::SglSegment),
                _ => return Err(Status::SglTypeInvalid),
            }
        }
    }
    all(found)
}

/// Decodes an SGL descriptor: address, length and type.
fn descriptor(bytes: &[u8]) -> (u64, u64, u8) {
    let len = Field::<u32>::at(8).get(bytes);
    (Field::at(0).get(bytes), len.into(), bytes[15])
}

/// The pieces, if they cover the whole transfer.
fn all(found: Pieces) -> Result<Vec<Piece>, Status> {
    let whole = found.left == 0;
    whole
        .then_some(found.pieces)
        .ok_or(Status::DataLengthInvalid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::RefCell;

    /// Memory from address 0 on.
    struct Row(RefCell<Vec<u8>>);

    impl Memory for Row {
        fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Unreachable> {
            let row = self.0.borrow();
            let end = at.checked_add(into.len() as u64).ok_or(Unreachable)?;
            let from = row.get(at as usize..end as usize).ok_or(Unreachable)?;
            into.copy_from_slice(from);
            Ok(())
        }

        fn write(&self, at: u64, from: &[u8]) -> Result<(), Unreachable> {
            let end = at.checked_add(from.len() as u64).ok_or(Unreachable)?;
            let mut row = self.0.borrow_mut();
            let into = row.get_mut(at as usize..end as usize).ok_or(Unreachable)?;
            into.copy_from_slice(from);
            Ok(())
        }
    }

    fn row() -> Row {
        Row(RefCell::new(vec![0; 1 << 20]))
    }

    fn put(row: &Row, at: u64, value: u64) {
        row.write(at, &value.to_le_bytes()).expect("in the row");
    }

    fn flat(pieces: &[Piece]) -> Vec<u64> {
        let bytes = pieces
            .iter()
            .flat_map(|piece| (0..piece.len).map(|n| piece.at + n));
        bytes.collect()
    }

    fn described(at: u64, len: u32, kind: u8) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&at.to_le_bytes());
        bytes[8..12].copy_from_slice(&len.to_le_bytes());
        bytes[15] = kind;
        bytes
    }

    proptest! {
        /// PRPs resolve to the pages that the host has listed: in any order, from any offset in
        /// the first page, with a list at any offset that continues in other pages.
        //= nvme-2.1 4.3.1
        #[test]
        fn pages_are_found_in_their_order(
            offset in 0_u64..1024,
            len in prop_oneof![1_u64..60_000, 1_u64..700_000],
            room in prop_oneof![1_u64..16, 1_u64..512],
            step in prop::sample::select(vec![1_u64, 3, 5, 7]),
        ) {
            let (row, offset) = (row(), offset * 4);
            let count = (offset + len).div_ceil(PAGE);
            // The lists lie in the last pages of the row.
            let page_of = |number: u64| (number * step % 200) * PAGE;
            let (mut list, mut list_page) = (251 * PAGE - room * 8, 250);
            let second = match count {
                0..=2 => page_of(1),
                _ => list,
            };
            let mut number = 1;
            while count > 2 && number < count {
                let left = count - number;
                let room = (PAGE - list % PAGE) / 8;
                let now = if left > room { room - 1 } else { left };
                for _ in 0..now {
                    put(&row, list, page_of(number));
                    (list, number) = (list + 8, number + 1);
                }
                if number < count {
                    list_page -= 1;
                    put(&row, list, list_page * PAGE);
                    list = list_page * PAGE;
                }
            }
            let found = pages(page_of(0) + offset, second, len, &row);
            let expected = (0..len).map(|byte| {
                let byte = byte + offset;
                page_of(byte / PAGE) + byte % PAGE
            });
            prop_assert_eq!(flat(&found.expect("lists that are right")), expected.collect::<Vec<_>>());
        }

        /// Arbitrary lists terminate, and resolve to exactly `len` bytes or an error.
        #[test]
        fn any_list_comes_to_an_end(
            bytes in prop::collection::vec(any::<u8>(), 4096),
            first: u64, second in 0_u64..8192, len in 1_u64..1_048_577, kind: u8,
        ) {
            let row = row();
            row.write(0, &bytes).expect("in the row");
            for found in [
                pages(first, second, len, &row),
                pages(first & !3, second & !7, len, &row),
                segments(&described(second, len as u32, kind), len, &row),
                segments(&described(second & !15, 4096, 0x20), len, &row),
            ] {
                let sum = found.map(|pieces| pieces.iter().map(|piece| piece.len).sum());
                prop_assert!(sum.is_err() || sum == Ok(len));
            }
        }
    }

    #[test]
    fn offsets_where_none_may_be_are_refused() {
        let row = row();
        put(&row, 0x1000, 0x3010);
        assert_eq!(pages(2, 0, 10, &row), Err(Status::PrpOffset));
        assert_eq!(pages(0, 0x3010, 5000, &row), Err(Status::PrpOffset));
        assert_eq!(pages(0, 0x1000, 10_000, &row), Err(Status::PrpOffset));
        assert_eq!(pages(0, 0x1004, 10_000, &row), Err(Status::PrpOffset));
        assert_eq!(pages(0, 1 << 30, 10_000, &row), Err(Status::DataTransfer));
        // A list at the end of its page, whose only entry names itself.
        put(&row, 0x1ff8, 0x1ff8);
        assert_eq!(pages(0, 0x1ff8, 20_000, &row), Err(Status::PrpOffset));
    }

    //= nvme-2.1 4.3.2
    #[test]
    fn segments_of_descriptors_are_walked_to_their_end() {
        let row = row();
        let put = |at: u64, descriptor: [u8; 16]| row.write(at, &descriptor).expect("room");
        put(0x100, described(0x5000, 100, BLOCK));
        put(0x110, described(0x9001, 50, BLOCK));
        put(0x120, described(0x200, 32, LAST_SEGMENT));
        put(0x200, described(0x9035, 1, BLOCK));
        put(0x210, described(0x9036, 849, BLOCK));
        let first = described(0x100, 48, SEGMENT);
        let found = segments(&first, 1000, &row).expect("they are right");
        let piece = |at, len| Piece { at, len };
        assert_eq!(
            found,
            [piece(0x5000, 100), piece(0x9001, 50), piece(0x9035, 850)]
        );
        // A transfer shorter than its descriptors succeeds, a longer one fails.
        let found = segments(&first, 120, &row).expect("some are left over");
        assert_eq!(found, [piece(0x5000, 100), piece(0x9001, 20)]);
        assert_eq!(segments(&first, 1001, &row), Err(Status::DataLengthInvalid));
        let alone = described(0x7000, 512, BLOCK);
        assert_eq!(segments(&alone, 512, &row), Ok(vec![piece(0x7000, 512)]));
    }

    #[test]
    fn segments_that_are_wrong_are_refused() {
        let row = row();
        let put = |at: u64, descriptor: [u8; 16]| row.write(at, &descriptor).expect("room");
        // A segment that names itself.
        put(0x100, described(0x100, 16, SEGMENT));
        let own = described(0x100, 16, SEGMENT);
        assert_eq!(segments(&own, 8, &row), Err(Status::SglCount));
        // A last segment that goes on, and one that ends in data.
        let last = described(0x100, 16, LAST_SEGMENT);
        assert_eq!(segments(&last, 8, &row), Err(Status::SglSegment));
        put(0x300, described(0x5000, 8, BLOCK));
        assert_eq!(
            segments(&described(0x300, 16, SEGMENT), 8, &row),
            Err(Status::SglSegment)
        );
        assert_eq!(
            segments(&described(0x300, 15, LAST_SEGMENT), 8, &row),
            Err(Status::SglSegment)
        );
        assert_eq!(
            segments(&described(0x300, 16, 0x40), 8, &row),
            Err(Status::SglTypeInvalid)
        );
        assert_eq!(
            segments(&described(0x300, 16 * 1025, LAST_SEGMENT), 8, &row),
            Err(Status::SglCount)
        );
    }
}
