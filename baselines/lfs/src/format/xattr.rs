//! Extended attributes: a list that begins in the inode and goes on in a node of its
//! own, as one row of bytes.

use super::node::XATTR_INLINE;
use super::{BLOCK, Value};

/// Marks the head of a list.
const MAGIC: u32 = 0xF2F5_2011;
/// Bytes of the head.
const HEAD: usize = 24;
/// Bytes of a node that are not its footer.
pub(crate) const IN_NODE: usize = BLOCK - 24;
/// Bytes of a list at most; four zeros end it.
const MOST: usize = XATTR_INLINE + IN_NODE - 4;

/// An attribute: its namespace as a number, its name there, its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Xattr {
    pub(crate) space: u8,
    pub(crate) name: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

/// Namespaces by their numbers.
//= f2fs-layout 8
const SPACES: &[(u8, &[u8])] = &[
    (1, b"user."),
    (2, b"system.posix_acl_access"),
    (3, b"system.posix_acl_default"),
    (4, b"trusted."),
    (6, b"security."),
];

/// The number of the namespace of a whole name, and the rest of it.
pub(crate) fn split(name: &[u8]) -> Option<(u8, &[u8])> {
    SPACES.iter().find_map(|(space, prefix)| {
        let rest = name.strip_prefix(*prefix)?;
        // A prefix with a dot needs more, one without is the whole name.
        (prefix.ends_with(b".") != rest.is_empty()).then_some((*space, rest))
    })
}

impl Xattr {
    /// Name with the prefix of its namespace; `None` if the namespace is unknown.
    pub(crate) fn full(&self) -> Option<Vec<u8>> {
        let mut spaces = SPACES.iter();
        let (_, prefix) = spaces.find(|(space, _)| *space == self.space)?;
        Some([prefix, &self.name[..]].concat())
    }

    const fn size(&self) -> usize {
        (4 + self.name.len() + self.value.len()).next_multiple_of(4)
    }
}

/// Reads a list; none if it leaves its bytes.
pub(crate) fn decode(bytes: &[u8]) -> Option<Vec<Xattr>> {
    if bytes.len() < HEAD || u32::load(bytes) != MAGIC {
        return Some(Vec::new());
    }
    let (mut list, mut rest) = (Vec::new(), &bytes[HEAD..]);
    while rest.len() >= 4 && u32::load(rest) != 0 {
        let (space, name) = (rest[0], usize::from(rest[1]));
        let value = usize::from(u16::load(&rest[2..]));
        let xattr = Xattr {
            space,
            name: rest.get(4..4 + name)?.to_vec(),
            value: rest.get(4 + name..4 + name + value)?.to_vec(),
        };
        rest = rest.get(xattr.size()..)?;
        list.push(xattr);
    }
    Some(list)
}

/// Bytes that a list takes, however many.
pub(crate) fn needed(list: &[Xattr]) -> usize {
    HEAD + list.iter().map(Xattr::size).sum::<usize>()
}

/// Writes a list; none if it is too long. An empty list is no bytes.
pub(crate) fn encode(list: &[Xattr]) -> Option<Vec<u8>> {
    if list.is_empty() {
        return Some(Vec::new());
    }
    let mut bytes = vec![0; HEAD];
    MAGIC.save(&mut bytes);
    1_u32.save(&mut bytes[4..]);
    for xattr in list {
        let end = bytes.len() + xattr.size();
        bytes.extend([xattr.space, u8::try_from(xattr.name.len()).ok()?]);
        bytes.extend(u16::try_from(xattr.value.len()).ok()?.to_le_bytes());
        bytes.extend(&xattr.name);
        bytes.extend(&xattr.value);
        bytes.resize(end, 0);
    }
    (bytes.len() <= MOST).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xattr_list_encoded_and_decoded_is_unchanged_or_refused() {
        let xattr = |n: usize| Xattr {
            space: 1,
            name: vec![b'n'; n],
            value: vec![7; 3 * n],
        };
        let list: Vec<_> = (1..9).map(xattr).collect();
        let mut bytes = encode(&list).unwrap();
        bytes.resize(bytes.len() + 4, 0);
        assert_eq!(decode(&bytes), Some(list.clone()));
        assert_eq!(decode(&bytes[..70]), None);
        let large = Xattr {
            value: vec![1; 5000],
            ..xattr(1)
        };
        assert_eq!(encode(&[large]), None);
        assert_eq!(split(b"user."), None);
        assert_eq!(split(b"system.posix_acl_access"), Some((2, &b""[..])));
    }
}
