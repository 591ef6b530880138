//! This project's own trace format. `docs/formats/flm.md` describes its layout.

use input::blocks::{BlockWriter, Blocks, unzigzag, zigzag};
use input::{Expected, Fault, Input, expected};
use memsys::Op;
use std::io::{self, Write};

/// Magic bytes at the start of a trace. The last byte is the version.
pub(super) const MAGIC: [u8; 8] = *b"flmem\0\0\x01";

/// Compression level of zstd.
const LEVEL: i32 = 3;

const COMPUTE: u8 = 0;
const LOAD: u8 = 1;
const STORE: u8 = 2;
const FLUSH: u8 = 3;
const FENCE: u8 = 4;
const MEET: u8 = 5;
const BEGIN: u8 = 6;
const END: u8 = 7;
/// Tag bits: the kind, a code for the size, and whether there is a dependence.
const KIND: u8 = 7;
const AFTER: u8 = 0x40;
/// Size code of an access whose size is not a power of two. The size follows the tag.
const ODD_SIZE: u8 = 7;

/// Writes the operations of one thread to a trace.
pub struct Writer<W: Write> {
    out: BlockWriter<W>,
    last: u64,
    count: u64,
}

impl<W: Write> Writer<W> {
    /// Starts a trace.
    ///
    /// # Errors
    /// If writing fails, as for the other methods.
    pub fn new(out: W) -> io::Result<Self> {
        Ok(Self {
            out: BlockWriter::new(out, &MAGIC, LEVEL)?,
            last: 0,
            count: 0,
        })
    }

    /// Writes one operation.
    ///
    /// # Errors
    /// See [`Writer::new`].
    pub fn op(&mut self, op: Op) -> io::Result<()> {
        self.count += 1;
        match op {
            Op::Compute(instructions) => {
                self.out.bytes(&[COMPUTE]);
                self.out.number(instructions.into());
            }
            Op::Load { at, size, after } => self.access(LOAD, at, size, after),
            Op::Store { at, size, after } => self.access(STORE, at, size, after),
            Op::Flush { at } => {
                self.out.bytes(&[FLUSH]);
                self.address(at);
            }
            Op::Fence => self.out.bytes(&[FENCE]),
            Op::Meet => self.out.bytes(&[MEET]),
            Op::Begin => self.out.bytes(&[BEGIN]),
        }
        self.out.end_item()
    }

    fn access(&mut self, kind: u8, at: u64, size: u8, after: u16) {
        let code = match size.is_power_of_two() && size <= 64 {
            true => size.trailing_zeros() as u8,
            false => ODD_SIZE,
        };
        let depends = if after > 0 { AFTER } else { 0 };
        self.out.bytes(&[kind | code << 3 | depends]);
        if code == ODD_SIZE {
            self.out.bytes(&[size]);
        }
        if after > 0 {
            self.out.number(after.into());
        }
        self.address(at);
    }

    fn address(&mut self, at: u64) {
        let step = at.wrapping_sub(self.last) as i64;
        self.out.number(zigzag(step));
        self.last = at;
    }

    /// Completes the trace.
    ///
    /// # Errors
    /// See [`Writer::new`].
    pub fn finish(mut self) -> io::Result<W> {
        self.out.bytes(&[END]);
        self.out.number(self.count);
        self.out.finish()
    }
}

/// Reads traces written by [`Writer`].
pub(super) struct Compact {
    blocks: Blocks,
    last: u64,
    count: u64,
}

impl Compact {
    pub(super) fn new(input: Input) -> io::Result<Self> {
        Ok(Self {
            blocks: Blocks::new(input, &MAGIC)?,
            last: 0,
            count: 0,
        })
    }

    /// Appends the next operation; returns `false` at the end.
    pub(super) fn step(&mut self, ops: &mut Vec<Op>) -> Result<bool, Fault> {
        self.blocks.begin_item()?;
        let tag = self.blocks.byte()?;
        let kind = tag & KIND;
        if !matches!(kind, LOAD | STORE) && tag != kind {
            return expected(format!("a known tag, not {tag:#x}"));
        }
        ops.push(match kind {
            COMPUTE => Op::Compute(self.number(u32::MAX.into())? as u32),
            LOAD | STORE => self.access(tag)?,
            FLUSH => Op::Flush {
                at: self.address()?,
            },
            FENCE => Op::Fence,
            MEET => Op::Meet,
            BEGIN => Op::Begin,
            _ => return self.end(),
        });
        self.count += 1;
        Ok(true)
    }

    fn access(&mut self, tag: u8) -> Result<Op, Expected> {
        let size = match tag >> 3 & 7 {
            ODD_SIZE => self.blocks.byte()?,
            code => 1 << code,
        };
        if !(1..=64).contains(&size) || tag & 0x80 != 0 {
            return expected("an access of 1 to 64 bytes");
        }
        let after = match tag & AFTER {
            0 => 0,
            _ => self.number(u16::MAX.into())? as u16,
        };
        let at = self.address()?;
        if at >= 1 << 63 {
            return expected("an address below 2^63");
        }
        Ok(match tag & KIND {
            LOAD => Op::Load { at, size, after },
            _ => Op::Store { at, size, after },
        })
    }

    fn address(&mut self) -> Result<u64, Expected> {
        let step = unzigzag(self.blocks.number()?);
        self.last = self.last.wrapping_add(step as u64);
        Ok(self.last)
    }

    fn end(&mut self) -> Result<bool, Fault> {
        let count = self.blocks.number()?;
        if count != self.count {
            return expected(format!(
                "an end after {} operations, not {count}",
                self.count
            ));
        }
        self.blocks.end()?;
        Ok(false)
    }

    fn number(&mut self, most: u64) -> Result<u64, Expected> {
        let number = self.blocks.number()?;
        match number <= most {
            true => Ok(number),
            false => expected(format!("a number of at most {most}")),
        }
    }
}
