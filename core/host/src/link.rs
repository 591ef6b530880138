//! The PCI Express link: the time of a transfer on the wire.
//!
//! Invariant: the two directions are independent, and a transfer occupies its
//! direction for its payload and the headers of all its packets.
//!
//! | number | value | source |
//! | --- | --- | --- |
//! | transfers a second and lane | 8, 16, 32 GT/s | PCI Express 3.0, 4.0, 5.0 |
//! | line code | 128 of 130 bits | PCI Express 3.0 and later |
//! | packet of a write or read | 24 B and its payload | `neugebauer2018` 3: framing 2, link layer 6, header 16 |
//! | packet of a completion | 20 B and its payload | `neugebauer2018` 3: framing 2, link layer 6, header 12 |
//! | payload of a packet | 256 B | the usual setting of servers, `neugebauer2018` 3 |
//! | round trip | 900 ns | a choice of ours, see below |
//!
//! 64-byte reads by a device took 547 ns (median) on `neugebauer2018`'s Haswell host, and about 1 µs
//! through further silicon.
//!
//! Flow control and acknowledgement packets of the link layer are not modelled.

use crate::config::HostError;
use serde::{Deserialize, Serialize};
use units::{Ns, Rate};

/// Bytes of a memory write's packet besides its payload.
//= neugebauer2018 3
const WRITE_OVERHEAD: u64 = 24;
/// Bytes of a completion's packet besides its payload.
//= neugebauer2018 3
const COMPLETION_OVERHEAD: u64 = 20;

/// Bytes of a memory read's packet, without payload; as many as a write's overhead.
//= neugebauer2018 3
const REQUEST: u64 = 24;

/// Direction of a transfer, which decides the overhead of its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the drive: it reads host memory.
    ToDrive,
    /// To the host: the drive writes host memory.
    ToHost,
}

impl Direction {
    /// Bytes of a packet of data besides its payload.
    const fn overhead(self) -> u64 {
        match self {
            Self::ToDrive => COMPLETION_OVERHEAD,
            Self::ToHost => WRITE_OVERHEAD,
        }
    }
}

/// Configuration of the PCI Express link between host and drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Link {
    /// Generation of PCI Express: 3, 4 or 5.
    pub generation: u32,
    /// Lanes: 1, 2, 4, 8 or 16.
    pub lanes: u32,
    /// Maximum payload of a packet in bytes, a power of two from 128 to 4096.
    pub max_payload: u32,
    /// Time from a request by the drive to the first byte of its answer.
    pub round_trip: Ns,
}

impl Default for Link {
    /// Four lanes of the fourth generation, as most data centre drives have.
    fn default() -> Self {
        Self {
            generation: 4,
            lanes: 4,
            max_payload: 256,
            round_trip: Ns(900),
        }
    }
}

impl Link {
    pub(crate) fn check(&self) -> Result<(), HostError> {
        if !(3..=5).contains(&self.generation) {
            return Err(HostError::new(
                "link.generation",
                self.generation,
                "3, 4 or 5",
            ));
        }
        if ![1, 2, 4, 8, 16].contains(&self.lanes) {
            return Err(HostError::new("link.lanes", self.lanes, "1, 2, 4, 8 or 16"));
        }
        let payload = self.max_payload;
        if !payload.is_power_of_two() || !(128..=4096).contains(&payload) {
            let expected = "a power of two from 128 to 4096";
            return Err(HostError::new("link.max_payload", payload, expected));
        }
        Ok(())
    }

    /// Bytes a second in one direction, after the line code and before packets.
    #[must_use]
    pub const fn bytes_per_s(&self) -> u64 {
        let transfers = 1_000_000_000 << self.generation;
        transfers * self.lanes as u64 * 128 / 130 / 8
    }

    /// Bytes on the wire for `payload` bytes of data: the payload and the overhead of its
    /// packets.
    #[must_use]
    pub const fn wire_bytes(&self, payload: u64, direction: Direction) -> u64 {
        payload + direction.overhead() * payload.div_ceil(self.max_payload as u64)
    }

    /// Time that a core's store of `payload` bytes occupies the link to the drive.
    //= neugebauer2018 3
    #[must_use]
    pub const fn store(&self, payload: u64) -> Ns {
        Ns::transfer(payload + WRITE_OVERHEAD, self.bytes_per_s())
    }

    /// Times that a core's load of `payload` bytes occupies the link: its request in the
    /// direction of the drive, and its completion in the direction of the host.
    //= neugebauer2018 3
    #[must_use]
    pub const fn load(&self, payload: u64) -> (Ns, Ns) {
        let completion = payload + COMPLETION_OVERHEAD;
        (
            Ns::transfer(REQUEST, self.bytes_per_s()),
            Ns::transfer(completion, self.bytes_per_s()),
        )
    }

    /// Time that `payload` bytes and their packets occupy the link in `direction`.
    #[must_use]
    pub const fn transfer(&self, payload: u64, direction: Direction) -> Ns {
        Ns::transfer(self.wire_bytes(payload, direction), self.bytes_per_s())
    }

    /// Time until a message arrives that needs no answer: half a round trip.
    #[must_use]
    pub const fn one_way(&self) -> Ns {
        Ns(self.round_trip.0 / 2)
    }
}

/// A link with reciprocals of its numbers, for the hot path.
pub(crate) struct Wire {
    rate: Rate,
    /// Maximum payload of a packet, as a power of two.
    payload_bits: u32,
}

impl Wire {
    /// The wire of a checked link.
    pub(crate) const fn new(link: &Link) -> Self {
        Self {
            rate: Rate::new(link.bytes_per_s()),
            payload_bits: link.max_payload.trailing_zeros(),
        }
    }

    /// The same time as [`Link::transfer`] returns.
    #[inline]
    pub(crate) const fn transfer(&self, payload: u64, direction: Direction) -> Ns {
        let packets = (payload + (1 << self.payload_bits) - 1) >> self.payload_bits;
        self.rate.span(payload + direction.overhead() * packets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_the_specification() {
        let rate = |generation, lanes| {
            let link = Link {
                generation,
                lanes,
                ..Link::default()
            };
            link.bytes_per_s()
        };
        assert_eq!(rate(3, 1), 984_615_384);
        assert_eq!(rate(4, 4), 7_876_923_076);
        assert_eq!(rate(5, 16), 63_015_384_615);
    }

    #[test]
    fn wire_takes_the_times_of_its_link() {
        for (generation, lanes, max_payload) in [(3, 1, 128), (4, 4, 256), (5, 16, 4096)] {
            let link = Link {
                generation,
                lanes,
                max_payload,
                ..Link::default()
            };
            let wire = Wire::new(&link);
            for payload in [
                0,
                1,
                16,
                127,
                128,
                4096,
                4097,
                1 << 20,
                u64::from(u32::MAX) * 512,
            ] {
                for direction in [Direction::ToDrive, Direction::ToHost] {
                    let expected = link.transfer(payload, direction);
                    assert_eq!(wire.transfer(payload, direction), expected, "{payload}");
                }
            }
        }
    }

    #[test]
    fn packets_cost_their_headers() {
        let link = Link::default();
        assert_eq!(link.wire_bytes(4096, Direction::ToHost), 4096 + 16 * 24);
        assert_eq!(link.wire_bytes(4096, Direction::ToDrive), 4096 + 16 * 20);
        assert_eq!(link.wire_bytes(16, Direction::ToHost), 40);
        assert_eq!(link.wire_bytes(0, Direction::ToHost), 0);
    }
}
