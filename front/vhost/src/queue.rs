//! Split virtqueue in the memory of a machine.
//!
//! Invariants: completed requests enter the used ring in the order of their completion, and
//! requests that complete together cause one interrupt. A stopped queue accesses no memory of
//! the machine. A request without room in the budget stays in the available ring.

use crate::budget::{Budget, Share};
use crate::memory::{Bad, Memory};
use crate::request::Request;
use crate::wire::{DESCRIPTOR, DESCRIPTORS_MAX, Descriptor, INDIRECT, NEXT, NO_INTERRUPT, u16_at};
use engine::{Caller, Desk, Device, Next, Source};
use rustix::io::{Errno, ReadWriteFlags, ioctl_fionbio, preadv2, write};
use std::cell::{Cell, RefCell};
use std::io::IoSliceMut;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

/// Guest addresses of a queue's rings, and its number of descriptors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) num: u32,
    pub(crate) table: u64,
    pub(crate) avail: u64,
    pub(crate) used: u64,
}

/// State of a running queue.
pub(crate) struct Queue {
    desk: Desk<Device>,
    caller: Rc<Caller>,
    /// Caller of the session: called when a stopping queue has no request in flight any more,
    /// when the queue is broken, and when the drive has lost its power.
    session: Rc<Caller>,
    budget: Rc<Budget>,
    memory: RefCell<Rc<Memory>>,
    place: Place,
    kick: OwnedFd,
    call: RefCell<Option<OwnedFd>>,
    /// Whether writes must be durable before their answer, because the driver cannot flush.
    through: bool,
    /// Index of the next entry in the available ring, and in the used ring; both wrap around.
    taken: Cell<u16>,
    told: Cell<u16>,
    /// Completed requests that are not in the used ring yet: head and bytes written.
    done: RefCell<Vec<(u16, u32)>>,
    open: Cell<u32>,
    stopping: Cell<bool>,
    /// Whether the machine has put an invalid entry into the queue.
    broken: Cell<bool>,
}

/// Parts of a new queue.
pub(crate) struct Parts {
    pub(crate) budget: Rc<Budget>,
    pub(crate) memory: Rc<Memory>,
    pub(crate) place: Place,
    pub(crate) kick: OwnedFd,
    pub(crate) call: Option<OwnedFd>,
    pub(crate) base: u16,
    pub(crate) through: bool,
}

impl Queue {
    pub(crate) fn new(
        desk: Desk<Device>,
        caller: Rc<Caller>,
        session: Rc<Caller>,
        parts: Parts,
    ) -> Result<Self, Bad> {
        let Place {
            num,
            table,
            avail,
            used,
        } = parts.place;
        // Addresses in the lower half cannot overflow when an offset in the ring is added.
        let far = [table, avail, used].iter().any(|&at| at > u64::MAX / 2);
        if !num.is_power_of_two() || num > DESCRIPTORS_MAX || far {
            return Err(Bad);
        }
        let mut told = [0; 2];
        parts.memory.read(used + 2, &mut told)?;
        let queue = Self {
            desk,
            caller,
            session,
            budget: parts.budget,
            memory: RefCell::new(parts.memory),
            place: parts.place,
            kick: parts.kick,
            call: RefCell::default(),
            through: parts.through,
            taken: Cell::new(parts.base),
            told: Cell::new(u16::from_le_bytes(told)),
            done: RefCell::default(),
            open: Cell::new(0),
            stopping: Cell::new(false),
            broken: Cell::new(false),
        };
        queue.set_call(parts.call);
        Ok(queue)
    }

    /// Sets the file that interrupts the machine; `None` for no interrupts.
    pub(crate) fn set_call(&self, call: Option<OwnedFd>) {
        if let Some(call) = &call {
            // Nonblocking, so that a full counter does not block the thread of the drive.
            let _ = ioctl_fionbio(call, true);
        }
        *self.call.borrow_mut() = call;
    }

    /// Replaces the memory map, for the rings and for requests taken from now on. The rings keep
    /// their guest addresses.
    pub(crate) fn set_memory(&self, memory: &Rc<Memory>) {
        *self.memory.borrow_mut() = Rc::clone(memory);
    }

    /// Stops taking requests. Returns the index of the next available entry once all taken
    /// requests are in the used ring, else `None`.
    pub(crate) fn stop(&self) -> Option<u16> {
        self.stopping.set(true);
        self.caller.call();
        let is_over = self.open.get() == 0 && self.done.borrow().is_empty();
        is_over.then(|| self.taken.get())
    }

    /// Whether the queue has stopped because of invalid input or a lost kick file.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.get()
    }

    /// Resets the counter of kicks. The machine controls the file, so the read must not block.
    fn forget_kicks(&self) -> Result<(), Bad> {
        let mut count = [0; 8];
        let slices = &mut [IoSliceMut::new(&mut count)];
        let here = u64::MAX;
        match preadv2(&self.kick, slices, here, ReadWriteFlags::NOWAIT) {
            // End of file: the other end is closed, and no kick can arrive.
            Ok(0) => Err(Bad),
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(_) => Err(Bad),
        }
    }

    /// Takes and begins new requests of the available ring while the budget has room.
    ///
    /// # Errors
    /// If the ring or a request is invalid.
    fn take(self: &Rc<Self>) -> Result<(), Bad> {
        let (num, memory) = (self.place.num, Rc::clone(&self.memory.borrow()));
        let mut index = [0; 2];
        memory.read(self.place.avail + 2, &mut index)?;
        let index = u16::from_le_bytes(index);
        let count = index.wrapping_sub(self.taken.get());
        if u32::from(count) > num {
            return Err(Bad);
        }
        if count == 0 {
            return Ok(());
        }
        let mut table = vec![0; num as usize * DESCRIPTOR];
        memory.read(self.place.table, &mut table)?;
        let mut ring = vec![0; num as usize * 2];
        memory.read(self.place.avail + 4, &mut ring)?;
        for _ in 0..count {
            let taken = self.taken.get();
            let head = u16_at(&ring, (u32::from(taken) % num) as usize * 2);
            let parsed = self.chain(&memory, &table, head);
            let parsed = parsed.and_then(|chain| Request::parse(&memory, head, &chain));
            // An invalid request is consumed and ends the queue.
            let holds = parsed.as_ref().map_or(0, Request::holds);
            let Some(share) = self.budget.take(holds, &self.caller) else {
                return Ok(());
            };
            self.taken.set(taken.wrapping_add(1));
            self.begin(parsed?, share, &memory);
        }
        Ok(())
    }

    fn begin(self: &Rc<Self>, request: Request, share: Share, memory: &Rc<Memory>) {
        self.open.set(self.open.get() + 1);
        let (memory, device) = (Rc::clone(memory), Rc::clone(self.desk.value()));
        let answer = Answer(Rc::clone(self));
        let through = self.through;
        self.desk.begin(async move {
            match request.carry_out(&device, &memory, through).await {
                Some(written) => answer.0.done.borrow_mut().push((request.head, written)),
                None => {
                    answer.0.budget.lose();
                    answer.0.session.call();
                }
            }
            drop(share);
        });
    }

    /// Descriptors of the chain that begins at `head`, which may refer to an indirect table.
    fn chain(&self, memory: &Memory, table: &[u8], head: u16) -> Result<Vec<Descriptor>, Bad> {
        let first = descriptor(table, head)?;
        if first.flags & INDIRECT == 0 {
            return chain(table, head);
        }
        let len = first.len as usize;
        let most = self.place.num as usize * DESCRIPTOR;
        if !len.is_multiple_of(DESCRIPTOR) || len > most.max(1024 * DESCRIPTOR) {
            return Err(Bad);
        }
        let mut own = vec![0; len];
        memory.read(first.address, &mut own)?;
        chain(&own, 0)
    }

    /// Puts completed requests into the used ring, and interrupts the machine unless it has
    /// disabled interrupts.
    fn tell(&self) -> Result<(), Bad> {
        let done = self.done.take();
        if done.is_empty() {
            return Ok(());
        }
        let (used, memory) = (self.place.used, self.memory.borrow());
        for (head, written) in done {
            let told = self.told.get();
            self.told.set(told.wrapping_add(1));
            let mut element = [0; 8];
            element[..4].copy_from_slice(&u32::from(head).to_le_bytes());
            element[4..].copy_from_slice(&written.to_le_bytes());
            let at = u64::from(u32::from(told) % self.place.num) * 8;
            memory.write(used + 4 + at, &element)?;
        }
        memory.write(used + 2, &self.told.get().to_le_bytes())?;
        let mut flags = [0; 2];
        memory.read(self.place.avail, &mut flags)?;
        if let (0, Some(call)) = (u16_at(&flags, 0) & NO_INTERRUPT, &*self.call.borrow()) {
            // The write fails if the counter is full, and then an interrupt is pending already.
            let _ = write(call, &1_u64.to_ne_bytes());
        }
        Ok(())
    }
}

/// Request in flight of a queue; dropping it ends the request, answered or not.
struct Answer(Rc<Queue>);

impl Drop for Answer {
    fn drop(&mut self) {
        let queue = &self.0;
        queue.open.set(queue.open.get() - 1);
        queue.caller.call();
        if queue.stopping.get() {
            queue.session.call();
        }
    }
}

/// Event source that polls the kick file of a queue.
pub(crate) struct Ear(pub(crate) Rc<Queue>);

impl Source for Ear {
    fn file(&self) -> BorrowedFd<'_> {
        self.0.kick.as_fd()
    }

    fn turn(&self, _has_come: bool) -> Next {
        let queue = &self.0;
        let taken = match queue.stopping.get() {
            true => Ok(()),
            false => queue.forget_kicks().and_then(|()| queue.take()),
        };
        if queue.tell().and(taken).is_err() {
            queue.stopping.set(true);
            queue.broken.set(true);
            queue.session.call();
        }
        if queue.stopping.get() && queue.open.get() == 0 {
            queue.session.call();
            return Next::Leave;
        }
        Next::Wait {
            read: !queue.stopping.get(),
            write: false,
        }
    }
}

fn descriptor(table: &[u8], index: u16) -> Result<Descriptor, Bad> {
    let at = usize::from(index) * DESCRIPTOR;
    let bytes = table.get(at..).and_then(|table| table.first_chunk());
    bytes.map(Descriptor::parse).ok_or(Bad)
}

fn chain(table: &[u8], head: u16) -> Result<Vec<Descriptor>, Bad> {
    let (mut chain, mut index) = (Vec::new(), head);
    loop {
        let part = descriptor(table, index)?;
        chain.push(part);
        if part.flags & INDIRECT != 0 || chain.len() > table.len() / DESCRIPTOR {
            return Err(Bad);
        }
        if part.flags & NEXT == 0 {
            return Ok(chain);
        }
        index = part.next;
    }
}
