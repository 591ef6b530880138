//! The kernel: tasks, the clock and the event loop.
//!
//! Invariants: `now` never goes back; an event counts exactly when it polls a
//! live task or reaches a live actor; a task that a driver continues belongs to
//! the last event; a task's future is out of its slot while it is polled, so a
//! task may spawn and wake other tasks freely; dropping the [`Kernel`] drops
//! every task.

use crate::actor::{Actor, ActorId};
use crate::calendar::Calendar;
use crate::queue::{END, Key, MAX_TASKS};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use units::Ns;

/// The number of a task. The number of an ended task is reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskId(pub(crate) u32);

impl TaskId {
    /// The number as an index, below 2²⁴.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The number reserved for the observer task.
pub(crate) const OBSERVER: TaskId = TaskId(MAX_TASKS as u32 - 1);

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// The use of a task number.
#[derive(Default)]
pub(crate) enum Slot {
    /// The number is free, or its task is being polled.
    #[default]
    Empty,
    Task(Task),
    /// A record of an actor, with the actor's number for it.
    Record(ActorId, u32),
}

/// A watchdog; returns whether it has woken a task.
type Watchdog = Rc<dyn Fn() -> bool>;

#[derive(Default)]
pub(crate) struct State {
    now: Cell<Ns>,
    sequence: Cell<u64>,
    events: Cell<u64>,
    current: Cell<u32>,
    pub(crate) tables: RefCell<Tables>,
    watchdogs: RefCell<Vec<Watchdog>>,
}

/// Scheduled events, and the tasks and actors that they are for.
#[derive(Default)]
pub(crate) struct Tables {
    timers: Calendar,
    /// Tasks woken at the current time, in order of their sequence numbers.
    ready: VecDeque<Key>,
    pub(crate) tasks: Vec<Slot>,
    pub(crate) free: Vec<TaskId>,
    pub(crate) actors: Vec<Weak<dyn Actor>>,
    /// Timers of actors; they are numbered downwards from the observer.
    pub(crate) actor_timers: Vec<(ActorId, u32)>,
    /// The observer task. Its slot and number are separate, so the numbers of all other
    /// tasks are the same with and without an observer.
    observer: Option<Task>,
}

/// The receiver of an event.
enum Due {
    Actor(Rc<dyn Actor>, u32),
    Task(Task),
    /// It has ended, or is being polled.
    Nothing,
}

impl Tables {
    #[inline]
    fn pop_below(&mut self, bound: Key) -> Option<Key> {
        let first = self.ready.front().map_or(bound, |&key| key.min(bound));
        let timer = self.timers.pop_below(first);
        if timer.is_some() || first == bound {
            return timer;
        }
        self.ready.pop_front()
    }

    /// The receiver of events for `id`. A task is out of its slot from then on.
    #[inline]
    fn due(&mut self, id: TaskId) -> Due {
        let (actor, number) = match self.tasks.get_mut(id.index()) {
            Some(&mut Slot::Record(actor, number)) => (actor, number),
            Some(slot) => {
                return match std::mem::take(slot) {
                    Slot::Task(task) => Due::Task(task),
                    _ => Due::Nothing,
                };
            }
            // The index wraps for the observer.
            None => match self
                .actor_timers
                .get((OBSERVER.0 - 1).wrapping_sub(id.0) as usize)
            {
                Some(&timer) => timer,
                None => return self.observer.take().map_or(Due::Nothing, Due::Task),
            },
        };
        match self.actors[actor.0 as usize].upgrade() {
            Some(actor) => Due::Actor(actor, number),
            None => Due::Nothing,
        }
    }
}

/// A handle on a kernel, with which tasks read the clock, sleep and spawn tasks.
#[derive(Clone)]
pub struct Sim {
    pub(crate) state: Rc<State>,
}

/// Owns the tasks of one simulation and runs them.
pub struct Kernel {
    sim: Sim,
}

/// The end of a run by [`Kernel::run_to_cut`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut<D> {
    /// The power went before the chosen event; holds the durable state.
    Off(D),
    /// The simulation came to rest before that event.
    AtRest,
}

/// Holds events back until an outside clock reaches their time, for drivers that
/// pace a simulation by that clock.
pub trait Pacer {
    /// Blocks until `time` and returns the time reached. An earlier time lets
    /// outside input in first: the kernel advances its clock to that time and calls
    /// again with the next event. None ends the run before the event.
    fn wait_until(&mut self, time: Ns) -> Option<Ns>;
}

impl Default for Kernel {
    fn default() -> Self {
        Self::new()
    }
}

impl Kernel {
    /// Creates a kernel at time zero without tasks.
    #[must_use]
    pub fn new() -> Self {
        Self {
            sim: Sim {
                state: Rc::default(),
            },
        }
    }

    /// A handle on this kernel, to give to tasks.
    #[must_use]
    pub fn sim(&self) -> Sim {
        self.sim.clone()
    }

    /// Runs until no event is scheduled.
    pub fn run(&self) {
        while self.step() {}
    }

    /// Runs everything scheduled up to and including `time`, then sets the clock
    /// to it.
    pub fn run_until(&self, time: Ns) {
        while self.sim.next_time().is_some_and(|next| next <= time) && self.step_to(time) {}
        self.sim.state.now.set(self.sim.now().max(time));
    }

    /// Runs `root` to its end and returns its result; unfinished tasks stay scheduled.
    ///
    /// # Panics
    /// If no event is left and `root` still waits: a deadlock of the model.
    pub fn block_on<T: 'static>(&self, root: impl Future<Output = T> + 'static) -> T {
        let mut handle = self.sim.spawn(root);
        loop {
            if let Some(result) = handle.take() {
                return result;
            }
            assert!(self.step(), "deadlock: the simulation is at rest");
        }
    }

    /// Runs the next event. Returns false if none is scheduled, and no watchdog has scheduled one.
    #[inline]
    pub fn step(&self) -> bool {
        self.step_to(END)
    }

    /// As [`Kernel::step`], for an event up to and including `limit`.
    pub fn step_to(&self, limit: Ns) -> bool {
        let bound = Key::after(limit);
        loop {
            let mut tables = self.sim.state.tables.borrow_mut();
            while let Some(key) = tables.pop_below(bound) {
                let due = tables.due(key.task());
                if let Due::Nothing = due {
                    continue;
                }
                drop(tables);
                self.sim.begin(key);
                self.sim.run(key, due);
                return true;
            }
            drop(tables);
            if self.sim.next_time().is_some() || !self.sim.ask_watchdogs() {
                return false;
            }
        }
    }

    /// Polls `task`, or calls the record, within the last event: before all that is still scheduled
    /// for this instant. So a driver outside of the simulation answers an event as a task would.
    pub fn continue_with(&self, task: TaskId) {
        let key = Key::new(self.sim.now(), self.sim.next_sequence(), task);
        let due = self.sim.state.tables.borrow_mut().due(task);
        self.sim.run(key, due);
    }

    /// Runs until just before event number `event` (the first one is 0), then calls
    /// `durable` for the state that survives the cut.
    pub fn run_to_cut<D>(&self, event: u64, durable: impl FnOnce() -> D) -> Cut<D> {
        while self.sim.events() < event {
            if !self.step() {
                return Cut::AtRest;
            }
        }
        match self.sim.next_time() {
            Some(_) => Cut::Off(durable()),
            None => Cut::AtRest,
        }
    }

    /// Runs until no event is left or `pacer` ends the run. Each event waits until
    /// `pacer` reaches its time.
    pub fn run_paced(&self, pacer: &mut impl Pacer) {
        while let Some(next) = self.sim.next_time() {
            let Some(reached) = pacer.wait_until(next) else {
                return;
            };
            if reached >= next {
                self.step_to(next);
            } else {
                self.run_until(reached);
            }
        }
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        // Tasks hold handles on the kernel. Moving the tasks out of the state breaks
        // the reference cycle and lets their destructors find the state intact.
        let mut tables = self.sim.state.tables.borrow_mut();
        let tasks = (std::mem::take(&mut tables.tasks), tables.observer.take());
        drop(tables);
        drop((tasks, self.sim.state.watchdogs.take()));
    }
}

impl Sim {
    /// The current virtual time.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Ns {
        self.state.now.get()
    }

    /// Number of events run so far, each the poll of one live task or the call of one actor.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.state.events.get()
    }

    /// Time of the next event; None if none is scheduled.
    #[must_use]
    pub fn next_time(&self) -> Option<Ns> {
        let tables = self.state.tables.borrow();
        if tables.ready.is_empty() {
            tables.timers.peek().map(Key::time)
        } else {
            Some(self.now())
        }
    }

    /// The task that the kernel is polling, or the record that it has called.
    #[inline]
    #[must_use]
    pub fn current(&self) -> TaskId {
        TaskId(self.state.current.get())
    }

    /// Waits for `span` of virtual time.
    #[inline]
    #[must_use]
    pub fn sleep(&self, span: Ns) -> Sleep<'_> {
        self.sleep_until(Ns(self.now().0.saturating_add(span.0)))
    }

    /// Waits until `time`; returns without an event if `time` is not in the future.
    /// The clock ends after 2.28 years, and longer waits end then.
    #[inline]
    #[must_use]
    pub fn sleep_until(&self, time: Ns) -> Sleep<'_> {
        Sleep {
            sim: self,
            until: Ns(time.0.min(END.0)),
            armed: false,
        }
    }

    /// Schedules the current task or record to go on at `time`. Returns false, and schedules
    /// nothing, if `time` is not in the future.
    #[inline]
    pub fn alarm(&self, time: Ns) -> bool {
        let ahead = self.now() < Ns(time.0.min(END.0));
        if ahead {
            self.schedule(time, self.current());
        }
        ahead
    }

    /// Schedules an event of `task` or record at `time`, or at this instant if `time` is past.
    #[inline]
    pub fn call_at(&self, time: Ns, task: TaskId) {
        match self.now() < time {
            true => drop(self.schedule(time, task)),
            false => self.wake(task),
        }
    }

    /// Schedules `task` to resume at `time`, and returns the sequence number of that event.
    #[inline]
    pub(crate) fn schedule(&self, time: Ns, task: TaskId) -> u64 {
        let sequence = self.next_sequence();
        let key = Key::new(time, sequence, task);
        self.state.tables.borrow_mut().timers.push(key);
        sequence
    }

    /// Schedules `task` to resume at this instant, after all events already scheduled for it.
    #[inline]
    pub fn wake(&self, task: TaskId) {
        let key = Key::new(self.now(), self.next_sequence(), task);
        self.state.tables.borrow_mut().ready.push_back(key);
    }

    /// Starts a task; the handle waits for its result.
    pub fn spawn<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> JoinHandle<T> {
        let (promise, handle) = self.promise();
        self.spawn_detached(async move { promise.keep(future.await) });
        handle
    }

    /// A handle on a result, and the promise that delivers it.
    #[must_use]
    pub fn promise<T>(&self) -> (Promise<T>, JoinHandle<T>) {
        let shared = Rc::new(Shared {
            result: RefCell::new(None),
            waiter: Cell::new(None),
        });
        let promise = Promise {
            sim: self.clone(),
            shared: Rc::clone(&shared),
        };
        let sim = self.clone();
        (promise, JoinHandle { sim, shared })
    }

    /// Starts a task without a handle on its result.
    ///
    /// # Panics
    /// If more than sixteen million tasks exist at once.
    pub fn spawn_detached(&self, future: impl Future<Output = ()> + 'static) {
        let id = self.place(Slot::Task(Box::pin(future)));
        self.wake(id);
    }

    /// Starts the observer: a task that reads the simulation without changing it. All other
    /// tasks keep the numbers and the order that they have without an observer.
    ///
    /// # Panics
    /// If a kernel already has an observer.
    pub fn spawn_observer(&self, future: impl Future<Output = ()> + 'static) {
        let task: Task = Box::pin(future);
        let before = self.state.tables.borrow_mut().observer.replace(task);
        assert!(before.is_none(), "two tasks observe at once");
        self.wake(OBSERVER);
    }

    /// Adds a watchdog, which is called whenever no event is scheduled. It returns whether it has
    /// woken a task: a model that finds its own tasks in a deadlock makes them fail here.
    pub fn add_watchdog(&self, watchdog: impl Fn() -> bool + 'static) {
        self.state.watchdogs.borrow_mut().push(Rc::new(watchdog));
    }

    /// Calls the watchdogs in the order in which they were added, until one has woken a task.
    #[cold]
    fn ask_watchdogs(&self) -> bool {
        let watchdogs = self.state.watchdogs.borrow().clone();
        watchdogs.iter().any(|watchdog| watchdog())
    }

    pub(crate) fn place(&self, slot: Slot) -> TaskId {
        let tables = &mut *self.state.tables.borrow_mut();
        if let Some(id) = tables.free.pop() {
            tables.tasks[id.index()] = slot;
            return id;
        }
        let most = OBSERVER.index() - tables.actor_timers.len();
        assert!(tables.tasks.len() < most, "too many tasks at once");
        tables.tasks.push(slot);
        TaskId((tables.tasks.len() - 1) as u32)
    }

    #[inline]
    fn next_sequence(&self) -> u64 {
        let sequence = self.state.sequence.get();
        self.state.sequence.set(sequence + 1);
        sequence
    }

    /// Advances the clock to the event of `key` and counts it.
    #[inline]
    fn begin(&self, key: Key) {
        debug_assert!(key.time() >= self.now(), "time never goes back");
        self.state.now.set(key.time());
        self.state.events.set(self.state.events.get() + 1);
    }

    /// Polls or calls the receiver of `key`, and all that it resumes within the same event.
    #[inline]
    fn run(&self, key: Key, mut due: Due) {
        let mut id = key.task();
        loop {
            match due {
                Due::Nothing => return,
                Due::Task(task) => return self.poll(id, task),
                Due::Actor(actor, number) => {
                    self.state.current.set(id.0);
                    let Some(next) = actor.event(number, key.sequence()) else {
                        return;
                    };
                    id = next;
                }
            }
            due = self.state.tables.borrow_mut().due(id);
        }
    }

    fn poll(&self, id: TaskId, mut task: Task) {
        self.state.current.set(id.0);
        let mut context = Context::from_waker(Waker::noop());
        let ended = task.as_mut().poll(&mut context).is_ready();
        let mut tables = self.state.tables.borrow_mut();
        if ended {
            if id != OBSERVER {
                tables.free.push(id);
            }
            drop(tables);
        } else if id == OBSERVER {
            tables.observer = Some(task);
        } else {
            tables.tasks[id.index()] = Slot::Task(task);
        }
    }
}

/// Future of [`Sim::sleep`] and [`Sim::sleep_until`].
pub struct Sleep<'a> {
    sim: &'a Sim,
    until: Ns,
    armed: bool,
}

impl Future for Sleep<'_> {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let waits = match self.armed {
            true => self.sim.now() < self.until,
            false => self.sim.alarm(self.until),
        };
        self.armed = true;
        if waits {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    }
}

struct Shared<T> {
    result: RefCell<Option<T>>,
    waiter: Cell<Option<TaskId>>,
}

/// Delivers a result to a [`JoinHandle`].
pub struct Promise<T> {
    sim: Sim,
    shared: Rc<Shared<T>>,
}

impl<T> Promise<T> {
    /// Delivers `result`, and wakes the task that waits for it.
    pub fn keep(self, result: T) {
        *self.shared.result.borrow_mut() = Some(result);
        if let Some(task) = self.shared.waiter.take() {
            self.sim.wake(task);
        }
    }
}

/// Waits for the result of a task or of a [`Promise`]. A task keeps running if the handle is dropped.
pub struct JoinHandle<T> {
    sim: Sim,
    shared: Rc<Shared<T>>,
}

impl<T> JoinHandle<T> {
    /// Takes the result, if the task has ended and its result was not yet taken.
    pub fn take(&mut self) -> Option<T> {
        self.shared.result.borrow_mut().take()
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<T> {
        if let Some(result) = self.take() {
            return Poll::Ready(result);
        }
        self.shared.waiter.set(Some(self.sim.current()));
        Poll::Pending
    }
}
