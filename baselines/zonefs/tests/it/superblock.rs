//! The superblock: the layout of Linux, and arbitrary bytes.

use zonefs::{BLOCK, Superblock, SuperblockError};

/// CRC-32 by its definition, bit by bit, without the inversion at the end.
fn crc(bytes: &[u8]) -> u32 {
    bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            let rest = crc >> 1;
            if crc & 1 == 1 {
                rest ^ 0xedb8_8320
            } else {
                rest
            }
        })
    })
}

fn superblock() -> Superblock {
    Superblock {
        label: "zones".to_owned(),
        uuid: *b"0123456789abcdef",
        aggregates: true,
        uid: 7,
        gid: 9,
        perm: 0o600,
    }
}

//= zonefs 1
#[test]
fn superblock_has_the_layout_of_linux() {
    let block = superblock().encode();
    let word = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().unwrap());
    assert_eq!(&block[..4], b"SFOZ");
    assert_eq!(&block[8..14], b"zones\0");
    assert_eq!(&block[40..56], b"0123456789abcdef");
    assert_eq!((word(56), word(60)), (0xf, 0));
    assert_eq!((word(64), word(68), word(72)), (7, 9, 0o600));
    assert!(block[76..].iter().all(|&byte| byte == 0));
    let mut bare = block;
    bare[4..8].fill(0);
    assert_eq!(word(4), crc(&bare));
    // Values that equal the defaults set no feature bit.
    let plain = Superblock::default().encode();
    assert_eq!(plain[56..64], [0; 8]);
}

#[test]
fn superblock_round_trips() {
    for superblock in [superblock(), Superblock::default()] {
        assert_eq!(Superblock::decode(&superblock.encode()), Ok(superblock));
    }
}

#[test]
fn any_changed_bit_is_noticed() {
    let block = superblock().encode();
    for bit in 0..BLOCK * 8 {
        let mut changed = block;
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(Superblock::decode(&changed).is_err(), "bit {bit}");
    }
}

#[test]
fn invalid_superblock_with_a_valid_checksum_is_rejected() {
    let signed = |change: fn(&mut [u8; BLOCK])| {
        let mut block = superblock().encode();
        change(&mut block);
        block[4..8].fill(0);
        let sum = crc(&block);
        block[4..8].copy_from_slice(&sum.to_le_bytes());
        Superblock::decode(&block)
    };
    assert_eq!(
        signed(|b| b[56] |= 0x10),
        Err(SuperblockError::Features(16))
    );
    assert_eq!(signed(|b| b[99] = 1), Err(SuperblockError::Reserved(99)));
    let perm = SuperblockError::Permissions(0o7600);
    assert_eq!(signed(|b| b[73] = 0o17), Err(perm));
    assert_eq!(signed(|b| b[0] = 0), Err(SuperblockError::Magic));
    // A label without terminator, and a label that is not UTF-8.
    assert_eq!(signed(|b| b[8..40].fill(b'x')).unwrap().label.len(), 32);
    assert!(signed(|b| b[8] = 0xff).is_ok());
}
