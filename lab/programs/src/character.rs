//! Memory use of a program, counted without a machine.
//!
//! Invariant: only the measured part counts: accesses after each thread's [`Op::Begin`]. The lines
//! used of a page are those that the measured part touches at all, however often a smaller memory
//! would evict the page.

use memsys::{Op, Program};
use std::collections::BTreeMap;

/// Bytes of a page and of a line.
const PAGE: u64 = 4096;
const LINE: u64 = 64;

/// Totals of a program's measured part.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Character {
    /// Bytes up to the highest address of the program.
    pub footprint_bytes: u64,
    /// Bytes of the pages that were touched.
    pub touched_bytes: u64,
    /// Number of loads.
    pub loads: u64,
    /// Number of stores.
    pub stores: u64,
    /// Number of instructions, including loads and stores.
    pub instructions: u64,
    /// Number of touched pages, by tenths of their lines touched: the first entry counts pages with
    /// up to one tenth, the last those above nine tenths.
    pub pages_by_lines_touched: [u64; 10],
    /// Number of pages stored to, by tenths of their lines stored to.
    pub pages_by_lines_stored: [u64; 10],
}

impl Character {
    /// Share of stores among all accesses, 0 to 1.
    #[must_use]
    pub fn write_share(&self) -> f64 {
        self.stores as f64 / (self.loads + self.stores).max(1) as f64
    }

    /// Share of touched pages with at most `tenths` tenths of their lines touched, 0 to 1.
    #[must_use]
    pub fn share_up_to(&self, tenths: usize) -> f64 {
        let all: u64 = self.pages_by_lines_touched.iter().sum();
        let few: u64 = self.pages_by_lines_touched[..tenths].iter().sum();
        few as f64 / all.max(1) as f64
    }
}

/// Runs `program` to its end and counts its measured part.
pub fn characterise(program: &mut dyn Program) -> Character {
    let threads = program.threads() as usize;
    let mut count = Count::default();
    let mut state = vec![State::default(); threads];
    let mut ops = Vec::new();
    while state.iter().any(|s| !s.ended) {
        for (thread, state) in state.iter_mut().enumerate() {
            if state.ended || state.waits {
                continue;
            }
            ops.clear();
            state.ended = !program.next(thread as u32, &mut ops);
            state.waits = ops.last() == Some(&Op::Meet);
            for op in &ops {
                state.measured |= *op == Op::Begin;
                if state.measured {
                    count.op(op);
                }
            }
        }
        if state.iter().all(|s| s.ended || s.waits) {
            state.iter_mut().for_each(|s| s.waits = false);
        }
    }
    count.character.footprint_bytes = program.footprint().0;
    count.finish()
}

#[derive(Clone, Default)]
struct State {
    ended: bool,
    waits: bool,
    measured: bool,
}

#[derive(Default)]
struct Count {
    character: Character,
    /// Bit sets of the lines touched and of the lines stored to, by page.
    lines: BTreeMap<u64, [u64; 2]>,
    /// Page touched last and its bit sets, kept apart since the next access often goes there.
    last: (u64, [u64; 2]),
}

impl Count {
    fn op(&mut self, op: &Op) {
        let (at, size, store) = match *op {
            Op::Compute(instructions) => {
                self.character.instructions += u64::from(instructions);
                return;
            }
            Op::Load { at, size, .. } => (at, size, false),
            Op::Store { at, size, .. } => (at, size, true),
            _ => return,
        };
        self.character.instructions += 1;
        match store {
            true => self.character.stores += 1,
            false => self.character.loads += 1,
        }
        let last = at + u64::from(size) - 1;
        for line in at / LINE..=last / LINE {
            self.line(line, store);
        }
    }

    fn line(&mut self, line: u64, store: bool) {
        let lines_of_page = PAGE / LINE;
        let page = line / lines_of_page;
        if page != self.last.0 {
            self.settle();
            self.last = (page, [0; 2]);
        }
        let bit = 1 << (line % lines_of_page);
        self.last.1[0] |= bit;
        self.last.1[1] |= if store { bit } else { 0 };
    }

    /// Merges the page touched last into `lines`.
    fn settle(&mut self) {
        let (page, lines) = self.last;
        if lines[0] != 0 {
            let all = self.lines.entry(page).or_default();
            all[0] |= lines[0];
            all[1] |= lines[1];
        }
    }

    fn finish(mut self) -> Character {
        self.settle();
        for lines in self.lines.values() {
            let tenth = |lines: u64| (lines.count_ones() as usize * 10).div_ceil(64) - 1;
            self.character.pages_by_lines_touched[tenth(lines[0])] += 1;
            if lines[1] != 0 {
                self.character.pages_by_lines_stored[tenth(lines[1])] += 1;
            }
        }
        self.character.touched_bytes = self.lines.len() as u64 * PAGE;
        self.character
    }
}
