//! Many writers of one log: one writes for all who wait.
//!
//! Invariant: a write joins the group that is written next, and is done when
//! that group is; at most one group is written at a time.

use super::job::{Job, Todo};
use crate::files::source::Parking;
use crate::files::{Call, Fd, ThreadId};

/// Bytes of a log record's header and of a batch's.
const HEADERS: u64 = 7 + 12;

/// What one who has joined does next.
pub(super) enum Next<E> {
    /// Waits until it is woken.
    Parks,
    /// Writes for all who wait: [`Commit::write`] has to be told where.
    Leads,
    /// Takes a step of that.
    Does(Todo<E>),
    /// Goes on, as its write is done.
    Leaves,
}

/// A log and those who wait for it.
#[derive(Clone, Debug)]
pub(super) struct Commit<E> {
    /// Bytes of a record.
    entry: u64,
    /// Whether each group is made durable.
    sync: bool,
    /// Who writes.
    leader: Option<ThreadId>,
    /// What it has still to do.
    job: Job<E>,
    /// Whose writes are in the group that is being written.
    group: Vec<(ThreadId, u32)>,
    /// Those of the next.
    queue: Vec<(ThreadId, u32)>,
    /// Who waits for room.
    stalled: Vec<ThreadId>,
}

impl<E> Commit<E> {
    /// A log of records of `entry` bytes, of which groups are made durable if `sync`.
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

    /// `thread` wants to write `record`.
    pub(super) fn join(&mut self, thread: ThreadId, record: u32) {
        self.queue.push((thread, record));
    }

    /// What `thread` does, which has joined. Without `room` nobody begins to write.
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

    /// The leader does what is in `job`, then writes the group to `fd`, and `written` comes to
    /// pass. Gives the bytes of the group.
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

    /// The group has been written: its writes. Whoever is in it is woken but the leader, and
    /// one who waits for the next group.
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

    /// There is room again.
    pub(super) fn unstall(&mut self, parking: &mut Parking) {
        while let Some(thread) = self.stalled.pop() {
            parking.wake(thread);
        }
    }
}
