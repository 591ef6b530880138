//! A circular queue of records in persistent memory.
//!
//! Layout of the region:
//!
//! - first line: u64, position of the oldest record in use; u64, position behind the newest
//!   committed one; zeros. Each position has 48 bits, with the lower half of its CRC-32C above them
//! - slots of 64 bytes: position p is slot p modulo the number of slots
//!
//! Layout of a record, from its position on:
//!
//! - state, u64: a mark, with the state in its last byte; the codes of two states differ in four
//!   bits or more. 0 while the line is being written
//! - position, u64
//! - length, u32: bytes of the body; then u32: CRC-32C of position, length and body
//! - zeros to the end of the line
//! - body, up to the end of its last slot
//!
//! Invariants: positions only grow, and a record holds its own, so remains of an earlier round of
//! the queue are not taken for records. A committed record is whole: its body is durable before its
//! state. The first line is updated before any record behind the old value is checkpointing. So
//! recovery must find every record up to that position, and each committed one whole; behind it
//! there may be records that a cut interrupted, none of them more than committed. Anything else is
//! damage.

use crate::HyfimError;
use host::{Pm, Region};
use sim::{Semaphore, Signal, Sim};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// Bytes of a slot: one cache line.
const SLOT: u64 = 64;
/// Upper bytes of a state word; the last byte is the state.
const MARK: u64 = 0x4859_4649_4d51_5500;

/// Limit of positions. A mount refuses a queue beyond half of it, and none lasts for the other
/// half: a hundred thousand slots a second for forty years.
const MOST_POSITIONS: u64 = 1 << 48;

/// State of a record in its journal.
//= hyfim 3.4
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordState {
    /// The record's slots are reserved, and its body is being written.
    Committing,
    /// The record is whole and durable, but not in effect.
    Committed,
    /// The record is in effect: it is being applied, and recovery redoes it.
    Checkpointing,
    /// The record is applied, and its slots can be reused.
    Checkpointed,
}

impl RecordState {
    /// Every state, in the order in which a record passes them.
    pub const ALL: [Self; 4] = [
        Self::Committing,
        Self::Committed,
        Self::Checkpointing,
        Self::Checkpointed,
    ];

    /// State after the transition; `None` after the last one. A record skips none.
    #[must_use]
    pub const fn next(self) -> Option<Self> {
        match self {
            Self::Committing => Some(Self::Committed),
            Self::Committed => Some(Self::Checkpointing),
            Self::Checkpointing => Some(Self::Checkpointed),
            Self::Checkpointed => None,
        }
    }

    /// Whether recovery redoes a record in this state. An earlier state counts as never written,
    /// and a later one needs nothing.
    //= hyfim 3.4
    #[must_use]
    pub const fn is_redone(self) -> bool {
        matches!(self, Self::Checkpointing)
    }

    const fn word(self) -> u64 {
        let last = match self {
            Self::Committing => 0x17,
            Self::Committed => 0x2b,
            Self::Checkpointing => 0x4d,
            Self::Checkpointed => 0x8e,
        };
        MARK | last
    }

    fn parse(word: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.word() == word)
    }
}

/// A record that recovery found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) position: u64,
    pub(crate) state: RecordState,
    pub(crate) body: Vec<u8>,
}

/// A mounted queue: records between the oldest one in use and the next position.
pub(crate) struct Queue {
    sim: Sim,
    pm: Pm,
    region: Region,
    name: &'static str,
    /// Position of the oldest record in use (`tail`), and of the next record (`head`).
    tail: Cell<u64>,
    head: Cell<u64>,
    /// Position behind the newest committed record, as the first line says.
    committed: Cell<u64>,
    /// Records in use by position: position behind the record, and its state.
    open: RefCell<BTreeMap<u64, (u64, RecordState)>>,
    /// Notified when slots become free.
    room: Signal,
    /// Serializes the reservation of slots.
    order: Semaphore,
}

impl Queue {
    /// Creates an empty queue in `region`. Zeros all of it: a record of an earlier queue could lie
    /// right behind one of this queue.
    pub(crate) async fn create(pm: &Pm, region: Region) {
        const ZEROS: [u8; 4096] = [0; 4096];
        let (mut at, end) = (region.at, region.at + region.bytes);
        while at < end {
            let count = (end - at).min(4096) as usize;
            let mut held = [0; 4096];
            pm.load(at, &mut held[..count]).await;
            if held != ZEROS {
                pm.store(at, &ZEROS[..count]).await;
                pm.flush(at, count).await;
            }
            at += count as u64;
        }
        pm.fence().await;
        let words = [sealed(0), sealed(0)].map(u64::to_le_bytes);
        pm.persist(region.at, words.as_flattened()).await;
    }

    /// Opens the queue in `region`; also returns its records, oldest first.
    pub(crate) async fn open(
        sim: &Sim,
        pm: &Pm,
        region: Region,
        name: &'static str,
    ) -> Result<(Self, Vec<Found>), HyfimError> {
        if region.bytes < 2 * SLOT {
            return Err(HyfimError::Damaged(name));
        }
        let mut words = [0; 16];
        pm.load(region.at, &mut words).await;
        let position = |at: usize| {
            let word = words[at..at + 8].try_into().expect("eight bytes");
            let position = unsealed(u64::from_le_bytes(word));
            position.filter(|&position| position <= MOST_POSITIONS / 2)
        };
        let (Some(tail), Some(committed)) = (position(0), position(8)) else {
            return Err(HyfimError::Damaged(name));
        };
        let queue = Self {
            sim: sim.clone(),
            pm: pm.clone(),
            region,
            name,
            tail: Cell::new(tail),
            head: Cell::new(tail),
            committed: Cell::new(committed),
            open: RefCell::default(),
            room: Signal::default(),
            order: Semaphore::new(sim, 1),
        };
        let found = queue.find().await?;
        Ok((queue, found))
    }

    /// Reads every record from the oldest one on, and sets `head` behind the last.
    async fn find(&self) -> Result<Vec<Found>, HyfimError> {
        let mut found: Vec<Found> = Vec::new();
        let (tail, committed) = (self.tail.get(), self.committed.get());
        while let Some(record) = self.read(self.head.get()).await? {
            let position = record.position;
            let end = position + slots(record.body.len());
            let is_late = position >= committed && record.state > RecordState::Committed;
            if end - tail > self.slots() || is_late {
                return Err(HyfimError::Damaged(self.name));
            }
            let mut open = self.open.borrow_mut();
            open.insert(position, (end, record.state));
            self.head.set(end);
            found.push(record);
        }
        if self.head.get() < committed {
            return Err(HyfimError::Damaged(self.name));
        }
        Ok(found)
    }

    /// Number of slots for records, the first line apart.
    fn slots(&self) -> u64 {
        (self.region.bytes / SLOT).saturating_sub(1)
    }

    /// Slots in use, from the oldest record on.
    pub(crate) fn used(&self) -> u64 {
        self.head.get() - self.tail.get()
    }

    /// Whether more than half of the slots are in use.
    pub(crate) fn is_half_full(&self) -> bool {
        2 * self.used() > self.slots()
    }

    /// Whether a body of `body` bytes fits now.
    pub(crate) fn has_room(&self, body: usize) -> bool {
        self.used() + slots(body) <= self.slots()
    }

    /// Largest body in bytes that fits an empty queue.
    pub(crate) fn most(&self) -> usize {
        (self.slots().saturating_sub(1) * SLOT) as usize
    }

    /// Rejects a body that would not fit an empty queue.
    ///
    /// # Errors
    /// [`HyfimError::TooLarge`], with both sizes.
    pub(crate) fn check_size(&self, body: usize) -> Result<(), HyfimError> {
        let (needs, has) = (slots(body) * SLOT, self.slots() * SLOT);
        if needs <= has {
            return Ok(());
        }
        let queue = self.name;
        Err(HyfimError::TooLarge { queue, needs, has })
    }

    /// Address of byte `offset` of the record at `position`, and the bytes contiguous from there to
    /// the end of the region.
    fn at(&self, position: u64, offset: u64) -> (u64, u64) {
        let slot = (position % self.slots() + offset / SLOT) % self.slots();
        let within = offset % SLOT;
        let row = (self.slots() - slot) * SLOT - within;
        (self.region.at + SLOT + slot * SLOT + within, row)
    }

    /// The record at `position`; `None` if the slot holds no record with that position.
    ///
    /// # Errors
    /// If the record is damaged in a way that no cut causes.
    async fn read(&self, position: u64) -> Result<Option<Found>, HyfimError> {
        if self.slots() < 2 {
            return Ok(None);
        }
        let mut head = [0; 24];
        let (at, _) = self.at(position, 0);
        self.pm.load(at, &mut head).await;
        let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight"));
        let Some(state) = RecordState::parse(word(0)).filter(|_| word(8) == position) else {
            return Ok(None);
        };
        let (len, sum) = (word(16) as u32, (word(16) >> 32) as u32);
        if slots(len as usize) > self.slots() {
            return Err(HyfimError::Damaged(self.name));
        }
        let mut body = vec![0; len as usize];
        self.copy_out(position, &mut body).await;
        // The body of a record being written may be torn; it is not used.
        if state != RecordState::Committing && sum != checksum(position, &body) {
            return Err(HyfimError::Damaged(self.name));
        }
        Ok(Some(Found {
            position,
            state,
            body,
        }))
    }

    async fn copy_out(&self, position: u64, body: &mut [u8]) {
        let mut done = 0;
        while done < body.len() {
            let (at, row) = self.at(position, SLOT + done as u64);
            let count = (row as usize).min(body.len() - done);
            self.pm.load(at, &mut body[done..done + count]).await;
            done += count;
        }
    }

    /// Writes a record once there is room; the record is committed on return. Returns its position.
    ///
    /// # Errors
    /// If the body would not fit an empty queue.
    //= hyfim 3.4
    pub(crate) async fn append(&self, body: &[u8]) -> Result<u64, HyfimError> {
        self.check_size(body.len())?;
        let need = slots(body.len());
        // A head is durable before the next place is taken: recovery finds records only back to
        // back.
        let turn = self.order.acquire(1).await;
        while self.used() + need > self.slots() {
            self.room.wait(&self.sim).await;
        }
        let position = self.head.get();
        self.head.set(position + need);
        let state = RecordState::Committing;
        self.open
            .borrow_mut()
            .insert(position, (position + need, state));
        let len = body.len() as u64 | u64::from(checksum(position, body)) << 32;
        let mut head = [0; SLOT as usize];
        head[8..16].copy_from_slice(&position.to_le_bytes());
        head[16..24].copy_from_slice(&len.to_le_bytes());
        let (at, _) = self.at(position, 0);
        // The state is cleared first and written last. Stores to one line persist in order, so an
        // old state never meets a new position.
        self.pm.store(at, &[0; 8]).await;
        self.pm.store(at + 8, &head[8..]).await;
        self.pm.store(at, &state.word().to_le_bytes()).await;
        self.pm.flush(at, SLOT as usize).await;
        self.pm.fence().await;
        drop(turn);
        let mut done = 0;
        while done < body.len() {
            let (at, row) = self.at(position, SLOT + done as u64);
            let count = (row as usize).min(body.len() - done);
            self.pm.store(at, &body[done..done + count]).await;
            self.pm.flush(at, count).await;
            done += count;
        }
        self.pm.fence().await;
        self.advance(position).await;
        Ok(position)
    }

    /// Advances a record to its next state, durably. A commit also advances the committed position
    /// of the first line. A checkpoint frees the slots of the oldest records that are done.
    ///
    /// # Panics
    /// If the record is checkpointed already.
    pub(crate) async fn advance(&self, position: u64) {
        let entry = self.open.borrow().get(&position).copied();
        let next = entry.and_then(|(end, state)| Some((end, state.next()?)));
        let (end, next) = next.expect("it is not done");
        let (at, _) = self.at(position, 0);
        self.pm.store(at, &next.word().to_le_bytes()).await;
        self.pm.flush(at, 8).await;
        if next == RecordState::Committed {
            // All records before have their heads, and this body is whole: whichever of the two
            // words a cut takes back, the rest is consistent.
            self.committed.set(end.max(self.committed.get()));
            let at = self.region.at + 8;
            let word = sealed(self.committed.get()).to_le_bytes();
            self.pm.store(at, &word).await;
            self.pm.flush(at, 8).await;
        }
        self.pm.fence().await;
        if let Some(entry) = self.open.borrow_mut().get_mut(&position) {
            entry.1 = next;
        }
        if next == RecordState::Checkpointed {
            self.release().await;
        }
    }

    /// Frees the slots of the oldest records, as far as all are checkpointed.
    async fn release(&self) {
        let mut tail = self.tail.get();
        {
            let mut open = self.open.borrow_mut();
            while let Some((&position, &(end, state))) = open.first_key_value() {
                if state != RecordState::Checkpointed {
                    break;
                }
                open.remove(&position);
                tail = end;
            }
        }
        if tail == self.tail.get() {
            return;
        }
        // The tail must be durable before slots behind it are overwritten.
        let word = sealed(tail).to_le_bytes();
        self.pm.persist(self.region.at, &word).await;
        self.tail.set(tail.max(self.tail.get()));
        self.room.notify(&self.sim);
    }

    /// Drops every record, once recovery has applied them.
    pub(crate) async fn clear(&self) {
        let head = self.head.get();
        self.open.borrow_mut().clear();
        let word = sealed(head).to_le_bytes();
        self.pm.persist(self.region.at, &word).await;
        self.tail.set(head);
        self.room.notify(&self.sim);
    }

    /// Whether any record in use is in `state`.
    pub(crate) fn has(&self, state: RecordState) -> bool {
        self.open.borrow().values().any(|open| open.1 == state)
    }

    /// Panics if an invariant does not hold.
    pub(crate) fn check(&self) {
        let open = self.open.borrow();
        let (mut position, head) = (self.tail.get(), self.head.get());
        assert!(head - position <= self.slots(), "{} is too full", self.name);
        for (&at, &(end, _)) in open.iter() {
            assert!(
                at >= position && end > at && end <= head,
                "{}: {at}",
                self.name
            );
            position = end;
        }
    }
}

/// Slots of a record with a body of `body` bytes: head line and body.
const fn slots(body: usize) -> u64 {
    1 + (body as u64).div_ceil(SLOT)
}

/// Encodes a position for the first line. A word of zeros is no valid encoding.
fn sealed(position: u64) -> u64 {
    let sum = crc32c::crc32c(&position.to_le_bytes()[..6]);
    position | u64::from(sum) << 48
}

/// Decodes a word of the first line; `None` if it is damaged.
fn unsealed(word: u64) -> Option<u64> {
    let position = word % MOST_POSITIONS;
    (sealed(position) == word).then_some(position)
}

fn checksum(position: u64, body: &[u8]) -> u32 {
    let sum = crc32c::crc32c(&position.to_le_bytes());
    let sum = crc32c::crc32c_append(sum, &(body.len() as u64).to_le_bytes());
    crc32c::crc32c_append(sum, body)
}

#[cfg(test)]
mod tests {
    use super::*;

    //= hyfim 3.4
    #[test]
    fn record_passes_four_states_and_one_is_redone() {
        let next = RecordState::ALL.map(RecordState::next);
        use RecordState::{Checkpointed, Checkpointing, Committed};
        let expected = [
            Some(Committed),
            Some(Checkpointing),
            Some(Checkpointed),
            None,
        ];
        assert_eq!(next, expected);
        let redone = RecordState::ALL.map(RecordState::is_redone);
        assert_eq!(redone, [false, false, true, false]);
        for state in RecordState::ALL {
            assert_eq!(RecordState::parse(state.word()), Some(state));
        }
        for word in [0, MARK, MARK | 5, u64::MAX, 1] {
            assert_eq!(RecordState::parse(word), None);
        }
    }

    /// The checksum is linear: whether a flip of given bits is detected does not depend on the
    /// position.
    #[test]
    fn position_and_state_words_with_flipped_bits_are_rejected() {
        for position in [0, 1, 0x1234_5678_9abc, MOST_POSITIONS - 1] {
            let word = sealed(position);
            assert_eq!(unsealed(word), Some(position));
            for one in 0..64 {
                assert_eq!(unsealed(word ^ 1 << one), None);
                for two in one + 1..64 {
                    assert_eq!(unsealed(word ^ 1 << one ^ 1 << two), None);
                }
            }
        }
        assert_eq!(unsealed(0), None);
        for state in RecordState::ALL {
            for bit in 0..64 {
                assert_eq!(RecordState::parse(state.word() ^ 1 << bit), None);
            }
        }
    }
}
