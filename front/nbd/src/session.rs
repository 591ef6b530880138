//! One client: the handshake, and then its requests, out of bytes as they come.
//!
//! Invariants: what bytes mean does not depend on how they are cut up; a request is taken in
//! once there is room for what it and its answer hold, and not before.

mod handshake;
mod reply;

use crate::export::{Export, Job, PIECES_MAX, Refusal};
use crate::wire::{Code, Command, Fields, OPTION, OPTION_MAX, REQUEST_BYTES, Request, flag};
use crate::wire::{option, put_option_reply, reply as kind};
pub(crate) use handshake::Line;
use handshake::{Agreed, Next};
pub(crate) use reply::Reply;
use std::io;

/// Bytes that a request counts for beside its data: its task, its answer's head, and why it
/// failed.
const REQUEST_COST: u64 = 4096;
/// Bytes of a piece of an answer about what is allocated, here and on its way.
const PIECE_BYTES: u64 = 8;
/// Bytes of the smallest page that is allocated by itself.
const PAGE_MIN: u32 = 512;
/// Options of one client: who asks for more is not here to be served.
const OPTIONS_MAX: u32 = 1024;
/// Longest data of an option that are skipped to say that they are too long.
const SKIP_MAX: u32 = 1 << 20;
/// Bytes before the data of an option.
const OPTION_BYTES: usize = 16;

/// Next message expected from a client.
enum State {
    /// Its flags.
    Flags,
    /// An option.
    Option,
    /// So many bytes more of an option that is too long, of this number.
    TooLong { number: u32, left: u32 },
    /// A request.
    Request,
    /// The rest of the data of a write.
    Data {
        request: Request,
        cost: u64,
        bytes: Vec<u8>,
    },
    /// So many bytes more of a write that is refused.
    Refused {
        request: Request,
        code: Code,
        left: u32,
    },
}

/// Result of parsing a client's bytes.
pub(crate) enum Step {
    /// More are needed.
    More,
    /// There is no room for the request that they begin with.
    Full,
    /// A request to be begun.
    Begin(Job, Reply),
    /// A request that is answered.
    Say(Result<(), Refusal>, Reply),
    /// Bytes from here on are sealed.
    Seal,
    /// The client leaves.
    Leave,
}

/// A client.
pub(crate) struct Session {
    state: State,
    agreed: Agreed,
    /// Whether it wants zeros after the export.
    zeros: bool,
    /// Options that it had.
    options: u32,
}

impl Session {
    /// One that has just connected over such a line; `out` greets it.
    pub(crate) fn new(out: &mut Vec<u8>, line: Line) -> Self {
        handshake::greet(out);
        Self {
            state: State::Flags,
            agreed: Agreed::over(line),
            zeros: false,
            options: 0,
        }
    }

    /// Whether it sends requests already.
    pub(crate) fn is_served(&self) -> bool {
        matches!(
            self.state,
            State::Request | State::Data { .. } | State::Refused { .. }
        )
    }

    /// Takes nothing more in: gives what the request holds whose data have not all come.
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

    /// Takes of `input` what makes one step; answers of the handshake are put to `out`.
    /// `admit` says whether there is room for so many bytes, and takes it.
    ///
    /// # Errors
    /// If the client does not keep to the protocol.
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

    /// Takes a part of the handshake, if it is whole.
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

    /// Takes the head of a request.
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
                // Missing data take no memory yet.
                bytes: {
                    let mut bytes = Vec::with_capacity(left as usize);
                    bytes.extend(take_most(input, left as usize));
                    bytes
                },
            },
        };
        Ok(self.end_of_data())
    }

    /// The request, if its data are whole.
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

/// Bytes that a request and the answer to it hold beside what every one does.
fn holds(request: &Request) -> u64 {
    match request.command {
        Command::Read | Command::Write => request.length.into(),
        Command::BlockStatus => u64::from(most_pieces(request)) * PIECE_BYTES,
        _ => 0,
    }
}

/// Pieces of the answer to a request that asks what is allocated, of which none is smaller than
/// the smallest page but the first and the last.
fn most_pieces(request: &Request) -> u32 {
    match request.flags & flag::REQ_ONE {
        0 => (request.length / PAGE_MIN + 2).min(PIECES_MAX),
        _ => 1,
    }
}

/// Takes so many bytes, if they are there.
fn take<'a>(input: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, rest) = input.split_at_checked(len)?;
    *input = rest;
    Some(taken)
}

/// Takes up to so many bytes.
fn take_most<'a>(input: &mut &'a [u8], len: usize) -> &'a [u8] {
    let (taken, rest) = input.split_at(len.min(input.len()));
    *input = rest;
    taken
}

/// Job of a request; none if nothing has to be done.
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
        // Caching is left to the drive.
        Command::Cache | Command::Disconnect | Command::Unknown(_) => return None,
    };
    Some(job)
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
