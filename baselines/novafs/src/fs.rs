//! The mounted file system: the state that its calls share.

use crate::alloc::{Alloc, Class};
use crate::clean::Cleaning;
use crate::format::{Anchor, Geometry, LINE_BYTES, PAGE_BYTES};
use crate::log::Walk;
use crate::pieces::Run;
use crate::state::State;
use host::{ByteDisk, BytePort, Purpose, Who};
use sim::{Permit, Semaphore, Sim};
use ssd::ByteError;
use std::cell::{Cell, RefCell};
use units::{Origin, Refusals};
use vfs::{Errno, Inode, Result, StatFs};

/// A NOVA file system over a byte port.
pub struct NovaFs {
    pub(crate) sim: Sim,
    pub(crate) port: ByteDisk,
    pub(crate) geometry: Geometry,
    pub(crate) origin: Origin,
    pub(crate) alloc: RefCell<Alloc>,
    pub(crate) cores: Vec<Core>,
    /// Set once a store has failed: the contents of the medium are unknown, and changes are
    /// rejected.
    pub(crate) failed: Cell<bool>,
    pub(crate) cleaning: Cell<Cleaning>,
    /// Limits that allocations have hit.
    pub(crate) refusals: RefCell<Refusals>,
}

/// State private to a core.
pub(crate) struct Core {
    /// Held by the task that uses the core's journal or extends its table.
    pub(crate) turn: Semaphore,
    /// Number of the last committed transaction.
    pub(crate) done: Cell<u64>,
}

/// State of each inode in memory that belongs to this body.
pub struct Private {
    /// Address of the inode's slot in its table.
    pub(crate) slot: u64,
    /// Held by the task that changes the inode.
    pub(crate) turn: Semaphore,
    /// First line of the inode as stored on the medium.
    pub(crate) anchor: Cell<Anchor>,
    pub(crate) state: RefCell<State>,
}

/// An inode in memory.
pub(crate) type Node = Inode<Private>;

/// `EUCLEAN` for a missing value: the bytes on the medium are damaged.
pub(crate) fn damaged<T>(value: Option<T>) -> Result<T> {
    value.ok_or(Errno::EUCLEAN)
}

impl NovaFs {
    /// The port below the file system.
    #[must_use]
    pub const fn port(&self) -> &ByteDisk {
        &self.port
    }

    /// The core of the current task.
    pub(crate) fn core(&self) -> usize {
        self.sim.current().index() % self.cores.len()
    }

    /// Attribution of metadata: the origin of the mount, with `purpose`.
    pub(crate) const fn who(&self, purpose: Purpose) -> Who {
        let origin = self.origin;
        Who { origin, purpose }
    }

    /// Attribution of the contents of a file.
    pub(crate) fn owner(node: &Node) -> Who {
        Who {
            origin: node.origin.get(),
            purpose: Purpose::Data,
        }
    }

    /// Reads bytes at any address, by whole lines.
    pub(crate) async fn load_bytes(&self, at: u64, out: &mut [u8], who: Who) -> Result<()> {
        load_bytes(&self.port, at, out, who)
            .await
            .map_err(|_| Errno::EIO)
    }

    /// Stores whole lines. A failure ends all changes.
    pub(crate) async fn store(&self, at: u64, bytes: &[u8], who: Who) -> Result<()> {
        if self.failed.get() {
            return Err(Errno::EROFS);
        }
        self.noted(self.port.store(at, bytes, 0, who).await)
    }

    /// Makes every store durable (the barrier of the port).
    pub(crate) async fn verify(&self) -> Result<()> {
        self.noted(self.port.verify().await)
    }

    fn noted(&self, done: std::result::Result<(), ByteError>) -> Result<()> {
        done.map_err(|_| {
            self.failed.set(true);
            Errno::EIO
        })
    }

    /// Allocates pages, or records the refusal.
    pub(crate) fn take(&self, pages: u64, class: Class) -> Result<Vec<Run>> {
        let taken = self.alloc.borrow_mut().take(self.core(), pages, class);
        taken.ok_or_else(|| self.refuse_pages(pages, class))
    }

    /// Frees pages that the medium does not refer to.
    pub(crate) fn give(&self, runs: impl IntoIterator<Item = Run>) {
        let mut alloc = self.alloc.borrow_mut();
        runs.into_iter().for_each(|run| alloc.give(run));
    }

    /// Takes the turns of `nodes` in the order of their numbers; duplicates are allowed.
    pub(crate) async fn turns(&self, nodes: &[&Node]) -> Vec<Permit> {
        let mut nodes = nodes.to_vec();
        nodes.sort_by_key(|node| node.ino);
        nodes.dedup_by_key(|node| node.ino);
        let mut turns = Vec::new();
        for node in nodes {
            turns.push(node.private.turn.acquire(1).await);
        }
        turns
    }

    /// State of an inode in memory for its slot, first line and log.
    pub(crate) fn private(&self, slot: u64, anchor: Anchor, state: State) -> Private {
        Private {
            slot,
            turn: Semaphore::new(&self.sim, 1),
            anchor: Cell::new(anchor),
            state: RefCell::new(state),
        }
    }

    /// Capacity and free space.
    pub(crate) fn fullness(&self) -> StatFs {
        let alloc = self.alloc.borrow();
        let (free, available) = alloc.free();
        StatFs {
            block_size: PAGE_BYTES as u32,
            blocks: self.geometry.pages - self.geometry.pool(),
            blocks_free: free,
            blocks_available: available,
            files: alloc.inodes + alloc.free_inodes(),
            files_free: alloc.free_inodes(),
            name_max: 255,
        }
    }
}

/// Reads bytes at any address, by whole lines.
pub(crate) async fn load_bytes(
    port: &ByteDisk,
    at: u64,
    out: &mut [u8],
    who: Who,
) -> std::result::Result<(), ByteError> {
    let (first, end) = (at / LINE_BYTES * LINE_BYTES, at + out.len() as u64);
    let end = end.next_multiple_of(LINE_BYTES);
    if (first, end) == (at, at + out.len() as u64) {
        return port.load(at, out, who).await;
    }
    let mut lines = vec![0; (end - first) as usize];
    port.load(first, &mut lines, who).await?;
    let skip = (at - first) as usize;
    out.copy_from_slice(&lines[skip..skip + out.len()]);
    Ok(())
}

/// Reason why a log could not be read.
pub(crate) enum WalkError {
    Damaged,
    Port(ByteError),
}

/// Reads a log to its end.
pub(crate) async fn walk(
    port: &ByteDisk,
    mut walk: Walk,
    who: Who,
) -> std::result::Result<State, WalkError> {
    let mut page = [0; PAGE_BYTES as usize];
    while let Some((number, bytes)) = walk.wants() {
        let load = port.load(number * PAGE_BYTES, &mut page[..bytes], who);
        load.await.map_err(WalkError::Port)?;
        walk.feed(&page).ok_or(WalkError::Damaged)?;
    }
    Ok(walk.finish())
}
