//! Extended attributes: entries that grow from the front, values from the back.
//!
//! They lie behind the fields of an inode, after a magic number, or in a block
//! with a header of 32 bytes.
//!
//! Invariant: [`decode`] gives an area as a list, [`encode`] writes any list that
//! fits, so nothing else knows where a value lies.

use super::{Field, Value, crc, layout};
use crate::BLOCK;

/// Before attributes in an inode and at the start of a block.
pub(crate) const MAGIC_NUMBER: u32 = 0xEA02_0000;
/// Bytes of the header of a block.
pub(crate) const HEADER: usize = 32;
/// Bytes of the magic number in an inode.
pub(crate) const INODE_HEADER: usize = 4;

const ENTRY: usize = 16;

//= ext4-layout 5.5
layout! { 32:
    MAGIC: u32 = 0x0,
    REFERENCES: u32 = 0x4,
    BLOCKS: u32 = 0x8,
    HASH: u32 = 0xC,
    CHECKSUM: u32 = 0x10,
}

/// Prefixes of names by their number.
const PREFIXES: [(u8, &[u8]); 6] = [
    (1, b"user."),
    (2, b"system.posix_acl_access"),
    (3, b"system.posix_acl_default"),
    (4, b"trusted."),
    (6, b"security."),
    (7, b"system."),
];

/// Prefix numbers of the two access lists. Their names end with the prefix, and their values
/// differ between medium and file API.
pub(crate) const ACLS: [u8; 2] = [2, 3];

/// An extended attribute of an inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Xattr {
    /// Number of the name's prefix, as in [`PREFIXES`].
    pub(crate) prefix: u8,
    /// Name without the prefix, at most 255 bytes.
    pub(crate) name: Vec<u8>,
    /// Value as on the medium; access lists are converted by [`acl_to_api`].
    pub(crate) value: Vec<u8>,
}

/// Splits a full name into prefix and rest; none if no prefix fits.
pub(crate) fn split(name: &[u8]) -> Option<(u8, &[u8])> {
    PREFIXES.iter().find_map(|&(number, prefix)| {
        let rest = name.strip_prefix(prefix)?;
        (rest.is_empty() == ACLS.contains(&number)).then_some((number, rest))
    })
}

/// The full name; `None` if [`PREFIXES`] lacks the prefix number.
pub(crate) fn full_name(attribute: &Xattr) -> Option<Vec<u8>> {
    let (_, prefix) = PREFIXES.iter().find(|(n, _)| *n == attribute.prefix)?;
    Some([prefix, attribute.name.as_slice()].concat())
}

const fn padded(len: usize) -> usize {
    len.next_multiple_of(4)
}

/// Reads the entries of `area` from `from` on; offsets of values count from `base`. Returns
/// `None` if an entry or a value exceeds `area`, or if a value lies in an inode of its own.
//= ext4-layout 5.5
pub(crate) fn decode(area: &[u8], from: usize, base: usize) -> Option<Vec<Xattr>> {
    let mut list = Vec::new();
    let mut at = from;
    while at + 4 <= area.len() && u32::load(&area[at..]) != 0 {
        let entry = area.get(at..at + ENTRY)?;
        let name_len = usize::from(entry[0]);
        let name = area.get(at + ENTRY..at + ENTRY + name_len)?;
        let (offset, inode) = (u16::load(&entry[2..]), u32::load(&entry[4..]));
        let size = u32::load(&entry[8..]) as usize;
        let first = base + usize::from(offset);
        let value = if size == 0 {
            &[]
        } else {
            area.get(first..first.checked_add(size)?)?
        };
        if inode != 0 {
            return None;
        }
        list.push(Xattr {
            prefix: entry[1],
            name: name.to_vec(),
            value: value.to_vec(),
        });
        at += ENTRY + padded(name_len);
    }
    Some(list)
}

/// Bytes that `list` needs behind the header, with the end mark.
pub(crate) fn needed(list: &[Xattr]) -> usize {
    let each = |x: &Xattr| ENTRY + padded(x.name.len()) + padded(x.value.len());
    list.iter().map(each).sum::<usize>() + 4
}

/// Writes `list` to `area` from `from` on, with hashes if `hashed`; offsets of values count
/// from `base`. The caller has checked with [`needed`] that `list` fits.
fn encode(area: &mut [u8], from: usize, base: usize, list: &[Xattr], hashed: bool) {
    area[from..].fill(0);
    let (mut at, mut end) = (from, area.len());
    for x in list {
        end -= padded(x.value.len());
        area[end..end + x.value.len()].copy_from_slice(&x.value);
        let offset = if x.value.is_empty() { 0 } else { end - base };
        let words = &area[end..end + padded(x.value.len())];
        let hash = if hashed {
            entry_hash(&x.name, words)
        } else {
            0
        };
        let entry = &mut area[at..];
        entry[0] = x.name.len() as u8;
        entry[1] = x.prefix;
        (offset as u16).save(&mut entry[2..]);
        (x.value.len() as u32).save(&mut entry[8..]);
        hash.save(&mut entry[12..]);
        entry[ENTRY..ENTRY + x.name.len()].copy_from_slice(&x.name);
        at += ENTRY + padded(x.name.len());
    }
}

/// Reads the attributes in an inode slot; `area` is the rest of the slot behind its fields.
pub(crate) fn decode_inode(area: &[u8]) -> Option<Vec<Xattr>> {
    if area.len() < INODE_HEADER + 4 || u32::load(area) != MAGIC_NUMBER {
        return Some(Vec::new());
    }
    decode(area, INODE_HEADER, INODE_HEADER)
}

/// Writes `list` to the rest of an inode slot; an empty list zeroes `area`.
pub(crate) fn encode_inode(area: &mut [u8], list: &[Xattr]) {
    if list.is_empty() {
        return area.fill(0);
    }
    MAGIC_NUMBER.save(area);
    encode(area, INODE_HEADER, INODE_HEADER, list, false);
}

/// Reads the attributes of a block; `None` if its header or an entry is not sound.
pub(crate) fn decode_block(block: &[u8; BLOCK]) -> Option<Vec<Xattr>> {
    let sound = MAGIC.get(block) == MAGIC_NUMBER && BLOCKS.get(block) == 1;
    if !sound || REFERENCES.get(block) == 0 {
        return None;
    }
    decode(block, HEADER, 0)
}

/// Builds a block of attributes with one reference, sorted by prefix, length of the name and
/// name. The checksum stays 0: it depends on the block's number.
pub(crate) fn encode_block(list: &[Xattr]) -> Box<[u8; BLOCK]> {
    let mut sorted = list.to_vec();
    sorted.sort_by(|a, b| {
        let key = |x: &Xattr| (x.prefix, x.name.len());
        key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name))
    });
    let mut block = Box::new([0; BLOCK]);
    encode(&mut block[..], HEADER, 0, &sorted, true);
    MAGIC.put(&mut block[..], MAGIC_NUMBER);
    REFERENCES.put(&mut block[..], 1);
    BLOCKS.put(&mut block[..], 1);
    let hash = block_hash(&block, sorted.len());
    HASH.put(&mut block[..], hash);
    block
}

/// Hash of an entry: its name, then the words of its value.
fn entry_hash(name: &[u8], words: &[u8]) -> u32 {
    let named = name
        .iter()
        .fold(0_u32, |hash, &byte| hash.rotate_left(5) ^ u32::from(byte));
    let parts = words.chunks_exact(4).map(u32::load);
    parts.fold(named, |hash, word| hash.rotate_left(16) ^ word)
}

/// Hash of a block, combined from the hashes of its `count` entries; 0 if an entry has hash 0.
fn block_hash(block: &[u8; BLOCK], count: usize) -> u32 {
    let (mut at, mut hash) = (HEADER, 0_u32);
    for _ in 0..count {
        let entry = u32::load(&block[at + 12..]);
        if entry == 0 {
            return 0;
        }
        hash = hash.rotate_left(16) ^ entry;
        at += ENTRY + padded(usize::from(block[at]));
    }
    hash
}

/// The checksum that `bytes` should have as block number `block`.
pub(crate) fn checksum(seed: u32, block: u64, bytes: &[u8; BLOCK]) -> u32 {
    let at = CHECKSUM.at;
    let crc1 = crc(crc(seed, &block.to_le_bytes()), &bytes[..at]);
    crc(crc(crc1, &[0; 4]), &bytes[at + 4..])
}

/// The version word at the start of an access list.
type Word = Field<u32>;

/// Converts an access list from the medium (version 1) to the file API (version 2), which gives
/// every entry an id: four bytes of 0xFF where the medium stores none.
pub(crate) fn acl_to_api(value: &[u8]) -> Option<Vec<u8>> {
    let mut out = 2_u32.to_le_bytes().to_vec();
    let mut rest = value.get(4..)?;
    if Word::at(0).get(value) != 1 {
        return None;
    }
    while !rest.is_empty() {
        let head = rest.get(..4)?;
        let long = matches!(u16::load(head), 2 | 8);
        out.extend_from_slice(head);
        let id = if long { rest.get(4..8)? } else { &[0xFF; 4] };
        out.extend_from_slice(id);
        rest = &rest[if long { 8 } else { 4 }..];
    }
    Some(out)
}

/// Converts an access list from the file API to the medium, which stores ids of named users and
/// groups only.
pub(crate) fn acl_to_medium(value: &[u8]) -> Option<Vec<u8>> {
    let entries = value.get(4..)?;
    if Word::at(0).get(value) != 2 || entries.len() % 8 != 0 {
        return None;
    }
    let mut out = 1_u32.to_le_bytes().to_vec();
    for entry in entries.chunks_exact(8) {
        let long = matches!(u16::load(entry), 2 | 8);
        out.extend_from_slice(&entry[..if long { 8 } else { 4 }]);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> Vec<Xattr> {
        let one = |prefix, name: &str, value: &[u8]| Xattr {
            prefix,
            name: name.as_bytes().to_vec(),
            value: value.to_vec(),
        };
        vec![
            one(1, "b", b"hello"),
            one(6, "selinux", b""),
            one(1, "aa", &[7; 100]),
        ]
    }

    #[test]
    fn attributes_survive_block_and_inode() {
        let mut decoded = decode_block(&encode_block(&list())).unwrap();
        decoded.sort_by_key(|x| list().iter().position(|y| y == x));
        assert_eq!(decoded, list());
        let mut area = [0; 256];
        encode_inode(&mut area, &list());
        assert_eq!(decode_inode(&area), Some(list()));
    }

    #[test]
    fn names_split_at_their_prefix() {
        assert_eq!(split(b"user.a"), Some((1, &b"a"[..])));
        assert_eq!(split(b"system.posix_acl_access"), Some((2, &b""[..])));
        assert_eq!(split(b"user."), None);
        assert_eq!(split(b"other.a"), None);
    }

    #[test]
    fn access_lists_keep_their_entries() {
        let api = [
            2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 4, 0, 9, 0, 0, 0,
        ];
        let medium = acl_to_medium(&api).unwrap();
        assert_eq!(medium.len(), 16);
        assert_eq!(acl_to_api(&medium).unwrap(), api);
    }

    #[test]
    fn any_bytes_are_a_list_or_none() {
        let mut rng = sim::Seed(3).stream("bytes");
        for _ in 0..5_000 {
            let mut block = encode_block(&list());
            for _ in 0..rng.below(6) {
                block[rng.below(128) as usize] = rng.next_u64() as u8;
            }
            let _ = decode_block(&block);
        }
    }
}
