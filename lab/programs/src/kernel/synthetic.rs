//! Accesses made to numbers: footprint, share of writes, misses per thousand
//! instructions, lines used of a page.
//!
//! A visit takes a page, evenly or by Zipf's law, and touches those lines of it that the
//! page's number gives, each once. All of a visit's lines lie far from what was touched
//! lately, so that each is a miss of caches much smaller than the footprint; so the
//! instructions between two accesses are what the misses per thousand leave. The share
//! of writes is that of all accesses. Addresses of visits do not depend on loads.
//!
//! Visits are dealt to the threads in turns of 16; the first quarter is made once more
//! before measuring begins.

use crate::mem::{Mem, PAGE, Space};
use crate::threads::Threads;
use sim::{Rng, Seed, Theta, Zipf, mix};
use std::rc::Rc;

/// Lines of a page.
const LINES: u64 = 64;
/// Visits of one turn.
const TURN: u64 = 16;

/// Parameters of the synthetic workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// Pages that are visited.
    pub pages: u64,
    /// Accesses of a million that write.
    pub writes_ppm: u64,
    /// Misses of the last cache for a million instructions; above 0.
    pub misses_ppm: u64,
    /// Lines used of a page, 1 to 64.
    pub lines: u64,
    /// How uneven the pages are visited; evenly without.
    pub theta: Option<Theta>,
    /// Visits in all.
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
    /// Accesses of these numbers.
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

    /// The program of so many threads.
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
        // An odd step visits each line once; the page's number gives it and the start.
        let hash = mix(page ^ 0x9e37_79b9_7f4a_7c15);
        let (start, step) = (hash, hash >> 32 | 1);
        for nth in 0..numbers.lines {
            let line = start.wrapping_add(step.wrapping_mul(nth)) % LINES;
            let at = self.base + page * PAGE + line * 64;
            let between = 1_000_000 + rng.below(numbers.misses_ppm);
            // Rounded by chance, so that the mean is what was asked for.
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
