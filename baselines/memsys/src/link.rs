//! CXL.mem over PCI Express: messages, their bytes on the wire, and their arrival times.
//!
//! Both directions work in parallel, and each serialises its messages. A direction is a
//! calendar of reserved time per slice, so a message requested late but sent early does not
//! wait for one sent far ahead.
//!
//! A flit of 68 bytes carries four slots of 16 bytes; a request or a header takes a
//! slot, data take four, and a response without data half a slot.
//!
//! | number | value | source |
//! | --- | --- | --- |
//! | rate | 16 GB/s a direction | `skybyte` Table II, PCIe 5.0 by four lanes |
//! | protocol | 40 ns for a request and its answer | `skybyte` Table II |
//! | flit | 68 bytes for 64 | CXL 3.0, 4.2 |
//! | slots | 16 bytes | CXL 3.0, 4.2 |

use crate::config::{Invalid, LONGEST};
use crate::far::Tag;
use crate::tick::Tick;
use serde::{Deserialize, Serialize};
use units::Ns;

/// Request of the host to the device's memory, as coded in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Reads a line; carries no data.
    MemRd(Tag),
    /// Writes a line; carries its data.
    MemWr(Tag),
}

/// A response without data.
//= skybyte 3.1
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ndr {
    /// A write, a read or an invalidation is done.
    Cmp = 0b000,
    /// Completion; the line is shared.
    CmpShared = 0b001,
    /// Completion; the line is exclusive.
    CmpExclusive = 0b010,
    /// Acknowledges a conflict.
    BiConflictAck = 0b100,
    /// The read of this tag takes long: no data will come for it. SkyByte's use of an
    /// opcode that the specification reserves.
    SkyByteDelay = 0b111,
}

impl Ndr {
    /// Encoding of the opcode, in three bits.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Decodes an opcode; `None` if it is reserved.
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0b000 => Self::Cmp,
            0b001 => Self::CmpShared,
            0b010 => Self::CmpExclusive,
            0b100 => Self::BiConflictAck,
            0b111 => Self::SkyByteDelay,
            _ => return None,
        })
    }
}

/// Message from the device to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Response {
    /// Data of a line, in answer to a read.
    MemData(Tag),
    /// A response without data.
    NoData(Ndr, Tag),
    /// An interrupt: a write of four bytes to the host (MSI-X).
    Interrupt,
}

/// Bandwidth, latency and framing of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LinkConfig {
    /// Bandwidth of each direction, in bytes a second.
    pub bytes_per_second: u64,
    /// Protocol latency of a request and its response together, beyond their transfers.
    pub protocol: Ns,
    /// Whether headers and flits take bytes besides the 64 of a line.
    pub framing: bool,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            bytes_per_second: 16_000_000_000,
            protocol: Ns(40),
            framing: true,
        }
    }
}

/// Bytes of a flit's slot.
const SLOT: u64 = 16;
/// Bytes of a line.
const LINE: u64 = 64;

impl LinkConfig {
    /// Bytes on the wire for `slots` half slots and a line or none.
    const fn bytes(&self, half_slots: u64, data: bool) -> u64 {
        let data = if data { LINE } else { 0 };
        if self.framing {
            ((half_slots * SLOT / 2 + data) * 68).div_ceil(64)
        } else {
            data
        }
    }

    /// Bytes on the wire of a request.
    #[must_use]
    pub const fn request_bytes(&self, request: Request) -> u64 {
        match request {
            Request::MemRd(_) => self.bytes(2, false),
            Request::MemWr(_) => self.bytes(2, true),
        }
    }

    /// Bytes on the wire of a response.
    #[must_use]
    pub const fn response_bytes(&self, response: Response) -> u64 {
        match response {
            Response::MemData(_) => self.bytes(2, true),
            Response::NoData(..) => self.bytes(1, false),
            // A header of three words and one of data, on CXL.io.
            Response::Interrupt => self.bytes(2, false),
        }
    }

    /// Checks that every value is in range.
    ///
    /// # Errors
    /// Names the impossible value.
    pub fn check(&self) -> Result<(), Invalid> {
        let rate = self.bytes_per_second;
        Invalid::zero("bytes_per_second of the link", rate)?;
        Invalid::least("bytes_per_second of the link", rate, 1_000_000)?;
        Invalid::long(&[("protocol of the link", self.protocol, LONGEST)])
    }
}

/// Slices that a calendar looks ahead: some hundred microseconds.
const SLICES: usize = 4_096;

/// Calendar of one direction: reserved time of each slice.
#[derive(Clone, Debug)]
struct Calendar {
    width: u64,
    /// Number and reserved time of each slice, by number modulo [`SLICES`].
    slices: Vec<(u64, u64)>,
}

impl Calendar {
    fn new(width: Tick) -> Self {
        Self {
            width: width.0,
            slices: vec![(0, 0); SLICES],
        }
    }

    /// Reserves `span` from `from` on. Returns when it ends.
    fn take(&mut self, from: Tick, span: Tick) -> Tick {
        let mut number = from.0 / self.width;
        loop {
            let slice = &mut self.slices[number as usize % SLICES];
            if slice.0 != number {
                *slice = (number, 0);
            }
            if slice.1 + span.0 <= self.width {
                let start = from.0.max(number * self.width + slice.1);
                slice.1 += span.0;
                return Tick(start + span.0);
            }
            number += 1;
        }
    }
}

/// State of a link: calendars of both directions, and bytes carried.
#[derive(Clone, Debug)]
pub struct Link {
    down: Calendar,
    up: Calendar,
    half: Tick,
    bytes: LinkBytes,
    /// Bytes and wire time of each kind of message.
    read: Sent,
    write: Sent,
    data: Sent,
    answer: Sent,
    interrupt: Sent,
}

/// Bytes and wire time of a message.
#[derive(Clone, Copy, Debug)]
struct Sent {
    bytes: u64,
    span: Tick,
}

/// Bytes on the wire since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkBytes {
    /// From the host to the device.
    pub down: u64,
    /// From the device to the host.
    pub up: u64,
}

impl Link {
    /// An idle link.
    ///
    /// # Errors
    /// Names the impossible value of `config`.
    pub fn new(config: &LinkConfig) -> Result<Self, Invalid> {
        config.check()?;
        let longest = Tick::transfer(96, config.bytes_per_second);
        // At least sixteen messages a slice, so little of a slice is left unused.
        let width = longest.times(16).max(Tick::of(Ns(64)));
        let sent = |bytes| Sent {
            bytes,
            span: Tick::transfer(bytes, config.bytes_per_second),
        };
        let tag = Tag(0);
        Ok(Self {
            down: Calendar::new(width),
            up: Calendar::new(width),
            half: Tick(Tick::of(config.protocol).0 / 2),
            bytes: LinkBytes::default(),
            read: sent(config.request_bytes(Request::MemRd(tag))),
            write: sent(config.request_bytes(Request::MemWr(tag))),
            data: sent(config.response_bytes(Response::MemData(tag))),
            answer: sent(config.response_bytes(Response::NoData(Ndr::Cmp, tag))),
            interrupt: sent(config.response_bytes(Response::Interrupt)),
        })
    }

    /// Sends a request at `now`. Returns when it reaches the device.
    pub fn down(&mut self, now: Tick, request: Request) -> Tick {
        let sent = match request {
            Request::MemRd(_) => self.read,
            Request::MemWr(_) => self.write,
        };
        self.bytes.down += sent.bytes;
        self.down.take(now, sent.span) + self.half
    }

    /// Sends a response at `now`. Returns when it reaches the host.
    pub fn up(&mut self, now: Tick, response: Response) -> Tick {
        let sent = match response {
            Response::MemData(_) => self.data,
            Response::NoData(..) => self.answer,
            Response::Interrupt => self.interrupt,
        };
        self.bytes.up += sent.bytes;
        self.up.take(now, sent.span) + self.half
    }

    /// Wire time of a line sent to the host.
    pub(crate) fn data_span(&self) -> Tick {
        self.data.span
    }

    /// Latency that an idle link adds to a read, on top of the time within the device.
    #[must_use]
    pub fn at_rest(&self) -> Tick {
        self.half.times(2) + self.read.span + self.data.span
    }

    /// Bytes carried so far, by direction.
    #[must_use]
    pub fn bytes(&self) -> LinkBytes {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opcodes_are_those_of_the_specification() {
        //= skybyte 3.1
        assert_eq!(Ndr::SkyByteDelay.code(), 0b111);
        for code in 0..8 {
            if let Some(ndr) = Ndr::from_code(code) {
                assert_eq!(ndr.code(), code);
            }
        }
        assert_eq!((0..8).filter(|&c| Ndr::from_code(c).is_some()).count(), 5);
    }

    /// Bytes a second of data that `outstanding` reads reach when the device needs
    /// `device` for each.
    fn closed_loop(config: &LinkConfig, device: Ns, outstanding: usize) -> f64 {
        let mut link = Link::new(config).unwrap();
        let mut ready = vec![Tick::ZERO; outstanding];
        let reads = 60_000;
        for n in 0..reads {
            let slot = n % outstanding;
            let there = link.down(ready[slot], Request::MemRd(Tag(0)));
            ready[slot] = link.up(there + Tick::of(device), Response::MemData(Tag(0)));
        }
        let end = ready.iter().max().unwrap();
        reads as f64 * 64.0 * Tick::PER_NS as f64 * 1e9 / end.0 as f64
    }

    #[test]
    fn as_many_lines_fill_the_link_as_latency_times_bandwidth_says() {
        // 16 GB/s and 3 µs: 3,000 · 16 / 64 = 750 lines.
        //= skybyte 2.3
        let config = LinkConfig {
            framing: false,
            protocol: Ns::ZERO,
            ..LinkConfig::default()
        };
        let full = closed_loop(&config, Ns(3_000), 760) / 16e9;
        let half = closed_loop(&config, Ns(3_000), 375) / 16e9;
        assert!(full > 0.96, "{full}");
        assert!((0.48..0.51).contains(&half), "{half}");
    }

    #[test]
    fn headers_and_flits_take_their_share() {
        let config = LinkConfig::default();
        let data = config.response_bytes(Response::MemData(Tag(1)));
        assert_eq!(data, 85);
        let reached = closed_loop(&config, Ns(3_000), 1_500);
        let peak = 16e9 * 64.0 / data as f64;
        assert!((0.96..1.001).contains(&(reached / peak)), "{reached}");
    }

    #[test]
    fn a_lone_read_is_the_sum_of_its_parts() {
        let mut link = Link::new(&LinkConfig::default()).unwrap();
        let rest = link.at_rest();
        let there = link.down(Tick::of(Ns(1_000)), Request::MemRd(Tag(0)));
        let back = link.up(there, Response::MemData(Tag(0)));
        assert_eq!(back - Tick::of(Ns(1_000)), rest);
        assert_eq!(link.bytes(), LinkBytes { down: 17, up: 85 });
    }

    #[test]
    fn early_message_does_not_wait_for_a_late_one() {
        let mut link = Link::new(&LinkConfig::default()).unwrap();
        let late = link.up(Tick::of(Ns(50_000)), Response::MemData(Tag(0)));
        let early = link.up(Tick::of(Ns(100)), Response::MemData(Tag(1)));
        assert!(early < Tick::of(Ns(200)) && late > Tick::of(Ns(50_000)));
    }
}
