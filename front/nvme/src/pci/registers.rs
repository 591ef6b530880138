//! Registers of the controller, as a guest accesses them.
//!
//! Invariants: reads have no effects. CC holds the state that the guest requests, and CSTS the
//! actual one, which the thread of the device sets. Requested resets are counted, so none is
//! missed if the guest enables the controller again at once.

use super::pointer::PAGE;
use crate::controller::{READY_TIMEOUT, VERSION, capabilities};
use crate::subsystem::QUEUES;
use units::layout::Field;

/// Queue pairs of a controller: the I/O queues and the admin queue.
pub(super) const PAIRS: usize = QUEUES as usize + 1;
/// MSI-X vectors: one for each queue pair.
pub(super) const VECTORS: usize = PAIRS;
/// Offset of the doorbells.
//= nvme-pcie 3.1.2
pub(super) const DOORBELLS_AT: u64 = 0x1000;
/// Offset of the MSI-X table.
pub(super) const TABLE_AT: usize = 0x2000;
/// Offset of the MSI-X pending bits.
pub(super) const PENDING_AT: usize = 0x3000;
/// Size of BAR 0 in bytes: registers, doorbells and MSI-X tables.
pub(super) const REGISTER_BYTES: usize = 0x4000;
//= nvme-2.1 3.1.4
mod field {
    units::layout! { 64:
        CAP: u64 = 0x00,
        VS: u32 = 0x08,
        INTMS: u32 = 0x0c,
        CC: u32 = 0x14,
        CSTS: u32 = 0x1c,
        AQA: u32 = 0x24,
        ASQ: u64 = 0x28,
        ACQ: u64 = 0x30,
    }
}

/// Bytes at the start of BAR 0 that hold registers.
const HEAD: usize = 64;
/// Bit of CC: enable (CC.EN).
const ENABLED: u32 = 1;

/// State of a controller, as CSTS shows it.
//= nvme-2.1 3.1.4.6
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Off,
    Ready,
    ShutDown,
    Failed,
}

/// Controller state that the guest requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Value of the register CC.
    pub(super) configuration: u32,
    /// Number of resets requested.
    pub(super) resets: u64,
}

impl Wanted {
    /// Whether the guest requests an enabled controller (CC.EN).
    pub(super) const fn enabled(self) -> bool {
        self.configuration & ENABLED != 0
    }

    /// Whether the guest requests a shutdown, normal or abrupt (CC.SHN).
    pub(super) const fn shut_down(self) -> bool {
        self.configuration >> 14 & 0b11 != 0
    }
}

/// Addresses and sizes of the admin queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AdminQueues {
    pub(super) submission: u64,
    pub(super) submission_entries: u32,
    pub(super) completion: u64,
    pub(super) completion_entries: u32,
}

/// Registers and MSI-X tables; the doorbells are kept in [`super::session::Shared`].
pub(super) struct Registers {
    bytes: [u8; HEAD],
    resets: u64,
    /// MSI-X table and pending bits: storage only, the monitor interprets them.
    tables: Vec<u8>,
}

impl Default for Registers {
    fn default() -> Self {
        let mut bytes = [0; HEAD];
        field::CAP.put(&mut bytes, capabilities(READY_TIMEOUT));
        field::VS.put(&mut bytes, VERSION);
        Self {
            bytes,
            resets: 0,
            tables: vec![0; REGISTER_BYTES - TABLE_AT],
        }
    }
}

impl Registers {
    /// Reads `len` bytes at offset `at`; doorbells read as zeros. `None` if the access is out of
    /// range.
    pub(super) fn read(&self, at: u64, len: usize) -> Option<Vec<u8>> {
        let span = within(at, len)?;
        let byte = |at: usize| match at {
            0..HEAD => self.bytes[at],
            TABLE_AT.. => self.tables[at - TABLE_AT],
            _ => 0,
        };
        Some(span.map(byte).collect())
    }

    /// Writes `data` at offset `at`. Returns whether the requested state of the controller has
    /// changed, or `None` if the access is out of range.
    pub(super) fn write(&mut self, at: u64, data: &[u8]) -> Option<bool> {
        let span = within(at, data.len())?;
        if span.start >= TABLE_AT {
            self.tables[span.start - TABLE_AT..span.end - TABLE_AT].copy_from_slice(data);
            return Some(false);
        }
        let before = self.wanted();
        let written = |field: usize, len: usize| span.start < field + len && field < span.end;
        for (own, len) in [
            (field::CC.at, 4),
            (field::AQA.at, 4),
            (field::ASQ.at, 8),
            (field::ACQ.at, 8),
        ] {
            // The admin queues cannot be changed while the controller is enabled.
            let fixed = before.enabled() && own != field::CC.at;
            if written(own, len) && !fixed {
                let own = own.max(span.start)..(own + len).min(span.end);
                let from = own.start - span.start..own.end - span.start;
                self.bytes[own].copy_from_slice(&data[from]);
            }
        }
        if before.enabled() && !self.wanted().enabled() {
            self.resets += 1;
        }
        Some(self.wanted() != before)
    }

    /// Controller state that the guest requests.
    pub(super) fn wanted(&self) -> Wanted {
        Wanted {
            configuration: field::CC.get(&self.bytes),
            resets: self.resets,
        }
    }

    /// Admin queues set by the guest; `None` if an address is not page aligned or a queue has
    /// fewer than two entries.
    //= nvme-2.1 3.1.4.7
    pub(super) fn admin_queues(&self) -> Option<AdminQueues> {
        let sizes = field::AQA.get(&self.bytes);
        let queues = AdminQueues {
            submission: field::ASQ.get(&self.bytes),
            submission_entries: (sizes & 0xfff) + 1,
            completion: field::ACQ.get(&self.bytes),
            completion_entries: (sizes >> 16 & 0xfff) + 1,
        };
        let aligned =
            queues.submission.is_multiple_of(PAGE) && queues.completion.is_multiple_of(PAGE);
        let fits = queues.submission_entries >= 2 && queues.completion_entries >= 2;
        (aligned && fits).then_some(queues)
    }

    /// Sets CSTS to `state`.
    pub(super) fn set_state(&mut self, state: State) {
        let value: u32 = match state {
            State::Off => 0,
            State::Ready => 1,
            // Processing of the shutdown is complete.
            State::ShutDown => 1 | 0b10 << 2,
            State::Failed => 0b10,
        };
        field::CSTS.put(&mut self.bytes, value);
    }

    /// Restores the values after power-on and counts a requested reset.
    pub(super) fn reset(&mut self) {
        *self = Self {
            resets: self.resets + 1,
            ..Self::default()
        };
    }
}

/// Range of an access in BAR 0; `None` if it reaches past the end, or from the registers into
/// the MSI-X tables.
fn within(at: u64, len: usize) -> Option<std::ops::Range<usize>> {
    let at = usize::try_from(at).ok()?;
    let end = at.checked_add(len)?;
    let is_one = at >= TABLE_AT || end <= TABLE_AT;
    (end <= REGISTER_BYTES && is_one).then_some(at..end)
}

/// A doorbell with the index of its queue.
//= nvme-pcie 3.1.2
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doorbell {
    /// Tail doorbell of a submission queue.
    Tail(usize),
    /// Head doorbell of a completion queue.
    Head(usize),
}

/// Decodes a write of `data` at offset `at` as a doorbell and its value; `None` if the access is
/// no valid doorbell write.
pub(super) fn doorbell(at: u64, data: &[u8]) -> Option<(Doorbell, u32)> {
    let number = at.checked_sub(DOORBELLS_AT)?;
    let pair = usize::try_from(number / 8).ok()?;
    if !number.is_multiple_of(4) || data.len() != 4 || pair >= PAIRS {
        return None;
    }
    let which = match number % 8 {
        0 => Doorbell::Tail(pair),
        _ => Doorbell::Head(pair),
    };
    Some((which, Field::at(0).get(data)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dword(registers: &Registers, at: u64) -> u32 {
        Field::at(0).get(&registers.read(at, 4).expect("it is there"))
    }

    //= nvme-2.1 3.1.4
    #[test]
    fn guest_writes_cc_and_reads_csts() {
        let mut registers = Registers::default();
        let mut write = |at, value: u32| registers.write(at, &value.to_le_bytes());
        assert_eq!(write(0x24, 0x001f_003f), Some(false));
        assert_eq!(write(0x28, 0x1000), Some(false));
        assert_eq!(write(0x30, 0x3000), Some(false));
        assert_eq!(write(0x1c, 7), Some(false), "the state is not the guest's");
        assert_eq!(write(0, 7), Some(false));
        assert_eq!(write(0x14, 0x46_0001), Some(true));
        assert_eq!(write(0x28, 0x5000), Some(false), "fixed while it is used");
        let queues = registers.admin_queues().expect("they are right");
        assert_eq!((queues.submission, queues.submission_entries), (0x1000, 64));
        assert_eq!((queues.completion, queues.completion_entries), (0x3000, 32));
        assert_eq!(dword(&registers, 0x1c), 0);
        registers.set_state(State::Ready);
        assert_eq!(
            (dword(&registers, 0x1c), dword(&registers, 0x14)),
            (1, 0x46_0001)
        );
        assert_eq!(dword(&registers, 8), 0x2_0100);
    }

    #[test]
    fn no_reset_is_missed() {
        let mut registers = Registers::default();
        for value in [1_u32, 0, 1] {
            assert_eq!(registers.write(0x14, &value.to_le_bytes()), Some(true));
        }
        let wanted = registers.wanted();
        assert_eq!((wanted.enabled(), wanted.resets), (true, 1));
        registers.reset();
        assert_eq!(
            (registers.wanted().enabled(), registers.wanted().resets),
            (false, 2)
        );
    }

    #[test]
    fn admin_queues_of_one_entry_or_within_a_page_are_none() {
        let mut registers = Registers::default();
        for (sizes, at) in [(0x1f, 0), (0x1f_0000, 0), (0x1f_001f, 0x10)] {
            registers
                .write(0x24, &u32::to_le_bytes(sizes))
                .expect("there");
            registers.write(0x28, &u64::to_le_bytes(at)).expect("there");
            assert_eq!(registers.admin_queues(), None, "{sizes:x} {at:x}");
        }
    }

    //= nvme-pcie 3.1.2
    #[test]
    fn doorbells_come_in_pairs() {
        let value = 5_u32.to_le_bytes();
        assert_eq!(doorbell(0x1000, &value), Some((Doorbell::Tail(0), 5)));
        assert_eq!(doorbell(0x1014, &value), Some((Doorbell::Head(2), 5)));
        let end = 0x1000 + 8 * PAIRS as u64;
        for at in [0x14, 0xffc, 0x1002, end, u64::MAX] {
            assert_eq!(doorbell(at, &value), None, "{at:x}");
        }
        assert_eq!(doorbell(0x1000, &[0; 8]), None);
    }

    #[test]
    fn there_is_nothing_behind_their_end_nor_across_the_tables() {
        let mut registers = Registers::default();
        for (at, len) in [(0x3ffd, 4), (0x1ffe, 4), (0x4000, 1), (u64::MAX, 4)] {
            assert_eq!(registers.read(at, len), None);
            assert_eq!(registers.write(at, &vec![0; len]), None);
        }
        assert_eq!(registers.write(0x2ffe, &[1, 2, 3, 4]), Some(false));
        assert_eq!(registers.read(0x2ffe, 4), Some(vec![1, 2, 3, 4]));
    }
}
