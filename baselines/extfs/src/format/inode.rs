//! The inode: 128 bytes, and what follows in larger slots.
//!
//! Invariants: attributes go to bytes and back without loss where the slot is of
//! 256 bytes; a slot of 128 bytes loses nanoseconds, the creation time and times
//! after 2038. A field past `EXTRA_SIZE` is not there.

use super::{Value, crc, layout, wide};
use vfs::{Attr, FileKind, TimeRange, Timestamp};

/// Bytes of the part that every inode has.
pub(crate) const OLD_SIZE: usize = 128;
/// Bytes of the fields after it that are known: `EXTRA_SIZE` to `PROJECT`.
pub(crate) const EXTRA_KNOWN: u16 = 32;
/// Bytes of the map of blocks.
pub(crate) const MAP_SIZE: usize = 60;
/// Largest slot in bytes that this crate supports.
pub(crate) const MAX_SIZE: usize = 256;

/// `FLAGS`: the directory has an index.
pub(crate) const FLAG_INDEX: u32 = 0x1000;
/// `FLAGS`: `BLOCKS` counts blocks of the file system.
pub(crate) const FLAG_HUGE: u32 = 0x4_0000;
/// `FLAGS`: the map is a tree of extents.
pub(crate) const FLAG_EXTENTS: u32 = 0x8_0000;
/// `FLAGS`: contents are in the inode.
pub(crate) const FLAG_INLINE: u32 = 0x1000_0000;
/// `FLAGS`: the inode is a value of an attribute.
pub(crate) const FLAG_EA_INODE: u32 = 0x20_0000;
/// `FLAGS`: contents are encrypted.
pub(crate) const FLAG_ENCRYPT: u32 = 0x800;
/// `FLAGS` that a new inode inherits from its directory: sync, no dump, no atime.
pub(crate) const FLAGS_INHERITED: u32 = 0x8 | 0x40 | 0x80;

//= ext4-layout 5.1
layout! { 160:
    MODE: u16 = 0x0,
    UID_LO: u16 = 0x2,
    SIZE_LO: u32 = 0x4,
    ATIME: u32 = 0x8,
    CTIME: u32 = 0xC,
    MTIME: u32 = 0x10,
    DTIME: u32 = 0x14,
    GID_LO: u16 = 0x18,
    LINKS: u16 = 0x1A,
    BLOCKS_LO: u32 = 0x1C,
    FLAGS: u32 = 0x20,
    VERSION_LO: u32 = 0x24,
    MAP: [u8; 60] = 0x28,
    GENERATION: u32 = 0x64,
    XATTR_LO: u32 = 0x68,
    SIZE_HI: u32 = 0x6C,
    BLOCKS_HI: u16 = 0x74,
    XATTR_HI: u16 = 0x76,
    UID_HI: u16 = 0x78,
    GID_HI: u16 = 0x7A,
    CHECKSUM_LO: u16 = 0x7C,
    EXTRA_SIZE: u16 = 0x80,
    CHECKSUM_HI: u16 = 0x82,
    CTIME_EXTRA: u32 = 0x84,
    MTIME_EXTRA: u32 = 0x88,
    ATIME_EXTRA: u32 = 0x8C,
    BTIME: u32 = 0x90,
    BTIME_EXTRA: u32 = 0x94,
    VERSION_HI: u32 = 0x98,
    PROJECT: u32 = 0x9C,
}

/// Bytes past [`OLD_SIZE`] that `slot` uses for fields.
pub(crate) fn extra(slot: &[u8]) -> usize {
    if slot.len() <= OLD_SIZE {
        return 0;
    }
    let extra = usize::from(EXTRA_SIZE.get(slot));
    extra.min(slot.len() - OLD_SIZE)
}

/// Whether `slot` has the field of four bytes at `at`.
fn has(slot: &[u8], at: usize) -> bool {
    at + 4 <= OLD_SIZE + extra(slot)
}

/// Increments the version (`i_version`), as Linux does with each change of an inode.
pub(crate) fn count_change(slot: &mut [u8]) {
    let (low, carry) = VERSION_LO.get(slot).overflowing_add(1);
    VERSION_LO.put(slot, low);
    if carry && has(slot, VERSION_HI.at) {
        let high = VERSION_HI.get(slot).wrapping_add(1);
        VERSION_HI.put(slot, high);
    }
}

/// The checksum seed of the inode's own structures.
pub(crate) fn seed(fs_seed: u32, ino: u32, generation: u32) -> u32 {
    crc(crc(fs_seed, &ino.to_le_bytes()), &generation.to_le_bytes())
}

/// The checksum that `slot` should have: 32 bits, or 16 if the slot lacks `CHECKSUM_HI`.
//= ext4-layout 5.1
pub(crate) fn checksum(seed: u32, slot: &[u8]) -> u32 {
    let mut blank = [0; MAX_SIZE];
    let blank = &mut blank[..slot.len()];
    blank.copy_from_slice(slot);
    CHECKSUM_LO.put(blank, 0);
    if extra(slot) < 4 {
        return crc(seed, blank) & 0xFFFF;
    }
    CHECKSUM_HI.put(blank, 0);
    crc(seed, blank)
}

/// Whether the checksum of `slot` is right.
pub(crate) fn is_whole(seed: u32, slot: &[u8]) -> bool {
    let mut stored = u32::from(CHECKSUM_LO.get(slot));
    if extra(slot) >= 4 {
        stored |= u32::from(CHECKSUM_HI.get(slot)) << 16;
    }
    stored == checksum(seed, slot)
}

/// Sets the checksum of `slot`.
pub(crate) fn seal(seed: u32, slot: &mut [u8]) {
    let sum = checksum(seed, slot);
    CHECKSUM_LO.put(slot, sum as u16);
    if extra(slot) >= 4 {
        CHECKSUM_HI.put(slot, (sum >> 16) as u16);
    }
}

/// Offsets of the two fields of a time: seconds, and the extra field.
struct TimeFields {
    secs: usize,
    extra: usize,
}

const TIMES: [TimeFields; 4] = [
    TimeFields {
        secs: ATIME.at,
        extra: ATIME_EXTRA.at,
    },
    TimeFields {
        secs: MTIME.at,
        extra: MTIME_EXTRA.at,
    },
    TimeFields {
        secs: CTIME.at,
        extra: CTIME_EXTRA.at,
    },
    TimeFields {
        secs: BTIME.at,
        extra: BTIME_EXTRA.at,
    },
];

/// Reads a time: 32 signed bits of seconds; the extra field, where the slot has it, adds
/// two bits above them and nanoseconds.
//= ext4-layout 5.1
fn time(slot: &[u8], fields: &TimeFields) -> Timestamp {
    if fields.secs >= OLD_SIZE && !has(slot, fields.secs) {
        return Timestamp::default();
    }
    let secs = i64::from(u32::load(&slot[fields.secs..]) as i32);
    if !has(slot, fields.extra) {
        return Timestamp { secs, nanos: 0 };
    }
    let extra = u32::load(&slot[fields.extra..]);
    Timestamp {
        secs: secs + (i64::from(extra & 3) << 32),
        nanos: (extra >> 2).min(999_999_999),
    }
}

/// Timestamps of an inode: signed seconds of 32 bits, and `wide` ones with two bits more and
/// nanoseconds.
//= ext4-layout 5.1
pub(crate) const fn times(wide: bool) -> TimeRange {
    TimeRange {
        earliest: i32::MIN as i64,
        latest: i32::MAX as i64 + if wide { 3 << 32 } else { 0 },
        grain: if wide { 1 } else { 1_000_000_000 },
    }
}

fn set_time(slot: &mut [u8], fields: &TimeFields, time: Timestamp) {
    if fields.secs >= OLD_SIZE && !has(slot, fields.secs) {
        return;
    }
    let wide = has(slot, fields.extra);
    let time = times(wide).hold(time);
    let secs = time.secs;
    (secs as u32).save(&mut slot[fields.secs..]);
    if wide {
        let epoch = ((secs - i64::from(secs as i32)) >> 32) as u32 & 3;
        (epoch | time.nanos << 2).save(&mut slot[fields.extra..]);
    }
}

/// Size of the file in bytes.
pub(crate) fn size(slot: &[u8]) -> u64 {
    wide(SIZE_LO.get(slot), SIZE_HI.get(slot))
}

/// Sets both halves of the size, in bytes.
pub(crate) fn set_size(slot: &mut [u8], size: u64) {
    SIZE_LO.put(slot, size as u32);
    SIZE_HI.put(slot, (size >> 32) as u32);
}

/// The block of extended attributes, 0 if there is none.
pub(crate) fn xattr_block(slot: &[u8]) -> u64 {
    wide(XATTR_LO.get(slot), XATTR_HI.get(slot))
}

/// Sets the block of extended attributes.
pub(crate) fn set_xattr_block(slot: &mut [u8], block: u64) {
    XATTR_LO.put(slot, block as u32);
    XATTR_HI.put(slot, (block >> 32) as u16);
}

/// Sectors of 512 bytes that the inode occupies; with [`FLAG_HUGE`] the field counts blocks.
pub(crate) fn sectors(slot: &[u8]) -> u64 {
    let count = wide(BLOCKS_LO.get(slot), BLOCKS_HI.get(slot));
    if FLAGS.get(slot) & FLAG_HUGE != 0 {
        count * 8
    } else {
        count
    }
}

/// The attributes in `slot`; `None` if the mode names no known file kind.
pub(crate) fn attr(slot: &[u8]) -> Option<Attr> {
    let mode = MODE.get(slot);
    let kind = FileKind::of_mode(mode)?;
    let pair = |lo: u16, hi: u16| u32::from(lo) | u32::from(hi) << 16;
    Some(Attr {
        kind,
        mode: mode & 0o7777,
        nlink: u32::from(LINKS.get(slot)),
        uid: pair(UID_LO.get(slot), UID_HI.get(slot)),
        gid: pair(GID_LO.get(slot), GID_HI.get(slot)),
        rdev: device(kind, slot),
        size: size(slot),
        sectors: sectors(slot),
        atime: time(slot, &TIMES[0]),
        mtime: time(slot, &TIMES[1]),
        ctime: time(slot, &TIMES[2]),
        btime: time(slot, &TIMES[3]),
        generation: GENERATION.get(slot),
    })
}

/// Writes all attributes to `slot` but the device number and the size, which the caller
/// updates through [`set_size`].
pub(crate) fn set_attr(slot: &mut [u8], attr: &Attr) {
    MODE.put(slot, attr.kind.mode_bits() | attr.mode & 0o7777);
    LINKS.put(slot, attr.nlink as u16);
    UID_LO.put(slot, attr.uid as u16);
    UID_HI.put(slot, (attr.uid >> 16) as u16);
    GID_LO.put(slot, attr.gid as u16);
    GID_HI.put(slot, (attr.gid >> 16) as u16);
    BLOCKS_LO.put(slot, attr.sectors as u32);
    BLOCKS_HI.put(slot, (attr.sectors >> 32) as u16);
    let flags = FLAGS.get(slot) & !FLAG_HUGE;
    FLAGS.put(slot, flags);
    let times = [attr.atime, attr.mtime, attr.ctime, attr.btime];
    for (fields, time) in TIMES.iter().zip(times) {
        set_time(slot, fields, time);
    }
    GENERATION.put(slot, attr.generation);
}

/// The device number: in the first word of the map in the old form (8 and 8 bits), otherwise
/// in the second word. 0 of a file that is no device.
fn device(kind: FileKind, slot: &[u8]) -> u32 {
    if !matches!(kind, FileKind::CharDevice | FileKind::BlockDevice) {
        return 0;
    }
    let old = u32::load(&slot[MAP.at..]);
    let new = u32::load(&slot[MAP.at + 4..]);
    if old != 0 { old & 0xFFFF } else { new }
}

/// The map of a device's inode, which holds the device number.
pub(crate) fn device_map(rdev: u32) -> [u8; MAP_SIZE] {
    let mut map = [0; MAP_SIZE];
    let at = if rdev <= 0xFFFF { 0 } else { 4 };
    rdev.save(&mut map[at..]);
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Attr {
        let time = |secs, nanos| Timestamp { secs, nanos };
        Attr {
            kind: FileKind::Regular,
            mode: 0o4755,
            nlink: 3,
            uid: 0x12_3456,
            gid: 0x65_4321,
            rdev: 0,
            size: 0,
            sectors: 0x1_2345_6788,
            atime: time(-5, 999_999_999),
            mtime: time(1 << 31, 1),
            ctime: time((1 << 33) + 7, 2),
            btime: time(1_700_000_000, 3),
            generation: 9,
        }
    }

    #[test]
    fn attributes_in_a_slot_of_256_bytes_are_unchanged() {
        let mut slot = [0; 256];
        EXTRA_SIZE.put(&mut slot, EXTRA_KNOWN);
        set_attr(&mut slot, &sample());
        assert_eq!(attr(&slot), Some(sample()));
    }

    #[test]
    fn times_in_a_slot_of_128_bytes_keep_seconds_only() {
        let mut slot = [0; 128];
        set_attr(&mut slot, &sample());
        let kept = attr(&slot).unwrap();
        assert_eq!((kept.atime.secs, kept.atime.nanos), (-5, 0));
        assert_eq!(kept.mtime.secs, i64::from(i32::MAX));
        assert_eq!(kept.btime, Timestamp::default());
    }

    #[test]
    fn checksum_of_a_slot_with_any_bit_flipped_is_wrong() {
        for len in [128, 256] {
            let mut slot = vec![0; len];
            if len > 128 {
                EXTRA_SIZE.put(&mut slot, EXTRA_KNOWN);
            }
            set_attr(&mut slot, &sample());
            seal(7, &mut slot);
            assert!(is_whole(7, &slot));
            for bit in 0..len * 8 {
                slot[bit / 8] ^= 1 << (bit % 8);
                assert!(!is_whole(7, &slot), "bit {bit}");
                slot[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }
}
