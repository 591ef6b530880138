//! Connected clients, the files that each has open, and the files that it may write through its
//! ring.
//!
//! Invariant: all that a client holds (opens, leases, pins) is released with its last connection,
//! however that connection ends.

use crate::share::memory::{LEASES, LeaseId, Memory};
use crate::sys;
use core::ffi::c_int;
use shimmer::{FileId, Part};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of clients at a time; each costs memory for its ring.
pub(super) const CLIENTS_MAX: usize = 1024;

/// A process that is connected by one or more sockets.
pub(super) struct Client {
    pub(super) token: u64,
    pub(super) memory: Memory,
    /// Held while records are taken out of the ring, by one thread at a time.
    pub(super) taking: Mutex<()>,
    pub(super) held: Mutex<Held>,
    gone: AtomicBool,
}

/// Resources that a client holds, all released when it is gone.
#[derive(Default)]
pub(super) struct Held {
    pub(super) sockets: Vec<c_int>,
    pub(super) opens: BTreeMap<FileId, u32>,
    pub(super) leases: BTreeMap<FileId, LeaseId>,
    next_lease: LeaseId,
    pub(super) pins: BTreeMap<u64, Vec<Part>>,
    pub(super) next_pin: u64,
}

impl Client {
    /// A client with a new shared memory, and the descriptor of that memory.
    pub(super) fn new(token: u64, key: u64) -> Result<(Self, c_int), sys::Errno> {
        let fd = sys::memory(Memory::LEN)?;
        let memory = Memory::map(fd).inspect_err(|_| sys::close(fd))?;
        memory.begin(key);
        let client = Self {
            token,
            memory,
            taking: Mutex::default(),
            held: Mutex::default(),
            gone: AtomicBool::new(false),
        };
        Ok((client, fd))
    }

    pub(super) fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    pub(super) fn goes(&self) {
        self.memory.end();
        self.gone.store(true, Ordering::Release);
        self.memory.rouse();
    }

    /// Disconnects a client that violates the protocol or has stopped inside a write.
    pub(super) fn cut_off(&self) {
        self.goes();
        for socket in &self.held().sockets {
            sys::shut(*socket);
        }
    }
}

impl Held {
    /// A lease with a fresh ID, at a word of the shared memory that no other lease of the client
    /// uses; `None` if all words are in use.
    pub(super) fn new_lease(&mut self) -> Option<LeaseId> {
        if self.leases.len() >= LEASES {
            return None;
        }
        let taken = |lease: LeaseId| {
            let word = |lease: LeaseId| lease % LEASES as u64;
            self.leases.values().any(|it| word(*it) == word(lease))
        };
        let lease = (self.next_lease..).find(|lease| !taken(*lease))?;
        self.next_lease = lease + 1;
        Some(lease)
    }
}

/// All connected clients, by token.
#[derive(Default)]
pub(super) struct Clients {
    all: Mutex<BTreeMap<u64, Arc<Client>>>,
}

impl Clients {
    fn all(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Client>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a client; returns `false` if there are too many.
    pub(super) fn insert(&self, client: Arc<Client>) -> bool {
        let mut all = self.all();
        let room = all.len() < CLIENTS_MAX;
        if room {
            all.insert(client.token, client);
        }
        room
    }

    pub(super) fn get(&self, token: u64) -> Option<Arc<Client>> {
        self.all().get(&token).cloned()
    }

    pub(super) fn remove(&self, token: u64) {
        self.all().remove(&token);
    }

    pub(super) fn every(&self) -> Vec<Arc<Client>> {
        self.all().values().cloned().collect()
    }

    /// Makes all clients aware, before the contents of zones change, that data they read directly
    /// may be replaced.
    pub(super) fn zones_change(&self) {
        for client in self.all().values() {
            client.memory.changes();
        }
    }
}
