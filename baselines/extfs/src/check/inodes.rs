//! Every inode in use, with its tree and attributes.

use super::{Checker, Known, Subject};
use crate::buffer::BLOCK;
use crate::format::extent::{self, Entry, Expect, Node};
use crate::format::{crc, group, inode as raw, xattr};
use crate::image::Image;
use crate::persist::Run;
use vfs::{Attr, FileKind};

/// The inode that keeps blocks for descriptors to grow.
const RESIZE_INODE: u32 = 7;

/// The map of a file as it was met.
#[derive(Default)]
pub(super) struct Map {
    pub(super) entries: Vec<Entry>,
    /// Blocks, with those of the tree.
    blocks: u64,
}

impl<I: Image + ?Sized> Checker<'_, I> {
    pub(super) fn check_inodes(&mut self) {
        for number in 0..self.geometry.groups {
            let descriptor = self.groups[number as usize];
            let (used, dirs) = self.check_group_inodes(number, &descriptor);
            let free = self.geometry.inodes_per_group - used;
            let subject = Subject::Group(number);
            self.expect(
                free == descriptor.free_inodes,
                subject,
                "counts its free inodes wrongly",
            );
            self.expect(
                dirs == descriptor.used_dirs,
                subject,
                "counts its directories wrongly",
            );
        }
    }

    /// Visits the inodes of a group; gives the number of them and of directories.
    fn check_group_inodes(&mut self, number: u32, descriptor: &group::Descriptor) -> (u32, u32) {
        let per_group = self.geometry.inodes_per_group;
        let subject = Subject::Group(number);
        if descriptor.flags & group::INODE_UNINIT != 0 {
            return (0, 0);
        }
        let Some(bitmap) = self.read(descriptor.inode_bitmap) else {
            return (0, 0);
        };
        if self.geometry.checksums {
            let sum = self.narrow(crc(self.geometry.seed, &bitmap[..per_group as usize / 8]));
            self.expect(
                sum == descriptor.inode_csum,
                subject,
                "has an inode bitmap with a wrong checksum",
            );
        }
        let (mut used, mut dirs) = (0, 0);
        for index in 0..per_group {
            if bitmap[(index / 8) as usize] & (1 << (index % 8)) == 0 {
                continue;
            }
            used += 1;
            let known = index < per_group - descriptor.unused_inodes;
            let summed = self.geometry.checksums || self.geometry.old_checksums;
            self.expect(
                known || !summed,
                subject,
                "has an inode in use where none was ever used",
            );
            dirs += u32::from(self.check_inode(number * per_group + index + 1));
        }
        (used, dirs)
    }

    /// Whether the inode is a directory.
    fn check_inode(&mut self, ino: u32) -> bool {
        let subject = Subject::Inode(ino);
        let Some(slot) = self.slot(ino) else {
            self.find(subject, "cannot be read");
            return false;
        };
        let special = ino < self.geometry.first_inode && ino != crate::inode::ROOT;
        if special && raw::MODE.get(&slot) == 0 {
            return false;
        }
        let seed = raw::seed(self.geometry.seed, ino, raw::GENERATION.get(&slot));
        let whole = !self.geometry.checksums || raw::is_whole(seed, &slot);
        if !self.expect(whole, subject, "has a wrong checksum") {
            return false;
        }
        let Some(attr) = raw::attr(&slot) else {
            self.find(subject, "is in use and of no kind");
            return false;
        };
        let map = self.check_map(ino, seed, &slot, &attr);
        self.check_size(ino, &slot, &attr, &map);
        let is_dir = attr.kind == FileKind::Directory;
        self.kinds.insert(ino, attr.kind.entry_number());
        let dir = is_dir.then(|| (0, self.check_dir(ino, seed, &slot, &map)));
        let known = Known {
            names: 0,
            links: attr.nlink,
            dir,
        };
        self.inodes.insert(ino, known);
        is_dir
    }

    fn check_map(&mut self, ino: u32, seed: u32, slot: &[u8], attr: &Attr) -> Map {
        let mut map = Map::default();
        if ino == RESIZE_INODE {
            let indirect = raw::MAP.get(slot);
            let block =
                u32::from_le_bytes([indirect[52], indirect[53], indirect[54], indirect[55]]);
            if block != 0 {
                let start = u64::from(block);
                self.take(ino, Run { start, len: 1 });
            }
            return map;
        }
        if raw::FLAGS.get(slot) & raw::FLAG_EXTENTS != 0 {
            match Node::decode(&raw::MAP.get(slot), Expect::ROOT) {
                Some(root) => self.check_node(ino, seed, &root, Expect::ROOT.to, &mut map),
                None => self.find(Subject::Inode(ino), "has a damaged root of its tree"),
            }
        } else {
            let mapped = match attr.kind {
                FileKind::Regular | FileKind::Directory => true,
                FileKind::Symlink => attr.size >= raw::MAP_SIZE as u64,
                _ => false,
            };
            self.expect(!mapped, Subject::Inode(ino), "is not made of extents");
        }
        map
    }

    /// Visits a node and those below it; the depth falls, so this ends.
    fn check_node(&mut self, ino: u32, seed: u32, node: &Node, to: u64, map: &mut Map) {
        let subject = Subject::Inode(ino);
        for (index, entry) in node.entries.iter().enumerate() {
            let len = u64::from(entry.len.max(1));
            map.blocks += len;
            self.take(
                ino,
                Run {
                    start: entry.start,
                    len,
                },
            );
            if node.depth == 0 {
                map.entries.push(*entry);
                continue;
            }
            let end = node
                .entries
                .get(index + 1)
                .map_or(to, |next| u64::from(next.logical));
            let Some(bytes) = self.read(entry.start) else {
                continue;
            };
            let sum = extent::checksum(seed, &bytes) == extent::CHECKSUM.get(&bytes[..]);
            let whole = sum || !self.geometry.checksums;
            self.expect(
                whole,
                subject,
                "has a node of its tree with a wrong checksum",
            );
            let expect = Expect {
                depth: Some(node.depth - 1),
                from: u64::from(entry.logical),
                to: end,
            };
            match Node::decode(&bytes[..extent::CHECKSUM.at], expect) {
                Some(below) => {
                    let exact = below.entries[0].logical == entry.logical;
                    self.expect(
                        exact,
                        subject,
                        "has a node that begins elsewhere than its parent says",
                    );
                    self.check_node(ino, seed, &below, end, map);
                }
                None => self.find(subject, "has a damaged node in its tree"),
            }
        }
    }

    fn check_size(&mut self, ino: u32, slot: &[u8], attr: &Attr, map: &Map) {
        let subject = Subject::Inode(ino);
        let mut blocks = map.blocks;
        let attributes = raw::xattr_block(slot);
        if attributes != 0 {
            blocks += 1;
            self.check_attributes(ino, attributes);
        }
        let area = &slot[raw::OLD_SIZE + raw::extra(slot)..];
        let sound = xattr::decode_inode(area).is_some();
        self.expect(sound, subject, "has damaged attributes");
        if ino == RESIZE_INODE {
            return;
        }
        self.expect(
            attr.sectors == blocks * 8,
            subject,
            "counts its blocks wrongly",
        );
        let written = map.entries.iter().filter(|entry| !entry.unwritten);
        let end = written.map(Entry::end).max().unwrap_or(0);
        let orphan = self.orphans.contains(&ino);
        let inside = end <= attr.size.div_ceil(BLOCK as u64) || orphan;
        self.expect(inside, subject, "has blocks past its end");
    }

    fn check_attributes(&mut self, ino: u32, block: u64) {
        if let Some((met, _)) = self.shared.get_mut(&block) {
            *met += 1;
            return;
        }
        self.take(
            ino,
            Run {
                start: block,
                len: 1,
            },
        );
        let Some(bytes) = self.read(block) else {
            return;
        };
        let sum = xattr::checksum(self.geometry.seed, block, &bytes);
        let whole = !self.geometry.checksums || sum == xattr::CHECKSUM.get(&bytes[..]);
        let sound = whole && xattr::decode_block(&bytes).is_some();
        self.expect(
            sound,
            Subject::Block(block),
            "is a damaged block of attributes",
        );
        self.shared
            .insert(block, (1, xattr::REFERENCES.get(&bytes[..])));
    }
}
