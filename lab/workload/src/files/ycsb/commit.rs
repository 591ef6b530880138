//! Group commit: many writers of one log, of which one writes for all that wait.
//!
//! Invariant: a write joins the group that is written next, and is done when that group is; at most
//! one group is written at a time.

use super::job::{Job, Todo};
use crate::files::source::Parking;
use crate::files::{Call, Fd, ThreadId};

/// Bytes of the headers of a log record and of a batch.
const HEADERS: u64 = 7 + 12;

/// Next action of a thread that has joined.
pub(super) enum Next<E> {
    /// Wait until woken.
    Parks,
    /// Write for all waiters; the thread must call [`Commit::write`].
    Leads,
    /// Take this step of the write.
    Does(Todo<E>),
    /// Continue, since the write is done.
    Leaves,
}

/// Log with its group and its queue.
#[derive(Clone, Debug)]
pub(super) struct Commit<E> {
    /// Bytes of a record.
    entry: u64,
    /// Whether each group is made durable.
    sync: bool,
    /// Thread that writes the present group.
    leader: Option<ThreadId>,
    /// Remaining steps of the leader.
    job: Job<E>,
    /// Writers and records of the group that is being written.
    group: Vec<(ThreadId, u32)>,
    /// Writers and records of the next group.
    queue: Vec<(ThreadId, u32)>,
    /// Threads that wait for room in the log.
    stalled: Vec<ThreadId>,
}

impl<E> Commit<E> {
    /// A log of records of `entry` bytes; groups are made durable if `sync`.
    pub(super) fn new(entry: u64, sync: bool) -> Self {
        Self {
            entry,
            sync,
            leader: None,
            job: Job::default(),
            group: Vec::new(),
            queue: Vec::new(),
            stalled: Vec::new(),
        }
    }

    /// Queues the write of `record` by `thread`.
    pub(super) fn join(&mut self, thread: ThreadId, record: u32) {
        self.queue.push((thread, record));
    }

    /// Next action of `thread`, which has joined. Without `room` no group is begun.
    pub(super) fn next(&mut self, thread: ThreadId, room: bool) -> Next<E> {
        let among = |writers: &[(ThreadId, u32)]| writers.iter().any(|writer| writer.0 == thread);
        if self.leader == Some(thread) {
            return self.job.next().map_or(Next::Leaves, Next::Does);
        }
        if !among(&self.queue) {
            return match among(&self.group) {
                true => Next::Parks,
                false => Next::Leaves,
            };
        }
        if !room {
            self.stalled.push(thread);
            return Next::Parks;
        }
        if self.leader.is_some() {
            return Next::Parks;
        }
        self.leader = Some(thread);
        std::mem::swap(&mut self.group, &mut self.queue);
        Next::Leads
    }

    /// Sets the leader's steps: `job`, then the write of the group to `fd`, then the effect
    /// `written`. Returns the bytes of the group.
    pub(super) fn write(&mut self, mut job: Job<E>, fd: Fd, written: E) -> u64 {
        let len = self.group.len() as u64 * (self.entry + HEADERS);
        job.call(Call::Write { fd, len });
        if self.sync {
            job.call(Call::Fdatasync { fd });
        }
        job.effect(written);
        self.job = job;
        len
    }

    /// Ends the group and returns its writes. Wakes its members but the leader, and the first
    /// thread of the next group.
    pub(super) fn written(&mut self, parking: &mut Parking) -> Vec<(ThreadId, u32)> {
        let (leader, done) = (self.leader.take(), std::mem::take(&mut self.group));
        let members = done.iter().map(|(thread, _)| *thread);
        for thread in members.filter(|thread| leader != Some(*thread)) {
            parking.wake(thread);
        }
        if let Some((next, _)) = self.queue.first() {
            parking.wake(*next);
        }
        done
    }

    /// Wakes the threads that wait for room.
    pub(super) fn unstall(&mut self, parking: &mut Parking) {
        while let Some(thread) = self.stalled.pop() {
            parking.wake(thread);
        }
    }
}
