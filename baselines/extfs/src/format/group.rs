//! The descriptor of a block group: 32 bytes, or 64 with the feature `64bit`.
//!
//! Invariant: high halves of fields, which a short descriptor lacks, read as zeros
//! and are never written.

use super::{crc, crc16, layout, wide};

/// Bytes of a long descriptor.
pub(crate) const SIZE: usize = 64;
/// Bytes of a short descriptor (no feature `64bit`).
pub(crate) const SHORT: usize = 32;

/// `FLAGS`: the inode bitmap and table were never written.
pub(crate) const INODE_UNINIT: u16 = 1;
/// `FLAGS`: the block bitmap was never written.
pub(crate) const BLOCK_UNINIT: u16 = 2;

//= ext4-layout 4.2
layout! { 64:
    BLOCK_BITMAP_LO: u32 = 0x0,
    INODE_BITMAP_LO: u32 = 0x4,
    INODE_TABLE_LO: u32 = 0x8,
    FREE_BLOCKS_LO: u16 = 0xC,
    FREE_INODES_LO: u16 = 0xE,
    USED_DIRS_LO: u16 = 0x10,
    FLAGS: u16 = 0x12,
    BLOCK_CSUM_LO: u16 = 0x18,
    INODE_CSUM_LO: u16 = 0x1A,
    UNUSED_INODES_LO: u16 = 0x1C,
    CHECKSUM: u16 = 0x1E,
    BLOCK_BITMAP_HI: u32 = 0x20,
    INODE_BITMAP_HI: u32 = 0x24,
    INODE_TABLE_HI: u32 = 0x28,
    FREE_BLOCKS_HI: u16 = 0x2C,
    FREE_INODES_HI: u16 = 0x2E,
    USED_DIRS_HI: u16 = 0x30,
    UNUSED_INODES_HI: u16 = 0x32,
    BLOCK_CSUM_HI: u16 = 0x38,
    INODE_CSUM_HI: u16 = 0x3A,
}

/// A decoded descriptor: blocks of the bitmaps and the inode table, counts, flags (`INODE_UNINIT`,
/// `BLOCK_UNINIT`) and checksums of the bitmaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub(crate) block_bitmap: u64,
    pub(crate) inode_bitmap: u64,
    pub(crate) inode_table: u64,
    pub(crate) free_blocks: u32,
    pub(crate) free_inodes: u32,
    pub(crate) used_dirs: u32,
    pub(crate) unused_inodes: u32,
    pub(crate) flags: u16,
    pub(crate) block_csum: u32,
    pub(crate) inode_csum: u32,
}

impl Descriptor {
    /// Reads a descriptor of 32 or 64 bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let mut long = [0; SIZE];
        let len = bytes.len().min(SIZE);
        long[..len].copy_from_slice(&bytes[..len]);
        let pair = |lo: u16, hi: u16| u32::from(lo) | u32::from(hi) << 16;
        let b = &long;
        Self {
            block_bitmap: wide(BLOCK_BITMAP_LO.get(b), BLOCK_BITMAP_HI.get(b)),
            inode_bitmap: wide(INODE_BITMAP_LO.get(b), INODE_BITMAP_HI.get(b)),
            inode_table: wide(INODE_TABLE_LO.get(b), INODE_TABLE_HI.get(b)),
            free_blocks: pair(FREE_BLOCKS_LO.get(b), FREE_BLOCKS_HI.get(b)),
            free_inodes: pair(FREE_INODES_LO.get(b), FREE_INODES_HI.get(b)),
            used_dirs: pair(USED_DIRS_LO.get(b), USED_DIRS_HI.get(b)),
            unused_inodes: pair(UNUSED_INODES_LO.get(b), UNUSED_INODES_HI.get(b)),
            flags: FLAGS.get(b),
            block_csum: pair(BLOCK_CSUM_LO.get(b), BLOCK_CSUM_HI.get(b)),
            inode_csum: pair(INODE_CSUM_LO.get(b), INODE_CSUM_HI.get(b)),
        }
    }

    /// Writes all fields but the checksum over a descriptor of 32 or 64 bytes.
    pub(crate) fn encode(&self, bytes: &mut [u8]) {
        let lo = |value: u32| value as u16;
        let hi = |value: u32| (value >> 16) as u16;
        BLOCK_BITMAP_LO.put(bytes, self.block_bitmap as u32);
        INODE_BITMAP_LO.put(bytes, self.inode_bitmap as u32);
        INODE_TABLE_LO.put(bytes, self.inode_table as u32);
        FREE_BLOCKS_LO.put(bytes, lo(self.free_blocks));
        FREE_INODES_LO.put(bytes, lo(self.free_inodes));
        USED_DIRS_LO.put(bytes, lo(self.used_dirs));
        FLAGS.put(bytes, self.flags);
        BLOCK_CSUM_LO.put(bytes, lo(self.block_csum));
        INODE_CSUM_LO.put(bytes, lo(self.inode_csum));
        UNUSED_INODES_LO.put(bytes, lo(self.unused_inodes));
        if bytes.len() < SIZE {
            return;
        }
        BLOCK_BITMAP_HI.put(bytes, (self.block_bitmap >> 32) as u32);
        INODE_BITMAP_HI.put(bytes, (self.inode_bitmap >> 32) as u32);
        INODE_TABLE_HI.put(bytes, (self.inode_table >> 32) as u32);
        FREE_BLOCKS_HI.put(bytes, hi(self.free_blocks));
        FREE_INODES_HI.put(bytes, hi(self.free_inodes));
        USED_DIRS_HI.put(bytes, hi(self.used_dirs));
        UNUSED_INODES_HI.put(bytes, hi(self.unused_inodes));
        BLOCK_CSUM_HI.put(bytes, hi(self.block_csum));
        INODE_CSUM_HI.put(bytes, hi(self.inode_csum));
    }
}

/// The checksum of the descriptor of `group` with `metadata_csum`.
//= ext4-layout 4.2
pub(crate) fn checksum(seed: u32, group: u32, bytes: &[u8]) -> u16 {
    let crc1 = crc(seed, &group.to_le_bytes());
    let crc2 = crc(crc1, &bytes[..CHECKSUM.at]);
    let crc3 = crc(crc2, &[0; 2]);
    crc(crc3, &bytes[CHECKSUM.at + 2..]) as u16
}

/// The checksum of the descriptor of `group` with `uninit_bg`.
pub(crate) fn checksum16(uuid: &[u8; 16], group: u32, bytes: &[u8]) -> u16 {
    let crc1 = crc16(!0, uuid);
    let crc2 = crc16(crc1, &group.to_le_bytes());
    let crc3 = crc16(crc2, &bytes[..CHECKSUM.at]);
    crc16(crc3, &bytes[CHECKSUM.at + 2..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptor_encoded_and_decoded_is_unchanged() {
        let group = Descriptor {
            block_bitmap: 0x1_0000_0002,
            inode_table: 77,
            free_blocks: 0x1_0001,
            block_csum: 0xDEAD_BEEF,
            flags: BLOCK_UNINIT,
            ..Descriptor::default()
        };
        let mut long = [0; SIZE];
        group.encode(&mut long);
        assert_eq!(Descriptor::decode(&long), group);
        let mut short = [0; SHORT];
        group.encode(&mut short);
        assert_eq!(Descriptor::decode(&short).block_csum, 0xBEEF);
    }
}
