//! Nodes of trees: a header, and then pointers to nodes below, or items whose data are at
//! the end of the node, the first item's last.
//!
//! Invariant: [`verify`] lets nothing through that the other functions could stumble over.
//= btrfs-format 2

use super::{Key, NODE, Uuid, sum};
use super::{extent, inode, tree};

/// The header of a node.
pub(crate) mod head {
    units::layout! { 101:
        SUM: u32 = 0,
        FSID: [u8; 16] = 32,
        /// Logical address of the node.
        BYTENR: u64 = 48,
        /// Flags, and in the last byte the revision of references.
        FLAGS: u64 = 56,
        CHUNK_TREE_UUID: [u8; 16] = 64,
        GENERATION: u64 = 80,
        /// The tree that it was made for.
        OWNER: u64 = 88,
        ITEMS: u32 = 96,
        LEVEL: u8 = 100,
    }
    /// Size of the header in bytes.
    pub(crate) const SIZE: usize = 101;
}

/// Flag of a node that was written.
pub(crate) const WRITTEN: u64 = 1;
/// Revision 1 of references, in the last byte of the flags.
pub(crate) const MIXED: u64 = 1 << 56;
/// Bytes of a header that its sum is not over.
pub(crate) const SUM_BYTES: usize = 32;
/// Bytes of an item without its data: a key, where the data are, and how many.
pub(crate) const ITEM: usize = 25;
/// Bytes of a pointer: a key, an address, and a generation.
pub(crate) const POINTER: usize = 33;
/// Bytes of a leaf behind its header.
pub(crate) const LEAF: usize = NODE - head::SIZE;
/// Pointers of an inner node, at most.
pub(crate) const POINTERS: usize = LEAF / POINTER;
/// Levels of a tree, at most.
pub(crate) const LEVELS: usize = 8;
/// The largest data of an item.
pub(crate) const ITEM_MOST: usize = LEAF - ITEM;

/// Bytes of a node.
pub(crate) type Bytes = [u8; NODE];

/// A node of zeros.
pub(crate) fn blank() -> Box<Bytes> {
    let bytes = vec![0; NODE].into_boxed_slice();
    bytes.try_into().expect("it has this length")
}

/// Identity and level of a node, for its header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) fsid: Uuid,
    pub(crate) chunk_tree: Uuid,
    pub(crate) bytenr: u64,
    pub(crate) generation: u64,
    pub(crate) owner: u64,
    pub(crate) level: u8,
}

/// Makes a node without items or pointers.
pub(crate) fn fresh(head: &Head) -> Box<Bytes> {
    let mut bytes = blank();
    let out = &mut bytes[..];
    head::FSID.put(out, head.fsid);
    head::CHUNK_TREE_UUID.put(out, head.chunk_tree);
    head::BYTENR.put(out, head.bytenr);
    head::FLAGS.put(out, MIXED);
    head::GENERATION.put(out, head.generation);
    head::OWNER.put(out, head.owner);
    head::LEVEL.put(out, head.level);
    bytes
}

/// Puts the sum of a node into it, which is about to be written.
pub(crate) fn seal(bytes: &mut Bytes) {
    let flags = head::FLAGS.get(bytes);
    head::FLAGS.put(bytes, flags | WRITTEN);
    let sum = sum(&bytes[SUM_BYTES..]);
    head::SUM.put(bytes, sum);
}

pub(crate) fn items(bytes: &Bytes) -> usize {
    head::ITEMS.get(bytes) as usize
}

pub(crate) fn level(bytes: &Bytes) -> u8 {
    head::LEVEL.get(bytes)
}

pub(crate) fn generation(bytes: &Bytes) -> u64 {
    head::GENERATION.get(bytes)
}

pub(crate) fn owner(bytes: &Bytes) -> u64 {
    head::OWNER.get(bytes)
}

/// Byte offset of the key of item or pointer `slot`.
fn place(bytes: &Bytes, slot: usize) -> usize {
    let each = if level(bytes) == 0 { ITEM } else { POINTER };
    head::SIZE + slot * each
}

pub(crate) fn key(bytes: &Bytes, slot: usize) -> Key {
    Key::get(&bytes[place(bytes, slot)..])
}

pub(crate) fn set_key(bytes: &mut Bytes, slot: usize, key: Key) {
    let at = place(bytes, slot);
    key.put(&mut bytes[at..]);
}

fn number(bytes: &Bytes, at: usize) -> usize {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize
}

fn set_number(bytes: &mut Bytes, at: usize, value: usize) {
    bytes[at..at + 4].copy_from_slice(&(value as u32).to_le_bytes());
}

/// Start of an item's data, relative to the end of the header, and their length in bytes.
fn span(bytes: &Bytes, slot: usize) -> (usize, usize) {
    let at = head::SIZE + slot * ITEM + Key::BYTES;
    (number(bytes, at), number(bytes, at + 4))
}

fn set_span(bytes: &mut Bytes, slot: usize, (start, len): (usize, usize)) {
    let at = head::SIZE + slot * ITEM + Key::BYTES;
    set_number(bytes, at, start);
    set_number(bytes, at + 4, len);
}

/// The data of an item.
pub(crate) fn data(bytes: &Bytes, slot: usize) -> &[u8] {
    let (start, len) = span(bytes, slot);
    &bytes[head::SIZE + start..][..len]
}

/// The same, to be changed.
pub(crate) fn data_mut(bytes: &mut Bytes, slot: usize) -> &mut [u8] {
    let (start, len) = span(bytes, slot);
    &mut bytes[head::SIZE + start..][..len]
}

/// Start of the last item's data, relative to the end of the header; the size of a leaf if it is
/// empty.
fn data_start(bytes: &Bytes) -> usize {
    match items(bytes) {
        0 => LEAF,
        count => span(bytes, count - 1).0,
    }
}

/// Bytes of a leaf that are free.
pub(crate) fn room(bytes: &Bytes) -> usize {
    data_start(bytes) - items(bytes) * ITEM
}

/// Bytes of a leaf that items take.
pub(crate) fn used(bytes: &Bytes) -> usize {
    LEAF - room(bytes)
}

/// The first slot whose key is not below `key`, and whether it is that one.
pub(crate) fn search(bytes: &Bytes, key: Key) -> (usize, bool) {
    let each = if level(bytes) == 0 { ITEM } else { POINTER };
    let (mut low, mut high) = (0, items(bytes));
    while low < high {
        let middle = usize::midpoint(low, high);
        match Key::get(&bytes[head::SIZE + middle * each..]).cmp(&key) {
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Equal => return (middle, true),
            std::cmp::Ordering::Greater => high = middle,
        }
    }
    (low, false)
}

/// A pointer to a node below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pointer {
    pub(crate) key: Key,
    pub(crate) bytenr: u64,
    pub(crate) generation: u64,
}

pub(crate) fn pointer(bytes: &Bytes, slot: usize) -> Pointer {
    let at = head::SIZE + slot * POINTER;
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
    Pointer {
        key: Key::get(&bytes[at..]),
        bytenr: word(at + Key::BYTES),
        generation: word(at + Key::BYTES + 8),
    }
}

pub(crate) fn set_pointer(bytes: &mut Bytes, slot: usize, pointer: Pointer) {
    let at = head::SIZE + slot * POINTER;
    pointer.key.put(&mut bytes[at..]);
    bytes[at + Key::BYTES..][..8].copy_from_slice(&pointer.bytenr.to_le_bytes());
    bytes[at + Key::BYTES + 8..][..8].copy_from_slice(&pointer.generation.to_le_bytes());
}

fn set_items(bytes: &mut Bytes, count: usize) {
    head::ITEMS.put(bytes, count as u32);
}

/// Puts a pointer before those from `slot` on; there is room.
pub(crate) fn insert_pointer(bytes: &mut Bytes, slot: usize, pointer: Pointer) {
    let count = items(bytes);
    let (from, to) = (head::SIZE + slot * POINTER, head::SIZE + count * POINTER);
    bytes.copy_within(from..to, from + POINTER);
    set_items(bytes, count + 1);
    set_pointer(bytes, slot, pointer);
}

pub(crate) fn remove_pointer(bytes: &mut Bytes, slot: usize) {
    let count = items(bytes);
    let (from, to) = (head::SIZE + slot * POINTER, head::SIZE + count * POINTER);
    bytes.copy_within(from + POINTER..to, from);
    bytes[to - POINTER..to].fill(0);
    set_items(bytes, count - 1);
}

/// Moves the data of all items from `slot` on by `by` bytes, down or up.
fn shift_data(bytes: &mut Bytes, slot: usize, by: isize) {
    let count = items(bytes);
    if slot >= count || by == 0 {
        return;
    }
    let (first, len) = span(bytes, slot);
    let from = head::SIZE + data_start(bytes);
    let to = from.wrapping_add_signed(by);
    bytes.copy_within(from..head::SIZE + first + len, to);
    for slot in slot..count {
        let (start, len) = span(bytes, slot);
        set_span(bytes, slot, (start.wrapping_add_signed(by), len));
    }
}

/// Puts an item with `len` bytes of zeros before those from `slot` on; there is room.
pub(crate) fn insert_item(bytes: &mut Bytes, slot: usize, key: Key, len: usize) {
    let count = items(bytes);
    let end = match slot {
        0 => LEAF,
        _ => span(bytes, slot - 1).0,
    };
    shift_data(bytes, slot, -(len as isize));
    let (from, to) = (head::SIZE + slot * ITEM, head::SIZE + count * ITEM);
    bytes.copy_within(from..to, from + ITEM);
    set_items(bytes, count + 1);
    key.put(&mut bytes[from..]);
    set_span(bytes, slot, (end - len, len));
    data_mut(bytes, slot).fill(0);
}

/// Takes items out, `count` of them from `slot` on.
pub(crate) fn remove_items(bytes: &mut Bytes, slot: usize, count: usize) {
    let all = items(bytes);
    let freed: usize = (slot..slot + count).map(|at| span(bytes, at).1).sum();
    shift_data(bytes, slot + count, freed as isize);
    let (from, to) = (head::SIZE + slot * ITEM, head::SIZE + all * ITEM);
    bytes.copy_within(from + count * ITEM..to, from);
    bytes[to - count * ITEM..to].fill(0);
    set_items(bytes, all - count);
}

/// Changes the length of an item's data, whose first bytes stay; there is room.
pub(crate) fn resize_item(bytes: &mut Bytes, slot: usize, len: usize) {
    let (start, old) = span(bytes, slot);
    let by = old as isize - len as isize;
    if by < 0 {
        shift_data(bytes, slot, by);
        // Its data went down as a whole; what they gained is behind them.
        let from = start.wrapping_add_signed(by);
        set_span(bytes, slot, (from, len));
        bytes[head::SIZE + from + old..head::SIZE + from + len].fill(0);
    } else if by > 0 {
        let at = head::SIZE + start;
        bytes.copy_within(at..at + len, at + old - len);
        set_span(bytes, slot, (start + old - len, len));
        shift_data(bytes, slot + 1, by);
    }
}

/// Appends items or pointers `from..to` of one node to another of the same level.
pub(crate) fn append(to: &mut Bytes, from: &Bytes, slots: std::ops::Range<usize>) {
    let mut count = items(to);
    if level(from) > 0 {
        let first = head::SIZE + slots.start * POINTER;
        let len = slots.len() * POINTER;
        let at = head::SIZE + count * POINTER;
        to[at..at + len].copy_from_slice(&from[first..first + len]);
        set_items(to, count + slots.len());
        return;
    }
    let mut start = data_start(to);
    for slot in slots {
        let bytes = data(from, slot);
        start -= bytes.len();
        to[head::SIZE + start..][..bytes.len()].copy_from_slice(bytes);
        let at = head::SIZE + count * ITEM;
        key(from, slot).put(&mut to[at..]);
        set_span(to, count, (start, bytes.len()));
        count += 1;
    }
    set_items(to, count);
}

/// Takes away all items or pointers from `slot` on.
pub(crate) fn cut(bytes: &mut Bytes, slot: usize) {
    let count = items(bytes);
    if level(bytes) > 0 {
        let (from, to) = (head::SIZE + slot * POINTER, head::SIZE + count * POINTER);
        bytes[from..to].fill(0);
        set_items(bytes, slot);
    } else {
        remove_items(bytes, slot, count - slot);
    }
}

/// Properties of a node that its parent states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) bytenr: u64,
    pub(crate) generation: u64,
    pub(crate) level: u8,
    /// First key of the node in the pointer of its parent; `None` for a root.
    pub(crate) first: Option<Key>,
}

/// Whether a node that is whole can be the one that is expected. One that is being split has
/// no items yet, and the keys of no item.
pub(crate) fn is(bytes: &Bytes, expected: &Expected) -> bool {
    let leads = |first| items(bytes) == 0 || key(bytes, 0) == first;
    level(bytes) == expected.level
        && generation(bytes) == expected.generation
        && expected.first.is_none_or(leads)
}

/// Whether a node is whole, and the one that it is expected to be.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn verify(
    bytes: &Bytes,
    expected: &Expected,
    fsid: &Uuid,
) -> std::result::Result<(), &'static str> {
    let ensure = |holds, what| if holds { Ok(()) } else { Err(what) };
    let sound = head::SUM.get(bytes) == sum(&bytes[SUM_BYTES..]);
    ensure(sound, "has another sum")?;
    ensure(head::FSID.get(bytes) == *fsid, "is of another file system")?;
    let here = head::BYTENR.get(bytes) == expected.bytenr;
    ensure(here, "belongs elsewhere")?;
    ensure(level(bytes) == expected.level, "has another level")?;
    ensure(usize::from(expected.level) < LEVELS, "is too high")?;
    let born = generation(bytes) == expected.generation;
    ensure(born, "is of another generation")?;
    let count = items(bytes);
    let most = if expected.level == 0 {
        LEAF / ITEM
    } else {
        POINTERS
    };
    ensure(count <= most, "has too many items")?;
    ensure(count > 0 || expected.level == 0, "has no pointers")?;
    if let Some(first) = expected.first {
        let is_first = count > 0 && key(bytes, 0) == first;
        ensure(is_first, "has another first key")?;
    }
    let rises = (1..count).all(|slot| key(bytes, slot - 1) < key(bytes, slot));
    ensure(rises, "has keys out of order")?;
    if expected.level > 0 {
        let aligned = |slot| pointer(bytes, slot).bytenr.is_multiple_of(4096);
        return ensure((0..count).all(aligned), "leads to half a sector");
    }
    verify_items(bytes, count)
}

fn verify_items(bytes: &Bytes, count: usize) -> std::result::Result<(), &'static str> {
    let mut end = LEAF;
    for slot in 0..count {
        let (start, len) = span(bytes, slot);
        if start.checked_add(len) != Some(end) || start < count * ITEM {
            return Err("has items that do not meet");
        }
        end = start;
    }
    let owner = owner(bytes);
    for slot in 0..count {
        let (key, data) = (key(bytes, slot), data(bytes, slot));
        let sound = extent::is_sound(key, data)
            && inode::is_sound(key, data)
            && tree::is_sound(owner, key, data);
        if !sound {
            return Err("has a damaged item");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn leaf() -> Box<Bytes> {
        fresh(&Head {
            fsid: [1; 16],
            chunk_tree: [2; 16],
            bytenr: 1 << 20,
            generation: 3,
            owner: 5,
            level: 0,
        })
    }

    /// Items of kind 0 stand for anything.
    fn key_of(number: u64) -> Key {
        Key::new(number, 0, 0)
    }

    #[test]
    fn a_leaf_holds_what_a_map_does() {
        let mut rng = sim::Seed(1).stream("items");
        let (mut bytes, mut model) = (leaf(), BTreeMap::<Key, Vec<u8>>::new());
        for round in 0..20_000_u64 {
            let key = key_of(rng.below(40));
            let (slot, found) = search(&bytes, key);
            assert_eq!(found, model.contains_key(&key));
            let len = rng.below(600) as usize;
            match (found, rng.below(3)) {
                (true, 0) => {
                    remove_items(&mut bytes, slot, 1);
                    model.remove(&key);
                }
                (true, _) if room(&bytes) >= len => {
                    resize_item(&mut bytes, slot, len);
                    model.get_mut(&key).unwrap().resize(len, 0);
                }
                (false, _) if room(&bytes) >= len + ITEM => {
                    insert_item(&mut bytes, slot, key, len);
                    data_mut(&mut bytes, slot).fill(round as u8);
                    model.insert(key, vec![round as u8; len]);
                }
                _ => {}
            }
            let held: Vec<_> = (0..items(&bytes))
                .map(|slot| (super::key(&bytes, slot), data(&bytes, slot).to_vec()))
                .collect();
            assert_eq!(held, model.clone().into_iter().collect::<Vec<_>>());
            assert_eq!(verify_items(&bytes, items(&bytes)), Ok(()));
        }
    }

    #[test]
    fn halves_of_a_leaf_make_a_whole_one() {
        let mut bytes = leaf();
        for number in 0..30 {
            insert_item(&mut bytes, number, key_of(number as u64), number * 7);
            data_mut(&mut bytes, number).fill(number as u8);
        }
        let (mut left, mut right) = (bytes.clone(), leaf());
        append(&mut right, &bytes, 11..30);
        cut(&mut left, 11);
        assert_eq!((items(&left), items(&right)), (11, 19));
        append(&mut left, &right, 0..19);
        assert_eq!(used(&left), used(&bytes));
        for slot in 0..30 {
            assert_eq!(data(&left, slot), data(&bytes, slot));
        }
    }

    #[test]
    fn a_changed_bit_is_noticed() {
        let mut bytes = leaf();
        let expected = Expected {
            bytenr: 1 << 20,
            generation: 3,
            level: 0,
            first: None,
        };
        seal(&mut bytes);
        assert_eq!(verify(&bytes, &expected, &[1; 16]), Ok(()));
        bytes[9_000] ^= 4;
        assert_eq!(verify(&bytes, &expected, &[1; 16]), Err("has another sum"));
    }
}
