//! Layout of the protocol's PDUs (units).

use units::layout::Field;

/// Size in bytes of the header common to all units.
//= nvme-tcp 1
pub const COMMON: usize = 8;

/// Kind of a unit.
//= nvme-tcp 1
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Initialize Connection Request, from the host.
    OpenRequest,
    /// Initialize Connection Response (ICResp) of the controller.
    OpenResponse,
    /// Termination request from the host, with a reason.
    HostEnds,
    /// Termination request from the controller.
    ControllerEnds,
    /// Command capsule, with optional data.
    Command,
    /// Response capsule: a completion.
    Response,
    /// Data from the host.
    HostData,
    /// Data to the host.
    ControllerData,
    /// Ready to Transfer: requests data from the host.
    Ready,
}

/// Kinds with their type number and header size in bytes.
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
    /// Kind with this type number; none if unknown.
    #[must_use]
    pub fn of(number: u8) -> Option<Self> {
        let found = KINDS.iter().find(|(_, own, _)| *own == number);
        found.map(|(kind, ..)| *kind)
    }

    fn row(self) -> (u8, usize) {
        let found = KINDS.iter().find(|(kind, ..)| *kind == self);
        found.map_or((0, 0), |(_, number, bytes)| (*number, *bytes))
    }

    /// Type number in the common header.
    #[must_use]
    pub fn number(self) -> u8 {
        self.row().0
    }

    /// Header size in bytes, without digest.
    #[must_use]
    pub fn header(self) -> usize {
        self.row().1
    }
}

/// Flag: a header digest follows the header.
pub const HEADER_DIGEST: u8 = 1;
/// Flag: a data digest follows the data.
pub const DATA_DIGEST: u8 = 1 << 1;
/// Flag: last data of a command or of a transfer request.
pub const LAST: u8 = 1 << 2;

/// Type number of the unit.
pub const KIND: Field<u8> = Field::at(0);
/// Flags of the unit: [`HEADER_DIGEST`], [`DATA_DIGEST`], [`LAST`].
pub const FLAGS: Field<u8> = Field::at(1);
/// Length of the header in bytes.
pub const HEADER_LEN: Field<u8> = Field::at(2);
/// Offset of the data in bytes from the start of the unit.
pub const DATA_AT: Field<u8> = Field::at(3);
/// Length of the whole unit in bytes.
pub const LEN: Field<u32> = Field::at(4);

/// Opening: version of the PDU format.
//= nvme-tcp 2
pub const VERSION: Field<u16> = Field::at(8);
/// Opening: alignment of data in dwords, zero-based.
pub const ALIGNMENT: Field<u8> = Field::at(10);
/// Opening: flags of the digests in use.
pub const DIGESTS: Field<u8> = Field::at(11);
/// Opening response: most bytes of data in one unit.
pub const MOST_DATA: Field<u32> = Field::at(12);

/// Data and transfer requests: command identifier.
//= nvme-tcp 4
pub const CID: Field<u16> = Field::at(8);
/// Data and transfer requests: transfer tag of the controller.
pub const TAG: Field<u16> = Field::at(10);
/// Data and transfer requests: offset of the first byte within the command's data.
pub const OFFSET: Field<u32> = Field::at(12);
/// Data and transfer requests: length in bytes.
pub const DATA_LEN: Field<u32> = Field::at(16);

/// Termination: reason of the error.
//= nvme-tcp 6
pub const REASON: Field<u16> = Field::at(8);
/// Termination: offset of the faulty field, or the expected digest.
pub const DETAIL: Field<u32> = Field::at(10);

/// Header of a unit of this kind, for a unit without data.
#[must_use]
pub fn header(kind: Kind) -> Vec<u8> {
    let len = kind.header();
    let mut bytes = vec![0; len];
    KIND.put(&mut bytes, kind.number());
    HEADER_LEN.put(&mut bytes, len as u8);
    LEN.put(&mut bytes, len as u32);
    bytes
}

/// Encoding of units in one direction of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Format {
    /// Whether headers carry a digest.
    pub header_digest: bool,
    /// Whether data carry a digest.
    pub data_digest: bool,
    /// Alignment of data in bytes; 0 means 1.
    pub alignment: usize,
}

impl Format {
    /// Appends a unit with the header `head` and the bytes `data` to `out`.
    pub fn append(self, out: &mut Vec<u8>, head: Vec<u8>, data: &[u8]) {
        self.begin(out, head, data.len());
        out.extend_from_slice(data);
        out.extend(self.digest(data).into_iter().flatten());
    }

    /// Digest to send after `data`; none without data digests.
    #[must_use]
    pub fn digest(self, data: &[u8]) -> Option<[u8; super::digest::DIGEST]> {
        (self.data_digest && !data.is_empty()).then(|| super::digest::crc(data))
    }

    /// Appends everything before the data of a unit with `data` bytes of data.
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
