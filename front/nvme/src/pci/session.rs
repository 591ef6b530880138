//! Connection of a monitor: answers its messages from the state that the two threads of the
//! connection share.
//!
//! Invariants: no request succeeds before the protocol version is negotiated. At most one kick
//! is pending for the other thread, so a flood of doorbells takes no memory. Unmapped memory is
//! not accessed after the unmap is answered.

use super::config::{CONFIG_BYTES, Config};
use super::device::Event;
use super::guest::{Guest, RANGES_MAX, Range, Refused};
use super::message::{
    CONFIG, Interrupts, REGISTERS, Refusal, Request, SetInterrupts, told_access, told_device,
    told_interrupts, told_region, told_version,
};
use super::registers::{Doorbell, PAIRS, REGISTER_BYTES, Registers, VECTORS, doorbell};
use super::socket::{Message, receive};
use std::fs::File;
use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
use std::time::Duration;

/// Time for a monitor to negotiate the version.
const PATIENCE: Duration = Duration::from_secs(10);
/// Timeout of a write to the monitor that makes no progress.
const WRITE_TIME: Duration = Duration::from_secs(30);

/// State shared by the threads of a connection.
pub(super) struct Shared {
    socket: UnixStream,
    registers: Mutex<Registers>,
    guest: RwLock<Guest>,
    tails: [AtomicU32; PAIRS],
    heads: [AtomicU32; PAIRS],
    /// Whether a kick is pending for the thread of the device.
    kicked: AtomicBool,
    /// Eventfd of each interrupt vector, if assigned.
    vectors: Mutex<Vec<Option<File>>>,
    /// Number of completed resets.
    resets: Mutex<u64>,
    settled: Condvar,
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(super) fn new(socket: UnixStream) -> Self {
        Self {
            socket,
            registers: Mutex::default(),
            guest: RwLock::default(),
            tails: Default::default(),
            heads: Default::default(),
            kicked: AtomicBool::new(false),
            vectors: Mutex::new((0..VECTORS).map(|_| None).collect()),
            resets: Mutex::new(0),
            settled: Condvar::new(),
        }
    }

    /// Shuts the socket down, which ends both threads of the connection.
    pub(super) fn hang_up(&self) {
        // An error means that the connection is broken already.
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    pub(super) fn registers(&self) -> MutexGuard<'_, Registers> {
        lock(&self.registers)
    }

    /// Memory of the guest; its map cannot change while the guard is held.
    pub(super) fn guest(&self) -> RwLockReadGuard<'_, Guest> {
        self.guest.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change_guest(&self) -> RwLockWriteGuard<'_, Guest> {
        self.guest.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tail doorbell of a submission queue.
    pub(super) fn tail(&self, queue: u16) -> u32 {
        self.tails[usize::from(queue)].load(Ordering::Acquire)
    }

    /// Head doorbell of a completion queue.
    pub(super) fn head(&self, queue: u16) -> u32 {
        self.heads[usize::from(queue)].load(Ordering::Acquire)
    }

    /// Resets the tail doorbell of a new submission queue to 0.
    pub(super) fn forget_tail(&self, queue: u16) {
        self.tails[usize::from(queue)].store(0, Ordering::Release);
    }

    /// Resets the head doorbell of a new completion queue to 0.
    pub(super) fn forget_head(&self, queue: u16) {
        self.heads[usize::from(queue)].store(0, Ordering::Release);
    }

    /// Clears the pending kick, before the thread of the device reads registers and doorbells.
    pub(super) fn heard(&self) {
        self.kicked.store(false, Ordering::SeqCst);
    }

    /// Signals the eventfd of `vector`, if one is assigned.
    pub(super) fn raise(&self, vector: usize) {
        let vectors = lock(&self.vectors);
        if let Some(mut by) = vectors.get(vector).and_then(Option::as_ref) {
            // A closed descriptor means that the monitor wants no interrupt.
            let _ = by.write_all(&1_u64.to_ne_bytes());
        }
    }

    /// Publishes the number of completed resets and wakes the session.
    pub(super) fn settle(&self, resets: u64) {
        *lock(&self.resets) = resets;
        self.settled.notify_all();
    }

    /// Waits until at least `count` resets are complete.
    fn await_resets(&self, count: u64) {
        let mut resets = lock(&self.resets);
        while *resets < count {
            let woken = self.settled.wait(resets);
            resets = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Thread of a connection that answers messages.
pub(super) struct Session {
    shared: Arc<Shared>,
    config: Config,
    device: Sender<Event>,
    /// Whether the protocol version is negotiated.
    agreed: bool,
}

impl Session {
    pub(super) fn new(shared: Arc<Shared>, device: Sender<Event>) -> Self {
        Self {
            shared,
            config: Config::default(),
            device,
            agreed: false,
        }
    }

    /// Answers messages until the connection ends; then ends the thread of the device.
    pub(super) fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let mut socket = &shared.socket;
        let timed = socket.set_read_timeout(Some(PATIENCE)).is_ok()
            && socket.set_write_timeout(Some(WRITE_TIME)).is_ok();
        while timed && let Ok(Some(message)) = receive(socket) {
            let Message {
                header,
                body,
                files,
            } = message;
            let request = Request::parse(header, &body);
            let ended = request.and_then(|request| self.answer(request, files));
            let reply = header.reply(ended);
            if reply.is_some_and(|reply| socket.write_all(&reply).is_err()) {
                break;
            }
            // After the negotiation, a guest may stay idle for any time.
            if !self.agreed || socket.set_read_timeout(None).is_err() {
                break;
            }
        }
        shared.hang_up();
        // The send fails if the thread of the device has ended already.
        let _ = self.device.send(Event::End);
    }

    //= vfio-user 2
    fn answer(&mut self, request: Request<'_>, files: Vec<File>) -> Result<Vec<u8>, Refusal> {
        match request {
            Request::Version { minor } => {
                self.agreed = true;
                Ok(told_version(minor, RANGES_MAX))
            }
            _ if !self.agreed => Err(Refusal::Invalid),
            Request::Map { .. } => self.map(request, files),
            Request::Unmap { at, len, all } => self.unmap(at, len, all),
            Request::DeviceInfo => Ok(told_device()),
            Request::RegionInfo { region } => told_region(region, region_len(region)),
            Request::InterruptInfo { kind } => told_interrupts(kind, VECTORS as u32),
            Request::SetInterrupts(set) => self.set_interrupts(set, files),
            Request::Read { region, at, len } => self.read(region, at, len),
            Request::Write { region, at, data } => self.write(region, at, data),
            Request::Reset => Ok(self.reset()),
        }
    }

    fn map(&self, request: Request<'_>, mut files: Vec<File>) -> Result<Vec<u8>, Refusal> {
        let Request::Map {
            at,
            len,
            offset,
            readable,
            writable,
        } = request
        else {
            return Err(Refusal::Invalid);
        };
        let file = files.pop();
        if !files.is_empty() {
            return Err(Refusal::Invalid);
        }
        let range = Range {
            len,
            offset,
            file,
            readable,
            writable,
        };
        let mapped = self.shared.change_guest().map(at, range);
        mapped
            .map(|()| Vec::new())
            .map_err(|refused| match refused {
                Refused::Shape => Refusal::Invalid,
                Refused::Overlap => Refusal::Exists,
                Refused::TooMany => Refusal::Full,
            })
    }

    /// Unmaps guest memory. The write lock waits until the thread of the device has finished its
    /// accesses.
    fn unmap(&self, at: u64, len: u64, all: bool) -> Result<Vec<u8>, Refusal> {
        let mut guest = self.shared.change_guest();
        if all {
            guest.clear();
        } else {
            guest.unmap(at, len).ok_or(Refusal::Missing)?;
        }
        // The reply repeats the request with zero flags.
        let mut told = [24_u32.to_le_bytes(), [0; 4]].concat();
        told.extend([at.to_le_bytes(), len.to_le_bytes()].concat());
        Ok(told)
    }

    fn set_interrupts(&self, set: SetInterrupts, files: Vec<File>) -> Result<Vec<u8>, Refusal> {
        let SetInterrupts { start, count, what } = set;
        let end = (start as usize).saturating_add(count as usize);
        let fits = end <= VECTORS;
        match what {
            Interrupts::Nothing => {}
            Interrupts::Disable => lock(&self.shared.vectors).fill_with(|| None),
            _ if !fits => return Err(Refusal::Invalid),
            Interrupts::Raise => {
                (start as usize..end).for_each(|vector| self.shared.raise(vector));
            }
            Interrupts::Assign => {
                if !files.is_empty() && files.len() != count as usize {
                    return Err(Refusal::Invalid);
                }
                let mut files = files.into_iter();
                for vector in &mut lock(&self.shared.vectors)[start as usize..end] {
                    *vector = files.next();
                }
            }
        }
        Ok(Vec::new())
    }

    fn read(&self, region: u32, at: u64, len: usize) -> Result<Vec<u8>, Refusal> {
        let data = match region {
            REGISTERS => self.shared.registers().read(at, len),
            CONFIG => self.config.read(at, len).map(<[u8]>::to_vec),
            _ => None,
        };
        let data = data.ok_or(Refusal::Invalid)?;
        Ok(told_access(region, at, len, &data))
    }

    fn write(&mut self, region: u32, at: u64, data: &[u8]) -> Result<Vec<u8>, Refusal> {
        match region {
            REGISTERS => self.write_register(at, data),
            CONFIG => self.config.write(at, data),
            _ => None,
        }
        .ok_or(Refusal::Invalid)?;
        Ok(told_access(region, at, data.len(), &[]))
    }

    fn write_register(&self, at: u64, data: &[u8]) -> Option<()> {
        let shared = &self.shared;
        match doorbell(at, data) {
            Some((Doorbell::Tail(queue), value)) => {
                shared.tails[queue].store(value, Ordering::Release);
                self.kick();
            }
            Some((Doorbell::Head(queue), value)) => {
                shared.heads[queue].store(value, Ordering::Release);
                self.kick();
            }
            None => {
                if shared.registers().write(at, data)? {
                    self.kick();
                }
            }
        }
        Some(())
    }

    fn kick(&self) {
        if !self.shared.kicked.swap(true, Ordering::SeqCst) {
            // The send fails if the thread of the device has ended.
            let _ = self.device.send(Event::Kick);
        }
    }

    /// Resets the device to its state after power-on; mapped memory stays. Waits until the
    /// controller is reset.
    fn reset(&mut self) -> Vec<u8> {
        let count = {
            let mut registers = self.shared.registers();
            registers.reset();
            registers.wanted().resets
        };
        self.kick();
        self.shared.await_resets(count);
        self.config = Config::default();
        lock(&self.shared.vectors).fill_with(|| None);
        Vec::new()
    }
}

const fn region_len(region: u32) -> u64 {
    match region {
        REGISTERS => REGISTER_BYTES as u64,
        CONFIG => CONFIG_BYTES as u64,
        _ => 0,
    }
}
