//! Entries of logs, and their bytes.
//!
//! Invariants: an entry takes whole lines within one page; a decoded entry is one that could have
//! been written, as far as that shows without other entries; no bytes make a function here panic.

use crate::format::{Geometry, LINE, time_bits, time_of, trailer};
use host::Purpose;
use vfs::{Attr, FileKind, Ino, Timestamp};

/// Most lines of an entry; the name of a directory entry takes five.
const LINES_MAX: usize = 8;

/// Largest size of a file.
pub(crate) const SIZE_MAX: u64 = i64::MAX as u64;

/// Longest value of an extended attribute, kept in a page: its size in bytes.
pub(crate) const VALUE_MAX: usize = crate::format::PAGE;

mod kind {
    pub(super) const ATTR: u8 = 1;
    pub(super) const LINKS: u8 = 2;
    pub(super) const WRITE: u8 = 3;
    pub(super) const NAME: u8 = 4;
    pub(super) const XATTR: u8 = 5;
    pub(super) const PARENT: u8 = 6;
    pub(super) const NEXT: u8 = 7;
}

/// Header of every entry.
mod head {
    crate::format::line! {
        KIND: u8 = 0,
        LINES: u8 = 1,
        /// Variant of the entry's kind: whether attributes cut the file, where pages are, what a
        /// name leads to, where a value is.
        FORM: u8 = 2,
    }
}

/// Entry with all attributes.
mod attr {
    crate::format::line! {
        MODE: u16 = 4,
        NLINK: u32 = 8,
        UID: u32 = 12,
        GID: u32 = 16,
        SIZE: u64 = 24,
        ATIME: u64 = 32,
        MTIME: u64 = 40,
        CTIME: u64 = 48,
    }
}

/// Entry with a link count.
mod links {
    crate::format::line! {
        NLINK: u32 = 4,
        CTIME: u64 = 8,
    }
}

/// Entry that maps pages of a file.
mod write {
    crate::format::line! {
        FIRST: u64 = 8,
        PAGES: u64 = 16,
        START: u64 = 24,
        SIZE: u64 = 32,
        MTIME: u64 = 40,
        CTIME: u64 = 48,
    }
}

/// Entry for a name, whose bytes follow.
mod name {
    crate::format::line! {
        LEN: u8 = 3,
        NLINK: u32 = 4,
        INO: u64 = 8,
        COOKIE: u64 = 16,
        TIME: u64 = 24,
    }
    pub(super) const NAME: usize = 32;
}

/// Entry for an extended attribute; its name follows, and its value if it fits.
mod xattr {
    crate::format::line! {
        LEN: u8 = 3,
        VALUE_LEN: u32 = 4,
        PAGE: u64 = 8,
        CTIME: u64 = 16,
    }
    pub(super) const NAME: usize = 24;
}

/// Entry with the parent of a directory.
mod parent {
    crate::format::line! {
        INO: u64 = 8,
        CTIME: u64 = 16,
    }
}

/// Place of pages of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Not allocated: the pages read as zeros.
    Hole,
    /// Written, from this page of the medium on.
    Data(u64),
    /// Allocated from this page on, but not written: reads as zeros.
    Unwritten(u64),
}

impl Target {
    /// The place `skip` pages further on.
    pub(crate) const fn skip(self, skip: u64) -> Self {
        match self {
            Self::Hole => Self::Hole,
            Self::Data(start) => Self::Data(start + skip),
            Self::Unwritten(start) => Self::Unwritten(start + skip),
        }
    }

    /// First page on the medium; `None` of a hole.
    pub(crate) const fn start(self) -> Option<u64> {
        match self {
            Self::Hole => None,
            Self::Data(start) | Self::Unwritten(start) => Some(start),
        }
    }
}

/// Target of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lead {
    pub(crate) ino: Ino,
    pub(crate) kind: FileKind,
    /// Position in the order of the directory, from 1.
    pub(crate) cookie: u64,
}

/// A value of an extended attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// Bytes within the entry.
    Inline(Vec<u8>),
    /// Page that holds the value, and its length in bytes.
    Page(u64, usize),
}

/// An entry of a log, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// New attributes; with `cut`, pages past the size are unmapped.
    Attr { attr: Attr, cut: bool },
    /// A new link count.
    Links { nlink: u32, ctime: Timestamp },
    /// A new place for `pages` pages from `first` on.
    Write {
        first: u64,
        pages: u64,
        to: Target,
        size: u64,
        mtime: Timestamp,
        ctime: Timestamp,
    },
    /// A new target of a name, or its removal.
    Name {
        name: Box<[u8]>,
        lead: Option<Lead>,
        nlink: u32,
        time: Timestamp,
    },
    /// A new value of an extended attribute, or its removal.
    Xattr {
        name: Box<[u8]>,
        value: Option<Value>,
        ctime: Timestamp,
    },
    /// A new parent of a directory.
    Parent { ino: Ino, ctime: Timestamp },
}

/// Result of decoding a position in a log.
pub(crate) enum Found {
    /// An entry, with its length in lines.
    Entry(Entry, usize),
    /// The rest of the page is unused; the log continues in the next page.
    Next,
}

/// The line that makes a reader continue in the next page.
pub(crate) fn next_marker() -> [u8; LINE] {
    let mut line = [0; LINE];
    head::KIND.put(&mut line, kind::NEXT);
    head::LINES.put(&mut line, 1);
    line
}

/// Whether a value of `len` bytes fits into the entry.
pub(crate) const fn is_inline(name: usize, len: usize) -> bool {
    xattr::NAME + name + len <= LINES_MAX * LINE
}

impl Entry {
    /// Length of the entry in lines.
    pub(crate) fn lines(&self) -> usize {
        let bytes = match self {
            Self::Name { name, .. } => name::NAME + name.len(),
            Self::Xattr { name, value, .. } => {
                let inline = match value {
                    Some(Value::Inline(value)) => value.len(),
                    _ => 0,
                };
                xattr::NAME + name.len() + inline
            }
            _ => LINE,
        };
        bytes.div_ceil(LINE)
    }

    /// Purpose to which the bytes of the entry are attributed.
    pub(crate) const fn purpose(&self) -> Purpose {
        match self {
            Self::Attr { .. } | Self::Links { .. } => Purpose::Inode,
            Self::Write { .. } => Purpose::Pointer,
            Self::Name { .. } | Self::Parent { .. } => Purpose::Directory,
            Self::Xattr { .. } => Purpose::Attribute,
        }
    }

    /// Encodes the entry as whole lines.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.lines() * LINE];
        let lines = self.lines() as u8;
        head::LINES.put(&mut bytes, lines);
        let (kind, form) = match self {
            Self::Attr { attr, cut } => {
                encode_attr(&mut bytes, attr);
                (kind::ATTR, u8::from(*cut))
            }
            Self::Links { nlink, ctime } => {
                links::NLINK.put(&mut bytes, *nlink);
                links::CTIME.put(&mut bytes, time_bits(*ctime));
                (kind::LINKS, 0)
            }
            Self::Write { .. } => (kind::WRITE, self.encode_write(&mut bytes)),
            Self::Name { .. } => (kind::NAME, self.encode_name(&mut bytes)),
            Self::Xattr { .. } => (kind::XATTR, self.encode_xattr(&mut bytes)),
            Self::Parent { ino, ctime } => {
                parent::INO.put(&mut bytes, ino.0);
                parent::CTIME.put(&mut bytes, time_bits(*ctime));
                (kind::PARENT, 0)
            }
        };
        head::KIND.put(&mut bytes, kind);
        head::FORM.put(&mut bytes, form);
        bytes
    }

    fn encode_write(&self, bytes: &mut [u8]) -> u8 {
        let Self::Write {
            first,
            pages,
            to,
            size,
            mtime,
            ctime,
        } = self
        else {
            return 0;
        };
        write::FIRST.put(bytes, *first);
        write::PAGES.put(bytes, *pages);
        write::START.put(bytes, to.start().unwrap_or(0));
        write::SIZE.put(bytes, *size);
        write::MTIME.put(bytes, time_bits(*mtime));
        write::CTIME.put(bytes, time_bits(*ctime));
        match to {
            Target::Hole => 0,
            Target::Data(_) => 1,
            Target::Unwritten(_) => 2,
        }
    }

    fn encode_name(&self, bytes: &mut [u8]) -> u8 {
        let Self::Name {
            name,
            lead,
            nlink,
            time,
        } = self
        else {
            return 0;
        };
        name::LEN.put(bytes, name.len() as u8);
        name::NLINK.put(bytes, *nlink);
        name::TIME.put(bytes, time_bits(*time));
        bytes[name::NAME..name::NAME + name.len()].copy_from_slice(name);
        let Some(lead) = lead else { return 0 };
        name::INO.put(bytes, lead.ino.0);
        name::COOKIE.put(bytes, lead.cookie);
        (lead.kind.mode_bits() >> 12) as u8
    }

    fn encode_xattr(&self, bytes: &mut [u8]) -> u8 {
        let Self::Xattr { name, value, ctime } = self else {
            return 0;
        };
        xattr::LEN.put(bytes, name.len() as u8);
        xattr::CTIME.put(bytes, time_bits(*ctime));
        let end = xattr::NAME + name.len();
        bytes[xattr::NAME..end].copy_from_slice(name);
        match value {
            None => 0,
            Some(Value::Inline(value)) => {
                xattr::VALUE_LEN.put(bytes, value.len() as u32);
                bytes[end..end + value.len()].copy_from_slice(value);
                1
            }
            Some(Value::Page(page, len)) => {
                xattr::VALUE_LEN.put(bytes, *len as u32);
                xattr::PAGE.put(bytes, *page);
                2
            }
        }
    }

    /// Decodes byte `at` of a log page of an inode with attributes `like`, which supply what an
    /// entry omits. `None` if the bytes are no entry.
    pub(crate) fn decode(page: &[u8], at: usize, like: &Attr, on: &Geometry) -> Option<Found> {
        let rest = page.get(at..trailer::AT)?;
        if rest.len() < LINE {
            return None;
        }
        let lines = usize::from(head::LINES.get(rest));
        if !(1..=LINES_MAX).contains(&lines) {
            return None;
        }
        let bytes = rest.get(..lines * LINE)?;
        let entry = match head::KIND.get(bytes) {
            kind::ATTR => decode_attr(bytes, like)?,
            kind::LINKS => Self::Links {
                nlink: links::NLINK.get(bytes),
                ctime: time_of(links::CTIME.get(bytes))?,
            },
            kind::WRITE => decode_write(bytes, on)?,
            kind::NAME => decode_name(bytes)?,
            kind::XATTR => decode_xattr(bytes, on)?,
            kind::PARENT => Self::Parent {
                ino: Ino(parent::INO.get(bytes)),
                ctime: time_of(parent::CTIME.get(bytes))?,
            },
            kind::NEXT => return Some(Found::Next),
            _ => return None,
        };
        (entry.lines() == lines).then_some(Found::Entry(entry, lines))
    }
}

fn encode_attr(bytes: &mut [u8], from: &Attr) {
    attr::MODE.put(bytes, from.mode);
    attr::NLINK.put(bytes, from.nlink);
    attr::UID.put(bytes, from.uid);
    attr::GID.put(bytes, from.gid);
    attr::SIZE.put(bytes, from.size);
    attr::ATIME.put(bytes, time_bits(from.atime));
    attr::MTIME.put(bytes, time_bits(from.mtime));
    attr::CTIME.put(bytes, time_bits(from.ctime));
}

fn decode_attr(bytes: &[u8], like: &Attr) -> Option<Entry> {
    let mode = attr::MODE.get(bytes);
    let size = attr::SIZE.get(bytes);
    let attr = Attr {
        mode,
        nlink: attr::NLINK.get(bytes),
        uid: attr::UID.get(bytes),
        gid: attr::GID.get(bytes),
        size,
        atime: time_of(attr::ATIME.get(bytes))?,
        mtime: time_of(attr::MTIME.get(bytes))?,
        ctime: time_of(attr::CTIME.get(bytes))?,
        ..*like
    };
    let form = head::FORM.get(bytes);
    let sound = mode <= 0o7777 && size <= SIZE_MAX && form <= 1;
    sound.then_some(Entry::Attr {
        attr,
        cut: form == 1,
    })
}

fn decode_write(bytes: &[u8], on: &Geometry) -> Option<Entry> {
    let (first, pages) = (write::FIRST.get(bytes), write::PAGES.get(bytes));
    let start = write::START.get(bytes);
    let to = match head::FORM.get(bytes) {
        0 => Target::Hole,
        1 => Target::Data(start),
        2 => Target::Unwritten(start),
        _ => return None,
    };
    let placed = to == Target::Hole || on.has(start, pages);
    let size = write::SIZE.get(bytes);
    let most = SIZE_MAX.div_ceil(crate::format::PAGE_BYTES);
    let fits = first.checked_add(pages).is_some_and(|end| end <= most);
    let sound = placed && fits && pages > 0 && size <= SIZE_MAX;
    let entry = Entry::Write {
        first,
        pages,
        to,
        size,
        mtime: time_of(write::MTIME.get(bytes))?,
        ctime: time_of(write::CTIME.get(bytes))?,
    };
    sound.then_some(entry)
}

fn decode_name(bytes: &[u8]) -> Option<Entry> {
    let len = usize::from(name::LEN.get(bytes));
    let name = bytes.get(name::NAME..name::NAME + len)?;
    let odd = name.is_empty() || name == b"." || name == b"..";
    if odd || name.iter().any(|&byte| byte == b'/' || byte == 0) {
        return None;
    }
    let lead = match head::FORM.get(bytes) {
        0 => None,
        form if form < 16 => Some(Lead {
            ino: Ino(name::INO.get(bytes)),
            kind: FileKind::of_mode(u16::from(form) << 12)?,
            cookie: name::COOKIE.get(bytes),
        }),
        _ => return None,
    };
    // Cookies of the file API are two higher, and must fit an `i64`.
    let sound = |lead: &Lead| lead.ino.0 > 0 && (1..i64::MAX as u64 - 2).contains(&lead.cookie);
    let entry = Entry::Name {
        name: name.into(),
        lead,
        nlink: name::NLINK.get(bytes),
        time: time_of(name::TIME.get(bytes))?,
    };
    lead.as_ref().is_none_or(sound).then_some(entry)
}

fn decode_xattr(bytes: &[u8], on: &Geometry) -> Option<Entry> {
    let end = xattr::NAME + usize::from(xattr::LEN.get(bytes));
    let name = bytes.get(xattr::NAME..end)?;
    let len = xattr::VALUE_LEN.get(bytes) as usize;
    let page = xattr::PAGE.get(bytes);
    let value = match head::FORM.get(bytes) {
        0 => None,
        1 => Some(Value::Inline(
            bytes.get(end..end.checked_add(len)?)?.to_vec(),
        )),
        2 if len <= VALUE_MAX && on.has(page, 1) => Some(Value::Page(page, len)),
        _ => return None,
    };
    (!name.is_empty()).then_some(Entry::Xattr {
        name: name.into(),
        value,
        ctime: time_of(xattr::CTIME.get(bytes))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::tests::attr as some_attr;

    const TIME: Timestamp = Timestamp {
        secs: 1_700_000_000,
        nanos: 5,
    };

    fn samples() -> Vec<Entry> {
        let lead = Lead {
            ino: Ino(9),
            kind: FileKind::Symlink,
            cookie: 3,
        };
        let write = |to| Entry::Write {
            first: 3,
            pages: 4,
            to,
            size: 20_000,
            mtime: TIME,
            ctime: TIME,
        };
        let xattr = |value| Entry::Xattr {
            name: b"user.x"[..].into(),
            value,
            ctime: TIME,
        };
        let name = |lead, len: usize| Entry::Name {
            name: vec![b'n'; len].into(),
            lead,
            nlink: 2,
            time: TIME,
        };
        vec![
            Entry::Attr {
                attr: some_attr(FileKind::Regular),
                cut: true,
            },
            Entry::Links {
                nlink: 3,
                ctime: TIME,
            },
            write(Target::Hole),
            write(Target::Data(100)),
            write(Target::Unwritten(100)),
            name(Some(lead), 1),
            name(Some(lead), 33),
            name(None, 255),
            xattr(None),
            xattr(Some(Value::Inline(vec![7; 400]))),
            xattr(Some(Value::Page(200, 4096))),
            Entry::Parent {
                ino: Ino(4),
                ctime: TIME,
            },
        ]
    }

    #[test]
    fn entries_round_trip() {
        let (on, like) = (
            Geometry::new(1_000, 2).unwrap(),
            some_attr(FileKind::Regular),
        );
        for entry in samples() {
            let mut page = vec![0xEE; 4096];
            let bytes = entry.encode();
            assert_eq!(bytes.len(), entry.lines() * LINE);
            page[128..128 + bytes.len()].copy_from_slice(&bytes);
            match Entry::decode(&page, 128, &like, &on) {
                Some(Found::Entry(read, lines)) => {
                    assert_eq!((read, lines), (entry, bytes.len() / LINE));
                }
                _ => panic!("{entry:?} is not read"),
            }
        }
    }

    #[test]
    fn arbitrary_bytes_decode_without_panic() {
        let (on, like) = (
            Geometry::new(1_000, 2).unwrap(),
            some_attr(FileKind::Regular),
        );
        for entry in samples() {
            let bytes = entry.encode();
            let mut page = vec![0; 4096];
            for (at, flip) in (0..bytes.len()).flat_map(|at| [1, 0x80, 0xFF].map(|flip| (at, flip)))
            {
                // Placed at the end of a page, so that an overlong entry leaves the page.
                let start = trailer::AT - bytes.len();
                page[start..trailer::AT].copy_from_slice(&bytes);
                page[start + at] ^= flip;
                let _ = Entry::decode(&page, start, &like, &on);
            }
        }
    }
}
