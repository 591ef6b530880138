//! The units of the protocol: where their fields lie.

use units::layout::Field;

/// Bytes of the header that all have.
//= nvme-tcp 1
pub const COMMON: usize = 8;

/// Kinds of units.
//= nvme-tcp 1
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The host opens the connection.
    OpenRequest,
    /// So do we.
    OpenResponse,
    /// The host ends the connection, and says why.
    HostEnds,
    /// We do.
    ControllerEnds,
    /// A command, perhaps with data.
    Command,
    /// The completion of one.
    Response,
    /// Data of a command, from the host.
    HostData,
    /// Data for the host.
    ControllerData,
    /// Asks the host for data.
    Ready,
}

/// Each kind, its number, and the bytes of its header.
const KINDS: [(Kind, u8, usize); 9] = [
    (Kind::OpenRequest, 0x00, 128),
    (Kind::OpenResponse, 0x01, 128),
    (Kind::HostEnds, 0x02, 24),
    (Kind::ControllerEnds, 0x03, 24),
    (Kind::Command, 0x04, 72),
    (Kind::Response, 0x05, 24),
    (Kind::HostData, 0x06, 24),
    (Kind::ControllerData, 0x07, 24),
    (Kind::Ready, 0x09, 24),
];

impl Kind {
    /// The kind of that number.
    #[must_use]
    pub fn of(number: u8) -> Option<Self> {
        let found = KINDS.iter().find(|(_, own, _)| *own == number);
        found.map(|(kind, ..)| *kind)
    }

    fn row(self) -> (u8, usize) {
        let found = KINDS.iter().find(|(kind, ..)| *kind == self);
        found.map_or((0, 0), |(_, number, bytes)| (*number, *bytes))
    }

    /// Its number.
    #[must_use]
    pub fn number(self) -> u8 {
        self.row().0
    }

    /// Bytes of its header.
    #[must_use]
    pub fn header(self) -> usize {
        self.row().1
    }
}

/// A header has a digest.
pub const HEADER_DIGEST: u8 = 1;
/// Data have a digest.
pub const DATA_DIGEST: u8 = 1 << 1;
/// These are the last data of a command or of a request for them.
pub const LAST: u8 = 1 << 2;

/// Number of the kind.
pub const KIND: Field<u8> = Field::at(0);
/// Flags.
pub const FLAGS: Field<u8> = Field::at(1);
/// Bytes of the header.
pub const HEADER_LEN: Field<u8> = Field::at(2);
/// Where data begin.
pub const DATA_AT: Field<u8> = Field::at(3);
/// Bytes of all.
pub const LEN: Field<u32> = Field::at(4);

/// Opening: version of the format.
//= nvme-tcp 2
pub const VERSION: Field<u16> = Field::at(8);
/// Opening: what data begin at a multiple of, in dwords less one.
pub const ALIGNMENT: Field<u8> = Field::at(10);
/// Opening: which digests there are.
pub const DIGESTS: Field<u8> = Field::at(11);
/// Opening, to the host: most bytes of data in a unit.
pub const MOST_DATA: Field<u32> = Field::at(12);

/// Data and requests for them: what the host calls the command.
//= nvme-tcp 4
pub const CID: Field<u16> = Field::at(8);
/// Data and requests for them: what we call the transfer.
pub const TAG: Field<u16> = Field::at(10);
/// Data and requests for them: the first byte, counted from that of the command.
pub const OFFSET: Field<u32> = Field::at(12);
/// Data and requests for them: bytes.
pub const DATA_LEN: Field<u32> = Field::at(16);

/// Ends: why.
//= nvme-tcp 6
pub const REASON: Field<u16> = Field::at(8);
/// Ends: where in the header, or the digest that was expected.
pub const DETAIL: Field<u32> = Field::at(10);

/// A unit with a header only.
#[must_use]
pub fn header(kind: Kind) -> Vec<u8> {
    let len = kind.header();
    let mut bytes = vec![0; len];
    KIND.put(&mut bytes, kind.number());
    HEADER_LEN.put(&mut bytes, len as u8);
    LEN.put(&mut bytes, len as u32);
    bytes
}

/// How units of one side of a connection are put together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Format {
    /// Headers have a digest.
    pub header_digest: bool,
    /// Data have a digest.
    pub data_digest: bool,
    /// What data begin at a multiple of; 0 is as good as 1.
    pub alignment: usize,
}

impl Format {
    /// Appends a unit to `out`: `head`, which is its header, and `data`.
    pub fn append(self, out: &mut Vec<u8>, head: Vec<u8>, data: &[u8]) {
        self.begin(out, head, data.len());
        out.extend_from_slice(data);
        out.extend(self.digest(data).into_iter().flatten());
    }

    /// The digest that follows `data`, if one does.
    #[must_use]
    pub fn digest(self, data: &[u8]) -> Option<[u8; super::digest::DIGEST]> {
        (self.data_digest && !data.is_empty()).then(|| super::digest::crc(data))
    }

    /// Appends what is before the data of a unit, of which there will be `data` bytes.
    pub fn begin(self, out: &mut Vec<u8>, mut head: Vec<u8>, data: usize) {
        let digest = |is_there: bool| if is_there { super::digest::DIGEST } else { 0 };
        let mut flags = FLAGS.get(&head);
        let mut len = head.len() + digest(self.header_digest);
        if self.header_digest {
            flags |= HEADER_DIGEST;
        }
        let mut padding = 0;
        if data > 0 {
            let at = len.next_multiple_of(self.alignment.max(1));
            (padding, len) = (at - len, at + data + digest(self.data_digest));
            DATA_AT.put(&mut head, at as u8);
            if self.data_digest {
                flags |= DATA_DIGEST;
            }
        }
        FLAGS.put(&mut head, flags);
        LEN.put(&mut head, len as u32);
        out.extend_from_slice(&head);
        if self.header_digest {
            out.extend_from_slice(&super::digest::crc(&head));
        }
        out.resize(out.len() + padding, 0);
    }
}
