//! Nodes: inodes, and the blocks of addresses and of numbers of nodes behind them. The
//! last bytes of each say which node it is.
//!
//! Inodes with extra attributes and with flexible room for attributes belong to features
//! that a mount refuses, so an inode has one of two numbers of addresses.

use super::{BLOCK, Block, blank, layout};
use vfs::{Attr, FileKind, Timestamp};

/// Addresses of an inode without room for attributes.
const ADDRS_FULL: usize = 923;
/// Words of an inode that its attributes have.
const XATTR_WORDS: usize = 50;
/// Bytes of the extended attributes in an inode.
pub(crate) const XATTR_INLINE: usize = XATTR_WORDS * 4;
/// Addresses of a direct node, and numbers of an indirect one.
pub(crate) const PER_NODE: usize = 1018;
/// Offset of the contents of a small file in its inode; the first address stays free.
const INLINE_AT: usize = 360 + 4;
/// Bytes of a file that fit its inode.
pub(crate) const INLINE_MOST: usize = (ADDRS_FULL - XATTR_WORDS - 1) * 4;
/// Offset of the extended attributes in an inode.
const XATTR_AT: usize = 360 + (ADDRS_FULL - XATTR_WORDS) * 4;

/// The inode has room for attributes.
pub(crate) const HAS_XATTR: u8 = 0x01;
/// Contents are in the inode.
pub(crate) const HAS_DATA: u8 = 0x02;
/// Entries of the directory are in the inode.
pub(crate) const HAS_DENTRY: u8 = 0x04;
/// Contents in the inode are more than zeros.
const DATA_EXIST: u8 = 0x08;
/// Entries `.` and `..` are not there.
const INLINE_DOTS: u8 = 0x10;
/// Inline flags of an inode that a mount accepts.
const INLINE_KNOWN: u8 = HAS_XATTR | HAS_DATA | HAS_DENTRY | DATA_EXIST | INLINE_DOTS;

/// The contents are cold.
pub(crate) const ADVISE_COLD: u8 = 0x01;

//= f2fs-layout 6
layout! { 4096:
    MODE: u16 = 0,
    ADVISE: u8 = 2,
    INLINE: u8 = 3,
    UID: u32 = 4,
    GID: u32 = 8,
    LINKS: u32 = 12,
    SIZE: u64 = 16,
    BLOCKS: u64 = 24,
    ATIME: u64 = 32,
    CTIME: u64 = 40,
    MTIME: u64 = 48,
    ATIME_NS: u32 = 56,
    CTIME_NS: u32 = 60,
    MTIME_NS: u32 = 64,
    GENERATION: u32 = 68,
    DEPTH: u32 = 72,
    XATTR_NID: u32 = 76,
    FLAGS: u32 = 80,
    PARENT: u32 = 84,
    NAME_LEN: u32 = 88,
    NAME: [u8; 255] = 92,
    DIR_LEVEL: u8 = 347,
    EXTENT: [u8; 12] = 348,
    ADDRS: u32 = 360,
    NIDS: u32 = 4052,
    NID: u32 = 4072,
    INO: u32 = 4076,
    FLAG: u32 = 4080,
    STAMP: u64 = 4084,
    NEXT: u32 = 4092,
}

/// The node was written by a force of its inode, as the last of that force.
pub(crate) const FSYNC: u32 = 1 << 1;
/// The inode's name was not in the checkpoint.
pub(crate) const DENTRY: u32 = 1 << 2;
/// Lowest bit of a node's place in its file, within the flag field.
const OFFSET_SHIFT: u32 = 3;
/// The place of the node with the attributes of a file.
pub(crate) const XATTR_OFFSET: u32 = u32::MAX >> OFFSET_SHIFT;

/// The place of a node in its file: 0 of the inode, then as [`super::path`] counts.
pub(crate) fn offset_of(node: &Block) -> u32 {
    FLAG.get(node) >> OFFSET_SHIFT
}

/// Whether a node is an inode.
pub(crate) fn is_inode(node: &Block) -> bool {
    NID.get(node) == INO.get(node)
}

/// An empty node of this number and file, at this place in it.
pub(crate) fn fresh(nid: u32, ino: u32, offset: u32) -> Box<Block> {
    let mut block = blank();
    NID.put(&mut block[..], nid);
    INO.put(&mut block[..], ino);
    FLAG.put(&mut block[..], offset << OFFSET_SHIFT);
    block
}

/// Whether the format could have such an inode.
pub(crate) fn is_sound_inode(node: &Block) -> bool {
    let inline = INLINE.get(node);
    let kind = FileKind::of_mode(MODE.get(node));
    let flags_fit = match kind {
        Some(FileKind::Directory) => inline & HAS_DATA == 0,
        Some(_) => inline & HAS_DENTRY == 0,
        None => false,
    };
    let level = u32::from(DIR_LEVEL.get(node)) + DEPTH.get(node).min(64);
    flags_fit
        && inline & !INLINE_KNOWN == 0
        && NAME_LEN.get(node) <= 255
        && DEPTH.get(node) < 64
        && level < 64
        && SIZE.get(node) <= super::path::SIZE_MAX
}

/// Number of addresses of an inode or a direct node.
pub(crate) fn addrs(node: &Block) -> usize {
    match (is_inode(node), INLINE.get(node) & HAS_XATTR) {
        (false, _) => PER_NODE,
        (true, 0) => ADDRS_FULL,
        (true, _) => ADDRS_FULL - XATTR_WORDS,
    }
}

/// Byte offset of address `index` in a node.
fn addr_at(node: &Block, index: usize) -> usize {
    let first = if is_inode(node) { ADDRS.at } else { 0 };
    first + index.min(addrs(node) - 1) * 4
}

/// Address `index` of an inode or a direct node; that of the last one behind the end.
pub(crate) fn addr(node: &Block, index: usize) -> u32 {
    super::Value::load(&node[addr_at(node, index)..])
}

/// Sets address `index` of an inode or a direct node.
pub(crate) fn set_addr(node: &mut Block, index: usize, addr: u32) {
    let at = addr_at(node, index);
    super::Value::save(addr, &mut node[at..]);
}

/// Number `index` of the nodes that an inode (0 to 4) or an indirect node leads to.
pub(crate) fn nid(node: &Block, index: usize) -> u32 {
    super::Value::load(&node[nid_at(node, index)..])
}

/// Sets node number `index` of an inode or an indirect node.
pub(crate) fn set_nid(node: &mut Block, index: usize, nid: u32) {
    let at = nid_at(node, index);
    super::Value::save(nid, &mut node[at..]);
}

fn nid_at(node: &Block, index: usize) -> usize {
    match is_inode(node) {
        true => NIDS.at + index.min(4) * 4,
        false => index.min(PER_NODE - 1) * 4,
    }
}

/// Whether the inode has contents of a file or entries of a directory in itself.
pub(crate) fn has(node: &Block, what: u8) -> bool {
    INLINE.get(node) & what != 0
}

/// Sets or clears what the inode has in itself.
pub(crate) fn set_has(node: &mut Block, what: u8, value: bool) {
    let inline = INLINE.get(node) & !what;
    INLINE.put(node, if value { inline | what } else { inline });
}

/// The room for contents or entries in an inode.
pub(crate) fn inline(node: &Block) -> &[u8] {
    &node[INLINE_AT..INLINE_AT + INLINE_MOST]
}

/// Mutable bytes of the inline contents of an inode.
pub(crate) fn inline_mut(node: &mut Block) -> &mut [u8] {
    &mut node[INLINE_AT..INLINE_AT + INLINE_MOST]
}

/// Makes `bytes` the contents of a file that has them in its inode.
pub(crate) fn set_inline(node: &mut Block, bytes: &[u8]) {
    let room = inline_mut(node);
    room[..bytes.len()].copy_from_slice(bytes);
    room[bytes.len()..].fill(0);
    set_has(node, DATA_EXIST, !bytes.is_empty());
}

/// Leaves an inode without contents in itself, whose first addresses they were.
pub(crate) fn drop_inline(node: &mut Block) {
    inline_mut(node).fill(0);
    set_has(node, HAS_DATA | HAS_DENTRY | DATA_EXIST, false);
}

/// The room for attributes in an inode; empty if it has none.
pub(crate) fn xattrs(node: &Block) -> &[u8] {
    match has(node, HAS_XATTR) {
        true => &node[XATTR_AT..XATTR_AT + XATTR_INLINE],
        false => &[],
    }
}

/// Mutable bytes of the extended attributes in an inode; see [`xattrs`].
pub(crate) fn xattrs_mut(node: &mut Block) -> &mut [u8] {
    match has(node, HAS_XATTR) {
        true => &mut node[XATTR_AT..XATTR_AT + XATTR_INLINE],
        false => &mut [],
    }
}

const fn sector_blocks(blocks: u64) -> u64 {
    blocks.saturating_mul(BLOCK as u64 / 512)
}

/// The attributes that an inode names; none of a kind that does not exist.
pub(crate) fn attr(node: &Block) -> Option<Attr> {
    let time = |secs: u64, nanos: u32| Timestamp {
        secs: secs.cast_signed(),
        nanos: nanos.min(999_999_999),
    };
    let kind = FileKind::of_mode(MODE.get(node))?;
    let device = matches!(kind, FileKind::BlockDevice | FileKind::CharDevice);
    let rdev = match addr(node, 0) {
        0 => addr(node, 1),
        old => old,
    };
    Some(Attr {
        kind,
        mode: MODE.get(node) & 0o7777,
        nlink: LINKS.get(node),
        uid: UID.get(node),
        gid: GID.get(node),
        rdev: if device { rdev } else { 0 },
        size: SIZE.get(node),
        sectors: sector_blocks(BLOCKS.get(node)),
        atime: time(ATIME.get(node), ATIME_NS.get(node)),
        mtime: time(MTIME.get(node), MTIME_NS.get(node)),
        ctime: time(CTIME.get(node), CTIME_NS.get(node)),
        btime: Timestamp::default(),
        generation: GENERATION.get(node),
    })
}

/// Writes down attributes, but for the size and the blocks, which are others' to change.
pub(crate) fn set_attr(node: &mut Block, attr: &Attr) {
    MODE.put(node, attr.kind.mode_bits() | attr.mode & 0o7777);
    UID.put(node, attr.uid);
    GID.put(node, attr.gid);
    LINKS.put(node, attr.nlink);
    ATIME.put(node, attr.atime.secs.cast_unsigned());
    CTIME.put(node, attr.ctime.secs.cast_unsigned());
    MTIME.put(node, attr.mtime.secs.cast_unsigned());
    ATIME_NS.put(node, attr.atime.nanos);
    CTIME_NS.put(node, attr.ctime.nanos);
    MTIME_NS.put(node, attr.mtime.nanos);
}

/// Writes down the number of a device, which lies where addresses would be: numbers that
/// fit a byte each in the first of them, others in the second.
pub(crate) fn set_device(node: &mut Block, rdev: u32) {
    let small = rdev < 1 << 16;
    set_addr(node, 0, if small { rdev } else { 0 });
    set_addr(node, 1, if small { 0 } else { rdev });
}

/// The name that an inode was last given.
pub(crate) fn name(node: &Block) -> &[u8] {
    let len = (NAME_LEN.get(node) as usize).min(255);
    &node[NAME.at..NAME.at + len]
}

/// Writes down a name and the directory that it is in.
pub(crate) fn set_name(node: &mut Block, parent: u32, name: &[u8]) {
    let mut padded = [0; 255];
    padded[..name.len()].copy_from_slice(name);
    PARENT.put(node, parent);
    NAME_LEN.put(node, name.len() as u32);
    NAME.put(node, padded);
}

const _: () = assert!(XATTR_AT + XATTR_INLINE == NIDS.at && NEXT.at + 4 == BLOCK);
const _: () = assert!(INLINE_MOST == 3488);
