//! Container of Flashloom's own binary traces: a magic number, then a zstd frame of blocks, each
//! with its length and checksum; numbers are stored in as many bytes as they need.
//!
//! Invariant: a read within a block never passes its end, and one block is held at a time.

use crate::error::{Expected, Fault, expected};
use crate::stream::{Input, unzstd};
use std::io::{self, BufReader, Read, Write};

/// Upper bound on the bytes of a block. A writer closes a block once it is longer than half of it.
const BLOCK_MAX: usize = 64 << 10;

/// Writer of a container.
pub struct BlockWriter<W: Write> {
    out: zstd::Encoder<'static, W>,
    block: Vec<u8>,
}

impl<W: Write> BlockWriter<W> {
    /// Writes `magic`, and compresses everything after it at `level` of zstd.
    ///
    /// # Errors
    /// If the output fails; so for all methods below.
    pub fn new(mut out: W, magic: &[u8], level: i32) -> io::Result<Self> {
        out.write_all(magic)?;
        Ok(Self {
            out: zstd::Encoder::new(out, level)?,
            block: Vec::new(),
        })
    }

    /// Appends raw bytes to the block.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.block.extend_from_slice(bytes);
    }

    /// Appends a number in 7 bits a byte, the lowest first; the high bit of a byte tells that
    /// another follows.
    pub fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.block.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.block.push(number as u8);
    }

    /// Ends an item: the block may be closed here.
    ///
    /// # Errors
    /// See [`BlockWriter::new`].
    pub fn end_item(&mut self) -> io::Result<()> {
        self.close(BLOCK_MAX / 2)
    }

    /// Writes the block if it is longer than `most` bytes.
    fn close(&mut self, most: usize) -> io::Result<()> {
        if self.block.len() > most {
            let length = u32::try_from(self.block.len()).expect("a block is short");
            let sum = crc32c::crc32c(&self.block);
            self.out.write_all(&length.to_le_bytes())?;
            self.out.write_all(&sum.to_le_bytes())?;
            self.out.write_all(&self.block)?;
            self.block.clear();
        }
        Ok(())
    }

    /// Closes the last block and the compressed frame; returns the output.
    ///
    /// # Errors
    /// See [`BlockWriter::new`].
    pub fn finish(mut self) -> io::Result<W> {
        self.close(0)?;
        self.out.finish()
    }
}

/// Reader of a container that [`BlockWriter`] wrote.
pub struct Blocks {
    input: Box<dyn Read + Send>,
    block: Vec<u8>,
    /// Offset in the block of the next byte to read.
    at: usize,
    /// Offset of the block in the decompressed contents behind the magic number.
    offset: u64,
}

impl Blocks {
    /// Starts reading behind `magic`, which the caller has checked.
    ///
    /// # Errors
    /// If `input` cannot be read, or zstd cannot be set up.
    pub fn new(mut input: Input, magic: &[u8]) -> io::Result<Self> {
        input.read_exact(&mut vec![0; magic.len()])?;
        Ok(Self {
            input: Box::new(BufReader::new(unzstd(input)?)),
            block: Vec::new(),
            at: 0,
            offset: 0,
        })
    }

    /// Offset of the next byte to read, in the decompressed contents behind the magic number.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.offset + self.at as u64
    }

    /// Reads the next block if the present one is used up.
    ///
    /// # Errors
    /// If there is no further block, or the block is cut off or damaged.
    #[inline]
    pub fn begin_item(&mut self) -> Result<(), Fault> {
        match self.at < self.block.len() {
            true => Ok(()),
            false => self.begin_block(),
        }
    }

    fn begin_block(&mut self) -> Result<(), Fault> {
        let mut head = [0; 8];
        self.input.read_exact(&mut head)?;
        let [a, b, c, d, e, f, g, h] = head;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        if length == 0 || length > BLOCK_MAX {
            return expected(format!("a block of 1 to {BLOCK_MAX} bytes"));
        }
        self.offset += self.block.len() as u64 + head.len() as u64;
        self.at = 0;
        self.block.resize(length, 0);
        self.input.read_exact(&mut self.block)?;
        if crc32c::crc32c(&self.block) != u32::from_le_bytes([e, f, g, h]) {
            return expected("a block whose checksum is right");
        }
        Ok(())
    }

    /// Reads the next byte.
    ///
    /// # Errors
    /// If the block ends before it.
    #[inline]
    pub fn byte(&mut self) -> Result<u8, Expected> {
        let Some(&byte) = self.block.get(self.at) else {
            return expected("an item that ends in its block");
        };
        self.at += 1;
        Ok(byte)
    }

    /// Reads the next `count` bytes; `None` if the block has fewer.
    pub fn bytes(&mut self, count: usize) -> Option<&[u8]> {
        let bytes = self.block.get(self.at..self.at.checked_add(count)?)?;
        self.at += count;
        Some(bytes)
    }

    /// Reads the next number.
    ///
    /// # Errors
    /// If the block ends within it, or if it has more than 64 bits.
    #[inline]
    pub fn number(&mut self) -> Result<u64, Expected> {
        let rest = self.block.get(self.at..).unwrap_or_default();
        if let Some(word) = rest.first_chunk() {
            let word = u64::from_le_bytes(*word);
            let ends = !word & 0x8080_8080_8080_8080;
            if ends != 0 {
                // Place of the high bit of the last byte, above the bits of the number.
                let last = ends.trailing_zeros();
                self.at += last as usize / 8 + 1;
                return Ok(joined(word & u64::MAX >> (63 - last)));
            }
        }
        self.long_number()
    }

    /// [`Blocks::number`] at the end of a block, or of more than eight bytes.
    fn long_number(&mut self) -> Result<u64, Expected> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if part << shift >> shift != part {
                break;
            }
            number |= part << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        expected("a number of 64 bits")
    }

    /// Checks that nothing follows the last item.
    ///
    /// # Errors
    /// If anything follows, or `input` cannot be read.
    pub fn end(&mut self) -> Result<(), Fault> {
        if self.at < self.block.len() || self.input.read(&mut [0])? > 0 {
            return expected("nothing after the end");
        }
        Ok(())
    }
}

/// The lowest seven bits of each byte of `word`, side by side.
const fn joined(word: u64) -> u64 {
    let pairs = word & 0x007f_007f_007f_007f | (word & 0x7f00_7f00_7f00_7f00) >> 1;
    let fours = pairs & 0x0000_3fff_0000_3fff | (pairs & 0x3fff_0000_3fff_0000) >> 2;
    fours & 0x0fff_ffff | (fours & 0x0fff_ffff_0000_0000) >> 4
}

/// Maps a signed number to an unsigned one such that numbers near 0 stay small.
#[must_use]
pub const fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63) as u64
}

/// Inverse of [`zigzag`].
#[must_use]
pub const fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(put: impl FnOnce(&mut BlockWriter<Vec<u8>>)) -> Blocks {
        let mut writer = BlockWriter::new(Vec::new(), b"magic", 1).unwrap();
        put(&mut writer);
        let written = io::Cursor::new(writer.finish().unwrap());
        let mut blocks = Blocks::new(Box::new(written), b"magic").unwrap();
        blocks.begin_item().unwrap();
        blocks
    }

    #[test]
    fn numbers_round_trip() {
        let powers = (0..64).map(|bit| 1 << bit);
        let numbers = powers.flat_map(|power: u64| [power - 1, power, power | 1, !power]);
        let numbers: Vec<u64> = numbers.collect();
        let mut read = blocks(|writer| numbers.iter().for_each(|n| writer.number(*n)));
        for number in numbers {
            assert_eq!(read.number(), Ok(number));
        }
        assert!(read.end().is_ok());
        assert!(blocks(|writer| writer.bytes(&[0x80])).number().is_err());
        let long = [0xff; 9].iter().chain(&[2]).copied().collect::<Vec<_>>();
        assert!(blocks(|writer| writer.bytes(&long)).number().is_err());
    }

    #[test]
    fn zigzag_round_trips_and_keeps_small_numbers_small() {
        for number in [0, -1, 1, i64::MIN, i64::MAX] {
            assert_eq!(unzigzag(zigzag(number)), number);
        }
        assert_eq!(zigzag(-1), 1);
    }
}
