//! The write log: written lines that are not on flash yet.
//!
//! The log is a circular buffer in two halves. Writes append to the active half. When it is
//! full the other half becomes active, and the full one is compacted page by page and then
//! freed as a whole.
//!
//! # Invariants
//!
//! - Every line in the active half is newer than those in the half under compaction. A
//!   look-up searches the active half first; a merge applies the older half first.
//! - An entry that the index does not name is superseded: by a newer entry, by its page on
//!   flash, or by the host's copy of the page.
//! - The battery keeps the entries in order, older half first. Replaying them gives a log
//!   that holds at least as much, and never an older line in place of a newer one, since the
//!   older half is always freed before the newer one.
//!
//! # Its relation to the log of `ssd::wlog`
//!
//! That log has transactions, writes of several lines and an ordered index of chunks; its
//! trait for indexes hands out sorted slices of chunks and walks pages in order, which a hash
//! table of packed lines cannot do, and each append looks up the older entry of the page.
//! Here an access costs tens of nanoseconds of the simulating machine. The two logs share
//! the memory of their lines ([`ssd::wlog::Lines`]).

mod index;

use crate::config::LogConfig;
use index::Index;
use ssd::wlog::Lines;

/// Entries of one half, which the battery keeps.
#[derive(Clone, Debug)]
struct Kept {
    /// Line number of each entry, in the order of writing.
    tags: Vec<u64>,
    data: Option<Lines>,
}

/// Entries of both halves, which the battery keeps.
#[derive(Clone, Debug)]
pub(crate) struct KeptLog {
    halves: [Kept; 2],
    active: usize,
    compacting: bool,
    entries: u32,
}

struct Half {
    kept: Kept,
    index: Index,
}

/// The write log: two halves, each with an index.
pub(crate) struct Log {
    halves: [Half; 2],
    /// Index of the half that takes writes.
    active: usize,
    /// Whether the other half is being compacted; otherwise it is empty.
    compacting: bool,
    /// Capacity of a half, in entries.
    entries: u32,
    /// Size of an entry in device DRAM, in bytes.
    entry_bytes: u32,
    /// Largest size of the index so far, sampled when a half fills.
    most_index_bytes: u64,
}

impl Log {
    pub(crate) fn new(config: &LogConfig, keep_contents: bool) -> Self {
        let entries = config.half_entries() as u32;
        let half = || Half {
            kept: Kept {
                tags: Vec::new(),
                data: keep_contents.then(|| Lines::new(entries as usize)),
            },
            index: Index::default(),
        };
        Self {
            halves: [half(), half()],
            active: 0,
            compacting: false,
            entries,
            entry_bytes: config.entry_bytes,
            most_index_bytes: 0,
        }
    }

    /// Rebuilds the log that the battery kept; `None` if its size differs from `config`.
    pub(crate) fn recovered(config: &LogConfig, kept: KeptLog) -> Option<Self> {
        if u64::from(kept.entries) != config.half_entries() {
            return None;
        }
        let half = |kept: Kept| {
            let mut index = Index::default();
            for (offset, &tag) in (0..).zip(&kept.tags) {
                index.lay((tag / 64) as u32, (tag % 64) as u32, offset);
            }
            Half { kept, index }
        };
        let mut log = Self {
            active: kept.active,
            compacting: kept.compacting,
            halves: kept.halves.map(half),
            entries: kept.entries,
            entry_bytes: config.entry_bytes,
            most_index_bytes: 0,
        };
        log.most_index_bytes = log.index_bytes();
        Some(log)
    }

    /// A copy of the entries that the battery keeps.
    pub(crate) fn kept(&self) -> KeptLog {
        let [first, second] = &self.halves;
        KeptLog {
            halves: [first.kept.clone(), second.kept.clone()],
            active: self.active,
            compacting: self.compacting,
            entries: self.entries,
        }
    }

    /// Whether the active half has room for an entry.
    pub(crate) fn has_room(&self) -> bool {
        self.halves[self.active].kept.tags.len() < self.entries as usize
    }

    /// Whether a half is being compacted.
    pub(crate) fn is_compacting(&self) -> bool {
        self.compacting
    }

    /// Appends a line; the caller has checked [`Log::has_room`]. Returns true if compaction of
    /// the half has to begin.
    //= skybyte 3.2
    pub(crate) fn append(&mut self, page: u32, at: u32, data: Option<[u8; 64]>) -> bool {
        let half = &mut self.halves[self.active];
        let offset = half.kept.tags.len() as u32;
        half.kept.tags.push(u64::from(page) * 64 + u64::from(at));
        if let (Some(lines), Some(data)) = (&mut half.kept.data, data) {
            lines.set(offset as usize, &data);
        }
        half.index.lay(page, at, offset);
        self.switch()
    }

    /// Switches halves if the active one is full and the other one free. Returns whether it
    /// did.
    fn switch(&mut self) -> bool {
        let may = !self.has_room() && !self.compacting;
        if may {
            self.most_index_bytes = self.most_index_bytes.max(self.index_bytes());
            self.active = 1 - self.active;
            self.compacting = true;
        }
        may
    }

    /// Byte address of the next entry to be written, from the start of the log.
    pub(crate) fn tail_address(&self) -> u64 {
        self.address(self.active, self.halves[self.active].kept.tags.len() as u32)
    }

    fn address(&self, half: usize, offset: u32) -> u64 {
        (half as u64 * u64::from(self.entries) + u64::from(offset)) * u64::from(self.entry_bytes)
    }

    /// Half and offset of the newest version of a line.
    #[inline]
    fn find(&self, page: u32, at: u32) -> Option<(usize, u32)> {
        let (new, old) = (self.active, 1 - self.active);
        let found = self.halves[new].index.find(page, at);
        if let Some(offset) = found {
            return Some((new, offset));
        }
        if !self.compacting {
            return None;
        }
        let offset = self.halves[old].index.find(page, at)?;
        Some((old, offset))
    }

    /// Address and data of the newest version of a line; `None` if the log does not have it.
    //= skybyte 3.2
    #[inline]
    pub(crate) fn load(&self, page: u32, at: u32) -> Option<(u64, Option<[u8; 64]>)> {
        let (half, offset) = self.find(page, at)?;
        let data = self.halves[half].kept.data.as_ref();
        let data = data.map(|data| data.get(offset as usize));
        Some((self.address(half, offset), data))
    }

    /// Calls `lay` with each line of a page in the log, the older half first.
    //= skybyte 3.2
    pub(crate) fn merge(&self, page: u32, mut lay: impl FnMut(u32, [u8; 64])) {
        if self.compacting {
            self.merge_half(1 - self.active, page, &mut lay);
        }
        self.merge_half(self.active, page, &mut lay);
    }

    fn merge_half(&self, half: usize, page: u32, lay: &mut impl FnMut(u32, [u8; 64])) {
        let half = &self.halves[half];
        for (line, offset) in half.index.lines(page) {
            let data = half.kept.data.as_ref();
            lay(line, data.map_or([0; 64], |data| data.get(offset as usize)));
        }
    }

    /// Bit mask of the lines of a page in either half.
    pub(crate) fn mask(&self, page: u32) -> u64 {
        self.halves[0].index.mask(page) | self.halves[1].index.mask(page)
    }

    /// Removes a page from both halves. Returns the bit mask of its lines.
    //= skybyte 3.3
    pub(crate) fn nullify(&mut self, page: u32) -> u64 {
        let mask = self.mask(page);
        self.halves.iter_mut().for_each(|h| h.index.nullify(page));
        mask
    }

    /// The next page to compact from index position `from` on, and the position after it.
    pub(crate) fn next_to_compact(&self, from: usize) -> Option<(u32, usize)> {
        self.halves[1 - self.active].index.next_page(from)
    }

    /// Bit mask of the lines of a page in the half under compaction.
    pub(crate) fn old_mask(&self, page: u32) -> u64 {
        self.halves[1 - self.active].index.mask(page)
    }

    /// Calls `lay` with each line of a page in the half under compaction.
    pub(crate) fn merge_old(&self, page: u32, mut lay: impl FnMut(u32, [u8; 64])) {
        self.merge_half(1 - self.active, page, &mut lay);
    }

    /// Removes a page from the half under compaction: the drive has accepted its lines.
    pub(crate) fn compacted(&mut self, page: u32) {
        let old = 1 - self.active;
        self.halves[old].index.nullify(page);
    }

    /// Ends compaction and frees the half with its index. The next compaction begins at once
    /// if writes have filled the active half meanwhile.
    //= skybyte 3.2
    pub(crate) fn finish(&mut self) {
        let half = &mut self.halves[1 - self.active];
        assert_eq!(half.index.pages(), 0, "all pages are on flash");
        half.index = Index::default();
        half.kept.tags.clear();
        self.compacting = false;
        self.switch();
    }

    /// Bytes of device DRAM used by the indexes of both halves.
    pub(crate) fn index_bytes(&self) -> u64 {
        self.halves.iter().map(|half| half.index.bytes()).sum()
    }

    /// Largest [`Log::index_bytes`], sampled when a half fills and now.
    pub(crate) fn most_index_bytes(&self) -> u64 {
        self.most_index_bytes.max(self.index_bytes())
    }

    /// Entries in use, and the capacity of both halves.
    pub(crate) fn fill(&self) -> (u64, u64) {
        let used = self.halves.iter().map(|half| half.kept.tags.len() as u64);
        (used.sum(), u64::from(self.entries) * 2)
    }

    /// Panics if an invariant does not hold.
    pub(crate) fn check(&self) {
        for half in &self.halves {
            half.index.check();
            assert!(half.kept.tags.len() <= self.entries as usize);
            let mut from = 0;
            while let Some((page, next)) = half.index.next_page(from) {
                for (line, offset) in half.index.lines(page) {
                    let tag = u64::from(page) * 64 + u64::from(line);
                    assert_eq!(half.kept.tags[offset as usize], tag);
                }
                from = next;
            }
        }
        let old = &self.halves[1 - self.active];
        assert!(self.compacting || old.kept.tags.is_empty());
        assert!(
            self.has_room() || self.compacting,
            "a full half is compacted"
        );
    }
}
