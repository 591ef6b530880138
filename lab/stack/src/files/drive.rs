//! The threads of a source as tasks on a file system.

use super::act::Actor;
use super::meter::FileMeter;
use super::origins::Origins;
use super::slots::Slots;
use super::words;
use crate::error::StackError;
use sim::{Signal, Sim};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use units::Ns;
use vfs::{Access, Body, Process, Vfs};
use workload::Labels;
use workload::files::{Call, Errno, Source, ThreadId, Turn};

/// A source that runs on a file system.
pub struct Drive<B: Body, S: Source> {
    sim: Sim,
    vfs: Vfs<B>,
    pub(crate) source: RefCell<S>,
    meter: RefCell<FileMeter>,
    pub(super) slots: RefCell<Slots<B>>,
    pub(super) origins: RefCell<Origins>,
    processes: RefCell<Vec<Option<Rc<Process<B>>>>>,
    /// The signal that wakes each parked thread.
    signals: RefCell<Vec<Rc<Signal>>>,
    /// Number of threads started, and number of those still running.
    started: Cell<u32>,
    running: Cell<u32>,
    /// Number of calls started.
    begun: Cell<u64>,
    failure: RefCell<Option<StackError>>,
    start: Ns,
    done: Signal,
}

impl<B: Body, S: Source + 'static> Drive<B, S> {
    /// Starts the threads of `source` on `vfs`, which holds its tree; `origins` attributes its
    /// files. Times are relative to now. Intervals are tallied too if `sampled`.
    pub fn start(sim: &Sim, vfs: &Vfs<B>, source: S, origins: Origins, sampled: bool) -> Rc<Self> {
        let meter = FileMeter::new(source.members(), sampled);
        let drive = Rc::new(Self {
            sim: sim.clone(),
            vfs: vfs.clone(),
            source: RefCell::new(source),
            meter: RefCell::new(meter),
            slots: RefCell::default(),
            origins: RefCell::new(origins),
            processes: RefCell::default(),
            signals: RefCell::default(),
            started: Cell::new(0),
            running: Cell::new(0),
            begun: Cell::new(0),
            failure: RefCell::default(),
            start: sim.now(),
            done: Signal::default(),
        });
        drive.hire();
        drive
    }

    /// Starts the threads that the source has added.
    fn hire(self: &Rc<Self>) {
        while self.started.get() < self.source.borrow().threads() {
            let thread = ThreadId(self.started.get());
            self.started.set(thread.0 + 1);
            self.running.set(self.running.get() + 1);
            self.signals.borrow_mut().push(Rc::default());
            self.sim.spawn_detached(Rc::clone(self).run(thread));
        }
    }

    fn process(&self, number: u32) -> Rc<Process<B>> {
        let mut processes = self.processes.borrow_mut();
        let index = number as usize;
        if index >= processes.len() {
            processes.resize(index + 1, None);
        }
        let new = || Rc::new(Process::new(&self.vfs, Access::default()));
        Rc::clone(processes[index].get_or_insert_with(new))
    }

    /// Whether every thread has ended.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.running.get() == 0
    }

    /// Waits until every thread has ended.
    pub async fn finish(&self) {
        while !self.is_done() {
            self.done.wait(&self.sim).await;
        }
    }

    /// Calls that have started and not ended.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        let meter = self.meter.borrow();
        self.begun.get() - meter.completed - meter.errors.values().sum::<u64>()
    }

    /// The measurements so far.
    pub fn meter(&self) -> std::cell::Ref<'_, FileMeter> {
        self.meter.borrow()
    }

    pub(crate) fn meter_mut(&self) -> std::cell::RefMut<'_, FileMeter> {
        self.meter.borrow_mut()
    }

    /// Starts no more calls, because of `error`.
    pub(crate) fn stop(&self, error: StackError) {
        self.failure.borrow_mut().get_or_insert(error);
        self.signals
            .borrow()
            .iter()
            .for_each(|s| s.notify(&self.sim));
    }

    /// Takes the error that stopped the run; `None` without one.
    pub(crate) fn failure(&self) -> Option<StackError> {
        let source = || self.source.borrow().failure().map(StackError::Calls);
        self.failure.take().or_else(source)
    }

    /// Names of the origins of all files.
    pub(crate) fn labels(&self) -> Labels {
        self.origins.borrow().labels().clone()
    }

    /// Notes of the source, one sentence each.
    pub(crate) fn notes(&self) -> Vec<String> {
        self.source.borrow().notes()
    }

    async fn run(self: Rc<Self>, thread: ThreadId) {
        let number = self.source.borrow().process(thread);
        let mut actor = Actor {
            process: self.process(number),
            path: Vec::new(),
        };
        let signal = Rc::clone(&self.signals.borrow()[thread.0 as usize]);
        loop {
            match self.ask(thread) {
                Turn::Call {
                    think,
                    late,
                    call,
                    expect,
                } => {
                    if think > Ns::ZERO {
                        self.sim.sleep(think).await;
                    }
                    let due = self.sim.now().since(late);
                    self.begun.set(self.begun.get() + 1);
                    let result = self.act(&mut actor, &call).await;
                    let result = result.map_err(words::errno);
                    self.note(thread, &call, due, result, expect);
                }
                Turn::Pause(span) => self.sim.sleep(span).await,
                Turn::Park => signal.wait(&self.sim).await,
                Turn::Done => break,
            }
        }
        self.running.set(self.running.get() - 1);
        self.done.notify(&self.sim);
    }

    fn ask(self: &Rc<Self>, thread: ThreadId) -> Turn {
        if self.failure.borrow().is_some() {
            return Turn::Done;
        }
        let now = self.sim.now().since(self.start);
        let turn = self.source.borrow_mut().next(thread, now);
        let member = self.source.borrow().member(thread);
        while let Some((kind, latency)) = self.source.borrow_mut().finished() {
            self.meter.borrow_mut().add_operation(member, kind, latency);
        }
        self.pass_on();
        turn
    }

    fn note(
        self: &Rc<Self>,
        thread: ThreadId,
        call: &Call,
        due: Ns,
        result: Result<u64, Errno>,
        expect: Option<Result<u64, Errno>>,
    ) {
        let now = self.sim.now();
        let at = now.since(self.start);
        let member = self.source.borrow().member(thread);
        let times = (now.since(due), at);
        self.meter
            .borrow_mut()
            .add((member, call), times, result, expect);
        self.source.borrow_mut().ended(thread, result);
        self.pass_on();
    }

    /// Notifies woken threads, and starts threads that the source has added.
    fn pass_on(self: &Rc<Self>) {
        while let Some(woken) = self.source.borrow_mut().wake() {
            if let Some(signal) = self.signals.borrow().get(woken.0 as usize) {
                signal.notify(&self.sim);
            }
        }
        if self.started.get() < self.source.borrow().threads() {
            self.hire();
        }
    }
}
