//! Random calls on few names and few descriptors, so that they collide.

use super::Op;
use crate::flags::OpenFlags;
use crate::rename::RenameFlags;
use crate::types::{FallocateMode, PAGE, XattrFlags};
use sim::Rng;

/// A random call: with equal chance a change of names or a use of a descriptor. There are few
/// directories, three names and five descriptors.
pub fn draw(rng: &mut Rng) -> Op {
    if rng.below(2) == 0 {
        draw_on_names(rng)
    } else {
        draw_on_file(rng)
    }
}

fn path(rng: &mut Rng) -> Vec<u8> {
    let depth = 1 + rng.below(3);
    let names = (0..depth).map(|_| ["a", "b", "c"][rng.below(3) as usize]);
    format!("/{}", names.collect::<Vec<_>>().join("/")).into_bytes()
}

fn offset(rng: &mut Rng) -> u64 {
    if rng.below(2) == 0 {
        rng.below(60_000)
    } else {
        rng.below(30) * PAGE
    }
}

/// A random call that takes a path.
pub fn draw_on_names(rng: &mut Rng) -> Op {
    let (one, two) = (path(rng), path(rng));
    let name = [&b"user.x"[..], b"user.y"][rng.below(2) as usize].to_vec();
    match rng.below(18) {
        0..4 => Op::Open {
            path: one,
            flags: OpenFlags::BOTH | OpenFlags::CREATE,
        },
        4..6 => Op::Mkdir { path: one },
        6 => Op::Rmdir { path: one },
        7 | 8 => Op::Unlink { path: one },
        9 | 10 => Op::Rename {
            from: one,
            to: two,
            flags: RenameFlags {
                no_replace: rng.below(4) == 0,
                exchange: false,
            },
        },
        11 => Op::Rename {
            from: one,
            to: two,
            flags: RenameFlags {
                no_replace: false,
                exchange: true,
            },
        },
        12 => Op::Link {
            path: one,
            new: two,
        },
        13 => Op::Symlink {
            target: two.repeat(1 + rng.below(20) as usize),
            path: one,
        },
        14 => Op::ReadDir { path: one },
        15 => Op::SetXattr {
            path: one,
            name,
            value: vec![7; rng.below(1_200) as usize],
            flags: XattrFlags::Any,
        },
        16 => Op::RemoveXattr { path: one, name },
        _ => Op::GetXattr { path: one, name },
    }
}

/// A random call on a descriptor.
pub fn draw_on_file(rng: &mut Rng) -> Op {
    let fd = rng.below(5) as u32;
    let (at, len) = (offset(rng), rng.below(30_000));
    match rng.below(12) {
        0 | 1 => Op::Close { fd },
        2..5 => Op::Read {
            fd,
            offset: at,
            len,
        },
        5..9 => Op::Write {
            fd,
            offset: at,
            byte: rng.next_u64() as u8,
            len,
        },
        9 => Op::Ftruncate { fd, size: at },
        10 => Op::Fallocate {
            fd,
            mode: [
                FallocateMode::Punch,
                FallocateMode::Allocate { keep_size: true },
                FallocateMode::Allocate { keep_size: false },
                FallocateMode::Zero { keep_size: true },
                FallocateMode::Zero { keep_size: false },
            ][rng.below(5) as usize],
            offset: at,
            len,
        },
        _ => Op::Fsync {
            fd,
            data_only: rng.below(2) == 0,
        },
    }
}
