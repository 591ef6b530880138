//! Asynchronous writes, and the helper threads that make them.

use super::HELPERS;
use crate::files::{Fd, ThreadId};
use std::collections::VecDeque;

/// Write that waits for a helper.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    /// Worker that issued the write.
    pub(super) owner: usize,
    pub(super) fd: Fd,
    pub(super) at: u64,
    pub(super) len: u64,
}

/// Queue of one process's asynchronous writes, and its helpers.
#[derive(Clone, Debug)]
pub(super) struct AioQueue {
    pub(super) process: u32,
    jobs: VecDeque<Job>,
    /// Write in progress of each helper.
    busy: [Option<Job>; HELPERS as usize],
    /// Thread number of the first helper.
    pub(super) first: u32,
}

impl AioQueue {
    pub(super) const fn new(process: u32, first: u32) -> Self {
        Self {
            process,
            jobs: VecDeque::new(),
            busy: [None; HELPERS as usize],
            first,
        }
    }

    pub(super) fn push(&mut self, job: Job) {
        self.jobs.push_back(job);
    }

    /// Takes the first job for `helper` whose descriptor no other helper writes to.
    pub(super) fn take(&mut self, helper: ThreadId) -> Option<Job> {
        let taken = |fd: Fd| self.busy.iter().flatten().any(|job| job.fd == fd);
        let at = self.jobs.iter().position(|job| !taken(job.fd))?;
        let job = self.jobs.remove(at)?;
        self.busy[(helper.0 - self.first) as usize] = Some(job);
        Some(job)
    }

    /// Ends the write of `helper` and returns its job.
    pub(super) fn ended(&mut self, helper: ThreadId) -> Option<Job> {
        self.busy[(helper.0 - self.first) as usize].take()
    }

    /// Thread numbers of the helpers.
    pub(super) fn helpers(&self) -> impl Iterator<Item = ThreadId> + use<> {
        (self.first..self.first + HELPERS).map(ThreadId)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_is_written_by_one_helper_at_a_time() {
        let mut queue = AioQueue::new(0, 5);
        let job = |fd, at| Job {
            owner: 0,
            fd: Fd(fd),
            at,
            len: 1,
        };
        for job in [job(1, 0), job(1, 1), job(2, 2)] {
            queue.push(job);
        }
        let (a, b, c) = (ThreadId(5), ThreadId(6), ThreadId(24));
        assert_eq!(queue.take(a).map(|j| j.at), Some(0));
        assert_eq!(queue.take(b).map(|j| j.at), Some(2));
        assert!(queue.take(c).is_none());
        assert_eq!(queue.ended(a).map(|j| j.at), Some(0));
        assert_eq!(queue.take(c).map(|j| j.at), Some(1));
        assert!(queue.ended(a).is_none());
    }
}
