//! Session of one machine: the messages that set up its memory and its queues.
//!
//! Invariants: a message is handled once it is complete. Files that come with a message are
//! closed if the message does not use them. Invalid input ends the session and nothing else; an
//! invalid message with [`NEED_REPLY`] is answered with an error instead.

use crate::budget::Budget;
use crate::memory::{Bad, Memory, is_event};
use crate::queue::{Ear, Parts, Place, Queue};
use crate::wire::{
    CONFIG, FEATURES, FLUSHES, HEAD, NEED_REPLY, NO_FILE, PAYLOAD_MAX, PROTOCOL, PROTOCOL_FEATURES,
    QUEUES, REGIONS_MAX, REPLY, VERSION, config, say, u32_at, u64_at,
};
use engine::{Caller, Desk, Device, Next, Source};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, Shutdown, recvmsg, shutdown,
};
use std::cell::{Cell, RefCell};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

/// Addresses of a queue's rings in the machine's process.
#[derive(Clone, Copy, Default)]
struct Addresses {
    table: u64,
    used: u64,
    avail: u64,
}

/// Settings of a queue that the machine has sent so far, and the queue once it runs.
#[derive(Default)]
struct Told {
    num: u32,
    addresses: Addresses,
    base: u16,
    kick: Option<OwnedFd>,
    call: Option<OwnedFd>,
    enabled: bool,
    running: Option<Rc<Queue>>,
}

/// State set by the messages of a machine.
#[derive(Default)]
struct State {
    features: u64,
    protocol: u64,
    memory: Option<Rc<Memory>>,
    queues: Vec<Told>,
    /// Received part of an incomplete message, and its files.
    bytes: Vec<u8>,
    files: Vec<OwnedFd>,
    /// Queue of a pending `GET_VRING_BASE`, which is answered once the queue has stopped. No
    /// message is handled before.
    stopping: Option<u32>,
}

/// Result of a message.
enum Said {
    Nothing,
    Number(u64),
    Bytes(Vec<u8>),
    /// The answer is sent when a queue has stopped.
    Later,
}

/// Connection of one machine.
pub(crate) struct Session {
    socket: OwnedFd,
    desk: Desk<Device>,
    caller: Rc<Caller>,
    budget: Rc<Budget>,
    state: RefCell<State>,
    over: Cell<bool>,
}

impl Session {
    pub(crate) fn new(socket: OwnedFd, desk: Desk<Device>, caller: Rc<Caller>) -> Self {
        let queues = (0..QUEUES).map(|_| Told::default()).collect();
        Self {
            socket,
            desk,
            caller,
            budget: Rc::default(),
            state: RefCell::new(State {
                queues,
                ..State::default()
            }),
            over: Cell::new(false),
        }
    }

    /// Whether the session has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.over.get()
    }

    /// Whether a queue has stopped because of invalid input.
    fn is_broken(&self) -> bool {
        let state = self.state.borrow();
        let mut running = state.queues.iter().filter_map(|told| told.running.as_ref());
        running.any(|queue| queue.is_broken())
    }

    /// Ends the session; its source then closes the connection.
    pub(crate) fn end(&self) {
        self.over.set(true);
        self.caller.call();
    }

    /// Receives and handles messages until the socket is empty or a queue has to stop first.
    fn take(&self) -> Result<(), Bad> {
        loop {
            let mut state = self.state.borrow_mut();
            if state.stopping.is_some() {
                return Ok(());
            }
            let need = match state.bytes.len() {
                len if len < HEAD => HEAD,
                _ => HEAD + u32_at(&state.bytes, 8) as usize,
            };
            if need > HEAD + PAYLOAD_MAX {
                return Err(Bad);
            }
            if need == state.bytes.len() {
                let (bytes, files) = (
                    std::mem::take(&mut state.bytes),
                    std::mem::take(&mut state.files),
                );
                drop(state);
                self.message(&bytes, files)?;
                continue;
            }
            if !receive(&self.socket, need, &mut state)? {
                return Ok(());
            }
        }
    }

    fn message(&self, bytes: &[u8], files: Vec<OwnedFd>) -> Result<(), Bad> {
        let (kind, flags) = (u32_at(bytes, 0), u32_at(bytes, 4));
        if flags & 3 != VERSION {
            return Err(Bad);
        }
        let said = self.carry_out(kind, &bytes[HEAD..], files);
        let wants = flags & NEED_REPLY != 0 && self.state.borrow().protocol & 1 << 3 != 0;
        match said {
            Ok(Said::Number(number)) => self.reply(kind, &number.to_le_bytes()),
            Ok(Said::Bytes(bytes)) => self.reply(kind, &bytes),
            Ok(Said::Nothing) if wants => self.reply(kind, &0_u64.to_le_bytes()),
            Ok(Said::Nothing | Said::Later) => Ok(()),
            Err(Bad) if wants => self.reply(kind, &1_u64.to_le_bytes()),
            Err(Bad) => Err(Bad),
        }
    }

    fn reply(&self, kind: u32, payload: &[u8]) -> Result<(), Bad> {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend((VERSION | REPLY).to_le_bytes());
        bytes.extend((payload.len() as u32).to_le_bytes());
        bytes.extend(payload);
        // A reply is small; the buffer is full only if the machine does not receive.
        let written = rustix::io::write(&self.socket, &bytes);
        (written == Ok(bytes.len())).then_some(()).ok_or(Bad)
    }

    fn carry_out(&self, kind: u32, payload: &[u8], mut files: Vec<OwnedFd>) -> Result<Said, Bad> {
        let number = u64_at(payload, 0);
        let (index, value) = (u32_at(payload, 0), u32_at(payload, 4));
        let mut state = self.state.borrow_mut();
        match kind {
            say::GET_FEATURES => return Ok(Said::Number(FEATURES)),
            say::GET_PROTOCOL_FEATURES => return Ok(Said::Number(PROTOCOL_FEATURES)),
            say::GET_QUEUE_NUM => return Ok(Said::Number(QUEUES.into())),
            say::GET_CONFIG => return self.config(payload),
            say::SET_FEATURES => state.features = number & FEATURES,
            say::SET_PROTOCOL_FEATURES => state.protocol = number & PROTOCOL_FEATURES,
            say::SET_OWNER | say::SET_CONFIG | say::SET_VRING_ERR => {}
            say::SET_MEM_TABLE => {
                let memory = Rc::new(Memory::parse(payload, files)?);
                let running = state.queues.iter().filter_map(|told| told.running.as_ref());
                running.for_each(|queue| queue.set_memory(&memory));
                state.memory = Some(memory);
            }
            say::SET_VRING_NUM => state.queue(index)?.num = value,
            say::SET_VRING_BASE => state.queue(index)?.base = value as u16,
            say::SET_VRING_ADDR => {
                state.queue(index)?.addresses = Addresses {
                    table: u64_at(payload, 8),
                    used: u64_at(payload, 16),
                    avail: u64_at(payload, 24),
                };
            }
            say::SET_VRING_CALL => {
                let told = state.queue((number & 0xff) as u32)?;
                told.call = files.pop().filter(|_| number & NO_FILE == 0);
                if !told.call.as_ref().is_none_or(is_event) {
                    return Err(Bad);
                }
                if let Some(queue) = &told.running {
                    queue.set_call(copy(told.call.as_ref())?);
                }
            }
            say::SET_VRING_KICK => {
                let index = (number & 0xff) as u32;
                // A queue without a kick file would have to be polled, which is not supported.
                let kick = files.pop().filter(is_event);
                state.queue(index)?.kick = Some(kick.ok_or(Bad)?);
                return self.run(&mut state, index);
            }
            say::SET_VRING_ENABLE => {
                state.queue(index)?.enabled = value != 0;
                return self.run(&mut state, index);
            }
            say::GET_VRING_BASE => {
                state.queue(index)?;
                state.stopping = Some(index);
                drop(state);
                return self.stopped().map(|()| Said::Later);
            }
            _ => return Err(Bad),
        }
        Ok(Said::Nothing)
    }

    /// Starts queue `index` if it is enabled and fully set up; stops it if it is disabled.
    fn run(&self, state: &mut State, index: u32) -> Result<Said, Bad> {
        let always = state.features & PROTOCOL == 0;
        let through = state.features & FLUSHES == 0;
        let memory = state.memory.clone();
        let told = state.queue(index)?;
        let is_wanted = told.enabled || always;
        if let (false, Some(queue)) = (is_wanted, &told.running) {
            if let Some(base) = queue.stop() {
                told.base = base;
                told.running = None;
            }
            return Ok(Said::Nothing);
        }
        let (Some(memory), Some(kick), None) = (memory, &told.kick, &told.running) else {
            return Ok(Said::Nothing);
        };
        if !is_wanted || told.num == 0 {
            return Ok(Said::Nothing);
        }
        let Addresses { table, used, avail } = told.addresses;
        let parts = Parts {
            place: Place {
                num: told.num,
                table: memory.guest_of(table)?,
                avail: memory.guest_of(avail)?,
                used: memory.guest_of(used)?,
            },
            memory,
            kick: copy(Some(kick))?.ok_or(Bad)?,
            call: copy(told.call.as_ref())?,
            base: told.base,
            budget: Rc::clone(&self.budget),
            through,
        };
        let session = Rc::clone(&self.caller);
        let mut made = None;
        let attached = self.desk.attach(|caller| {
            let queue = Queue::new(self.desk.clone(), caller, session, parts);
            let queue = Rc::new(queue.map_err(|Bad| std::io::ErrorKind::InvalidData)?);
            made = Some(Rc::clone(&queue));
            Ok(Rc::new(Ear(queue)))
        });
        attached.map_err(|_| Bad)?;
        told.running = made;
        Ok(Said::Nothing)
    }

    /// Answers a pending `GET_VRING_BASE`, if its queue has stopped.
    fn stopped(&self) -> Result<(), Bad> {
        let mut state = self.state.borrow_mut();
        let Some(index) = state.stopping else {
            return Ok(());
        };
        let told = state.queue(index)?;
        let base = match &told.running {
            None => Some(told.base),
            Some(queue) => queue.stop(),
        };
        let Some(base) = base else { return Ok(()) };
        (told.running, told.kick, told.base) = (None, None, base);
        state.stopping = None;
        drop(state);
        let base = u64::from(index) | u64::from(base) << 32;
        self.reply(say::GET_VRING_BASE, &base.to_le_bytes())
    }

    /// Reply to `GET_CONFIG`: the requested part of the configuration space.
    fn config(&self, payload: &[u8]) -> Result<Said, Bad> {
        let (offset, len) = (u32_at(payload, 0) as usize, u32_at(payload, 4) as usize);
        let device = self.desk.value();
        let page = device.grain().clamp(512, 1 << 20) as u32;
        let config = config(device.capacity(), page);
        if len > CONFIG.next_multiple_of(256) || offset > CONFIG {
            return Err(Bad);
        }
        let mut answer = payload.get(..12).ok_or(Bad)?.to_vec();
        // Bytes behind the configuration read as zeros.
        let rest = config[offset..].iter().chain(std::iter::repeat(&0));
        answer.extend(rest.take(len));
        Ok(Said::Bytes(answer))
    }
}

impl State {
    fn queue(&mut self, index: u32) -> Result<&mut Told, Bad> {
        self.queues.get_mut(index as usize).ok_or(Bad)
    }
}

fn copy(file: Option<&OwnedFd>) -> Result<Option<OwnedFd>, Bad> {
    let copied = file.map(OwnedFd::try_clone).transpose();
    copied.map_err(|_| Bad)
}

/// Receives up to `need` bytes of a message in total, and its files. Returns false if nothing
/// has arrived.
///
/// # Errors
/// If the connection is closed or broken.
fn receive(socket: &OwnedFd, need: usize, state: &mut State) -> Result<bool, Bad> {
    let mut bytes = vec![0; need - state.bytes.len()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(REGIONS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let slices = &mut [IoSliceMut::new(&mut bytes)];
    let received = recvmsg(socket, slices, &mut control, RecvFlags::CMSG_CLOEXEC);
    let len = match received {
        Ok(received) if received.bytes > 0 => received.bytes,
        Err(Errno::AGAIN | Errno::INTR) => return Ok(false),
        Ok(_) | Err(_) => return Err(Bad),
    };
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(files) = message {
            state.files.extend(files);
        }
    }
    state.files.truncate(REGIONS_MAX);
    state.bytes.extend(&bytes[..len]);
    Ok(true)
}

/// Event source that polls the socket of a session.
pub(crate) struct Line(pub(crate) Rc<Session>);

impl Source for Line {
    fn file(&self) -> BorrowedFd<'_> {
        self.0.socket.as_fd()
    }

    fn turn(&self, _has_come: bool) -> Next {
        let session = &self.0;
        let broken = session.is_broken();
        let taken = session.stopped().and_then(|()| session.take());
        if taken.is_err() || broken || session.budget.is_lost() {
            session.over.set(true);
        }
        if session.is_over() {
            let queues = std::mem::take(&mut session.state.borrow_mut().queues);
            for queue in queues.iter().filter_map(|told| told.running.as_ref()) {
                // Requests in flight continue, and their answers still reach the used ring.
                let _ = queue.stop();
            }
            // An error means that the machine has closed the socket already.
            let _ = shutdown(&session.socket, Shutdown::Both);
            return Next::Leave;
        }
        Next::Wait {
            read: session.state.borrow().stopping.is_none(),
            write: false,
        }
    }
}
