//! Offline checker: validates an image as far as this crate knows the format.
//!
//! The checker is read-only and trusts no field. It visits every inode in use, every block that
//! an inode references and every name, and compares them with bitmaps, counts and link counts.
//!
//! It does not check the contents of the journal, copies of the superblock and descriptors, and
//! the counts of the superblock, which are right only after an unmount.

mod dirs;
mod inodes;
mod space;

use crate::buffer::BLOCK;
use crate::format::superblock as sb;
use crate::format::{group, inode as raw};
use crate::geometry::{Geometry, MountError};
use crate::image::Image;
use crate::mount::{read_group, system_runs};
use space::Space;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Object that a [`Finding`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The file system as a whole.
    FileSystem,
    /// A block group, by its number.
    Group(u32),
    /// An inode, by its number.
    Inode(u32),
    /// A block, by its number.
    Block(u64),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FileSystem => write!(f, "the file system"),
            Self::Group(number) => write!(f, "group {number}"),
            Self::Inode(number) => write!(f, "inode {number}"),
            Self::Block(number) => write!(f, "block {number}"),
        }
    }
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Object with the inconsistency.
    pub subject: Subject,
    /// Description of the inconsistency, printed after the subject.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.subject, self.what)
    }
}

/// An inode that is in use.
struct Known {
    /// Number of names that refer to the inode.
    names: u32,
    links: u32,
    /// For a directory: number of subdirectories, and the inode that its `..` names.
    dir: Option<(u32, u32)>,
}

/// A check under way.
struct Checker<'a, I: Image + ?Sized> {
    image: &'a I,
    geometry: Geometry,
    groups: Vec<group::Descriptor>,
    space: Space,
    inodes: BTreeMap<u32, Known>,
    /// Names: directory, inode, kind as the entry says it.
    names: Vec<(u32, u32, u8)>,
    kinds: BTreeMap<u32, u8>,
    orphans: BTreeSet<u32>,
    /// References to each block of attributes: found in inodes, and stated by the block.
    shared: BTreeMap<u64, (u32, u32)>,
    findings: Vec<Finding>,
}

/// Checks the file system in `image` and returns its faults; none if it is sound. The file
/// system must not be mounted, and its journal must have been replayed.
pub fn check(image: &(impl Image + ?Sized)) -> Vec<Finding> {
    let mut checker = match Checker::open(image) {
        Ok(checker) => checker,
        Err(error) => {
            return vec![Finding {
                subject: Subject::FileSystem,
                what: error.to_string(),
            }];
        }
    };
    checker.read_orphans();
    checker.check_inodes();
    checker.check_names();
    checker.check_shared();
    checker.check_space();
    checker.findings
}

/// Superblock and group descriptors.
pub(crate) fn open(
    image: &(impl Image + ?Sized),
) -> Result<(Geometry, Vec<group::Descriptor>), MountError> {
    let mut bytes = [0; BLOCK];
    let eio = MountError::Medium(vfs::Errno::EIO);
    if !image.read(0, &mut bytes) {
        return Err(eio);
    }
    let geometry = Geometry::decode(&bytes[sb::OFFSET..sb::OFFSET + sb::SIZE])?;
    let mut groups = Vec::new();
    for block in 1..=u64::from(geometry.gdt_blocks()) {
        if !image.read(block, &mut bytes) {
            return Err(eio);
        }
        for descriptor in bytes.chunks_exact(geometry.descriptor_size) {
            if groups.len() as u32 == geometry.groups {
                break;
            }
            groups.push(read_group(&geometry, groups.len() as u32, descriptor)?);
        }
    }
    Ok((geometry, groups))
}

/// The slot of an inode; none if it cannot be read.
pub(crate) fn read_slot(
    image: &(impl Image + ?Sized),
    geometry: &Geometry,
    groups: &[group::Descriptor],
    ino: u32,
) -> Option<Vec<u8>> {
    let (number, index) = geometry.place_of(ino);
    let byte = index as usize * geometry.inode_size;
    let table = groups.get(number as usize)?.inode_table;
    let mut bytes = [0; BLOCK];
    let read = image.read(table + (byte / BLOCK) as u64, &mut bytes);
    read.then(|| bytes[byte % BLOCK..][..geometry.inode_size].to_vec())
}

impl<'a, I: Image + ?Sized> Checker<'a, I> {
    fn open(image: &'a I) -> Result<Self, MountError> {
        let (geometry, groups) = open(image)?;
        if geometry.incompat & sb::INCOMPAT_RECOVER != 0 {
            return Err(MountError::Unrecovered);
        }
        let mut space = Space::default();
        let mut findings = Vec::new();
        for run in system_runs(&geometry, &groups) {
            space.take(&geometry, run);
        }
        let structures: u64 = groups.len() as u64 * (2 + u64::from(geometry.table_blocks()));
        let copies = (0..geometry.groups).filter_map(|number| geometry.superblock_run(number));
        let total = structures + copies.map(|run| run.len).sum::<u64>();
        if total != space.taken {
            findings.push(Finding {
                subject: Subject::FileSystem,
                what: "bitmaps or tables of groups overlap".into(),
            });
        }
        Ok(Self {
            image,
            geometry,
            groups,
            space,
            inodes: BTreeMap::new(),
            names: Vec::new(),
            kinds: BTreeMap::new(),
            orphans: BTreeSet::new(),
            shared: BTreeMap::new(),
            findings,
        })
    }

    fn find(&mut self, subject: Subject, what: impl Into<String>) {
        self.findings.push(Finding {
            subject,
            what: what.into(),
        });
    }

    fn expect(&mut self, holds: bool, subject: Subject, what: &str) -> bool {
        if !holds {
            self.find(subject, what);
        }
        holds
    }

    fn read(&mut self, block: u64) -> Option<Box<[u8; BLOCK]>> {
        let mut bytes = Box::new([0; BLOCK]);
        if self.image.read(block, &mut bytes) {
            return Some(bytes);
        }
        self.find(Subject::Block(block), "cannot be read");
        None
    }

    fn slot(&self, ino: u32) -> Option<Vec<u8>> {
        read_slot(self.image, &self.geometry, &self.groups, ino)
    }

    /// The list of orphans; one that meets itself ends there.
    fn read_orphans(&mut self) {
        let Some(bytes) = self.read(0) else { return };
        let mut next = sb::LAST_ORPHAN.get(&bytes[sb::OFFSET..]);
        while next != 0 {
            let known = next <= self.geometry.inodes;
            if !known || !self.orphans.insert(next) {
                return self.find(Subject::FileSystem, "the list of orphans is damaged");
            }
            next = self.slot(next).map_or(0, |slot| raw::DTIME.get(&slot));
        }
        // An unmount has released every file, and a mount the orphans of the last crash.
        let is_clean = sb::STATE.get(&bytes[sb::OFFSET..]) & sb::STATE_CLEAN != 0
            && self.geometry.incompat & sb::INCOMPAT_RECOVER == 0;
        let kept = is_clean && !self.orphans.is_empty();
        self.expect(
            !kept,
            Subject::FileSystem,
            "was unmounted and keeps orphans",
        );
    }

    /// Counts names, and follows every directory to the root.
    fn check_names(&mut self) {
        for (dir, ino, kind) in std::mem::take(&mut self.names) {
            let is_dir = self
                .inodes
                .get(&ino)
                .is_some_and(|known| known.dir.is_some());
            let right = self.kinds.get(&ino) == Some(&kind);
            if let Some(known) = self.inodes.get_mut(&ino) {
                known.names += 1;
            }
            self.expect(
                right,
                Subject::Inode(dir),
                "a name leads to an inode that is free or of another kind",
            );
            if is_dir
                && let Some((subdirs, _)) = self.inodes.get_mut(&dir).and_then(|d| d.dir.as_mut())
            {
                *subdirs += 1;
            }
        }
        let all: Vec<u32> = self.inodes.keys().copied().collect();
        for ino in all {
            self.check_links(ino);
        }
    }

    fn check_links(&mut self, ino: u32) {
        let known = &self.inodes[&ino];
        let root = ino == crate::inode::ROOT;
        let nameless = ino < self.geometry.first_inode || ino == self.geometry.orphan_file;
        let special = nameless && !root;
        let (names, links, dir) = (known.names, known.links, known.dir);
        let subject = Subject::Inode(ino);
        if special {
            return;
        }
        if self.orphans.contains(&ino) && names == 0 {
            self.expect(links == 0, subject, "has links and no name");
            return;
        }
        let Some((subdirs, parent)) = dir else {
            self.expect(names > 0, subject, "has no name and is no orphan");
            self.expect(names == links, subject, "counts its names wrongly");
            return;
        };
        self.expect(
            names == u32::from(!root),
            subject,
            "is a directory without one name",
        );
        let counted = links == subdirs + 2 || links == 1;
        self.expect(counted, subject, "counts its subdirectories wrongly");
        self.check_way(ino, parent);
    }

    /// The way up from a directory ends at the root.
    fn check_way(&mut self, ino: u32, parent: u32) {
        let (mut at, mut steps) = (parent, 0);
        while at != crate::inode::ROOT && steps <= self.inodes.len() {
            let Some((_, up)) = self.inodes.get(&at).and_then(|known| known.dir) else {
                break;
            };
            at = up;
            steps += 1;
        }
        let arrives = at == crate::inode::ROOT;
        self.expect(
            arrives,
            Subject::Inode(ino),
            "is a directory that the root does not lead to",
        );
    }

    fn check_shared(&mut self) {
        for (block, (met, claimed)) in std::mem::take(&mut self.shared) {
            self.expect(
                met == claimed,
                Subject::Block(block),
                "counts its references wrongly",
            );
        }
    }
}
