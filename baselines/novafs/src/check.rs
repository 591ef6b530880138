//! A checker for unmounted media.
//!
//! Invariants: the medium is not changed; the check terminates whatever the bytes are, and reports
//! findings in the order of cores and inodes.

use crate::commit::Journal;
use crate::format::{Geometry, LINE, PAGE, Page, ROOT, next_of_table, table};
use crate::mount::{Damage, Usage, slot_of, slots};
use crate::pieces::Run;
use crate::state::State;
use host::Image;
use std::collections::BTreeMap;
use vfs::{FileKind, Ino};

/// An inconsistency on a medium.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Finding {
    /// The superblock is missing, or the file system is larger than the medium.
    #[error("there is no file system that fits the medium")]
    Superblock,
    /// A structure is damaged.
    #[error("{0}")]
    Damage(Damage),
    /// The transaction of this core's journal was neither committed nor undone.
    #[error("the journal of core {0} has a transaction that is not done")]
    Pending(u64),
    /// A name leads to no inode, or to one of another type.
    #[error("{name:?} in directory {dir} leads to inode {ino}, which is no such thing")]
    Name {
        /// Inode number of the directory.
        dir: u64,
        /// Name in the directory.
        name: String,
        /// Inode number that the name leads to.
        ino: u64,
    },
    /// The link count of an inode is wrong.
    #[error("inode {ino} has {found} links and says {said}")]
    Links {
        /// Inode number of the file.
        ino: u64,
        /// Links that the walk found.
        found: u32,
        /// Links that the inode records.
        said: u32,
    },
    /// A directory records a wrong parent.
    #[error("directory {ino} is in {found} and says {said}")]
    Parent {
        /// Inode number of the directory.
        ino: u64,
        /// Parent that the walk found.
        found: u64,
        /// Parent that the directory records.
        said: u64,
    },
    /// No path leads to this inode.
    #[error("no path leads to inode {0}")]
    Lost(u64),
}

/// State of a check in progress.
struct Check<'a, I: ?Sized> {
    image: &'a I,
    geometry: Geometry,
    usage: Usage,
    inodes: BTreeMap<u64, State>,
    findings: Vec<Finding>,
}

/// Checks a file system that was unmounted or has recovered; returns all findings.
pub fn check<I: Image + ?Sized>(image: &I) -> Vec<Finding> {
    let mut page = [0; PAGE];
    let there = image.blocks() > 0 && image.read(0, &mut page);
    let geometry = Geometry::decode(&page[..LINE]).filter(|g| there && g.pages <= image.blocks());
    let Some(geometry) = geometry else {
        return vec![Finding::Superblock];
    };
    let mut check = Check {
        image,
        geometry,
        usage: Usage::new(geometry),
        inodes: BTreeMap::new(),
        findings: Vec::new(),
    };
    for core in 0..geometry.cores {
        check.check_journal(core);
        check.check_table(core);
    }
    let inodes = std::mem::take(&mut check.inodes);
    check.check_tree(&inodes);
    check.findings
}

impl<I: Image + ?Sized> Check<'_, I> {
    fn find(&mut self, damage: Damage) {
        self.findings.push(Finding::Damage(damage));
    }

    fn check_journal(&mut self, core: u64) {
        let mut page = [0; PAGE];
        let read = self.image.read(self.geometry.journal(core), &mut page);
        match Journal::decode(&page[..Journal::BYTES]).filter(|_| read) {
            None => self.find(Damage::Journal { core }),
            Some(journal) if !journal.is_done => self.findings.push(Finding::Pending(core)),
            Some(_) => {}
        }
    }

    fn check_table(&mut self, core: u64) {
        let (mut page, mut index) = (self.geometry.table(core), 0);
        while page != 0 {
            let mut bytes = [0; PAGE];
            let claimed = index == 0
                || self.usage.claim(Run {
                    start: page,
                    len: 1,
                });
            let read = claimed && self.image.read(page, &mut bytes);
            let next = next_of_table(&bytes[..LINE], core, index).filter(|_| read);
            let Some(next) = next else {
                return self.find(Damage::Table { core, index });
            };
            for (ino, slot) in slots(self.geometry, core, index, &bytes) {
                self.check_slot(ino, slot);
            }
            (page, index) = (next, index + 1);
        }
    }

    fn check_slot(&mut self, ino: u64, slot: &[u8]) {
        let walked = match slot_of(self.geometry, slot, ino) {
            Some(None) => return,
            Some(Some((_, walk))) => self.walk(walk),
            None => None,
        };
        let Some(state) = walked else {
            return self.find(Damage::Inode { ino });
        };
        if !self.usage.claim_all(&state) {
            self.find(Damage::Shared { ino });
        }
        self.inodes.insert(ino, state);
    }

    fn walk(&self, mut walk: crate::log::Walk) -> Option<State> {
        let mut page: Page = [0; PAGE];
        while let Some((number, _)) = walk.wants() {
            if !self.image.read(number, &mut page) {
                return None;
            }
            walk.feed(&page)?;
        }
        Some(walk.finish())
    }

    /// Checks names and link counts, and that a path leads to every inode.
    fn check_tree(&mut self, inodes: &BTreeMap<u64, State>) {
        let root = inodes.get(&ROOT.0).filter(|root| root.is_dir());
        if root.is_none() {
            return self.find(Damage::Root);
        }
        let mut links: BTreeMap<u64, u32> = BTreeMap::from([(ROOT.0, 2)]);
        let mut parents: BTreeMap<u64, u64> = BTreeMap::from([(ROOT.0, ROOT.0)]);
        let mut left = vec![ROOT.0];
        while let Some(dir) = left.pop() {
            let Some(state) = inodes.get(&dir) else {
                continue;
            };
            for (name, lead) in state.names_after(0) {
                let ino = lead.ino.0;
                let subdir = lead.kind == FileKind::Directory;
                let fits = inodes.get(&ino).is_some_and(|to| to.attr.kind == lead.kind);
                if !fits || subdir && parents.contains_key(&ino) {
                    let name = String::from_utf8_lossy(name).into_owned();
                    self.findings.push(Finding::Name { dir, name, ino });
                    continue;
                }
                *links.entry(ino).or_default() += if subdir { 2 } else { 1 };
                if subdir {
                    *links.entry(dir).or_default() += 1;
                    parents.insert(ino, dir);
                    left.push(ino);
                }
            }
        }
        for (&ino, state) in inodes {
            self.check_links(
                ino,
                state,
                links.get(&ino).copied(),
                parents.get(&ino).copied(),
            );
        }
    }

    fn check_links(&mut self, ino: u64, state: &State, links: Option<u32>, parent: Option<u64>) {
        let Some(found) = links else {
            return self.findings.push(Finding::Lost(ino));
        };
        let said = state.attr.nlink;
        if found != said {
            self.findings.push(Finding::Links { ino, found, said });
        }
        if let Some(found) = parent
            && state.parent != Ino(found)
        {
            let said = state.parent.0;
            self.findings.push(Finding::Parent { ino, found, said });
        }
    }
}

const _: () = assert!(table::SLOTS == 31);
