//! A program whose threads are kernels.
//!
//! Invariants: a thread that waits at a barrier is resumed only when every other thread waits there
//! or has ended. Between two barriers, the operations of a thread do not depend on what other
//! threads do, so the order in which threads are asked does not change the operations of any
//! thread.

use crate::mem::{Mem, Outlet};
use memsys::{Op, Program};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use units::Bytes;

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// A program that runs a kernel on each thread.
pub struct Threads {
    threads: Vec<Thread>,
    footprint: Bytes,
}

struct Thread {
    task: Option<Task>,
    outlet: Rc<Outlet>,
    /// Number of barriers reached.
    meetings: u64,
}

impl Threads {
    /// A program of `count` threads. `make` creates the kernel of a thread from its number and
    /// memory.
    pub(crate) fn new<F>(count: u32, footprint: u64, make: impl Fn(u32, Mem) -> F) -> Self
    where
        F: Future<Output = ()> + 'static,
    {
        let thread = |number| {
            let outlet = Rc::<Outlet>::default();
            let mem = Mem::new(Rc::clone(&outlet));
            Thread {
                task: Some(Box::pin(make(number, mem))),
                outlet,
                meetings: 0,
            }
        };
        Self {
            threads: (0..count).map(thread).collect(),
            footprint: Bytes(footprint),
        }
    }

    /// Whether every thread that has not ended has reached as many barriers as `thread`.
    fn may_resume(&self, thread: usize) -> bool {
        let come = self.threads[thread].meetings;
        let mut others = self.threads.iter().filter(|t| t.task.is_some());
        others.all(|other| other.meetings >= come)
    }
}

impl Program for Threads {
    fn threads(&self) -> u32 {
        self.threads.len() as u32
    }

    fn footprint(&self) -> Bytes {
        self.footprint
    }

    fn next(&mut self, thread: u32, ops: &mut Vec<Op>) -> bool {
        let index = thread as usize;
        debug_assert!(
            self.threads[index].task.is_none() || self.may_resume(index),
            "a thread is asked for what follows a meeting before all have come to it"
        );
        let thread = &mut self.threads[index];
        let Some(task) = &mut thread.task else {
            return false;
        };
        let polled = task.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if matches!(polled, Poll::Ready(())) {
            thread.task = None;
        }
        thread.meetings += u64::from(thread.outlet.meets.take());
        let noted = thread.outlet.ops.take();
        let more = !noted.is_empty();
        ops.extend_from_slice(&noted);
        thread.outlet.ops.set(noted);
        thread.task.is_some() || more
    }
}
