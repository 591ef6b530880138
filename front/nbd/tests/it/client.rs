//! Client side of the protocol, written with the specification's numbers instead of [`nbd::wire`].

use std::io::{Read, Write};

/// Decoded reply to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) cookie: u64,
    pub(crate) error: u32,
    pub(crate) bytes: Vec<u8>,
    pub(crate) pieces: Vec<(u32, u32)>,
}

pub(crate) struct Client<S> {
    pub(crate) stream: S,
    pub(crate) structured: bool,
    next: u64,
}

pub(crate) const READ: u16 = 0;
pub(crate) const WRITE: u16 = 1;
pub(crate) const LEAVE: u16 = 2;
pub(crate) const FLUSH: u16 = 3;
pub(crate) const TRIM: u16 = 4;
pub(crate) const CACHE: u16 = 5;
pub(crate) const ZERO: u16 = 6;
pub(crate) const STATUS: u16 = 7;

pub(crate) fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"IHAVEOPT".to_vec();
    bytes.extend(number.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    bytes
}

pub(crate) fn request(flags: u16, kind: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

impl<S: Read + Write> Client<S> {
    /// Exchanges greetings with the server.
    pub(crate) fn hello(mut stream: S) -> Self {
        let mut hello = [0; 18];
        stream.read_exact(&mut hello).expect("a greeting");
        assert_eq!(&hello[..16], b"NBDMAGICIHAVEOPT");
        assert_eq!(hello[17] & 3, 3, "fixed newstyle, no zeros");
        stream.write_all(&3_u32.to_be_bytes()).expect("answered");
        Self::over(stream)
    }

    /// Client over `stream` with nothing negotiated yet.
    pub(crate) fn over(stream: S) -> Self {
        Self {
            stream,
            structured: false,
            next: 1,
        }
    }

    /// Sends an option; returns all its replies as pairs of kind and data.
    pub(crate) fn ask(&mut self, number: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
        self.stream.write_all(&option(number, data)).expect("sent");
        let mut replies = Vec::new();
        loop {
            assert_eq!(self.u64(), 0x0003_e889_0455_65a9);
            assert_eq!(self.u32(), number);
            let kind = self.u32();
            let len = self.u32();
            replies.push((kind, self.bytes(len as usize)));
            if kind == 1 || kind >> 31 == 1 {
                return replies;
            }
        }
    }

    /// Finishes the handshake, with structured replies and `base:allocation` if `structured`;
    /// returns the export's size and flags.
    pub(crate) fn go(&mut self, structured: bool) -> (u64, u16) {
        self.structured = structured;
        if structured {
            assert_eq!(self.ask(8, b""), [(1, vec![])]);
            let query = [
                &[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 15],
                &b"base:allocation"[..],
            ]
            .concat();
            let replies = self.ask(10, &query);
            assert_eq!(
                replies[0],
                (4, [&[0, 0, 0, 1], &b"base:allocation"[..]].concat())
            );
        }
        let replies = self.ask(7, &[0, 0, 0, 0, 0, 1, 0, 3]);
        assert_eq!(replies.len(), 3, "{replies:?}");
        let export = &replies[0].1;
        assert_eq!(export[..2], [0, 0]);
        let size = u64::from_be_bytes(export[2..10].try_into().expect("eight"));
        (
            size,
            u16::from_be_bytes(export[10..12].try_into().expect("two")),
        )
    }

    /// Sends a request; returns its cookie.
    pub(crate) fn send(&mut self, flags: u16, kind: u16, at: u64, len: u32, data: &[u8]) -> u64 {
        let cookie = self.next;
        self.next += 1;
        let mut bytes = request(flags, kind, cookie, at, len);
        bytes.extend(data);
        self.stream.write_all(&bytes).expect("sent");
        cookie
    }

    /// Sends a request and receives its reply.
    pub(crate) fn call(&mut self, flags: u16, kind: u16, at: u64, len: u32, data: &[u8]) -> Said {
        let cookie = self.send(flags, kind, at, len, data);
        let expected = if kind == READ { len } else { 0 };
        let said = self.reply(|_| expected);
        assert_eq!(said.cookie, cookie);
        said
    }

    /// Receives a reply; `length` maps a cookie to the data bytes of a simple reply to a read.
    pub(crate) fn reply(&mut self, length: impl Fn(u64) -> u32) -> Said {
        let magic = self.u32();
        let mut said = Said {
            cookie: 0,
            error: 0,
            bytes: Vec::new(),
            pieces: Vec::new(),
        };
        if magic == 0x6744_6698 {
            said.error = self.u32();
            said.cookie = self.u64();
            if said.error == 0 && !self.structured {
                said.bytes = self.bytes(length(said.cookie) as usize);
            }
            return said;
        }
        assert_eq!(magic, 0x668e_33ef);
        let (flags, kind) = (self.u16(), self.u16());
        assert_eq!(flags, 1, "one part is all");
        said.cookie = self.u64();
        let len = self.u32() as usize;
        let data = self.bytes(len);
        let u32_at = |at: usize| u32::from_be_bytes(data[at..at + 4].try_into().expect("four"));
        match kind {
            0 => assert!(data.is_empty()),
            1 => said.bytes = data[8..].to_vec(),
            5 => {
                assert_eq!(u32_at(0), 1);
                let pieces = (4..data.len()).step_by(8);
                said.pieces = pieces.map(|at| (u32_at(at), u32_at(at + 4))).collect();
            }
            0x8001 => {
                said.error = u32_at(0);
                let len = u16::from_be_bytes(data[4..6].try_into().expect("two"));
                assert_eq!(data.len(), 6 + usize::from(len));
            }
            other => panic!("a part of kind {other}"),
        }
        said
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.stream.read_exact(&mut bytes).expect("bytes");
        bytes
    }

    fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.bytes(2).try_into().expect("two"))
    }

    fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.bytes(4).try_into().expect("four"))
    }

    fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.bytes(8).try_into().expect("eight"))
    }
}
