//! Access to an image without a mount: synchronous reads of blocks by number.

use crate::buffer::BLOCK;
use nand::Payload;
use std::collections::BTreeMap;

/// Blocks of a file system that is not mounted.
pub trait Image {
    /// Copies block number `block` into `out`; false if it cannot be read.
    fn read(&self, block: u64, out: &mut [u8; BLOCK]) -> bool;
}

/// A slice holds all bytes of a medium.
impl Image for [u8] {
    fn read(&self, block: u64, out: &mut [u8; BLOCK]) -> bool {
        host::Image::read(self, block, out)
    }
}

/// A map holds contents by block number, such as a power cut leaves; absent blocks are zeros.
impl Image for BTreeMap<u64, Payload> {
    fn read(&self, block: u64, out: &mut [u8; BLOCK]) -> bool {
        let payload = self.get(&block).unwrap_or(&Payload::Zero);
        payload.copy_to(0, out)
    }
}

/// The blocks of a new file system; absent blocks are zeros.
impl Image for crate::mkfs::Blocks {
    fn read(&self, block: u64, out: &mut [u8; BLOCK]) -> bool {
        match self.get(&block) {
            Some(bytes) => out.copy_from_slice(&bytes[..]),
            None => out.fill(0),
        }
        true
    }
}
