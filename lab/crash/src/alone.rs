//! Files that are forced by themselves, in file systems that roll forward.
//!
//! Such a file system recovers its last checkpoint and lays forced files over it. Of the
//! names, recovery adds those of regular files that were made after the checkpoint and
//! forced. The rules are those of `vfs::model::Order::Entries`.
//!
//! Invariants: the directory of a forced file is there at the checkpoint. A file that had
//! the name at the checkpoint loses it; a directory never does.

use crate::chronicle::{Chronicle, Id, Key, Pending};
use crate::explore::Fault;
use crate::file::Birth;
use crate::judge::{Shown, Wrong, told};
use std::collections::BTreeMap;
use vfs::{FileKind, Ino};

/// A new file that was forced by itself, and the name that it was made with.
#[derive(Clone, Debug)]
pub(crate) struct Forced {
    /// Index of the moment that made the file.
    made: usize,
    key: Key,
    id: Id,
    /// Whether recovery must show the name, or only may.
    promised: bool,
}

impl Forced {
    /// Whether the file was made at moment `at` or later.
    pub(crate) const fn is_after(&self, at: usize) -> bool {
        self.made >= at
    }
}

impl Chronicle {
    /// Sets whether a new file is forced by itself, without names that changed earlier.
    pub fn set_alone(&mut self, alone: bool) {
        self.alone = alone;
    }

    /// The creation of `id`, if that is the only change of its names before moment `before`
    /// and no force has covered it.
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

    /// Records that a force of `id` has ended, which began after moment `before`. Returns
    /// whether it forced the file by itself. If `promised`, recovery must show the name and
    /// its directory.
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

    /// Forced names from moment `at` on, including those of forces that are still running.
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

    /// Forced names that recovery lays over `names`, those of a checkpoint at moment `at`,
    /// each with its fault, if it has one.
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
