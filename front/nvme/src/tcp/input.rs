//! Bytes of a host become units.
//!
//! Invariants: what is kept is at most one unit that has begun and the bytes that came
//! with its end; the length of a unit is checked before any of its data is waited for.

use super::digest::{DIGEST, crc};
use super::pdu::{self, Format, Kind};
use crate::controller::INLINE_BYTES;

/// Most bytes of data that a host may send in a unit: an eighth of a transfer, so that
/// little is kept of one that has not ended.
pub(super) const DATA_MAX: usize = 128 << 10;

/// Bytes before the data: as many as the field that says so can name.
const DATA_AT_MAX: usize = 255;

/// Why a connection can not go on.
//= nvme-tcp 6
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fatal {
    /// A field of a header, by its first byte.
    Header(u32),
    /// A unit that may not come now.
    Sequence,
    /// The digest of a header is not the one that was expected.
    HeaderDigest(u32),
    /// Data that nobody has asked for.
    Range,
    /// More than may be under way.
    Limit,
    /// Something that is not known here, by its first byte.
    Parameter(u32),
    /// The host has ended the connection.
    Ended,
}

impl Fatal {
    /// Reason and detail, as they are told; none if there is nothing to tell.
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

/// A whole unit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unit<'a> {
    pub(super) kind: Kind,
    pub(super) header: &'a [u8],
    pub(super) data: &'a [u8],
    /// Whether the digest of the data is the one that was expected.
    pub(super) is_sound: bool,
}

/// What has come and was not looked at.
#[derive(Default)]
pub(super) struct Input {
    bytes: Vec<u8>,
    /// Where the next unit begins.
    at: usize,
}

/// Where the parts of a unit lie.
struct Shape {
    kind: Kind,
    len: usize,
    data: std::ops::Range<usize>,
}

impl Input {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        // What was looked at is forgotten before more is kept.
        self.bytes.drain(..self.at);
        self.at = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Bytes that are kept.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The header of the unit that begins here, as far as it is there.
    pub(super) fn head(&self) -> &[u8] {
        let rest = &self.bytes[self.at..];
        &rest[..rest.len().min(Kind::Command.header())]
    }

    /// The next unit, if all of it has come.
    pub(super) fn next(&mut self, format: Format) -> Result<Option<Unit<'_>>, Fatal> {
        let rest = &self.bytes[self.at..];
        if rest.len() < pdu::COMMON {
            return Ok(None);
        }
        let shape = shape(rest, format)?;
        if rest.len() < shape.len {
            return Ok(None);
        }
        let unit = &self.bytes[self.at..self.at + shape.len];
        self.at += shape.len;
        let header = &unit[..shape.kind.header()];
        let opening = matches!(shape.kind, Kind::OpenRequest | Kind::HostEnds);
        if format.header_digest && !opening {
            let expected = crc(header);
            if unit[header.len()..header.len() + DIGEST] != expected {
                return Err(Fatal::HeaderDigest(u32::from_le_bytes(expected)));
            }
        }
        let data = &unit[shape.data.clone()];
        let is_sound = !format.data_digest
            || data.is_empty()
            || opening
            || unit[shape.data.end..] == crc(data);
        Ok(Some(Unit {
            kind: shape.kind,
            header,
            data,
            is_sound,
        }))
    }
}

/// Checks a common header.
//= nvme-tcp 1
fn shape(head: &[u8], format: Format) -> Result<Shape, Fatal> {
    let kind = Kind::of(pdu::KIND.get(head)).ok_or(Fatal::Header(0))?;
    let most = match kind {
        Kind::OpenRequest => 0,
        // The header of what the host did not like.
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
