//! Entries of directories: slots with a bit, a hash, an inode and names in pieces of
//! eight bytes; where the slots are depends on whether they are in a block or an inode.
//! And the levels of hash tables that the blocks of a directory are.

use super::node::INLINE_MOST;
use super::{BLOCK, layout, low_bit, set_low_bit};
use vfs::FileKind;

/// Bytes of a piece of a name.
const PIECE: usize = 8;
/// Bytes of an entry.
const ENTRY: usize = 11;
/// Slots of a block.
const BLOCK_SLOTS: usize = 214;
/// Slots of an inode.
const INLINE_SLOTS: usize = INLINE_MOST * 8 / ((ENTRY + PIECE) * 8 + 1);
/// Levels of a directory at most.
pub(crate) const LEVELS: u32 = 63;

mod raw {
    //= f2fs-layout 7
    super::layout! { 11:
        HASH: u32 = 0,
        INO: u32 = 4,
        NAME_LEN: u16 = 8,
        KIND: u8 = 10,
    }
}

/// Layout of a table of entries in a block or an inode, in bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Number of slots in the table.
    pub(crate) slots: usize,
    entries: usize,
    names: usize,
}

/// Entries in a block.
pub(crate) const IN_BLOCK: Shape = Shape {
    slots: BLOCK_SLOTS,
    entries: BLOCK - BLOCK_SLOTS * (ENTRY + PIECE),
    names: BLOCK - BLOCK_SLOTS * PIECE,
};

/// Entries in an inode.
pub(crate) const IN_INODE: Shape = Shape {
    slots: INLINE_SLOTS,
    entries: INLINE_MOST - INLINE_SLOTS * (ENTRY + PIECE),
    names: INLINE_MOST - INLINE_SLOTS * PIECE,
};

const _: () = assert!(INLINE_SLOTS == 182 && IN_BLOCK.entries == 30);

/// An entry, as it lies in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    /// First slot of the entry in its table.
    pub(crate) slot: usize,
    pub(crate) hash: u32,
    pub(crate) ino: u32,
    /// Kind of the file; `None` if the byte on the medium is not a known kind.
    pub(crate) kind: Option<FileKind>,
    pub(crate) name: &'a [u8],
}

/// Slots that a name of so many bytes takes.
pub(crate) const fn slots_of(name: usize) -> usize {
    name.div_ceil(PIECE)
}

impl Shape {
    /// The entry in `slot`; none if the slot is free or cannot begin one.
    pub(crate) fn entry<'a>(&self, table: &'a [u8], slot: usize) -> Option<Entry<'a>> {
        if slot >= self.slots || !low_bit(table, slot) {
            return None;
        }
        let raw = &table[self.entries + slot * ENTRY..];
        let len = usize::from(raw::NAME_LEN.get(raw));
        let fits = (1..=255).contains(&len) && slot + slots_of(len) <= self.slots;
        let at = self.names + slot * PIECE;
        fits.then(|| Entry {
            slot,
            hash: raw::HASH.get(raw),
            ino: raw::INO.get(raw),
            kind: FileKind::of_entry(raw::KIND.get(raw)),
            name: &table[at..at + len],
        })
    }

    /// All entries from `slot` on. A slot that is in use and cannot begin an entry is passed over.
    pub(crate) fn entries<'a>(
        &self,
        table: &'a [u8],
        slot: usize,
    ) -> impl Iterator<Item = Entry<'a>> {
        let (shape, mut slot) = (*self, slot);
        std::iter::from_fn(move || {
            while slot < shape.slots {
                let entry = shape.entry(table, slot);
                slot += entry.map_or(1, |entry| slots_of(entry.name.len()));
                if entry.is_some() {
                    return entry;
                }
            }
            None
        })
    }

    /// The entry of this name.
    pub(crate) fn find<'a>(&self, table: &'a [u8], name: &[u8], hash: u32) -> Option<Entry<'a>> {
        let mut entries = self.entries(table, 0);
        entries.find(|entry| entry.hash == hash && entry.name == name)
    }

    /// Free slots in a row for a name of so many bytes.
    pub(crate) fn room(&self, table: &[u8], name: usize) -> Option<usize> {
        let (needed, mut run) = (slots_of(name), 0);
        for slot in 0..self.slots {
            run = if low_bit(table, slot) { 0 } else { run + 1 };
            if run == needed {
                return Some(slot + 1 - needed);
            }
        }
        None
    }

    /// Puts an entry into `slot`, from which on there is room for it.
    pub(crate) fn put(&self, table: &mut [u8], slot: usize, name: &[u8], ino: u32, kind: FileKind) {
        let raw = &mut table[self.entries + slot * ENTRY..];
        raw::HASH.put(raw, hash(name));
        raw::NAME_LEN.put(raw, name.len() as u16);
        self.lead(table, slot, ino, kind);
        let at = self.names + slot * PIECE;
        let pieces = slots_of(name.len());
        table[at..at + pieces * PIECE].fill(0);
        table[at..at + name.len()].copy_from_slice(name);
        for slot in slot..slot + pieces {
            set_low_bit(table, slot, true);
        }
    }

    /// Makes the entry in `slot` lead elsewhere.
    pub(crate) fn lead(&self, table: &mut [u8], slot: usize, ino: u32, kind: FileKind) {
        let raw = &mut table[self.entries + slot * ENTRY..];
        raw::INO.put(raw, ino);
        raw::KIND.put(raw, kind.entry_number());
    }

    /// Frees the slots of an entry with a name of so many bytes.
    pub(crate) fn remove(&self, table: &mut [u8], slot: usize, name: usize) {
        for slot in slot..slot + slots_of(name) {
            set_low_bit(table, slot, false);
        }
    }

    /// Takes all that a table of another shape with fewer slots has, in the same slots.
    pub(crate) fn take_over(&self, table: &mut [u8], from: &Self, old: &[u8]) {
        for slot in 0..from.slots {
            set_low_bit(table, slot, low_bit(old, slot));
        }
        let (entries, names) = (from.slots * ENTRY, from.slots * PIECE);
        table[self.entries..self.entries + entries]
            .copy_from_slice(&old[from.entries..from.entries + entries]);
        table[self.names..self.names + names].copy_from_slice(&old[from.names..from.names + names]);
    }

    /// Whether there is anything but `.` and `..`.
    pub(crate) fn is_empty(&self, table: &[u8]) -> bool {
        let mut names = self.entries(table, 0).map(|entry| entry.name);
        names.all(|name| name == b"." || name == b"..")
    }
}

/// Tables of a level.
const fn buckets(level: u32, dir_level: u32) -> u64 {
    let total = level + dir_level;
    1 << if total < LEVELS / 2 {
        total
    } else {
        LEVELS / 2 - 1
    }
}

/// Blocks of a table of a level.
pub(crate) const fn bucket_blocks(level: u32) -> u64 {
    if level < LEVELS / 2 { 2 } else { 4 }
}

/// The first block of the table of `level` that names with this hash are in.
//= f2fs-layout 7
pub(crate) fn bucket(level: u32, dir_level: u8, hash: u32) -> u64 {
    let dir_level = u32::from(dir_level);
    let before: u64 = (0..level)
        .map(|level| buckets(level, dir_level) * bucket_blocks(level))
        .sum();
    let index = u64::from(hash) % buckets(level, dir_level);
    before + index * bucket_blocks(level)
}

/// The hash of a name.
//= f2fs-layout 7
pub(crate) fn hash(name: &[u8]) -> u32 {
    if name == b"." || name == b".." {
        return 0;
    }
    let mut state = [0x6745_2301, 0xEFCD_AB89];
    let mut rest = name;
    loop {
        mix(&mut state, words(rest));
        if rest.len() <= 16 {
            return state[0];
        }
        rest = &rest[16..];
    }
}

/// Up to sixteen bytes as words. What is missing is made of the length of all that is left.
fn words(rest: &[u8]) -> [u32; 4] {
    let len = rest.len() as u32;
    let pad = len | len << 8;
    let mut words = [pad | pad << 16; 4];
    for (at, &byte) in rest.iter().take(16).enumerate() {
        let word = &mut words[at / 4];
        *word = u32::from(byte).wrapping_add(*word << 8);
    }
    words
}

/// Sixteen rounds of the Tiny Encryption Algorithm.
fn mix(state: &mut [u32; 2], key: [u32; 4]) {
    let [mut low, mut high] = *state;
    let mut sum = 0_u32;
    let half = |other: u32, sum: u32, a: u32, b: u32| {
        let shifted = (other << 4).wrapping_add(a) ^ other.wrapping_add(sum);
        shifted ^ (other >> 5).wrapping_add(b)
    };
    for _ in 0..16 {
        sum = sum.wrapping_add(0x9E37_79B9);
        low = low.wrapping_add(half(high, sum, key[0], key[1]));
        high = high.wrapping_add(half(low, sum, key[2], key[3]));
    }
    state[0] = state[0].wrapping_add(low);
    state[1] = state[1].wrapping_add(high);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_hold_what_is_put_into_them() {
        for (shape, bytes) in [(IN_BLOCK, BLOCK), (IN_INODE, INLINE_MOST)] {
            let mut table = vec![0; bytes];
            let names: Vec<Vec<u8>> = (1..20).map(|n| vec![b'a' + n; n as usize * 5]).collect();
            for (name, ino) in names.iter().zip(10..) {
                let slot = shape.room(&table, name.len()).unwrap();
                shape.put(&mut table, slot, name, ino, FileKind::Fifo);
            }
            for (name, ino) in names.iter().zip(10..) {
                let entry = shape.find(&table, name, hash(name)).unwrap();
                assert_eq!((entry.ino, entry.kind), (ino, Some(FileKind::Fifo)));
            }
            let entry = shape.find(&table, &names[3], hash(&names[3])).unwrap();
            let slot = entry.slot;
            shape.remove(&mut table, slot, names[3].len());
            assert_eq!(shape.entries(&table, 0).count(), 18);
            assert_eq!(shape.room(&table, names[3].len()), Some(slot));
            assert_eq!(shape.room(&table, 8 * shape.slots), None);
        }
    }

    #[test]
    fn levels_lie_one_after_the_other() {
        assert_eq!(bucket(0, 0, 77), 0);
        assert_eq!([bucket(1, 0, 4), bucket(1, 0, 5)], [2, 4]);
        assert_eq!(bucket(2, 0, 3), 2 + 4 + 3 * 2);
        assert_eq!(bucket(0, 2, 3), 6);
    }
}
