//! A queue in the memory of a machine.
//!
//! Invariants: what is used is told in the order in which it was done, and the machine is
//! interrupted once for all that was done together; a queue that has stopped touches no
//! memory any more; what there is no room for stays in the queue.

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

/// A queue that runs.
pub(crate) struct Queue {
    desk: Desk<Device>,
    caller: Rc<Caller>,
    /// Told when the last request is done of a queue that is to stop, and when it is broken.
    session: Rc<Caller>,
    budget: Rc<Budget>,
    memory: RefCell<Rc<Memory>>,
    place: Place,
    kick: OwnedFd,
    call: RefCell<Option<OwnedFd>>,
    /// Whether every write is durable when it is answered.
    through: bool,
    /// Requests that were taken, and those that were told as used.
    taken: Cell<u16>,
    told: Cell<u16>,
    /// Done, and not told.
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
        // No part reaches beyond what a number can hold.
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

    /// Interrupts by another file from now on.
    pub(crate) fn set_call(&self, call: Option<OwnedFd>) {
        if let Some(call) = &call {
            // A counter that is full need not be waited for.
            let _ = ioctl_fionbio(call, true);
        }
        *self.call.borrow_mut() = call;
    }

    /// The machine has other memory from now on, with the queue where it was.
    pub(crate) fn set_memory(&self, memory: &Rc<Memory>) {
        *self.memory.borrow_mut() = Rc::clone(memory);
    }

    /// Takes no more; gives how many requests were taken once all are answered.
    pub(crate) fn stop(&self) -> Option<u16> {
        self.stopping.set(true);
        self.caller.call();
        let is_over = self.open.get() == 0 && self.done.borrow().is_empty();
        is_over.then(|| self.taken.get())
    }

    /// Whether it has stopped because what it was told makes no sense.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.get()
    }

    /// Counts kicks anew. The file is the machine's: nothing it does to it may make the thread
    /// wait.
    fn forget_kicks(&self) -> Result<(), Bad> {
        let mut count = [0; 8];
        let slices = &mut [IoSliceMut::new(&mut count)];
        let here = u64::MAX;
        match preadv2(&self.kick, slices, here, ReadWriteFlags::NOWAIT) {
            // There is nobody any more who could kick.
            Ok(0) => Err(Bad),
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(_) => Err(Bad),
        }
    }

    /// Takes what the machine has put in, as far as there is room.
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
            // An invalid request is taken, and is the last.
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

    /// The descriptors of a chain, which may be in a table of their own.
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

    /// Tells the machine what is done, and interrupts it if it wants that.
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
            // A counter that is full interrupts as well.
            let _ = write(call, &1_u64.to_ne_bytes());
        }
        Ok(())
    }
}

/// A request that is under way: dropped, it is answered or never will be.
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

/// Listens to the kicks of a queue.
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
