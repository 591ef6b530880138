//! The machine: processes events, deferred actions and core steps in order of time.

mod access;
mod ahead;
mod cached;
mod copying;
mod device;
mod moves;
mod plan;
mod posted;
mod stores;
mod threads;

use crate::cache::most_lines;
use crate::config::{Config, Invalid, MOST_MEMORY, StoreMiss};
use crate::dram::Dram;
use crate::far::Far;
use crate::hierarchy::Hierarchy;
use crate::link::Link;
use crate::metrics::{Accesses, Counts, Metrics, Totals};
use crate::op::Program;
use crate::pages::Pages;
use crate::tick::Tick;
use crate::tiering::{Promote, TakeAll, Tiering};
use crate::tlb::Tlb;
use crate::window::{CAUSES, Window};
use copying::Copying;
use device::Requests;
use plan::Plan;
use sim::{Kernel, Rng, Seed, Sim};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use threads::Thread;

pub use access::{TimeOnly, Values, stored_value};

const NO_THREAD: u32 = u32::MAX;
const NO_CORE: usize = usize::MAX;

/// Reason why a run ended before its program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// An address beyond the footprint, or a size that cannot be.
    #[error(
        "thread {thread} accesses {size} bytes at {at:#x}; addresses end at {end:#x}, and 1 to \
         64 bytes are accessed at once"
    )]
    Address {
        /// Number of the thread.
        thread: u32,
        /// Virtual address of the access.
        at: u64,
        /// Size of the access, in bytes.
        size: u8,
        /// Footprint of the program in bytes, the end of valid addresses.
        end: u64,
    },
    /// A thread reports that it is ready but returns no operation.
    #[error("thread {0} says that it goes on, and gives no operation")]
    Idle(u32),
    /// The program has failed, with this message.
    #[error("{0}")]
    Program(String),
    /// A program that takes longer than the clock goes.
    #[error(
        "thread {thread} goes on after {:.1} days of its time, where the clock of {cores} cores ends",
        end.0 as f64 / 86.4e12
    )]
    Clock {
        /// Number of the thread.
        thread: u32,
        /// Last instant of the clock.
        end: units::Ns,
        /// The cores of the machine.
        cores: u64,
    },
    /// Deadlock: every core waits for the device, which has no work in flight.
    #[error("at {0} every core waits for the device, which has nothing under way")]
    Stuck(units::Ns),
}

/// Deferred action of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Action {
    /// The data of the request with this tag arrive.
    Arrive(u16),
    /// A copy, by its slot, requests its next line.
    Copy(u16),
    /// A line of a copy (slot and index) arrives at its known time.
    Copied(u16, u64),
    /// A copy, by its slot, is complete.
    Finish(u16),
    /// The kernel's handler for a page has run.
    Handled(u64),
    /// The kernel samples accesses for tiering.
    Sample,
    /// Refused writes are sent again.
    Room,
}

struct Core {
    window: Window,
    tlb: Tlb,
    plan: Plan,
    /// Due time of the next exception.
    fault: Tick,
    /// Due time of the oldest store's write to the cache.
    drain: Tick,
    /// Time at which the first operation that waits for an MSHR is issued again.
    retry: Tick,
    thread: u32,
    /// The thread that ran last.
    last: u32,
    since: Tick,
    slice_end: Tick,
    preempt: bool,
    /// Whether something has happened since the core was last found blocked.
    news: bool,
    /// Time at which the last flush was acknowledged; `flushes` counts pending ones.
    flushed: Tick,
    flushes: u32,
    node: u64,
    strides: ahead::Strides,
}

impl Core {
    fn new(config: &Config, number: u64, payloads: bool) -> Self {
        let slot = Tick::cycles(1, config.hertz * config.width);
        Self {
            window: Window::new(config.window, slot, config.store_buffer, payloads),
            tlb: Tlb::new(&config.tlb),
            plan: Plan::Idle,
            fault: Tick::NEVER,
            drain: Tick::NEVER,
            retry: Tick::NEVER,
            thread: NO_THREAD,
            last: NO_THREAD,
            since: Tick::ZERO,
            slice_end: Tick::NEVER,
            preempt: false,
            news: false,
            flushed: Tick::ZERO,
            flushes: 0,
            // Cores are dealt out evenly over the nodes.
            node: number * config.nodes.len() as u64 / config.cores,
            strides: ahead::Strides::default(),
        }
    }
}

/// Threads, and which of them wait.
struct Os {
    threads: Vec<Thread>,
    queue: VecDeque<u32>,
    /// The least that a thread had received which could run; it only grows.
    least: Tick,
    rng: Rng,
    /// Threads that have not ended, have come to meet, have passed their preparation.
    live: u32,
    meeting: u32,
    begun: u32,
    measuring: bool,
}

impl Os {
    fn new(threads: u32, seed: u64) -> Self {
        Self {
            threads: (0..threads).map(|_| Thread::default()).collect(),
            queue: (0..threads).collect(),
            least: Tick::ZERO,
            rng: Seed(seed).stream("scheduler"),
            live: threads,
            meeting: 0,
            begun: 0,
            measuring: false,
        }
    }
}

/// Times of the configuration in ticks.
struct Times {
    l1: Tick,
    second_tlb: Tick,
    cycle: Tick,
    away: Tick,
    /// Last instant of the clock.
    last: Tick,
}

impl Times {
    fn new(config: &Config) -> Self {
        let cycles = |count| Tick::cycles(count, config.hertz);
        Self {
            l1: cycles(config.l1.cycles),
            second_tlb: cycles(config.tlb.second_cycles),
            cycle: cycles(1),
            away: Tick::of(config.away),
            last: Tick::last(config.cores),
        }
    }
}

/// A computer that runs a program.
pub struct Machine<'k, F, P, W = TimeOnly, M = TakeAll> {
    kernel: &'k Kernel,
    sim: Sim,
    kernel_next: Tick,
    far: F,
    program: P,
    values: W,
    promote: M,
    config: Config,
    cores: Vec<Core>,
    next: Vec<Tick>,
    caches: Hierarchy,
    drams: Vec<Dram>,
    link: Link,
    pages: Pages,
    requests: Requests,
    agenda: BinaryHeap<Reverse<(Tick, u64, Action)>>,
    sequence: u64,
    os: Os,
    times: Times,
    base: Option<Totals>,
    end: Tick,
    now: Tick,
    /// Core that is being stepped; `until` is the time at which another event is due.
    running: usize,
    until: Tick,
    /// Contents of the host's DRAM by line, where contents are kept.
    memory: BTreeMap<u64, [u8; 64]>,
    posted: posted::PostedWrites,
    copies: Vec<Option<Copying>>,
    copying: Vec<(u64, u16)>,
    /// Number of copies near a line, by its page.
    copies_near: Vec<u16>,
    wanted: VecDeque<u64>,
    page_cache: cached::PageTable,
    handler: usize,
    counts: Counts,
    host: Accesses,
    device: Accesses,
    flash: Accesses,
    in_vain: Accesses,
    failed: Option<RunError>,
    footprint: u64,
}

/// Whether every cache has names for all lines: those of each memory, and of the tables
/// behind the first.
fn check_names(config: &Config, footprint: u64) -> Result<(), Invalid> {
    let nodes = config.nodes.iter().map(|node| node.memory);
    let node = nodes.max().unwrap_or_default();
    let (knob, largest) = match node > config.far {
        true => ("memory of a node", node),
        false => ("far", config.far),
    };
    let lines = largest.0 / 64 + footprint / config.page.bytes() / 8 + 1;
    for (name, cache) in [("l1", config.l1), ("l2", config.l2), ("llc", config.llc)] {
        let most = most_lines(cache.sets());
        if lines > most {
            let (size, ways, most) = (
                cache.size,
                cache.ways,
                units::Bytes((most + cache.sets()) * 64),
            );
            return Err(Invalid(format!(
                "{knob} is {largest}, and {name}, of {size} in {ways} ways, tells lines of less \
                 than {most} apart: expected a smaller memory, a larger {name}.size or fewer \
                 {name}.ways"
            )));
        }
    }
    Ok(())
}

/// Whether a computer can run a program.
fn check_made(config: &Config, footprint: u64, threads: u32, kept: bool) -> Result<(), Invalid> {
    config.check()?;
    if kept && config.store_miss == StoreMiss::Write {
        return Err(Invalid(
            "contents cannot be kept where a store that misses is sent as a write: the rest of \
             its line is not known"
                .into(),
        ));
    }
    Invalid::most("footprint of a program", footprint, MOST_MEMORY)?;
    check_names(config, footprint)?;
    Invalid::zero("the footprint of a program", footprint)?;
    Invalid::zero("threads", u64::from(threads))
}

impl<'k, F: Far, P: Program, W: Values, M: Promote> Machine<'k, F, P, W, M> {
    /// A computer at rest, at the time of `kernel`, which moves `far` along.
    ///
    /// # Errors
    /// Says which value of `config` cannot be, or that the program does not fit.
    pub fn new(
        config: &Config,
        kernel: &'k Kernel,
        far: F,
        program: P,
        values: W,
        promote: M,
    ) -> Result<Self, Invalid> {
        let (footprint, threads) = (program.footprint().0, program.threads());
        check_made(config, footprint, threads, W::KEPT)?;
        let dram = |_| Dram::new(&config.dram);
        let drams: Result<Vec<_>, _> = config.nodes.iter().map(dram).collect();
        let mut machine = Self {
            kernel,
            sim: kernel.sim(),
            kernel_next: Tick::NEVER,
            far,
            program,
            values,
            promote,
            cores: (0..config.cores)
                .map(|core| Core::new(config, core, W::KEPT))
                .collect(),
            next: vec![Tick::NEVER; config.cores as usize],
            caches: Hierarchy::new(config, W::KEPT),
            drams: drams?,
            link: Link::new(&config.link)?,
            pages: Pages::new(config, footprint)?,
            requests: Requests::default(),
            agenda: BinaryHeap::new(),
            sequence: 0,
            os: Os::new(threads, config.seed),
            times: Times::new(config),
            base: None,
            end: Tick::ZERO,
            now: Tick::ZERO,
            running: NO_CORE,
            until: Tick::NEVER,
            memory: BTreeMap::new(),
            posted: posted::PostedWrites::new(),
            copies: Vec::new(),
            copying: Vec::new(),
            copies_near: vec![0; copying::NEAR],
            wanted: VecDeque::new(),
            page_cache: cached::PageTable::new(&config.tiering),
            handler: 0,
            counts: Counts::default(),
            host: Accesses::default(),
            device: Accesses::default(),
            flash: Accesses::default(),
            in_vain: Accesses::default(),
            failed: None,
            footprint,
            config: config.clone(),
        };
        machine.start();
        Ok(machine)
    }

    fn start(&mut self) {
        let now = Tick::of(self.sim.now());
        self.base = Some(Totals {
            at: now,
            ..Totals::default()
        });
        if let Tiering::Sampled(_, sampling) = self.config.tiering {
            self.later(now + Tick::of(sampling.period), Action::Sample);
        }
        for core in 0..self.cores.len() {
            self.cores[core].window.lag = now;
            self.dispatch(core, now, Tick::ZERO);
        }
        self.refresh_kernel();
    }

    /// Runs the program to its end. Returns the metrics since all threads have passed
    /// [`crate::Op::Begin`], or since the start if they have none.
    ///
    /// # Errors
    /// If the program issues an invalid operation or fails, or if the machine makes no progress.
    pub fn run(&mut self) -> Result<Metrics, RunError> {
        while self.os.live > 0 {
            self.step()?;
        }
        let base = self.base.take().unwrap_or_default();
        let total = self.totals(self.end);
        self.base = Some(base.clone());
        Ok(total.since(&base, &self.pages.touched(), self.pages.held().0))
    }

    /// The device behind the link.
    pub fn far(&self) -> &F {
        &self.far
    }

    /// The observer of loads and stores.
    pub fn values(&self) -> &W {
        &self.values
    }

    /// Executes the earliest due event. A core continues with its next steps while nothing else
    /// is due.
    fn step(&mut self) -> Result<(), RunError> {
        let (mut core, mut first, mut second) = (0, self.next[0], Tick::NEVER);
        for (number, &next) in self.next.iter().enumerate().skip(1) {
            if next < first {
                (core, first, second) = (number, next, first);
            } else {
                second = second.min(next);
            }
        }
        let due = self
            .agenda
            .peek()
            .map_or(Tick::NEVER, |Reverse(item)| item.0);
        if first.min(self.kernel_next) == Tick::NEVER && self.only_samples() {
            return Err(RunError::Stuck(self.sim.now()));
        }
        debug_assert!(first.min(due) >= self.now, "a step is due in the past");
        if self.kernel_next <= first.min(due) {
            self.kernel.step();
            self.listen();
            self.refresh_kernel();
        } else if due <= first {
            if let Some(Reverse((time, _, action))) = self.agenda.pop() {
                self.now = time;
                self.act(time, action);
            }
        } else {
            (self.running, self.until) = (core, second.min(due).min(self.kernel_next));
            loop {
                self.now = first;
                self.advance(core, first);
                first = self.next[core];
                // Among equals, others may be first; and a core may have failed or ended.
                if first >= self.until || self.failed.is_some() || self.os.live == 0 {
                    break;
                }
            }
            self.running = NO_CORE;
        }
        match self.failed.take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Whether the only deferred action is the kernel's next sample, which unblocks no thread.
    fn only_samples(&self) -> bool {
        let sample = |item: &Reverse<(Tick, u64, Action)>| item.0.2 == Action::Sample;
        self.agenda.iter().all(sample)
    }

    fn act(&mut self, now: Tick, action: Action) {
        match action {
            Action::Arrive(tag) => self.arrive(now, tag),
            Action::Copy(slot) => self.copy_line(now, slot),
            Action::Copied(slot, index) => self.copy_is_there(now, slot, index),
            Action::Finish(slot) => self.copied(now, slot),
            Action::Handled(page) => self.handled(now, page),
            Action::Sample => self.sample(now),
            Action::Room => self.room(now),
        }
    }

    fn later(&mut self, time: Tick, action: Action) {
        self.sequence += 1;
        self.until = self.until.min(time);
        self.agenda.push(Reverse((time, self.sequence, action)));
    }

    fn refresh_kernel(&mut self) {
        self.kernel_next = self.sim.next_time().map_or(Tick::NEVER, Tick::of);
        self.until = self.until.min(self.kernel_next);
    }

    /// Recomputes when a core's next step is due.
    fn refresh(&mut self, core: usize) {
        let one = &self.cores[core];
        self.next[core] = one
            .window
            .issues
            .next()
            .min(one.drain)
            .min(one.fault)
            .min(one.retry)
            .min(one.plan.time());
        if core != self.running {
            self.until = self.until.min(self.next[core]);
        }
    }

    /// Everything counted up to `at`.
    fn totals(&self, at: Tick) -> Totals {
        let mut totals = Totals {
            at,
            caches: self.caches.counts,
            counts: self.counts,
            host: self.host,
            device: self.device,
            flash: self.flash,
            in_vain: self.in_vain,
            link: self.link.bytes(),
            ..Totals::default()
        };
        for dram in &self.drams {
            let counts = dram.counts();
            totals.dram.hits += counts.hits;
            totals.dram.closed += counts.closed;
            totals.dram.conflicts += counts.conflicts;
        }
        for core in &self.cores {
            let window = &core.window;
            let memory = window.tail;
            totals.counts.squashed += window.squashed;
            totals.instructions += window.index;
            totals.memory += memory;
            totals.slots += window.slot.times(window.index);
            totals.memory_slots += window.slot.times(memory);
            totals.core_time += window.time();
            for cause in 0..CAUSES {
                totals.spent[cause] += window.spent[cause];
            }
        }
        totals
    }
}
