//! Kernels as a program of threads.
//!
//! Invariants: a thread that stands where all meet is not resumed before the others
//! stand there or have ended; between two meetings what a thread does depends on
//! nothing that another does meanwhile, so the order in which threads are asked
//! changes no thread's operations.

use crate::mem::{Mem, Outlet};
use memsys::{Op, Program};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use units::Bytes;

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// A program whose threads are kernels.
pub struct Threads {
    threads: Vec<Thread>,
    footprint: Bytes,
}

struct Thread {
    task: Option<Task>,
    outlet: Rc<Outlet>,
    /// Meetings that it has come to.
    meetings: u64,
}

impl Threads {
    /// `count` threads, each made by `make` of its number and its memory.
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

    /// Whether every thread that goes on has come as far as `thread` has.
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
