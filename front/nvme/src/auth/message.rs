//! Authentication messages: the only place that knows their layout.

use super::group::Group;
use super::hash::Hash;
use units::layout::Field;

/// Size in bytes of the fixed part of a message.
const HEAD: usize = 16;
/// Size in bytes of a Negotiate message before its descriptors.
const NEGOTIATE: usize = 8;
/// Size in bytes of a protocol descriptor.
const DESCRIPTOR: usize = 64;
/// Most hash functions, and most groups, in a descriptor.
const IDS: usize = 30;
/// Identifier of the DH-HMAC-CHAP protocol.
const CHAP: u8 = 1;

const KIND: Field<u8> = Field::at(0);
const ID: Field<u8> = Field::at(1);
const TRANSACTION: Field<u16> = Field::at(4);
const HASH_BYTES: Field<u8> = Field::at(6);
const HASH: Field<u8> = Field::at(8);
const VALID: Field<u8> = Field::at(8);
const GROUP: Field<u8> = Field::at(9);
const GROUP_BYTES: Field<u16> = Field::at(10);
const SEQUENCE: Field<u32> = Field::at(12);

/// Reason code of a failed authentication, as sent to the host.
//= nvme-2.0 8.13.5
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The response does not match the secret.
    Failed = 1,
    /// The host offers no supported protocol.
    Protocol,
    /// The host asks for secure channel concatenation, which is not supported.
    Concatenation,
    Hash,
    Group,
    /// Inconsistent lengths or invalid values.
    Payload,
    /// The message is out of sequence.
    Message,
}

/// A parsed message of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    Negotiate {
        transaction: u16,
        hash: Hash,
        group: Group,
    },
    Reply {
        transaction: u16,
        response: Vec<u8>,
        /// Challenge to the drive and its sequence number, if the host authenticates the drive.
        challenge: Option<(Vec<u8>, u32)>,
        group_number: Vec<u8>,
    },
    /// The host accepts the response of the drive.
    Confirmed { transaction: u16 },
    /// The host rejects the authentication.
    Refused,
}

/// The `len` bytes of `data` from `from` on; an error if they are not all there.
fn part(data: &[u8], from: usize, len: usize) -> Result<&[u8], Why> {
    let end = from.checked_add(len).ok_or(Why::Payload)?;
    data.get(from..end).ok_or(Why::Payload)
}

impl Said {
    /// Parses a message; responses have the length of `hash`.
    pub(super) fn parse(data: &[u8], hash: Option<Hash>) -> Result<Self, Why> {
        part(data, 0, NEGOTIATE)?;
        match (KIND.get(data), ID.get(data)) {
            (0, 0x00) => negotiate(data),
            (1, 0x02) => reply(data, hash.ok_or(Why::Message)?),
            (1, 0x04) => {
                part(data, 0, HEAD)?;
                let transaction = TRANSACTION.get(data);
                Ok(Self::Confirmed { transaction })
            }
            (0, 0xf0) => Ok(Self::Refused),
            _ => Err(Why::Message),
        }
    }
}

/// Picks the strongest hash function and the largest group that both sides support.
//= nvme-2.0 8.13.5
fn negotiate(data: &[u8]) -> Result<Said, Why> {
    let (concatenation, count) = (data[6], usize::from(data[7]));
    if concatenation != 0 {
        return Err(Why::Concatenation);
    }
    let all = part(data, NEGOTIATE, count * DESCRIPTOR)?;
    let chap = all.chunks(DESCRIPTOR).find(|one| one[0] == CHAP);
    let chap = chap.ok_or(Why::Protocol)?;
    let (hashes, groups) = (usize::from(chap[2]), usize::from(chap[3]));
    if hashes > IDS || groups > IDS {
        return Err(Why::Payload);
    }
    let hashes = part(chap, 4, hashes)?.iter();
    let groups = part(chap, 4 + IDS, groups)?.iter();
    let hash = hashes.filter_map(|&id| Hash::of(id)).max();
    let group = groups.filter_map(|&id| Group::of(id)).max();
    Ok(Said::Negotiate {
        transaction: TRANSACTION.get(data),
        hash: hash.ok_or(Why::Hash)?,
        group: group.ok_or(Why::Group)?,
    })
}

//= nvme-2.0 8.13.5
fn reply(data: &[u8], hash: Hash) -> Result<Said, Why> {
    part(data, 0, HEAD)?;
    let bytes = hash.bytes();
    if usize::from(HASH_BYTES.get(data)) != bytes {
        return Err(Why::Payload);
    }
    let response = part(data, HEAD, bytes)?.to_vec();
    let challenge = part(data, HEAD + bytes, bytes)?.to_vec();
    let group_bytes = usize::from(GROUP_BYTES.get(data));
    let group_number = part(data, HEAD + 2 * bytes, group_bytes)?.to_vec();
    let wanted = VALID.get(data) & 1 == 1;
    Ok(Said::Reply {
        transaction: TRANSACTION.get(data),
        response,
        challenge: wanted.then(|| (challenge, SEQUENCE.get(data))),
        group_number,
    })
}

fn head(id: u8, transaction: u16) -> Vec<u8> {
    let mut bytes = vec![0; HEAD];
    KIND.put(&mut bytes, 1);
    ID.put(&mut bytes, id);
    TRANSACTION.put(&mut bytes, transaction);
    bytes
}

/// Encodes a Challenge for the host.
//= nvme-2.0 8.13.5
pub(super) fn challenge(
    transaction: u16,
    (hash, group): (Hash, Group),
    (value, sequence): (&[u8], u32),
    group_number: &[u8],
) -> Vec<u8> {
    let mut bytes = head(0x01, transaction);
    HASH_BYTES.put(&mut bytes, hash.bytes() as u8);
    HASH.put(&mut bytes, hash.number());
    GROUP.put(&mut bytes, group.number());
    GROUP_BYTES.put(&mut bytes, group_number.len() as u16);
    SEQUENCE.put(&mut bytes, sequence);
    bytes.extend(value);
    bytes.extend(group_number);
    bytes
}

/// Encodes Success1, with the response of the drive if the host sent a challenge.
//= nvme-2.0 8.13.5
pub(super) fn success(transaction: u16, hash: Hash, response: Option<&[u8]>) -> Vec<u8> {
    let mut bytes = head(0x03, transaction);
    HASH_BYTES.put(&mut bytes, hash.bytes() as u8);
    VALID.put(&mut bytes, u8::from(response.is_some()));
    bytes.extend(response.unwrap_or_default());
    bytes
}

/// Encodes a Failure with its reason.
//= nvme-2.0 8.13.5
pub(super) fn failure(transaction: u16, why: Why) -> Vec<u8> {
    let mut bytes = vec![0; NEGOTIATE];
    ID.put(&mut bytes, 0xf1);
    TRANSACTION.put(&mut bytes, transaction);
    (bytes[6], bytes[7]) = (1, why as u8);
    bytes
}
