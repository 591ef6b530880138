//! Recomputes the checksums of a changed image, so that the change reaches code that trusts them.
//!
//! The roles of blocks are those of the sound image. Each checksum is computed here anew from the
//! format, not with the code under test.

use crate::hostile::Contents;
use extfs::BLOCK;
use nand::Payload;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

type Block = [u8; BLOCK];

/// Content of a metadata block; inode numbers are those of its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    Superblock,
    Groups,
    BlockBitmap(u32),
    InodeBitmap(u32),
    /// A block of an inode table, with its first inode.
    Inodes(u32),
    Leaf(u32),
    /// An index block of a directory, with the offset of its entries.
    Index(u32, usize),
    Extents(u32),
    Attributes,
    Journal,
}

/// An image with the role of each metadata block.
#[derive(Clone)]
pub(crate) struct Image {
    pub(crate) contents: Contents,
    pub(crate) roles: BTreeMap<u64, Role>,
    /// Blocks of the journal, in order.
    pub(crate) journal: Vec<u64>,
    pub(crate) inodes: Vec<u32>,
    seed: u32,
    group_size: usize,
    groups: u32,
    tables: Vec<u64>,
    per_group: u32,
    inode_size: usize,
}

pub(crate) fn crc(seed: u32, bytes: &[u8]) -> u32 {
    !crc32c::crc32c_append(!seed, bytes)
}

/// The checksum of `bytes` with zeros instead of the four bytes at `at`.
fn crc_without(seed: u32, bytes: &[u8], at: usize) -> u32 {
    let before = crc(crc(seed, &bytes[..at]), &[0; 4]);
    crc(before, &bytes[at + 4..])
}

pub(crate) fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from(half(bytes, at)) | u32::from(half(bytes, at + 2)) << 16
}

fn big(bytes: &[u8], at: usize) -> u32 {
    word(bytes, at).swap_bytes()
}

fn put(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn put_halves(bytes: &mut [u8], (low, high): (usize, usize), value: u32) {
    bytes[low..low + 2].copy_from_slice(&value.to_le_bytes()[..2]);
    bytes[high..high + 2].copy_from_slice(&value.to_le_bytes()[2..]);
}

pub(crate) fn block(contents: &Contents, number: u64) -> Block {
    contents.get(&number).unwrap_or(&Payload::Zero).to_bytes()
}

pub(crate) fn edit<T>(
    contents: &mut Contents,
    number: u64,
    edit: impl FnOnce(&mut Block) -> T,
) -> T {
    let mut bytes = block(contents, number);
    let done = edit(&mut bytes);
    contents.insert(number, Payload::Bytes(Arc::new(bytes)));
    done
}

impl Image {
    pub(crate) fn of(contents: Contents) -> Self {
        let first = block(&contents, 0);
        let superblock = &first[1024..2048];
        let (blocks, per_group) = (word(superblock, 0x4), word(superblock, 0x28));
        let has_seed = word(superblock, 0x60) & 0x2000 != 0;
        let mut image = Self {
            roles: BTreeMap::from([(0, Role::Superblock), (1, Role::Groups)]),
            journal: Vec::new(),
            inodes: Vec::new(),
            seed: match has_seed {
                true => word(superblock, 0x270),
                false => crc(!0, &superblock[0x68..0x78]),
            },
            group_size: usize::from(half(superblock, 0xFE)).max(32),
            groups: blocks.div_ceil(word(superblock, 0x20)),
            tables: Vec::new(),
            per_group,
            inode_size: usize::from(half(superblock, 0x58)),
            contents,
        };
        let descriptors = block(&image.contents, 1);
        for group in 0..image.groups {
            let at = group as usize * image.group_size;
            let place = |field: usize| u64::from(word(&descriptors, at + field));
            image.roles.insert(place(0), Role::BlockBitmap(group));
            image.roles.insert(place(4), Role::InodeBitmap(group));
            image.tables.push(place(8));
        }
        for ino in 1..=image.groups * per_group {
            image.add_inode(ino);
        }
        image
    }

    /// The block and the offset of an inode.
    pub(crate) fn place(&self, ino: u32) -> (u64, usize) {
        let table = self.tables[((ino - 1) / self.per_group) as usize];
        let at = ((ino - 1) % self.per_group) as usize * self.inode_size;
        (table + (at / BLOCK) as u64, at % BLOCK)
    }

    fn add_inode(&mut self, ino: u32) {
        let (table, at) = self.place(ino);
        let first = ino - (at / self.inode_size) as u32;
        let bytes = block(&self.contents, table);
        let slot = &bytes[at..at + self.inode_size];
        if half(slot, 0) == 0 {
            return;
        }
        self.roles.insert(table, Role::Inodes(first));
        self.inodes.push(ino);
        let attributes = u64::from(word(slot, 0x68));
        if attributes != 0 {
            self.roles.insert(attributes, Role::Attributes);
        }
        if word(slot, 0x20) & 0x8_0000 == 0 {
            return;
        }
        let mut blocks = Vec::new();
        self.add_extents(ino, &slot[0x28..0x64], &mut blocks);
        blocks.sort_unstable();
        let indexed = word(slot, 0x20) & 0x1000 != 0;
        for (logical, number) in blocks {
            let bytes = block(&self.contents, number);
            let role = match half(slot, 0) & 0xF000 {
                0x4000 if indexed && logical == 0 => Role::Index(ino, 0x20),
                0x4000 if word(&bytes, 0) == 0 && half(&bytes, 4) == 4096 => Role::Index(ino, 8),
                0x4000 => Role::Leaf(ino),
                _ if ino == 8 => {
                    self.journal.push(number);
                    Role::Journal
                }
                _ => continue,
            };
            self.roles.insert(number, role);
        }
    }

    fn add_extents(&mut self, ino: u32, node: &[u8], blocks: &mut Vec<(u32, u64)>) {
        for entry in node[12..].chunks_exact(12).take(half(node, 2).into()) {
            if half(node, 6) > 0 {
                let below = u64::from(word(entry, 4));
                self.roles.insert(below, Role::Extents(ino));
                let bytes = block(&self.contents, below);
                self.add_extents(ino, &bytes, blocks);
                continue;
            }
            let (first, start) = (word(entry, 0), u64::from(word(entry, 8)));
            let len = u32::from(half(entry, 4)) & 0x7FFF;
            blocks.extend((0..len).map(|n| (first + n, start + u64::from(n))));
        }
    }

    fn seed_of(&self, contents: &Contents, ino: u32) -> u32 {
        let (table, at) = self.place(ino);
        let generation = word(&block(contents, table), at + 0x64);
        let seed = crc(self.seed, &ino.to_le_bytes());
        crc(seed, &generation.to_le_bytes())
    }

    /// Recomputes every checksum of `contents`, which are those of the image with changes.
    pub(crate) fn reseal(&self, contents: &mut Contents, changed: &BTreeSet<u64>) {
        for (&number, role) in &self.roles {
            match *role {
                Role::Inodes(first) if changed.contains(&number) => {
                    self.seal_inodes(contents, number, first);
                }
                Role::BlockBitmap(group) => self.seal_bitmap(contents, number, group, 8, 0x18),
                Role::InodeBitmap(group) => {
                    let bytes = self.per_group as usize / 8;
                    self.seal_bitmap(contents, number, group, bytes, 0x1A);
                }
                _ => {}
            }
        }
        for (&number, role) in &self.roles {
            let owner = match *role {
                Role::Leaf(ino) | Role::Index(ino, _) | Role::Extents(ino) => {
                    self.seed_of(contents, ino)
                }
                _ => self.seed,
            };
            let role = *role;
            let seals = matches!(role, Role::Leaf(_) | Role::Index(..) | Role::Extents(_));
            if seals || role == Role::Attributes {
                edit(contents, number, |bytes| seal(bytes, role, number, owner));
            }
        }
        self.seal_groups(contents);
        if changed
            .iter()
            .any(|b| self.roles.get(b) == Some(&Role::Journal))
        {
            self.seal_journal(contents);
        }
        edit(contents, 0, |bytes| {
            let sum = crc(!0, &bytes[1024..1024 + 0x3FC]);
            put(bytes, 1024 + 0x3FC, sum);
        });
    }

    fn seal_inodes(&self, contents: &mut Contents, number: u64, first: u32) {
        let size = self.inode_size;
        let mut bytes = block(contents, number);
        for (ino, slot) in (first..).zip(bytes.chunks_exact_mut(size)) {
            // An inode that was never used has no checksum.
            if slot.iter().all(|&byte| byte == 0) {
                continue;
            }
            let seed = crc(self.seed, &ino.to_le_bytes());
            let seed = crc(seed, &slot[0x64..0x68]);
            slot[0x7C..0x7E].fill(0);
            let wide = half(slot, 0x80) >= 4;
            if wide {
                slot[0x82..0x84].fill(0);
            }
            let sum = crc(seed, slot);
            slot[0x7C..0x7E].copy_from_slice(&sum.to_le_bytes()[..2]);
            if wide {
                slot[0x82..0x84].copy_from_slice(&sum.to_le_bytes()[2..]);
            }
        }
        contents.insert(number, Payload::Bytes(Arc::new(bytes)));
    }

    /// Puts the checksum of a bitmap into its group: of all its bytes, or of those of its inodes.
    fn seal_bitmap(&self, contents: &mut Contents, map: u64, group: u32, len: usize, low: usize) {
        let len = if low == 0x18 { BLOCK } else { len };
        let sum = crc(self.seed, &block(contents, map)[..len]);
        let at = group as usize * self.group_size;
        edit(contents, 1, |bytes| {
            put_halves(bytes, (at + low, at + low + 0x20), sum);
        });
    }

    fn seal_groups(&self, contents: &mut Contents) {
        let mut bytes = block(contents, 1);
        let groups = bytes.chunks_exact_mut(self.group_size);
        for (group, descriptor) in (0..self.groups).zip(groups) {
            let sum = crc(self.seed, &group.to_le_bytes());
            descriptor[0x1E..0x20].fill(0);
            let sum = crc(sum, descriptor) as u16;
            descriptor[0x1E..0x20].copy_from_slice(&sum.to_le_bytes());
        }
        contents.insert(1, Payload::Bytes(Arc::new(bytes)));
    }

    /// Seals the journal: its superblock, and the log from where that says it starts.
    fn seal_journal(&self, contents: &mut Contents) {
        let Some(&first) = self.journal.first() else {
            return;
        };
        edit(contents, first, |bytes| {
            let sum = crc_without(!0, &bytes[..1024], 0xFC);
            bytes[0xFC..0x100].copy_from_slice(&sum.to_be_bytes());
        });
        let seed = crc(!0, &block(contents, first)[0x30..0x40]);
        let mut at = 1;
        while let Some(&number) = self.journal.get(at) {
            let mut bytes = block(contents, number);
            at += 1;
            if big(&bytes, 0) != 0xC03B_3998 {
                continue;
            }
            let place = match big(&bytes, 4) {
                1 => {
                    at += self.seal_copies(contents, &mut bytes, seed, at);
                    BLOCK - 4
                }
                2 => 0x10,
                5 => BLOCK - 4,
                _ => continue,
            };
            let sum = crc_without(seed, &bytes, place);
            bytes[place..place + 4].copy_from_slice(&sum.to_be_bytes());
            contents.insert(number, Payload::Bytes(Arc::new(bytes)));
        }
    }

    /// Puts the checksums of the copies behind a descriptor into its tags; returns their number.
    fn seal_copies(&self, contents: &Contents, bytes: &mut Block, seed: u32, at: usize) -> usize {
        let sequence = bytes[8..12].to_vec();
        let (mut tag, mut copies) = (12, 0);
        while tag + 16 <= BLOCK - 4 {
            let Some(&copy) = self.journal.get(at + copies) else {
                break;
            };
            let sum = crc(crc(seed, &sequence), &block(contents, copy));
            bytes[tag + 12..tag + 16].copy_from_slice(&sum.to_be_bytes());
            let flags = big(bytes, tag + 4);
            tag += if flags & 2 == 0 { 32 } else { 16 };
            copies += 1;
            if flags & 8 != 0 {
                break;
            }
        }
        copies
    }
}

/// Seals a block whose checksum is inside it.
fn seal(bytes: &mut Block, role: Role, number: u64, seed: u32) {
    match role {
        Role::Leaf(_) => {
            let sum = crc(seed, &bytes[..BLOCK - 12]);
            put(bytes, BLOCK - 4, sum);
        }
        Role::Extents(_) => {
            let sum = crc(seed, &bytes[..BLOCK - 4]);
            put(bytes, BLOCK - 4, sum);
        }
        Role::Index(_, at) => {
            let tail = at + (BLOCK - at - 8) / 8 * 8;
            let end = at + usize::from(half(bytes, at + 2)) * 8;
            if end <= tail {
                let sum = crc(crc(seed, &bytes[..end]), &bytes[tail..tail + 4]);
                put(bytes, tail + 4, crc(sum, &[0; 4]));
            }
        }
        Role::Attributes => {
            let sum = crc_without(crc(seed, &number.to_le_bytes()), bytes, 0x10);
            put(bytes, 0x10, sum);
        }
        _ => {}
    }
}
