//! Layout of vfio-user messages: a header and a body that depends on the command.
//!
//! Invariants: a message is parsed once, and no length in it can exceed the received bytes. A
//! refusal is sent as an error number of the system.

use units::layout::Field;

/// Size of a message header in bytes.
pub(super) const HEADER_BYTES: usize = 16;
/// Most data bytes of one region access; more than all registers have.
pub(super) const ACCESS_MAX: usize = 32 << 10;
/// Most bytes of a message, header included.
pub(super) const MESSAGE_MAX: usize = 64 << 10;
/// Most descriptors in one message; QEMU rejects a server that announces more.
pub(super) const FILES_MAX: usize = 16;

/// Version of the protocol: major 0, minor 1.
//= vfio-user 2
const VERSION: (u16, u16) = (0, 1);
/// Regions of a PCI device: six of memory, one each of a ROM, of the configuration and
/// of a display.
const REGIONS: u32 = 9;
/// Kinds of interrupts that a monitor can query: INTx, MSI and MSI-X.
const INTERRUPTS: u32 = 3;

/// Index of the region with the registers (BAR 0).
pub(super) const REGISTERS: u32 = 0;
/// Index of the region with the configuration space.
pub(super) const CONFIG: u32 = 7;
/// Index of the kind of interrupts that the drive has: MSI-X.
const MESSAGES: u32 = 2;

//= vfio-user 1
mod header {
    units::layout! { 16:
        ID: u16 = 0,
        COMMAND: u16 = 2,
        SIZE: u32 = 4,
        FLAGS: u32 = 8,
        ERROR: u32 = 12,
    }
}

/// Bits in the flags of a header.
const REPLY: u32 = 1;
const NO_REPLY: u32 = 1 << 4;
const FAILED: u32 = 1 << 5;

/// Error of a message, returned as an error number of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// `EINVAL`: a field is invalid.
    Invalid,
    /// `EEXIST`: a range to map overlaps a mapped one.
    Exists,
    /// `ENOENT`: a range to unmap is not mapped.
    Missing,
    /// `ENOSPC`: no more ranges can be mapped.
    Full,
    /// `EOPNOTSUPP`: the command or version is not supported.
    Unsupported,
}

impl Refusal {
    const fn number(self) -> u32 {
        match self {
            Self::Missing => 2,
            Self::Exists => 17,
            Self::Invalid => 22,
            Self::Full => 28,
            Self::Unsupported => 95,
        }
    }
}

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    id: u16,
    command: u16,
    flags: u32,
    /// Length of the body in bytes.
    pub(super) rest: usize,
}

impl Header {
    /// Decodes a header; `None` if it is invalid, and the boundaries of messages are lost.
    //= vfio-user 1
    pub(super) fn parse(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let size = header::SIZE.get(bytes) as usize;
        let fits = (HEADER_BYTES..=MESSAGE_MAX).contains(&size);
        let flags = header::FLAGS.get(bytes);
        // Only commands are valid: this server sends none, so no reply can arrive.
        (fits && flags & 0xf == 0).then(|| Self {
            id: header::ID.get(bytes),
            command: header::COMMAND.get(bytes),
            flags,
            rest: size - HEADER_BYTES,
        })
    }

    /// Encodes the reply with a body or an error; `None` if the monitor wants no reply.
    pub(super) fn reply(self, ended: Result<Vec<u8>, Refusal>) -> Option<Vec<u8>> {
        if self.flags & NO_REPLY != 0 {
            return None;
        }
        let mut bytes = vec![0; HEADER_BYTES];
        header::ID.put(&mut bytes, self.id);
        header::COMMAND.put(&mut bytes, self.command);
        match ended {
            Ok(body) => {
                header::FLAGS.put(&mut bytes, REPLY);
                bytes.extend(body);
            }
            Err(refusal) => {
                header::FLAGS.put(&mut bytes, REPLY | FAILED);
                header::ERROR.put(&mut bytes, refusal.number());
            }
        }
        let size = bytes.len() as u32;
        header::SIZE.put(&mut bytes, size);
        Some(bytes)
    }
}

/// A parsed request of the monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request<'a> {
    /// Negotiates the protocol version: 0, with at most this minor revision.
    Version {
        minor: u16,
    },
    /// Maps a range of guest memory, backed by the file that comes with the message.
    Map {
        at: u64,
        len: u64,
        offset: u64,
        readable: bool,
        writable: bool,
    },
    /// Unmaps a range, or all ranges.
    Unmap {
        at: u64,
        len: u64,
        all: bool,
    },
    DeviceInfo,
    RegionInfo {
        region: u32,
    },
    InterruptInfo {
        kind: u32,
    },
    SetInterrupts(SetInterrupts),
    Read {
        region: u32,
        at: u64,
        len: usize,
    },
    Write {
        region: u32,
        at: u64,
        data: &'a [u8],
    },
    Reset,
}

/// Interrupts and the action on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SetInterrupts {
    pub(super) start: u32,
    pub(super) count: u32,
    pub(super) what: Interrupts,
}

/// Action of a [`SetInterrupts`] request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interrupts {
    /// Assigns the received descriptors to the vectors, or none if no descriptor came.
    Assign,
    /// Raises the vectors now.
    Raise,
    /// Removes the descriptors of all vectors.
    Disable,
    /// No effect: masks, which the monitor applies, and kinds that the drive never raises.
    Nothing,
}

/// Field of the body at offset `at`; [`Refusal::Invalid`] if the body ends before.
fn field<T: units::layout::Value>(body: &[u8], at: usize) -> Result<T, Refusal> {
    let there = body.len() >= at + T::SIZE;
    there
        .then(|| Field::<T>::at(at).get(body))
        .ok_or(Refusal::Invalid)
}

impl<'a> Request<'a> {
    //= vfio-user 2
    pub(super) fn parse(header: Header, body: &'a [u8]) -> Result<Self, Refusal> {
        let dword = |at| field::<u32>(body, at);
        let qword = |at| field::<u64>(body, at);
        Ok(match header.command {
            1 => version(body)?,
            2 => {
                let flags = dword(4)?;
                Self::Map {
                    offset: qword(8)?,
                    at: qword(16)?,
                    len: qword(24)?,
                    readable: flags & 1 != 0,
                    writable: flags & 2 != 0,
                }
            }
            3 => unmap(body)?,
            4 => Self::DeviceInfo,
            5 => Self::RegionInfo { region: dword(8)? },
            7 => Self::InterruptInfo { kind: dword(8)? },
            8 => Self::SetInterrupts(set_interrupts(body)?),
            9 => Self::Read {
                at: qword(0)?,
                region: dword(8)?,
                len: access(dword(12)?)?,
            },
            10 => {
                let len = access(dword(12)?)?;
                Self::Write {
                    at: qword(0)?,
                    region: dword(8)?,
                    data: body.get(16..16 + len).ok_or(Refusal::Invalid)?,
                }
            }
            13 => Self::Reset,
            _ => return Err(Refusal::Unsupported),
        })
    }
}

/// Length of a region access: from 1 to [`ACCESS_MAX`] bytes.
fn access(len: u32) -> Result<usize, Refusal> {
    let len = len as usize;
    let fits = (1..=ACCESS_MAX).contains(&len);
    fits.then_some(len).ok_or(Refusal::Invalid)
}

fn version(body: &[u8]) -> Result<Request<'_>, Refusal> {
    let (major, minor) = (field::<u16>(body, 0)?, field(body, 2)?);
    let known = major == VERSION.0;
    known
        .then_some(Request::Version { minor })
        .ok_or(Refusal::Unsupported)
}

fn unmap(body: &[u8]) -> Result<Request<'_>, Refusal> {
    match field::<u32>(body, 4)? {
        // Dirty page tracking is not supported.
        flags if flags & 1 != 0 => Err(Refusal::Unsupported),
        flags => Ok(Request::Unmap {
            at: field(body, 8)?,
            len: field(body, 16)?,
            all: flags & 2 != 0,
        }),
    }
}

/// Decodes a Set Interrupts request. MSI-X vectors can be assigned, raised and disabled; the
/// monitor applies masks itself.
fn set_interrupts(body: &[u8]) -> Result<SetInterrupts, Refusal> {
    let (flags, kind) = (field::<u32>(body, 4)?, field::<u32>(body, 8)?);
    let (start, count) = (field(body, 12)?, field(body, 16)?);
    if kind >= INTERRUPTS {
        return Err(Refusal::Invalid);
    }
    let (data, action) = (flags & 0b111, flags >> 3);
    let what = match (data, action) {
        _ if kind != MESSAGES => Interrupts::Nothing,
        (0b001, 0b100) if count == 0 => Interrupts::Disable,
        (0b001, 0b100) => Interrupts::Raise,
        (0b100, 0b100) => Interrupts::Assign,
        (_, 0b001 | 0b010) => Interrupts::Nothing,
        _ => return Err(Refusal::Invalid),
    };
    Ok(SetInterrupts { start, count, what })
}

/// Version reply to a monitor of minor revision `minor`: the revision in use, and the message
/// limits.
pub(super) fn told_version(minor: u16, ranges: usize) -> Vec<u8> {
    let minor = minor.min(VERSION.1);
    let mut bytes = [VERSION.0.to_le_bytes(), minor.to_le_bytes()].concat();
    let capabilities = format!(
        "{{\"capabilities\":{{\"max_msg_fds\":{FILES_MAX},\
         \"max_data_xfer_size\":{ACCESS_MAX},\"max_dma_maps\":{ranges},\
         \"pgsizes\":4096}}}}\0"
    );
    bytes.extend(capabilities.into_bytes());
    bytes
}

/// Encodes 32-bit numbers one after the other, little endian.
fn dwords(values: &[u32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

/// Device information: a PCI device that supports reset.
pub(super) fn told_device() -> Vec<u8> {
    dwords(&[16, 0b11, REGIONS, INTERRUPTS])
}

/// Region information of a region of `len` bytes.
pub(super) fn told_region(region: u32, len: u64) -> Result<Vec<u8>, Refusal> {
    if region >= REGIONS {
        return Err(Refusal::Invalid);
    }
    // A region that exists is readable and writable.
    let flags = if len > 0 { 0b11 } else { 0 };
    let mut bytes = dwords(&[32, flags, region, 0]);
    bytes.extend(len.to_le_bytes());
    bytes.extend(0_u64.to_le_bytes());
    Ok(bytes)
}

/// Interrupt information; `vectors` is the number of message interrupts.
pub(super) fn told_interrupts(kind: u32, vectors: u32) -> Result<Vec<u8>, Refusal> {
    match kind {
        // Flag 1: raised by an eventfd.
        MESSAGES => Ok(dwords(&[16, 1, kind, vectors])),
        kind if kind < INTERRUPTS => Ok(dwords(&[16, 0, kind, 0])),
        _ => Err(Refusal::Invalid),
    }
}

/// Reply to a region access: its parameters, and the data of a read.
pub(super) fn told_access(region: u32, at: u64, len: usize, data: &[u8]) -> Vec<u8> {
    let mut bytes = at.to_le_bytes().to_vec();
    bytes.extend(dwords(&[region, len as u32]));
    bytes.extend_from_slice(data);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn head(command: u16, flags: u32, size: u32) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        header::ID.put(&mut bytes, 9);
        header::COMMAND.put(&mut bytes, command);
        header::FLAGS.put(&mut bytes, flags);
        header::SIZE.put(&mut bytes, size);
        bytes
    }

    //= vfio-user 1
    #[test]
    fn a_reply_names_its_message_and_is_left_out_where_none_is_wanted() {
        let header = Header::parse(&head(9, 0, 32)).expect("it is one");
        assert_eq!(header.rest, 16);
        let reply = header.reply(Ok(vec![7; 3])).expect("wanted");
        let expected = [9, 0, 9, 0, 19, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7, 7, 7];
        assert_eq!(reply, expected);
        let refused = header.reply(Err(Refusal::Exists)).expect("wanted");
        let expected = [9, 0, 9, 0, 16, 0, 0, 0, 0x21, 0, 0, 0, 17, 0, 0, 0];
        assert_eq!(refused, expected);
        let silent = Header::parse(&head(9, NO_REPLY, 32)).expect("it is one");
        assert_eq!(silent.reply(Ok(Vec::new())), None);
        for (flags, size) in [(0, 15), (0, MESSAGE_MAX as u32 + 1), (1, 16), (0, u32::MAX)] {
            assert_eq!(Header::parse(&head(9, flags, size)), None);
        }
    }

    proptest! {
        #[test]
        fn any_body_is_parsed_or_refused(
            command in 0_u16..20,
            body in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            let size = (HEADER_BYTES + body.len()) as u32;
            let header = Header::parse(&head(command, 0, size)).expect("it fits");
            if let Ok(Request::Write { data, .. }) = Request::parse(header, &body) {
                prop_assert!(data.len() + 16 <= body.len());
            }
        }
    }
}
