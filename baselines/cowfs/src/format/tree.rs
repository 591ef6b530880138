//! Items of trees: roots, subvolumes and their names; chunks, and where they are on the device.
//= btrfs-format 5

use super::inode::{INODE, InodeItem};
use super::{Key, Uuid, group, id, kind};
use vfs::Timestamp;

/// The root of a tree.
mod root {
    units::layout! { 439:
        GENERATION: u64 = 160,
        DIR: u64 = 168,
        BYTENR: u64 = 176,
        BYTES_USED: u64 = 192,
        LAST_SNAPSHOT: u64 = 200,
        FLAGS: u64 = 208,
        REFS: u32 = 216,
        LEVEL: u8 = 238,
        GENERATION_AGAIN: u64 = 239,
        UUID: [u8; 16] = 247,
        PARENT_UUID: [u8; 16] = 263,
        CHANGED: u64 = 295,
        MADE: u64 = 303,
        CTIME: u64 = 327,
        CTIME_NANOS: u32 = 335,
        OTIME: u64 = 339,
        OTIME_NANOS: u32 = 347,
    }
    pub(super) const SIZE: usize = 439;
}

/// A subvolume that nothing may be changed in.
pub(crate) const READ_ONLY: u64 = 1;

/// The item of the root of a tree, with what nothing here is known of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RootItem(Box<[u8; root::SIZE]>);

impl RootItem {
    /// One of a tree that is at `bytenr`, with one node.
    pub(crate) fn new(bytenr: u64, generation: u64) -> Self {
        let mut item = Self(Box::new([0; root::SIZE]));
        let inode = InodeItem {
            generation: 1,
            size: 3,
            transid: 0,
            ..InodeItem::top(1, Timestamp::default())
        };
        item.0[..INODE].copy_from_slice(&inode.bytes());
        item.set_place(bytenr, generation, 0);
        root::BYTES_USED.put(&mut item.0[..], super::NODE_BYTES);
        root::REFS.put(&mut item.0[..], 1);
        item
    }

    /// The same of a subvolume.
    pub(crate) fn subvolume(bytenr: u64, generation: u64, uuid: Uuid, now: Timestamp) -> Self {
        let mut item = Self::new(bytenr, generation);
        root::DIR.put(&mut item.0[..], id::FIRST_FREE);
        item.set_identity(uuid, now, generation);
        item.touch(generation, now);
        item
    }

    /// Takes the bytes of an item; older ones end before the second generation.
    pub(crate) fn get(data: &[u8]) -> Self {
        let mut bytes = Box::new([0; root::SIZE]);
        let len = data.len().min(root::SIZE);
        bytes[..len].copy_from_slice(&data[..len]);
        Self(bytes)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0[..]
    }

    pub(crate) fn bytenr(&self) -> u64 {
        root::BYTENR.get(&self.0[..])
    }

    pub(crate) fn generation(&self) -> u64 {
        root::GENERATION.get(&self.0[..])
    }

    pub(crate) fn level(&self) -> u8 {
        root::LEVEL.get(&self.0[..])
    }

    pub(crate) fn bytes_used(&self) -> u64 {
        root::BYTES_USED.get(&self.0[..])
    }

    pub(crate) fn last_snapshot(&self) -> u64 {
        root::LAST_SNAPSHOT.get(&self.0[..])
    }

    pub(crate) fn is_read_only(&self) -> bool {
        root::FLAGS.get(&self.0[..]) & READ_ONLY != 0
    }

    pub(crate) fn uuid(&self) -> Uuid {
        root::UUID.get(&self.0[..])
    }

    pub(crate) fn set_read_only(&mut self, read_only: bool) {
        let flags = root::FLAGS.get(&self.0[..]) & !READ_ONLY;
        root::FLAGS.put(&mut self.0[..], flags | u64::from(read_only));
    }

    /// The subvolume that it was copied from.
    pub(crate) fn set_parent(&mut self, uuid: Uuid) {
        root::PARENT_UUID.put(&mut self.0[..], uuid);
    }

    /// Sets address, generation and level of the root node.
    pub(crate) fn set_place(&mut self, bytenr: u64, generation: u64, level: u8) {
        let out = &mut self.0[..];
        root::BYTENR.put(out, bytenr);
        root::GENERATION.put(out, generation);
        root::GENERATION_AGAIN.put(out, generation);
        root::LEVEL.put(out, level);
    }

    pub(crate) fn set_bytes_used(&mut self, bytes: u64) {
        root::BYTES_USED.put(&mut self.0[..], bytes);
    }

    pub(crate) fn set_last_snapshot(&mut self, generation: u64) {
        root::LAST_SNAPSHOT.put(&mut self.0[..], generation);
    }

    /// Sets the UUID, the creation time and the generation of the creation.
    pub(crate) fn set_identity(&mut self, uuid: Uuid, now: Timestamp, transid: u64) {
        let out = &mut self.0[..];
        root::UUID.put(out, uuid);
        root::MADE.put(out, transid);
        root::OTIME.put(out, now.secs as u64);
        root::OTIME_NANOS.put(out, now.nanos);
    }

    /// Something in it has changed.
    pub(crate) fn touch(&mut self, transid: u64, now: Timestamp) {
        let out = &mut self.0[..];
        root::CHANGED.put(out, transid);
        root::CTIME.put(out, now.secs as u64);
        root::CTIME_NANOS.put(out, now.nanos);
    }
}

/// The name of a subvolume in another one, in the items for either direction.
pub(crate) mod root_ref {
    units::layout! { 18:
        DIR: u64 = 0,
        INDEX: u64 = 8,
        NAME_LEN: u16 = 16,
    }
    pub(crate) const SIZE: usize = 18;

    /// Encodes a reference from the directory `dir`, with the entry's index and name.
    pub(crate) fn bytes(dir: u64, index: u64, name: &[u8]) -> Vec<u8> {
        let mut out = vec![0; SIZE];
        DIR.put(&mut out, dir);
        INDEX.put(&mut out, index);
        NAME_LEN.put(&mut out, name.len() as u16);
        out.extend_from_slice(name);
        out
    }
}

/// Key of the [`UUID_SUBVOL`](kind::UUID_SUBVOL) item of the subvolume `uuid` in the UUID tree.
pub(crate) fn uuid_key(uuid: Uuid) -> Key {
    let half = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| uuid[at + byte]));
    Key::new(half(0), kind::UUID_SUBVOL, half(8))
}

/// A range of addresses, and where on the device it is.
mod chunk {
    units::layout! { 48:
        LEN: u64 = 0,
        OWNER: u64 = 8,
        STRIPE_LEN: u64 = 16,
        FLAGS: u64 = 24,
        IO_ALIGN: u32 = 32,
        IO_WIDTH: u32 = 36,
        SECTOR_SIZE: u32 = 40,
        STRIPES: u16 = 44,
        SUB_STRIPES: u16 = 46,
    }
    pub(super) const SIZE: usize = 48;
}

/// One of the places of a chunk.
mod stripe {
    units::layout! { 32:
        DEVICE: u64 = 0,
        OFFSET: u64 = 8,
        UUID: [u8; 16] = 16,
    }
    pub(super) const SIZE: usize = 32;
}

/// Bytes of a stripe; it matters to devices that are striped only.
pub(crate) const STRIPE: u64 = 65_536;

/// A range of addresses, and where on the device it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) start: u64,
    pub(crate) len: u64,
    pub(crate) flags: u64,
    /// Device address of each copy.
    pub(crate) copies: Vec<u64>,
}

impl Chunk {
    pub(crate) const fn key(&self) -> Key {
        Key::new(id::CHUNKS, kind::CHUNK_ITEM, self.start)
    }

    /// Its bytes as an item.
    pub(crate) fn item(&self, device: Uuid) -> Vec<u8> {
        let mut out = vec![0; chunk::SIZE];
        chunk::LEN.put(&mut out, self.len);
        chunk::OWNER.put(&mut out, id::EXTENT_TREE);
        chunk::STRIPE_LEN.put(&mut out, STRIPE);
        chunk::FLAGS.put(&mut out, self.flags);
        chunk::IO_ALIGN.put(&mut out, STRIPE as u32);
        chunk::IO_WIDTH.put(&mut out, STRIPE as u32);
        chunk::SECTOR_SIZE.put(&mut out, super::SECTOR as u32);
        chunk::STRIPES.put(&mut out, self.copies.len() as u16);
        chunk::SUB_STRIPES.put(&mut out, 1);
        for copy in &self.copies {
            let mut bytes = [0; stripe::SIZE];
            stripe::DEVICE.put(&mut bytes, id::DEVICE);
            stripe::OFFSET.put(&mut bytes, *copy);
            stripe::UUID.put(&mut bytes, device);
            out.extend(bytes);
        }
        out
    }

    /// Bytes of its item at the start of `data`.
    pub(crate) fn item_len(data: &[u8]) -> Option<usize> {
        let stripes = usize::from(chunk::STRIPES.get(data.get(..chunk::SIZE)?));
        Some(chunk::SIZE + stripes * stripe::SIZE)
    }

    /// The chunk at `start` that an item is of; none if it is on other devices, or spread
    /// over several places.
    pub(crate) fn get(start: u64, data: &[u8]) -> Option<Self> {
        let data = data.get(..Self::item_len(data)?)?;
        let flags = chunk::FLAGS.get(data);
        let copies: Vec<u64> = data[chunk::SIZE..]
            .chunks_exact(stripe::SIZE)
            .filter(|one| stripe::DEVICE.get(one) == id::DEVICE)
            .map(|one| stripe::OFFSET.get(one))
            .collect();
        let wanted = if flags & group::DUP == 0 { 1 } else { 2 };
        let known = flags & !(group::WHAT | group::DUP) == 0;
        let single = (flags & group::WHAT).count_ones() == 1;
        let len = chunk::LEN.get(data);
        let ends = copies
            .iter()
            .chain([&start])
            .all(|copy| copy.checked_add(len).is_some() && copy.is_multiple_of(4_096));
        let whole = len > 0 && len.is_multiple_of(4_096);
        let sound = known && single && copies.len() == wanted && ends && whole;
        sound.then_some(Self {
            start,
            len,
            flags,
            copies,
        })
    }
}

/// A range of the device that a chunk has.
pub(crate) mod dev_extent {
    units::layout! { 48:
        CHUNK_TREE: u64 = 0,
        CHUNK_OBJECT: u64 = 8,
        CHUNK: u64 = 16,
        LEN: u64 = 24,
        CHUNK_TREE_UUID: [u8; 16] = 32,
    }
    pub(crate) const SIZE: usize = 48;

    /// Encodes the extent of the device that belongs to the chunk at address `chunk`.
    pub(crate) fn bytes(chunk: u64, len: u64, chunk_tree: super::Uuid) -> [u8; SIZE] {
        let mut out = [0; SIZE];
        CHUNK_TREE.put(&mut out, super::id::CHUNK_TREE);
        CHUNK_OBJECT.put(&mut out, super::id::CHUNKS);
        CHUNK.put(&mut out, chunk);
        LEN.put(&mut out, len);
        CHUNK_TREE_UUID.put(&mut out, chunk_tree);
        out
    }
}

/// Whether an item is one that the functions here can read, if it is one of theirs.
pub(crate) fn is_sound(owner: u64, key: Key, data: &[u8]) -> bool {
    match key.kind {
        kind::ROOT_ITEM => {
            let whole = data.len() == root::SIZE || data.len() == 239;
            whole && root::LEVEL.get(data) < super::node::LEVELS as u8
        }
        kind::ROOT_REF | kind::ROOT_BACKREF => {
            let len = data
                .get(..root_ref::SIZE)
                .map(|d| root_ref::NAME_LEN.get(d));
            len.is_some_and(|len| root_ref::SIZE + usize::from(len) == data.len())
        }
        kind::CHUNK_ITEM => Chunk::item_len(data) == Some(data.len()),
        kind::DEV_EXTENT => data.len() == dev_extent::SIZE,
        kind::DEV_ITEM if owner == id::CHUNK_TREE => data.len() == super::superblock::DEVICE,
        kind::UUID_SUBVOL => data.len().is_multiple_of(8),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_read_back() {
        let chunk = Chunk {
            start: 5 << 20,
            len: 8 << 20,
            flags: group::METADATA | group::DUP,
            copies: vec![1 << 20, 40 << 20],
        };
        let item = chunk.item([3; 16]);
        assert_eq!(Chunk::get(5 << 20, &item), Some(chunk.clone()));
        assert_eq!(Chunk::item_len(&item), Some(112));
        assert_eq!(Chunk::get(5 << 20, &item[..100]), None);
        let striped = Chunk {
            flags: group::METADATA | 1 << 3,
            ..chunk
        };
        assert_eq!(Chunk::get(5 << 20, &striped.item([3; 16])), None);
    }
}
