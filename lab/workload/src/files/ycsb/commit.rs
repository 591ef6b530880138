//! Many writers of one log: one writes for all who wait.
//!
//! Invariant: a write joins the group that is written next, and is done when
//! that group is; at most one group is written at a time.

use crate::files::ThreadId;

/// Bytes of a log record's header and of a batch's.
const HEADERS: u64 = 7 + 12;

/// A log and those who wait for it.
#[derive(Clone, Debug, Default)]
pub(super) struct Commit {
    /// Who writes.
    leader: Option<ThreadId>,
    /// Whose writes are in the group that is being written.
    group: Vec<(ThreadId, u32)>,
    /// Those of the next.
    queue: Vec<(ThreadId, u32)>,
}

impl Commit {
    /// `thread` wants to write `record`.
    pub(super) fn join(&mut self, thread: ThreadId, record: u32) {
        self.queue.push((thread, record));
    }

    /// Makes `thread` write for all who wait, if nobody does.
    pub(super) fn lead(&mut self, thread: ThreadId) -> bool {
        let free = self.leader.is_none();
        if free {
            self.leader = Some(thread);
            std::mem::swap(&mut self.group, &mut self.queue);
        }
        free
    }

    /// The group that is being written.
    pub(super) fn group(&self) -> &[(ThreadId, u32)] {
        &self.group
    }

    /// Bytes of the group that is being written, of records of `entry` bytes.
    pub(super) fn bytes(&self, entry: u64) -> u64 {
        self.group.len() as u64 * (entry + HEADERS)
    }

    /// The group has been written: its writes, of which the leader's is one.
    /// Whoever waits for the next group has to ask again.
    pub(super) fn written(&mut self, done: &mut Vec<(ThreadId, u32)>) {
        self.leader = None;
        done.clear();
        std::mem::swap(done, &mut self.group);
    }

    /// One of those who wait for the next group.
    pub(super) fn next_leader(&self) -> Option<ThreadId> {
        self.queue.first().map(|(thread, _)| *thread)
    }
}
