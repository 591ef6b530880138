//! Where the addresses of several devices lie.
//!
//! Invariant: addresses of two devices never meet unless [`Devices::Together`] says
//! so. What is kept to that end is bounded by [`DEVICES_MAX`] and [`PIECES_MAX`].

use super::event::Event;
use super::{Format, MAX_ADDRESS, RECORDED_MAX};
use input::{Expected, expected};
use std::collections::BTreeMap;
use std::str::FromStr;
use units::{Bytes, GIB, SECTOR};

/// What becomes of a trace of several devices (the disks of MSR, the devices
/// of `MQSim` and of the kernel, the files of fio, the volumes of clouds).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Devices {
    /// Packed in formats that hold many volumes, together in the others.
    #[default]
    Auto,
    /// One address space, addresses as they stand.
    Together,
    /// Each in pieces of 1 GiB, which lie behind each other in the order in which
    /// they are first used: addresses stay apart and the drive stays small.
    Packed,
    /// Only this one, addresses as they stand. The kernel's `major,minor` counts as
    /// `major << 20 | minor`, a file of fio by its place among those that the log
    /// names, from 0.
    Only(u64),
    /// Each behind the other in order of first appearance, this far apart.
    Apart(Bytes),
}

/// Sectors of a piece of a device that is packed.
pub(super) const PIECE: u64 = GIB / SECTOR;

/// Most devices that are told apart.
const DEVICES_MAX: usize = 16_384;

/// Most pieces, which are 1 PiB.
const PIECES_MAX: usize = 1 << 20;

/// A range of sectors: first, how many.
type Range = (u64, u64);

/// Where requests go.
pub(super) struct Layout {
    devices: Devices,
    /// Devices by their turn.
    seen: BTreeMap<u64, u64>,
    /// Pieces by device and number, and where they begin.
    pieces: BTreeMap<(u64, u64), u64>,
    /// The device of the request before, and its turn.
    last: Option<(u64, u64)>,
    /// The piece that was looked up last, and where it begins.
    last_piece: Option<((u64, u64), u64)>,
}

impl Layout {
    /// The layout of a trace of this format.
    pub(super) fn new(devices: Devices, format: Format) -> Self {
        let devices = match devices {
            Devices::Auto if format.has_volumes() => Devices::Packed,
            Devices::Auto => Devices::Together,
            chosen => chosen,
        };
        Self {
            devices,
            seen: BTreeMap::new(),
            pieces: BTreeMap::new(),
            last: None,
            last_piece: None,
        }
    }

    /// How many devices were met.
    pub(super) fn devices(&self) -> u64 {
        self.seen.len() as u64
    }

    /// Whether devices are laid out in pieces.
    pub(super) fn is_packed(&self) -> bool {
        self.devices == Devices::Packed
    }

    /// Whether devices have the same addresses.
    pub(super) fn is_shared(&self) -> bool {
        self.devices == Devices::Together
    }

    /// Where `event` goes: one range, or two if pieces divide it. None if its device is
    /// not read.
    pub(super) fn place(
        &mut self,
        event: &Event<'_>,
    ) -> Result<Option<(Range, Option<Range>)>, Expected> {
        let whole = (event.start, event.sectors);
        let end = event.start.checked_add(event.sectors);
        if end.is_none_or(|end| end > RECORDED_MAX) {
            return expected("an address below 16 PiB");
        }
        if matches!(self.devices, Devices::Only(one) if one != event.device) {
            return Ok(None);
        }
        let turn = self.turn(event.device)?;
        Ok(Some(match self.devices {
            Devices::Apart(distance) => {
                let distance_sectors = distance.0 / SECTOR;
                if event.start + event.sectors > distance_sectors {
                    return expected(format!("a request within {distance} of its device's start"));
                }
                let base = turn.saturating_mul(distance_sectors);
                if base > MAX_ADDRESS - RECORDED_MAX {
                    return expected("devices that end below 8 EiB");
                }
                ((base + event.start, event.sectors), None)
            }
            Devices::Packed => self.packed(event)?,
            Devices::Auto | Devices::Together | Devices::Only(_) => (whole, None),
        }))
    }

    /// The place of `device` among those met.
    fn turn(&mut self, device: u64) -> Result<u64, Expected> {
        if let Some((_, turn)) = self.last.filter(|(last, _)| *last == device) {
            return Ok(turn);
        }
        let next = self.seen.len();
        let turn = match self.seen.get(&device) {
            Some(&turn) => turn,
            None if next < DEVICES_MAX => {
                self.seen.insert(device, next as u64);
                next as u64
            }
            None if self.is_shared() => return Ok(0),
            None => return expected(format!("at most {DEVICES_MAX} devices")),
        };
        self.last = Some((device, turn));
        Ok(turn)
    }

    fn packed(&mut self, event: &Event<'_>) -> Result<(Range, Option<Range>), Expected> {
        let (piece, within) = (event.start / PIECE, event.start % PIECE);
        // A request is shorter than a piece, so it meets at most two.
        let here = event.sectors.min(PIECE - within);
        let first = self.piece(event.device, piece)? + within;
        if here == event.sectors {
            return Ok(((first, here), None));
        }
        let second = self.piece(event.device, piece + 1)?;
        let rest = event.sectors - here;
        Ok(match second == first + here {
            true => ((first, event.sectors), None),
            false => ((first, here), Some((second, rest))),
        })
    }

    /// Where a piece begins.
    fn piece(&mut self, device: u64, piece: u64) -> Result<u64, Expected> {
        let key = (device, piece);
        if let Some((_, base)) = self.last_piece.filter(|(last, _)| *last == key) {
            return Ok(base);
        }
        let next = self.pieces.len();
        if next == PIECES_MAX && !self.pieces.contains_key(&key) {
            return expected("devices of which 1 PiB is used in all");
        }
        let base = *self.pieces.entry(key).or_insert(next as u64 * PIECE);
        self.last_piece = Some((key, base));
        Ok(base)
    }
}

/// A choice of devices that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected auto, together, packed, a device such as 3 or 8,0, or apart:64GiB, found {found:?}"
)]
pub struct BadDevices {
    /// The text as given.
    pub found: String,
}

impl FromStr for Devices {
    type Err = BadDevices;
    fn from_str(text: &str) -> Result<Self, BadDevices> {
        let refuse = || BadDevices {
            found: text.to_owned(),
        };
        match text {
            "auto" => return Ok(Self::Auto),
            "together" => return Ok(Self::Together),
            "packed" => return Ok(Self::Packed),
            _ => {}
        }
        if let Some(distance) = text.strip_prefix("apart:") {
            let distance: Bytes = distance.parse().map_err(|_| refuse())?;
            return Ok(Self::Apart(distance));
        }
        let device = super::rwbs::device(text).or_else(|| text.parse().ok());
        device.map(Self::Only).ok_or_else(refuse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Op;
    use crate::trace::event::Kind;

    #[test]
    fn devices_are_chosen_by_text() {
        assert_eq!("auto".parse(), Ok(Devices::Auto));
        assert_eq!("together".parse(), Ok(Devices::Together));
        assert_eq!("packed".parse(), Ok(Devices::Packed));
        assert_eq!("3".parse(), Ok(Devices::Only(3)));
        assert_eq!("8,1".parse(), Ok(Devices::Only(8 << 20 | 1)));
        assert_eq!("apart:1GiB".parse(), Ok(Devices::Apart(Bytes(1 << 30))));
        assert_eq!(
            "all".parse::<Devices>().unwrap_err().to_string(),
            "expected auto, together, packed, a device such as 3 or 8,0, or apart:64GiB, \
             found \"all\""
        );
    }

    #[test]
    fn packed_devices_never_meet_and_requests_across_pieces_are_divided() {
        let mut layout = Layout::new(Devices::Auto, Format::Alibaba);
        let mut place = |device, start, sectors| {
            let event = Event {
                device,
                start,
                sectors,
                ..Event::new(Kind::Data(Op::Write))
            };
            layout.place(&event).unwrap().unwrap()
        };
        assert_eq!(place(7, 5 * PIECE + 16, 8), ((16, 8), None));
        assert_eq!(place(9, 16, 8), ((PIECE + 16, 8), None));
        // The next piece of device 9 follows at once, that of device 7 does not.
        assert_eq!(place(9, PIECE - 8, 16), ((2 * PIECE - 8, 16), None));
        let divided = place(7, 6 * PIECE - 8, 16);
        assert_eq!(divided, ((PIECE - 8, 8), Some((3 * PIECE, 8))));
        assert_eq!((layout.devices(), layout.is_packed()), (2, true));
    }
}
