//! State of an inode in memory, built from the entries of its log.
//!
//! Invariants: applying the entries of a log in order, at mount or on first use, gives the same
//! state as applying each one when it was written; every fact refers to the newest entry about it,
//! so that the log knows its live entries.

use crate::entry::{Entry, Lead, Target, Value};
use crate::format::{Birth, PAGE_BYTES};
use crate::log::Log;
use crate::pieces::{Piece, Pieces, Run};
use std::collections::BTreeMap;
use vfs::{Attr, FileKind, Ino, Timestamp};

/// Sectors in a page.
const SECTORS: u64 = PAGE_BYTES / units::SECTOR;

/// Groups of attributes that an entry sets together.
#[derive(Clone, Copy)]
enum Group {
    Owner,
    Links,
    Size,
    Mtime,
    Ctime,
    Parent,
}

/// A name of a directory, or a removed name with older entries in the log.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) lead: Option<Lead>,
    entry: u64,
    /// Whether no older entry concerns the name.
    first: bool,
}

/// An extended attribute, or a removed one with older entries in the log.
#[derive(Clone, Debug)]
struct Xattr {
    value: Option<Value>,
    entry: u64,
}

/// State of one inode.
#[derive(Debug)]
pub(crate) struct State {
    /// Attributes as of the last entry.
    pub(crate) attr: Attr,
    /// Parent of a directory.
    pub(crate) parent: Ino,
    pub(crate) log: Log,
    pub(crate) pieces: Pieces,
    names: BTreeMap<Box<[u8]>, Named>,
    /// Names ordered by cookie.
    order: BTreeMap<u64, Box<[u8]>>,
    /// Largest cookie in any entry: while an entry lies in the log, its cookie is not given to
    /// another name.
    last_cookie: u64,
    xattrs: BTreeMap<Box<[u8]>, Xattr>,
    /// Address of the newest entry for each group of attributes, 0 for none.
    holders: [u64; 6],
}

impl State {
    /// An inode at its creation, with an empty log.
    pub(crate) fn born(birth: &Birth) -> Self {
        let size = if birth.kind == FileKind::Directory {
            PAGE_BYTES
        } else {
            0
        };
        let attr = Attr {
            kind: birth.kind,
            mode: birth.mode,
            nlink: birth.nlink,
            uid: birth.uid,
            gid: birth.gid,
            rdev: birth.rdev,
            size,
            sectors: 0,
            atime: birth.time,
            mtime: birth.time,
            ctime: birth.time,
            btime: birth.time,
            generation: birth.generation,
        };
        Self::like(attr, birth.parent)
    }

    /// An inode with these attributes and no contents.
    pub(crate) fn like(attr: Attr, parent: Ino) -> Self {
        Self {
            attr: Attr { sectors: 0, ..attr },
            parent,
            log: Log::default(),
            pieces: Pieces::default(),
            names: BTreeMap::new(),
            order: BTreeMap::new(),
            last_cookie: 0,
            xattrs: BTreeMap::new(),
            holders: [0; 6],
        }
    }

    /// Applies the entry at `at`; adds pages that it frees to `freed`. `None` if the entry does not
    /// fit the inode.
    pub(crate) fn apply(&mut self, at: u64, entry: Entry, freed: &mut Vec<Run>) -> Option<()> {
        self.log.enter(at, entry.lines());
        match entry {
            Entry::Attr { attr, cut } => self.apply_attr(at, attr, cut, freed)?,
            Entry::Links { nlink, ctime } => {
                self.attr.nlink = nlink;
                self.say(at, Group::Links);
                self.set_ctime(at, ctime);
            }
            Entry::Write {
                first,
                pages,
                to,
                size,
                mtime,
                ctime,
            } => {
                let file = matches!(self.attr.kind, FileKind::Regular | FileKind::Symlink);
                let end = first + pages;
                file.then_some(())?;
                let entry = at;
                self.lay(first, Piece { end, to, entry }, freed);
                self.attr.size = size;
                self.attr.mtime = mtime;
                self.say(at, Group::Size);
                self.say(at, Group::Mtime);
                self.set_ctime(at, ctime);
            }
            Entry::Name {
                name,
                lead,
                nlink,
                time,
            } => {
                self.is_dir().then_some(())?;
                self.apply_name(at, name, lead)?;
                (self.attr.nlink, self.attr.mtime) = (nlink, time);
                self.say(at, Group::Links);
                self.say(at, Group::Mtime);
                self.set_ctime(at, time);
            }
            Entry::Xattr { name, value, ctime } => {
                self.apply_xattr(at, name, value, freed);
                self.set_ctime(at, ctime);
            }
            Entry::Parent { ino, ctime } => {
                self.is_dir().then_some(())?;
                self.parent = ino;
                self.say(at, Group::Parent);
                self.set_ctime(at, ctime);
            }
        }
        self.log.settle(at);
        self.attr.sectors = self.pieces.mapped * SECTORS;
        Some(())
    }

    pub(crate) fn is_dir(&self) -> bool {
        self.attr.kind == FileKind::Directory
    }

    /// Makes the entry at `at` the newest for a group of attributes.
    fn say(&mut self, at: u64, group: Group) {
        self.log.hold(at, false);
        let before = std::mem::replace(&mut self.holders[group as usize], at);
        if before != 0 {
            self.log.release(before, false);
        }
    }

    fn set_ctime(&mut self, at: u64, ctime: Timestamp) {
        self.attr.ctime = ctime;
        self.say(at, Group::Ctime);
    }

    fn apply_attr(&mut self, at: u64, attr: Attr, cut: bool, freed: &mut Vec<Run>) -> Option<()> {
        let file = self.attr.kind == FileKind::Regular;
        (file || !cut).then_some(())?;
        self.attr = attr;
        for group in [
            Group::Owner,
            Group::Links,
            Group::Size,
            Group::Mtime,
            Group::Ctime,
        ] {
            self.say(at, group);
        }
        if cut {
            let piece = Piece {
                end: u64::MAX,
                to: Target::Hole,
                entry: at,
            };
            self.lay(attr.size.div_ceil(PAGE_BYTES), piece, freed);
        }
        Some(())
    }

    fn lay(&mut self, first: u64, piece: Piece, freed: &mut Vec<Run>) {
        let solid = |piece: &Piece| piece.to != Target::Hole;
        self.log.hold(piece.entry, solid(&piece));
        let (runs, covered) = self.pieces.lay(first, piece);
        freed.extend(runs);
        for old in covered {
            let (entry, solid) = (old.piece.entry, solid(&old.piece));
            for _ in 1..old.left {
                self.log.hold(entry, solid);
            }
            if old.left == 0 {
                self.log.release(entry, solid);
            }
        }
    }

    fn apply_name(&mut self, at: u64, name: Box<[u8]>, lead: Option<Lead>) -> Option<()> {
        if let Some(lead) = &lead {
            let other = self.order.get(&lead.cookie);
            other.is_none_or(|other| *other == name).then_some(())?;
            self.last_cookie = self.last_cookie.max(lead.cookie);
        }
        let old = self.names.remove(&name);
        if let Some(old) = &old {
            self.log.release(old.entry, old.lead.is_some());
            if let Some(lead) = &old.lead {
                self.order.remove(&lead.cookie);
            }
        }
        if lead.is_none() && old.as_ref().is_some_and(|old| cancels(old, at)) {
            return Some(());
        }
        self.log.hold(at, lead.is_some());
        if let Some(lead) = &lead {
            self.order.insert(lead.cookie, name.clone());
        }
        let first = old.is_none();
        let entry = at;
        self.names.insert(name, Named { lead, entry, first });
        Some(())
    }

    fn apply_xattr(
        &mut self,
        at: u64,
        name: Box<[u8]>,
        value: Option<Value>,
        freed: &mut Vec<Run>,
    ) {
        self.log.hold(at, value.is_some());
        let entry = at;
        if let Some(old) = self.xattrs.insert(name, Xattr { value, entry }) {
            self.log.release(old.entry, old.value.is_some());
            if let Some(Value::Page(start, _)) = old.value {
                freed.push(Run { start, len: 1 });
            }
        }
    }

    /// Target of a name; `None` if the directory has no such name.
    pub(crate) fn lead(&self, name: &[u8]) -> Option<Lead> {
        self.names.get(name)?.lead
    }

    /// Whether a directory has no entries.
    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// A cookie after all others.
    pub(crate) const fn next_cookie(&self) -> u64 {
        self.last_cookie + 1
    }

    /// The names after `cookie`, in the order of cookies.
    pub(crate) fn names_after(&self, cookie: u64) -> impl Iterator<Item = (&[u8], Lead)> {
        let after = self.order.range(cookie.saturating_add(1)..);
        after.filter_map(|(_, name)| Some((&name[..], self.lead(name)?)))
    }

    /// Value of an extended attribute; `None` if it is not set.
    pub(crate) fn xattr(&self, name: &[u8]) -> Option<&Value> {
        self.xattrs.get(name)?.value.as_ref()
    }

    /// All extended attributes that are set.
    pub(crate) fn xattrs(&self) -> impl Iterator<Item = (&[u8], &Value)> {
        let there = self.xattrs.iter();
        there.filter_map(|(name, xattr)| Some((&name[..], xattr.value.as_ref()?)))
    }

    /// Pages of the medium that hold contents or values, but not the log.
    pub(crate) fn runs(&self) -> Vec<Run> {
        let mut runs: Vec<Run> = self.pieces.runs().collect();
        for (_, value) in self.xattrs() {
            if let Value::Page(start, _) = *value {
                runs.push(Run { start, len: 1 });
            }
        }
        runs
    }

    /// The entries of the shortest log with this state.
    pub(crate) fn compact(&self) -> Vec<Entry> {
        let attr = self.attr;
        let mut entries = Vec::new();
        if self.is_dir() {
            entries.push(Entry::Parent {
                ino: self.parent,
                ctime: attr.ctime,
            });
        }
        for (first, piece) in self.pieces.iter() {
            entries.push(Entry::Write {
                first,
                pages: piece.end - first,
                to: piece.to,
                size: attr.size,
                mtime: attr.mtime,
                ctime: attr.ctime,
            });
        }
        for (name, lead) in self.names_after(0) {
            entries.push(Entry::Name {
                name: name.into(),
                lead: Some(lead),
                nlink: attr.nlink,
                time: attr.mtime,
            });
        }
        for (name, value) in self.xattrs() {
            entries.push(Entry::Xattr {
                name: name.into(),
                value: Some(value.clone()),
                ctime: attr.ctime,
            });
        }
        entries.push(Entry::Attr { attr, cut: false });
        entries
    }
}

/// Whether a name and the entry at `at` that removes it can be dropped together: both lie in one
/// page, and no older entry concerns the name.
fn cancels(name: &Named, at: u64) -> bool {
    name.first && name.lead.is_some() && name.entry / PAGE_BYTES == at / PAGE_BYTES
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::format::PAGE;
    use sim::{Rng, Seed};

    pub(crate) fn attr(kind: FileKind) -> Attr {
        let birth = Birth {
            kind,
            mode: 0o644,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            generation: 1,
            time: Timestamp::default(),
            parent: Ino(1),
        };
        State::born(&birth).attr
    }

    fn draw(rng: &mut Rng, state: &State, step: u64) -> Entry {
        let time = Timestamp {
            secs: step as i64,
            nanos: 0,
        };
        let name: Box<[u8]> = [b"a", b"b", b"c"][rng.below(3) as usize][..].into();
        if state.is_dir() && rng.below(4) > 0 {
            let old = state.lead(&name);
            let lead = Lead {
                ino: Ino(step + 2),
                kind: FileKind::Regular,
                cookie: old.map_or(state.next_cookie(), |old| old.cookie),
            };
            let gone = old.is_some() && rng.below(2) == 0;
            return Entry::Name {
                name,
                lead: (!gone).then_some(lead),
                nlink: 2,
                time,
            };
        }
        let mut attr = state.attr;
        attr.mode = step as u16 & 0o777;
        match rng.below(4) {
            0 => Entry::Xattr {
                name,
                value: (rng.below(2) == 0).then(|| Value::Inline(vec![step as u8])),
                ctime: time,
            },
            1 => Entry::Links {
                nlink: step as u32,
                ctime: time,
            },
            2 if !state.is_dir() => {
                attr.size = rng.below(20) * PAGE_BYTES;
                let cut = true;
                Entry::Attr { attr, cut }
            }
            3 if !state.is_dir() => Entry::Write {
                first: rng.below(16),
                pages: 1 + rng.below(4),
                to: [Target::Hole, Target::Data(1_000 + step * 8)][rng.below(2) as usize],
                size: attr.size.max(20 * PAGE_BYTES),
                mtime: time,
                ctime: time,
            },
            _ => Entry::Attr { attr, cut: false },
        }
    }

    /// Observable state: attributes, pages, names and extended attributes.
    type Seen = (Attr, Vec<(u64, Target)>, Vec<(Vec<u8>, Lead)>, Vec<Vec<u8>>);

    fn seen(state: &State) -> Seen {
        let pages = (0..24).map(|page| (page, state.pieces.find(page).0));
        let names = state
            .names_after(0)
            .map(|(name, lead)| (name.to_vec(), lead));
        let xattrs = state.xattrs().map(|(name, value)| {
            let Value::Inline(value) = value else {
                panic!("only short values were set")
            };
            [name, value].concat()
        });
        (
            state.attr,
            pages.collect(),
            names.collect(),
            xattrs.collect(),
        )
    }

    /// Applies entries page by page, except those of dead pages.
    fn replay(log: &[(u64, Entry)], dead: &[u64], like: Attr) -> State {
        let mut state = State::like(like, Ino(1));
        for (at, entry) in log {
            if !dead.contains(&(at / PAGE_BYTES)) {
                state.apply(*at, entry.clone(), &mut Vec::new()).unwrap();
            }
        }
        state
    }

    #[test]
    fn log_without_its_dead_pages_gives_the_same_state() {
        let (mut dropped, per_page) = (0, 4);
        for seed in 0..300 {
            let kind = [FileKind::Regular, FileKind::Directory][seed as usize % 2];
            let mut rng = Seed(seed).stream("log");
            let like = attr(kind);
            let mut state = State::like(like, Ino(1));
            let mut log = Vec::new();
            for step in 0..80 {
                let at = (10 + step / per_page) * PAGE as u64 + step % per_page * 512;
                let entry = draw(&mut rng, &state, step);
                state.apply(at, entry.clone(), &mut Vec::new()).unwrap();
                log.push((at, entry));
                let pages: Vec<u64> = (10..=10 + step / per_page).collect();
                state.log.pages = pages.clone();
                let dead: Vec<u64> = pages
                    .into_iter()
                    .filter(|&p| state.log.is_dead(p))
                    .collect();
                dropped += dead.len();
                let some: Vec<u64> = dead.into_iter().filter(|_| rng.below(2) == 0).collect();
                assert_eq!(
                    seen(&replay(&log, &some, like)),
                    seen(&state),
                    "seed {seed}"
                );
            }
            let compact = state.compact().into_iter();
            let compact: Vec<_> = (1..).map(|at| at * 512).zip(compact).collect();
            assert_eq!(
                seen(&replay(&compact, &[], like)),
                seen(&state),
                "seed {seed}"
            );
        }
        assert!(dropped > 1_000, "pages died: {dropped}");
    }
}
