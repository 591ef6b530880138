//! Files that are forced by themselves, in file systems that roll forward.
//!
//! Such a file system has a checkpoint, and what was forced since lies over it: of the
//! names, those of regular files that were made after the checkpoint and forced. The rules
//! are those of `vfs::model::Order::Entries`.
//!
//! Invariants: the directory of such a file is there at the checkpoint; whoever had its
//! name there has lost it, and is no directory.

use crate::chronicle::{Chronicle, Id, Key, Pending};
use crate::explore::Fault;
use crate::file::Birth;
use crate::judge::{Shown, Wrong, told};
use std::collections::BTreeMap;
use vfs::{FileKind, Ino};

/// A name that a forced file was made with.
#[derive(Clone, Debug)]
pub(crate) struct Forced {
    /// The moment of the making.
    made: usize,
    key: Key,
    id: Id,
    /// Whether it has to be there, or only may.
    promised: bool,
}

impl Forced {
    /// Whether it was made at the moment `at` or later.
    pub(crate) const fn is_after(&self, at: usize) -> bool {
        self.made >= at
    }
}

impl Chronicle {
    /// Says whether files are forced by themselves, without names that changed before.
    pub fn set_alone(&mut self, alone: bool) {
        self.alone = alone;
    }

    /// The name of a file to which nothing has happened before moment `before`, since it
    /// was forced, but that it was made.
    fn just_made(&self, id: Id, before: usize) -> Option<Forced> {
        let file = &self.files[&id];
        let covered = file.touches.partition_point(|&moment| moment < before);
        let [made] = file.touches[..covered] else {
            return None;
        };
        let is_new = self.alone && file.kind == FileKind::Regular && file.birth == Birth::At(made);
        let mut changes = self.log[made].changes.iter();
        let change = changes.find(|change| is_new && change.new == Some(id))?;
        Some(Forced {
            made,
            key: change.key.clone(),
            id,
            promised: false,
        })
    }

    /// Forcing a file has ended, which knew the moments before `before`: whether that was
    /// by itself. With a promise, its name was forced, and has to be there.
    pub(crate) fn force_alone(&mut self, id: Id, before: usize, promised: bool) -> bool {
        let Some(mut forced) = self.just_made(id, before) else {
            return false;
        };
        if promised {
            forced.promised = true;
            let dir = self.born(forced.key.0);
            if let Some(dir) = dir {
                self.force_moment(dir);
            }
        }
        self.forced.retain(|other| other.id != id);
        self.forced.push(forced);
        self.forced.sort_by_key(|forced| forced.made);
        true
    }

    /// The moment of the log at which an inode got its first name; none if the inode is
    /// older than the history, or has no name.
    fn born(&self, ino: Ino) -> Option<usize> {
        match self.files[self.inodes.get(&ino)?].birth {
            Birth::At(moment) => Some(moment),
            Birth::Before | Birth::Unnamed => None,
        }
    }

    /// Names that lie over those of the moment `at`, and what may have been laid over them
    /// when the power was cut.
    pub(crate) fn forced_since(&self, at: usize) -> Vec<Forced> {
        let begun = self.pending.iter().filter_map(|(ticket, pending)| {
            let Pending::Force(ino, ..) = pending else {
                return None;
            };
            self.just_made(*self.inodes.get(ino)?, self.moments_at(*ticket))
        });
        let known = self.forced.iter().cloned();
        let mut all: Vec<Forced> = known.chain(begun).filter(|f| f.is_after(at)).collect();
        all.sort_by_key(|forced| forced.made);
        all
    }

    /// Names that lie over `names`, those of the moment `at`, if that is the one of the
    /// checkpoint, and what is wrong with each.
    pub(crate) fn laid_over(
        &self,
        forced: &[Forced],
        at: usize,
        names: &BTreeMap<Key, Id>,
        shown: &Shown,
    ) -> BTreeMap<Key, Option<Wrong>> {
        let first = forced.partition_point(|forced| forced.made < at);
        let mut over: BTreeMap<&Key, Vec<Option<Id>>> = BTreeMap::new();
        let is_dir = |id: &Id| self.files[id].kind == FileKind::Directory;
        for forced in &forced[first..] {
            let before = names.get(&forced.key);
            let leads = over
                .entry(&forced.key)
                .or_insert_with(|| vec![before.copied()]);
            if forced.promised {
                leads.clear();
            }
            if forced.promised || !before.is_some_and(is_dir) {
                leads.push(Some(forced.id));
            }
        }
        let judged = over.into_iter().map(|(key, leads)| {
            let dir = names.get(key).filter(|id| is_dir(id)).copied();
            if dir.is_some() && !leads.contains(&dir) {
                let what = format!("{} was a directory", told(key));
                return (key.clone(), Some((Fault::Lost, what)));
            }
            let wrong = leads
                .iter()
                .map(|id| self.compare(key, *id, shown.get(key)));
            let wrong: Option<Vec<Wrong>> = wrong.collect();
            (key.clone(), wrong.and_then(|mut wrong| wrong.pop()))
        });
        judged.collect()
    }
}
