//! Structures of a file system that is not mounted as text, for people: those of the last
//! commit. Subvolumes other than the first one are listed and not looked into.
//!
//! Invariant: it walks as the check does, so its work is bounded whatever the image says; of
//! a node that is not whole it is told, and what is below is left out.

use super::{Check, start_of};
use crate::format::extent::{Part, Piece, group, piece};
use crate::format::inode::{InodeItem, NODATACOW, NODATASUM, entries};
use crate::format::superblock::Start;
use crate::format::tree::RootItem;
use crate::format::{Key, group as hold, id, kind};
use host::Image;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use vfs::{FileKind, Finding, Findings};

/// The number of the directory at the top of a subvolume.
pub const ROOT: u64 = id::FIRST_FREE;

/// An image that is looked at.
pub struct Inspector<'a, I: Image + ?Sized> {
    check: Check<'a, I>,
    roots: BTreeMap<u64, RootItem>,
}

/// Name of a tree, for output.
fn name_of(tree: u64) -> &'static str {
    match tree {
        id::ROOT_TREE => "roots",
        id::EXTENT_TREE => "extents",
        id::CHUNK_TREE => "chunks",
        id::DEV_TREE => "device",
        id::FS_TREE => "files",
        id::CSUM_TREE => "checksums",
        id::UUID_TREE => "identities",
        id::DATA_RELOC_TREE => "relocation",
        tree if id::is_subvolume(tree) => "snapshot",
        _ => "unknown",
    }
}

/// Contents and profile of a chunk, in words.
fn held(flags: u64) -> String {
    let what = [
        (hold::DATA, "data"),
        (hold::METADATA, "metadata"),
        (hold::SYSTEM, "system"),
        (hold::DUP, "twice"),
    ];
    let set = what.iter().filter(|(bit, _)| flags & bit != 0);
    set.map(|(_, name)| *name).collect::<Vec<_>>().join(" ")
}

impl<'a, I: Image + ?Sized> Inspector<'a, I> {
    /// Opens an image.
    ///
    /// # Errors
    /// If no superblock can be used, or what chunks there are is not known.
    pub fn new(image: &'a I) -> Result<Self, Vec<Finding>> {
        let mut check = Check::open(image).map_err(Findings::into_all)?;
        let mut roots = BTreeMap::new();
        check.items(check.superblock.root, &mut |key, data| {
            if key.kind == kind::ROOT_ITEM {
                roots.insert(key.object, RootItem::get(data));
            }
        });
        Ok(Self { check, roots })
    }

    /// Nodes that could not be read so far.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        self.check.findings.so_far()
    }

    fn start(&self, tree: u64) -> Option<Start> {
        self.roots.get(&tree).map(start_of)
    }

    /// The superblock, and a line for each tree.
    #[must_use]
    pub fn superblock(&self) -> String {
        let superblock = &self.check.superblock;
        let label = String::from_utf8_lossy(&superblock.label);
        let fsid: String = superblock.fsid.iter().map(|b| format!("{b:02x}")).collect();
        let mut out = format!(
            "fsid {fsid}\nlabel {label:?}\ngeneration {}\ntotal_bytes {}\nbytes_used {}\n",
            superblock.generation, superblock.total_bytes, superblock.bytes_used
        );
        let mut tree = |tree: u64, start: Start, more: &str| {
            let name = name_of(tree);
            let _ = writeln!(
                out,
                "tree {tree} ({name}): root {}, level {}, generation {}{more}",
                start.bytenr, start.level, start.generation
            );
        };
        tree(id::ROOT_TREE, superblock.root, "");
        tree(id::CHUNK_TREE, superblock.chunk_root, "");
        for (number, item) in &self.roots {
            tree(
                *number,
                start_of(item),
                &format!(", {} bytes", item.bytes_used()),
            );
        }
        if let Some(Start { bytenr, level, .. }) = superblock.log_root {
            let _ = writeln!(out, "log of what was forced: root {bytenr}, level {level}");
        }
        out
    }

    /// A line for each chunk: what it holds, where it is on the drive, and what of it is used.
    #[must_use]
    pub fn groups(&mut self) -> String {
        let mut used = BTreeMap::new();
        if let Some(start) = self.start(id::EXTENT_TREE) {
            self.check.items(start, &mut |key, data| {
                if key.kind == kind::BLOCK_GROUP_ITEM {
                    used.insert(key.object, group::USED.get(data));
                }
            });
        }
        let mut out = String::new();
        for group in self.check.space.groups() {
            let chunk = &group.chunk;
            let used = used.get(&chunk.start).copied().unwrap_or(0);
            let _ = writeln!(
                out,
                "{} to {}: {}, at {:?} of the drive, {used} bytes used",
                chunk.start,
                chunk.start + chunk.len,
                held(chunk.flags),
                chunk.copies
            );
        }
        out
    }

    /// Visits the items of an inode in the order of their keys, and returns its inode item.
    fn items_of(&mut self, number: u64, visit: &mut dyn FnMut(Key, &[u8])) -> Option<InodeItem> {
        let (start, mut found) = (self.start(id::FS_TREE)?, None);
        self.check.items(start, &mut |key, data| {
            if key.object == number {
                if key.kind == kind::INODE_ITEM {
                    found = Some(InodeItem::get(data));
                }
                visit(key, data);
            }
        });
        found
    }

    /// An inode, field by field; none if there is none of this number.
    #[must_use]
    pub fn inode(&mut self, number: u64) -> Option<String> {
        let mut items = BTreeMap::<u8, u64>::new();
        let item = self.items_of(number, &mut |key, _| {
            *items.entry(key.kind).or_default() += 1;
        })?;
        let flags = [(NODATACOW, " in place"), (NODATASUM, " without sums")];
        let flags = flags.iter().filter(|(bit, _)| item.flags & bit != 0);
        let flags: String = flags.map(|(_, name)| *name).collect();
        let kind = item.attr().map_or("unknown kind", |attr| match attr.kind {
            FileKind::Regular => "file",
            FileKind::Directory => "directory",
            FileKind::Symlink => "link",
            _ => "special file",
        });
        let count = |kind| items.get(&kind).copied().unwrap_or(0);
        Some(format!(
            "{kind}{flags}\nsize {}\nnbytes {}\nlinks {}\nmode {:o}\nuid {}\ngid {}\n\
             generation {}\ntransid {}\nnames {}\nattributes {}\npieces {}\n",
            item.size,
            item.nbytes,
            item.nlink,
            item.mode,
            item.uid,
            item.gid,
            item.generation,
            item.transid,
            count(kind::INODE_REF) + count(kind::INODE_EXTREF),
            count(kind::XATTR_ITEM),
            count(kind::EXTENT_DATA),
        ))
    }

    /// The pieces of a file, in order, and how many they and their extents are; none if there
    /// is no such file.
    //= hyfim fig 5
    #[must_use]
    pub fn extents(&mut self, number: u64) -> Option<String> {
        let (mut out, mut pieces, mut extents) = (String::new(), 0, BTreeSet::new());
        let mut parts = Vec::new();
        let item = self.items_of(number, &mut |key, data| {
            if key.kind == kind::EXTENT_DATA {
                pieces += 1;
                match piece(data) {
                    Some(Piece::Inline(bytes)) => parts.push((key.offset, Err(bytes.len()))),
                    Some(Piece::Extent(part)) => parts.push((key.offset, Ok(part))),
                    None => {}
                }
            }
        })?;
        if item.attr()?.kind != FileKind::Regular {
            return None;
        }
        for (at, part) in parts {
            match part {
                Err(len) => {
                    let _ = writeln!(out, "{at}..{len} in the item");
                }
                Ok(part) => {
                    extents.extend((!part.is_hole()).then_some(part.bytenr));
                    let _ = writeln!(out, "{}", self.told(at, part));
                }
            }
        }
        let _ = writeln!(out, "{pieces} pieces of {} extents", extents.len());
        Some(out)
    }

    fn told(&self, at: u64, part: Part) -> String {
        let end = at.saturating_add(part.bytes);
        if part.is_hole() {
            return format!("{at}..{end} hole");
        }
        let start = part.bytenr.saturating_add(part.offset);
        let place = match self.check.space.place(start) {
            Some((copies, skip, _)) => {
                let places = copies.iter().map(|copy| (copy + skip).to_string());
                format!(
                    "at {} of the drive",
                    places.collect::<Vec<_>>().join(" and ")
                )
            }
            None => "nowhere".to_owned(),
        };
        let (unwritten, len) = (if part.written { "" } else { ", unwritten" }, part.len);
        format!(
            "{at}..{end} {place}: {} of extent {} of {len} bytes, generation {}{unwritten}",
            part.offset, part.bytenr, part.generation
        )
    }

    /// The entries of a directory in the order in which they came; none if there is none.
    #[must_use]
    pub fn directory(&mut self, number: u64) -> Option<String> {
        let mut out = String::new();
        let item = self.items_of(number, &mut |key, data| {
            if key.kind != kind::DIR_INDEX {
                return;
            }
            for entry in entries(data) {
                let name = String::from_utf8_lossy(entry.name);
                let (index, object) = (key.offset, entry.location.object);
                if entry.location.kind == kind::ROOT_ITEM {
                    let _ = writeln!(out, "{index} {name:?}: snapshot, tree {object}");
                    continue;
                }
                let what = match FileKind::of_entry(entry.kind) {
                    Some(FileKind::Directory) => "directory",
                    Some(FileKind::Symlink) => "link",
                    Some(FileKind::Regular) => "file",
                    _ => "special file",
                };
                let _ = writeln!(out, "{index} {name:?}: {what}, inode {object}");
            }
        })?;
        (item.attr()?.kind == FileKind::Directory).then_some(out)
    }
}
