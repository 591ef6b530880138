//! The handshake: choice of the export, TLS, structured replies and metadata contexts.
//= nbd 1

use super::broken;
use crate::export::Export;
use crate::wire::{
    ALLOCATION, ALLOCATION_ID, Code, Command, DATA_MAX, Fields, HANDSHAKE, INIT, OPTION, Request,
    can, flag, name, option, put_option_reply, reply,
};
use std::io;

/// Encryption of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// Plain text; the server has no certificates and offers no TLS.
    Clear,
    /// Plain text; every option but `STARTTLS` and `ABORT` is refused.
    Demanded,
    /// TLS is active; every option is answered.
    Sealed,
}

/// Options that were negotiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Agreed {
    line: Line,
    /// Whether the client has negotiated structured replies.
    pub(super) structured: bool,
    /// Whether the client has selected the context `base:allocation`, which permits block status
    /// requests.
    allocation: bool,
}

impl Agreed {
    /// The state in which a handshake over `line` begins: nothing negotiated.
    pub(super) const fn over(line: Line) -> Self {
        Self {
            line,
            structured: false,
            allocation: false,
        }
    }

    /// Error code if `request` uses a feature that was not negotiated, or cannot be done fast.
    pub(super) fn refuses(self, request: &Request) -> Option<Code> {
        let status = request.command == Command::BlockStatus && !self.allocation;
        let whole = request.flags & flag::DF != 0 && !self.structured;
        let fast = request.flags & (flag::FAST_ZERO | flag::NO_HOLE);
        if status || whole {
            return Some(Code::Invalid);
        }
        // Zeros without a hole are written like data, so they are not fast.
        (fast == flag::FAST_ZERO | flag::NO_HOLE).then_some(Code::NotSupported)
    }

    fn flags(self) -> u16 {
        can::ALL | if self.structured { can::SEND_DF } else { 0 }
    }
}

/// State after an option.
pub(super) enum Next {
    More,
    Serve,
    /// TLS begins with the next byte.
    Seal,
    Leave,
}

/// Puts the server's greeting: both magic numbers and the handshake flags.
pub(super) fn greet(out: &mut Vec<u8>) {
    out.extend(INIT.to_be_bytes());
    out.extend(OPTION.to_be_bytes());
    out.extend(HANDSHAKE.to_be_bytes());
}

/// Whether a client with these flags expects zeros after the answer to `EXPORT_NAME`.
///
/// # Errors
/// If the client does not speak the fixed newstyle handshake, or sets unknown flags.
pub(super) fn wants_zeros(flags: u32) -> io::Result<bool> {
    if flags & !u32::from(HANDSHAKE) != 0 || flags & 1 == 0 {
        return Err(broken(
            "the client does not know the fixed newstyle handshake",
        ));
    }
    Ok(flags & 2 == 0)
}

/// Answers `EXPORT_NAME`, the oldest option to select an export. The option has no error reply.
///
/// # Errors
/// If the name is unknown or TLS is required; the caller then drops the connection.
pub(super) fn export_name<E: Export>(
    out: &mut Vec<u8>,
    export: &E,
    wanted: &[u8],
    agreed: Agreed,
    zeros: usize,
) -> io::Result<Next> {
    if agreed.line == Line::Demanded {
        return Err(broken("nothing is told without TLS"));
    }
    if !is_it(export, wanted) {
        return Err(broken("no such export"));
    }
    out.extend(export.size().to_be_bytes());
    out.extend(agreed.flags().to_be_bytes());
    out.resize(out.len() + zeros, 0);
    Ok(Next::Serve)
}

fn is_it<E: Export>(export: &E, wanted: &[u8]) -> bool {
    wanted.is_empty() || wanted == export.name().as_bytes()
}

/// Answers every option but `EXPORT_NAME`, which [`export_name`] answers.
pub(super) fn answer<E: Export>(
    out: &mut Vec<u8>,
    export: &E,
    number: u32,
    data: &[u8],
    agreed: &mut Agreed,
) -> Next {
    let mut say = |kind, data: &[u8]| put_option_reply(out, number, kind, data);
    match number {
        option::ABORT => {
            say(reply::ACK, b"");
            return Next::Leave;
        }
        option::STARTTLS => match (agreed.line, data) {
            (Line::Clear, _) => say(reply::ERR_UNSUP, b""),
            (Line::Demanded, []) => {
                say(reply::ACK, b"");
                return Next::Seal;
            }
            (Line::Demanded | Line::Sealed, _) => say(reply::ERR_INVALID, b""),
        },
        _ if agreed.line == Line::Demanded => say(reply::ERR_TLS_REQD, b"TLS is required"),
        option::LIST if data.is_empty() => {
            let name = export.name().as_bytes();
            let mut server = (name.len() as u32).to_be_bytes().to_vec();
            server.extend(name);
            say(reply::SERVER, &server);
            say(reply::ACK, b"");
        }
        option::STRUCTURED_REPLY if data.is_empty() => {
            agreed.structured = true;
            say(reply::ACK, b"");
        }
        option::INFO | option::GO => {
            let shown = show(&mut say, export, data, *agreed);
            if shown && number == option::GO {
                return Next::Serve;
            }
        }
        option::LIST_META_CONTEXT | option::SET_META_CONTEXT if agreed.structured => {
            let listing = number == option::LIST_META_CONTEXT;
            if let Some(chosen) = contexts(&mut say, export, data, listing) {
                agreed.allocation = if listing { agreed.allocation } else { chosen };
            }
        }
        option::LIST
        | option::STRUCTURED_REPLY
        | option::LIST_META_CONTEXT
        | option::SET_META_CONTEXT => say(reply::ERR_INVALID, b""),
        _ => say(reply::ERR_UNSUP, b""),
    }
    Next::More
}

/// Answers `INFO` or `GO`; returns false if the request is malformed or names another export.
fn show<E: Export>(
    say: &mut impl FnMut(u32, &[u8]),
    export: &E,
    data: &[u8],
    agreed: Agreed,
) -> bool {
    let Some((wanted, asked)) = info_request(data) else {
        say(reply::ERR_INVALID, b"");
        return false;
    };
    if !is_it(export, wanted) {
        say(reply::ERR_UNKNOWN, b"no such export");
        return false;
    }
    let mut info = reply::INFO_EXPORT.to_be_bytes().to_vec();
    info.extend(export.size().to_be_bytes());
    info.extend(agreed.flags().to_be_bytes());
    say(reply::INFO, &info);
    let mut asked = Fields(asked);
    while let Some(kind) = asked.u16() {
        let mut info = kind.to_be_bytes().to_vec();
        match kind {
            reply::INFO_NAME => info.extend(export.name().as_bytes()),
            reply::INFO_BLOCK_SIZE => {
                let sizes = [1, export.preferred(), DATA_MAX];
                info.extend(sizes.iter().flat_map(|size| size.to_be_bytes()));
            }
            _ => continue,
        }
        say(reply::INFO, &info);
    }
    say(reply::ACK, b"");
    true
}

/// Splits the data of `INFO` or `GO` into the export's name and the requested kinds of
/// information, two bytes each.
fn info_request(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut at = Fields(data);
    let wanted = name(&mut at)?;
    let count = at.u16()?;
    (at.0.len() == usize::from(count) * 2).then_some((wanted, at.0))
}

/// Answers `LIST_META_CONTEXT` (if `listing`) or `SET_META_CONTEXT`. Returns whether
/// `base:allocation` was selected, or `None` if the option was refused.
fn contexts<E: Export>(
    say: &mut impl FnMut(u32, &[u8]),
    export: &E,
    data: &[u8],
    listing: bool,
) -> Option<bool> {
    let Some((wanted, queries)) = context_request(data) else {
        say(reply::ERR_INVALID, b"");
        return None;
    };
    if !is_it(export, wanted) {
        say(reply::ERR_UNKNOWN, b"no such export");
        return None;
    }
    let all = listing && queries.is_empty();
    let meant = |query: &&[u8]| *query == ALLOCATION || listing && *query == b"base:";
    let chosen = all || queries.iter().any(meant);
    if chosen {
        let id = if listing { 0 } else { ALLOCATION_ID };
        let mut context = id.to_be_bytes().to_vec();
        context.extend(ALLOCATION);
        say(reply::META_CONTEXT, &context);
    }
    say(reply::ACK, b"");
    Some(chosen)
}

fn context_request(data: &[u8]) -> Option<(&[u8], Vec<&[u8]>)> {
    let mut at = Fields(data);
    let wanted = name(&mut at)?;
    let count = at.u32()?;
    let mut queries = Vec::new();
    // Each query takes at least four bytes, so the length of `data` bounds the loop.
    for _ in 0..count {
        queries.push(name(&mut at)?);
    }
    at.0.is_empty().then_some((wanted, queries))
}
