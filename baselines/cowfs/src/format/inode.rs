//! Items of files and directories: inodes, names, attributes.
//= btrfs-format 4

use super::{Key, kind, name_hash, raw_crc};
use vfs::{Attr, FileKind, Timestamp};

/// The item of an inode.
mod item {
    units::layout! { 160:
        GENERATION: u64 = 0,
        TRANSID: u64 = 8,
        SIZE: u64 = 16,
        NBYTES: u64 = 24,
        BLOCK_GROUP: u64 = 32,
        NLINK: u32 = 40,
        UID: u32 = 44,
        GID: u32 = 48,
        MODE: u32 = 52,
        RDEV: u64 = 56,
        FLAGS: u64 = 64,
        SEQUENCE: u64 = 72,
        ATIME: u64 = 112,
        ATIME_NANOS: u32 = 120,
        CTIME: u64 = 124,
        CTIME_NANOS: u32 = 132,
        MTIME: u64 = 136,
        MTIME_NANOS: u32 = 144,
        OTIME: u64 = 148,
        OTIME_NANOS: u32 = 156,
    }
}

/// Bytes of an inode.
pub(crate) const INODE: usize = 160;

/// The contents have no sums.
pub(crate) const NODATASUM: u64 = 1;
/// The contents are overwritten in place.
pub(crate) const NODATACOW: u64 = 2;
/// An inode as it lies on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InodeItem {
    pub(crate) generation: u64,
    /// The transaction that has changed it last.
    pub(crate) transid: u64,
    pub(crate) size: u64,
    /// Bytes of its extents, inline ones too.
    pub(crate) nbytes: u64,
    pub(crate) nlink: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mode: u32,
    pub(crate) rdev: u64,
    pub(crate) flags: u64,
    pub(crate) sequence: u64,
    pub(crate) atime: Timestamp,
    pub(crate) ctime: Timestamp,
    pub(crate) mtime: Timestamp,
    pub(crate) otime: Timestamp,
}

fn time(secs: u64, nanos: u32) -> Timestamp {
    Timestamp {
        secs: secs as i64,
        nanos: nanos.min(999_999_999),
    }
}

/// Device numbers of the file API have the major number in bits 8 to 19, those of the
/// format in bits 20 and up.
fn device_of(rdev: u64) -> u32 {
    let (major, minor) = ((rdev >> 20) as u32, rdev as u32 & 0xF_FFFF);
    minor & 0xFF | (major & 0xFFF) << 8 | (minor & !0xFF) << 12
}

fn device_in_format(rdev: u32) -> u64 {
    let (major, minor) = (rdev >> 8 & 0xFFF, rdev & 0xFF | rdev >> 12 & 0xF_FF00);
    u64::from(major) << 20 | u64::from(minor)
}

impl InodeItem {
    /// Decodes `data`, which must have the size of an inode item.
    pub(crate) fn get(data: &[u8]) -> Self {
        Self {
            generation: item::GENERATION.get(data),
            transid: item::TRANSID.get(data),
            size: item::SIZE.get(data),
            nbytes: item::NBYTES.get(data),
            nlink: item::NLINK.get(data),
            uid: item::UID.get(data),
            gid: item::GID.get(data),
            mode: item::MODE.get(data),
            rdev: item::RDEV.get(data),
            flags: item::FLAGS.get(data),
            sequence: item::SEQUENCE.get(data),
            atime: time(item::ATIME.get(data), item::ATIME_NANOS.get(data)),
            ctime: time(item::CTIME.get(data), item::CTIME_NANOS.get(data)),
            mtime: time(item::MTIME.get(data), item::MTIME_NANOS.get(data)),
            otime: time(item::OTIME.get(data), item::OTIME_NANOS.get(data)),
        }
    }

    /// Its bytes. What nothing is known of is zero.
    pub(crate) fn bytes(&self) -> [u8; INODE] {
        let mut bytes = [0; INODE];
        let out = &mut bytes[..];
        item::GENERATION.put(out, self.generation);
        item::TRANSID.put(out, self.transid);
        item::SIZE.put(out, self.size);
        item::NBYTES.put(out, self.nbytes);
        item::NLINK.put(out, self.nlink);
        item::UID.put(out, self.uid);
        item::GID.put(out, self.gid);
        item::MODE.put(out, self.mode);
        item::RDEV.put(out, self.rdev);
        item::FLAGS.put(out, self.flags);
        item::SEQUENCE.put(out, self.sequence);
        item::ATIME.put(out, self.atime.secs as u64);
        item::ATIME_NANOS.put(out, self.atime.nanos);
        item::CTIME.put(out, self.ctime.secs as u64);
        item::CTIME_NANOS.put(out, self.ctime.nanos);
        item::MTIME.put(out, self.mtime.secs as u64);
        item::MTIME_NANOS.put(out, self.mtime.nanos);
        item::OTIME.put(out, self.otime.secs as u64);
        item::OTIME_NANOS.put(out, self.otime.nanos);
        bytes
    }

    /// The directory at the top of a subvolume.
    pub(crate) fn top(generation: u64, now: Timestamp) -> Self {
        Self {
            generation,
            transid: generation,
            size: 0,
            nbytes: super::NODE_BYTES,
            nlink: 1,
            uid: 0,
            gid: 0,
            mode: 0o040_755,
            rdev: 0,
            flags: 0,
            sequence: 0,
            atime: now,
            ctime: now,
            mtime: now,
            otime: now,
        }
    }

    /// Attributes as the file API shows them; `None` if the mode names no file type.
    pub(crate) fn attr(&self) -> Option<Attr> {
        Some(Attr {
            kind: FileKind::of_mode(self.mode as u16)?,
            mode: self.mode as u16 & 0o7777,
            nlink: self.nlink,
            uid: self.uid,
            gid: self.gid,
            rdev: device_of(self.rdev),
            size: self.size,
            sectors: self.nbytes.div_ceil(512),
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
            btime: self.otime,
            generation: self.generation as u32,
        })
    }

    /// Takes over what the file API has changed, but for the size.
    pub(crate) fn set_attr(&mut self, attr: &Attr) {
        self.mode = u32::from(attr.kind.mode_bits() | attr.mode);
        self.nlink = attr.nlink;
        self.uid = attr.uid;
        self.gid = attr.gid;
        self.rdev = device_in_format(attr.rdev);
        self.atime = attr.atime;
        self.mtime = attr.mtime;
        self.ctime = attr.ctime;
        self.otime = attr.btime;
    }
}

/// An entry of a directory, or an extended attribute: an item holds one or, of names with
/// the same hash, several.
mod entry {
    units::layout! { 30:
        /// The key that it leads to.
        LOCATION: [u8; 17] = 0,
        TRANSID: u64 = 17,
        DATA_LEN: u16 = 25,
        NAME_LEN: u16 = 27,
        KIND: u8 = 29,
    }
    pub(super) const SIZE: usize = 30;
}

/// The number of an extended attribute among kinds of files.
const ATTRIBUTE: u8 = 8;

/// An entry of a directory, or an extended attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    pub(crate) location: Key,
    pub(crate) kind: u8,
    pub(crate) name: &'a [u8],
    pub(crate) value: &'a [u8],
}

impl Entry<'_> {
    /// Encodes the entry; `transid` is the generation that adds it.
    pub(crate) fn bytes(&self, transid: u64) -> Vec<u8> {
        let mut out = vec![0; entry::SIZE];
        let mut location = [0; Key::BYTES];
        self.location.put(&mut location);
        entry::LOCATION.put(&mut out, location);
        entry::TRANSID.put(&mut out, transid);
        entry::DATA_LEN.put(&mut out, self.value.len() as u16);
        entry::NAME_LEN.put(&mut out, self.name.len() as u16);
        entry::KIND.put(&mut out, self.kind);
        out.extend_from_slice(self.name);
        out.extend_from_slice(self.value);
        out
    }

    /// Size of the encoded entry in bytes.
    pub(crate) fn len(&self) -> usize {
        entry::SIZE + self.name.len() + self.value.len()
    }

    pub(crate) fn attribute<'a>(name: &'a [u8], value: &'a [u8]) -> Entry<'a> {
        Entry {
            location: Key::default(),
            kind: ATTRIBUTE,
            name,
            value,
        }
    }
}

/// Entries that lie one behind the other.
pub(crate) struct Entries<'a>(&'a [u8]);

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        let bytes = self.0;
        if bytes.len() < entry::SIZE {
            return None;
        }
        let name = usize::from(entry::NAME_LEN.get(bytes));
        let value = usize::from(entry::DATA_LEN.get(bytes));
        let (head, rest) = bytes.split_at(entry::SIZE);
        let (name, rest) = rest.split_at_checked(name)?;
        let (value, rest) = rest.split_at_checked(value)?;
        self.0 = rest;
        Some(Entry {
            location: Key::get(&entry::LOCATION.get(head)),
            kind: entry::KIND.get(head),
            name,
            value,
        })
    }
}

/// The entries in an item.
pub(crate) fn entries(data: &[u8]) -> Entries<'_> {
    Entries(data)
}

/// Byte range of the entry `name` in an item; `None` if the item has no such entry.
pub(crate) fn entry_span(data: &[u8], name: &[u8]) -> Option<std::ops::Range<usize>> {
    let mut at = 0;
    for entry in entries(data) {
        let end = at + entry.len();
        if entry.name == name {
            return Some(at..end);
        }
        at = end;
    }
    None
}

/// A name of an inode, in an item of the inode and a directory.
mod name_ref {
    units::layout! { 10:
        INDEX: u64 = 0,
        NAME_LEN: u16 = 8,
    }
    pub(super) const SIZE: usize = 10;
}

/// A name of an inode whose directory is in it too.
mod far_ref {
    units::layout! { 18:
        PARENT: u64 = 0,
        INDEX: u64 = 8,
        NAME_LEN: u16 = 16,
    }
    pub(super) const SIZE: usize = 18;
}

/// A name of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NameRef<'a> {
    /// Inode number of the directory.
    pub(crate) parent: u64,
    /// The number of the entry there.
    pub(crate) index: u64,
    pub(crate) name: &'a [u8],
}

impl NameRef<'_> {
    /// Its bytes in an item of this kind.
    pub(crate) fn bytes(&self, kind: u8) -> Vec<u8> {
        let mut out;
        if kind == kind::INODE_REF {
            out = vec![0; name_ref::SIZE];
            name_ref::INDEX.put(&mut out, self.index);
            name_ref::NAME_LEN.put(&mut out, self.name.len() as u16);
        } else {
            out = vec![0; far_ref::SIZE];
            far_ref::PARENT.put(&mut out, self.parent);
            far_ref::INDEX.put(&mut out, self.index);
            far_ref::NAME_LEN.put(&mut out, self.name.len() as u16);
        }
        out.extend_from_slice(self.name);
        out
    }
}

/// The names in an item of this key, and where each lies.
pub(crate) fn name_refs(
    key: Key,
    data: &[u8],
) -> impl Iterator<Item = (std::ops::Range<usize>, NameRef<'_>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let bytes = data.get(at..)?;
        let (parent, index, len, head) = if key.kind == kind::INODE_REF {
            let head = bytes.get(..name_ref::SIZE)?;
            let len = name_ref::NAME_LEN.get(head);
            (key.offset, name_ref::INDEX.get(head), len, name_ref::SIZE)
        } else {
            let head = bytes.get(..far_ref::SIZE)?;
            let len = far_ref::NAME_LEN.get(head);
            let parent = far_ref::PARENT.get(head);
            (parent, far_ref::INDEX.get(head), len, far_ref::SIZE)
        };
        let name = bytes.get(head..head + usize::from(len))?;
        let span = at..at + head + name.len();
        at = span.end;
        Some((
            span,
            NameRef {
                parent,
                index,
                name,
            },
        ))
    })
}

/// The key of an entry of a directory by its name.
pub(crate) fn entry_key(dir: u64, name: &[u8]) -> Key {
    Key::new(dir, kind::DIR_ITEM, name_hash(name))
}

/// The key of an extended attribute.
pub(crate) fn attribute_key(ino: u64, name: &[u8]) -> Key {
    Key::new(ino, kind::XATTR_ITEM, name_hash(name))
}

/// The key of a name of an inode that has no room among those of the same directory.
//= btrfs-format 4.3
pub(crate) fn far_key(ino: u64, parent: u64, name: &[u8]) -> Key {
    let hash = raw_crc(parent as u32, name);
    Key::new(ino, kind::INODE_EXTREF, u64::from(hash))
}

/// Whether entries fill `data` to the last byte.
fn entries_fit(key: Key, data: &[u8]) -> bool {
    let sound = |entry: Entry<'_>| {
        let hashed = key.kind == kind::DIR_INDEX || name_hash(entry.name) == key.offset;
        let named = (1..=255).contains(&entry.name.len()) && !entry.name.contains(&b'/');
        let valued = key.kind == kind::XATTR_ITEM || entry.value.is_empty();
        let any = key.kind == kind::XATTR_ITEM;
        (named || any && !entry.name.is_empty()) && hashed && valued
    };
    let mut at = 0;
    for entry in entries(data) {
        at += entry.len();
        if !sound(entry) {
            return false;
        }
    }
    at == data.len() && !data.is_empty()
}

fn refs_fit(key: Key, data: &[u8]) -> bool {
    let last = name_refs(key, data).last();
    last.is_some_and(|(span, _)| span.end == data.len())
}

/// Whether an item is one that the functions here can read, if it is one of theirs.
pub(crate) fn is_sound(key: Key, data: &[u8]) -> bool {
    match key.kind {
        kind::INODE_ITEM => data.len() == INODE,
        kind::INODE_REF | kind::INODE_EXTREF => refs_fit(key, data),
        kind::DIR_ITEM | kind::DIR_INDEX | kind::XATTR_ITEM => entries_fit(key, data),
        kind::ORPHAN_ITEM => data.is_empty(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_keep_both_parts() {
        for rdev in [0, 0x0803, 0xFFF1_23FF, 0x1234_5678] {
            assert_eq!(device_of(device_in_format(rdev)), rdev);
        }
        assert_eq!(device_in_format(0x0803), 8 << 20 | 3);
    }

    #[test]
    fn entries_of_one_hash_lie_in_one_item() {
        let one = Entry {
            location: Key::new(300, kind::INODE_ITEM, 0),
            kind: 1,
            name: b"one",
            value: b"",
        };
        let two = Entry {
            name: b"second",
            ..one
        };
        let bytes = [one.bytes(7), two.bytes(7)].concat();
        assert_eq!(entries(&bytes).collect::<Vec<_>>(), [one, two]);
        assert_eq!(entry_span(&bytes, b"second"), Some(33..69));
        assert_eq!(entries(&bytes[..40]).count(), 1);
    }
}
