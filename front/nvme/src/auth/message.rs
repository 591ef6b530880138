//! The messages of an authentication: the one place that knows their bytes.

use super::group::Group;
use super::hash::Hash;
use units::layout::Field;

/// Bytes before what has no fixed length.
const HEAD: usize = 16;
/// Bytes of a Negotiate before its descriptors.
const NEGOTIATE: usize = 8;
/// Bytes of a descriptor of a protocol.
const DESCRIPTOR: usize = 64;
/// Most functions and most groups that a descriptor has room for.
const IDS: usize = 30;
/// The protocol.
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

/// Why an authentication fails, as the host is told.
//= nvme-2.0 8.13.5
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The secret is not the one.
    Failed = 1,
    /// The host offers no protocol that is known.
    Protocol,
    /// It wants what is agreed on for another channel.
    Concatenation,
    Hash,
    Group,
    /// Lengths and values that do not fit.
    Payload,
    /// It is not the turn of this message.
    Message,
}

/// What a host says.
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
        /// What the drive is to prove itself with, and its number.
        challenge: Option<(Vec<u8>, u32)>,
        group_number: Vec<u8>,
    },
    /// The drive has proved itself.
    Confirmed { transaction: u16 },
    /// It has not.
    Refused,
}

/// The bytes `from` to before `to`, if they are there.
fn part(data: &[u8], from: usize, len: usize) -> Result<&[u8], Why> {
    let end = from.checked_add(len).ok_or(Why::Payload)?;
    data.get(from..end).ok_or(Why::Payload)
}

impl Said {
    /// What these bytes say; responses have the length of `hash`.
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

/// The strongest function and the largest group that both know.
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

/// Asks the host to prove that it has its secret.
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

/// The host has proved that; the drive proves itself if it was asked to.
//= nvme-2.0 8.13.5
pub(super) fn success(transaction: u16, hash: Hash, response: Option<&[u8]>) -> Vec<u8> {
    let mut bytes = head(0x03, transaction);
    HASH_BYTES.put(&mut bytes, hash.bytes() as u8);
    VALID.put(&mut bytes, u8::from(response.is_some()));
    bytes.extend(response.unwrap_or_default());
    bytes
}

/// It is over.
//= nvme-2.0 8.13.5
pub(super) fn failure(transaction: u16, why: Why) -> Vec<u8> {
    let mut bytes = vec![0; NEGOTIATE];
    ID.put(&mut bytes, 0xf1);
    TRANSACTION.put(&mut bytes, transaction);
    (bytes[6], bytes[7]) = (1, why as u8);
    bytes
}
