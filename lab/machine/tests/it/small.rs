//! Small computers and drives on which everything happens within some thousand accesses.

use memsys::{CacheConfig, Config, Moves, NodeConfig, Op, Program, Tiering};
use sim::Seed;
use skybyte::{Design, DeviceConfig, Profile};
use units::{Bytes, KIB, MIB, Ns};

/// A drive of 5 MiB on four dies, with 32 pages of cache and, if the design has a log, 64
/// lines in each half of it. It keeps contents.
pub(crate) fn drive(design: &str, profile: Profile) -> DeviceConfig {
    let mut config = profile.device(Design::named(design).unwrap());
    let drive = &mut config.drive;
    drive.geometry.channels = 2;
    drive.geometry.chips_per_channel = 1;
    drive.geometry.dies_per_chip = 2;
    drive.geometry.blocks_per_plane = 64;
    drive.geometry.pages_per_block = 8;
    drive.capacity = Bytes(5 * MIB);
    drive.controller.write_buffer = Bytes(32 * KIB);
    drive.collection.background_lines = 2;
    drive.flash.keep_contents = true;
    config.cache.ways = 4;
    config.cache.mshrs = 4;
    config.dram.bytes = Bytes(128 * KIB);
    if config.has_log() {
        config.log.bytes = Bytes(2 * 64 * u64::from(config.log.entry_bytes));
        config.dram.bytes = Bytes(144 * KIB);
        config.log.pages_in_work = 3;
    }
    config.promotion.threshold = 3;
    config.promotion.epoch = 500;
    config
}

/// A computer whose caches hold next to nothing, and eight pages of the drive at most.
pub(crate) fn computer(cores: u64, migrates: bool) -> Config {
    let cache = |lines: u64, ways, cycles, misses| CacheConfig {
        size: Bytes(lines * 64),
        ways,
        cycles,
        misses,
    };
    let moves = Moves {
        limit: Bytes(8 * 4 * KIB),
        entries: 2,
        queue: 4,
        handler: Ns(300),
        shootdown: Ns(400),
        interrupted: Ns(100),
        ..Moves::default()
    };
    Config {
        cores,
        window: 32,
        store_buffer: 6,
        l1: cache(8, 2, 3, 4),
        l2: cache(16, 4, 8, 6),
        llc: cache(64, 4, 30, 12),
        nodes: vec![NodeConfig {
            memory: Bytes(4 * MIB),
        }],
        // A power of two, of which pages are handed out in order.
        far: Bytes(4 * MIB),
        posted: 5,
        tiering: if migrates {
            Tiering::Hinted(moves)
        } else {
            Tiering::None
        },
        ..Config::default()
    }
}

/// Threads whose operations are listed.
pub(crate) struct Listed {
    pub(crate) threads: Vec<Vec<Op>>,
    pub(crate) footprint: u64,
    given: Vec<usize>,
}

impl Listed {
    pub(crate) fn new(threads: Vec<Vec<Op>>, footprint: u64) -> Self {
        let given = vec![0; threads.len()];
        Self {
            threads,
            footprint,
            given,
        }
    }
}

impl Program for Listed {
    fn threads(&self) -> u32 {
        self.threads.len() as u32
    }

    fn footprint(&self) -> Bytes {
        Bytes(self.footprint)
    }

    fn next(&mut self, thread: u32, ops: &mut Vec<Op>) -> bool {
        let all = &self.threads[thread as usize];
        let given = &mut self.given[thread as usize];
        let end = all.len().min(*given + 100);
        ops.extend_from_slice(&all[*given..end]);
        *given = end;
        end < all.len()
    }
}

/// Bytes of a piece that one thread has; lines and pages do not divide it.
const PIECE: u64 = 96;

/// Random loads and stores of threads that share pages and lines and no bytes. Half of
/// them go to a few pieces.
pub(crate) fn without_races(seed: u64, threads: u64, footprint: u64, length: u64) -> Listed {
    let pieces = footprint / PIECE / threads;
    let thread = |number: u64| {
        let mut rng = Seed(seed).child(number).stream("program");
        let op = |_| {
            let piece = if rng.chance(1, 2) {
                rng.below(pieces.min(40))
            } else {
                rng.below(pieces)
            };
            let size = 1 + rng.below(64);
            let at = (piece * threads + number) * PIECE + rng.below(PIECE - size + 1);
            let (size, after) = (size as u8, rng.below(6) as u16);
            match rng.below(12) {
                0 => Op::Flush { at },
                1 => Op::Fence,
                2 => Op::Compute(rng.below(400) as u32),
                3..7 => Op::Store { at, size, after },
                _ => Op::Load { at, size, after },
            }
        };
        (0..length).map(op).collect()
    };
    Listed::new((0..threads).map(thread).collect(), footprint)
}
