//! Byte layout of the log, defined once for reader and writer.
//!
//! Invariants: each block has a checksum over all of it, its epoch and its number, so that it
//! cannot be confused with data, with an older log, or with a block of another volume. Records are
//! grouped in batches, and a batch counts only as a whole.

use crate::FileId;
use crate::config::Placement;
use crate::names::is_path;
use crate::runs::Run;
use units::layout::Value;

pub(crate) const SIZE: usize = 4096;
/// Maximum number of record bytes in a block.
pub(crate) const ROOM: usize = SIZE - HEAD;
const HEAD: usize = 40;
const MAGIC: [u8; 4] = *b"flsh";
const VERSION: u16 = 1;

/// Flag of the last block of a batch.
const LAST: u16 = 1;
/// Flag of the blocks of a snapshot.
const SNAPSHOT: u16 = 2;

mod block {
    units::layout! { 4096:
        /// CRC-32C of all following bytes of the block.
        SUM: u32 = 0,
        MAGIC: [u8; 4] = 4,
        VERSION: u16 = 8,
        FLAGS: u16 = 10,
        /// Number of record bytes.
        LEN: u16 = 12,
        /// Number of snapshots so far, this one included.
        EPOCH: u64 = 16,
        /// Index of the block in its epoch.
        NUMBER: u64 = 24,
        /// Number that tells the volume from others.
        VOLUME: u64 = 32,
    }
}

/// A decoded block of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block<'a> {
    pub(crate) epoch: u64,
    pub(crate) number: u64,
    pub(crate) volume: u64,
    pub(crate) last: bool,
    pub(crate) snapshot: bool,
    pub(crate) records: &'a [u8],
}

/// Decodes a block; `None` if it is no block of a log, or torn.
pub(crate) fn decode(bytes: &[u8]) -> Option<Block<'_>> {
    use block as at;
    let bytes = bytes.get(..SIZE)?;
    let known = at::MAGIC.get(bytes) == MAGIC && at::VERSION.get(bytes) == VERSION;
    if !known || at::SUM.get(bytes) != crc32c::crc32c(&bytes[4..]) {
        return None;
    }
    let flags = at::FLAGS.get(bytes);
    let len = usize::from(at::LEN.get(bytes));
    Some(Block {
        epoch: at::EPOCH.get(bytes),
        number: at::NUMBER.get(bytes),
        volume: at::VOLUME.get(bytes),
        last: flags & LAST != 0,
        snapshot: flags & SNAPSHOT != 0,
        records: bytes[HEAD..].get(..len)?,
    })
}

/// Position and kind of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    pub(crate) epoch: u64,
    pub(crate) number: u64,
    pub(crate) volume: u64,
    pub(crate) snapshot: bool,
}

/// Number of blocks for a batch with this many bytes of records.
pub(crate) fn blocks(records: usize) -> usize {
    records.div_ceil(ROOM).max(1)
}

/// Encodes a batch into blocks.
pub(crate) fn encode(records: &[u8], start: Start) -> Vec<u8> {
    use block as at;
    let count = blocks(records.len());
    let mut all = vec![0; count * SIZE];
    for (index, bytes) in all.chunks_exact_mut(SIZE).enumerate() {
        let part = &records[(index * ROOM).min(records.len())..];
        let part = &part[..part.len().min(ROOM)];
        let last = if index + 1 == count { LAST } else { 0 };
        let kind = if start.snapshot { SNAPSHOT } else { 0 };
        at::MAGIC.put(bytes, MAGIC);
        at::VERSION.put(bytes, VERSION);
        at::FLAGS.put(bytes, last | kind);
        at::LEN.put(bytes, part.len() as u16);
        at::EPOCH.put(bytes, start.epoch);
        at::NUMBER.put(bytes, start.number + index as u64);
        at::VOLUME.put(bytes, start.volume);
        bytes[HEAD..HEAD + part.len()].copy_from_slice(part);
        let sum = crc32c::crc32c(&bytes[4..]);
        at::SUM.put(bytes, sum);
    }
    all
}

/// A change of the core's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    /// Creates a file at a path.
    Create {
        id: FileId,
        placement: Placement,
        path: &'a [u8],
    },
    /// Maps blocks of a file to a run, and sets its size in bytes.
    Put { id: FileId, run: Run, size: u64 },
    /// Shortens a file to `size` bytes.
    Truncate { id: FileId, size: u64 },
    /// Renames a file; the path belongs to no other file at this point.
    Rename { id: FileId, path: &'a [u8] },
    /// Removes a file with its path.
    Unlink { id: FileId },
    /// Opens a zone for a placement.
    Take { zone: u32, placement: Placement },
    /// Sets the lower bound of new file numbers.
    Next { id: FileId },
    /// Sets the tag by which the caller identifies a file.
    Tag { id: FileId, tag: &'a [u8] },
}

/// Appends encoded values to a buffer.
struct Out<'a>(&'a mut Vec<u8>);

impl Out<'_> {
    fn put(&mut self, value: impl Value) -> &mut Self {
        fn append<T: Value>(to: &mut Vec<u8>, value: T) {
            let at = to.len();
            to.resize(at + T::SIZE, 0);
            value.save(&mut to[at..]);
        }
        append(self.0, value);
        self
    }

    fn placement(&mut self, placement: Placement) -> &mut Self {
        self.put(placement.stream).put(placement.group)
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.put(bytes.len() as u16);
        self.0.extend_from_slice(bytes);
    }
}

impl Record<'_> {
    /// Appends the encoded record to `to`.
    pub(crate) fn encode(&self, to: &mut Vec<u8>) {
        let mut out = Out(to);
        match *self {
            Self::Create {
                id,
                placement,
                path,
            } => {
                out.put(1_u8).put(id.0).placement(placement).bytes(path);
            }
            Self::Put { id, run, size } => {
                out.put(2_u8).put(id.0).put(run.first).put(run.zone);
                out.put(run.at).put(run.blocks).put(size);
            }
            Self::Truncate { id, size } => {
                out.put(3_u8).put(id.0).put(size);
            }
            Self::Rename { id, path } => out.put(4_u8).put(id.0).bytes(path),
            Self::Unlink { id } => {
                out.put(5_u8).put(id.0);
            }
            Self::Take { zone, placement } => {
                out.put(6_u8).put(zone).placement(placement);
            }
            Self::Next { id } => {
                out.put(7_u8).put(id.0);
            }
            Self::Tag { id, tag } => out.put(8_u8).put(id.0).bytes(tag),
        }
    }
}

/// Decodes records from bytes.
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn value<T: Value>(&mut self) -> Option<T> {
        let (value, rest) = self.0.split_at_checked(T::SIZE)?;
        self.0 = rest;
        Some(T::load(value))
    }

    fn id(&mut self) -> Option<FileId> {
        self.value().map(FileId)
    }

    fn placement(&mut self) -> Option<Placement> {
        Some(Placement {
            stream: self.value()?,
            group: self.value()?,
        })
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let len: u16 = self.value()?;
        let (bytes, rest) = self.0.split_at_checked(usize::from(len))?;
        self.0 = rest;
        Some(bytes)
    }

    fn path(&mut self) -> Option<&'a [u8]> {
        self.bytes().filter(|path| is_path(path))
    }

    fn run(&mut self) -> Option<Run> {
        let run = Run {
            first: self.value()?,
            zone: self.value()?,
            at: self.value()?,
            blocks: self.value()?,
        };
        run.first.checked_add(u64::from(run.blocks))?;
        run.at.checked_add(run.blocks)?;
        (run.blocks > 0).then_some(run)
    }

    fn record(&mut self) -> Option<Record<'a>> {
        Some(match self.value::<u8>()? {
            1 => Record::Create {
                id: self.id()?,
                placement: self.placement()?,
                path: self.path()?,
            },
            2 => Record::Put {
                id: self.id()?,
                run: self.run()?,
                size: self.value()?,
            },
            3 => Record::Truncate {
                id: self.id()?,
                size: self.value()?,
            },
            4 => Record::Rename {
                id: self.id()?,
                path: self.path()?,
            },
            5 => Record::Unlink { id: self.id()? },
            6 => Record::Take {
                zone: self.value()?,
                placement: self.placement()?,
            },
            7 => Record::Next { id: self.id()? },
            8 => Record::Tag {
                id: self.id()?,
                tag: self.bytes()?,
            },
            _ => return None,
        })
    }
}

/// Yields the records; malformed bytes yield one error and end the iteration.
impl<'a> Iterator for Reader<'a> {
    type Item = Result<Record<'a>, ()>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let record = self.record();
        if record.is_none() {
            self.0 = &[];
        }
        Some(record.ok_or(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Record<'static>> {
        let id = FileId(0x0102_0304_0506_0708);
        let placement = Placement {
            stream: 3,
            group: 9,
        };
        let run = Run {
            first: 7,
            zone: 2,
            at: 5,
            blocks: 11,
        };
        vec![
            Record::Next { id },
            Record::Take { zone: 4, placement },
            Record::Create {
                id,
                placement,
                path: b"/a",
            },
            Record::Put {
                id,
                run,
                size: 70_000,
            },
            Record::Truncate { id, size: 9 },
            Record::Rename { id, path: b"/b" },
            Record::Unlink { id },
            Record::Tag { id, tag: b"\0\x01" },
        ]
    }

    #[test]
    fn records_survive_a_round_trip() {
        let mut bytes = Vec::new();
        all().iter().for_each(|record| record.encode(&mut bytes));
        let read: Result<Vec<_>, ()> = Reader::new(&bytes).collect();
        assert_eq!(read.unwrap(), all());
        for end in 0..bytes.len() {
            let whole = Reader::new(&bytes[..end]).take_while(Result::is_ok).count();
            assert!(whole < all().len());
        }
    }

    #[test]
    fn block_with_any_flipped_bit_is_refused() {
        let start = Start {
            epoch: 3,
            number: 8,
            volume: 5,
            snapshot: true,
        };
        let records = vec![7; ROOM + 1];
        let bytes = encode(&records, start);
        assert_eq!(bytes.len(), 2 * SIZE);
        let second = decode(&bytes[SIZE..]).unwrap();
        assert!(second.last && second.snapshot && second.number == 9);
        assert_eq!(second.records, [7]);
        for bit in 0..SIZE * 8 {
            let mut bad = bytes[..SIZE].to_vec();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&bad).is_none(), "bit {bit}");
        }
    }
}
