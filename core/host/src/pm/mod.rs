//! Persistent memory of the host: bytes that a core loads and stores, and that last.
//!
//! # The contract
//!
//! - A load sees the newest bytes, durable or not.
//! - A store is in the processor's cache. It is durable once its line was flushed after it
//!   ([`Pm::flush`]) and a fence that the same task began after that has ended
//!   ([`Pm::fence`]).
//! - Until then a power cut keeps it or not, each line of 64 bytes for itself: a line may
//!   be written back at any time, without a flush too. What is kept of a line is what it
//!   held at some instant since it was last durable: its stores count in their order, as on
//!   x86, and eight bytes that are aligned count as a whole or not at all. A store of more
//!   is one of each eight bytes, from the first on.
//!
//! # Time
//!
//! Loads cost by line, stores and flushes by line, fences nothing of their own; all of it
//! is zero unless it is given ([`PmConfig`]). A fence is an event even then, so that the
//! power can be cut between a store and the moment from which it lasts.
//!
//! Invariants, defended by [`Pm::check`]: what a line holds is its durable bytes with its
//! stores in order over them; only lines with stores that are not durable are kept apart.

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

/// Bytes of a line.
const LINE: usize = 64;
/// Bytes that are stored as a whole.
const WORD: usize = 8;
/// Stores of a line that are kept apart; older ones are written back, as caches do at any
/// time. A choice of ours.
const MOST_STORES: usize = 64;

/// Persistent memory.
///
/// | number | value | source |
/// | --- | --- | --- |
/// | bytes | 1 GiB | `hyfim` 4, A |
/// | times | 0 | `hyfim` 4, A: DRAM in its place, and nothing added |
/// | load of [`PmConfig::optane`] | 300 ns | `optane` 3, random reads at rest |
/// | store and flush there | 100 ns | `optane` 3, stores that are flushed, at rest |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PmConfig {
    /// How much there is.
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
    /// The same amount with the times of a real part.
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
    /// In order.
    stores: Vec<Store>,
}

/// A store to a word.
#[derive(Clone, Copy)]
struct Store {
    /// Its number among all.
    number: u64,
    word: u8,
    /// What the word held then.
    held: [u8; WORD],
}

struct State {
    media: PmMedia,
    dirty: BTreeMap<u64, Dirty>,
    /// Stores so far.
    made: u64,
    /// Flushes of lines so far.
    flushes: u64,
    /// By task: flushes that none of its fences has waited for, oldest first.
    flushed: BTreeMap<TaskId, Vec<Flush>>,
    /// Who is told which lines become durable.
    watches: Vec<Weak<RefCell<BTreeSet<u64>>>>,
}

impl State {
    /// Makes the first so many stores of a line durable.
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

/// Which lines became durable since somebody looked last.
#[derive(Debug)]
pub struct PmWatch {
    lines: Rc<RefCell<BTreeSet<u64>>>,
}

/// A line that was flushed.
struct Flush {
    /// Its number among all flushes.
    number: u64,
    line: u64,
    /// Stores that there were then.
    made: u64,
}

struct Shared {
    sim: Sim,
    config: PmConfig,
    /// Whose cores are busy meanwhile.
    host: Option<BlockDevice>,
    state: RefCell<State>,
    /// Whether fences end without having waited.
    skips: Cell<bool>,
}

/// Persistent memory under power.
#[derive(Clone)]
pub struct Pm {
    shared: Rc<Shared>,
}

impl Pm {
    /// Memory with the bytes of `media`, on the cores of `host`; without one, whoever uses
    /// it waits.
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

    /// From now on fences end without having waited, as if whoever uses it had left them
    /// out: what is stored lasts by chance alone. For controls of those who cut the power.
    pub fn skip_fences(&self) {
        self.shared.skips.set(true);
    }

    /// How many bytes there are.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.shared.state.borrow().media.bytes()
    }

    /// Reads `out.len()` bytes from `at` on.
    ///
    /// # Panics
    /// Past the end.
    pub async fn load(&self, at: u64, out: &mut [u8]) {
        self.take_time(self.shared.config.load, at, out.len()).await;
        self.peek(at, out);
    }

    /// The same at once and without cost: for what a processor has in its cache, and for
    /// oracles.
    ///
    /// # Panics
    /// Past the end.
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

    /// Writes `bytes` at `at`. Nothing of it has to last.
    ///
    /// # Panics
    /// Past the end.
    pub async fn store(&self, at: u64, bytes: &[u8]) {
        self.put(at, bytes);
        self.take_time(self.shared.config.store, at, bytes.len())
            .await;
    }

    /// The same at once, for what has to change at one instant; it costs nothing but the
    /// flush that makes it last.
    ///
    /// # Panics
    /// Past the end.
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

    /// Has the lines of these bytes written back, of which the next fence waits for the end.
    ///
    /// # Panics
    /// Past the end.
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

    /// Waits until everything that the current task has flushed so far is durable.
    pub async fn fence(&self) {
        let shared = &self.shared;
        // What the task flushes meanwhile, in another branch of it, is not waited for.
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

    /// Stores, flushes and fences: `bytes` last when this returns.
    ///
    /// # Panics
    /// Past the end.
    pub async fn persist(&self, at: u64, bytes: &[u8]) {
        self.store(at, bytes).await;
        self.flush(at, bytes.len()).await;
        self.fence().await;
    }

    /// What a power cut at this instant leaves: of each line what it held at some instant
    /// since it was durable, and `rng` says when.
    #[must_use]
    pub fn at_power_cut(&self, rng: &mut Rng) -> PmMedia {
        let state = self.shared.state.borrow();
        let mut media = state.media.clone();
        for (&line, dirty) in &state.dirty {
            let count = dirty.stores.len() as u64;
            // None, all, or some of them, each as often.
            let kept = match rng.below(3) {
                0 => 0,
                1 => count,
                _ => rng.below(count + 1),
            };
            media.apply(line, dirty.stores[..kept as usize].iter().copied());
        }
        media
    }

    /// Everything that a power cut at this instant may leave where each line has all of what
    /// was stored to it or nothing; none if that is more than `most`.
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

    /// What is durable now.
    #[must_use]
    pub fn durable(&self) -> PmMedia {
        self.shared.state.borrow().media.clone()
    }

    /// Notes which lines become durable from now on.
    #[must_use]
    pub fn watch(&self) -> PmWatch {
        let lines = Rc::default();
        let watches = &mut self.shared.state.borrow_mut().watches;
        watches.retain(|watch| watch.strong_count() > 0);
        watches.push(Rc::downgrade(&lines));
        PmWatch { lines }
    }

    /// Lines that have become durable since the last call, as they are.
    #[must_use]
    pub fn changed(&self, watch: &PmWatch) -> Vec<Line> {
        let lines = watch.lines.take();
        let media = &self.shared.state.borrow().media;
        lines.into_iter().map(|line| media.line(line)).collect()
    }

    /// Whether stores are not durable yet.
    #[must_use]
    pub fn has_unflushed(&self) -> bool {
        !self.shared.state.borrow().dirty.is_empty()
    }

    /// What is left when everything is written back and the power goes.
    #[must_use]
    pub fn shutdown(&self) -> PmMedia {
        let state = self.shared.state.borrow();
        let mut media = state.media.clone();
        for (&line, dirty) in &state.dirty {
            media.apply(line, dirty.stores.iter().copied());
        }
        media
    }

    /// Panics if an invariant does not hold.
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

/// The lines of bytes: each with where in it they begin, and which of the bytes lie there.
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
