//! The player: repeats recorded calls on a mount, one after the other.
//!
//! Invariant: a file is referred to from the call that makes it, or the first that uses it, to the
//! last that uses it, and no longer. So a file without a name is freed as early as a program could
//! have freed it, however late its kernel did.

use super::{Call, Name, Owned, Recording};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use vfs::{
    Access, Attr, Body, Errno, FileKind, Handle, Ino, OpenFlags, RenameFlags, Result, SetAttr,
    Source, Vfs, XattrFlags,
};

/// Progress of a player, for its observers.
#[derive(Debug, Default)]
pub struct Played {
    entries: Cell<usize>,
    forces: Cell<u64>,
    failed: Cell<u64>,
    why: RefCell<Option<String>>,
}

impl Played {
    /// Entries of the recording that are done.
    #[must_use]
    pub const fn entries(&self) -> usize {
        self.entries.get()
    }

    /// Forces that have ended.
    #[must_use]
    pub const fn forces(&self) -> u64 {
        self.forces.get()
    }

    /// Calls that failed, unlike those recorded.
    #[must_use]
    pub const fn failed(&self) -> u64 {
        self.failed.get()
    }

    /// Sentence on the first call that failed; `None` if none did.
    pub fn why(&self) -> Option<String> {
        self.why.borrow().clone()
    }

    fn note(&self, call: &Call, done: Result<()>) {
        self.entries.set(self.entries.get() + 1);
        if matches!(call, Call::Force { .. } | Call::ForceAll) {
            self.forces.set(self.forces.get() + 1);
        }
        let Err(errno) = done else { return };
        self.failed.set(self.failed.get() + 1);
        let sentence = || format!("call {} fails with {errno}", self.entries.get());
        self.why.borrow_mut().get_or_insert_with(sentence);
    }
}

/// Repeats the calls of `recording` on `vfs`, and notes each in `played`.
pub async fn play<B: Body>(recording: &Recording, vfs: &Vfs<B>, played: &Played) {
    let mut player = Player {
        vfs,
        numbers: BTreeMap::from([(recording.root, vfs.root())]),
        held: BTreeSet::new(),
        open: BTreeMap::new(),
    };
    for (call, last) in recording.calls.iter().zip(last_uses(&recording.calls)) {
        let done = player.repeat(call).await;
        for label in last {
            player.drop(label).await;
        }
        played.note(call, done);
    }
}

/// Labels that each call is the last to use before they stand for another file.
fn last_uses(calls: &[Call]) -> Vec<Vec<Ino>> {
    let mut later = BTreeSet::new();
    let mut last: Vec<Vec<Ino>> = Vec::with_capacity(calls.len());
    for call in calls.iter().rev() {
        let mut ends = Vec::new();
        if let Call::Make { ino, .. } = call
            && !later.remove(ino)
        {
            ends.push(*ino);
        }
        for label in call.uses() {
            if later.insert(label) {
                ends.push(label);
            }
        }
        last.push(ends);
    }
    last.reverse();
    last
}

struct Player<'a, B: Body> {
    vfs: &'a Vfs<B>,
    /// Inode numbers here, by the labels of the recording.
    numbers: BTreeMap<Ino, Ino>,
    /// Labels of the files that the player refers to.
    held: BTreeSet<Ino>,
    /// Open files, by label.
    open: BTreeMap<Ino, Handle>,
}

impl<B: Body> Player<'_, B> {
    /// The inode number for a label. A label that no call has made is that of a file of the empty
    /// file system, which has the same number here.
    fn ino(&self, label: Ino) -> Ino {
        self.numbers.get(&label).copied().unwrap_or(label)
    }

    /// The file of a label, open for `flags`.
    async fn open(&mut self, label: Ino, flags: OpenFlags) -> Result<Handle> {
        if let Some(handle) = self.open.get(&label) {
            return Ok(*handle);
        }
        let ino = self.ino(label);
        let handle = self.vfs.open_granted(&Access::root(), ino, flags).await?;
        self.open.insert(label, handle);
        Ok(handle)
    }

    async fn drop(&mut self, label: Ino) {
        if let Some(handle) = self.open.remove(&label) {
            self.vfs.release(handle).await;
        }
        if self.held.remove(&label) {
            self.vfs.forget(self.ino(label), 1).await;
        }
    }

    async fn repeat(&mut self, call: &Call) -> Result<()> {
        let (vfs, root) = (self.vfs, Access::root());
        match call {
            Call::Make { .. } => self.make(call).await,
            Call::Link { at, ino } => {
                let (ino, dir) = (self.ino(*ino), self.ino(at.dir));
                vfs.link(&root, ino, dir, &at.name).await?;
                vfs.forget(ino, 1).await;
                Ok(())
            }
            Call::Remove { at, is_dir, .. } => {
                let dir = self.ino(at.dir);
                match is_dir {
                    true => vfs.rmdir(&root, dir, &at.name).await,
                    false => vfs.unlink(&root, dir, &at.name).await,
                }
            }
            Call::Rename { from, to, exchange } => self.rename(from, to, *exchange).await,
            Call::Own { ino, owned } => self.own(self.ino(*ino), *owned, None).await,
            Call::Extend { ino, name, value } => {
                let ino = self.ino(*ino);
                match value {
                    Some(value) => {
                        let any = XattrFlags::Any;
                        vfs.set_xattr(&root, ino, name, value, any).await
                    }
                    None => vfs.remove_xattr(&root, ino, name).await,
                }
            }
            Call::Force { ino, data_only } => self.force(*ino, *data_only).await,
            Call::ForceAll => vfs.sync().await,
            Call::Print(_) => Ok(()),
            contents => self.fill(contents).await,
        }
    }

    /// Repeats a call on the contents of files.
    async fn fill(&mut self, call: &Call) -> Result<()> {
        let vfs = self.vfs;
        match call {
            Call::Write { ino, offset, bytes } => {
                let handle = self.open(*ino, OpenFlags::BOTH).await?;
                let written = vfs.write(&handle, *offset, Source::Bytes(bytes)).await?;
                let is_whole = written == bytes.len() as u64;
                is_whole.then_some(()).ok_or(Errno::ENOSPC)
            }
            Call::Resize { ino, size } => {
                let handle = self.open(*ino, OpenFlags::BOTH).await?;
                vfs.truncate(&handle, *size).await
            }
            Call::Allocate { ino, mode, range } => {
                let handle = self.open(*ino, OpenFlags::BOTH).await?;
                let len = range.end - range.start;
                vfs.fallocate(&handle, *mode, range.start, len).await
            }
            Call::Share {
                from,
                span,
                to,
                place,
            } => {
                let from = self.open(*from, OpenFlags::BOTH).await?;
                let to = self.open(*to, OpenFlags::BOTH).await?;
                let len = span.end - span.start;
                let copied = vfs.copy_range(&from, span.start, &to, *place, len);
                copied.await.map(|_| ())
            }
            _ => Ok(()),
        }
    }

    async fn make(&mut self, call: &Call) -> Result<()> {
        let Call::Make {
            at,
            ino,
            kind,
            owned,
            rdev,
            target,
        } = call
        else {
            return Ok(());
        };
        let who = Access {
            uid: owned.uid,
            gid: owned.gid,
            groups: Vec::new(),
        };
        let (vfs, dir) = (self.vfs, self.ino(at.dir));
        let made = match kind {
            FileKind::Symlink => vfs.symlink(&who, dir, &at.name, target).await,
            kind => {
                vfs.mknod(&who, dir, &at.name, *kind, owned.mode, *rdev)
                    .await
            }
        };
        let (number, attr) = made?;
        self.numbers.insert(*ino, number);
        self.held.insert(*ino);
        match kind {
            FileKind::Symlink => Ok(()),
            _ => self.own(number, *owned, Some(&attr)).await,
        }
    }

    /// Sets permissions and owner, unless the file has them `already`.
    async fn own(&self, ino: Ino, owned: Owned, already: Option<&Attr>) -> Result<()> {
        let Owned { mode, uid, gid } = owned;
        if already.is_some_and(|attr| (attr.mode, attr.uid, attr.gid) == (mode, uid, gid)) {
            return Ok(());
        }
        let set = SetAttr {
            mode: Some(mode),
            uid: Some(uid),
            gid: Some(gid),
            ..SetAttr::default()
        };
        let done = self.vfs.setattr(&Access::root(), ino, set).await;
        done.map(|_| ())
    }

    async fn rename(&self, from: &Name, to: &Name, exchange: bool) -> Result<()> {
        let (old, new) = (self.ino(from.dir), self.ino(to.dir));
        let how = RenameFlags {
            no_replace: false,
            exchange,
        };
        let root = Access::root();
        let done = self
            .vfs
            .rename(&root, old, &from.name, new, &to.name, how)
            .await;
        done.map(|_| ())
    }

    async fn force(&mut self, label: Ino, data_only: bool) -> Result<()> {
        let handle = match self.open(label, OpenFlags::BOTH).await {
            Err(Errno::EISDIR) => self.open(label, OpenFlags::READ).await?,
            handle => handle?,
        };
        self.vfs.fsync(&handle, data_only).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_ends_with_its_last_use_before_the_next_file() {
        let (root, file) = (Ino(1), Ino(2));
        let make = |name: u8| Call::Make {
            at: Name {
                dir: root,
                name: vec![name],
            },
            ino: file,
            kind: FileKind::Regular,
            owned: Owned {
                mode: 0o644,
                uid: 0,
                gid: 0,
            },
            rdev: 0,
            target: Vec::new(),
        };
        let resize = Call::Resize { ino: file, size: 0 };
        let calls = [make(b'a'), resize.clone(), make(b'b'), resize, make(b'c')];
        let last = last_uses(&calls);
        let expected = [vec![], vec![file], vec![], vec![file], vec![file, root]];
        assert_eq!(last, expected);
    }
}
