//! The framing of a drive file: header and sections. [`crate::image`] documents its layout.
//!
//! Invariants: no byte is returned before the checksum of its section has been verified. A length
//! is checked against its limit before memory is allocated for it. An error names the byte at which
//! the file stops making sense.

use super::ImageError;
use std::fmt::Arguments;
use std::io::{self, ErrorKind, Read, Write};

/// First bytes of a drive file.
pub const MAGIC: [u8; 8] = *b"FLASHLM\0";
/// Version of the format that is written, and the only one that can be read.
pub const VERSION: u32 = 1;
/// Largest payload of a section, in bytes.
pub(super) const SECTION_MAX: usize = 1 << 20;
/// Bytes before the payload of a section: kind, length, checksum.
pub(super) const SECTION_HEADER: usize = 16;

/// Kind of a section, by its number in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Config = 1,
    Smart = 2,
    Blocks = 3,
    Dump = 4,
    End = 5,
    Change = 6,
    Commit = 7,
    Front = 8,
    Zones = 9,
    Memory = 10,
}

/// The end of a drive file or of one of its records: the point from which it can be continued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Bytes before this point.
    pub offset: u64,
    pub(super) count: u64,
    pub(super) checksum: u32,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Config => "configuration",
            Self::Smart => "counters",
            Self::Blocks => "blocks",
            Self::Dump => "saved buffer",
            Self::End => "end",
            Self::Change => "change",
            Self::Commit => "end of a change",
            Self::Front => "front",
            Self::Zones => "zones",
            Self::Memory => "memory",
        }
    }
}

fn section_checksum(head: &[u8], payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&head[..12]), payload)
}

/// Writer that cuts its input into sections.
pub(super) struct Sections<'a, W> {
    out: &'a mut W,
    kind: Kind,
    chunk: Vec<u8>,
    mark: Mark,
}

impl<'a, W: Write> Sections<'a, W> {
    /// Writes the header of a file.
    pub(super) fn new(out: &'a mut W) -> io::Result<Self> {
        let mut sections = Self::resume(out, Mark::default(), Vec::new());
        sections.emit(&MAGIC)?;
        sections.emit(&VERSION.to_le_bytes())?;
        Ok(sections)
    }

    /// Continues after `mark`. `memory` is an old buffer to reuse, for a log of many records.
    pub(super) fn resume(out: &'a mut W, mark: Mark, mut memory: Vec<u8>) -> Self {
        memory.clear();
        Self {
            out,
            kind: Kind::Config,
            chunk: memory,
            mark,
        }
    }

    fn emit(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.mark.checksum = crc32c::crc32c_append(self.mark.checksum, bytes);
        self.mark.offset += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    /// Starts a new section of `kind`.
    pub(super) fn begin(&mut self, kind: Kind) -> io::Result<()> {
        self.flush()?;
        self.kind = kind;
        Ok(())
    }

    pub(super) fn put(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let room = SECTION_MAX - self.chunk.len();
            let (now, later) = bytes.split_at(bytes.len().min(room));
            self.chunk.extend_from_slice(now);
            bytes = later;
            if self.chunk.len() == SECTION_MAX {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let chunk = std::mem::take(&mut self.chunk);
        let mut head = [0; SECTION_HEADER];
        head[..4].copy_from_slice(&(self.kind as u32).to_le_bytes());
        head[4..12].copy_from_slice(&(chunk.len() as u64).to_le_bytes());
        let checksum = section_checksum(&head, &chunk);
        head[12..].copy_from_slice(&checksum.to_le_bytes());
        self.emit(&head)?;
        self.emit(&chunk)?;
        self.mark.count += 1;
        self.chunk = chunk;
        self.chunk.clear();
        Ok(())
    }

    /// Writes the end marker of the file.
    pub(super) fn end(mut self) -> io::Result<Mark> {
        self.seal(Kind::End)
    }

    /// Writes the end marker of a record, and returns the buffer for reuse.
    pub(super) fn commit(mut self) -> io::Result<(Mark, Vec<u8>)> {
        let mark = self.seal(Kind::Commit)?;
        Ok((mark, self.chunk))
    }

    fn seal(&mut self, kind: Kind) -> io::Result<Mark> {
        self.begin(kind)?;
        let Mark {
            count, checksum, ..
        } = self.mark;
        self.put(&count.to_le_bytes())?;
        self.put(&checksum.to_le_bytes())?;
        self.flush()?;
        self.out.flush()?;
        Ok(self.mark)
    }
}

/// Reader of the output of [`Sections`].
pub(super) struct Reader<'a, R> {
    input: &'a mut R,
    kind: Kind,
    chunk: Vec<u8>,
    /// Bytes of the chunk that have been taken.
    taken: usize,
    /// Bytes read so far.
    read: u64,
    count: u64,
    checksum: u32,
    /// Bytes of the next section's header read ahead, and the checksum of all bytes before them.
    ahead: Vec<u8>,
    before: u32,
}

impl<'a, R: Read> Reader<'a, R> {
    /// Reads the header of a file.
    pub(super) fn new(input: &'a mut R) -> Result<Self, ImageError> {
        let mut reader = Self {
            input,
            kind: Kind::Config,
            chunk: Vec::new(),
            taken: 0,
            read: 0,
            count: 0,
            checksum: 0,
            ahead: Vec::new(),
            before: 0,
        };
        let mut magic = [0; MAGIC.len()];
        let got = reader.fill(&mut magic)?;
        if magic[..got] != MAGIC[..got] {
            return Err(ImageError::Foreign);
        }
        reader.whole(got, magic.len(), "the mark of a drive file")?;
        let mut version = [0; 4];
        reader.exactly(&mut version, "its version")?;
        match u32::from_le_bytes(version) {
            VERSION => Ok(reader),
            other => Err(ImageError::Version(other)),
        }
    }

    /// Position in the file of the next byte to be taken.
    pub(super) fn offset(&self) -> u64 {
        self.read - (self.chunk.len() - self.taken) as u64
    }

    /// Reads until `bytes` is full or the input ends; returns the number of bytes read.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<usize, ImageError> {
        let mut got = 0;
        while got < bytes.len() {
            match self.input.read(&mut bytes[got..]) {
                Ok(0) => break,
                Ok(more) => got += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => {
                    let offset = self.read + got as u64;
                    return Err(ImageError::Io { offset, source });
                }
            }
        }
        self.read += got as u64;
        self.checksum = crc32c::crc32c_append(self.checksum, &bytes[..got]);
        Ok(got)
    }

    fn whole(&self, got: usize, need: usize, expected: &'static str) -> Result<(), ImageError> {
        if got == need {
            return Ok(());
        }
        let offset = self.read;
        Err(ImageError::Truncated { offset, expected })
    }

    fn exactly(&mut self, bytes: &mut [u8], expected: &'static str) -> Result<(), ImageError> {
        let got = self.fill(bytes)?;
        self.whole(got, bytes.len(), expected)
    }

    /// Expects sections of `kind` from here on. The previous sections must have been taken whole.
    pub(super) fn begin(&mut self, kind: Kind) -> Result<(), ImageError> {
        let left = self.chunk.len() - self.taken;
        self.require(
            "bytes left in a section",
            left as u64,
            format_args!("none"),
            left == 0,
        )?;
        self.kind = kind;
        Ok(())
    }

    /// Whether the next section is of `kind`. The previous sections must have been taken whole.
    pub(super) fn follows(&mut self, kind: Kind) -> Result<bool, ImageError> {
        self.begin(kind)?;
        let (first, got) = self.look_ahead()?;
        Ok(first[..got] == (kind as u32).to_le_bytes())
    }

    /// Reads the first four bytes of the next section ahead; returns them and their number.
    fn look_ahead(&mut self) -> Result<([u8; 4], usize), ImageError> {
        self.before = self.checksum;
        let mut first = [0; 4];
        let got = self.fill(&mut first)?;
        self.ahead = first[..got].to_vec();
        Ok((first, got))
    }

    /// Reads the next section; its checksum and kind must be right.
    fn next(&mut self) -> Result<(), ImageError> {
        let ahead = std::mem::take(&mut self.ahead);
        let start = self.read - ahead.len() as u64;
        let mut head = [0; SECTION_HEADER];
        head[..ahead.len()].copy_from_slice(&ahead);
        self.exactly(&mut head[ahead.len()..], "the header of a section")?;
        let length = u64::from_le_bytes(head[4..12].try_into().expect("eight bytes"));
        if length == 0 || length > SECTION_MAX as u64 {
            return Err(ImageError::Value {
                offset: start + 4,
                what: "the length of a section",
                found: length,
                expected: format!("1 to {SECTION_MAX}"),
            });
        }
        let mut chunk = std::mem::take(&mut self.chunk);
        chunk.resize(length as usize, 0);
        self.exactly(&mut chunk, "the rest of a section")?;
        let stored = u32::from_le_bytes(head[12..].try_into().expect("four bytes"));
        if section_checksum(&head, &chunk) != stored {
            return Err(ImageError::Checksum { offset: start });
        }
        let kind = u32::from_le_bytes(head[..4].try_into().expect("four bytes"));
        if kind != self.kind as u32 {
            return Err(ImageError::Value {
                offset: start,
                what: "the kind of a section",
                found: u64::from(kind),
                expected: format!("{} ({})", self.kind as u32, self.kind.name()),
            });
        }
        (self.chunk, self.taken) = (chunk, 0);
        self.count += 1;
        Ok(())
    }

    /// Reads a section that consists of one text.
    pub(super) fn text(&mut self) -> Result<&[u8], ImageError> {
        self.next()?;
        self.taken = self.chunk.len();
        Ok(&self.chunk)
    }

    /// Takes the bytes that fill `out`.
    pub(super) fn take(&mut self, mut out: &mut [u8]) -> Result<(), ImageError> {
        while !out.is_empty() {
            if self.taken == self.chunk.len() {
                self.next()?;
            }
            let now = out.len().min(self.chunk.len() - self.taken);
            let (filled, rest) = out.split_at_mut(now);
            filled.copy_from_slice(&self.chunk[self.taken..self.taken + now]);
            self.taken += now;
            out = rest;
        }
        Ok(())
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], ImageError> {
        let mut bytes = [0; N];
        self.take(&mut bytes)?;
        Ok(bytes)
    }

    pub(super) fn u8(&mut self) -> Result<u8, ImageError> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Result<u16, ImageError> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, ImageError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, ImageError> {
        self.array().map(u64::from_le_bytes)
    }

    /// Returns an error unless `fits`; `found` is the value just taken.
    pub(super) fn require(
        &self,
        what: &'static str,
        found: u64,
        expected: Arguments<'_>,
        fits: bool,
    ) -> Result<(), ImageError> {
        if fits {
            return Ok(());
        }
        Err(ImageError::Value {
            offset: self.offset(),
            what,
            found,
            expected: expected.to_string(),
        })
    }

    /// Reads a count of at most `most` items.
    pub(super) fn count(&mut self, what: &'static str, most: u64) -> Result<u32, ImageError> {
        let count = self.u32()?;
        let found = u64::from(count);
        self.require(what, found, format_args!("at most {most}"), found <= most)?;
        Ok(count)
    }

    /// Reads the end marker of the file.
    pub(super) fn end(&mut self) -> Result<(), ImageError> {
        self.sealed(Kind::End)
    }

    /// Reads the end marker of a record.
    pub(super) fn commit(&mut self) -> Result<(), ImageError> {
        self.sealed(Kind::Commit)
    }

    fn sealed(&mut self, kind: Kind) -> Result<(), ImageError> {
        self.begin(kind)?;
        let checksum = match self.ahead.is_empty() {
            true => self.checksum,
            false => self.before,
        };
        let count = self.count;
        let found = self.u64()?;
        let expected = format_args!("{count}");
        self.require("the number of sections", found, expected, found == count)?;
        let found = self.u32()?;
        let (what, expected) = ("the checksum of the file", format_args!("{checksum}"));
        self.require(what, u64::from(found), expected, found == checksum)?;
        self.begin(kind)
    }

    /// The current end of the input that was read.
    pub(super) fn mark(&self) -> Mark {
        Mark {
            offset: self.read,
            count: self.count,
            checksum: self.checksum,
        }
    }

    /// Whether a record of the log follows. Any other continuation is an error: the bytes of the
    /// next section's kind, as far as present, must be those of a change.
    pub(super) fn has_record(&mut self) -> Result<bool, ImageError> {
        self.begin(Kind::Change)?;
        let kind = Kind::Change as u32;
        let (first, got) = self.look_ahead()?;
        let fits = first[..got] == kind.to_le_bytes()[..got];
        let expected = format_args!("none, or a change ({kind})");
        let found = u64::from(u32::from_le_bytes(first));
        self.require("what follows the end", found, expected, fits)?;
        Ok(got > 0)
    }
}
