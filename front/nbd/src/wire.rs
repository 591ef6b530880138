//! Byte layout of the protocol: the only module that knows it.
//!
//! Numbers are big endian. Names of constants are those of the specification.
//= nbd 2

/// Magic number at the start of the server's greeting: `NBDMAGIC`.
pub const INIT: u64 = 0x4e42_444d_4147_4943;
/// Magic number before each option, and after [`INIT`] in the greeting: `IHAVEOPT`.
pub const OPTION: u64 = 0x4948_4156_454f_5054;
/// Magic number before each reply to an option.
pub const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
/// Magic number at the start of each request.
pub const REQUEST: u32 = 0x2560_9513;
/// Magic number at the start of a simple reply.
pub const SIMPLE_REPLY: u32 = 0x6744_6698;
/// Magic number at the start of each chunk of a structured reply.
pub const STRUCTURED_REPLY: u32 = 0x668e_33ef;

/// Handshake flags of the server: fixed newstyle, and no zeros after the export.
pub const HANDSHAKE: u16 = 0b11;
/// Longest data of an option: names have at most 4,096 bytes.
pub const OPTION_MAX: u32 = 16 * 1024;
/// Most data bytes of a request: the limit that clients assume unless told otherwise.
pub const DATA_MAX: u32 = 32 << 20;
/// Bytes of a request's header.
pub const REQUEST_BYTES: usize = 28;
/// Name of the metadata context for allocation.
pub const ALLOCATION: &[u8] = b"base:allocation";
/// Number that replies use for the context [`ALLOCATION`].
pub const ALLOCATION_ID: u32 = 1;

/// Numbers of the options in the handshake.
pub mod option {
    #![allow(missing_docs, reason = "these are the specification's words")]
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const STARTTLS: u32 = 5;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
    pub const LIST_META_CONTEXT: u32 = 9;
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Kinds of replies to options.
pub mod reply {
    #![allow(missing_docs, reason = "these are the specification's words")]
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    pub const INFO: u32 = 3;
    pub const META_CONTEXT: u32 = 4;
    pub const ERR_UNSUP: u32 = 1 << 31 | 1;
    pub const ERR_INVALID: u32 = 1 << 31 | 3;
    pub const ERR_TLS_REQD: u32 = 1 << 31 | 5;
    pub const ERR_UNKNOWN: u32 = 1 << 31 | 6;
    pub const ERR_TOO_BIG: u32 = 1 << 31 | 9;
    pub const INFO_EXPORT: u16 = 0;
    pub const INFO_NAME: u16 = 1;
    pub const INFO_BLOCK_SIZE: u16 = 3;
}

/// Transmission flags: abilities of an export.
pub mod can {
    #![allow(missing_docs, reason = "these are the specification's words")]
    pub const HAS_FLAGS: u16 = 1 << 0;
    pub const SEND_FLUSH: u16 = 1 << 2;
    pub const SEND_FUA: u16 = 1 << 3;
    pub const SEND_TRIM: u16 = 1 << 5;
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub const SEND_DF: u16 = 1 << 7;
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    pub const SEND_CACHE: u16 = 1 << 10;
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
    /// Every flag that this server sets; [`SEND_DF`] needs structured replies besides.
    pub const ALL: u16 = HAS_FLAGS
        | SEND_FLUSH
        | SEND_FUA
        | SEND_TRIM
        | SEND_WRITE_ZEROES
        | CAN_MULTI_CONN
        | SEND_CACHE
        | SEND_FAST_ZERO;
}

/// Flags of a request.
pub mod flag {
    #![allow(missing_docs, reason = "these are the specification's words")]
    pub const FUA: u16 = 1 << 0;
    pub const NO_HOLE: u16 = 1 << 1;
    pub const DF: u16 = 1 << 2;
    pub const REQ_ONE: u16 = 1 << 3;
    pub const FAST_ZERO: u16 = 1 << 4;
}

/// Kinds of parts of a structured reply.
pub mod part {
    #![allow(missing_docs, reason = "these are the specification's words")]
    pub const DONE: u16 = 1;
    pub const NONE: u16 = 0;
    pub const OFFSET_DATA: u16 = 1;
    pub const BLOCK_STATUS: u16 = 5;
    pub const ERROR: u16 = 1 << 15 | 1;
}

/// Error codes of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Code {
    /// `EPERM`: the drive is read-only.
    NotPermitted = 1,
    /// `EIO`: the drive reported an error.
    Io = 5,
    /// `EINVAL`: the request is malformed, or a read, trim or query reaches past the end.
    Invalid = 22,
    /// `ENOSPC`: a write reaches past the end.
    NoSpace = 28,
    /// `EOVERFLOW`: the request is longer than [`DATA_MAX`].
    Overflow = 75,
    /// `ENOTSUP`: the zeros cannot be written as fast as requested.
    NotSupported = 95,
    /// `ESHUTDOWN`: the drive is powered off.
    Shutdown = 108,
}

/// Command of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Reads the range; the data follow the header of the answer.
    Read,
    /// Writes the range; the data follow the header.
    Write,
    /// Ends the connection; has no answer.
    Disconnect,
    /// Makes acknowledged writes durable.
    Flush,
    /// Discards the range: its contents are not needed any more.
    Trim,
    /// Hints that the range will be read soon.
    Cache,
    /// Fills the range with zeros.
    WriteZeroes,
    /// Queries the allocation of the range.
    BlockStatus,
    /// Unknown command number; answered with [`Code::Invalid`].
    Unknown(u16),
}

/// A request without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Union of the bits in [`flag`].
    pub flags: u16,
    /// Command, decoded from its number.
    pub command: Command,
    /// Identifier chosen by the client and repeated in the answer.
    pub cookie: u64,
    /// Offset of the range in bytes.
    pub offset: u64,
    /// Length of the range in bytes.
    pub length: u32,
}

impl Request {
    /// Decodes a request header; `None` if `bytes` do not begin with [`REQUEST`].
    #[must_use]
    pub fn parse(bytes: &[u8; REQUEST_BYTES]) -> Option<Self> {
        let mut at = Fields(bytes);
        if at.u32()? != REQUEST {
            return None;
        }
        let flags = at.u16()?;
        let command = match at.u16()? {
            0 => Command::Read,
            1 => Command::Write,
            2 => Command::Disconnect,
            3 => Command::Flush,
            4 => Command::Trim,
            5 => Command::Cache,
            6 => Command::WriteZeroes,
            7 => Command::BlockStatus,
            other => Command::Unknown(other),
        };
        Some(Self {
            flags,
            command,
            cookie: at.u64()?,
            offset: at.u64()?,
            length: at.u32()?,
        })
    }

    /// Checks the request against an export of `size` bytes.
    ///
    /// # Errors
    /// Code to answer with if the command, a flag or the range is invalid.
    pub fn check(&self, size: u64) -> Result<(), Code> {
        use Command::{BlockStatus, Cache, Disconnect, Flush, Read, Trim, Unknown, Write};
        let known = match self.command {
            Read => flag::DF | flag::FUA,
            Command::WriteZeroes => flag::FUA | flag::NO_HOLE | flag::FAST_ZERO,
            BlockStatus => flag::REQ_ONE | flag::FUA,
            Write | Flush | Trim | Cache | Disconnect => flag::FUA,
            Unknown(_) => return Err(Code::Invalid),
        };
        if self.flags & !known != 0 {
            return Err(Code::Invalid);
        }
        if matches!(self.command, Flush | Disconnect) {
            return Ok(());
        }
        let end = self.offset.checked_add(u64::from(self.length));
        if end.is_none_or(|end| end > size) {
            let writes = matches!(self.command, Write | Command::WriteZeroes);
            return Err(if writes { Code::NoSpace } else { Code::Invalid });
        }
        if matches!(self.command, Read | Write) && self.length > DATA_MAX {
            return Err(Code::Overflow);
        }
        let empty = self.length == 0 && self.command == BlockStatus;
        if empty { Err(Code::Invalid) } else { Ok(()) }
    }
}

/// Cursor that reads big-endian numbers off the front of its bytes. Every method returns `None`,
/// and consumes nothing, if too few bytes are left.
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    /// Takes the next `len` bytes.
    pub fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    /// Takes a number of two bytes.
    pub fn u16(&mut self) -> Option<u16> {
        let bytes = self.take(2)?;
        Some(u16::from_be_bytes(bytes.try_into().ok()?))
    }

    /// Takes a number of four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        let bytes = self.take(4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    }

    /// Takes a number of eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        let bytes = self.take(8)?;
        Some(u64::from_be_bytes(bytes.try_into().ok()?))
    }
}

/// Takes a string of an option: its length in four bytes, then its bytes.
pub fn name<'a>(fields: &mut Fields<'a>) -> Option<&'a [u8]> {
    let len = fields.u32()?;
    fields.take(len as usize)
}

/// Appends a reply of `kind` to `option`.
pub fn put_option_reply(out: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    out.extend(OPTION_REPLY.to_be_bytes());
    out.extend(option.to_be_bytes());
    out.extend(kind.to_be_bytes());
    out.extend((data.len() as u32).to_be_bytes());
    out.extend(data);
}

/// Appends the header of a simple reply; the data of a read must follow.
pub fn put_simple(out: &mut Vec<u8>, cookie: u64, error: u32) {
    out.extend(SIMPLE_REPLY.to_be_bytes());
    out.extend(error.to_be_bytes());
    out.extend(cookie.to_be_bytes());
}

/// Appends the header of the only chunk of a structured reply; `length` bytes must follow.
pub fn put_part(out: &mut Vec<u8>, cookie: u64, kind: u16, length: u32) {
    out.extend(STRUCTURED_REPLY.to_be_bytes());
    out.extend(part::DONE.to_be_bytes());
    out.extend(kind.to_be_bytes());
    out.extend(cookie.to_be_bytes());
    out.extend(length.to_be_bytes());
}
