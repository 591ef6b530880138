//! The handshake: what is served, and in which form answers come.
//= nbd 1

use super::broken;
use crate::export::Export;
use crate::wire::{
    ALLOCATION, ALLOCATION_ID, Code, Command, DATA_MAX, Fields, HANDSHAKE, INIT, OPTION,
    OPTION_MAX, Request, can, flag, name, option, put_option_reply, read_u32, read_u64, reply,
};
use std::io::{self, Read, Write};

/// Options of one client: who asks for more is not here to be served.
const OPTIONS_MAX: u32 = 1024;
/// Longest data of an option that are skipped to say that they are too long.
const SKIP_MAX: u32 = 1 << 20;

/// What was agreed upon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Agreed {
    /// Whether reads are answered in parts.
    pub(super) structured: bool,
    /// Whether the client may ask what is allocated.
    allocation: bool,
}

impl Agreed {
    /// Why a request makes no sense after this handshake.
    pub(super) fn refuses(self, request: &Request) -> Option<Code> {
        let status = request.command == Command::BlockStatus && !self.allocation;
        let whole = request.flags & flag::DF != 0 && !self.structured;
        let fast = request.flags & (flag::FAST_ZERO | flag::NO_HOLE);
        if status || whole {
            return Some(Code::Invalid);
        }
        // To write zeros takes as long as to write anything.
        (fast == flag::FAST_ZERO | flag::NO_HOLE).then_some(Code::NotSupported)
    }

    fn flags(self) -> u16 {
        can::ALL | if self.structured { can::SEND_DF } else { 0 }
    }
}

/// What follows an option.
enum Next {
    More,
    Serve,
    Leave,
}

/// Agrees with a client on what it gets; none if it leaves.
pub(super) fn negotiate<E: Export>(
    input: &mut impl Read,
    output: &mut impl Write,
    export: &E,
) -> io::Result<Option<Agreed>> {
    let mut hello = Vec::with_capacity(18);
    hello.extend(INIT.to_be_bytes());
    hello.extend(OPTION.to_be_bytes());
    hello.extend(HANDSHAKE.to_be_bytes());
    output.write_all(&hello)?;
    let flags = read_u32(input)?;
    if flags & !u32::from(HANDSHAKE) != 0 || flags & 1 == 0 {
        return Err(broken(
            "the client does not know the fixed newstyle handshake",
        ));
    }
    let mut agreed = Agreed::default();
    for _ in 0..OPTIONS_MAX {
        if read_u64(input)? != OPTION {
            return Err(broken("no option"));
        }
        let (number, len) = (read_u32(input)?, read_u32(input)?);
        if number == option::EXPORT_NAME && len <= OPTION_MAX {
            let wanted = take(input, len)?;
            let zeros = if flags & 2 == 0 { 124 } else { 0 };
            return export_name(output, export, &wanted, agreed, zeros).map(|()| Some(agreed));
        }
        if len > OPTION_MAX {
            skip(input, len)?;
            put_option_reply(output, number, reply::ERR_TOO_BIG, b"")?;
            continue;
        }
        let data = take(input, len)?;
        match answer(output, export, number, &data, &mut agreed)? {
            Next::More => {}
            Next::Serve => return Ok(Some(agreed)),
            Next::Leave => return Ok(None),
        }
    }
    Err(broken("options without end"))
}

fn take(input: &mut impl Read, len: u32) -> io::Result<Vec<u8>> {
    let mut data = vec![0; len as usize];
    input.read_exact(&mut data)?;
    Ok(data)
}

fn skip(input: &mut impl Read, len: u32) -> io::Result<()> {
    if len > SKIP_MAX {
        return Err(broken("an option is too long"));
    }
    let skipped = io::copy(&mut input.take(u64::from(len)), &mut io::sink())?;
    let whole = skipped == u64::from(len);
    whole
        .then_some(())
        .ok_or_else(|| broken("an option ends early"))
}

/// The oldest way to begin: there is no way to refuse but to hang up.
fn export_name<E: Export>(
    output: &mut impl Write,
    export: &E,
    wanted: &[u8],
    agreed: Agreed,
    zeros: usize,
) -> io::Result<()> {
    if !is_it(export, wanted) {
        return Err(broken("no such export"));
    }
    let mut begin = Vec::with_capacity(134);
    begin.extend(export.size().to_be_bytes());
    begin.extend(agreed.flags().to_be_bytes());
    begin.resize(begin.len() + zeros, 0);
    output.write_all(&begin)
}

fn is_it<E: Export>(export: &E, wanted: &[u8]) -> bool {
    wanted.is_empty() || wanted == export.name().as_bytes()
}

fn answer<E: Export>(
    output: &mut impl Write,
    export: &E,
    number: u32,
    data: &[u8],
    agreed: &mut Agreed,
) -> io::Result<Next> {
    let mut say = |kind, data: &[u8]| put_option_reply(output, number, kind, data);
    match number {
        option::ABORT => {
            // Who leaves may have hung up already.
            let _ = say(reply::ACK, b"");
            return Ok(Next::Leave);
        }
        option::LIST if data.is_empty() => {
            let name = export.name().as_bytes();
            let mut server = (name.len() as u32).to_be_bytes().to_vec();
            server.extend(name);
            say(reply::SERVER, &server)?;
            say(reply::ACK, b"")?;
        }
        option::STRUCTURED_REPLY if data.is_empty() => {
            agreed.structured = true;
            say(reply::ACK, b"")?;
        }
        option::INFO | option::GO => {
            let shown = show(&mut say, export, data, *agreed)?;
            if shown && number == option::GO {
                return Ok(Next::Serve);
            }
        }
        option::LIST_META_CONTEXT | option::SET_META_CONTEXT if agreed.structured => {
            let listing = number == option::LIST_META_CONTEXT;
            if let Some(chosen) = contexts(&mut say, export, data, listing)? {
                agreed.allocation = if listing { agreed.allocation } else { chosen };
            }
        }
        option::LIST
        | option::STRUCTURED_REPLY
        | option::LIST_META_CONTEXT
        | option::SET_META_CONTEXT => say(reply::ERR_INVALID, b"")?,
        _ => say(reply::ERR_UNSUP, b"")?,
    }
    Ok(Next::More)
}

/// Tells of the export; false if it is not the one that was asked for.
fn show<E: Export>(
    say: &mut impl FnMut(u32, &[u8]) -> io::Result<()>,
    export: &E,
    data: &[u8],
    agreed: Agreed,
) -> io::Result<bool> {
    let Some((wanted, asked)) = info_request(data) else {
        return say(reply::ERR_INVALID, b"").map(|()| false);
    };
    if !is_it(export, wanted) {
        return say(reply::ERR_UNKNOWN, b"no such export").map(|()| false);
    }
    let mut info = reply::INFO_EXPORT.to_be_bytes().to_vec();
    info.extend(export.size().to_be_bytes());
    info.extend(agreed.flags().to_be_bytes());
    say(reply::INFO, &info)?;
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
        say(reply::INFO, &info)?;
    }
    say(reply::ACK, b"")?;
    Ok(true)
}

/// The name, and the numbers of what else is asked for.
fn info_request(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut at = Fields(data);
    let wanted = name(&mut at)?;
    let count = at.u16()?;
    (at.0.len() == usize::from(count) * 2).then_some((wanted, at.0))
}

/// Says which contexts there are, or takes them; whether what is allocated is among them,
/// none if nothing was agreed upon.
fn contexts<E: Export>(
    say: &mut impl FnMut(u32, &[u8]) -> io::Result<()>,
    export: &E,
    data: &[u8],
    listing: bool,
) -> io::Result<Option<bool>> {
    let Some((wanted, queries)) = context_request(data) else {
        return say(reply::ERR_INVALID, b"").map(|()| None);
    };
    if !is_it(export, wanted) {
        return say(reply::ERR_UNKNOWN, b"no such export").map(|()| None);
    }
    let all = listing && queries.is_empty();
    let meant = |query: &&[u8]| *query == ALLOCATION || listing && *query == b"base:";
    let chosen = all || queries.iter().any(meant);
    if chosen {
        let id = if listing { 0 } else { ALLOCATION_ID };
        let mut context = id.to_be_bytes().to_vec();
        context.extend(ALLOCATION);
        say(reply::META_CONTEXT, &context)?;
    }
    say(reply::ACK, b"")?;
    Ok(Some(chosen))
}

fn context_request(data: &[u8]) -> Option<(&[u8], Vec<&[u8]>)> {
    let mut at = Fields(data);
    let wanted = name(&mut at)?;
    let count = at.u32()?;
    let mut queries = Vec::new();
    // Each takes four bytes at least, so the data end this soon enough.
    for _ in 0..count {
        queries.push(name(&mut at)?);
    }
    at.0.is_empty().then_some((wanted, queries))
}
