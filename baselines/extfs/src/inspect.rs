//! Structures of an image as text, for people.

use crate::buffer::BLOCK;
use crate::check::{open, read_slot};
use crate::format::extent::{self, Expect, Node};
use crate::format::superblock::{self as sb, Class};
use crate::format::{FieldInfo, dirent, group, htree, inode as raw};
use crate::geometry::{Geometry, MountError};
use crate::image::Image;
use std::fmt::Write;
use vfs::FileKind;

/// An image that is looked at.
pub struct Inspector<'a, I: Image + ?Sized> {
    image: &'a I,
    geometry: Geometry,
    groups: Vec<group::Descriptor>,
}

/// Fields of a layout by name; those longer than eight bytes as bytes.
fn fields(out: &mut String, layout: &[FieldInfo], bytes: &[u8]) {
    for &(name, at, len) in layout {
        let Some(part) = bytes.get(at..at + len) else {
            continue;
        };
        let name = name.to_lowercase();
        let number = part
            .iter()
            .rev()
            .fold(0_u64, |n, &byte| n << 8 | u64::from(byte));
        let _ = if len <= 8 {
            writeln!(out, "{at:#05x} {name} {number}")
        } else {
            writeln!(out, "{at:#05x} {name} {part:02x?}")
        };
    }
}

impl<'a, I: Image + ?Sized> Inspector<'a, I> {
    /// Opens an image.
    ///
    /// # Errors
    /// What is wrong with its superblock or group descriptors.
    pub fn new(image: &'a I) -> Result<Self, MountError> {
        let (geometry, groups) = open(image)?;
        Ok(Self {
            image,
            geometry,
            groups,
        })
    }

    fn read(&self, block: u64) -> Box<[u8; BLOCK]> {
        let mut bytes = Box::new([0; BLOCK]);
        if !self.image.read(block, &mut bytes) {
            bytes.fill(0);
        }
        bytes
    }

    /// The fields of the superblock, and its features by name.
    #[must_use]
    pub fn superblock(&self) -> String {
        let mut out = String::new();
        let bytes = self.read(0);
        fields(&mut out, sb::FIELDS, &bytes[sb::OFFSET..]);
        let g = &self.geometry;
        let classes = [
            (Class::Compat, g.compat),
            (Class::Incompat, g.incompat),
            (Class::RoCompat, g.ro_compat),
        ];
        for (class, bits) in classes {
            let _ = writeln!(out, "{class:?}: {}", sb::names(class, bits));
        }
        out
    }

    /// One line for each group.
    #[must_use]
    pub fn groups(&self) -> String {
        let mut out = String::new();
        for (number, d) in self.groups.iter().enumerate() {
            let flags = [
                (group::INODE_UNINIT, " inode_uninit"),
                (group::BLOCK_UNINIT, " block_uninit"),
            ];
            let flags = flags.iter().filter(|(bit, _)| d.flags & bit != 0);
            let flags: String = flags.map(|(_, name)| *name).collect();
            let _ = writeln!(
                out,
                "group {number}: bitmaps {} {}, table {}, free blocks {}, free inodes {} ({} never used), directories {}{flags}",
                d.block_bitmap,
                d.inode_bitmap,
                d.inode_table,
                d.free_blocks,
                d.free_inodes,
                d.unused_inodes,
                d.used_dirs,
            );
        }
        out
    }

    fn slot(&self, ino: u32) -> Option<Vec<u8>> {
        let known = (1..=self.geometry.inodes).contains(&ino);
        known.then(|| read_slot(self.image, &self.geometry, &self.groups, ino))?
    }

    /// The fields of an inode; none if there is none of this number.
    #[must_use]
    pub fn inode(&self, ino: u32) -> Option<String> {
        let slot = self.slot(ino)?;
        let mut out = String::new();
        fields(&mut out, raw::FIELDS, &slot);
        let seed = raw::seed(self.geometry.seed, ino, raw::GENERATION.get(&slot));
        let whole = !self.geometry.checksums || raw::is_whole(seed, &slot);
        let _ = writeln!(out, "checksum {}", if whole { "right" } else { "wrong" });
        Some(out)
    }

    /// The extents of an inode, nodes before what is below them; none if there is
    /// no such inode, or it has no tree.
    #[must_use]
    pub fn extents(&self, ino: u32) -> Option<String> {
        let slot = self.slot(ino)?;
        if raw::FLAGS.get(&slot) & raw::FLAG_EXTENTS == 0 {
            return None;
        }
        let mut out = String::new();
        match Node::decode(&raw::MAP.get(&slot), Expect::ROOT) {
            Some(root) => self.node(&mut out, &root, Expect::ROOT.to, 0),
            None => out.push_str("damaged root\n"),
        }
        Some(out)
    }

    fn node(&self, out: &mut String, node: &Node, to: u64, indent: usize) {
        for (index, entry) in node.entries.iter().enumerate() {
            let _ = write!(out, "{:indent$}", "");
            if node.depth == 0 {
                let kind = if entry.unwritten { " unwritten" } else { "" };
                let last = entry.end() - 1;
                let _ = writeln!(out, "{}..{last} at {}{kind}", entry.logical, entry.start);
                continue;
            }
            let _ = writeln!(out, "from {} node {}", entry.logical, entry.start);
            let end = node
                .entries
                .get(index + 1)
                .map_or(to, |next| u64::from(next.logical));
            let expect = Expect {
                depth: Some(node.depth - 1),
                from: u64::from(entry.logical),
                to: end,
            };
            let bytes = self.read(entry.start);
            match Node::decode(&bytes[..extent::CHECKSUM.at], expect) {
                Some(below) => self.node(out, &below, end, indent + 2),
                None => {
                    let _ = writeln!(out, "{:indent$}  damaged node", "");
                }
            }
        }
    }

    /// The entries of a directory, block by block; none if `ino` is none.
    #[must_use]
    pub fn directory(&self, ino: u32) -> Option<String> {
        let slot = self.slot(ino)?;
        let attr = raw::attr(&slot).filter(|attr| attr.kind == FileKind::Directory)?;
        let root = Node::decode(&raw::MAP.get(&slot), Expect::ROOT)?;
        let indexed = raw::FLAGS.get(&slot) & raw::FLAG_INDEX != 0;
        let mut blocks = Vec::new();
        self.leaves(&root, Expect::ROOT.to, &mut blocks);
        let mut out = String::new();
        for (index, block) in blocks {
            let _ = writeln!(out, "block {index} at {block}");
            let bytes = self.read(block);
            if index == 0 && indexed {
                index_lines(
                    &mut out,
                    &bytes,
                    htree::ROOT_ENTRIES,
                    self.geometry.checksums,
                );
            }
            let end = self.geometry.dir_end();
            for entry in dirent::Entries::new(&bytes[..], end)
                .flatten()
                .filter(|e| e.ino != 0)
            {
                let name = String::from_utf8_lossy(entry.name);
                let kind = dirent::kind_of(entry.kind);
                let _ = writeln!(out, "  {} {kind:?} {name}", entry.ino);
            }
        }
        let _ = writeln!(out, "{} bytes", attr.size);
        Some(out)
    }

    /// Blocks of a file with their places.
    fn leaves(&self, node: &Node, to: u64, blocks: &mut Vec<(u64, u64)>) {
        for (index, entry) in node.entries.iter().enumerate() {
            if node.depth == 0 {
                let each = (0..u64::from(entry.len))
                    .map(|n| (u64::from(entry.logical) + n, entry.start + n));
                blocks.extend(each);
                continue;
            }
            let end = node
                .entries
                .get(index + 1)
                .map_or(to, |next| u64::from(next.logical));
            let expect = Expect {
                depth: Some(node.depth - 1),
                from: u64::from(entry.logical),
                to: end,
            };
            let bytes = self.read(entry.start);
            if let Some(below) = Node::decode(&bytes[..extent::CHECKSUM.at], expect) {
                self.leaves(&below, end, blocks);
            }
        }
    }
}

fn index_lines(out: &mut String, bytes: &[u8; BLOCK], at: usize, tail: bool) {
    let Some(info) = htree::info(bytes) else {
        return;
    };
    let _ = writeln!(
        out,
        "  index: hash {}, {} levels below",
        info.hash_version, info.levels
    );
    for entry in htree::entries(bytes, at, tail).into_iter().flatten() {
        let _ = writeln!(out, "  from {:#010x} block {}", entry.hash, entry.block);
    }
}
