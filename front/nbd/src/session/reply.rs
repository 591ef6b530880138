//! Encoding of answers as simple or structured replies.

use super::most_pieces;
use crate::export::{Answer, Piece, Refusal};
use crate::wire::{ALLOCATION_ID, Code, Command, Request, part, put_part, put_simple};
use engine::Output;

/// Flags of a piece that is a hole and reads as zeros.
const HOLE: u32 = 0b11;

/// Everything that the answer to a request needs besides its result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reply {
    cookie: u64,
    offset: u64,
    /// Whether the answer is a structured reply: reads and block status, if negotiated.
    in_parts: bool,
    is_read: bool,
    /// Most extents in the answer, as reserved for the request.
    pieces: u32,
    /// Bytes that the request holds until it is answered.
    pub(crate) cost: u64,
}

impl Reply {
    pub(super) fn to(request: &Request, structured: bool, cost: u64) -> Self {
        let is_read = request.command == Command::Read;
        let parts = is_read || request.command == Command::BlockStatus;
        Self {
            cookie: request.cookie,
            offset: request.offset,
            in_parts: structured && parts,
            is_read,
            pieces: most_pieces(request),
            cost,
        }
    }

    /// Encodes `answer` into `out`.
    pub(crate) fn put(self, answer: Result<Answer, Refusal>, out: &mut Output) {
        let cookie = self.cookie;
        match answer {
            Err(refusal) if self.in_parts => out.put(|out| put_error(out, cookie, &refusal)),
            Err(refusal) => out.put(|out| put_simple(out, cookie, refusal.code as u32)),
            Ok(Answer::Data(data)) if self.in_parts && !data.is_empty() => {
                let length = data.len() as u32 + 8;
                out.put(|out| {
                    put_part(out, cookie, part::OFFSET_DATA, length);
                    out.extend(self.offset.to_be_bytes());
                });
                out.push(data);
            }
            Ok(Answer::Pieces(mut pieces)) => {
                // An export may return more pieces than requested; the rest is dropped.
                pieces.truncate(self.pieces as usize);
                out.put(|out| put_pieces(out, cookie, &pieces));
            }
            Ok(_) if self.in_parts => out.put(|out| put_part(out, cookie, part::NONE, 0)),
            Ok(answer) => {
                out.put(|out| put_simple(out, cookie, 0));
                if let (Answer::Data(data), true) = (answer, self.is_read) {
                    out.push(data);
                }
            }
        }
    }
}

/// Refusal with an explanation for a request that failed validation with `code`.
pub(super) fn refusal(code: Code) -> Refusal {
    let why = match code {
        Code::NoSpace => "the range reaches past the end",
        Code::Overflow => "the request is too long",
        Code::NotSupported => "that cannot be done fast",
        _ => "the request makes no sense",
    };
    let why = why.to_owned();
    Refusal { code, why }
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
