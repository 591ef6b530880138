//! Small computers and drives on which every mechanism acts within some thousand accesses.

use memsys::model::{Listed, tiny};
use memsys::{Config, Far, FarEvent, Line, Moves, Op, ReadReply, Tag, Tiering, Values};
use sim::{Kernel, Seed};
use skybyte::{CxlSsd, Design, DeviceConfig, Profile, host};
use units::{Bytes, KIB, MIB, Ns};

/// Drive whose resources are used up within some thousand accesses, and which offers pages for
/// promotion early.
pub(crate) fn drive(design: &str, profile: Profile) -> DeviceConfig {
    let mut config = profile.tiny_device(Design::named(design).unwrap());
    config.promotion.threshold = 3;
    config.promotion.epoch = 500;
    config
}

/// Computer with tiny caches, and with the design's mechanism to move pages, at most eight of them
/// and as early as possible.
pub(crate) fn computer(cores: u64, design: &str) -> Config {
    let few = |moves: &mut Moves| {
        moves.limit = Bytes(8 * 4 * KIB);
        (moves.entries, moves.queue) = (2, 4);
        (moves.handler, moves.shootdown) = (Ns(300), Ns(400));
        moves.interrupted = Ns(100);
    };
    let design = Design::named(design).unwrap();
    let mut tiering = host::computer(Profile::Default, design).tiering;
    match &mut tiering {
        Tiering::None => {}
        Tiering::Hinted(moves) => few(moves),
        Tiering::Sampled(moves, sampling) => {
            few(moves);
            (sampling.period, sampling.fault) = (Ns::us(50), Ns(100));
        }
        Tiering::Cached(cache) => {
            (cache.size, cache.ways, cache.misses) = (Bytes(8 * 4 * KIB), 2, 2);
        }
    }
    Config {
        cores,
        // A power of two, whose pages are handed out in order.
        far: Bytes(4 * MIB),
        tiering,
        ..tiny()
    }
}

/// Bytes of a piece that belongs to one thread; lines and pages are no multiples of it.
const PIECE: u64 = 96;

/// Random loads and stores of threads that share pages and lines but no bytes. Half of them go to a
/// few pieces.
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

/// Reader of a drive's contents, line by line.
pub(crate) struct Reader {
    pub(crate) kernel: Kernel,
    pub(crate) device: CxlSsd,
}

impl Reader {
    pub(crate) fn line(&mut self, line: u64) -> [u8; 64] {
        let now = self.kernel.sim().now();
        match self.device.read(now, Line(line), Tag(1)) {
            ReadReply::Data(_, data) => data.unwrap(),
            ReadReply::Waits => loop {
                assert!(self.kernel.step(), "the read ends");
                if let Some(FarEvent::Data(_, _, data)) = self.device.event() {
                    break data.unwrap();
                }
            },
            ReadReply::Delay(_) => {
                self.kernel.run_until(now + Ns::ms(5));
                self.line(line)
            }
        }
    }
}

/// Memory values that are stored and not checked.
pub(crate) struct TimeKept;

impl Values for TimeKept {
    const KEPT: bool = true;
    fn stored(&mut self, _: u32, _: u64, _: &[u8]) {}
    fn loaded(&mut self, _: u32, _: u64, _: &[u8]) {}
}
