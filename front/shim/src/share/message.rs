//! Requests of a client to the daemon, and its answers: one datagram each, of four words followed
//! by data.
//!
//! Invariant: any bytes decode to a request or to none. Decoding causes no panic, and no allocation
//! of a length that the datagram claims.

use crate::sys::{self, Errno};
use core::ffi::c_int;

/// Maximum number of data bytes behind the words of a message.
pub(crate) const DATA_MAX: usize = 60 << 10;
const WORDS: usize = 32;
/// Maximum size of a message in bytes.
pub(crate) const MESSAGE_MAX: usize = WORDS + DATA_MAX;

/// Declares the requests and their numbers.
macro_rules! ops {
    ($($(#[$about:meta])* $op:ident = $number:literal,)*) => {
        /// Operation of a request.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u64)]
        pub(crate) enum Op {
            $($(#[$about])* $op = $number,)*
        }

        impl Op {
            fn of(number: u64) -> Option<Self> {
                match number {
                    $($number => Some(Self::$op),)*
                    _ => None,
                }
            }
        }
    };
}

ops! {
    /// Registers the connection: of the client with the token in the first word, or of a new client
    /// if that is 0, which inherits the opens of the client with the token in the second word.
    /// Answers with the token, the volume's number and the limit of open zones, and with the shared
    /// memory if the client is new.
    Hello = 1,
    /// Keeps the daemon from ending while the connection lasts.
    Keep = 2,
    /// Creates a file at the path in the data, open once, for the stream and the group. The
    /// stand-in's descriptor comes along. Answers with the file's number.
    Create = 3,
    /// Sets the stream and the group of the file's later writes.
    Place = 4,
    /// Opens the file once more. Answers with its length.
    Open = 5,
    /// Closes the file once.
    Close = 6,
    /// Answers with the file's length.
    Size = 7,
    /// Writes at an offset, at the end ([`END`]), or at the kernel's offset of the descriptor that
    /// comes along ([`HERE`]), which is moved. Answers with the offset behind the last byte, and
    /// the number of bytes written.
    Write = 8,
    /// Requests a lease. Answers with the file's length, and the lease or [`NO_LEASE`].
    Lease = 9,
    /// Reads from an offset. Answers with the bytes, the file's length, and the number of bytes in
    /// zones.
    Read = 10,
    /// Answers with the file's pieces in zones, from the block at a byte offset on, with its
    /// length, and with the number of bytes in zones.
    Map = 11,
    /// Writes the file back and pins it: its pieces stay until [`Op::Unpin`]. Answers with the
    /// pin's number, the number of pieces, and the first pieces.
    Pin = 12,
    /// Answers with more pieces of a pin, from an index on.
    Pinned = 13,
    /// Releases the pin with a number.
    Unpin = 14,
    /// Syncs the file, and resizes its stand-in as [`Op::Stand`] does if that comes along. Answers
    /// with the length.
    Sync = 15,
    /// Syncs all files of all clients.
    SyncAll = 16,
    /// Sets the length of the file.
    Truncate = 17,
    /// Reports that the last name of the file was removed from the folder in the data.
    Unlinked = 18,
    /// Reports that the file has the path in the data.
    Renamed = 19,
    /// Begins to move the file to the ordinary file system, into its stand-in, which comes along.
    MoveBegin = 20,
    /// Ends the move; the first word is 0 if it failed.
    MoveEnd = 21,
    /// Answers with the paths of placed files that sort behind the one in the data, separated by
    /// zero bytes.
    List = 22,
    /// Answers with the number and the length of the file at the path in the data.
    Find = 23,
    /// Resizes the stand-in, which comes along as a descriptor, to the file's length. Fails with
    /// [`GONE`] if the file is no longer in zones: the stand-in is then the file.
    Stand = 24,
    /// Requests a new number for a file at the path in the data whose number the log does not know.
    /// The stand-in comes along. Requests for the same old number get the same new one.
    Renew = 25,
    /// Moves the offset of the descriptor that comes along, while no client writes: by the first
    /// word, relative to the second as in `lseek`. Answers with the new offset.
    Seek = 26,
}

/// Offset of a write to the end of the file.
pub(crate) const END: u64 = u64::MAX;
/// Offset of a write at a descriptor's kernel offset.
pub(crate) const HERE: u64 = u64::MAX - 1;
/// Answer to a request for a lease that is refused.
pub(crate) const NO_LEASE: u64 = u64::MAX;

/// Status: the file must be moved to the ordinary file system first.
pub(crate) const DEMOTE: u64 = 1 << 16;
pub(crate) const GONE: u64 = 1 << 17;

/// A request, as sent in one datagram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) op: Op,
    pub(crate) file: u64,
    pub(crate) a: u64,
    pub(crate) b: u64,
    pub(crate) data: &'a [u8],
}

/// An answer: status, three words and data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// 0, an error number, [`DEMOTE`] or [`GONE`].
    pub(crate) status: u64,
    pub(crate) words: [u64; 3],
    /// Data of the answer, or a sentence on the error.
    pub(crate) data: Vec<u8>,
}

fn words(bytes: &[u8]) -> Option<([u64; 4], &[u8])> {
    let (head, data) = bytes.split_at_checked(WORDS)?;
    let word = |at: usize| {
        let eight = head[at * 8..at * 8 + 8].try_into();
        u64::from_le_bytes(eight.expect("eight bytes"))
    };
    Some(([word(0), word(1), word(2), word(3)], data))
}

fn head(words: [u64; 4]) -> [u8; WORDS] {
    let mut bytes = [0; WORDS];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

impl<'a> Request<'a> {
    pub(crate) fn new(op: Op, file: u64) -> Self {
        Self {
            op,
            file,
            a: 0,
            b: 0,
            data: &[],
        }
    }

    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let ([op, file, a, b], data) = words(bytes)?;
        let op = Op::of(op)?;
        Some(Self {
            op,
            file,
            a,
            b,
            data,
        })
    }

    pub(crate) fn send(&self, socket: c_int) -> Result<(), Errno> {
        self.send_along(socket, None)
    }

    /// Sends the request, with a descriptor if there is one.
    pub(crate) fn send_along(&self, socket: c_int, fd: Option<c_int>) -> Result<(), Errno> {
        let head = head([self.op as u64, self.file, self.a, self.b]);
        sys::send(socket, [&head, self.data], fd)
    }
}

impl Answer {
    pub(crate) fn of(words: [u64; 3]) -> Self {
        Self {
            words,
            ..Self::default()
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let ([status, a, b, c], data) = words(bytes)?;
        Some(Self {
            status,
            words: [a, b, c],
            data: data.to_vec(),
        })
    }

    /// Sends the answer, with a descriptor if there is one; data beyond [`DATA_MAX`] are cut.
    pub(crate) fn send(&self, socket: c_int, fd: Option<c_int>) -> Result<(), Errno> {
        let [a, b, c] = self.words;
        let data = &self.data[..self.data.len().min(DATA_MAX)];
        sys::send(socket, [&head([self.status, a, b, c]), data], fd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_received_as_sent() {
        let (here, there) = sys::pair().unwrap();
        let data = vec![9; DATA_MAX];
        let request = Request {
            op: Op::Write,
            file: 3,
            a: END,
            b: 7,
            data: &data,
        };
        request.send(here).unwrap();
        let mut room = vec![0; MESSAGE_MAX];
        let (len, fd) = sys::receive(there, &mut room).unwrap();
        let got = Request::decode(&room[..len]).unwrap();
        assert_eq!((got.op, got.file, got.a, got.b), (Op::Write, 3, END, 7));
        assert_eq!((got.data, fd), (&data[..], None));
        let answer = Answer {
            status: GONE,
            words: [1, 2, 3],
            data: b"why".to_vec(),
        };
        answer.send(there, Some(here)).unwrap();
        let (len, fd) = sys::receive(here, &mut room).unwrap();
        assert_eq!(Answer::decode(&room[..len]).unwrap(), answer);
        sys::close(fd.unwrap());
        sys::close(there);
        assert_eq!(sys::receive(here, &mut room).unwrap().0, 0);
        assert!(
            request.send(here).is_err(),
            "nobody is there, and no signal comes"
        );
        sys::close(here);
    }

    #[test]
    fn malformed_bytes_decode_to_no_request() {
        for len in 0..WORDS {
            assert!(Request::decode(&vec![1; len]).is_none());
        }
        assert!(Request::decode(&[0; 40]).is_none());
        assert!(Request::decode(&[255; 40]).is_none());
        assert!(Request::decode(&head([27, 0, 0, 0])).is_none());
        assert!(Request::decode(&head([26, 0, 0, 0])).is_some());
    }
}
