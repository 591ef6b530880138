//! Our own format. `docs/formats/flm.md` is the home of its layout.

use super::error::{Fault, expected};
use super::source::{Input, unzstd};
use memsys::Op;
use std::io::{self, BufReader, Read, Write};

/// Begins a trace. The last byte is the version.
pub(super) const MAGIC: [u8; 8] = *b"flmem\0\0\x01";

/// Most bytes of a block. A writer closes a block once it is longer than half.
const BLOCK_MAX: usize = 64 << 10;
/// How hard zstd tries.
const LEVEL: i32 = 3;

const COMPUTE: u8 = 0;
const LOAD: u8 = 1;
const STORE: u8 = 2;
const FLUSH: u8 = 3;
const FENCE: u8 = 4;
const MEET: u8 = 5;
const BEGIN: u8 = 6;
const END: u8 = 7;
/// Bits of a tag: the kind, a code of the size, whether there is a dependence.
const KIND: u8 = 7;
const AFTER: u8 = 0x40;
/// The size follows, as it is no power of two.
const ODD_SIZE: u8 = 7;

/// Writes the operations of one thread.
pub struct Writer<W: Write> {
    out: zstd::Encoder<'static, W>,
    block: Vec<u8>,
    last: u64,
    count: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a trace.
    ///
    /// # Errors
    /// If the system refuses, as for all that follow.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(&MAGIC)?;
        Ok(Self {
            out: zstd::Encoder::new(out, LEVEL)?,
            block: Vec::new(),
            last: 0,
            count: 0,
        })
    }

    /// Writes an operation.
    ///
    /// # Errors
    /// See [`Writer::new`].
    pub fn op(&mut self, op: Op) -> io::Result<()> {
        self.count += 1;
        match op {
            Op::Compute(instructions) => {
                self.block.push(COMPUTE);
                self.varint(instructions.into());
            }
            Op::Load { at, size, after } => self.access(LOAD, at, size, after),
            Op::Store { at, size, after } => self.access(STORE, at, size, after),
            Op::Flush { at } => {
                self.block.push(FLUSH);
                self.address(at);
            }
            Op::Fence => self.block.push(FENCE),
            Op::Meet => self.block.push(MEET),
            Op::Begin => self.block.push(BEGIN),
        }
        self.close(BLOCK_MAX / 2)
    }

    fn access(&mut self, kind: u8, at: u64, size: u8, after: u16) {
        let code = match size.is_power_of_two() && size <= 64 {
            true => size.trailing_zeros() as u8,
            false => ODD_SIZE,
        };
        let depends = if after > 0 { AFTER } else { 0 };
        self.block.push(kind | code << 3 | depends);
        if code == ODD_SIZE {
            self.block.push(size);
        }
        if after > 0 {
            self.varint(after.into());
        }
        self.address(at);
    }

    fn address(&mut self, at: u64) {
        let step = at.wrapping_sub(self.last) as i64;
        self.varint((step << 1 ^ step >> 63) as u64);
        self.last = at;
    }

    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.block.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.block.push(number as u8);
    }

    /// Hands the block on if it is longer than `most`.
    fn close(&mut self, most: usize) -> io::Result<()> {
        if self.block.len() > most {
            let length = u32::try_from(self.block.len()).expect("a block is short");
            self.out.write_all(&length.to_le_bytes())?;
            self.out
                .write_all(&crc32c::crc32c(&self.block).to_le_bytes())?;
            self.out.write_all(&self.block)?;
            self.block.clear();
        }
        Ok(())
    }

    /// Ends the trace.
    ///
    /// # Errors
    /// See [`Writer::new`].
    pub fn finish(mut self) -> io::Result<W> {
        self.block.push(END);
        self.varint(self.count);
        self.close(0)?;
        self.out.finish()
    }
}

/// Reads what [`Writer`] wrote.
pub(super) struct Compact {
    input: Box<dyn Read + Send>,
    block: Vec<u8>,
    at: usize,
    last: u64,
    count: u64,
}

impl Compact {
    pub(super) fn new(mut input: Input) -> io::Result<Self> {
        input.read_exact(&mut [0; MAGIC.len()])?;
        Ok(Self {
            input: Box::new(BufReader::new(unzstd(input)?)),
            block: Vec::new(),
            at: 0,
            last: 0,
            count: 0,
        })
    }

    /// Appends the next operation; `false` at the end.
    pub(super) fn step(&mut self, ops: &mut Vec<Op>) -> Result<bool, Fault> {
        if self.at == self.block.len() {
            self.next_block()?;
        }
        let tag = self.byte()?;
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

    fn access(&mut self, tag: u8) -> Result<Op, Fault> {
        let size = match tag >> 3 & 7 {
            ODD_SIZE => self.byte()?,
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

    fn address(&mut self) -> Result<u64, Fault> {
        let step = self.number(u64::MAX)?;
        let step = (step >> 1) as i64 ^ -((step & 1) as i64);
        self.last = self.last.wrapping_add(step as u64);
        Ok(self.last)
    }

    fn end(&mut self) -> Result<bool, Fault> {
        let count = self.number(u64::MAX)?;
        if count != self.count {
            return expected(format!(
                "an end after {} operations, not {count}",
                self.count
            ));
        }
        if self.at < self.block.len() || self.input.read(&mut [0])? > 0 {
            return expected("nothing after the end");
        }
        Ok(false)
    }

    fn byte(&mut self) -> Result<u8, Fault> {
        let Some(&byte) = self.block.get(self.at) else {
            return expected("an operation that ends in its block");
        };
        self.at += 1;
        Ok(byte)
    }

    fn number(&mut self, most: u64) -> Result<u64, Fault> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if part << shift >> shift != part {
                break;
            }
            number |= part << shift;
            if byte < 0x80 {
                return match number <= most {
                    true => Ok(number),
                    false => expected(format!("a number of at most {most}")),
                };
            }
        }
        expected("a number of 64 bits")
    }

    fn next_block(&mut self) -> Result<(), Fault> {
        let mut head = [0; 8];
        self.input.read_exact(&mut head)?;
        let [a, b, c, d, e, f, g, h] = head;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        if length == 0 || length > BLOCK_MAX {
            return expected(format!("a block of 1 to {BLOCK_MAX} bytes"));
        }
        self.block.resize(length, 0);
        self.input.read_exact(&mut self.block)?;
        self.at = 0;
        if crc32c::crc32c(&self.block) != u32::from_le_bytes([e, f, g, h]) {
            return expected("a block whose checksum is right");
        }
        Ok(())
    }
}
