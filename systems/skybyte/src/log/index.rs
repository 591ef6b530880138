//! The index of one half of a log: a hash table of pages, each with a hash table of its
//! lines.
//!
//! # The layout in device DRAM
//!
//! - First level: entries of 16 bytes, 8 for the logical page and 8 for the pointer to its
//!   second level. A NULL pointer means that the page has no line in the log.
//! - Second level: entries of 4 bytes, 6 bits for the line and 26 for its offset in the log.
//!   A table begins with 4 entries and doubles when more than three quarters full, up to 64
//!   entries: one for each line.
//!
//! # Invariants, defended by [`Index::check`]
//!
//! - A page has at most one entry, and a line at most one in the table of its page.
//! - Linear probing from its hash finds an entry before a free one.
//!
//! # What the source leaves open
//!
//! The size of the first level: here it doubles too. Like the source, [`Index::bytes`] counts
//! only its entries in use. The number of used entries of a second-level table, needed to
//! double it, is packed into the pointer, which does not need all of its 8 bytes.

/// Lines of 64 bytes in a page.
const LINES: u32 = 64;
/// Entries that a table of lines begins with.
const FIRST: u32 = 4;
/// Sizes of tables of lines: 4, 8, 16, 32, 64.
const SIZES: usize = 5;
/// Bits of an entry's offset in the log.
const OFFSET_BITS: u32 = 26;
/// A free entry of a table of lines.
const FREE: u32 = u32::MAX;
/// Page number of a free first-level entry.
const NO_PAGE: u64 = u64::MAX;
/// Entries of the smallest first level.
const LEAST_PAGES: usize = 64;

/// Bytes of an entry of the first level, and of the second.
pub(crate) const FIRST_BYTES: u64 = 16;
pub(crate) const SECOND_BYTES: u64 = 4;

#[derive(Clone, Copy)]
struct Entry {
    page: u64,
    lines: Pointer,
}

const _: () = assert!(size_of::<Entry>() as u64 == FIRST_BYTES);

/// Packed reference to a second-level table: size class (3 bits), used entries (7), number.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Pointer(u64);

impl Pointer {
    const NULL: Self = Self(u64::MAX);

    fn new(size: usize, used: u32, number: u32) -> Self {
        Self((size as u64) << 61 | u64::from(used) << 54 | u64::from(number))
    }

    fn size(self) -> usize {
        (self.0 >> 61) as usize
    }

    fn used(self) -> u32 {
        (self.0 >> 54 & 0x7F) as u32
    }

    fn number(self) -> u32 {
        self.0 as u32
    }
}

/// Arena of the tables of one size, with a free list of their numbers.
#[derive(Default)]
struct Tables {
    entries: Vec<u32>,
    free: Vec<u32>,
}

/// The index of one half of a log.
pub(crate) struct Index {
    pages: Vec<Entry>,
    /// First-level entries that hold a page, NULL pointers included.
    taken: usize,
    /// First-level entries whose pointer is not NULL: pages with lines.
    live: u64,
    tables: [Tables; SIZES],
    /// Bytes of the second-level tables in use.
    table_bytes: u64,
}

impl Default for Index {
    fn default() -> Self {
        Self {
            pages: vec![Self::NOTHING; LEAST_PAGES],
            taken: 0,
            live: 0,
            tables: Default::default(),
            table_bytes: 0,
        }
    }
}

impl Index {
    const NOTHING: Entry = Entry {
        page: NO_PAGE,
        lines: Pointer::NULL,
    };

    /// Position of the page's first-level entry, or of the free entry where it would go.
    #[inline]
    fn place(&self, page: u64) -> usize {
        // Fibonacci hashing: the high bits of the product are well mixed.
        let bits = self.pages.len().trailing_zeros();
        let hash = page.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - bits);
        let mut at = hash as usize;
        while self.pages[at].page != page && self.pages[at].page != NO_PAGE {
            at = (at + 1) & (self.pages.len() - 1);
        }
        at
    }

    fn table(&self, pointer: Pointer) -> &[u32] {
        let entries = FIRST << pointer.size();
        let first = (pointer.number() * entries) as usize;
        &self.tables[pointer.size()].entries[first..first + entries as usize]
    }

    fn table_mut(&mut self, pointer: Pointer) -> &mut [u32] {
        let entries = FIRST << pointer.size();
        let first = (pointer.number() * entries) as usize;
        &mut self.tables[pointer.size()].entries[first..first + entries as usize]
    }

    /// Offset in the log of a line, if the log has it.
    //= skybyte 3.2
    #[inline]
    pub(crate) fn find(&self, page: u32, line: u32) -> Option<u32> {
        let pointer = self.pages[self.place(u64::from(page))].lines;
        if pointer == Pointer::NULL {
            return None;
        }
        let table = self.table(pointer);
        let entry = table[probe(table, line)];
        (entry != FREE).then_some(entry & ((1 << OFFSET_BITS) - 1))
    }

    /// Maps a line of a page to `offset`, in place of an older offset.
    //= skybyte 3.2
    pub(crate) fn lay(&mut self, page: u32, line: u32, offset: u32) {
        let page = u64::from(page);
        let mut at = self.place(page);
        if self.pages[at].page == NO_PAGE {
            if (self.taken + 1) * 4 > self.pages.len() * 3 {
                self.grow();
                at = self.place(page);
            }
            self.taken += 1;
            self.pages[at].page = page;
        }
        let mut pointer = self.pages[at].lines;
        if pointer == Pointer::NULL {
            pointer = self.allocate(0);
            self.live += 1;
        }
        self.pages[at].lines = self.put(pointer, line, offset);
    }

    fn put(&mut self, mut pointer: Pointer, line: u32, offset: u32) -> Pointer {
        let table = self.table(pointer);
        if table[probe(table, line)] == FREE {
            let (used, entries) = (pointer.used() + 1, table.len() as u32);
            if used * 4 > entries * 3 && entries < LINES {
                pointer = self.double(pointer);
            }
            pointer = Pointer::new(pointer.size(), used, pointer.number());
        }
        let table = self.table_mut(pointer);
        table[probe(table, line)] = line << OFFSET_BITS | offset;
        pointer
    }

    fn double(&mut self, from: Pointer) -> Pointer {
        let to = self.allocate(from.size() + 1);
        let entries = self.table(from).to_vec();
        let table = self.table_mut(to);
        for entry in entries.into_iter().filter(|&entry| entry != FREE) {
            table[probe(table, entry >> OFFSET_BITS)] = entry;
        }
        let to = Pointer::new(to.size(), from.used(), to.number());
        self.release(from);
        to
    }

    fn allocate(&mut self, size: usize) -> Pointer {
        let entries = FIRST << size;
        self.table_bytes += u64::from(entries) * SECOND_BYTES;
        let tables = &mut self.tables[size];
        let number = tables.free.pop().unwrap_or_else(|| {
            let number = tables.entries.len() as u32 / entries;
            let longer = tables.entries.len() + entries as usize;
            tables.entries.resize(longer, FREE);
            number
        });
        Pointer::new(size, 0, number)
    }

    fn release(&mut self, pointer: Pointer) {
        let table = self.table_mut(pointer);
        table.fill(FREE);
        self.table_bytes -= table.len() as u64 * SECOND_BYTES;
        self.tables[pointer.size()].free.push(pointer.number());
    }

    fn grow(&mut self) {
        let doubled = vec![Self::NOTHING; self.pages.len() * 2];
        let entries = std::mem::replace(&mut self.pages, doubled);
        self.taken = 0;
        for entry in entries {
            if entry.lines != Pointer::NULL {
                let at = self.place(entry.page);
                self.pages[at] = entry;
                self.taken += 1;
            }
        }
    }

    /// Removes all lines of a page; its first-level entry stays, with a NULL pointer.
    //= skybyte 3.3
    pub(crate) fn nullify(&mut self, page: u32) {
        let at = self.place(u64::from(page));
        let pointer = std::mem::replace(&mut self.pages[at].lines, Pointer::NULL);
        if pointer != Pointer::NULL {
            self.release(pointer);
            self.live -= 1;
        }
    }

    /// Lines of a page with their offsets, in table order.
    pub(crate) fn lines(&self, page: u32) -> impl Iterator<Item = (u32, u32)> {
        let pointer = self.pages[self.place(u64::from(page))].lines;
        let table = (pointer != Pointer::NULL).then(|| self.table(pointer));
        let entries = table.unwrap_or_default().iter().copied();
        let split = |entry| (entry >> OFFSET_BITS, entry & ((1 << OFFSET_BITS) - 1));
        entries.filter(|&entry| entry != FREE).map(split)
    }

    /// Bit mask of the lines of a page.
    pub(crate) fn mask(&self, page: u32) -> u64 {
        self.lines(page).fold(0, |mask, (line, _)| mask | 1 << line)
    }

    /// The first page with lines at or after position `from` of the first level, and the
    /// position after it. Positions are stable while [`Index::lay`] is not called.
    pub(crate) fn next_page(&self, from: usize) -> Option<(u32, usize)> {
        let rest = self.pages.iter().enumerate().skip(from);
        let mut live = rest.filter(|(_, entry)| entry.lines != Pointer::NULL);
        live.next().map(|(at, entry)| (entry.page as u32, at + 1))
    }

    /// Number of pages that have lines.
    pub(crate) fn pages(&self) -> u64 {
        self.live
    }

    /// Bytes of device DRAM: entries of the first level that point somewhere, and the
    /// tables that they point to.
    pub(crate) fn bytes(&self) -> u64 {
        self.live * FIRST_BYTES + self.table_bytes
    }

    /// Panics if an invariant does not hold.
    pub(crate) fn check(&self) {
        let live = self.pages.iter().filter(|e| e.lines != Pointer::NULL);
        let mut bytes = 0;
        for entry in live.clone() {
            assert!(self.pages[self.place(entry.page)].lines == entry.lines);
            let table = self.table(entry.lines);
            let used = table.iter().filter(|&&entry| entry != FREE);
            for &line in used.clone() {
                assert_eq!(table[probe(table, line >> OFFSET_BITS)], line);
            }
            assert_eq!(used.count() as u32, entry.lines.used());
            bytes += table.len() as u64 * SECOND_BYTES;
        }
        assert_eq!(live.count() as u64, self.live);
        assert_eq!(bytes, self.table_bytes);
    }
}

/// Position of the entry of `line` in a table, or of the free entry where it would go.
#[inline]
fn probe(table: &[u32], line: u32) -> usize {
    let mask = table.len() - 1;
    let mut at = line as usize & mask;
    while table[at] != FREE && table[at] >> OFFSET_BITS != line {
        at = (at + 1) & mask;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_worst_of_a_million_entries_is_32_mib_and_full_tables_are_272() {
        // `skybyte` 3.2: 1 M entries, each the only one of its page.
        let mut index = Index::default();
        let pages = 1 << 16;
        (0..pages).for_each(|page| index.lay(page, page % 64, page));
        let each = index.bytes() / u64::from(pages);
        assert_eq!(each * (1 << 20), 32 << 20);
        let full = FIRST_BYTES + u64::from(LINES) * SECOND_BYTES;
        assert_eq!(full * (1 << 20), 272 << 20);
        // And no page ever takes more than that.
        let mut index = Index::default();
        (0..64).for_each(|line| index.lay(7, line, line));
        assert_eq!(index.bytes(), full);
    }

    #[test]
    fn a_table_doubles_past_three_quarters() {
        let mut index = Index::default();
        let sizes: Vec<u64> = (0..64)
            .map(|line| {
                index.lay(9, line, 0);
                (index.bytes() - FIRST_BYTES) / SECOND_BYTES
            })
            .collect();
        for (used, &size) in (1..).zip(&sizes) {
            let expected = (2..=6).map(|bits| 1 << bits);
            let expected = expected.filter(|&size| used * 4 <= size * 3 || size == 64);
            assert_eq!(size, expected.min().unwrap(), "with {used} lines");
        }
    }

    #[test]
    fn index_behaves_as_a_map_of_lines() {
        let mut rng = sim::Seed(11).stream("index");
        let (mut index, mut model) = (Index::default(), BTreeMap::new());
        for step in 0..60_000 {
            let (page, line) = (rng.below(700) as u32, rng.below(64) as u32);
            match rng.below(20) {
                0 => {
                    index.nullify(page);
                    model.retain(|&(other, _), _| other != page);
                }
                1 => {
                    let mut lines: Vec<_> = index.lines(page).collect();
                    lines.sort_unstable();
                    let of_page = model.range((page, 0)..(page + 1, 0));
                    let expected: Vec<_> = of_page.map(|(&(_, line), &at)| (line, at)).collect();
                    assert_eq!(lines, expected);
                }
                2..10 => assert_eq!(index.find(page, line), model.get(&(page, line)).copied()),
                _ => {
                    // The largest offset of the largest line is not a free entry.
                    let offset = crate::config::MOST_ENTRIES as u32 - 1 - step % 3;
                    index.lay(page, line, offset);
                    model.insert((page, line), offset);
                }
            }
            if step % 5_000 == 0 {
                index.check();
            }
        }
        let mut pages = Vec::new();
        let mut from = 0;
        while let Some((page, next)) = index.next_page(from) {
            pages.push(page);
            from = next;
        }
        pages.sort_unstable();
        let mut expected: Vec<u32> = model.keys().map(|&(page, _)| page).collect();
        expected.dedup();
        assert_eq!(pages, expected);
        assert_eq!(index.pages(), pages.len() as u64);
    }
}
