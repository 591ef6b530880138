//! Write-back: the schedule by which dirty pages reach the medium.
//!
//! As in Linux, a file is written back once it has been dirty for `expire`; the oldest files are
//! written back while more than the background ratio is dirty, or while the cache needs frames; and
//! a call that forces a file writes it back itself. The write-back task, which does the first two,
//! exists only while something is dirty, so that a simulation comes to rest.
//!
//! Invariants: a page is under write-back at most once at a time. The contents passed to the body
//! do not change under it: a write meanwhile copies the page and marks it dirty again. A page that
//! could not be written is clean all the same, as in Linux, and each open file that forces the file
//! reports the failure once.

use crate::body::{Body, DirtyPage};
use crate::errno::Result;
use crate::file::Handle;
use crate::observe::Act;
use crate::pool::state;
use crate::types::{Ino, PAGE};
use crate::vfs::{Core, NodeOf, Vfs};
use sim::{Signal, Sim, join_all, timeout};
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

/// Requests to the write-back task.
#[derive(Default)]
pub(crate) struct Flusher {
    running: Cell<bool>,
    kicked: Cell<bool>,
    pressed: Cell<bool>,
    stopped: Cell<bool>,
    wake: Signal,
}

impl Flusher {
    /// Wakes the task to look for due files now.
    pub(crate) fn kick(&self, sim: &Sim) {
        self.kicked.set(true);
        self.wake.notify(sim);
    }

    /// Makes the task write back the oldest files even below the background ratio, because the
    /// cache needs frames.
    pub(crate) fn press(&self, sim: &Sim) {
        self.pressed.set(true);
        self.kick(sim);
    }

    /// Ends the task, as an unmount does.
    pub(crate) fn stop(&self, sim: &Sim) {
        self.stopped.set(true);
        self.kick(sim);
    }
}

/// Counts a force in progress, until dropped.
pub(crate) struct Forcing<'a>(&'a Cell<u32>);

impl<'a> Forcing<'a> {
    pub(crate) fn new(count: &'a Cell<u32>) -> Self {
        count.set(count.get() + 1);
        Self(count)
    }
}

impl Drop for Forcing<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// A batch of pages under write-back.
struct Batch {
    number: u64,
    pages: Vec<DirtyPage>,
}

impl<B: Body> Vfs<B> {
    /// Makes a file durable; with `data_only`, only its contents and the metadata needed to read
    /// them.
    ///
    /// # Errors
    /// The first failure of the call, or of an earlier write-back since the file was opened.
    pub async fn fsync(&self, handle: &Handle, data_only: bool) -> Result<()> {
        self.core.pay(self.core.config.costs.call).await;
        let file = self.core.file(handle)?;
        let all = 0..u64::MAX;
        self.core
            .force(&file.node, all, data_only, &file.failures)
            .await
    }

    /// Writes a range of a file back and waits for the write, which does not make it durable
    /// (`sync_file_range`). A `len` of 0 means to the end.
    ///
    /// # Errors
    /// A failure of write-back since the file was opened that it has not reported yet.
    pub async fn sync_range(&self, handle: &Handle, offset: u64, len: u64) -> Result<()> {
        self.core.pay(self.core.config.costs.call).await;
        let file = self.core.file(handle)?;
        let end = if len == 0 {
            u64::MAX
        } else {
            offset.saturating_add(len)
        };
        let pages = offset / PAGE..end.div_ceil(PAGE);
        self.core.write_back(&file.node, pages, true).await;
        file.node.failures.tell(&file.failures)
    }

    /// Makes everything durable. A failure is still reported to each open file when it is forced.
    ///
    /// # Errors
    /// A failure during the call: `EIO`, `ENOSPC`, `EROFS`. The call of Linux returns no error.
    pub async fn sync(&self) -> Result<()> {
        self.core.pay(self.core.config.costs.call).await;
        self.core.sync_all().await
    }

    /// Makes everything durable, and reports failures to the open file `handle`.
    ///
    /// # Errors
    /// `EBADF`; a failure of the call, or of a write-back of any file since this one was opened,
    /// which `sync_fs` reports once to each open file.
    pub async fn sync_fs(&self, handle: &Handle) -> Result<()> {
        self.core.pay(self.core.config.costs.call).await;
        let file = self.core.file(handle)?;
        let done = self.core.sync_all().await;
        done.and(self.core.failures.tell(&file.all_failures))
    }
}

impl<B: Body> Core<B> {
    fn pages_of_ratio(&self, ratio: u32) -> u64 {
        self.pool.borrow().limit as u64 * u64::from(ratio) / 100
    }

    /// Whether so many pages are dirty that files are written back whatever their age.
    fn is_over_background(&self) -> bool {
        self.dirty.get() > self.pages_of_ratio(self.config.dirty_background_ratio)
    }

    /// Whether so many pages are dirty or under write-back that writers are blocked.
    pub(crate) fn is_over_limit(&self) -> bool {
        let config = &self.config;
        let ratio = config.dirty_ratio.max(config.dirty_background_ratio);
        self.dirty.get() + self.writing.get() > self.pages_of_ratio(ratio)
    }

    /// Spawns the write-back task unless it runs.
    #[inline]
    pub(crate) fn start_flusher(&self) {
        if self.flusher.running.replace(true) {
            return;
        }
        self.flusher.stopped.set(false);
        if let Some(core) = self.me.upgrade() {
            self.sim
                .spawn_detached(async move { core.flush_forever().await });
        }
    }

    /// Wakes the write-back task if the background ratio is exceeded.
    #[inline]
    pub(crate) fn nudge_flusher(&self) {
        if self.is_over_background() && !self.flusher.kicked.get() {
            self.flusher.kick(&self.sim);
        }
    }

    async fn flush_forever(&self) {
        while self.dirty.get() > 0 && !self.flusher.stopped.get() {
            if !self.flusher.kicked.replace(false) {
                let wake = self.flusher.wake.wait(&self.sim);
                let _ = timeout(&self.sim, self.config.writeback_interval, wake).await;
                self.flusher.kicked.set(false);
            }
            self.flush().await;
        }
        self.flusher.running.set(false);
    }

    /// Writes back due files until none is left.
    async fn flush(&self) {
        loop {
            let pressed = self.flusher.pressed.replace(false);
            let due = self.due(pressed || self.is_over_background());
            if due.is_empty() {
                return;
            }
            let writes = due.into_iter().map(|(node, whole)| async move {
                let most = if whole { u64::MAX } else { 1 };
                self.write_batches(&node, 0..u64::MAX, false, most).await
            });
            let written: u64 = join_all(writes.collect()).await.into_iter().sum();
            if written == 0 {
                return;
            }
        }
    }

    /// Due files, oldest first, at most `writers`; true for files past `expire`, which are written
    /// as a whole.
    fn due(&self, any: bool) -> Vec<(Rc<NodeOf<B>>, bool)> {
        let oldest = self.sim.now().since(self.config.expire);
        let old = |since| self.sim.now() >= self.config.expire && since <= oldest;
        let dirty = self.dirty_nodes.borrow();
        let due = dirty.iter().take_while(|(since, _)| any || old(*since));
        let due = due.filter_map(|&(since, ino)| Some((self.ready(ino)?, old(since))));
        due.take(self.config.writers.max(1) as usize).collect()
    }

    /// Writes back the dirty pages of `range` once, in ascending order. With `wait`, also waits for
    /// pages under write-back, and writes those again that are dirty again.
    pub(crate) async fn write_back(&self, node: &NodeOf<B>, range: Range<u64>, wait: bool) {
        // If the end on the medium moved past bytes that were cut off behind it, those bytes would
        // become visible: the page of that end goes first.
        let end = self.body.end_on_medium(&node.inode);
        let last = end / PAGE..end.div_ceil(PAGE);
        let pending = self.is_dirty(node, last.start) || self.next_busy(node, last.start, last.end);
        let goes_first = !last.is_empty() && last.end <= range.start && pending;
        let first = goes_first.then_some((last, true));
        for (range, wait) in first.into_iter().chain([(range, wait)]) {
            self.write_batches(node, range, wait, u64::MAX).await;
            // Another task may have taken dirty pages into a batch that began meanwhile.
            let next = self.next_batch.get();
            while wait && node.batches.borrow().iter().any(|&batch| batch < next) {
                node.changed.wait(&self.sim).await;
            }
        }
    }

    /// Writes up to `most` batches; returns the number of pages.
    async fn write_batches(
        &self,
        node: &NodeOf<B>,
        range: Range<u64>,
        wait: bool,
        most: u64,
    ) -> u64 {
        let (mut at, mut pages, mut batches) = (range.start, 0, 0);
        while batches < most {
            let (batch, blocked) = self.take_batch(node, at..range.end, wait);
            if let Some(last) = batch.pages.last() {
                at = last.index + 1;
                pages += batch.pages.len() as u64;
                batches += 1;
                self.write_batch(node, batch).await;
            } else if blocked {
                node.changed.wait(&self.sim).await;
            } else {
                break;
            }
        }
        if most == u64::MAX && range == (0..u64::MAX) {
            self.rejuvenate(node);
        }
        pages
    }

    /// Resets the age of a file after a write-back of the whole file: pages that are dirty now
    /// became so meanwhile.
    fn rejuvenate(&self, node: &NodeOf<B>) {
        if node.dirty.get() == 0 {
            return;
        }
        let now = self.sim.now();
        let old = node.dirtied.replace(now);
        let mut dirty = self.dirty_nodes.borrow_mut();
        dirty.remove(&(old, node.ino()));
        dirty.insert((now, node.ino()));
    }

    /// Takes dirty pages of `range` into a batch. The flag is set if, with `wait`, the next page is
    /// still under write-back.
    fn take_batch(&self, node: &NodeOf<B>, range: Range<u64>, wait: bool) -> (Batch, bool) {
        let mut taken = Vec::new();
        let mut blocked = false;
        let end_page = self.body.end_on_medium(&node.inode) / PAGE;
        let mut pool = self.pool.borrow_mut();
        let mut pages = node.pages.borrow_mut();
        let mut at = range.start;
        while taken.len() < self.config.batch.max(1) as usize {
            let next = pages.next_tagged(at).map(|(index, &frame)| (index, frame));
            let Some((index, frame)) = next.filter(|(index, _)| *index < range.end) else {
                break;
            };
            at = index + 1;
            let frame = pool.frame_mut(frame);
            if frame.is(state::WRITING) {
                blocked = wait;
                // No page behind the end goes before the page that the end is in.
                if wait || index == end_page {
                    break;
                }
                continue;
            }
            frame.state = frame.state & !state::DIRTY | state::WRITING;
            pages.tag(index, false);
            taken.push(DirtyPage {
                index,
                now: frame.data.clone(),
                before: frame.before.take(),
            });
        }
        drop((pool, pages));
        (self.begin_batch(node, taken), blocked)
    }

    fn begin_batch(&self, node: &NodeOf<B>, pages: Vec<DirtyPage>) -> Batch {
        let number = self.next_batch.get();
        if !pages.is_empty() {
            self.next_batch.set(number + 1);
            self.writing.set(self.writing.get() + pages.len() as u64);
            self.became_clean(node, pages.len() as u32);
            node.batches.borrow_mut().push(number);
        }
        Batch { number, pages }
    }

    async fn write_batch(&self, node: &NodeOf<B>, batch: Batch) {
        let result = self.body.write_pages(&node.inode, &batch.pages).await;
        let doubt = if result.is_ok() { 0 } else { state::UNKNOWN };
        let mut pool = self.pool.borrow_mut();
        for page in &batch.pages {
            let frame = node.frame(page.index);
            let frame = pool.frame_mut(frame.expect("a page under write-back stays"));
            frame.state = frame.state & !(state::WRITING | state::UNKNOWN) | doubt;
            if doubt != 0 {
                frame.before = None;
            }
        }
        drop(pool);
        if let Err(errno) = result {
            node.failures.add(errno);
            self.failures.add(errno);
            self.gave_up(node.ino(), &batch.pages);
        }
        let pages = batch.pages.len() as u64;
        self.writing.set(self.writing.get() - pages);
        self.count(|stats| stats.written_back += pages);
        node.batches.borrow_mut().retain(|&b| b != batch.number);
        node.changed.notify(&self.sim);
        self.progress.notify(&self.sim);
    }

    /// Writes back the pages from `first` on before they are cut off, if a force of the file is in
    /// progress. Otherwise that force would find nothing to write, and until the cut is durable the
    /// medium would hold data older than the force promises.
    pub(crate) async fn write_before_cut(&self, node: &NodeOf<B>, first: u64) {
        if node.forces.get() > 0 || self.forces.get() > 0 {
            self.write_back(node, first..u64::MAX, true).await;
        }
    }

    /// Makes a range of bytes durable, with the metadata that lead to it; reports failures that
    /// `known` does not include.
    pub(crate) async fn force(
        &self,
        node: &NodeOf<B>,
        range: Range<u64>,
        data_only: bool,
        known: &Cell<u32>,
    ) -> Result<()> {
        let act = self.begins(|| Act::Force {
            ino: node.ino(),
            range: range.clone(),
            data_only,
        });
        let _forcing = Forcing::new(&node.forces);
        let end = match range.end {
            u64::MAX => u64::MAX,
            end => end.div_ceil(PAGE),
        };
        let pages = range.start / PAGE..end;
        {
            let _waited = Forcing::new(&node.inode.forcing);
            self.write_back(node, pages, true).await;
        }
        let told = node.failures.tell(known);
        let done = self.body.sync(&node.inode, data_only).await.and(told);
        self.ends(act, done.ok().map(|()| 0));
        done
    }

    /// Makes the whole file system durable, announced to the observer.
    pub(crate) async fn sync_all(&self) -> Result<()> {
        let act = self.begins(|| Act::ForceAll);
        let done = self.force_all().await;
        self.ends(act, done.ok().map(|()| 0));
        done
    }

    async fn force_all(&self) -> Result<()> {
        let _forcing = Forcing::new(&self.forces);
        let dirty: Vec<Ino> = self
            .dirty_nodes
            .borrow()
            .iter()
            .map(|&(_, ino)| ino)
            .collect();
        let before = self.failures.count();
        for some in dirty.chunks(self.config.writers.max(1) as usize) {
            let nodes: Vec<_> = some.iter().filter_map(|&ino| self.ready(ino)).collect();
            let writes = nodes
                .iter()
                .map(|node| self.write_back(node, 0..u64::MAX, true));
            join_all(writes.collect()).await;
        }
        while self.writing.get() > 0 {
            self.progress.wait(&self.sim).await;
        }
        let forced = self.body.sync_all().await;
        forced.and(self.failures.since(before))
    }
}
