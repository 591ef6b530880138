//! Synthetic accesses with a given footprint, share of writes, number of misses per thousand
//! instructions and number of lines used in each page.
//!
//! A visit draws a page, uniformly or by Zipf's law, and touches some lines of it once each. The
//! page number determines which lines. Recently touched lines are unlikely to be touched again, so
//! every access misses caches much smaller than the footprint. The number of instructions between
//! two accesses therefore follows from the misses per thousand instructions. The share of writes
//! applies to all accesses. Addresses do not depend on loads.
//!
//! Visits are assigned to the threads in turns of 16. Before measurement, the first quarter of the
//! visits is executed once as warm-up.

use crate::mem::{Mem, PAGE, Space};
use crate::threads::Threads;
use sim::{Rng, Seed, Theta, Zipf, mix};
use std::rc::Rc;

/// Lines in a page.
const LINES: u64 = 64;
/// Visits in one turn.
const TURN: u64 = 16;

/// Parameters of the synthetic workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// Number of pages that are visited.
    pub pages: u64,
    /// Writes per million accesses.
    pub writes_ppm: u64,
    /// Misses of the last-level cache per million instructions; above 0.
    pub misses_ppm: u64,
    /// Lines used in each page, 1 to 64.
    pub lines: u64,
    /// Exponent of Zipf's law for the pages; without it they are drawn uniformly.
    pub theta: Option<Theta>,
    /// Total number of visits, without warm-up.
    pub visits: u64,
}

/// State of the synthetic workload, shared by its threads.
pub struct Synthetic {
    numbers: Numbers,
    zipf: Option<Zipf>,
    base: u64,
    end: u64,
    seed: Seed,
}

impl Synthetic {
    /// A workload with the given numbers.
    #[must_use]
    pub fn new(numbers: Numbers, seed: Seed) -> Rc<Self> {
        let mut space = Space::new();
        let zipf = |theta| Zipf::new(numbers.pages, theta, &mut seed.stream("pages"));
        Rc::new(Self {
            zipf: numbers.theta.map(zipf),
            base: space.take(numbers.pages * PAGE),
            end: space.end(),
            numbers,
            seed,
        })
    }

    /// The program that runs with `threads` threads.
    #[must_use]
    pub fn program(self: &Rc<Self>, threads: u32) -> Threads {
        Threads::new(threads, self.end, |thread, mem| {
            run(Rc::clone(self), thread, threads, mem)
        })
    }

    fn visit(&self, rng: &mut Rng, mem: &mut Mem) {
        let numbers = &self.numbers;
        let page = match &self.zipf {
            Some(zipf) => zipf.draw(rng),
            None => rng.below(numbers.pages),
        };
        // An odd step reaches each line once. The hash of the page number gives the step and the
        // start.
        let hash = mix(page ^ 0x9e37_79b9_7f4a_7c15);
        let (start, step) = (hash, hash >> 32 | 1);
        for nth in 0..numbers.lines {
            let line = start.wrapping_add(step.wrapping_mul(nth)) % LINES;
            let at = self.base + page * PAGE + line * 64;
            let between = 1_000_000 + rng.below(numbers.misses_ppm);
            // Rounded up or down at random, so that the mean is as requested.
            mem.compute((between / numbers.misses_ppm) as u32 - 1);
            if rng.chance(numbers.writes_ppm, 1_000_000) {
                mem.store(at, 8);
            } else {
                mem.load(at, 8);
            }
        }
    }
}

async fn run(synthetic: Rc<Synthetic>, thread: u32, threads: u32, mut mem: Mem) {
    for (phase, visits) in [synthetic.numbers.visits / 4, synthetic.numbers.visits]
        .into_iter()
        .enumerate()
    {
        if phase == 1 {
            mem.begin().await;
        }
        let mut turn = u64::from(thread);
        while turn * TURN < visits {
            let mut rng = synthetic.seed.child(turn).stream("visits");
            for _ in 0..TURN.min(visits - turn * TURN) {
                synthetic.visit(&mut rng, &mut mem);
                mem.breathe().await;
            }
            turn += u64::from(threads);
        }
    }
    mem.end();
}
