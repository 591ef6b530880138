//! The memory shared by a client and the daemon: a ring of writes, and state that the daemon
//! publishes to the client.
//!
//! Threads of the client put records into the ring; the daemon takes them out, one thread at a
//! time. A thread reserves room by moving the tail, copies its data, and publishes the record by a
//! stamp that is valid only at this place in this lap. No thread waits for another one unless the
//! ring is full.
//!
//! A *lease* lets a client write to the end of a file by the ring. A thread sets its word busy for
//! the time of a write. The daemon revokes the lease and waits until the word is not busy, after
//! which all writes under the lease are in the ring. Words are reused, so each also holds the
//! lease's number, which is unique within the client.
//!
//! Invariants: the client can write only its own memory, and so can harm only itself. The daemon
//! trusts no length that it reads here. Published records are taken out in the order of the tail.

use crate::sys;
use core::ffi::c_int;
use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

/// Size of the ring in bytes: 32 of the 256 KiB parts in which zones are written.
const RING: u64 = 8 << 20;
/// Alignment of records, and the size of a record's head, in bytes.
const STEP: u64 = 32;
/// Maximum number of data bytes in one record.
pub(crate) const RECORD_MAX: usize = 1 << 20;
/// Size of the area before the ring (counters and leases) in bytes.
const HEAD: usize = 1 << 14;
/// Maximum number of leases of one client.
pub(crate) const LEASES: usize = 1024;
/// Number of undrained bytes at which a napping daemon is woken.
const ENOUGH: u64 = RING / 4;

const GRANTED: u64 = 1;
const BUSY: u64 = 2;
const REVOKED: u64 = 4;
/// The ring is not drained any more, so writes under the lease may be lost.
const ENDED: u64 = 8;
/// Number of low bits of a lease's word that are flags; the rest is the lease's number.
const FLAGS: u32 = 4;
/// Credit from which no write can succeed, however many concurrent attempts there are.
const NO_CREDIT: i64 = i64::MIN / 2;

const AWAKE: u32 = 0;
const NAPS: u32 = 1;
const SLEEPS: u32 = 2;

#[repr(C, align(64))]
struct Lined<T>(T);

#[repr(C)]
struct Head {
    key: u64,
    /// Incremented before a zone is reset or bytes of a file are dropped.
    generation: Lined<AtomicU64>,
    /// Number of bytes that the client may still write by the ring.
    credit: Lined<AtomicI64>,
    tail: Lined<AtomicU64>,
    head: Lined<AtomicU64>,
    /// Sleep depth of the daemon, and the futex word it sleeps on.
    sleep: Lined<AtomicU32>,
    bell: AtomicU32,
    /// Number of threads that wait for room, and the futex word they wait on.
    waiting: Lined<AtomicU32>,
    room: AtomicU32,
    leases: [AtomicU64; LEASES],
}

const _: () = assert!(size_of::<Head>() <= HEAD);

/// Head of a record; the stamp is written last.
#[repr(C)]
struct Slot {
    stamp: AtomicU64,
    file: AtomicU64,
    at: AtomicU64,
    /// Number of data bytes; [`PAD`] if the record skips the rest of the ring.
    len: AtomicU64,
}

const PAD: u64 = u64::MAX;

/// A write as read from the ring; its bytes may change while they are read.
pub(crate) struct Record<'a> {
    /// Number of the file.
    pub(crate) file: u64,
    /// Offset in the file in bytes.
    pub(crate) at: u64,
    /// Data of the write.
    pub(crate) data: &'a [u8],
}

/// A mapping of the shared memory.
pub(crate) struct Memory {
    start: *mut u8,
}

// SAFETY: all shared state behind the pointer is atomic, or handed over by a stamp.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// Number of a lease; the lease's word is at its remainder modulo [`LEASES`].
pub(crate) type LeaseId = u64;

/// The word of a granted lease while no thread writes under it.
fn granted(lease: LeaseId) -> u64 {
    lease << FLAGS | GRANTED
}

/// Result of an attempt to enter a lease.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lease {
    Taken,
    Busy,
    Gone,
}

impl Memory {
    /// Size of the shared memory in bytes.
    pub(crate) const LEN: usize = HEAD + RING as usize;

    /// Maps the memory of a descriptor; `EPROTO` if its size is not [`Memory::LEN`].
    pub(crate) fn map(fd: c_int) -> Result<Self, sys::Errno> {
        let stat = sys::stat(fd)?;
        if stat.st_size != Self::LEN as i64 {
            return Err(libc::EPROTO);
        }
        let how = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        let start = sys::map(0, Self::LEN, how, (fd, 0))?;
        Ok(Self {
            start: start as *mut u8,
        })
    }

    /// Initializes the memory before it is shared. `key` is a secret that makes stamps unforgeable
    /// by stale data.
    pub(crate) fn begin(&self, key: u64) {
        // SAFETY: the memory is not shared yet, and longer than a head.
        unsafe { (*self.start.cast::<Head>()).key = key };
        self.head().sleep.0.store(SLEEPS, Ordering::Release);
    }

    fn head(&self) -> &Head {
        // SAFETY: the mapping begins with a head, whose fields are atomic, except the key, which
        // does not change.
        unsafe { &*self.start.cast() }
    }

    fn slot(&self, position: u64) -> &Slot {
        let at = HEAD + (position % RING) as usize;
        // SAFETY: positions are multiples of 32 within the ring.
        unsafe { &*self.start.add(at).cast() }
    }

    fn stamp(&self, position: u64) -> u64 {
        self.head().key ^ position.wrapping_add(1)
    }

    /// Publishes a write of `data` at offset `at` of a file; returns `false` if the ring has no
    /// room now.
    #[inline]
    pub(crate) fn put(&self, file: u64, at: u64, data: &[u8]) -> bool {
        debug_assert!(data.len() <= RECORD_MAX);
        let head = self.head();
        let need = (data.len() as u64).next_multiple_of(STEP) + STEP;
        let mut tail = head.tail.0.load(Ordering::Relaxed);
        let (gap, position) = loop {
            let left = RING - tail % RING;
            let pad = if left < need { left } else { 0 };
            let done = head.head.0.load(Ordering::Acquire);
            if done > tail {
                // Since the tail was read, other threads' records were put and taken out.
                tail = head.tail.0.load(Ordering::Relaxed);
                continue;
            }
            if tail + pad + need - done > RING {
                return false;
            }
            let after = tail + pad + need;
            let taken =
                head.tail
                    .0
                    .compare_exchange_weak(tail, after, Ordering::AcqRel, Ordering::Relaxed);
            match taken {
                Ok(_) => break (tail, tail + pad),
                Err(now) => tail = now,
            }
        };
        if gap != position {
            let slot = self.slot(gap);
            slot.len.store(PAD, Ordering::Relaxed);
            slot.stamp.store(self.stamp(gap), Ordering::Release);
        }
        let slot = self.slot(position);
        let to = HEAD + (position % RING + STEP) as usize;
        // SAFETY: the room is reserved for this thread, and does not cross the ring's end.
        unsafe {
            core::ptr::copy_nonoverlapping(data.as_ptr(), self.start.add(to), data.len());
        }
        slot.file.store(file, Ordering::Relaxed);
        slot.at.store(at, Ordering::Relaxed);
        slot.len.store(data.len() as u64, Ordering::Relaxed);
        slot.stamp.store(self.stamp(position), Ordering::SeqCst);
        self.ring_bell();
        true
    }

    /// Wakes the daemon if it sleeps, or naps while many bytes wait.
    #[inline]
    fn ring_bell(&self) {
        let head = self.head();
        let depth = head.sleep.0.load(Ordering::SeqCst);
        if depth == AWAKE || (depth == NAPS && self.waiting() < ENOUGH) {
            return;
        }
        if head.sleep.0.swap(AWAKE, Ordering::SeqCst) != AWAKE {
            head.bell.fetch_add(1, Ordering::SeqCst);
            sys::wake(&head.bell);
        }
    }

    /// Number of bytes in the ring that were not yet taken out.
    pub(crate) fn waiting(&self) -> u64 {
        let head = self.head();
        let tail = head.tail.0.load(Ordering::SeqCst);
        tail.wrapping_sub(head.head.0.load(Ordering::SeqCst))
    }

    /// Waits up to 20 ms for room in the ring.
    #[cold]
    pub(crate) fn wait_for_room(&self) {
        let head = self.head();
        let seen = head.room.load(Ordering::SeqCst);
        head.waiting.0.fetch_add(1, Ordering::SeqCst);
        // The daemon is woken from any depth.
        if head.sleep.0.swap(AWAKE, Ordering::SeqCst) != AWAKE {
            head.bell.fetch_add(1, Ordering::SeqCst);
            sys::wake(&head.bell);
        }
        if self.waiting() > RING / 2 {
            sys::wait(&head.room, seen, 20);
        }
        head.waiting.0.fetch_sub(1, Ordering::SeqCst);
    }

    /// Position up to which records are reserved.
    pub(crate) fn tail(&self) -> u64 {
        self.head().tail.0.load(Ordering::SeqCst)
    }

    /// Takes out the published records that begin before `end`. Returns the position reached, or
    /// `None` if the ring holds an invalid record. If the client is `gone`, room that was reserved
    /// and never published is skipped: that write was not acknowledged, but later ones may have
    /// been. A stamp is valid at one place only, so the next valid stamp is the next record.
    pub(crate) fn take(
        &self,
        end: u64,
        gone: bool,
        mut each: impl FnMut(Record<'_>),
    ) -> Option<u64> {
        let head = self.head();
        let mut position = head.head.0.load(Ordering::Relaxed);
        if end.wrapping_sub(position) > RING || !position.is_multiple_of(STEP) {
            return None;
        }
        while position < end {
            let slot = self.slot(position);
            if slot.stamp.load(Ordering::SeqCst) != self.stamp(position) {
                if !gone {
                    break;
                }
                position += STEP;
                head.head.0.store(position, Ordering::SeqCst);
                continue;
            }
            let left = RING - position % RING;
            let len = slot.len.load(Ordering::Relaxed);
            if len == PAD {
                position += left;
            } else {
                if len > RECORD_MAX as u64 || len.next_multiple_of(STEP) + STEP > left {
                    return None;
                }
                let from = HEAD + (position % RING + STEP) as usize;
                // SAFETY: the bytes are within the ring, and no correct client writes there before
                // the head has passed them.
                let data =
                    unsafe { core::slice::from_raw_parts(self.start.add(from), len as usize) };
                each(Record {
                    file: slot.file.load(Ordering::Relaxed),
                    at: slot.at.load(Ordering::Relaxed),
                    data,
                });
                position += len.next_multiple_of(STEP) + STEP;
            }
            head.head.0.store(position, Ordering::SeqCst);
            let half = end.wrapping_sub(position) <= RING / 2;
            if half && head.waiting.0.load(Ordering::SeqCst) > 0 {
                head.room.fetch_add(1, Ordering::SeqCst);
                sys::wake(&head.room);
            }
        }
        Some(position)
    }

    /// Sleeps until records wait; with `millis`, naps for that time or until [`ENOUGH`] bytes wait.
    pub(crate) fn sleep(&self, millis: Option<u32>) {
        let head = self.head();
        let seen = head.bell.load(Ordering::SeqCst);
        let depth = if millis.is_some() { NAPS } else { SLEEPS };
        head.sleep.0.store(depth, Ordering::SeqCst);
        let enough = if millis.is_some() { ENOUGH } else { 1 };
        if self.waiting() < enough {
            // The timeout of one second limits the harm of a client that corrupts its memory.
            sys::wait(&head.bell, seen, millis.unwrap_or(1000));
        }
        head.sleep.0.store(AWAKE, Ordering::SeqCst);
    }

    /// Wakes the thread that sleeps, whether or not records wait.
    pub(crate) fn rouse(&self) {
        let head = self.head();
        head.bell.fetch_add(1, Ordering::SeqCst);
        sys::wake(&head.bell);
    }

    /// Number of changes so far of zones under direct readers.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.head().generation.0.load(Ordering::SeqCst)
    }

    /// Announces a change of zones to direct readers.
    pub(crate) fn changes(&self) {
        self.head().generation.0.fetch_add(1, Ordering::SeqCst);
    }

    /// Spends bytes of the client's credit; returns `false`, without a change, if there are too
    /// few.
    #[inline]
    pub(crate) fn spend(&self, bytes: i64) -> bool {
        let credit = &self.head().credit.0;
        if credit.fetch_sub(bytes, Ordering::Relaxed) >= bytes {
            return true;
        }
        credit.fetch_add(bytes, Ordering::Relaxed);
        false
    }

    /// Number of bytes that the client may still write by the ring.
    pub(crate) fn credit(&self) -> i64 {
        self.head().credit.0.load(Ordering::Relaxed)
    }

    /// Sets the client's credit in bytes.
    pub(crate) fn grant_credit(&self, bytes: i64) {
        self.head().credit.0.store(bytes, Ordering::Relaxed);
    }

    fn word(&self, lease: LeaseId) -> &AtomicU64 {
        &self.head().leases[(lease % LEASES as u64) as usize]
    }

    /// Publishes a lease; its word must not hold another one.
    pub(crate) fn grant(&self, lease: LeaseId) {
        self.word(lease).store(granted(lease), Ordering::Release);
    }

    /// Marks a lease busy for the time of a write.
    #[inline]
    pub(crate) fn enter(&self, lease: LeaseId) -> Lease {
        let free = granted(lease);
        let taken = self.word(lease).compare_exchange(
            free,
            free | BUSY,
            Ordering::Acquire,
            Ordering::Relaxed,
        );
        match taken {
            Ok(_) => Lease::Taken,
            Err(found) if found == free | BUSY => Lease::Busy,
            Err(_) => Lease::Gone,
        }
    }

    /// Whether a lease is still granted.
    #[inline]
    pub(crate) fn holds(&self, lease: LeaseId) -> bool {
        self.word(lease).load(Ordering::SeqCst) & !BUSY == granted(lease)
    }

    /// Ends a write under a lease. Returns `false` if the ring was ended meanwhile, in which case
    /// the write may be lost.
    #[inline]
    pub(crate) fn leave(&self, lease: LeaseId) -> bool {
        self.word(lease).fetch_and(!BUSY, Ordering::SeqCst) & ENDED == 0
    }

    /// Stops all writes by the ring, before the last drain: a stopped client that goes on later
    /// must not acknowledge a write that is lost.
    pub(crate) fn end(&self) {
        for word in &self.head().leases {
            word.fetch_or(REVOKED | ENDED, Ordering::SeqCst);
        }
        self.grant_credit(NO_CREDIT);
    }

    /// Revokes a lease; returns `false` while a thread writes under it.
    pub(crate) fn revoke(&self, lease: LeaseId) -> bool {
        self.word(lease).fetch_or(REVOKED, Ordering::SeqCst) & BUSY == 0
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        sys::unmap(self.start as usize, Self::LEN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> Memory {
        let fd = sys::memory(Memory::LEN).unwrap();
        let memory = Memory::map(fd).unwrap();
        sys::close(fd);
        memory.begin(0x5eed_5eed_5eed_5eed);
        memory
    }

    #[test]
    fn records_of_many_threads_are_taken_whole_and_in_order() {
        let memory = memory();
        let writer = |file: u64| {
            for at in 0..20_000 {
                let data = [file as u8; 900];
                let data = &data[..(at * 37 % 901) as usize];
                while !memory.put(file, at, data) {
                    memory.wait_for_room();
                }
            }
        };
        let mut next = [0; 4];
        std::thread::scope(|scope| {
            for file in 0..4 {
                let writer = &writer;
                scope.spawn(move || writer(file));
            }
            while next != [20_000; 4] {
                let each = |record: Record<'_>| {
                    let at = &mut next[record.file as usize];
                    assert_eq!(record.at, *at);
                    assert_eq!(record.data.len() as u64, *at * 37 % 901);
                    assert!(record.data.iter().all(|byte| *byte == record.file as u8));
                    *at += 1;
                };
                memory.take(memory.tail(), false, each).unwrap();
                if memory.waiting() == 0 {
                    memory.sleep(Some(1));
                }
            }
        });
        assert_eq!(memory.waiting(), 0);
    }

    #[test]
    fn full_ring_refuses_until_it_is_drained() {
        let memory = memory();
        let data = vec![7; RECORD_MAX];
        let mut count = 0;
        while memory.put(1, count, &data) {
            count += 1;
        }
        assert_eq!(count, 7, "a record and its head, seven times");
        let mut seen = 0;
        memory.take(memory.tail(), false, |record| {
            assert_eq!(record.at, seen);
            seen += 1;
        });
        assert_eq!(seen, count);
        // The rest of the ring is skipped.
        assert!(memory.put(1, 9, &data));
        let mut found = 0;
        memory.take(memory.tail(), false, |record| found = record.at);
        assert_eq!((found, memory.waiting()), (9, 0));
    }

    #[test]
    fn records_behind_unpublished_room_of_a_dead_client_are_taken() {
        let memory = memory();
        assert!(memory.put(1, 0, &[7; 40]));
        // Two threads died after they had reserved room, one of them with half of its bytes
        // written.
        let tail = &memory.head().tail.0;
        let hole = tail.fetch_add(32 + 320, Ordering::Relaxed);
        memory.slot(hole + 64).stamp.store(9, Ordering::Relaxed);
        tail.fetch_add(32 + 32, Ordering::Relaxed);
        assert!(memory.put(2, 5, &[8; 100]) && memory.put(3, 6, &[9; 3]));
        let take = |gone| {
            let mut found = Vec::new();
            let each = |record: Record<'_>| found.push((record.file, record.data.len()));
            memory.take(memory.tail(), gone, each).unwrap();
            found
        };
        assert_eq!(take(false), [(1, 40)]);
        assert_eq!(take(false), []);
        assert_eq!(take(true), [(2, 100), (3, 3)]);
        assert_eq!(memory.waiting(), 0);
    }

    #[test]
    fn corrupt_ring_is_refused() {
        let memory = memory();
        assert!(memory.put(1, 0, b"data"));
        let slot = memory.slot(0);
        slot.len.store(1 << 40, Ordering::Relaxed);
        assert!(
            memory
                .take(memory.tail(), false, |_| panic!("no record"))
                .is_none()
        );
        memory.head().tail.0.store(u64::MAX, Ordering::Relaxed);
        assert!(
            memory
                .take(memory.tail(), false, |_| panic!("no record"))
                .is_none()
        );
        memory.head().tail.0.store(64, Ordering::Relaxed);
        memory.head().head.0.store(3, Ordering::Relaxed);
        assert!(
            memory
                .take(memory.tail(), false, |_| panic!("no record"))
                .is_none()
        );
    }

    #[test]
    fn lease_is_exclusive_and_revoked_once_its_writer_leaves() {
        let memory = memory();
        assert!(memory.enter(3) == Lease::Gone);
        memory.grant(3);
        assert!(memory.enter(3) == Lease::Taken);
        assert!(memory.enter(3) == Lease::Busy);
        assert!(!memory.revoke(3), "somebody writes");
        assert!(memory.enter(3) == Lease::Gone, "nobody else comes in");
        assert!(memory.leave(3));
        assert!(memory.revoke(3));
        assert!(memory.enter(3) == Lease::Gone);
        assert!(memory.enter(LEASES as u64 + 5) == Lease::Gone);
    }

    #[test]
    fn old_lease_does_not_match_a_new_one_at_its_word() {
        let memory = memory();
        let (old, new) = (3, LEASES as u64 + 3);
        memory.grant(old);
        assert!(memory.holds(old) && memory.revoke(old));
        memory.grant(new);
        assert!(memory.enter(old) == Lease::Gone && !memory.holds(old));
        assert!(memory.enter(new) == Lease::Taken && memory.holds(new));
        assert!(memory.enter(old) == Lease::Gone && !memory.holds(old));
    }

    #[test]
    fn ended_ring_acknowledges_no_write() {
        let memory = memory();
        for lease in [3, 4] {
            memory.grant(lease);
        }
        memory.grant_credit(1000);
        assert!(memory.enter(3) == Lease::Taken && memory.put(1, 0, b"half"));
        memory.end();
        assert!(!memory.leave(3), "it may have come too late");
        assert!(memory.enter(3) == Lease::Gone && memory.enter(4) == Lease::Gone);
        assert!(!memory.holds(4) && !memory.spend(0));
        memory.spend(-1000);
        assert!(!memory.spend(1));
    }

    #[test]
    fn credit_is_spent_once() {
        let memory = memory();
        memory.grant_credit(100);
        assert!(memory.spend(60) && !memory.spend(60) && memory.spend(40));
        assert_eq!(memory.credit(), 0);
    }
}
