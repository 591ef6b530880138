//! The bytes of a recording in a file.
//!
//! Layout: [`MAGIC`], the label of the root, and the entries up to the end. An entry is the number
//! of its kind and its fields in the order of [`Call`]. Numbers are in base 128, the lowest seven
//! bits first, with the high bit set in all bytes but the last. Bytes follow their length.

use super::{Call, Name, Owned, Recording};
use std::ops::Range;
use vfs::{FallocateMode, FileKind, Ino};

/// First bytes of a recording, with the version of the layout.
const MAGIC: &[u8] = b"flashloom calls 1\n";

/// A recording that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodeError {
    /// The first bytes are others.
    #[error("expected recorded calls of powercut")]
    Kind,
    /// An entry is cut off, or has an unknown number in it.
    #[error("expected a whole entry at byte {0} of the recorded calls")]
    Entry(usize),
}

const ALLOCATIONS: [FallocateMode; 5] = [
    FallocateMode::Allocate { keep_size: false },
    FallocateMode::Allocate { keep_size: true },
    FallocateMode::Punch,
    FallocateMode::Zero { keep_size: false },
    FallocateMode::Zero { keep_size: true },
];

/// Bytes of a recording under construction.
struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, mut number: u64) {
        while number > 0x7f {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn name(&mut self, name: &Name) {
        self.number(name.dir.0);
        self.bytes(&name.name);
    }

    fn owned(&mut self, owned: Owned) {
        self.number(owned.mode.into());
        self.number(owned.uid.into());
        self.number(owned.gid.into());
    }

    fn range(&mut self, range: &Range<u64>) {
        self.number(range.start);
        self.number(range.end - range.start);
    }

    fn call(&mut self, call: &Call) {
        match call {
            Call::Make {
                at,
                ino,
                kind,
                owned,
                rdev,
                target,
            } => {
                self.number(0);
                self.name(at);
                self.number(ino.0);
                self.number(kind.entry_number().into());
                self.owned(*owned);
                self.number((*rdev).into());
                self.bytes(target);
            }
            Call::Link { at, ino } => {
                self.number(1);
                self.name(at);
                self.number(ino.0);
            }
            Call::Remove { at, ino, is_dir } => {
                self.number(2);
                self.name(at);
                self.number(ino.0);
                self.number((*is_dir).into());
            }
            Call::Rename { from, to, exchange } => {
                self.number(3);
                self.name(from);
                self.name(to);
                self.number((*exchange).into());
            }
            Call::Own { ino, owned } => {
                self.number(8);
                self.number(ino.0);
                self.owned(*owned);
            }
            Call::Extend { ino, name, value } => {
                self.number(9);
                self.number(ino.0);
                self.bytes(name);
                self.number(value.is_some().into());
                self.bytes(value.as_deref().unwrap_or_default());
            }
            Call::Force { ino, data_only } => {
                self.number(10);
                self.number(ino.0);
                self.number((*data_only).into());
            }
            Call::ForceAll => self.number(11),
            Call::Print(bytes) => {
                self.number(12);
                self.bytes(bytes);
            }
            contents => self.contents(contents),
        }
    }

    /// A call that changes contents.
    fn contents(&mut self, call: &Call) {
        match call {
            Call::Write { ino, offset, bytes } => {
                self.number(4);
                self.number(ino.0);
                self.number(*offset);
                self.bytes(bytes);
            }
            Call::Resize { ino, size } => {
                self.number(5);
                self.number(ino.0);
                self.number(*size);
            }
            Call::Allocate { ino, mode, range } => {
                let known = ALLOCATIONS.iter().position(|known| known == mode);
                self.number(6);
                self.number(ino.0);
                self.number(known.unwrap_or_default() as u64);
                self.range(range);
            }
            Call::Share {
                from,
                span,
                to,
                place,
            } => {
                self.number(7);
                self.number(from.0);
                self.range(span);
                self.number(to.0);
                self.number(*place);
            }
            _ => {}
        }
    }
}

/// The rest of the bytes to read; every function returns `None` if they end early or make no sense.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..u64::BITS).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return None;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn small<T: TryFrom<u64>>(&mut self) -> Option<T> {
        self.number()?.try_into().ok()
    }

    fn flag(&mut self) -> Option<bool> {
        let number = self.number()?;
        (number < 2).then_some(number == 1)
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        let len = self.small()?;
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes.to_vec())
    }

    fn ino(&mut self) -> Option<Ino> {
        self.number().map(Ino)
    }

    fn name(&mut self) -> Option<Name> {
        let dir = self.ino()?;
        let name = self.bytes()?;
        Some(Name { dir, name })
    }

    fn owned(&mut self) -> Option<Owned> {
        Some(Owned {
            mode: self.small()?,
            uid: self.small()?,
            gid: self.small()?,
        })
    }

    fn range(&mut self) -> Option<Range<u64>> {
        let start = self.number()?;
        let end = start.checked_add(self.number()?)?;
        Some(start..end)
    }

    fn call(&mut self) -> Option<Call> {
        Some(match self.number()? {
            0 => Call::Make {
                at: self.name()?,
                ino: self.ino()?,
                kind: FileKind::of_entry(self.small()?)?,
                owned: self.owned()?,
                rdev: self.small()?,
                target: self.bytes()?,
            },
            1 => Call::Link {
                at: self.name()?,
                ino: self.ino()?,
            },
            2 => Call::Remove {
                at: self.name()?,
                ino: self.ino()?,
                is_dir: self.flag()?,
            },
            3 => Call::Rename {
                from: self.name()?,
                to: self.name()?,
                exchange: self.flag()?,
            },
            8 => Call::Own {
                ino: self.ino()?,
                owned: self.owned()?,
            },
            9 => {
                let (ino, name) = (self.ino()?, self.bytes()?);
                let (is_set, value) = (self.flag()?, self.bytes()?);
                let value = is_set.then_some(value);
                Call::Extend { ino, name, value }
            }
            10 => Call::Force {
                ino: self.ino()?,
                data_only: self.flag()?,
            },
            11 => Call::ForceAll,
            12 => Call::Print(self.bytes()?),
            contents => self.contents(contents)?,
        })
    }

    fn contents(&mut self, kind: u64) -> Option<Call> {
        Some(match kind {
            4 => Call::Write {
                ino: self.ino()?,
                offset: self.number()?,
                bytes: self.bytes()?,
            },
            5 => Call::Resize {
                ino: self.ino()?,
                size: self.number()?,
            },
            6 => Call::Allocate {
                ino: self.ino()?,
                mode: *ALLOCATIONS.get(self.small::<usize>()?)?,
                range: self.range()?,
            },
            7 => Call::Share {
                from: self.ino()?,
                span: self.range()?,
                to: self.ino()?,
                place: self.number()?,
            },
            _ => return None,
        })
    }
}

impl Recording {
    /// The bytes of a file that holds the recording.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut writer = Writer(MAGIC.to_vec());
        writer.number(self.root.0);
        for call in &self.calls {
            writer.call(call);
        }
        writer.0
    }

    /// The recording in the bytes of a file.
    ///
    /// # Errors
    /// If the bytes are no recording, or not a whole one.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CodeError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(CodeError::Kind)?;
        let mut reader = Reader(rest);
        let root = reader.ino().ok_or(CodeError::Entry(MAGIC.len()))?;
        let mut calls = Vec::new();
        while !reader.0.is_empty() {
            let at = bytes.len() - reader.0.len();
            calls.push(reader.call().ok_or(CodeError::Entry(at))?);
        }
        Ok(Self { root, calls })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIR: Ino = Ino(2);
    const FILE: Ino = Ino(1 << 40);
    const OWNED: Owned = Owned {
        mode: 0o7_644,
        uid: 1000,
        gid: u32::MAX,
    };

    /// Calls of every kind that change names.
    fn of_names() -> Vec<Call> {
        let at = || Name {
            dir: DIR,
            name: b"name".to_vec(),
        };
        vec![
            Call::Make {
                at: at(),
                ino: FILE,
                kind: FileKind::Symlink,
                owned: OWNED,
                rdev: 300,
                target: b"elsewhere".to_vec(),
            },
            Call::Link {
                at: at(),
                ino: FILE,
            },
            Call::Remove {
                at: at(),
                ino: FILE,
                is_dir: true,
            },
            Call::Rename {
                from: at(),
                to: at(),
                exchange: true,
            },
        ]
    }

    /// A recording with every kind of call.
    fn every_kind() -> Recording {
        let ino = FILE;
        let mut calls = of_names();
        calls.extend([
            Call::Write {
                ino,
                offset: u64::MAX,
                bytes: vec![0; 300],
            },
            Call::Resize { ino, size: 127 },
            Call::Share {
                from: ino,
                span: 5..128,
                to: DIR,
                place: 4096,
            },
            Call::Own { ino, owned: OWNED },
            Call::Force {
                ino,
                data_only: true,
            },
            Call::ForceAll,
            Call::Print(b"saved 1\n".to_vec()),
        ]);
        calls.extend(ALLOCATIONS.map(|mode| Call::Allocate {
            ino,
            mode,
            range: 1..1 << 50,
        }));
        calls.extend([Some(vec![1]), None].map(|value| Call::Extend {
            ino,
            name: b"user.a".to_vec(),
            value,
        }));
        Recording { root: DIR, calls }
    }

    #[test]
    fn recording_survives_its_file() {
        let recording = every_kind();
        let bytes = recording.to_bytes();
        assert_eq!(Recording::from_bytes(&bytes), Ok(recording));
    }

    #[test]
    fn cut_recording_is_refused_or_ends_at_an_entry() {
        let recording = every_kind();
        let bytes = recording.to_bytes();
        let mut whole = 0;
        for len in 0..bytes.len() {
            match Recording::from_bytes(&bytes[..len]) {
                Ok(read) => {
                    whole += 1;
                    assert_eq!(read.calls[..], recording.calls[..read.calls.len()]);
                }
                Err(CodeError::Kind) => assert!(len < MAGIC.len()),
                Err(CodeError::Entry(at)) => assert!(at <= len),
            }
        }
        assert_eq!(whole, recording.calls.len());
    }
}
