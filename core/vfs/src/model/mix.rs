//! Programs for power-cut tests: calls on few files, so that cuts hit forced data.

use super::draw::{draw_on_file, draw_on_names};
use super::op::Op;
use crate::flags::OpenFlags;
use crate::rename::RenameFlags;
use sim::{Rng, Seed};

/// Kind of calls in a power-cut run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mix {
    /// Three files, then mostly changes of their contents, with a force now and then.
    Contents,
    /// Files that are created, forced, moved and removed under the same few names.
    Names,
}

fn draw(mix: Mix, rng: &mut Rng, number: usize) -> Op {
    let path = [&b"/a"[..], b"/b", b"/c"][number % 3].to_vec();
    if number < 3 {
        let flags = OpenFlags::BOTH | OpenFlags::CREATE;
        return Op::Open { path, flags };
    }
    match (mix, rng.below(24)) {
        (Mix::Contents, _) if number == 3 => Op::Sync,
        (Mix::Contents, chance) => draw_contents(rng, chance),
        (Mix::Names, chance) => draw_named(rng, chance),
    }
}

fn draw_contents(rng: &mut Rng, chance: u64) -> Op {
    match chance {
        0 => draw_on_names(rng),
        1..8 => Op::Fsync {
            fd: rng.below(3) as u32,
            data_only: rng.below(2) == 0,
        },
        _ => draw_on_file(rng),
    }
}

/// A random path from a small set, partly in a subdirectory.
fn path(rng: &mut Rng) -> Vec<u8> {
    let paths = [&b"/a"[..], b"/b", b"/c", b"/d", b"/d/a", b"/d/b", b"/e/a"];
    paths[rng.below(paths.len() as u64) as usize].to_vec()
}

fn draw_named(rng: &mut Rng, chance: u64) -> Op {
    match chance {
        0..5 => Op::Open {
            path: path(rng),
            flags: OpenFlags::BOTH | OpenFlags::CREATE,
        },
        5..8 => Op::Unlink { path: path(rng) },
        8..10 => Op::Rename {
            from: path(rng),
            to: path(rng),
            flags: RenameFlags {
                no_replace: false,
                exchange: rng.below(5) == 0,
            },
        },
        10 => Op::Link {
            path: path(rng),
            new: path(rng),
        },
        11 => Op::Mkdir {
            path: [&b"/d"[..], b"/e"][rng.below(2) as usize].to_vec(),
        },
        12 => Op::Rmdir { path: path(rng) },
        13 if rng.below(4) == 0 => Op::Sync,
        14..16 => draw_on_file(rng),
        16 => draw_on_names(rng),
        // The files opened last are the most likely to be open.
        _ => Op::Fsync {
            fd: rng.below(12) as u32,
            data_only: rng.below(5) == 0,
        },
    }
}

/// The first `calls` calls of this mix for a seed.
#[must_use]
pub fn drawn(mix: Mix, seed: u64, calls: usize) -> Vec<Op> {
    let mut rng = Seed(seed).stream("calls");
    (0..calls)
        .map(|number| draw(mix, &mut rng, number))
        .collect()
}
