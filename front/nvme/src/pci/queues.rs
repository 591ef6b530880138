//! Submission and completion queues in the memory of a guest.
//!
//! Invariants: head and tail are below the number of entries. A completion is posted only into a
//! free entry and waits otherwise. A command is fetched only if its completion has room, so few
//! completions wait (those of event requests).

use super::guest::{Memory, Unreachable};
use crate::entry::{ENTRY_BYTES, Entry};
use crate::subsystem::ENTRIES;
use crate::token::Link;
use std::collections::VecDeque;

/// Size of a completion queue entry in bytes.
pub(super) const COMPLETION_BYTES: usize = 16;

/// Submission queue, whose ring is in the memory of the guest.
pub(super) struct Submissions {
    base: u64,
    entries: u32,
    head: u32,
    tail: u32,
    /// Identifier of the queue's completion queue.
    pub(super) completions: u16,
    /// Link of the queue in the subsystem.
    pub(super) link: Link,
    /// Commands that were fetched and not answered.
    pub(super) under_way: u32,
    /// Identifier of the command that deletes the queue, while commands are in flight.
    pub(super) deleted_by: Option<u16>,
}

impl Submissions {
    /// Empty queue with a ring of `entries` entries at guest address `base`.
    pub(super) const fn new(base: u64, entries: u32, completions: u16, link: Link) -> Self {
        Self {
            base,
            entries,
            head: 0,
            tail: 0,
            completions,
            link,
            under_way: 0,
            deleted_by: None,
        }
    }

    /// Sets the tail from the doorbell. Returns false, and ignores it, if it is not an entry.
    pub(super) fn ring(&mut self, tail: u32) -> bool {
        let fits = tail < self.entries;
        if fits {
            self.tail = tail;
        }
        fits
    }

    /// Index of the next entry to fetch, which completions report to the host.
    pub(super) const fn head(&self) -> u16 {
        self.head as u16
    }

    /// Whether no command may be fetched: [`ENTRIES`] are in flight, or the queue is being
    /// deleted.
    pub(super) const fn is_busy(&self) -> bool {
        self.under_way >= ENTRIES as u32 || self.deleted_by.is_some()
    }

    /// Reads the next entry without consuming it; `None` if the queue is empty.
    pub(super) fn peek(&self, memory: &impl Memory) -> Result<Option<Entry>, Unreachable> {
        if self.head == self.tail {
            return Ok(None);
        }
        let mut bytes = [0; ENTRY_BYTES];
        let at = u64::from(self.head) * ENTRY_BYTES as u64;
        memory.read(self.base.wrapping_add(at), &mut bytes)?;
        Ok(Some(Entry::new(bytes)))
    }

    /// Consumes the next entry.
    pub(super) const fn advance(&mut self) {
        self.head = (self.head + 1) % self.entries;
    }
}

/// A completion queue entry without its phase bit, which the queue adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Posting {
    pub(super) result: u64,
    pub(super) head: u16,
    pub(super) queue: u16,
    pub(super) cid: u16,
    /// The status field, with the phase bit clear.
    pub(super) status: u16,
}

/// Completion queue, with the completions that wait for a free entry.
pub(super) struct Completions {
    base: u64,
    entries: u32,
    head: u32,
    tail: u32,
    phase: bool,
    /// Interrupt vector; `None` if interrupts are disabled.
    pub(super) vector: Option<u16>,
    /// Entries reserved for commands in flight.
    expected: u32,
    waiting: VecDeque<Posting>,
    /// Whether completions were posted since the last interrupt.
    pub(super) news: bool,
    /// Submission queues that use this queue; it cannot be deleted while there are any.
    pub(super) users: u32,
}

impl Completions {
    /// Empty queue with a ring of `entries` entries at guest address `base`.
    pub(super) const fn new(base: u64, entries: u32, vector: Option<u16>) -> Self {
        Self {
            base,
            entries,
            head: 0,
            tail: 0,
            phase: true,
            vector,
            expected: 0,
            waiting: VecDeque::new(),
            news: false,
            users: 0,
        }
    }

    /// Sets the head from the doorbell. Returns false, and ignores it, if it is not an entry or
    /// passes the tail.
    pub(super) fn ring(&mut self, head: u32) -> bool {
        if head >= self.entries {
            return false;
        }
        let read = (head + self.entries - self.head) % self.entries;
        let fits = read <= self.posted();
        if fits {
            self.head = head;
        }
        fits
    }

    /// Posted entries that the host has not consumed.
    const fn posted(&self) -> u32 {
        (self.tail + self.entries - self.head) % self.entries
    }

    /// Free entries. One entry always stays unused, to tell a full queue from an empty one.
    const fn free(&self) -> u32 {
        self.entries - 1 - self.posted()
    }

    /// Whether one more completion has a free entry, besides reserved and waiting ones.
    pub(super) fn has_room(&self) -> bool {
        self.free() > self.expected + self.waiting.len() as u32
    }

    /// Reserves an entry for a fetched command.
    pub(super) const fn expect(&mut self) {
        self.expected += 1;
    }

    /// Releases the reservation of a command that is answered.
    pub(super) const fn come(&mut self) {
        self.expected = self.expected.saturating_sub(1);
    }

    /// Queues a completion; [`Self::flush`] posts it.
    pub(super) fn post(&mut self, posting: Posting) {
        self.waiting.push_back(posting);
    }

    /// Posts waiting completions to the guest's memory while entries are free.
    pub(super) fn flush(&mut self, memory: &impl Memory) -> Result<(), Unreachable> {
        while self.free() > 0
            && let Some(posting) = self.waiting.pop_front()
        {
            let at = u64::from(self.tail) * COMPLETION_BYTES as u64;
            put(memory, self.base.wrapping_add(at), &posting, self.phase)?;
            self.tail += 1;
            if self.tail == self.entries {
                (self.tail, self.phase) = (0, !self.phase);
            }
            self.news = true;
        }
        Ok(())
    }
}

/// Writes an entry. The last dword has the phase bit, which makes the entry valid, so it is
/// written after the rest.
//= nvme-2.1 4.2
fn put(memory: &impl Memory, at: u64, posting: &Posting, phase: bool) -> Result<(), Unreachable> {
    let mut bytes = [0; COMPLETION_BYTES];
    bytes[..8].copy_from_slice(&posting.result.to_le_bytes());
    bytes[8..10].copy_from_slice(&posting.head.to_le_bytes());
    bytes[10..12].copy_from_slice(&posting.queue.to_le_bytes());
    bytes[12..14].copy_from_slice(&posting.cid.to_le_bytes());
    let status = posting.status | u16::from(phase);
    bytes[14..].copy_from_slice(&status.to_le_bytes());
    memory.write(at, &bytes[..12])?;
    memory.write(at.wrapping_add(12), &bytes[12..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::RefCell;

    struct Row(RefCell<Vec<u8>>);

    impl Memory for Row {
        fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Unreachable> {
            let at = at as usize;
            into.copy_from_slice(&self.0.borrow()[at..at + into.len()]);
            Ok(())
        }

        fn write(&self, at: u64, from: &[u8]) -> Result<(), Unreachable> {
            let at = at as usize;
            self.0.borrow_mut()[at..at + from.len()].copy_from_slice(from);
            Ok(())
        }
    }

    fn posting(cid: u16) -> Posting {
        Posting {
            result: 0,
            head: 0,
            queue: 1,
            cid,
            status: 0,
        }
    }

    proptest! {
        /// A host that polls the phase bit sees every completion once and in order, for any
        /// pattern of reads; none is overwritten before it is read.
        //= nvme-2.1 4.2
        #[test]
        fn a_host_sees_every_completion_once(
            entries in 2_u32..6,
            reads in prop::collection::vec(0_usize..4, 1..60),
        ) {
            let row = Row(RefCell::new(vec![0; 16 * entries as usize]));
            let mut queue = Completions::new(0, entries, None);
            let (mut posted, mut seen) = (0_u16, 0_u16);
            let (mut head, mut phase) = (0_usize, 1_u8);
            let steps = reads.into_iter().map(|most| (true, most));
            for (posts, most) in steps.chain([(false, 6); 60]) {
                if posts {
                    queue.post(posting(posted));
                    posted += 1;
                }
                queue.flush(&row).expect("a row");
                for _ in 0..most {
                    let own = row.0.borrow()[head * 16..head * 16 + 16].to_vec();
                    if own[14] & 1 != phase {
                        break;
                    }
                    prop_assert_eq!(u16::from_le_bytes([own[12], own[13]]), seen);
                    seen += 1;
                    head = (head + 1) % entries as usize;
                    phase ^= u8::from(head == 0);
                }
                prop_assert!(queue.ring(head as u32));
                queue.flush(&row).expect("a row");
            }
            // In the end the host has seen all completions.
            prop_assert_eq!(seen, posted);
        }
    }

    #[test]
    fn doorbells_that_can_not_be_are_not_heard() {
        let mut queue = Completions::new(0, 4, None);
        let row = Row(RefCell::new(vec![0; 64]));
        assert!(!queue.ring(1), "nothing was posted");
        assert!(!queue.ring(4) && !queue.ring(u32::MAX - 4));
        (0..9).for_each(|cid| queue.post(posting(cid)));
        queue.flush(&row).expect("a row");
        assert!(!queue.has_room() && queue.ring(3) && !queue.ring(2));
        let mut commands = Submissions::new(0, 4, 0, Link(1));
        assert!(commands.ring(3) && !commands.ring(4));
    }

    #[test]
    fn commands_are_taken_as_their_completions_have_room() {
        let mut queue = Completions::new(0, 4, None);
        let mut taken = 0;
        while queue.has_room() {
            queue.expect();
            taken += 1;
        }
        assert_eq!(taken, 3);
        queue.come();
        assert!(queue.has_room());
        queue.post(posting(0));
        assert!(!queue.has_room(), "it waits to be posted");
    }
}
