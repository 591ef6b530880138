//! Thread of a guest's controller: fetches commands from the guest's memory, submits them to the
//! subsystem, and writes data and completions back.
//!
//! Invariants: a fetched command is answered once, or dropped by a reset. A reset is complete
//! when no earlier command is in flight. Data of commands in flight hold at most [`HELD_MAX`]
//! bytes, or belong to a single command.

use super::guest::Memory;
use super::pointer::{Piece, pieces};
use super::queues::{Completions, Posting, Submissions};
use super::registers::State;
use super::session::Shared;
use crate::backend::Backend;
use crate::command::{QueueKind, data_len};
use crate::entry::{Direction, Entry};
use crate::namespace::Watch;
use crate::status::Status;
use crate::subsystem::{Subsystem, TRANSFER};
use crate::token::{Completion, Effect, Link, Token};
use engine::Handle;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

/// Most bytes of data of all commands in flight; a single command may exceed it.
const HELD_MAX: u64 = 16 << 20;
/// Events handled in a row before doorbells are read and completions posted.
const BATCH: usize = 64;
/// Opcode of Asynchronous Event Request, which may stay in flight for ever.
const AWAIT_EVENT: u8 = 0x0c;
/// Offset of the property Controller Configuration (CC).
const CONFIGURATION: u32 = 0x14;

/// Event for the thread of a controller.
pub(super) enum Event {
    /// The guest has written a register or a doorbell.
    Kick,
    /// The subsystem has completed the command with this number.
    Done(u64, Completion),
    /// The connection has ended.
    End,
}

/// Command in flight: submitted to the subsystem and not completed.
struct Open {
    queue: u16,
    /// Destination of data for the guest; empty if the command returns none.
    pieces: Vec<Piece>,
    held: u64,
    /// Whether an entry of the completion queue is reserved for the command.
    expected: bool,
    /// Whether a reset has dropped the command: it is not answered.
    stale: bool,
}

/// State of the controller between the requests of its guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Off,
    Starting,
    Ready,
    ShuttingDown,
    ShutDown,
    /// Being reset. True once the subsystem's controller is reset, and only commands in flight
    /// are left.
    Stopping(bool),
    Failed,
}

/// Controller of a guest, run by its own thread.
pub(super) struct Device<B> {
    shared: Arc<Shared>,
    subsystem: Handle<Subsystem<B>>,
    inbox: Receiver<Event>,
    tell: Sender<Event>,
    /// Link of the admin queue in the subsystem.
    admin: Link,
    formats: Vec<Watch>,
    phase: Phase,
    /// Resets begun so far.
    resets: u64,
    pub(super) submissions: BTreeMap<u16, Submissions>,
    pub(super) completions: BTreeMap<u16, Completions>,
    open: BTreeMap<u64, Open>,
    /// Number of the command that changes the subsystem's controller, while in flight.
    change: Option<u64>,
    next: u64,
    held: u64,
}

impl<B: Backend> Device<B> {
    /// Adds a controller to `subsystem`, for the guest of `shared`.
    ///
    /// # Errors
    /// If the drive has stopped, or has its maximum number of controllers.
    pub(super) fn plug(
        shared: Arc<Shared>,
        subsystem: Handle<Subsystem<B>>,
        inbox: Receiver<Event>,
        tell: Sender<Event>,
    ) -> Result<Self, Status> {
        let broken = Arc::clone(&shared);
        let hang_up = Box::new(move || broken.hang_up());
        let plugged =
            subsystem.ask(|subsystem: Rc<Subsystem<B>>| async move { subsystem.plug(hang_up) });
        let (admin, formats) = plugged.unwrap_or(Err(Status::InternalError))?;
        Ok(Self {
            shared,
            subsystem,
            inbox,
            tell,
            admin,
            formats,
            phase: Phase::Off,
            resets: 0,
            submissions: BTreeMap::new(),
            completions: BTreeMap::new(),
            open: BTreeMap::new(),
            change: None,
            next: 0,
            held: 0,
        })
    }

    /// Handles events until the connection ends, then removes the controller.
    pub(super) fn run(mut self) {
        while let Ok(event) = self.inbox.recv() {
            let mut next = Some(event);
            for _ in 0..BATCH {
                match next {
                    Some(Event::End) => return self.unplug(),
                    Some(event) => self.take(event),
                    None => break,
                }
                next = self.inbox.try_recv().ok();
            }
            match next {
                Some(Event::End) => return self.unplug(),
                Some(event) => self.take(event),
                None => {}
            }
            self.settle();
        }
    }

    fn unplug(&mut self) {
        let links: Vec<Link> = self.submissions.values().map(|queue| queue.link).collect();
        links.into_iter().for_each(|link| self.leave(link));
        self.leave(self.admin);
        self.shared.settle(u64::MAX);
    }

    fn leave(&self, link: Link) {
        self.subsystem
            .submit(move |subsystem: Rc<Subsystem<B>>| async move { subsystem.leave(link) });
    }

    /// Adds an I/O queue to the subsystem's controller.
    ///
    /// # Errors
    /// If the subsystem refuses the queue or the drive has stopped.
    pub(super) fn seat(&self, queue: u16) -> Result<Link, Status> {
        let admin = self.admin;
        let asked = self
            .subsystem
            .ask(
                move |subsystem: Rc<Subsystem<B>>| async move { subsystem.add_queue(admin, queue) },
            );
        asked.unwrap_or(Err(Status::InternalError))
    }

    /// Removes an I/O queue from the subsystem's controller; the admin queue stays.
    pub(super) fn unseat(&self, link: Link) {
        if link != self.admin {
            self.leave(link);
        }
    }

    /// Resets the tail doorbell of a new submission queue to 0.
    pub(super) fn forget_tail(&self, queue: u16) {
        self.shared.forget_tail(queue);
    }

    /// Resets the head doorbell of a new completion queue to 0.
    pub(super) fn forget_head(&self, queue: u16) {
        self.shared.forget_head(queue);
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Kick => self.shared.heard(),
            Event::Done(number, done) if self.change == Some(number) => self.changed(&done),
            Event::Done(number, done) => self.done(number, &done),
            Event::End => {}
        }
    }

    /// Makes all progress that is possible now: state changes, commands and completions.
    fn settle(&mut self) {
        self.control();
        self.hear();
        while self.phase == Phase::Ready && self.fetch() {}
        self.deliver();
    }

    /// Begins a reset, start or shutdown that the guest requests, unless one is in progress.
    fn control(&mut self) {
        let wanted = self.shared.registers().wanted();
        let busy = self.change.is_some() || matches!(self.phase, Phase::Stopping(_));
        if busy {
            return;
        }
        if wanted.resets != self.resets {
            self.resets = wanted.resets;
            self.forget();
            self.phase = Phase::Stopping(false);
            return self.change_to(0);
        }
        match self.phase {
            Phase::Off if wanted.enabled() => self.start(wanted.configuration),
            Phase::Ready if wanted.shut_down() => {
                self.phase = Phase::ShuttingDown;
                self.change_to(wanted.configuration);
            }
            _ => {}
        }
    }

    //= nvme-2.1 3.5.1
    fn start(&mut self, configuration: u32) {
        let queues = self.shared.registers().admin_queues();
        let Some(queues) = queues else {
            return self.fail();
        };
        self.forget_tail(0);
        self.forget_head(0);
        let submissions =
            Submissions::new(queues.submission, queues.submission_entries, 0, self.admin);
        let mut completions =
            Completions::new(queues.completion, queues.completion_entries, Some(0));
        completions.users = 1;
        self.submissions.insert(0, submissions);
        self.completions.insert(0, completions);
        self.phase = Phase::Starting;
        self.change_to(configuration);
    }

    /// Drops all queues; commands in flight will not be answered.
    fn forget(&mut self) {
        for queue in std::mem::take(&mut self.submissions).into_values() {
            self.unseat(queue.link);
        }
        self.completions.clear();
        self.open.values_mut().for_each(|open| open.stale = true);
    }

    /// Sets the fatal state, which only a reset ends. A session that waits for a reset is
    /// released, because the reset has failed.
    fn fail(&mut self) {
        self.forget();
        self.phase = Phase::Failed;
        self.shared.registers().set_state(State::Failed);
        self.shared.settle(self.resets);
    }

    /// Sets CC of the subsystem's controller to `configuration`; [`Self::changed`] continues.
    fn change_to(&mut self, configuration: u32) {
        let entry = Entry::property_set(CONFIGURATION, configuration.into());
        let number = self.submit(self.admin, entry, Vec::new(), 0);
        self.change = Some(number);
    }

    /// Completes a change of the subsystem's controller.
    fn changed(&mut self, done: &Completion) {
        self.change = None;
        if done.status.is_some() {
            return self.fail();
        }
        let (phase, state) = match self.phase {
            Phase::Starting => (Phase::Ready, State::Ready),
            Phase::ShuttingDown => (Phase::ShutDown, State::ShutDown),
            Phase::Stopping(_) => {
                self.phase = Phase::Stopping(true);
                return self.stopped();
            }
            other => {
                self.phase = other;
                return;
            }
        };
        self.phase = phase;
        self.shared.registers().set_state(state);
    }

    /// Completes a reset if no earlier command is in flight.
    //= nvme-2.1 3.7.2
    fn stopped(&mut self) {
        if self.phase == Phase::Stopping(true) && self.open.is_empty() {
            self.phase = Phase::Off;
            self.shared.registers().set_state(State::Off);
            self.shared.settle(self.resets);
        }
    }

    /// Reads the doorbells of all queues; invalid values are ignored.
    fn hear(&mut self) {
        for (number, queue) in &mut self.submissions {
            queue.ring(self.shared.tail(*number));
        }
        for (number, queue) in &mut self.completions {
            queue.ring(self.shared.head(*number));
        }
    }

    /// Fetches at most one command from each submission queue; returns whether any was fetched.
    fn fetch(&mut self) -> bool {
        let queues: Vec<u16> = self.submissions.keys().copied().collect();
        let mut any = false;
        for queue in queues {
            any |= self.fetch_of(queue);
        }
        any
    }

    fn fetch_of(&mut self, queue: u16) -> bool {
        let (Some(own), shared) = (self.submissions.get_mut(&queue), &self.shared) else {
            return false;
        };
        if own.is_busy() {
            return false;
        }
        let Ok(found) = own.peek(&*shared.guest()) else {
            self.fail();
            return false;
        };
        let Some(entry) = found else { return false };
        let is_event = queue == 0 && entry.opcode() == AWAIT_EVENT;
        let len = data_len(&entry, kind(queue), |nsid| block(&self.formats, nsid));
        let fits = self.held == 0 || self.held.saturating_add(len) <= HELD_MAX;
        let Some(completions) = self.completions.get_mut(&own.completions) else {
            return false;
        };
        let may_wait = is_event || completions.has_room() && fits;
        if !may_wait {
            return false;
        }
        own.advance();
        own.under_way += 1;
        if !is_event {
            completions.expect();
        }
        let begun = self.begin(queue, &entry, len, !is_event);
        if let Some(ended) = begun {
            self.answer(queue, entry.cid(), !is_event, ended);
        }
        true
    }

    /// Begins a command that moves `len` bytes. Returns its result if it ended at once, `None`
    /// if it is in flight.
    fn begin(
        &mut self,
        queue: u16,
        entry: &Entry,
        len: u64,
        expected: bool,
    ) -> Option<Result<u64, Status>> {
        // Fabrics commands do not exist on PCIe.
        if entry.is_fabrics() {
            return Some(Err(Status::InvalidOpcode));
        }
        if queue == 0
            && let Some(ended) = self.manage(entry)
        {
            return ended;
        }
        let (pieces, data) = match self.data_of(entry, len) {
            Ok(found) => found,
            Err(status) => return Some(Err(status)),
        };
        let link = self.submissions.get(&queue)?.link;
        let room = if data.is_empty() { len as usize } else { 0 };
        let number = self.submit(link, *entry, data, room);
        self.held += len;
        let open = Open {
            queue,
            pieces,
            held: len,
            expected,
            stale: false,
        };
        self.open.insert(number, open);
        None
    }

    /// Location of a command's data, and the data themselves if the guest sends them.
    fn data_of(&self, entry: &Entry, len: u64) -> Result<(Vec<Piece>, Vec<u8>), Status> {
        if len > TRANSFER as u64 {
            return Err(Status::InvalidField);
        }
        let guest = self.shared.guest();
        let pieces = pieces(entry, len, &*guest)?;
        if entry.direction() != Direction::ToController {
            return Ok((pieces, Vec::new()));
        }
        let mut data = vec![0; len as usize];
        let mut rest = &mut data[..];
        for piece in &pieces {
            let (part, behind) = rest.split_at_mut(piece.len as usize);
            guest.read(piece.at, part)?;
            rest = behind;
        }
        Ok((Vec::new(), data))
    }

    /// Submits a command to the subsystem; returns the number that its [`Event::Done`] will carry.
    fn submit(&mut self, link: Link, entry: Entry, data: Vec<u8>, room: usize) -> u64 {
        let (number, tell) = (self.next, self.tell.clone());
        self.next += 1;
        let token = Token::of(entry.cid(), move |done| {
            // The receiver is gone if the connection has ended.
            let _ = tell.send(Event::Done(number, done));
        });
        self.subsystem.submit(move |subsystem| {
            Subsystem::submit(subsystem, link, entry, data, room, token.here())
        });
        number
    }

    /// Completes command `number`: writes its data to the guest and answers it.
    fn done(&mut self, number: u64, done: &Completion) {
        let Some(open) = self.open.remove(&number) else {
            return;
        };
        self.held -= open.held;
        if open.stale {
            return self.stopped();
        }
        if done.effect == Effect::Lost {
            return self.shared.hang_up();
        }
        let ended = match done.status {
            Some(status) => Err(status),
            None => self.put(&open.pieces, &done.data).map(|()| done.result),
        };
        self.answer(open.queue, done.cid, open.expected, ended);
    }

    /// Writes data to the guest's memory at `pieces`.
    fn put(&self, pieces: &[Piece], mut data: &[u8]) -> Result<(), Status> {
        let guest = self.shared.guest();
        for piece in pieces {
            let (part, rest) = data.split_at(data.len().min(piece.len as usize));
            guest.write(piece.at, part)?;
            data = rest;
        }
        Ok(())
    }

    /// Queues the completion of a command; also completes a deletion of its queue that waited
    /// for the command.
    fn answer(&mut self, queue: u16, cid: u16, expected: bool, ended: Result<u64, Status>) {
        let Some(own) = self.submissions.get_mut(&queue) else {
            return;
        };
        own.under_way -= 1;
        if let Some(completions) = self.completions.get_mut(&own.completions) {
            if expected {
                completions.come();
            }
            completions.post(Posting {
                result: ended.unwrap_or_else(Status::result),
                head: own.head(),
                queue,
                cid,
                status: ended.err().map_or(0, Status::field),
            });
        }
        if own.under_way == 0
            && let Some(by) = own.deleted_by
        {
            self.delete_now(queue);
            self.answer(0, by, true, Ok(0));
        }
    }

    /// Posts completions and raises the interrupt of each queue with new ones. The admin queue
    /// comes last: when the guest sees a queue's deletion complete, it finds the completions of
    /// all commands of that queue.
    //= nvme-pcie 4.1.4
    fn deliver(&mut self) {
        let shared = Arc::clone(&self.shared);
        let guest = shared.guest();
        let mut reached = true;
        for queue in self.completions.values_mut().rev() {
            reached &= queue.flush(&*guest).is_ok();
            let vector = queue.vector.filter(|_| queue.news);
            queue.news = false;
            if let Some(vector) = vector {
                shared.raise(vector.into());
            }
        }
        drop(guest);
        if !reached {
            self.fail();
        }
    }
}

const fn kind(queue: u16) -> QueueKind {
    match queue {
        0 => QueueKind::Admin,
        _ => QueueKind::Io,
    }
}

/// Block size of namespace `nsid` in bytes; `None` if it does not exist.
fn block(formats: &[Watch], nsid: u32) -> Option<u64> {
    let index = nsid.checked_sub(1)?;
    formats.get(index as usize).map(Watch::block)
}
