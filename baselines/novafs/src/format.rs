//! Byte layouts of the format, except log entries; each layout is defined once.
//!
//! Invariants: a field is declared once, in a [`mod@units::layout`] of a line; state that must
//! change atomically lies in one line of 64 bytes; no bytes, however wrong, make a function here
//! panic. All numbers are little endian.
//!
//! | pages | what |
//! | --- | --- |
//! | 0 | superblock, in its first line |
//! | 1 to C | a journal for each of the C cores |
//! | C + 1 to 2 C | the first page of each core's inode table |
//! | the rest | pages of tables, logs, file contents and long values |

use vfs::{FileKind, Ino, TimeRange, Timestamp};

/// Size of a page in bytes.
pub(crate) const PAGE: usize = 4096;
/// Size of a line in bytes, the unit of atomic stores.
pub(crate) const LINE: usize = 64;
/// Size of a page, as an address.
pub(crate) const PAGE_BYTES: u64 = PAGE as u64;
/// Size of a line, as an address.
pub(crate) const LINE_BYTES: u64 = LINE as u64;

/// The bytes of a line.
pub(crate) type Line = [u8; LINE];
/// The bytes of a page.
pub(crate) type Page = [u8; PAGE];

/// Declares the fields of a line and their offsets.
macro_rules! line {
    ($($fields:tt)*) => {
        units::layout! { 64: $($fields)* }
    };
}
pub(crate) use line;

/// The superblock: the first line of the medium.
pub(crate) mod superblock {
    line! {
        MAGIC: u64 = 0,
        VERSION: u32 = 8,
        /// Number of cores, each with a journal, an inode table and a list of free pages.
        CORES: u32 = 12,
        /// Size of the file system in pages.
        PAGES: u64 = 16,
        /// CRC-32C of the bytes before this field.
        CHECKSUM: u32 = 24,
    }
    /// Value of `MAGIC`: `FlNovaFS`.
    pub(crate) const MAGIC_VALUE: u64 = u64::from_le_bytes(*b"FlNovaFS");
    /// Value of `VERSION`: the only one so far.
    pub(crate) const VERSION_VALUE: u32 = 1;
}

/// The header of a page of an inode table, which takes its first slot.
pub(crate) mod table {
    line! {
        MAGIC: u32 = 0,
        CORE: u32 = 4,
        /// Index of the page in its table, from 0.
        INDEX: u64 = 8,
        /// Next page of the table, 0 for none.
        NEXT: u64 = 16,
    }
    /// Value of `MAGIC`: `NTab`.
    pub(crate) const MAGIC_VALUE: u32 = u32::from_le_bytes(*b"NTab");
    /// Size of an inode in bytes.
    pub(crate) const SLOT: usize = 128;
    /// Number of inodes in a page, after the header slot.
    pub(crate) const SLOTS: u64 = (super::PAGE / SLOT - 1) as u64;
}

/// The first line of an inode, which a commit replaces.
//= nova 4.1
pub(crate) mod anchor {
    line! {
        MAGIC: u32 = 0,
        /// 1 for an inode in use, 0 for a free one.
        VALID: u32 = 4,
        INO: u64 = 8,
        /// First page of the log, 0 for none.
        HEAD: u64 = 16,
        /// Address behind the last entry, 0 for none.
        TAIL: u64 = 24,
        GENERATION: u32 = 32,
    }
    /// Value of `MAGIC`: `NIno`.
    pub(crate) const MAGIC_VALUE: u32 = u32::from_le_bytes(*b"NIno");
}

/// The second line of an inode: its state at creation.
pub(crate) mod birth {
    line! {
        /// Type and permissions, as a mode of Linux.
        MODE: u16 = 0,
        NLINK: u32 = 4,
        UID: u32 = 8,
        GID: u32 = 12,
        RDEV: u32 = 16,
        GENERATION: u32 = 20,
        /// Time of creation, for all timestamps of a new inode.
        TIME: u64 = 24,
        /// Parent of a new directory.
        PARENT: u64 = 32,
    }
}

/// The last line of a page of a log.
pub(crate) mod trailer {
    line! {
        MAGIC: u32 = 0,
        /// Inode that owns the log.
        INO: u64 = 8,
        /// Next page of the log; not valid in the page with the tail.
        NEXT: u64 = 16,
    }
    /// Value of `MAGIC`: `NLog`.
    pub(crate) const MAGIC_VALUE: u32 = u32::from_le_bytes(*b"NLog");
    /// Offset of the trailer in its page.
    pub(crate) const AT: usize = super::PAGE - super::LINE;
}

/// The first line of a journal.
pub(crate) mod journal {
    line! {
        MAGIC: u32 = 0,
        /// Number of the last committed transaction.
        DONE: u64 = 8,
    }
    /// Value of `MAGIC`: `NJou`.
    pub(crate) const MAGIC_VALUE: u32 = u32::from_le_bytes(*b"NJou");
}

/// A further line of a journal: the old first line of an inode.
pub(crate) mod undo {
    line! {
        /// Number of the transaction.
        NUMBER: u64 = 0,
        /// Number of lines of the transaction, and the index of this line.
        COUNT: u32 = 8,
        INDEX: u32 = 12,
        INO: u64 = 16,
        HEAD: u64 = 24,
        TAIL: u64 = 32,
        GENERATION: u32 = 40,
        VALID: u32 = 44,
    }
    /// Most inodes of a transaction: a rename changes two directories, the moved and the replaced
    /// inode.
    pub(crate) const MOST: u32 = 4;
}

/// The first line of an inode, decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Anchor {
    pub(crate) valid: bool,
    pub(crate) ino: u64,
    pub(crate) head: u64,
    pub(crate) tail: u64,
    pub(crate) generation: u32,
}

impl Anchor {
    pub(crate) fn encode(&self) -> Line {
        let mut line = [0; LINE];
        anchor::MAGIC.put(&mut line, anchor::MAGIC_VALUE);
        anchor::VALID.put(&mut line, u32::from(self.valid));
        anchor::INO.put(&mut line, self.ino);
        anchor::HEAD.put(&mut line, self.head);
        anchor::TAIL.put(&mut line, self.tail);
        anchor::GENERATION.put(&mut line, self.generation);
        line
    }

    /// Decodes the slot of inode `ino`; a slot that was never used is all zeros.
    pub(crate) fn decode(line: &[u8], ino: u64) -> Option<Self> {
        if line[..LINE].iter().all(|&byte| byte == 0) {
            let free = Self::default();
            return Some(Self { ino, ..free });
        }
        let known = anchor::MAGIC.get(line) == anchor::MAGIC_VALUE
            && anchor::VALID.get(line) <= 1
            && anchor::INO.get(line) == ino;
        known.then(|| Self {
            valid: anchor::VALID.get(line) == 1,
            ino,
            head: anchor::HEAD.get(line),
            tail: anchor::TAIL.get(line),
            generation: anchor::GENERATION.get(line),
        })
    }
}

/// State of an inode at its creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Birth {
    pub(crate) kind: FileKind,
    pub(crate) mode: u16,
    pub(crate) nlink: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) rdev: u32,
    pub(crate) generation: u32,
    pub(crate) time: Timestamp,
    pub(crate) parent: Ino,
}

impl Birth {
    pub(crate) fn encode(&self) -> Line {
        let mut line = [0; LINE];
        birth::MODE.put(&mut line, self.kind.mode_bits() | self.mode & 0o7777);
        birth::NLINK.put(&mut line, self.nlink);
        birth::UID.put(&mut line, self.uid);
        birth::GID.put(&mut line, self.gid);
        birth::RDEV.put(&mut line, self.rdev);
        birth::GENERATION.put(&mut line, self.generation);
        birth::TIME.put(&mut line, time_bits(self.time));
        birth::PARENT.put(&mut line, self.parent.0);
        line
    }

    pub(crate) fn decode(line: &[u8]) -> Option<Self> {
        let mode = birth::MODE.get(line);
        Some(Self {
            kind: FileKind::of_mode(mode)?,
            mode: mode & 0o7777,
            nlink: birth::NLINK.get(line),
            uid: birth::UID.get(line),
            gid: birth::GID.get(line),
            rdev: birth::RDEV.get(line),
            generation: birth::GENERATION.get(line),
            time: time_of(birth::TIME.get(line))?,
            parent: Ino(birth::PARENT.get(line)),
        })
    }
}

/// Seconds before 1970 that a timestamp can express: 31 bits.
const BEFORE: i64 = 1 << 31;
/// Bits of a timestamp for nanoseconds; the rest are seconds.
const NANOS: u32 = 30;

/// Timestamps that an inode holds: 1901 to 2446.
pub(crate) const TIMES: TimeRange = TimeRange {
    earliest: -BEFORE,
    latest: (1 << 34) - 1 - BEFORE,
    grain: 1,
};

/// Encodes a timestamp: seconds since 1901 above 30 bits of nanoseconds. Times outside [`TIMES`]
/// are clamped.
pub(crate) fn time_bits(time: Timestamp) -> u64 {
    let time = TIMES.hold(time);
    ((time.secs + BEFORE) as u64) << NANOS | u64::from(time.nanos.min(999_999_999))
}

/// Decodes a timestamp; `None` if it is invalid.
pub(crate) fn time_of(bits: u64) -> Option<Timestamp> {
    let nanos = (bits & ((1 << NANOS) - 1)) as u32;
    (nanos < 1_000_000_000).then(|| Timestamp {
        secs: (bits >> NANOS) as i64 - BEFORE,
        nanos,
    })
}

/// Size and cores of a file system, from which all fixed addresses follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Size of the file system in pages.
    pub(crate) pages: u64,
    /// Number of cores, 1 to [`CORES_MAX`].
    pub(crate) cores: u64,
}

/// Largest number of cores of a file system.
pub(crate) const CORES_MAX: u64 = 64;
/// Least number of pages beyond the fixed ones.
pub(crate) const POOL_MIN: u64 = 64;
/// Inode number of the root directory.
pub(crate) const ROOT: Ino = Ino(1);

impl Geometry {
    /// The geometry for these numbers, if it is valid.
    pub(crate) fn new(pages: u64, cores: u64) -> Option<Self> {
        let fits = (1..=CORES_MAX).contains(&cores)
            && pages <= u64::from(u32::MAX)
            && pages >= 1 + 2 * cores + POOL_MIN;
        fits.then_some(Self { pages, cores })
    }

    /// Page of the journal of `core`.
    pub(crate) const fn journal(&self, core: u64) -> u64 {
        1 + core
    }

    /// First page of the inode table of `core`.
    pub(crate) const fn table(&self, core: u64) -> u64 {
        1 + self.cores + core
    }

    /// First page beyond the fixed ones.
    pub(crate) const fn pool(&self) -> u64 {
        1 + 2 * self.cores
    }

    /// Whether `len` pages from `start` on lie beyond the fixed pages and within the file system.
    pub(crate) fn has(&self, start: u64, len: u64) -> bool {
        let end = start.checked_add(len);
        start >= self.pool() && end.is_some_and(|end| end <= self.pages)
    }

    /// Place of an inode: core of its table, page index and slot.
    pub(crate) const fn place(&self, ino: u64) -> (u64, u64, u64) {
        let index = ino / self.cores;
        (ino % self.cores, index / table::SLOTS, index % table::SLOTS)
    }

    /// Number of the inode in slot `slot` of page `page` of a core's table.
    pub(crate) const fn ino(&self, core: u64, page: u64, slot: u64) -> u64 {
        (page * table::SLOTS + slot) * self.cores + core
    }

    /// Decodes the geometry from a superblock; `None` if the superblock is invalid.
    pub(crate) fn decode(line: &[u8]) -> Option<Self> {
        let sum = superblock::CHECKSUM.get(line);
        let known = superblock::MAGIC.get(line) == superblock::MAGIC_VALUE
            && superblock::VERSION.get(line) == superblock::VERSION_VALUE
            && sum == crc32c::crc32c(&line[..24]);
        let cores = u64::from(superblock::CORES.get(line));
        let geometry = Self::new(superblock::PAGES.get(line), cores);
        geometry.filter(|_| known)
    }

    /// Encodes the superblock with its checksum.
    pub(crate) fn encode(&self) -> Line {
        let mut line = [0; LINE];
        superblock::MAGIC.put(&mut line, superblock::MAGIC_VALUE);
        superblock::VERSION.put(&mut line, superblock::VERSION_VALUE);
        superblock::CORES.put(&mut line, self.cores as u32);
        superblock::PAGES.put(&mut line, self.pages);
        let sum = crc32c::crc32c(&line[..24]);
        superblock::CHECKSUM.put(&mut line, sum);
        line
    }
}

/// Encodes the header of page `index` of a core's inode table.
pub(crate) fn table_header(core: u64, index: u64, next: u64) -> Line {
    let mut line = [0; LINE];
    table::MAGIC.put(&mut line, table::MAGIC_VALUE);
    table::CORE.put(&mut line, core as u32);
    table::INDEX.put(&mut line, index);
    table::NEXT.put(&mut line, next);
    line
}

/// Decodes the page after page `index` of a core's table, 0 for none; `None` if `line` is not its
/// header.
pub(crate) fn next_of_table(line: &[u8], core: u64, index: u64) -> Option<u64> {
    let known = table::MAGIC.get(line) == table::MAGIC_VALUE
        && u64::from(table::CORE.get(line)) == core
        && table::INDEX.get(line) == index;
    known.then(|| table::NEXT.get(line))
}

/// Encodes the last line of a page of the log of `ino`.
pub(crate) fn log_trailer(ino: u64, next: u64) -> Line {
    let mut line = [0; LINE];
    trailer::MAGIC.put(&mut line, trailer::MAGIC_VALUE);
    trailer::INO.put(&mut line, ino);
    trailer::NEXT.put(&mut line, next);
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let anchor = Anchor {
            valid: true,
            ino: 77,
            head: 9,
            tail: 9 * PAGE_BYTES + 128,
            generation: 3,
        };
        assert_eq!(Anchor::decode(&anchor.encode(), 77), Some(anchor));
        assert_eq!(Anchor::decode(&anchor.encode(), 78), None, "another slot");
        let free = Anchor::decode(&[0; LINE], 5).unwrap();
        assert!(!free.valid && free.ino == 5);
        let birth = Birth {
            kind: FileKind::CharDevice,
            mode: 0o4755,
            nlink: 2,
            uid: 1,
            gid: 2,
            rdev: 3,
            generation: 4,
            time: Timestamp {
                secs: -5,
                nanos: 999_999_999,
            },
            parent: Ino(6),
        };
        assert_eq!(Birth::decode(&birth.encode()), Some(birth));
    }

    #[test]
    fn times_outside_of_the_format_go_to_its_bounds() {
        for (secs, kept) in [
            (0, 0),
            (i64::MIN, -BEFORE),
            (i64::MAX, (1 << 34) - 1 - BEFORE),
        ] {
            let time = Timestamp { secs, nanos: 7 };
            let kept = Timestamp {
                secs: kept,
                nanos: if secs == 0 { 7 } else { 0 },
            };
            assert_eq!(time_of(time_bits(time)), Some(kept));
        }
        assert_eq!(time_of(1_000_000_000), None);
    }

    #[test]
    fn every_inode_has_a_place_of_its_own() {
        let geometry = Geometry::new(1_000, 3).unwrap();
        for ino in 0..1_000 {
            let (core, page, slot) = geometry.place(ino);
            assert!(core < 3 && slot < table::SLOTS);
            assert_eq!(geometry.ino(core, page, slot), ino);
        }
    }

    #[test]
    fn a_superblock_with_one_byte_changed_is_none() {
        let line = Geometry::new(1_000, 3).unwrap().encode();
        assert!(Geometry::decode(&line).is_some());
        for at in 0..28 {
            let mut wrong = line;
            wrong[at] ^= 0x10;
            assert_eq!(Geometry::decode(&wrong), None, "byte {at}");
        }
    }
}
