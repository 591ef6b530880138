//! Work of a background thread: calls in order, and changes of state after them.

use crate::files::{Call, Fd};
use std::collections::VecDeque;

/// A step of a job.
#[derive(Clone, Debug)]
pub(in crate::files) enum Todo<E> {
    Call(Call),
    Effect(E),
}

/// Remaining steps of a job.
#[derive(Clone, Debug)]
pub(in crate::files) struct Job<E>(VecDeque<Todo<E>>);

impl<E> Default for Job<E> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<E> Job<E> {
    pub(in crate::files) fn call(&mut self, call: Call) {
        self.0.push_back(Todo::Call(call));
    }

    pub(in crate::files) fn effect(&mut self, effect: E) {
        self.0.push_back(Todo::Effect(effect));
    }

    pub(in crate::files) fn next(&mut self) -> Option<Todo<E>> {
        self.0.pop_front()
    }

    /// Whether no step is left.
    pub(in crate::files) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds calls for `bytes` from `at` on, of at most `chunk` bytes each.
    pub(in crate::files) fn chunks(
        &mut self,
        at: u64,
        bytes: u64,
        chunk: u64,
        call: impl Fn(u64, u64) -> Call,
    ) {
        let mut done = 0;
        while done < bytes {
            let len = chunk.min(bytes - done);
            self.call(call(at + done, len));
            done += len;
        }
    }

    /// Adds the steps of `a` and `b`, alternating in proportion to their numbers.
    pub(super) fn interleave(&mut self, a: Self, b: Self) {
        let (mut a, mut b) = (a.0, b.0);
        let (all_a, all_b) = (a.len(), b.len());
        while !a.is_empty() || !b.is_empty() {
            let (done_a, done_b) = (all_a - a.len(), all_b - b.len());
            let turn_of_a = b.is_empty() || (!a.is_empty() && done_a * all_b <= done_b * all_a);
            self.0.extend(if turn_of_a {
                a.pop_front()
            } else {
                b.pop_front()
            });
        }
    }
}

/// Allocator of descriptor slots; the slot freed last is reused first.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    free: Vec<u32>,
    used: u32,
}

impl Slots {
    pub(super) fn take(&mut self) -> Fd {
        Fd(self.free.pop().unwrap_or_else(|| {
            self.used += 1;
            self.used - 1
        }))
    }

    pub(super) fn put(&mut self, fd: Fd) {
        self.free.push(fd.0);
    }
}
