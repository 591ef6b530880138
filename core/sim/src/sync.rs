//! Synchronization between tasks: signals, permits, locks, channels.
//!
//! Invariants: waiters are served in order of arrival; a permit that is free and
//! unclaimed is taken without an event; a dropped waiter gives back its granted
//! permits.

use crate::{Sim, TaskId};
use std::cell::{Cell, RefCell, RefMut};
use std::collections::VecDeque;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Wakes all tasks that wait for a change of state. Waiters check their own condition
/// in a loop.
#[derive(Default)]
pub struct Signal {
    epoch: Cell<u64>,
    waiters: RefCell<Vec<TaskId>>,
}

impl Signal {
    /// Wakes all current waiters, in the order in which they began to wait.
    pub fn notify(&self, sim: &Sim) {
        self.epoch.set(self.epoch.get() + 1);
        for task in self.waiters.borrow_mut().drain(..) {
            sim.wake(task);
        }
    }

    /// Waits for the next [`Signal::notify`].
    pub fn wait<'a>(&'a self, sim: &'a Sim) -> Wait<'a> {
        Wait {
            signal: self,
            sim,
            epoch: None,
        }
    }
}

/// Future returned by [`Signal::wait`].
pub struct Wait<'a> {
    signal: &'a Signal,
    sim: &'a Sim,
    epoch: Option<u64>,
}

impl Future for Wait<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let now = self.signal.epoch.get();
        if self.epoch.is_some_and(|epoch| epoch != now) {
            return Poll::Ready(());
        }
        if self.epoch.is_none() {
            self.epoch = Some(now);
            self.signal.waiters.borrow_mut().push(self.sim.current());
        }
        Poll::Pending
    }
}

struct Waiter {
    ticket: u64,
    task: TaskId,
    permits: usize,
}

#[derive(Default)]
struct Permits {
    free: usize,
    tickets: u64,
    waiters: VecDeque<Waiter>,
    /// Tickets granted and not yet collected, with their permits.
    granted: Vec<(u64, usize)>,
}

/// A counter of permits with a fair queue.
#[derive(Clone)]
pub struct Semaphore {
    sim: Sim,
    permits: Rc<RefCell<Permits>>,
}

impl Semaphore {
    /// Creates a semaphore with `free` permits.
    #[must_use]
    pub fn new(sim: &Sim, free: usize) -> Self {
        let permits = Permits {
            free,
            ..Permits::default()
        };
        Self {
            sim: sim.clone(),
            permits: Rc::new(RefCell::new(permits)),
        }
    }

    /// Takes `permits` at once if they are free and no task waits; returns whether it did.
    #[inline]
    #[must_use]
    pub fn try_take(&self, permits: usize) -> bool {
        let mut state = self.permits.borrow_mut();
        let free = state.waiters.is_empty() && state.free >= permits;
        if free {
            state.free -= permits;
        }
        free
    }

    /// Takes `permits` at once, or lets the current task or record wait for them. Returns the
    /// ticket of the wait; `None` if the permits are taken.
    #[inline]
    #[must_use]
    pub fn join(&self, permits: usize) -> Option<u64> {
        if self.try_take(permits) {
            return None;
        }
        let mut state = self.permits.borrow_mut();
        let ticket = state.tickets;
        state.tickets += 1;
        let task = self.sim.current();
        state.waiters.push_back(Waiter {
            ticket,
            task,
            permits,
        });
        Some(ticket)
    }

    /// Takes the permits that were granted to `ticket`; returns whether there are any.
    #[must_use]
    pub fn collect(&self, ticket: u64) -> bool {
        let granted = &mut self.permits.borrow_mut().granted;
        let index = granted.iter().position(|g| g.0 == ticket);
        index.map(|index| granted.swap_remove(index)).is_some()
    }

    /// Ends the wait of `ticket`, whose permits were not taken.
    pub fn leave(&self, ticket: u64) {
        let mut state = self.permits.borrow_mut();
        state.waiters.retain(|w| w.ticket != ticket);
        let granted = state.granted.iter().position(|g| g.0 == ticket);
        let back = granted.map(|index| state.granted.swap_remove(index).1);
        drop(state);
        // Also without permits to give back: the next waiter may fit now.
        self.put(back.unwrap_or(0));
    }

    /// Waits for `permits`; the caller gives them back with [`Semaphore::put`].
    #[inline]
    #[must_use]
    pub fn take(&self, permits: usize) -> Acquire<'_> {
        Acquire {
            semaphore: self,
            permits,
            ticket: None,
        }
    }

    /// Waits for `permits`; the returned [`Permit`] gives them back on drop.
    pub async fn acquire(&self, permits: usize) -> Permit {
        self.take(permits).await;
        Permit {
            semaphore: self.clone(),
            permits,
        }
    }

    /// Gives back `permits` and grants free permits to waiters, in order of arrival.
    #[inline]
    pub fn put(&self, permits: usize) {
        let mut state = self.permits.borrow_mut();
        state.free += permits;
        if !state.waiters.is_empty() {
            self.grant(&mut state);
        }
    }

    fn grant(&self, state: &mut Permits) {
        while let Some(waiter) = state.waiters.front() {
            if waiter.permits > state.free {
                break;
            }
            let waiter = state.waiters.pop_front().expect("there is a front");
            state.free -= waiter.permits;
            state.granted.push((waiter.ticket, waiter.permits));
            self.sim.wake(waiter.task);
        }
    }

    /// Number of free permits.
    #[must_use]
    pub fn free(&self) -> usize {
        self.permits.borrow().free
    }

    /// Whether any task waits for permits.
    #[must_use]
    pub fn is_contended(&self) -> bool {
        !self.permits.borrow().waiters.is_empty()
    }
}

/// Future returned by [`Semaphore::take`].
pub struct Acquire<'a> {
    semaphore: &'a Semaphore,
    permits: usize,
    ticket: Option<u64>,
}

impl Future for Acquire<'_> {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        match self.ticket {
            Some(ticket) if self.semaphore.collect(ticket) => self.ticket = None,
            Some(_) => return Poll::Pending,
            None => self.ticket = self.semaphore.join(self.permits),
        }
        match self.ticket {
            Some(_) => Poll::Pending,
            None => Poll::Ready(()),
        }
    }
}

impl Drop for Acquire<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.semaphore.leave(ticket);
        }
    }
}

/// Permits of a [`Semaphore`], given back on drop.
pub struct Permit {
    semaphore: Semaphore,
    permits: usize,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.semaphore.put(self.permits);
    }
}

/// A mutex: one task at a time holds its value, also across waits.
pub struct Lock<T> {
    turn: Semaphore,
    value: RefCell<T>,
}

impl<T> Lock<T> {
    /// Creates an unlocked lock around `value`.
    #[must_use]
    pub fn new(sim: &Sim, value: T) -> Self {
        Self {
            turn: Semaphore::new(sim, 1),
            value: RefCell::new(value),
        }
    }

    /// Waits for the lock, in order of arrival.
    pub async fn lock(&self) -> LockGuard<'_, T> {
        let permit = self.turn.acquire(1).await;
        LockGuard {
            value: self.value.borrow_mut(),
            _permit: permit,
        }
    }
}

/// Access to the value of a [`Lock`], which unlocks on drop.
pub struct LockGuard<'a, T> {
    // Dropped in this order: the borrow ends before the next task takes the lock.
    value: RefMut<'a, T>,
    _permit: Permit,
}

impl<T> Deref for LockGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for LockGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

/// Readers that may hold an [`RwLock`] at once.
const READERS: usize = 1 << 20;

/// A lock held by many readers or by one writer, granted in order of arrival: a reader
/// that arrives behind a waiting writer waits as well.
pub struct RwLock {
    turn: Semaphore,
}

impl RwLock {
    /// Creates an unlocked lock.
    #[must_use]
    pub fn new(sim: &Sim) -> Self {
        Self {
            turn: Semaphore::new(sim, READERS),
        }
    }

    /// Waits until no writer holds the lock or waits ahead; shares it with other readers.
    #[inline]
    pub async fn read(&self) -> Permit {
        self.turn.acquire(1).await
    }

    /// Waits until no other task holds the lock.
    #[inline]
    pub async fn write(&self) -> Permit {
        self.turn.acquire(READERS).await
    }
}

struct Mailbox<T> {
    sim: Sim,
    items: RefCell<VecDeque<T>>,
    receiver: Cell<Option<TaskId>>,
    senders: Cell<usize>,
}

impl<T> Mailbox<T> {
    fn wake_receiver(&self) {
        if let Some(task) = self.receiver.take() {
            self.sim.wake(task);
        }
    }
}

/// The sending half of a [`channel`].
pub struct Sender<T> {
    mailbox: Rc<Mailbox<T>>,
}

/// The receiving half of a [`channel`]; receives items in the order of sending.
pub struct Receiver<T> {
    mailbox: Rc<Mailbox<T>>,
}

/// Creates an unbounded channel; it closes when its last sender is dropped.
#[must_use]
pub fn channel<T>(sim: &Sim) -> (Sender<T>, Receiver<T>) {
    let mailbox = Rc::new(Mailbox {
        sim: sim.clone(),
        items: RefCell::default(),
        receiver: Cell::new(None),
        senders: Cell::new(1),
    });
    let sender = Sender {
        mailbox: Rc::clone(&mailbox),
    };
    (sender, Receiver { mailbox })
}

impl<T> Sender<T> {
    /// Appends `item` and wakes the receiver.
    pub fn send(&self, item: T) {
        self.mailbox.items.borrow_mut().push_back(item);
        self.mailbox.wake_receiver();
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        let senders = &self.mailbox.senders;
        senders.set(senders.get() + 1);
        Self {
            mailbox: Rc::clone(&self.mailbox),
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let senders = &self.mailbox.senders;
        senders.set(senders.get() - 1);
        if senders.get() == 0 {
            self.mailbox.wake_receiver();
        }
    }
}

impl<T> Receiver<T> {
    /// Waits for the next item; None once the channel is empty and closed.
    pub async fn recv(&mut self) -> Option<T> {
        std::future::poll_fn(|_| {
            let item = self.mailbox.items.borrow_mut().pop_front();
            if item.is_some() || self.mailbox.senders.get() == 0 {
                return Poll::Ready(item);
            }
            let current = self.mailbox.sim.current();
            self.mailbox.receiver.set(Some(current));
            Poll::Pending
        })
        .await
    }
}
