//! Parser of one client's byte stream: the handshake, then requests.
//!
//! Invariants: the result does not depend on how the stream is split into reads; a request is
//! taken only once there is room for its data and its answer.

mod handshake;
mod reply;

use crate::export::{Export, Job, PIECES_MAX, Refusal};
use crate::wire::{Code, Command, Fields, OPTION, OPTION_MAX, REQUEST_BYTES, Request, flag};
use crate::wire::{option, put_option_reply, reply as kind};
pub(crate) use handshake::Line;
use handshake::{Agreed, Next};
pub(crate) use reply::Reply;
use std::io;

/// Bytes charged for a request besides its data: its task, the head of its answer and an error
/// message.
const REQUEST_COST: u64 = 4096;
/// Bytes charged per extent of a block status answer, which is also its size on the wire.
const PIECE_BYTES: u64 = 8;
/// Smallest unit of allocation in bytes; bounds the extents of a range.
const PAGE_MIN: u32 = 512;
/// Most options that one client may send; one more ends its connection.
const OPTIONS_MAX: u32 = 1024;
/// Longest option data in bytes that are skipped and answered with `ERR_TOO_BIG`; a longer
/// option ends the connection.
const SKIP_MAX: u32 = 1 << 20;
/// Size of an option's header in bytes.
const OPTION_BYTES: usize = 16;

/// Next message expected from a client.
enum State {
    /// The client's handshake flags.
    Flags,
    /// An option of the handshake.
    Option,
    /// The `left` remaining bytes of option `number`, which is too long and is skipped.
    TooLong { number: u32, left: u32 },
    /// The header of a request.
    Request,
    /// The rest of the data of an admitted write.
    Data {
        request: Request,
        cost: u64,
        bytes: Vec<u8>,
    },
    /// The `left` remaining data bytes of a rejected request, which are skipped.
    Refused {
        request: Request,
        code: Code,
        left: u32,
    },
}

/// Result of parsing a client's bytes.
pub(crate) enum Step {
    /// The message is incomplete.
    More,
    /// The next request was not admitted for lack of room; its bytes stay in the input.
    Full,
    /// A job to begin on the export.
    Begin(Job, Reply),
    /// A request to answer without the export: rejected, or without work.
    Say(Result<(), Refusal>, Reply),
    /// TLS begins with the next byte.
    Seal,
    /// The client has asked to end the connection, or was refused.
    Leave,
}

/// Parser state of one client.
pub(crate) struct Session {
    state: State,
    agreed: Agreed,
    /// Whether the answer to `EXPORT_NAME` ends with 124 zero bytes, as the client's flags say.
    zeros: bool,
    /// Options received so far; at most [`OPTIONS_MAX`].
    options: u32,
}

impl Session {
    /// Session of a new connection over `line`; puts the server's greeting into `out`.
    pub(crate) fn new(out: &mut Vec<u8>, line: Line) -> Self {
        handshake::greet(out);
        Self {
            state: State::Flags,
            agreed: Agreed::over(line),
            zeros: false,
            options: 0,
        }
    }

    /// Whether the handshake is complete.
    pub(crate) fn is_served(&self) -> bool {
        matches!(
            self.state,
            State::Request | State::Data { .. } | State::Refused { .. }
        )
    }

    /// Drops the request whose data are incomplete, if there is one; returns the bytes reserved
    /// for it.
    pub(crate) fn abandon(&mut self) -> u64 {
        match self.state {
            State::Data { cost, .. } => {
                self.state = State::Request;
                cost
            }
            State::Refused { .. } => {
                self.state = State::Request;
                REQUEST_COST
            }
            _ => 0,
        }
    }

    /// Consumes one step from `input`; answers of the handshake go to `out`. `admit` reserves
    /// that many bytes, or returns false.
    ///
    /// # Errors
    /// If the client violates the protocol.
    pub(crate) fn step<E: Export>(
        &mut self,
        input: &mut &[u8],
        out: &mut Vec<u8>,
        export: &E,
        admit: impl FnOnce(u64) -> bool,
    ) -> io::Result<Step> {
        while !self.is_served() {
            let left = input.len();
            match self.negotiate(input, out, export)? {
                Next::Leave => return Ok(Step::Leave),
                Next::Serve => self.state = State::Request,
                Next::Seal => {
                    self.agreed = Agreed::over(Line::Sealed);
                    return Ok(Step::Seal);
                }
                Next::More if input.len() == left => return Ok(Step::More),
                Next::More => {}
            }
        }
        match &mut self.state {
            State::Data { bytes, request, .. } => {
                let missing = request.length as usize - bytes.len();
                bytes.extend(take_most(input, missing));
            }
            State::Refused { left, .. } => *left -= take_most(input, *left as usize).len() as u32,
            _ => return self.request(input, export, admit),
        }
        Ok(self.end_of_data())
    }

    /// Consumes one message of the handshake, if it is complete.
    fn negotiate<E: Export>(
        &mut self,
        input: &mut &[u8],
        out: &mut Vec<u8>,
        export: &E,
    ) -> io::Result<Next> {
        match &mut self.state {
            State::Flags => {
                let Some(flags) = take(input, 4) else {
                    return Ok(Next::More);
                };
                self.zeros = handshake::wants_zeros(Fields(flags).u32().unwrap_or(0))?;
                self.state = State::Option;
                Ok(Next::More)
            }
            State::TooLong { number, left } => {
                *left -= take_most(input, *left as usize).len() as u32;
                if *left == 0 {
                    put_option_reply(out, *number, kind::ERR_TOO_BIG, b"");
                    self.state = State::Option;
                }
                Ok(Next::More)
            }
            _ => self.option(input, out, export),
        }
    }

    fn option<E: Export>(
        &mut self,
        input: &mut &[u8],
        out: &mut Vec<u8>,
        export: &E,
    ) -> io::Result<Next> {
        let mut head = Fields(input);
        let (Some(magic), Some(number), Some(len)) = (head.u64(), head.u32(), head.u32()) else {
            return Ok(Next::More);
        };
        if magic != OPTION {
            return Err(broken("no option"));
        }
        let too_long = len > OPTION_MAX;
        if len > SKIP_MAX || too_long && number == option::EXPORT_NAME {
            return Err(broken("an option is too long"));
        }
        if !too_long && input.len() < OPTION_BYTES + len as usize {
            return Ok(Next::More);
        }
        self.options += 1;
        if self.options > OPTIONS_MAX {
            return Err(broken("options without end"));
        }
        let _ = take(input, OPTION_BYTES);
        if too_long {
            self.state = State::TooLong { number, left: len };
            return Ok(Next::More);
        }
        let data = take(input, len as usize).unwrap_or_default();
        if number == option::EXPORT_NAME {
            let zeros = if self.zeros { 124 } else { 0 };
            return handshake::export_name(out, export, data, self.agreed, zeros);
        }
        Ok(handshake::answer(
            out,
            export,
            number,
            data,
            &mut self.agreed,
        ))
    }

    /// Consumes the header of a request and the data that follow it, once it is admitted.
    fn request<E: Export>(
        &mut self,
        input: &mut &[u8],
        export: &E,
        admit: impl FnOnce(u64) -> bool,
    ) -> io::Result<Step> {
        let Some(head) = input.first_chunk::<REQUEST_BYTES>() else {
            return Ok(Step::More);
        };
        let request = Request::parse(head).ok_or_else(|| broken("no request"))?;
        if request.command == Command::Disconnect {
            return Ok(Step::Leave);
        }
        let refused = request.check(export.size()).err();
        let refused = refused.or_else(|| self.agreed.refuses(&request));
        let cost = REQUEST_COST + refused.map_or_else(|| holds(&request), |_| 0);
        if !admit(cost) {
            return Ok(Step::Full);
        }
        *input = &input[REQUEST_BYTES..];
        let is_write = request.command == Command::Write;
        let left = if is_write { request.length } else { 0 };
        self.state = match refused {
            Some(code) => State::Refused {
                request,
                code,
                left: left - take_most(input, left as usize).len() as u32,
            },
            None => State::Data {
                request,
                cost,
                // The pages of the reserved capacity are touched only as data arrive.
                bytes: {
                    let mut bytes = Vec::with_capacity(left as usize);
                    bytes.extend(take_most(input, left as usize));
                    bytes
                },
            },
        };
        Ok(self.end_of_data())
    }

    /// The pending request as a step, if all its data have arrived.
    fn end_of_data(&mut self) -> Step {
        let structured = self.agreed.structured;
        let is_whole = match &self.state {
            State::Data { request, bytes, .. } => {
                request.command != Command::Write || bytes.len() == request.length as usize
            }
            State::Refused { left, .. } => *left == 0,
            _ => false,
        };
        if !is_whole {
            return Step::More;
        }
        match std::mem::replace(&mut self.state, State::Request) {
            State::Data {
                request,
                cost,
                bytes,
            } => {
                let reply = Reply::to(&request, structured, cost);
                match job(&request, bytes) {
                    Some(job) => Step::Begin(job, reply),
                    None => Step::Say(Ok(()), reply),
                }
            }
            State::Refused { request, code, .. } => {
                let reply = Reply::to(&request, structured, REQUEST_COST);
                Step::Say(Err(reply::refusal(code)), reply)
            }
            _ => Step::More,
        }
    }
}

/// Bytes charged for a request in addition to [`REQUEST_COST`]: data or extents.
fn holds(request: &Request) -> u64 {
    match request.command {
        Command::Read | Command::Write => request.length.into(),
        Command::BlockStatus => u64::from(most_pieces(request)) * PIECE_BYTES,
        _ => 0,
    }
}

/// Most extents in the answer to a block status request. All but the first and the last are at
/// least [`PAGE_MIN`] bytes.
fn most_pieces(request: &Request) -> u32 {
    match request.flags & flag::REQ_ONE {
        0 => (request.length / PAGE_MIN + 2).min(PIECES_MAX),
        _ => 1,
    }
}

/// Takes exactly `len` bytes off `input`, or none if it is shorter.
fn take<'a>(input: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, rest) = input.split_at_checked(len)?;
    *input = rest;
    Some(taken)
}

/// Takes up to `len` bytes off `input`.
fn take_most<'a>(input: &mut &'a [u8], len: usize) -> &'a [u8] {
    let (taken, rest) = input.split_at(len.min(input.len()));
    *input = rest;
    taken
}

/// The export's job for a request; `None` if the answer needs no work.
fn job(request: &Request, bytes: Vec<u8>) -> Option<Job> {
    let (offset, length) = (request.offset, request.length);
    let has = |bit| request.flags & bit != 0;
    let force = has(flag::FUA);
    let job = match request.command {
        Command::Read => Job::Read { offset, length },
        Command::Write => Job::Write {
            offset,
            bytes,
            force,
        },
        Command::WriteZeroes => Job::Zero {
            offset,
            length,
            hole: !has(flag::NO_HOLE),
            force,
        },
        Command::Trim => Job::Trim {
            offset,
            length,
            force,
        },
        Command::BlockStatus => Job::Status {
            offset,
            length,
            most: most_pieces(request),
        },
        Command::Flush => Job::Flush,
        // A cache hint succeeds without work: the drive manages its own cache.
        Command::Cache | Command::Disconnect | Command::Unknown(_) => return None,
    };
    Some(job)
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
