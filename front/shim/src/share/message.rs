//! What a client asks of the daemon, and what it answers: one datagram each, of four words
//! and what follows them.
//!
//! Invariant: a datagram of any bytes is a request, or none; it causes no panic, and no
//! allocation by a length that it says.

use crate::sys::{self, Errno};
use core::ffi::c_int;

/// The most bytes behind the words of a message.
pub(crate) const DATA_MAX: usize = 60 << 10;
const WORDS: usize = 32;
/// The longest message.
pub(crate) const MESSAGE_MAX: usize = WORDS + DATA_MAX;

/// Declares the requests by number.
macro_rules! ops {
    ($($(#[$about:meta])* $op:ident = $number:literal,)*) => {
        /// What is asked.
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
    /// Begins as the client with the token in the first word; as a new one if it is 0,
    /// which has open what the client with the token in the second has. Answers with the
    /// token, the volume, how many zones may be open, and the shared memory if it is new.
    Hello = 1,
    /// Keeps the daemon from ending.
    Keep = 2,
    /// Makes a file at the path, which is open then. What stands for it comes along. Answers
    /// with its number.
    Create = 3,
    /// What is written from now on belongs to the stream and the group.
    Place = 4,
    /// Opens a file once more. Answers with its length.
    Open = 5,
    /// Closes it once.
    Close = 6,
    /// Its length.
    Size = 7,
    /// Writes at an offset, at the end, or where the kernel's offset is of a descriptor that
    /// comes along, which is moved. Answers with where it ended, and how much.
    Write = 8,
    /// Asks for a lease. Answers with the length and the lease.
    Lease = 9,
    /// Bytes from an offset. Answers with them, the length, and how much is in zones.
    Read = 10,
    /// Where the file is in zones, from the block on that begins at a byte. Answers with
    /// pieces, the length, and how much is in zones.
    Map = 11,
    /// As that, from the first piece on, after bringing it to the zones; they stay there
    /// until [`Op::Unpin`] of the number that is answered.
    Pin = 12,
    /// More pieces of what was pinned.
    Pinned = 13,
    /// Lets go of what was pinned.
    Unpin = 14,
    /// Makes a file durable, and what stands for it as long, as [`Op::Stand`] does, if that
    /// comes along. Answers with the length.
    Sync = 15,
    /// Makes all durable.
    SyncAll = 16,
    /// Cuts a file.
    Truncate = 17,
    /// The last name of a file is gone from the folder that follows.
    Unlinked = 18,
    /// The file has the path that follows.
    Renamed = 19,
    /// The client moves the file to the ordinary file system, into what stands for it, which
    /// comes along.
    MoveBegin = 20,
    /// It has, or not.
    MoveEnd = 21,
    /// Paths of placed files behind the one that follows, with zero bytes between them.
    List = 22,
    /// The number of the file at the path that follows, and its length.
    Find = 23,
    /// Makes what stands for a file, which comes along as a descriptor, as long as the file
    /// is, unless the file is gone from the zones: then that is the file.
    Stand = 24,
    /// A number for a file of which nobody knows the number any more, at the path that
    /// follows. What stands for it comes along. Answers all who ask for the same one alike.
    Renew = 25,
    /// Moves the offset of the descriptor that comes along while nobody writes: by so many
    /// bytes, from where the second word says as for `lseek`. Answers with where it is.
    Seek = 26,
}

/// An offset that stands for the end.
pub(crate) const END: u64 = u64::MAX;
/// An offset that stands for that of a descriptor.
pub(crate) const HERE: u64 = u64::MAX - 1;
/// A lease that is none.
pub(crate) const NO_LEASE: u64 = u64::MAX;

/// What becomes of a request that is not done for another reason than an error.
pub(crate) const DEMOTE: u64 = 1 << 16;
pub(crate) const GONE: u64 = 1 << 17;

/// A request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) op: Op,
    pub(crate) file: u64,
    pub(crate) a: u64,
    pub(crate) b: u64,
    pub(crate) data: &'a [u8],
}

/// An answer: how it went, three words, and what follows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// 0, a number of an error, or one of the above.
    pub(crate) status: u64,
    pub(crate) words: [u64; 3],
    /// Bytes; a sentence if it is an error.
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

    /// Sends it, with a descriptor if there is one.
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

    /// Sends it, with a descriptor if there is one.
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
    fn what_is_sent_is_what_is_received() {
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
    fn bytes_that_are_no_request_are_none() {
        for len in 0..WORDS {
            assert!(Request::decode(&vec![1; len]).is_none());
        }
        assert!(Request::decode(&[0; 40]).is_none());
        assert!(Request::decode(&[255; 40]).is_none());
        assert!(Request::decode(&head([27, 0, 0, 0])).is_none());
        assert!(Request::decode(&head([26, 0, 0, 0])).is_some());
    }
}
