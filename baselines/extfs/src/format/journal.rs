//! The superblock of an empty journal, as `mkfs` writes it. Its numbers are big
//! endian. The strategy that writes the journal knows the rest of the format.

use crate::BLOCK;

/// The first block of a journal of `blocks` blocks, of the file system `uuid`.
//= ext4-layout 3.6
pub(crate) fn empty(blocks: u32, uuid: [u8; 16]) -> Box<[u8; BLOCK]> {
    let mut block = Box::new([0; BLOCK]);
    let mut put = |at: usize, value: u32| block[at..at + 4].copy_from_slice(&value.to_be_bytes());
    put(0x0, 0xC03B_3998); // magic number
    put(0x4, 4); // a superblock of version 2
    put(0xC, BLOCK as u32);
    put(0x10, blocks);
    put(0x14, 1); // the first block of the log
    put(0x18, 1); // the first transaction
    put(0x1C, 0); // where the log begins: nowhere, it is empty
    put(0x40, 1); // users
    block[0x30..0x40].copy_from_slice(&uuid);
    block
}
