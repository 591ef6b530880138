//! Advisory locks: whole files by open file (`flock`), byte ranges by owner (`fcntl`).
//!
//! Invariants: overlapping locks of different owners on one file are all shared. The ranges of one
//! owner do not overlap, and adjacent ones differ in kind. A waiter for a range is in [`Waits`]
//! with the owner that blocks it, and these edges never form a cycle.

use crate::access::ensure;
use crate::body::Body;
use crate::errno::{Errno, Result};
use crate::file::Handle;
use crate::flags::OpenFlags;
use crate::types::Ino;
use crate::vfs::{NodeOf, Vfs};
use sim::Signal;
use std::cell::RefCell;

/// Compatibility of a lock with those of other owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Compatible with other shared locks.
    Shared,
    /// Excludes locks of all other owners.
    Exclusive,
}

/// A lock of a range of bytes, as of `fcntl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordLock {
    /// Shared for readers, exclusive for writers.
    pub kind: LockKind,
    /// First byte of the range.
    pub start: u64,
    /// Last byte, inclusive; `u64::MAX` reaches to the end of the file, however it grows.
    pub last: u64,
    /// Owner of the lock: a number that the caller assigns to each process.
    pub owner: u64,
}

impl RecordLock {
    fn overlaps(&self, other: &Self) -> bool {
        self.start <= other.last && other.start <= self.last
    }

    fn conflicts(&self, other: &Self) -> bool {
        let exclusive = [self.kind, other.kind].contains(&LockKind::Exclusive);
        exclusive && self.owner != other.owner && self.overlaps(other)
    }
}

/// All locks of one file.
#[derive(Default)]
pub(crate) struct FileLocks {
    whole: RefCell<Vec<(u64, LockKind)>>,
    records: RefCell<Vec<RecordLock>>,
    changed: Signal,
}

impl FileLocks {
    fn blocker(&self, wanted: &RecordLock) -> Option<RecordLock> {
        let records = self.records.borrow();
        records.iter().find(|held| held.conflicts(wanted)).copied()
    }

    /// Replaces the locks of `owner` between `start` and `last` by `new`; `None` unlocks the range.
    fn replace(&self, owner: u64, start: u64, last: u64, new: Option<LockKind>) {
        let mut records = self.records.borrow_mut();
        let (own, mut kept): (Vec<_>, Vec<_>) =
            records.drain(..).partition(|held| held.owner == owner);
        let mut own: Vec<_> = own
            .iter()
            .flat_map(|held| outside(held, start, last))
            .collect();
        own.extend(new.map(|kind| RecordLock {
            kind,
            start,
            last,
            owner,
        }));
        own.sort_by_key(|held| held.start);
        for lock in own {
            match kept.last_mut() {
                Some(before)
                    if before.owner == owner
                        && before.kind == lock.kind
                        && before.last.checked_add(1) == Some(lock.start) =>
                {
                    before.last = lock.last;
                }
                _ => kept.push(lock),
            }
        }
        *records = kept;
    }
}

/// Parts of a lock outside a range.
fn outside(held: &RecordLock, start: u64, last: u64) -> impl Iterator<Item = RecordLock> + use<> {
    let below = (held.start < start).then(|| RecordLock {
        last: held.last.min(start - 1),
        ..*held
    });
    let above = (held.last > last).then(|| RecordLock {
        start: held.start.max(last + 1),
        ..*held
    });
    below.into_iter().chain(above)
}

/// Edges of the wait graph: a waiting owner and the owner that blocks it.
#[derive(Default)]
pub(crate) struct Waits(RefCell<Vec<(u64, u64)>>);

impl Waits {
    /// Whether `from` waits for `owner`, directly or through other waiters.
    fn leads_to(&self, from: u64, owner: u64) -> bool {
        let waits = self.0.borrow();
        let (mut reached, mut next) = (vec![from], 0);
        while let Some(&at) = reached.get(next) {
            if at == owner {
                return true;
            }
            next += 1;
            for &(_, blocker) in waits.iter().filter(|(waiter, _)| *waiter == at) {
                if !reached.contains(&blocker) {
                    reached.push(blocker);
                }
            }
        }
        false
    }

    fn enter(&self, waiter: u64, blocker: u64) -> Waiting<'_> {
        self.0.borrow_mut().push((waiter, blocker));
        Waiting {
            waits: self,
            edge: (waiter, blocker),
        }
    }
}

/// An edge of the wait graph, removed on drop.
struct Waiting<'a> {
    waits: &'a Waits,
    edge: (u64, u64),
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut waits = self.waits.0.borrow_mut();
        if let Some(at) = waits.iter().position(|&edge| edge == self.edge) {
            waits.remove(at);
        }
    }
}

impl<B: Body> Vfs<B> {
    /// Locks an open file as a whole, converts its lock, or unlocks it if `kind` is `None`. As in
    /// Linux a conversion first releases the old lock.
    ///
    /// # Errors
    /// `EBADF`; `EAGAIN` if the lock is taken and `wait` is false.
    pub async fn flock(&self, handle: &Handle, kind: Option<LockKind>, wait: bool) -> Result<()> {
        let core = &self.core;
        core.pay(core.config.costs.call).await;
        let file = core.file(handle)?;
        let (locks, me) = (&file.node.locks, handle.number());
        if locks
            .whole
            .borrow()
            .iter()
            .any(|held| kind == Some(held.1) && held.0 == me)
        {
            return Ok(());
        }
        core.drop_flock(&file.node, me);
        let Some(kind) = kind else { return Ok(()) };
        loop {
            let exclusive = |other| [kind, other].contains(&LockKind::Exclusive);
            let taken = locks.whole.borrow().iter().any(|held| exclusive(held.1));
            if !taken {
                locks.whole.borrow_mut().push((me, kind));
                return Ok(());
            }
            ensure(wait, Errno::EAGAIN)?;
            locks.changed.wait(&core.sim).await;
            core.file(handle)?;
        }
    }

    /// Returns a lock that conflicts with `wanted`, if any.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn get_lock(&self, handle: &Handle, wanted: &RecordLock) -> Result<Option<RecordLock>> {
        Ok(self.core.file(handle)?.node.locks.blocker(wanted))
    }

    /// Locks a range for its owner; waits for conflicting locks if `wait`.
    ///
    /// # Errors
    /// `EBADF` if the file was not opened for reading (shared lock) or writing (exclusive lock);
    /// `EINVAL` for an empty range; `EAGAIN` if the range is taken and `wait` is false; `EDEADLK`
    /// if waiting would close a cycle of waiters.
    pub async fn set_lock(&self, handle: &Handle, wanted: RecordLock, wait: bool) -> Result<()> {
        let core = &self.core;
        core.pay(core.config.costs.call).await;
        let file = core.file(handle)?;
        let needed = match wanted.kind {
            LockKind::Shared => OpenFlags::READ,
            LockKind::Exclusive => OpenFlags::WRITE,
        };
        ensure(file.has(needed), Errno::EBADF)?;
        ensure(wanted.start <= wanted.last, Errno::EINVAL)?;
        let locks = &file.node.locks;
        while let Some(blocker) = locks.blocker(&wanted) {
            ensure(wait, Errno::EAGAIN)?;
            let circle = core.waits.leads_to(blocker.owner, wanted.owner);
            ensure(!circle, Errno::EDEADLK)?;
            let _waiting = core.waits.enter(wanted.owner, blocker.owner);
            locks.changed.wait(&core.sim).await;
        }
        locks.replace(wanted.owner, wanted.start, wanted.last, Some(wanted.kind));
        // Converting a lock to shared can admit waiters.
        locks.changed.notify(&core.sim);
        Ok(())
    }

    /// Releases the locks of `owner` between `start` and `last`.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn unlock(&self, handle: &Handle, owner: u64, start: u64, last: u64) -> Result<()> {
        let file = self.core.file(handle)?;
        self.unlock_node(&file.node, owner, start, last);
        Ok(())
    }

    /// Releases all ranges of a file that `owner` holds, as closing any of its descriptors does.
    pub fn unlock_all(&self, ino: Ino, owner: u64) {
        if let Some(node) = self.core.ready(ino) {
            self.unlock_node(&node, owner, 0, u64::MAX);
        }
    }

    fn unlock_node(&self, node: &NodeOf<B>, owner: u64, start: u64, last: u64) {
        if !node.locks.records.borrow().is_empty() {
            node.locks.replace(owner, start, last, None);
            node.locks.changed.notify(&self.core.sim);
        }
    }
}

impl<B: Body> crate::vfs::Core<B> {
    /// Releases the `flock` of an open file.
    pub(crate) fn drop_flock(&self, node: &NodeOf<B>, file: u64) {
        let mut whole = node.locks.whole.borrow_mut();
        let before = whole.len();
        whole.retain(|held| held.0 != file);
        if whole.len() < before {
            node.locks.changed.notify(&self.sim);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(locks: &FileLocks) -> Vec<(u64, u64, LockKind)> {
        let records = locks.records.borrow();
        records.iter().map(|r| (r.start, r.last, r.kind)).collect()
    }

    #[test]
    fn ranges_of_one_owner_split_and_join() {
        use LockKind::{Exclusive, Shared};
        let locks = FileLocks::default();
        locks.replace(1, 0, 99, Some(Exclusive));
        locks.replace(1, 40, 59, Some(Shared));
        let split = [(0, 39, Exclusive), (40, 59, Shared), (60, 99, Exclusive)];
        assert_eq!(ranges(&locks), split);
        locks.replace(1, 40, 59, Some(Exclusive));
        assert_eq!(ranges(&locks), [(0, 99, Exclusive)]);
        locks.replace(1, 90, u64::MAX, None);
        assert_eq!(ranges(&locks), [(0, 89, Exclusive)]);
    }

    #[test]
    fn a_circle_of_waiters_is_seen() {
        let waits = Waits::default();
        let _first = waits.enter(1, 2);
        let second = waits.enter(2, 3);
        assert!(waits.leads_to(1, 3));
        drop(second);
        assert!(!waits.leads_to(1, 3));
    }
}
