//! The bytes of the format, one home per layout.
//!
//! Invariants: a field is written down once, in a [`mod@units::layout`]; no bytes,
//! however wrong, make a function here panic.
//!
//! All numbers on the medium are little endian; bits of the maps of blocks and of
//! versions are counted from the top of each byte, those of directories from the bottom.

pub(crate) mod checkpoint;
pub(crate) mod dentry;
pub(crate) mod nat;
pub(crate) mod node;
pub(crate) mod path;
pub(crate) mod sit;
pub(crate) mod summary;
pub(crate) mod superblock;
pub(crate) mod xattr;

pub(crate) use units::layout;
pub(crate) use units::layout::Value;

/// Bytes of a block: the only size that is built.
pub const BLOCK: usize = 4096;

/// The bytes of a block.
pub type Block = [u8; BLOCK];

/// Blocks of a segment: 2 MiB, the only size of the format.
pub(crate) const SEG_BLOCKS: u32 = 512;

/// The address of a block that is accounted for and not written yet.
pub(crate) const NEW_ADDR: u32 = u32::MAX;

/// The magic number, which also seeds every checksum.
pub(crate) const MAGIC: u32 = 0xF2F5_2010;

/// The checksum of the format: the CRC-32 of Ethernet, reflected, from the magic number
/// on, without the final inversion.
//= f2fs-layout 1
pub(crate) fn crc(bytes: &[u8]) -> u32 {
    bytes.iter().fold(MAGIC, |crc, &byte| {
        TABLE[((crc ^ u32::from(byte)) & 0xFF) as usize] ^ (crc >> 8)
    })
}

/// CRC table: the change of the checksum for each byte value.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ (0xEDB8_8320 * (crc & 1));
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// A block of zeros.
pub(crate) fn blank() -> Box<Block> {
    Box::new([0; BLOCK])
}

/// Bit `index` of a map that counts from the top of each byte; false behind its end.
pub(crate) fn high_bit(map: &[u8], index: usize) -> bool {
    map.get(index / 8)
        .is_some_and(|byte| byte >> (7 - index % 8) & 1 == 1)
}

/// Sets bit `index` of such a map.
pub(crate) fn set_high_bit(map: &mut [u8], index: usize, value: bool) {
    let mask = 1 << (7 - index % 8);
    match value {
        true => map[index / 8] |= mask,
        false => map[index / 8] &= !mask,
    }
}

/// Bit `index` of a map that counts from the bottom of each byte.
pub(crate) fn low_bit(map: &[u8], index: usize) -> bool {
    map[index / 8] >> (index % 8) & 1 == 1
}

/// Sets bit `index` of such a map.
pub(crate) fn set_low_bit(map: &mut [u8], index: usize, value: bool) {
    let mask = 1 << (index % 8);
    match value {
        true => map[index / 8] |= mask,
        false => map[index / 8] &= !mask,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_matches_the_check_value_of_crc32() {
        // The published check value, with the inversions taken off.
        let seeded = |seed: u32, bytes: &[u8]| {
            bytes.iter().fold(seed, |crc, &byte| {
                TABLE[((crc ^ u32::from(byte)) & 0xFF) as usize] ^ (crc >> 8)
            })
        };
        assert_eq!(!seeded(!0, b"123456789"), 0xCBF4_3926);
        assert_eq!(crc(b""), MAGIC);
    }

    #[test]
    fn bits_are_numbered_from_the_high_or_the_low_end_of_a_byte() {
        let mut map = [0; 2];
        set_high_bit(&mut map, 1, true);
        set_low_bit(&mut map, 9, true);
        assert_eq!(map, [0x40, 0x02]);
        assert!(high_bit(&map, 1) && low_bit(&map, 9) && !high_bit(&map, 99));
        set_high_bit(&mut map, 1, false);
        assert_eq!(map, [0, 2]);
    }
}
