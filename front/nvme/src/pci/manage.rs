//! Creation and deletion of I/O queues.
//!
//! Invariants: the completion queue of a submission queue exists and cannot be deleted before
//! it. A submission queue is deleted once none of its commands is in flight.

use super::device::Device;
use super::pointer::PAGE;
use super::queues::{Completions, Submissions};
use super::registers::VECTORS;
use crate::backend::Backend;
use crate::entry::Entry;
use crate::status::Status;
use crate::subsystem::{ENTRIES, QUEUES};
use units::layout::Field;

/// PRP entry 1: address of the queue's ring.
const BASE: Field<u64> = Field::at(24);

/// Fields of the Create I/O Submission Queue and Create I/O Completion Queue commands.
struct Made {
    queue: u16,
    entries: u32,
    base: u64,
    /// Upper half of dword 11: interrupt vector or completion queue.
    names: u16,
    /// Bit 1 of dword 11.
    flag: bool,
}

impl Made {
    /// Decodes the fields and checks the rules common to both kinds of queues.
    //= nvme-pcie 4.1
    fn parse(entry: &Entry) -> Result<Self, Status> {
        let (tenth, eleventh) = (entry.dword(10), entry.dword(11));
        let made = Self {
            queue: tenth.word(0),
            entries: u32::from(tenth.word(16)) + 1,
            base: BASE.get(entry.bytes()),
            names: eleventh.word(16),
            flag: eleventh.is_set(1),
        };
        if !(1..=QUEUES).contains(&made.queue) {
            return Err(Status::InvalidQueue);
        }
        if !(2..=u32::from(ENTRIES)).contains(&made.entries) {
            return Err(Status::InvalidQueueSize);
        }
        // PC (physically contiguous): the drive supports no scattered rings.
        if !eleventh.is_set(0) {
            return Err(Status::InvalidField);
        }
        let aligned = made.base.is_multiple_of(PAGE);
        aligned.then_some(made).ok_or(Status::PrpOffset)
    }
}

impl<B: Backend> Device<B> {
    /// Executes an admin command on queues; the outer `None` means another kind of command. The
    /// inner value is the result, or `None` if a deletion waits for commands in flight.
    pub(super) fn manage(&mut self, entry: &Entry) -> Option<Option<Result<u64, Status>>> {
        let queue = entry.dword(10).word(0);
        let ended = match entry.opcode() {
            0x00 => match self.delete_submissions(queue, entry.cid()) {
                Ok(true) => Ok(()),
                Ok(false) => return Some(None),
                Err(status) => Err(status),
            },
            0x01 => self.make_submissions(entry),
            0x04 => self.delete_completions(queue),
            0x05 => self.make_completions(entry),
            _ => return None,
        };
        Some(Some(ended.map(|()| 0)))
    }

    //= nvme-pcie 4.1.1
    fn make_completions(&mut self, entry: &Entry) -> Result<(), Status> {
        let made = Made::parse(entry)?;
        if self.completions.contains_key(&made.queue) {
            return Err(Status::InvalidQueue);
        }
        let vector = made.flag.then_some(made.names);
        if vector.is_some_and(|vector| usize::from(vector) >= VECTORS) {
            return Err(Status::InvalidVector);
        }
        self.forget_head(made.queue);
        let queue = Completions::new(made.base, made.entries, vector);
        self.completions.insert(made.queue, queue);
        Ok(())
    }

    //= nvme-pcie 4.1.2
    fn make_submissions(&mut self, entry: &Entry) -> Result<(), Status> {
        let made = Made::parse(entry)?;
        if self.submissions.contains_key(&made.queue) {
            return Err(Status::InvalidQueue);
        }
        let there = made.names > 0 && self.completions.contains_key(&made.names);
        if !there {
            return Err(Status::InvalidCompletionQueue);
        }
        let link = self.seat(made.queue)?;
        self.forget_tail(made.queue);
        let queue = Submissions::new(made.base, made.entries, made.names, link);
        self.submissions.insert(made.queue, queue);
        if let Some(completions) = self.completions.get_mut(&made.names) {
            completions.users += 1;
        }
        Ok(())
    }

    /// Deletes a submission queue. Returns false if it waits for commands in flight; `cid` is
    /// then answered later.
    //= nvme-pcie 4.1.4
    fn delete_submissions(&mut self, queue: u16, cid: u16) -> Result<bool, Status> {
        let own = self.submissions.get_mut(&queue).filter(|_| queue > 0);
        let own = own.ok_or(Status::InvalidQueue)?;
        if own.deleted_by.is_some() {
            return Err(Status::InvalidQueue);
        }
        if own.under_way > 0 {
            own.deleted_by = Some(cid);
            return Ok(false);
        }
        self.delete_now(queue);
        Ok(true)
    }

    /// Deletes a submission queue that has no commands in flight.
    pub(super) fn delete_now(&mut self, queue: u16) {
        let Some(own) = self.submissions.remove(&queue) else {
            return;
        };
        self.unseat(own.link);
        if let Some(completions) = self.completions.get_mut(&own.completions) {
            completions.users -= 1;
        }
    }

    //= nvme-pcie 4.1.3
    fn delete_completions(&mut self, queue: u16) -> Result<(), Status> {
        let own = self.completions.get(&queue).filter(|_| queue > 0);
        if own.ok_or(Status::InvalidQueue)?.users > 0 {
            return Err(Status::InvalidQueueDeletion);
        }
        self.completions.remove(&queue);
        Ok(())
    }
}
