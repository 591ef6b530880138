//! Flashloom's binary form of block traces. `docs/formats/flb.md` is the home of its layout.
//!
//! Invariant: a reader holds one block at a time and at most [`Labels::MAX`] labels, whatever the
//! file contains.

use super::extent;
use super::write::{WriteError, Written};
use crate::request::{Labels, Op, Purpose, Request};
use input::blocks::{BlockWriter, Blocks, unzigzag, zigzag};
use input::{Expected, Fault, Input, expected};
use std::io::{self, Read, Write};
use units::{Extent, Ns, Origin, Placement};

/// First bytes of the contents, in every version.
pub(super) const NAME: [u8; 7] = *b"flblock";

/// First bytes of the contents. The last byte is the version.
pub const MAGIC: [u8; 8] = *b"flblock\x01";

/// Compression level of zstd. Higher levels gain a few per cent on such records.
const LEVEL: i32 = 6;

/// Upper bound on the bytes of a label; longer ones are cut when written and refused when read.
const LABEL_MAX: usize = 16 << 10;

/// Bits of a request's tag: its operation, and whether it is forced, names its origin and names its
/// placement handle.
const OPERATION: u8 = 0b1111;
const FUA: u8 = 1 << 4;
const ORIGIN: u8 = 1 << 5;
const PLACEMENT: u8 = 1 << 6;

/// Tags of the other items.
const END: u8 = 0x80;
const LABEL: u8 = 0x81;

const PURPOSES: [Purpose; 3] = [Purpose::Data, Purpose::Metadata, Purpose::Journal];

/// Fields of the requests so far, from which those of the next one are predicted.
struct Last {
    at: u64,
    origin: u64,
    placement: Placement,
    /// End of the last request of each operation, in sectors.
    ends: [u64; Op::ALL.len()],
}

impl Last {
    const fn new() -> Self {
        Self {
            at: 0,
            origin: 0,
            placement: Placement(0),
            ends: [0; Op::ALL.len()],
        }
    }
}

/// Writes `requests`, in the order of their times, and all `labels` to `out`.
pub(super) fn write(
    labels: &Labels,
    requests: impl IntoIterator<Item = Request>,
    out: &mut dyn Write,
) -> Result<Written, WriteError> {
    let mut out = BlockWriter::new(out, &MAGIC, LEVEL)?;
    for index in 1..labels.names().len() {
        let (purpose, name) = labels.interned(Origin(index as u16));
        let name = &name[..name.floor_char_boundary(LABEL_MAX)];
        out.bytes(&[LABEL, purpose as u8]);
        out.number(name.len() as u64);
        out.bytes(name.as_bytes());
        out.end_item()?;
    }
    let mut last = Last::new();
    let mut written = Written::default();
    for request in requests {
        put(&request, &mut last, &mut out)?;
        written.requests += 1;
    }
    out.bytes(&[END]);
    out.number(written.requests);
    out.end_item()?;
    out.finish()?;
    Ok(written)
}

fn put<W: Write>(request: &Request, last: &mut Last, out: &mut BlockWriter<W>) -> io::Result<()> {
    let (at, origin) = (request.at.0, u64::from(request.origin.0));
    let Some(since) = at.checked_sub(last.at) else {
        let why = "expected requests in the order of their times";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    };
    let operation = request.op as u8;
    let flag = |is_set, bit| if is_set { bit } else { 0 };
    let tag = operation
        | flag(request.fua, FUA)
        | flag(origin != last.origin, ORIGIN)
        | flag(request.placement != last.placement, PLACEMENT);
    out.bytes(&[tag]);
    out.number(since);
    let Extent { start, sectors } = request.extent;
    out.number(sectors.into());
    let end = &mut last.ends[usize::from(operation)];
    out.number(zigzag(start.0.wrapping_sub(*end) as i64));
    *end = start.0.wrapping_add(sectors.into());
    if tag & ORIGIN != 0 {
        out.number(origin);
    }
    if tag & PLACEMENT != 0 {
        out.number(request.placement.0.into());
    }
    (last.at, last.origin, last.placement) = (at, origin, request.placement);
    out.end_item()
}

/// Reader of a binary trace.
pub(super) struct Flb {
    blocks: Blocks,
    /// Offset of the item being read, after decompression.
    item: u64,
    /// Origin of each label of the file; label 0 is the unnamed one.
    origins: Vec<Origin>,
    last: Last,
    /// Time of the first request; `None` before it.
    first: Option<u64>,
    count: u64,
}

impl Flb {
    /// Reads the beginning of `input`.
    pub(super) fn new(mut input: Input) -> Result<Self, Fault> {
        let mut begin = MAGIC;
        input.read_exact(&mut begin)?;
        if begin[..NAME.len()] != NAME {
            return expected("a binary block trace");
        }
        if begin != MAGIC {
            let version = begin[NAME.len()];
            return expected(format!("version 1 of binary block traces, found {version}"));
        }
        Ok(Self {
            blocks: Blocks::new(input, &[])?,
            item: 0,
            origins: vec![Origin(0)],
            last: Last::new(),
            first: None,
            count: 0,
        })
    }

    /// Offset of the item that was read last, after decompression.
    pub(super) const fn position(&self) -> u64 {
        self.item
    }

    /// Reads the next request; `None` at the end.
    pub(super) fn next(&mut self, labels: &mut Labels) -> Result<Option<Request>, Fault> {
        loop {
            let begun = self.blocks.begin_item();
            self.item = self.blocks.position();
            begun?;
            match self.blocks.byte()? {
                LABEL => self.label(labels)?,
                END => return self.end().map(|()| None),
                tag if tag & OPERATION < Op::ALL.len() as u8 && tag < END => {
                    return Ok(Some(self.request(tag)?));
                }
                tag => return expected(format!("a known tag, not {tag}")),
            }
        }
    }

    #[inline]
    fn request(&mut self, tag: u8) -> Result<Request, Expected> {
        let operation = usize::from(tag & OPERATION);
        let op = Op::ALL[operation];
        let Some(at) = self.last.at.checked_add(self.blocks.number()?) else {
            return expected("a time below 2^64 ns");
        };
        let sectors = self.blocks.number()?;
        let distance = unzigzag(self.blocks.number()?);
        let end = &mut self.last.ends[operation];
        let extent = extent(op, end.wrapping_add(distance as u64), sectors)?;
        *end = extent.end();
        self.last.at = at;
        if tag & ORIGIN != 0 {
            self.last.origin = self.blocks.number()?;
        }
        if tag & PLACEMENT != 0 {
            let Ok(handle) = u16::try_from(self.blocks.number()?) else {
                return expected("a placement handle of 16 bits");
            };
            self.last.placement = Placement(handle);
        }
        let origin = usize::try_from(self.last.origin).unwrap_or(usize::MAX);
        let Some(&origin) = self.origins.get(origin) else {
            return expected("an origin that is known");
        };
        self.count += 1;
        Ok(Request {
            at: Ns(at - *self.first.get_or_insert(at)),
            op,
            extent,
            placement: self.last.placement,
            origin,
            fua: tag & FUA != 0,
        })
    }

    fn label(&mut self, labels: &mut Labels) -> Result<(), Expected> {
        let Some(&purpose) = PURPOSES.get(usize::from(self.blocks.byte()?)) else {
            return expected("a purpose from 0 to 2");
        };
        let length = usize::try_from(self.blocks.number()?).unwrap_or(usize::MAX);
        if length > LABEL_MAX || self.origins.len() == Labels::MAX {
            return expected(format!(
                "at most {} labels of at most {LABEL_MAX} bytes",
                Labels::MAX - 1
            ));
        }
        let name = self.blocks.bytes(length).map(std::str::from_utf8);
        let Some(Ok(name)) = name else {
            return expected("a label in UTF-8 that ends in its block");
        };
        let origin = labels.intern_at(self.origins.len(), name, purpose);
        self.origins.push(origin);
        Ok(())
    }

    fn end(&mut self) -> Result<(), Fault> {
        if self.blocks.number()? != self.count {
            return expected(format!("an end after {} requests", self.count));
        }
        self.blocks.end()
    }
}
