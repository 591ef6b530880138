//! Layout of the addresses of several devices on one drive.
//!
//! Invariant: addresses of two devices never overlap unless [`Devices::Together`] says so. The
//! memory of a layout is bounded by [`DEVICES_MAX`] and [`PIECES_MAX`].

use super::event::Event;
use super::{MAX_ADDRESS, RECORDED_MAX};
use input::{Expected, expected};
use std::collections::BTreeMap;
use std::str::FromStr;
use units::{Bytes, GIB, SECTOR};

/// Treatment of a trace of several devices (the disks of MSR, the devices of `MQSim` and of the
/// kernel, the files of fio, the volumes of clouds).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Devices {
    /// Packed for formats that hold many volumes, together for the others.
    #[default]
    Auto,
    /// One address space; addresses stay as they are.
    Together,
    /// Each device in pieces of 1 GiB, which are laid out one behind the other in the order of
    /// first use: addresses stay apart and the drive stays small.
    Packed,
    /// As packed, and the device of a request is its origin, so that devices are tenants beside each
    /// other: each has its own part of the drive, and its own handle with `placement=origin`.
    Tenants,
    /// Only the device of this number; its addresses stay as they are. The kernel's `major,minor`
    /// counts as `major << 20 | minor`, a file of fio by its index in the order of first appearance
    /// in the log, from 0.
    Only(u64),
    /// One device behind the other, in the order of first appearance, at this distance.
    Apart(Bytes),
}

/// Sectors of a piece of a packed device: 1 GiB.
pub(super) const PIECE: u64 = GIB / SECTOR;

/// Upper bound on the devices that are told apart.
const DEVICES_MAX: usize = 16_384;

/// Upper bound on the pieces of packed devices: 1 PiB.
const PIECES_MAX: usize = 1 << 20;

/// Range of sectors: first sector and count.
type Range = (u64, u64);

/// Map from the addresses of a trace's devices to those of the drive.
pub(super) struct Layout {
    devices: Devices,
    /// Turn of each device: its index in the order of first appearance.
    seen: BTreeMap<u64, u64>,
    /// First sector on the drive of each piece, by device and piece number.
    pieces: BTreeMap<(u64, u64), u64>,
    /// Device of the request before, with its turn: a cache of `seen`.
    last: Option<(u64, u64)>,
    /// Piece looked up last, with its first sector: a cache of `pieces`.
    last_piece: Option<((u64, u64), u64)>,
    /// Remainder of the event that was divided last: its device and sectors there.
    rest: Option<(u64, Range)>,
}

impl Layout {
    /// A layout for a trace of many volumes or one machine, which resolves [`Devices::Auto`].
    pub(super) fn new(devices: Devices, has_volumes: bool) -> Self {
        let devices = match devices {
            Devices::Auto if has_volumes => Devices::Packed,
            Devices::Auto => Devices::Together,
            chosen => chosen,
        };
        Self {
            devices,
            seen: BTreeMap::new(),
            pieces: BTreeMap::new(),
            last: None,
            last_piece: None,
            rest: None,
        }
    }

    /// Devices met so far, at most [`DEVICES_MAX`].
    pub(super) fn devices(&self) -> u64 {
        self.seen.len() as u64
    }

    /// Whether devices are laid out in pieces.
    pub(super) fn is_packed(&self) -> bool {
        matches!(self.devices, Devices::Packed | Devices::Tenants)
    }

    /// Whether the device of a request is its origin.
    pub(super) fn has_tenants(&self) -> bool {
        self.devices == Devices::Tenants
    }

    /// Whether all devices share one range of addresses.
    pub(super) fn is_shared(&self) -> bool {
        self.devices == Devices::Together
    }

    /// First range of `event` on the drive; [`Self::rest`] has those that follow if the event
    /// crosses pieces that are not adjacent. `None` if its device is left out.
    pub(super) fn place(&mut self, event: &Event<'_>) -> Result<Option<Range>, Expected> {
        self.rest = None;
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
                (base + event.start, event.sectors)
            }
            Devices::Packed | Devices::Tenants => self.packed(event.device, whole)?,
            Devices::Auto | Devices::Together | Devices::Only(_) => whole,
        }))
    }

    /// The next range of the event that was placed last; `None` after its last one.
    pub(super) fn rest(&mut self) -> Result<Option<Range>, Expected> {
        match self.rest.take() {
            Some((device, range)) => self.packed(device, range).map(Some),
            None => Ok(None),
        }
    }

    /// Index of `device` in the order of first appearance.
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

    /// The part of a range of `device` up to the first piece that does not follow its predecessor.
    fn packed(&mut self, device: u64, (start, sectors): Range) -> Result<Range, Expected> {
        let within = start % PIECE;
        let first = self.piece(device, start / PIECE)? + within;
        let mut here = sectors.min(PIECE - within);
        while here < sectors {
            if self.piece(device, (start + here) / PIECE)? != first + here {
                self.rest = Some((device, (start + here, sectors - here)));
                break;
            }
            here += PIECE.min(sectors - here);
        }
        Ok((first, here))
    }

    /// First sector on the drive of a piece of `device`; a new piece goes behind the others.
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

/// Error: a text that is no choice of devices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected auto, together, packed, tenants, a device such as 3 or 8,0, or apart:64GiB, found \
     {found:?}"
)]
pub struct BadDevices {
    /// Text as it was given.
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
            "tenants" => return Ok(Self::Tenants),
            _ => {}
        }
        if let Some(distance) = text.strip_prefix("apart:") {
            let distance: Bytes = distance.parse().map_err(|_| refuse())?;
            return Ok(Self::Apart(distance));
        }
        let device = super::rwbs::device(text.as_bytes()).or_else(|| text.parse().ok());
        device.map(Self::Only).ok_or_else(refuse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Op;
    use crate::trace::event::Kind;

    #[test]
    fn devices_are_parsed_from_text() {
        assert_eq!("auto".parse(), Ok(Devices::Auto));
        assert_eq!("together".parse(), Ok(Devices::Together));
        assert_eq!("packed".parse(), Ok(Devices::Packed));
        assert_eq!("tenants".parse(), Ok(Devices::Tenants));
        assert_eq!("3".parse(), Ok(Devices::Only(3)));
        assert_eq!("8,1".parse(), Ok(Devices::Only(8 << 20 | 1)));
        assert_eq!("apart:1GiB".parse(), Ok(Devices::Apart(Bytes(1 << 30))));
        assert_eq!(
            "all".parse::<Devices>().unwrap_err().to_string(),
            "expected auto, together, packed, tenants, a device such as 3 or 8,0, or apart:64GiB, \
             found \"all\""
        );
    }

    #[test]
    fn packed_devices_never_meet_and_requests_across_pieces_are_divided() {
        let mut layout = Layout::new(Devices::Auto, true);
        let mut place = |device, start, sectors| {
            let event = Event {
                device,
                start,
                sectors,
                ..Event::new(Kind::Data(Op::Trim))
            };
            let mut ranges = vec![layout.place(&event).unwrap().unwrap()];
            ranges.extend(std::iter::from_fn(|| layout.rest().unwrap()));
            ranges
        };
        assert_eq!(place(7, 5 * PIECE + 16, 8), [(16, 8)]);
        assert_eq!(place(9, 16, 8), [(PIECE + 16, 8)]);
        // The next piece of device 9 follows at once, that of device 7 does not.
        assert_eq!(place(9, PIECE - 8, 16), [(2 * PIECE - 8, 16)]);
        let divided = place(7, 6 * PIECE - 8, 16);
        assert_eq!(divided, [(PIECE - 8, 8), (3 * PIECE, 8)]);
        // A trim of several pieces stays within those of its device.
        let long = place(9, 8, 4 * PIECE);
        let parts = [(PIECE + 8, 2 * PIECE - 8), (4 * PIECE, 2 * PIECE + 8)];
        assert_eq!(long, parts);
        assert_eq!((layout.devices(), layout.is_packed()), (2, true));
    }
}
