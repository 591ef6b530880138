//! Parser from received bytes to PDUs (called units here).
//!
//! Invariants: at most the beginning of one unit is buffered, and a unit that arrives whole is
//! parsed in place; the length of a unit is checked before its data are awaited.

use super::digest::{DIGEST, crc};
use super::pdu::{self, Format, Kind};
use crate::controller::INLINE_BYTES;

/// Most bytes of data that a host may send in one unit: an eighth of a transfer, which bounds the
/// buffer of an incomplete unit.
pub(super) const DATA_MAX: usize = 128 << 10;

/// Largest value of the one-byte data offset field.
const DATA_AT_MAX: usize = 255;

/// Fatal protocol errors of a host.
//= nvme-tcp 6
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fatal {
    /// Invalid header field, at this byte.
    Header(u32),
    /// Unit out of sequence.
    Sequence,
    /// Header digest mismatch; carries the expected digest.
    HeaderDigest(u32),
    /// Data outside any outstanding request.
    Range,
    /// More commands or data than allowed.
    Limit,
    /// Unsupported parameter, at this byte.
    Parameter(u32),
    /// The host terminated the connection.
    Ended,
}

impl Fatal {
    /// Reason and detail fields of the termination request; none if none is sent.
    pub(super) const fn code(self) -> Option<(u16, u32)> {
        match self {
            Self::Header(at) => Some((1, at)),
            Self::Sequence => Some((2, 0)),
            Self::HeaderDigest(expected) => Some((3, expected)),
            Self::Range => Some((4, 0)),
            Self::Limit => Some((5, 0)),
            Self::Parameter(at) => Some((6, at)),
            Self::Ended => None,
        }
    }
}

/// A completely received protocol data unit (PDU).
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unit<'a> {
    pub(super) kind: Kind,
    pub(super) header: &'a [u8],
    pub(super) data: &'a [u8],
    /// Whether the data digest matches (true if there is none).
    pub(super) is_sound: bool,
}

/// Offsets and lengths of a unit's parts.
struct Shape {
    kind: Kind,
    len: usize,
    data: std::ops::Range<usize>,
}

impl Shape {
    /// Splits the unit and checks its digests.
    fn unit(self, unit: &[u8], format: Format) -> Result<Unit<'_>, Fatal> {
        let header = &unit[..self.kind.header()];
        let opening = matches!(self.kind, Kind::OpenRequest | Kind::HostEnds);
        if format.header_digest && !opening {
            let expected = crc(header);
            if unit[header.len()..header.len() + DIGEST] != expected {
                return Err(Fatal::HeaderDigest(u32::from_le_bytes(expected)));
            }
        }
        let data = &unit[self.data.clone()];
        let is_sound =
            !format.data_digest || data.is_empty() || opening || unit[self.data.end..] == crc(data);
        Ok(Unit {
            kind: self.kind,
            header,
            data,
            is_sound,
        })
    }
}

/// Available part of the header of the first unit in `bytes`.
pub(super) fn head(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(Kind::Command.header())]
}

/// Removes the first unit from `bytes` if it is complete.
pub(super) fn next<'a>(bytes: &mut &'a [u8], format: Format) -> Result<Option<Unit<'a>>, Fatal> {
    if bytes.len() < pdu::COMMON {
        return Ok(None);
    }
    let shape = shape(bytes, format)?;
    let Some((unit, rest)) = bytes.split_at_checked(shape.len) else {
        return Ok(None);
    };
    let unit = shape.unit(unit, format)?;
    *bytes = rest;
    Ok(Some(unit))
}

/// Moves the missing bytes of a partial unit from `more` to `kept`, as far as available. Returns
/// whether the unit is complete.
pub(super) fn complete(
    kept: &mut Vec<u8>,
    more: &mut &[u8],
    format: Format,
) -> Result<bool, Fatal> {
    let mut fill = |kept: &mut Vec<u8>, len: usize| {
        let lacks = len.saturating_sub(kept.len()).min(more.len());
        let (taken, rest) = more.split_at(lacks);
        kept.extend_from_slice(taken);
        *more = rest;
        kept.len() >= len
    };
    if !fill(kept, pdu::COMMON) {
        return Ok(false);
    }
    let len = shape(kept, format)?.len;
    Ok(fill(kept, len))
}

/// Checks the common header and computes the layout of the unit.
//= nvme-tcp 1
fn shape(head: &[u8], format: Format) -> Result<Shape, Fatal> {
    let kind = Kind::of(pdu::KIND.get(head)).ok_or(Fatal::Header(0))?;
    let most = match kind {
        Kind::OpenRequest => 0,
        // Up to the header that the host reports as faulty.
        Kind::HostEnds => 128,
        Kind::Command => INLINE_BYTES,
        Kind::HostData => DATA_MAX,
        _ => return Err(Fatal::Sequence),
    };
    let header = kind.header();
    if usize::from(pdu::HEADER_LEN.get(head)) != header {
        return Err(Fatal::Header(2));
    }
    let opening = matches!(kind, Kind::OpenRequest | Kind::HostEnds);
    let digest = |is_there: bool| if is_there && !opening { DIGEST } else { 0 };
    let wrong_flag = |flag, wanted: bool| (pdu::FLAGS.get(head) & flag != 0) != wanted;
    let begin = header + digest(format.header_digest);
    if !opening && wrong_flag(pdu::HEADER_DIGEST, format.header_digest) {
        return Err(Fatal::Header(1));
    }
    let len = pdu::LEN.get(head) as usize;
    if len == begin || (opening && len >= begin && len <= begin + most) {
        let data = begin..len;
        return Ok(Shape { kind, len, data });
    }
    let at = usize::from(pdu::DATA_AT.get(head));
    if at < begin || !at.is_multiple_of(4) {
        return Err(Fatal::Header(3));
    }
    if wrong_flag(pdu::DATA_DIGEST, format.data_digest) {
        return Err(Fatal::Header(1));
    }
    let end = len.checked_sub(digest(format.data_digest));
    let end = end.filter(|&end| end > at && end - at <= most && at <= DATA_AT_MAX);
    let end = end.ok_or(Fatal::Header(4))?;
    Ok(Shape {
        kind,
        len,
        data: at..end,
    })
}
