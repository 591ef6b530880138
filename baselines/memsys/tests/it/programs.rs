//! Random programs without races.

use memsys::Op;
use memsys::model::Listed;
use sim::Seed;

/// Bytes of a piece that has one owner at a time; lines and pages do not divide it.
const PIECE: u64 = 96;

/// Threads that read and write pieces which change hands whenever they meet.
pub(crate) fn without_races(
    seed: u64,
    threads: u32,
    footprint: u64,
    phases: u64,
    length: u64,
) -> Listed {
    let pieces = footprint / PIECE;
    let own = |piece: u64, phase: u64| {
        let hash = (piece * 31 + phase).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        hash % (u64::from(threads) + 1)
    };
    let thread = |number: u32| {
        let mut rng = Seed(seed).child(u64::from(number)).stream("program");
        let mut ops = Vec::new();
        for phase in 0..phases {
            // A few pieces are used much, so that stores and loads come close together.
            let hot: Vec<u64> = (0..4).map(|_| rng.below(pieces)).collect();
            for _ in 0..length {
                let piece = if rng.chance(1, 2) {
                    hot[rng.below(4) as usize]
                } else {
                    rng.below(pieces)
                };
                let owner = own(piece, phase);
                let mine = owner == u64::from(number);
                if !mine && owner != u64::from(threads) {
                    continue;
                }
                let size = 1 + rng.below(64);
                let at = piece * PIECE + rng.below(PIECE - size + 1);
                let (size, after) = (size as u8, rng.below(6) as u16);
                match rng.below(12) {
                    0 => ops.push(Op::Flush { at }),
                    1 => ops.push(Op::Fence),
                    2..6 => ops.push(Op::Compute(rng.below(60) as u32)),
                    6..9 if mine => ops.push(Op::Store { at, size, after }),
                    _ => ops.push(Op::Load { at, size, after }),
                }
            }
            ops.push(if phase == 1 { Op::Begin } else { Op::Meet });
            if phase == 1 {
                ops.push(Op::Meet);
            }
        }
        ops
    };
    Listed::new((0..threads).map(thread).collect(), footprint)
}
