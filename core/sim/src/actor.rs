//! Actors: models that the kernel calls with a number, without a task or a future.
//!
//! An actor has two kinds of numbers. A [`Timer`] exists as long as the actor: a die or a
//! channel has one. A *record* is one activity that would otherwise be a task; it takes a number
//! from the same supply as tasks, so a model that replaces tasks by records leaves the numbers
//! of all other tasks unchanged.
//!
//! Invariants: events of actors and tasks form one order by (time, sequence number); the kernel
//! holds actors weakly, so neither keeps the other alive; an event of an ended record or of a
//! dropped actor is not run and not counted. A record may be called in vain: by a wake for an ended
//! task whose number it took.

use crate::kernel::{OBSERVER, Slot};
use crate::{Sim, TaskId};
use std::future::Future;
use std::rc::Weak;
use units::Ns;

/// A model that handles events by itself.
pub trait Actor {
    /// Handles an event of timer or record `number`, scheduled as the `sequence`-th one. The
    /// kernel polls the returned task, or calls the returned record, within the same event.
    fn event(&self, number: u32, sequence: u64) -> Option<TaskId>;
}

/// The number of an actor of one kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActorId(pub(crate) u32);

/// Schedules events with a fixed number of an actor. Events cannot be taken back: the actor
/// recognises those that it has superseded by their sequence numbers.
#[derive(Clone)]
pub struct Timer {
    sim: Sim,
    id: TaskId,
}

impl Timer {
    /// Schedules an event at `time` and returns its sequence number.
    #[inline]
    pub fn set(&self, time: Ns) -> u64 {
        self.sim.schedule(time, self.id)
    }

    /// Schedules an event at this instant, after all events already scheduled for it.
    #[inline]
    pub fn set_now(&self) {
        self.sim.wake(self.id);
    }

    pub(crate) fn now(&self) -> Ns {
        self.sim.now()
    }
}

impl Sim {
    /// Registers an actor with this kernel.
    #[must_use]
    pub fn enroll(&self, actor: Weak<dyn Actor>) -> ActorId {
        let actors = &mut self.state.tables.borrow_mut().actors;
        actors.push(actor);
        ActorId(actors.len() as u32 - 1)
    }

    /// Creates a timer whose events have `number`.
    ///
    /// # Panics
    /// If tasks and timers together exceed sixteen million.
    #[must_use]
    pub fn timer(&self, actor: ActorId, number: u32) -> Timer {
        let mut tables = self.state.tables.borrow_mut();
        tables.actor_timers.push((actor, number));
        let id = OBSERVER.0 - tables.actor_timers.len() as u32;
        assert!(tables.tasks.len() <= id as usize, "too many timers");
        Timer {
            sim: self.clone(),
            id: TaskId(id),
        }
    }

    /// Starts a record: its first event is at this instant, after all events already scheduled
    /// for it.
    pub fn start_record(&self, actor: ActorId, record: u32) -> TaskId {
        let id = self.add_record(actor, record);
        self.wake(id);
        id
    }

    /// Adds a record without an event.
    pub fn add_record(&self, actor: ActorId, record: u32) -> TaskId {
        self.place(Slot::Record(actor, record))
    }

    /// Ends a record; its number may be reused.
    ///
    /// # Panics
    /// If `id` is not a record.
    pub fn end_record(&self, id: TaskId) {
        let mut tables = self.state.tables.borrow_mut();
        let slot = std::mem::take(&mut tables.tasks[id.index()]);
        assert!(matches!(slot, Slot::Record(..)), "a task ends by itself");
        tables.free.push(id);
    }

    /// Replaces a record by a task of the same number, for an actor to return from its event.
    ///
    /// # Panics
    /// If `id` is not a record.
    pub fn turn_into_task(&self, id: TaskId, future: impl Future<Output = ()> + 'static) {
        let task = Slot::Task(Box::pin(future));
        let slot = &mut self.state.tables.borrow_mut().tasks[id.index()];
        assert!(matches!(slot, Slot::Record(..)), "it is a task already");
        *slot = task;
    }
}
