//! The judge: compares a recovered tree with the history.
//!
//! Invariants:
//! - A tree is accepted exactly if there is a moment, not before the floor, at which every
//!   name led to the same file with contents and attributes that are possible.
//! - A call that was changing names at the cut has changed all of them or none, at every
//!   moment since it began. Without one order for all calls, the same holds for a call that
//!   ended after the moment, unless it was forced: of two calls that overlap, either may have
//!   been the first.
//! - In a file system that rolls forward, the names of files that were made and forced by
//!   themselves after the moment lie over its names.

use crate::attributes::Attributes;
use crate::chronicle::{Becomes, Change, Chronicle, Id, Key, Pending};
use crate::explore::Fault;
use crate::file::{Edit, File, Part};
use crate::spans::byte;
use nand::{Payload, UNIT};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use vfs::{Body, Errno, FileKind, Ino, Inode, PAGE};

/// Pages that are read of a file: 256 MiB, more than any test writes.
const MOST_PAGES: u64 = 65_536;

/// A file as it is read after recovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Inode number.
    pub ino: Ino,
    /// Kind of the file.
    pub kind: FileKind,
    /// Size in bytes.
    pub size: u64,
    /// Contents, page by page; those past the last one are zeros. Of a symbolic link: one lost page
    /// if the medium has lost its target.
    pub pages: Vec<Payload>,
    /// Target of a symbolic link; empty for other kinds.
    pub target: Vec<u8>,
    /// Owner, permissions and extended attributes.
    pub attributes: Attributes,
}

impl Seen {
    /// Whether the medium has lost the target of this symbolic link.
    fn has_lost_target(&self) -> bool {
        self.kind == FileKind::Symlink && !self.pages.is_empty()
    }
}

/// The whole recovered tree, by directory and name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown(BTreeMap<Key, Seen>);

impl Shown {
    /// Reads the tree of `body` from its root.
    ///
    /// # Errors
    /// The first error of a read; `EUCLEAN` if a directory has two names.
    pub async fn read<B: Body>(body: &B) -> vfs::Result<Self> {
        Self::read_despite(body, &|| 0).await
    }

    /// As [`Shown::read`], but goes on after a page of contents that the medium has lost. `lost`
    /// returns the number of reads of contents that the medium has failed so far; if it has not
    /// grown, the file system failed the read by itself.
    ///
    /// # Errors
    /// As [`Shown::read`].
    pub async fn read_despite<B: Body>(body: &B, lost: &dyn Fn() -> u64) -> vfs::Result<Self> {
        let mut shown = Self::default();
        let mut met = BTreeSet::from([body.root()]);
        let mut left = vec![body.root()];
        while let Some(number) = left.pop() {
            let dir = body.load(number).await?;
            let mut cookie = 0;
            loop {
                let entries = body.read_dir(&dir, cookie, 64).await?;
                let Some(last) = entries.last() else { break };
                cookie = last.cookie;
                for entry in entries {
                    let seen = see(body, entry.ino, lost).await?;
                    if seen.kind == FileKind::Directory {
                        ensure_new(&mut met, entry.ino)?;
                        left.push(entry.ino);
                    }
                    shown.add(number, &entry.name, seen);
                }
            }
        }
        Ok(shown)
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Seen> {
        self.0.get(key)
    }

    /// Adds a name of directory `dir`.
    pub fn add(&mut self, dir: Ino, name: &[u8], seen: Seen) {
        self.0.insert((dir, name.into()), seen);
    }

    /// Every name with its directory, in the order of the directories' inodes.
    pub fn iter(&self) -> impl Iterator<Item = (Ino, &[u8], &Seen)> {
        self.0
            .iter()
            .map(|((dir, name), seen)| (*dir, &name[..], seen))
    }

    /// A digest of all names, inodes, sizes and contents: equal states have equal digests.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for (key, seen) in &self.0 {
            let (uid, gid) = (seen.attributes.uid, seen.attributes.gid);
            (key, seen.ino, seen.size, &seen.target).hash(&mut hasher);
            (seen.attributes.mode, uid, gid, &seen.attributes.extended).hash(&mut hasher);
            for page in &seen.pages {
                match page {
                    Payload::Fill(pattern) => pattern.hash(&mut hasher),
                    page => page.to_bytes().hash(&mut hasher),
                }
            }
        }
        hasher.finish()
    }

    /// Number of names.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the tree has no names.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

async fn see<B: Body>(body: &B, ino: Ino, lost: &dyn Fn() -> u64) -> vfs::Result<Seen> {
    let inode = body.load(ino).await?;
    let attr = inode.attr.get();
    let mut seen = Seen {
        ino,
        kind: attr.kind,
        size: attr.size,
        pages: Vec::new(),
        target: Vec::new(),
        attributes: Attributes::of(&attr),
    };
    for name in body.list_xattrs(&inode).await? {
        let value = body.get_xattr(&inode, &name).await?;
        seen.attributes.extended.insert(name, value);
    }
    match attr.kind {
        FileKind::Symlink => {
            let before = lost();
            match body.readlink(&inode).await {
                Err(_) if lost() > before => seen.pages.push(Payload::Lost),
                target => seen.target = target?,
            }
        }
        FileKind::Regular => {
            let pages = attr.size.div_ceil(PAGE).min(MOST_PAGES);
            seen.pages = vec![Payload::Zero; pages as usize];
            if body.read_pages(&inode, 0, &mut seen.pages).await.is_err() {
                read_singly(body, &inode, &mut seen.pages, lost).await?;
            }
        }
        _ => {}
    }
    Ok(seen)
}

/// Reads the pages of a file one by one, and marks those as lost that the medium cannot return.
async fn read_singly<B: Body>(
    body: &B,
    inode: &Inode<B::Private>,
    pages: &mut [Payload],
    lost: &dyn Fn() -> u64,
) -> vfs::Result<()> {
    for (index, page) in (0..).zip(pages) {
        let before = lost();
        match body
            .read_pages(inode, index, std::slice::from_mut(page))
            .await
        {
            Err(_) if lost() > before => *page = Payload::Lost,
            read => read?,
        }
    }
    Ok(())
}

fn ensure_new(met: &mut BTreeSet<Ino>, ino: Ino) -> vfs::Result<()> {
    met.insert(ino).then_some(()).ok_or(Errno::EUCLEAN)
}

/// A fault of one name, with a sentence about it.
pub(crate) type Wrong = (Fault, String);

/// Weight of a fault that the medium does not explain: more than all faults of a tree that it
/// explains, so that the moment without the former is taken for the right one.
const UNEXPLAINED: usize = 1 << 32;

/// The weight of `faults`; of two moments, the one with the lighter faults explains a tree better.
fn weight<'a>(faults: impl IntoIterator<Item = &'a Wrong>) -> usize {
    let weight = |(fault, _): &Wrong| match fault {
        Fault::Media => 1,
        _ => UNEXPLAINED,
    };
    faults.into_iter().map(weight).sum()
}

/// A call that may have changed names at the moment that is compared, or not.
struct Underway<'a> {
    /// Number of moments that certainly came before the call.
    since: usize,
    /// Whether a force has made the call durable.
    forced: bool,
    names: Vec<&'a Key>,
    /// Faults of the recovered tree if the call has happened.
    happened: Vec<(&'a Key, Wrong)>,
}

impl Chronicle {
    /// Faults of a recovered tree; empty if every promise was kept. Of several moments that
    /// explain the tree in part, the faults at the one with the fewest are returned; those that the
    /// medium explains count only between moments that are equal otherwise.
    #[must_use]
    pub fn judge(&self, shown: &Shown) -> Vec<(Fault, String)> {
        let mut underway = self.underway(shown);
        let mut names = self.names.clone();
        let keys: BTreeSet<&Key> = names.keys().chain(shown.0.keys()).collect();
        let compare = |key: &Key, id: Option<Id>| self.compare(key, id, shown.0.get(key));
        let wrong = |&key: &&Key| Some((key.clone(), compare(key, names.get(key).copied())?));
        let mut found: BTreeMap<Key, Wrong> = keys.iter().filter_map(wrong).collect();
        let mut best = excused(&found, &underway, self.log.len(), BTreeMap::new());
        let pending = underway.len();
        let forced = self.forced_since(self.floor);
        for (at, moment) in self.log.iter().enumerate().skip(self.floor).rev() {
            if best.is_empty() {
                break;
            }
            for Change { key, old, .. } in moment.changes.iter().rev() {
                match old {
                    Some(id) => names.insert(key.clone(), *id),
                    None => names.remove(key),
                };
            }
            for Change { key, .. } in &moment.changes {
                match compare(key, names.get(key).copied()) {
                    Some(wrong) => found.insert(key.clone(), wrong),
                    None => found.remove(key),
                };
            }
            underway.push(Underway {
                since: moment.since,
                forced: moment.forced,
                names: moment.changes.iter().map(|change| &change.key).collect(),
                happened: moment
                    .changes
                    .iter()
                    .filter_map(|change| Some((&change.key, compare(&change.key, change.new)?)))
                    .collect(),
            });
            let mut number = 0;
            underway.retain(|call| {
                number += 1;
                number <= pending || call.since <= at
            });
            let names_of_calls = underway.len() * 2 + forced.len();
            if weight(found.values()) < weight(&best) + names_of_calls * UNEXPLAINED {
                let over = self.laid_over(&forced, at, &names, shown);
                let excused = excused(&found, &underway, at, over);
                if weight(&excused) < weight(&best) {
                    best = excused;
                }
            }
        }
        best
    }

    /// Calls that were changing names at the cut.
    fn underway(&self, shown: &Shown) -> Vec<Underway<'_>> {
        let names = self.pending.iter().filter_map(|(ticket, pending)| {
            let Pending::Names(names) = pending else {
                return None;
            };
            let wrong = |key: &Key, becomes: &Becomes| match becomes {
                Becomes::Nothing => self.compare(key, None, shown.0.get(key)),
                Becomes::File(id) => self.compare(key, Some(*id), shown.0.get(key)),
                Becomes::New(kind, target) => {
                    let seen = shown.0.get(key).filter(|seen| !self.has_name(seen.ino));
                    compare_new(key, *kind, target, seen)
                }
            };
            let happened = names.iter();
            let happened = happened.filter_map(|(key, becomes)| Some((key, wrong(key, becomes)?)));
            Some(Underway {
                since: self.moments_at(*ticket),
                forced: false,
                names: names.iter().map(|(key, _)| key).collect(),
                happened: happened.collect(),
            })
        });
        names.collect()
    }

    /// Whether a name leads to `ino` that no pending call takes away. The inode of a file
    /// that is being made has none.
    fn has_name(&self, ino: Ino) -> bool {
        let Some(id) = self.inodes.get(&ino) else {
            return false;
        };
        let pending = self.pending.values();
        let changing = pending.filter_map(|pending| match pending {
            Pending::Names(names) => Some(names.iter().map(|(key, _)| key)),
            _ => None,
        });
        let changing: BTreeSet<&Key> = changing.flatten().collect();
        let mut names = self.names.iter();
        names.any(|(key, to)| to == id && !changing.contains(key))
    }

    /// Fault of `key`, if the name led to `id` at the moment that is compared.
    pub(crate) fn compare(&self, key: &Key, id: Option<Id>, seen: Option<&Seen>) -> Option<Wrong> {
        let name = || told(key);
        match (id, seen) {
            (None, None) => None,
            (None, Some(_)) => Some((Fault::Corrupt, format!("{} should not be there", name()))),
            (Some(_), None) => Some((Fault::Lost, format!("{} is gone", name()))),
            (Some(id), Some(seen)) => {
                let (fault, what) = self.contents(id, seen)?;
                Some((fault, format!("{} {what}", name())))
            }
        }
    }

    fn contents(&self, id: Id, seen: &Seen) -> Option<Wrong> {
        let file = &self.files[&id];
        let is_same = file.target == seen.target || seen.has_lost_target();
        if (file.kind, file.ino) != (seen.kind, seen.ino) || !is_same {
            return Some((Fault::Corrupt, "is something else".to_owned()));
        }
        if !file.attributes.allows(&seen.attributes) {
            let what = format!("never was {:?} since it was forced", seen.attributes);
            return Some((Fault::Lost, what));
        }
        if file.kind != FileKind::Regular {
            let what = "has a target that cannot be read".to_owned();
            return seen.has_lost_target().then_some((Fault::Media, what));
        }
        let edits: Vec<&Edit> = self.edits(id).collect();
        let (least, most) = allowed_sizes(file, &edits);
        if seen.size < least {
            let what = format!("has {} bytes, and never had less than {least}", seen.size);
            return Some((Fault::Lost, what));
        }
        if seen.size > most {
            let what = format!("has {} bytes, and never had more than {most}", seen.size);
            return Some((Fault::Corrupt, what));
        }
        let pages = seen.pages.iter().enumerate();
        let torn = self.may_be_torn(file.ino);
        let wrong = pages.filter_map(|(index, page)| {
            let start = (index * UNIT) as u64;
            let range = start..(start + UNIT as u64).min(seen.size);
            // A page goes to another place as a whole, with what was forced of it before.
            if torn && is_changed(file, &edits, &range) {
                return None;
            }
            wrong_byte(file, &edits, range, page, self.stale)
        });
        // A page that the medium has lost does not excuse another one.
        let mut lost = None;
        for wrong in wrong {
            if wrong.0 != Fault::Media {
                return Some(wrong);
            }
            lost.get_or_insert(wrong);
        }
        lost
    }

    /// Edits of a file that had begun and not ended at the cut.
    fn edits(&self, id: Id) -> impl Iterator<Item = &Edit> {
        self.pending
            .values()
            .filter_map(move |pending| match pending {
                Pending::Edit(of, edit) if *of == id => Some(edit),
                _ => None,
            })
    }
}

/// Faults at a moment: `found` without those that calls under way explain, and the faults of
/// the forced names in `over`.
fn excused(
    found: &BTreeMap<Key, Wrong>,
    underway: &[Underway<'_>],
    at: usize,
    over: BTreeMap<Key, Option<Wrong>>,
) -> Vec<Wrong> {
    let mut found = found.clone();
    found.retain(|key, _| !over.contains_key(key));
    let mut instead = Vec::new();
    for call in underway.iter().filter(|call| call.since <= at) {
        let keys = call.names.iter();
        let wrong = weight(keys.clone().filter_map(|key| found.get(*key)));
        let happened = call.happened.iter();
        let happened = happened.filter(|(key, _)| !over.contains_key(*key));
        let wrong_then = weight(happened.clone().map(|(_, wrong)| wrong));
        if call.forced || wrong_then < wrong {
            keys.for_each(|key| drop(found.remove(*key)));
            instead.extend(happened.map(|(_, wrong)| wrong.clone()));
        }
    }
    let over = over.into_values().flatten();
    found.into_values().chain(instead).chain(over).collect()
}

/// Fault of a file that a call under way has made: it is empty and of the right kind.
fn compare_new(key: &Key, kind: FileKind, target: &[u8], seen: Option<&Seen>) -> Option<Wrong> {
    let Some(seen) = seen else {
        return Some((Fault::Lost, format!("{} is gone", told(key))));
    };
    let empty = kind != FileKind::Regular || seen.size == 0;
    let is_same = seen.target == target || seen.has_lost_target();
    let new = empty && seen.kind == kind && is_same;
    let what = || format!("{} is not what was being made", told(key));
    (!new).then(|| (Fault::Corrupt, what()))
}

pub(crate) fn told(key: &Key) -> String {
    let name = String::from_utf8_lossy(&key.1);
    format!("{name} in directory {}", key.0.0)
}

/// Smallest and largest size that recovery may show, edits under way included.
fn allowed_sizes(file: &File, edits: &[&Edit]) -> (u64, u64) {
    let (mut least, mut most) = file.sizes();
    for edit in edits {
        match edit {
            Edit::Write { range, .. } if range.is_empty() => {}
            Edit::Write { range, .. } => most = most.max(range.end),
            Edit::Zero { .. } => {}
            Edit::Resize { size } => {
                least = least.min(*size);
                most = most.max(*size);
            }
        }
    }
    (least, most)
}

/// Whether a byte of `range` was changed since the last force, or is being changed.
fn is_changed(file: &File, edits: &[&Edit], range: &Range<u64>) -> bool {
    let near = |other: &Range<u64>| other.start < range.end && other.end > range.start;
    let begun = |edit: &&Edit| match edit {
        Edit::Write { range, .. } | Edit::Zero { range } => near(range),
        Edit::Resize { .. } => false,
    };
    file.older.iter().any(|older| near(&older.range)) || edits.iter().any(begun)
}

/// Fault of the first byte of a page that shows none of the values it had. A page that the medium
/// has lost counts for the medium; the other pages of its file are judged as ever.
fn wrong_byte(
    file: &File,
    edits: &[&Edit],
    range: Range<u64>,
    page: &Payload,
    stale: bool,
) -> Option<Wrong> {
    if range.is_empty() {
        return None;
    }
    let now = file.now.read(range.clone());
    if is_just(page, &now, &range) {
        return None;
    }
    let bytes = page.to_bytes();
    let older = file.older.iter();
    let older = older.filter_map(|o| Some((o.range.clone(), o.pattern?)));
    let begun = edits.iter().flat_map(|edit| values(edit));
    let maybe = file.maybe.iter().cloned();
    let values = now.into_iter().chain(older).chain(maybe).chain(begun);
    let near = |v: &(Range<u64>, u64)| v.0.start < range.end && v.0.end > range.start;
    let values: Vec<_> = values.filter(near).collect();
    let allowed = |at: u64, value: u8| {
        let mut values = values.iter();
        values.any(|(range, pattern)| range.contains(&at) && byte(*pattern, at) == value)
    };
    let unknown = file.unknown.read(range.clone()).into_iter();
    let unknown = unknown.filter(|part| part.1 != 0).map(|part| part.0);
    let unknowable = edits.iter().filter_map(|edit| unknowable(edit));
    let changed = file.older.iter().filter(|o| stale || o.pattern.is_none());
    let changed = changed.map(|o| o.range.clone());
    let unknown = unknown.chain(unknowable).chain(changed);
    let unknown: Vec<Range<u64>> = unknown.collect();
    let lost = *page == Payload::Lost;
    let wrong = range.clone().find(|at| {
        let judged = !unknown.iter().any(|range| range.contains(at));
        judged && (lost || !allowed(*at, bytes[(at - range.start) as usize]))
    });
    let at = wrong?;
    let value = bytes[(at - range.start) as usize];
    let fault = match value {
        _ if lost => Fault::Media,
        0 => Fault::Lost,
        _ => Fault::Corrupt,
    };
    let what = match lost {
        true => format!("cannot be read at byte {at}"),
        false => format!("has {value:#04x} at byte {at}, which it never had since it was forced"),
    };
    Some((fault, what))
}

/// Whether the page consists of the present pattern alone, which is the common case.
fn is_just(page: &Payload, now: &[(Range<u64>, u64)], range: &Range<u64>) -> bool {
    let [(_, pattern)] = now else {
        return false;
    };
    let whole = range.end - range.start == UNIT as u64;
    match page {
        Payload::Zero => *pattern == 0,
        Payload::Fill(fill) => whole && fill == pattern,
        _ => false,
    }
}

/// Values that an edit under way may have written.
fn values(edit: &Edit) -> Vec<Part> {
    match edit {
        Edit::Write { parts, .. } => parts.clone(),
        Edit::Zero { range } => vec![(range.clone(), 0)],
        Edit::Resize { size } => vec![(*size..u64::MAX, 0)],
    }
}

/// Bytes that an edit under way may have set to any value.
fn unknowable(edit: &Edit) -> Option<Range<u64>> {
    match edit {
        Edit::Write { range, parts } if parts.is_empty() => Some(range.clone()),
        _ => None,
    }
}
