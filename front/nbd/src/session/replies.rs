//! Answers on their way to a client.

use crate::export::{Answer, Piece, Refusal};
use crate::wire::{ALLOCATION_ID, Code, Command, Request, part, put_part, put_simple};
use std::io::{self, Write};
use std::sync::mpsc::Receiver;

/// Bytes of replies that are gathered before they are written.
const GATHERED: usize = 128 << 10;
/// What is longer is written from where it is.
const COPIED: usize = 32 << 10;
/// Flags of a piece that is a hole and reads as zeros.
const HOLE: u32 = 0b11;

/// The answer to a request.
#[derive(Debug)]
pub(super) struct Reply {
    cookie: u64,
    offset: u64,
    /// Whether it comes as a part: reads, and what is allocated.
    in_parts: bool,
    is_read: bool,
    answer: Result<Answer, Refusal>,
    /// Bytes of the budget that it gives back when it is out.
    pub(super) cost: u64,
}

impl Reply {
    /// The answer to `request`, which is that it is done until something else is said.
    pub(super) fn begin(request: &Request, structured: bool, cost: u64) -> Self {
        let is_read = request.command == Command::Read;
        let parts = is_read || request.command == Command::BlockStatus;
        Self {
            cookie: request.cookie,
            offset: request.offset,
            in_parts: structured && parts,
            is_read,
            answer: Ok(Answer::Done),
            cost,
        }
    }

    pub(super) fn answered(mut self, answer: Result<Answer, Refusal>) -> Self {
        self.answer = answer;
        self
    }

    pub(super) fn refused(self, code: Code) -> Self {
        let why = match code {
            Code::NoSpace => "the range reaches past the end",
            Code::Overflow => "the request is too long",
            Code::NotSupported => "that can not be done fast",
            _ => "the request makes no sense",
        };
        let why = why.to_owned();
        self.answered(Err(Refusal { code, why }))
    }

    /// Puts all but data of a read, and gives these.
    fn put(self, out: &mut Vec<u8>) -> Vec<u8> {
        match self.answer {
            Err(refusal) if self.in_parts => put_error(out, self.cookie, &refusal),
            Err(refusal) => put_simple(out, self.cookie, refusal.code as u32),
            Ok(Answer::Data(data)) if self.in_parts && !data.is_empty() => {
                let length = data.len() as u32 + 8;
                put_part(out, self.cookie, part::OFFSET_DATA, length);
                out.extend(self.offset.to_be_bytes());
                return data;
            }
            Ok(Answer::Pieces(pieces)) => put_pieces(out, self.cookie, &pieces),
            Ok(_) if self.in_parts => put_part(out, self.cookie, part::NONE, 0),
            Ok(answer) => {
                put_simple(out, self.cookie, 0);
                if let (Answer::Data(data), true) = (answer, self.is_read) {
                    return data;
                }
            }
        }
        Vec::new()
    }
}

fn put_error(out: &mut Vec<u8>, cookie: u64, refusal: &Refusal) {
    let why = &refusal.why.as_bytes()[..refusal.why.len().min(1024)];
    put_part(out, cookie, part::ERROR, 6 + why.len() as u32);
    out.extend((refusal.code as u32).to_be_bytes());
    out.extend((why.len() as u16).to_be_bytes());
    out.extend(why);
}

fn put_pieces(out: &mut Vec<u8>, cookie: u64, pieces: &[Piece]) {
    put_part(out, cookie, part::BLOCK_STATUS, 4 + 8 * pieces.len() as u32);
    out.extend(ALLOCATION_ID.to_be_bytes());
    for piece in pieces {
        out.extend(piece.length.to_be_bytes());
        out.extend((if piece.data { 0 } else { HOLE }).to_be_bytes());
    }
}

/// Writes replies as they come, those that are there already together; `freed` is told what
/// each gives back.
pub(super) fn write_replies(
    output: &mut impl Write,
    replies: &Receiver<Reply>,
    freed: impl Fn(u64),
) -> io::Result<()> {
    let mut out = Vec::with_capacity(GATHERED + COPIED);
    while let Ok(first) = replies.recv() {
        let (mut next, mut cost) = (Some(first), 0);
        let mut written = Ok(());
        while let Some(reply) = next.take() {
            cost += reply.cost;
            let data = reply.put(&mut out);
            if data.len() <= COPIED {
                out.extend(data);
            } else {
                written = output
                    .write_all(&out)
                    .and_then(|()| output.write_all(&data));
                out.clear();
            }
            if out.len() < GATHERED && written.is_ok() {
                next = replies.try_recv().ok();
            }
        }
        written = written.and_then(|()| output.write_all(&out));
        out.clear();
        freed(cost);
        written?;
    }
    Ok(())
}
