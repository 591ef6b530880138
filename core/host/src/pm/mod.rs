//! Persistent memory of the host: durable bytes that a core loads and stores.
//!
//! # The contract
//!
//! - A load returns the newest bytes, durable or not.
//! - A store stays in the processor's cache. It is durable once its line was flushed after
//!   the store ([`Pm::flush`]) and a fence that the same task began after the flush has ended
//!   ([`Pm::fence`]).
//! - Until then a power cut keeps or loses each cache line of 64 bytes independently: the
//!   cache may evict a line at any time, without a flush too. A cut leaves the contents of a
//!   line at some instant since the line was last durable. The stores to a line take effect
//!   in order, as on x86, and aligned words of eight bytes are atomic. A longer store is
//!   a sequence of stores of words, in rising order.
//!
//! # Time
//!
//! Loads, stores and flushes cost core time by line; a fence costs none. All costs are zero
//! by default ([`PmConfig`]). A fence is an event even then, so that the power can be cut
//! between a store and the moment at which it becomes durable.
//!
//! Invariants, defended by [`Pm::check`]: the contents of a line are its durable bytes with
//! the line's pending stores applied in order; `dirty` holds exactly the lines with stores
//! that are not durable.

mod media;
mod regions;

pub use media::PmMedia;
pub use regions::{PmError, Region, Regions};

use crate::BlockDevice;
use serde::{Deserialize, Serialize};
use sim::{Rng, Sim, TaskId};
use ssd::image::Line;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::{Rc, Weak};
use units::{Bytes, MIB, Ns};

/// Bytes of a cache line.
const LINE: usize = 64;
/// Bytes of the unit of atomic stores.
const WORD: usize = 8;
/// Maximum number of pending stores per line; older ones are written back, as caches do at
/// any time. A choice of ours.
const MOST_STORES: usize = 64;

/// Configuration of persistent memory.
///
/// | number | value | source |
/// | --- | --- | --- |
/// | bytes | 1 GiB | `hyfim` 4, A |
/// | times | 0 | `hyfim` 4, A: emulated by DRAM without added delay |
/// | load of [`PmConfig::optane`] | 300 ns | `optane` 3, random reads at rest |
/// | store and flush of [`PmConfig::optane`] | 100 ns | `optane` 3, flushed stores at rest |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PmConfig {
    /// Size of the memory.
    pub bytes: Bytes,
    /// Core time of a load of a line.
    pub load: Ns,
    /// Core time of a store to a line.
    pub store: Ns,
    /// Core time of a flush of a line.
    pub flush: Ns,
}

impl Default for PmConfig {
    fn default() -> Self {
        Self {
            bytes: Bytes(1024 * MIB),
            load: Ns::ZERO,
            store: Ns::ZERO,
            flush: Ns::ZERO,
        }
    }
}

impl PmConfig {
    /// Memory of the same size with the times of Intel Optane.
    //= optane 3
    #[must_use]
    pub const fn optane(self) -> Self {
        Self {
            bytes: self.bytes,
            load: Ns(300),
            store: Ns::ZERO,
            flush: Ns(100),
        }
    }
}

/// A line with stores that are not durable.
struct Dirty {
    newest: [u8; LINE],
    /// Pending stores, oldest first; never empty.
    stores: Vec<Store>,
}

/// A pending store to one word of a line.
#[derive(Clone, Copy)]
struct Store {
    /// Sequence number among all stores to the memory.
    number: u64,
    word: u8,
    /// Contents of the word after the store.
    held: [u8; WORD],
}

struct State {
    media: PmMedia,
    dirty: BTreeMap<u64, Dirty>,
    /// Number of stores to words so far.
    made: u64,
    /// Number of flushes of lines so far.
    flushes: u64,
    /// By task: flushes that no fence of the task has completed yet, oldest first.
    flushed: BTreeMap<TaskId, Vec<Flush>>,
    /// Line sets of the live [`PmWatch`]es.
    watches: Vec<Weak<RefCell<BTreeSet<u64>>>>,
}

impl State {
    /// Makes the first `count` pending stores of `line` durable.
    fn write_back(&mut self, line: u64, count: usize) {
        let Some(dirty) = self.dirty.get_mut(&line) else {
            return;
        };
        if count == 0 {
            return;
        }
        self.media.apply(line, dirty.stores.drain(..count));
        if dirty.stores.is_empty() {
            self.dirty.remove(&line);
        }
        for watch in self.watches.iter().filter_map(Weak::upgrade) {
            watch.borrow_mut().insert(line);
        }
    }
}

/// Records the lines that became durable since the last call of [`Pm::changed`] with it.
#[derive(Debug)]
pub struct PmWatch {
    lines: Rc<RefCell<BTreeSet<u64>>>,
}

/// A flush of one dirty line.
struct Flush {
    /// Sequence number among all flushes.
    number: u64,
    line: u64,
    /// Value of `State::made` at the flush: it covers the stores below this number.
    made: u64,
}

struct Shared {
    sim: Sim,
    config: PmConfig,
    /// Host whose cores the accesses occupy.
    host: Option<BlockDevice>,
    state: RefCell<State>,
    /// Whether fences make nothing durable.
    skips: Cell<bool>,
}

/// Persistent memory under power; clones share its contents.
#[derive(Clone)]
pub struct Pm {
    shared: Rc<Shared>,
}

impl Pm {
    /// Powers on memory with the contents of `media`. Accesses occupy the current task's core
    /// of `host`; without a host only the calling task waits.
    #[must_use]
    pub fn new(sim: &Sim, config: PmConfig, media: PmMedia, host: Option<&BlockDevice>) -> Self {
        let state = State {
            media,
            dirty: BTreeMap::new(),
            made: 0,
            flushes: 0,
            flushed: BTreeMap::new(),
            watches: Vec::new(),
        };
        let shared = Shared {
            sim: sim.clone(),
            config,
            host: host.cloned(),
            state: RefCell::new(state),
            skips: Cell::default(),
        };
        Self {
            shared: Rc::new(shared),
        }
    }

    /// Makes fences without effect from now on, as if the user's code lacked them: stores
    /// become durable by chance alone. A negative control for tests with power cuts.
    pub fn skip_fences(&self) {
        self.shared.skips.set(true);
    }

    /// Size of the memory in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.shared.state.borrow().media.bytes()
    }

    /// Loads `out.len()` bytes from `at` on.
    ///
    /// # Panics
    /// If the range ends past the memory.
    pub async fn load(&self, at: u64, out: &mut [u8]) {
        self.take_time(self.shared.config.load, at, out.len()).await;
        self.peek(at, out);
    }

    /// Loads bytes at once and without cost, for data in the processor's cache and for
    /// oracles.
    ///
    /// # Panics
    /// If the range ends past the memory.
    pub fn peek(&self, at: u64, out: &mut [u8]) {
        let state = self.shared.state.borrow();
        state.media.read(at, out);
        for (line, within, part) in pieces(at, out.len()) {
            if let Some(dirty) = state.dirty.get(&line) {
                let held = &dirty.newest[within..within + part.len()];
                out[part].copy_from_slice(held);
            }
        }
    }

    /// Stores `bytes` at `at`, without durability.
    ///
    /// # Panics
    /// If the range ends past the memory.
    pub async fn store(&self, at: u64, bytes: &[u8]) {
        self.put(at, bytes);
        self.take_time(self.shared.config.store, at, bytes.len())
            .await;
    }

    /// Stores `bytes` at one instant and without cost, for changes that other tasks must
    /// see as a whole. Only the later flush costs time.
    ///
    /// # Panics
    /// If the range ends past the memory.
    pub fn put(&self, at: u64, bytes: &[u8]) {
        let state = &mut *self.shared.state.borrow_mut();
        let end = at + bytes.len() as u64;
        assert!(end <= state.media.bytes(), "there are fewer bytes");
        for (line, within, part) in pieces(at, bytes.len()) {
            let media = &mut state.media;
            let dirty = state.dirty.entry(line).or_insert_with(|| Dirty {
                newest: media.held(line),
                stores: Vec::new(),
            });
            let end = within + part.len();
            dirty.newest[within..end].copy_from_slice(&bytes[part]);
            for word in within / WORD..end.div_ceil(WORD) {
                let held = &dirty.newest[word * WORD..(word + 1) * WORD];
                let held = held.try_into().expect("eight bytes");
                dirty.stores.push(Store {
                    number: state.made,
                    word: word as u8,
                    held,
                });
                state.made += 1;
            }
            let over = dirty.stores.len().saturating_sub(MOST_STORES);
            state.write_back(line, over);
        }
    }

    /// Starts the write-back of the dirty lines of `at..at + len`; the current task's next
    /// fence completes it.
    pub async fn flush(&self, at: u64, len: usize) {
        let task = self.shared.sim.current();
        {
            let state = &mut *self.shared.state.borrow_mut();
            for (line, ..) in pieces(at, len) {
                if state.dirty.contains_key(&line) {
                    let flushed = state.flushed.entry(task).or_default();
                    flushed.push(Flush {
                        number: state.flushes,
                        line,
                        made: state.made,
                    });
                    state.flushes += 1;
                }
            }
        }
        self.take_time(self.shared.config.flush, at, len).await;
    }

    /// Waits until all earlier flushes of the current task are durable.
    pub async fn fence(&self) {
        let shared = &self.shared;
        // The fence does not cover flushes that another branch of the task begins meanwhile.
        let until = shared.state.borrow().flushes;
        // An event, so that a cut can come before the end of it.
        shared.sim.spawn(async {}).await;
        let state = &mut *shared.state.borrow_mut();
        let task = shared.sim.current();
        let mut flushed = state.flushed.remove(&task).unwrap_or_default();
        let later = flushed.split_off(flushed.partition_point(|flush| flush.number < until));
        if !later.is_empty() {
            state.flushed.insert(task, later);
        }
        if shared.skips.get() {
            return;
        }
        for Flush { line, made, .. } in flushed {
            let stores = state.dirty.get(&line).map(|dirty| &dirty.stores);
            let durable = |stores: &Vec<Store>| stores.partition_point(|s| s.number < made);
            state.write_back(line, stores.map_or(0, durable));
        }
    }

    /// Stores, flushes and fences: `bytes` are durable on return.
    ///
    /// # Panics
    /// If the range ends past the memory.
    pub async fn persist(&self, at: u64, bytes: &[u8]) {
        self.store(at, bytes).await;
        self.flush(at, bytes.len()).await;
        self.fence().await;
    }

    /// Contents after a power cut now: `rng` chooses, per line, an instant since the line was
    /// last durable, and the cut leaves the line's contents at that instant.
    #[must_use]
    pub fn at_power_cut(&self, rng: &mut Rng) -> PmMedia {
        let state = self.shared.state.borrow();
        let mut media = state.media.clone();
        for (&line, dirty) in &state.dirty {
            let count = dirty.stores.len() as u64;
            // None, all or some of the stores, with equal probability.
            let kept = match rng.below(3) {
                0 => 0,
                1 => count,
                _ => rng.below(count + 1),
            };
            media.apply(line, dirty.stores[..kept as usize].iter().copied());
        }
        media
    }

    /// All possible contents after a power cut now in which each line keeps all or none of
    /// its pending stores; None if there are more than `most`.
    #[must_use]
    pub fn whole_lines_at_power_cut(&self, most: usize) -> Option<Vec<PmMedia>> {
        let state = self.shared.state.borrow();
        let count = u32::try_from(state.dirty.len()).ok()?;
        let count = 1_usize.checked_shl(count).filter(|&count| count <= most)?;
        let left = |kept: usize| {
            let mut media = state.media.clone();
            for (index, (&line, dirty)) in state.dirty.iter().enumerate() {
                if kept >> index & 1 == 1 {
                    media.apply(line, dirty.stores.iter().copied());
                }
            }
            media
        };
        Some((0..count).map(left).collect())
    }

    /// A copy of the durable contents, without pending stores.
    #[must_use]
    pub fn durable(&self) -> PmMedia {
        self.shared.state.borrow().media.clone()
    }

    /// Starts to record the lines that become durable.
    #[must_use]
    pub fn watch(&self) -> PmWatch {
        let lines = Rc::default();
        let watches = &mut self.shared.state.borrow_mut().watches;
        watches.retain(|watch| watch.strong_count() > 0);
        watches.push(Rc::downgrade(&lines));
        PmWatch { lines }
    }

    /// Drains `watch`: the lines that became durable since the last call, with their current
    /// durable contents.
    #[must_use]
    pub fn changed(&self, watch: &PmWatch) -> Vec<Line> {
        let lines = watch.lines.take();
        let media = &self.shared.state.borrow().media;
        lines.into_iter().map(|line| media.line(line)).collect()
    }

    /// Whether any store is not durable yet.
    #[must_use]
    pub fn has_unflushed(&self) -> bool {
        !self.shared.state.borrow().dirty.is_empty()
    }

    /// Contents after an orderly shutdown, which writes back all pending stores.
    #[must_use]
    pub fn shutdown(&self) -> PmMedia {
        let state = self.shared.state.borrow();
        let mut media = state.media.clone();
        for (&line, dirty) in &state.dirty {
            media.apply(line, dirty.stores.iter().copied());
        }
        media
    }

    /// Checks the invariants of the module.
    ///
    /// # Panics
    /// If an invariant does not hold.
    pub fn check(&self) {
        let state = self.shared.state.borrow();
        for (&line, dirty) in &state.dirty {
            let mut media = state.media.clone();
            media.apply(line, dirty.stores.iter().copied());
            assert!(
                media.held(line) == dirty.newest && !dirty.stores.is_empty(),
                "line {line}"
            );
        }
    }

    async fn take_time(&self, each: Ns, at: u64, len: usize) {
        let lines = pieces(at, len).count() as u64;
        let span = Ns(each.0 * lines);
        match &self.shared.host {
            _ if span == Ns::ZERO => {}
            Some(host) => {
                let busy = host.occupy(host.current(), span);
                busy.over(&self.shared.sim).await;
            }
            None => self.shared.sim.sleep(span).await,
        }
    }
}

/// Splits `len` bytes at `at` by line: (line, first byte in the line, range of the bytes).
fn pieces(at: u64, len: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let first = at / LINE as u64;
    let end = at + len as u64;
    (first..end.div_ceil(LINE as u64)).map(move |line| {
        let start = line * LINE as u64;
        let (from, to) = (start.max(at), (start + LINE as u64).min(end));
        let part = (from - at) as usize..(to - at) as usize;
        (line, (from - start) as usize, part)
    })
}
