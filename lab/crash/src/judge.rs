//! Holds what recovery shows against the history.
//!
//! Invariant: a state is accepted exactly if there is a moment, not before the
//! floor, at which every name led to a file of this kind whose contents are
//! possible; names that a call was changing at the cut may, at moments since it
//! began, be gone or lead to any file that there was or to a new one.

use crate::chronicle::{Change, Chronicle, Edit, File, Id, Key, Pending};
use crate::explore::Fault;
use crate::spans::byte;
use nand::{Payload, UNIT};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use vfs::{Body, Errno, FileKind, Ino, Inode, PAGE};

/// Pages of a file that are looked at: 256 MiB.
const MOST_PAGES: u64 = 65_536;

/// A file as recovery shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its inode.
    pub ino: Ino,
    /// What it is.
    pub kind: FileKind,
    /// Its size in bytes.
    pub size: u64,
    /// Contents, page by page; those past the last one are zeros.
    pub pages: Vec<Payload>,
    /// Where a symbolic link leads.
    pub target: Vec<u8>,
}

/// Everything that recovery shows: by directory and name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown(BTreeMap<Key, Seen>);

impl Shown {
    /// Reads all that `body` has.
    ///
    /// # Errors
    /// Whatever could not be read; `EUCLEAN` if a directory has two names.
    pub async fn read<B: Body>(body: &B) -> vfs::Result<Self> {
        let mut shown = Self::default();
        let mut met = BTreeSet::from([body.root()]);
        let mut left = vec![body.root()];
        while let Some(number) = left.pop() {
            let dir = in_memory(body, number).await?;
            let mut cookie = 0;
            loop {
                let entries = body.read_dir(&dir, cookie, 64).await?;
                let Some(last) = entries.last() else { break };
                cookie = last.cookie;
                for entry in entries {
                    let seen = see(body, entry.ino).await?;
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

    /// Adds what `name` in `dir` leads to.
    pub fn add(&mut self, dir: Ino, name: &[u8], seen: Seen) {
        self.0.insert((dir, name.into()), seen);
    }

    /// All names, with the directory of each.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Ino, &[u8], &Seen)> {
        self.0
            .iter()
            .map(|((dir, name), seen)| (*dir, &name[..], seen))
    }

    /// How many names there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

async fn in_memory<B: Body>(body: &B, ino: Ino) -> vfs::Result<Inode<B::Private>> {
    let loaded = body.load(ino).await?;
    Ok(Inode::new(ino, loaded.attr, loaded.private))
}

async fn see<B: Body>(body: &B, ino: Ino) -> vfs::Result<Seen> {
    let inode = in_memory(body, ino).await?;
    let attr = inode.attr.get();
    let mut seen = Seen {
        ino,
        kind: attr.kind,
        size: attr.size,
        pages: Vec::new(),
        target: Vec::new(),
    };
    match attr.kind {
        FileKind::Symlink => seen.target = body.readlink(&inode).await?,
        FileKind::Regular => {
            // Nothing is promised of files larger than what any test writes.
            let pages = attr.size.div_ceil(PAGE).min(MOST_PAGES);
            seen.pages = vec![Payload::Zero; pages as usize];
            body.read_pages(&inode, 0, &mut seen.pages).await?;
        }
        _ => {}
    }
    Ok(seen)
}

fn ensure_new(met: &mut BTreeSet<Ino>, ino: Ino) -> vfs::Result<()> {
    met.insert(ino).then_some(()).ok_or(Errno::EUCLEAN)
}

/// What is wrong with one name.
type Wrong = (Fault, String);

impl Chronicle {
    /// What recovery must not have shown; nothing if all promises were kept.
    #[must_use]
    pub fn judge(&self, shown: &Shown) -> Vec<(Fault, String)> {
        let unsure = self.unsure();
        let mut names = self.names.clone();
        let keys: BTreeSet<&Key> = names.keys().chain(shown.0.keys()).collect();
        let compare = |key: &Key, id: Option<Id>, at: usize| {
            let seen = shown.0.get(key);
            match unsure.get(key) {
                Some(&since) if since <= at => self.compare_unsure(key, id, seen?),
                _ => self.compare(key, id, seen),
            }
        };
        let now = self.log.len();
        let wrong = |&key: &&Key| Some((key.clone(), compare(key, names.get(key).copied(), now)?));
        let mut found: BTreeMap<Key, Wrong> = keys.iter().filter_map(wrong).collect();
        let mut best = found.clone();
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
            // Calls that began after this moment have changed nothing by then.
            let sure = unsure.iter().filter(|(_, since)| **since == at + 1);
            let changed = moment.changes.iter().map(|change| &change.key);
            for key in changed.chain(sure.map(|(key, _)| key)) {
                match compare(key, names.get(key).copied(), at) {
                    Some(wrong) => found.insert(key.clone(), wrong),
                    None => found.remove(key),
                };
            }
            if found.len() < best.len() {
                best.clone_from(&found);
            }
        }
        best.into_values().collect()
    }

    /// Names that a call was changing, and how many moments there were when the
    /// first such call began.
    fn unsure(&self) -> BTreeMap<Key, usize> {
        let mut unsure = BTreeMap::new();
        for (&ticket, pending) in &self.pending {
            let Pending::Names(keys) = pending else {
                continue;
            };
            for key in keys {
                let since = self.moments_at(ticket);
                unsure.entry(key.clone()).or_insert(since);
            }
        }
        unsure
    }

    /// The same of a name that a call was changing: whatever it leads to is a new
    /// file, which is empty, or one that there was.
    fn compare_unsure(&self, key: &Key, id: Option<Id>, seen: &Seen) -> Option<Wrong> {
        let wrong = self.compare(key, id, Some(seen))?;
        let new = seen.kind != FileKind::Regular || seen.size == 0;
        let mut known = self.files.keys();
        let explained = new || known.any(|&id| self.contents(id, seen).is_none());
        (!explained).then_some(wrong)
    }

    /// What is wrong if `key` led to `id` at the moment that is shown.
    fn compare(&self, key: &Key, id: Option<Id>, seen: Option<&Seen>) -> Option<Wrong> {
        let name = || {
            format!(
                "{} in directory {}",
                String::from_utf8_lossy(&key.1),
                key.0.0
            )
        };
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
        if file.kind != seen.kind || file.target != seen.target {
            return Some((Fault::Corrupt, "is something else".to_owned()));
        }
        if file.kind != FileKind::Regular {
            return None;
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
        pages
            .filter_map(|(index, page)| {
                let start = (index * UNIT) as u64;
                let range = start..(start + UNIT as u64).min(seen.size);
                wrong_byte(file, &edits, range, page, self.stale)
            })
            .next()
    }

    /// Changes of a file that had begun and not ended.
    fn edits(&self, id: Id) -> impl Iterator<Item = &Edit> {
        self.pending
            .values()
            .filter_map(move |pending| match pending {
                Pending::Edit(of, edit) if *of == id => Some(edit),
                _ => None,
            })
    }
}

/// The smallest and the largest size, with what was being changed.
fn allowed_sizes(file: &File, edits: &[&Edit]) -> (u64, u64) {
    let (mut least, mut most) = file.sizes();
    for edit in edits {
        match edit {
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

/// The first byte of a page that has a value which it never had.
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
    let older = file.older.iter().map(|o| (o.range.clone(), o.pattern));
    let begun = edits.iter().filter_map(|edit| values(edit));
    let values = now.into_iter().chain(older).chain(begun);
    let near = |v: &(Range<u64>, u64)| v.0.start < range.end && v.0.end > range.start;
    let values: Vec<_> = values.filter(near).collect();
    let allowed = |at: u64, value: u8| {
        let mut values = values.iter();
        values.any(|(range, pattern)| range.contains(&at) && byte(*pattern, at) == value)
    };
    let unknown = file.unknown.read(range.clone()).into_iter();
    let unknown = unknown.filter(|part| part.1 != 0).map(|part| part.0);
    let unknowable = edits.iter().filter_map(|edit| unknowable(edit));
    let changed = file.older.iter().filter(|_| stale).map(|o| o.range.clone());
    let unknown = unknown.chain(unknowable).chain(changed);
    let unknown: Vec<Range<u64>> = unknown.collect();
    let lost = *page == Payload::Lost;
    let wrong = range.clone().find(|at| {
        let judged = !unknown.iter().any(|range| range.contains(at));
        judged && (lost || !allowed(*at, bytes[(at - range.start) as usize]))
    });
    let at = wrong?;
    let value = bytes[(at - range.start) as usize];
    let fault = if value == 0 {
        Fault::Lost
    } else {
        Fault::Corrupt
    };
    let what = match lost {
        true => format!("cannot be read at byte {at}"),
        false => format!("has {value:#04x} at byte {at}, which it never had since it was forced"),
    };
    Some((fault, what))
}

/// Whether the bytes of `range` in a page are one pattern, the present one.
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

/// Values that a change which had begun may have given.
fn values(edit: &Edit) -> Option<(Range<u64>, u64)> {
    match edit {
        Edit::Write { range, pattern } => Some((range.clone(), (*pattern)?)),
        Edit::Zero { range } => Some((range.clone(), 0)),
        Edit::Resize { size } => Some((*size..u64::MAX, 0)),
    }
}

/// Bytes of which nothing is known if a change had begun.
fn unknowable(edit: &Edit) -> Option<Range<u64>> {
    match edit {
        Edit::Write {
            range,
            pattern: None,
        } => Some(range.clone()),
        _ => None,
    }
}
