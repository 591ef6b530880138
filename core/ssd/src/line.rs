//! Lines and their states.
//!
//! A line moves `Free → Open → Closed → Collecting → Erasing → Free`; [`Lines`]
//! owns the transitions and the counters that follow from them. A closed line
//! becomes a candidate for collection once its last program has completed.

use crate::layout::Layout;

/// State of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LineState {
    /// Erased.
    #[default]
    Free,
    /// Taking programs.
    Open,
    /// Full; its last programs may still be under way.
    Closed,
    /// Its valid pages are being moved.
    Collecting,
    /// Its blocks are being erased.
    Erasing,
    /// Out of service: a die has no spare blocks left for it.
    Retired,
}

impl LineState {
    /// The transitions that exist.
    fn may_become(self, next: Self) -> bool {
        use LineState::{Closed, Collecting, Erasing, Free, Open, Retired};
        matches!(
            (self, next),
            (Free, Open)
                | (Open, Closed)
                | (Closed, Collecting | Erasing)
                | (Collecting, Erasing)
                | (Erasing, Free | Retired)
        )
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    pub(crate) state: LineState,
    /// Valid pages.
    pub(crate) valid: u32,
    /// Units that were issued.
    pub(crate) issued: u32,
    /// Units left open by a power cut below `issued`, to be written first.
    pub(crate) holes: Vec<u32>,
    /// Programs under way.
    pub(crate) in_flight: u32,
    /// Reads under way.
    pub(crate) readers: u32,
    /// Frontier that wrote it.
    pub(crate) frontier: u16,
    /// Sequence number at which it was opened.
    pub(crate) opened: u64,
    /// Sequence number at which it was closed.
    pub(crate) closed: u64,
    /// Once nothing on it is valid: the first program that need not have completed
    /// when it is erased. Otherwise 0.
    pub(crate) erase_after: u64,
    /// Erases so far.
    pub(crate) erases: u32,
    /// Bit d is set if die d of the group takes no more programs in this line.
    pub(crate) dead_dies: Vec<u32>,
}

/// A line as reports and oracles see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineReport {
    /// Its state.
    pub state: LineState,
    /// Valid pages.
    pub valid: u32,
    /// Pages of data that it could hold.
    pub pages: u32,
    /// Programs issued since it was closed; 0 while it is not.
    pub age: u64,
    /// Erases so far.
    pub erases: u32,
    /// The placement handle that all its data were written through, as the host
    /// names it. None for a line without data, for data of the firmware, and for
    /// moved data of several handles.
    pub handle: Option<u32>,
    /// Whether it takes moved data only.
    pub moved: bool,
}

/// What policies see of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineView {
    /// Its number.
    pub line: u32,
    /// Valid pages.
    pub valid: u32,
    /// Pages that it could hold.
    pub pages: u32,
    /// Programs issued since it was closed.
    pub age: u64,
    /// Erases so far.
    pub erases: u32,
}

pub(crate) struct Lines {
    pub(crate) lines: Vec<Line>,
    /// Free lines of each group, oldest first.
    free: Vec<Vec<u32>>,
    /// One bit a page.
    valid: Vec<u64>,
    lines_per_group: u32,
}

impl Lines {
    pub(crate) fn new(layout: &Layout) -> Self {
        let pages = layout.lines() as usize * layout.line_pages as usize;
        Self {
            lines: vec![Line::default(); layout.lines() as usize],
            free: vec![Vec::new(); layout.groups as usize],
            valid: vec![0; pages.div_ceil(64)],
            lines_per_group: layout.lines_per_group,
        }
    }

    pub(crate) fn transition(&mut self, line: u32, next: LineState) {
        let group = (line / self.lines_per_group) as usize;
        let entry = &mut self.lines[line as usize];
        assert!(
            entry.state.may_become(next),
            "line {line} cannot go from {:?} to {next:?}",
            entry.state
        );
        entry.state = next;
        if next == LineState::Free {
            entry.issued = 0;
            entry.erase_after = 0;
            entry.holes.clear();
            entry.dead_dies.clear();
            self.free[group].push(line);
        }
    }

    /// Sets the state of a line found at power-on.
    pub(crate) fn found(&mut self, line: u32, state: LineState) {
        self.lines[line as usize].state = state;
        if state == LineState::Free {
            self.free[(line / self.lines_per_group) as usize].push(line);
        }
    }

    pub(crate) fn free_count(&self, group: u32) -> u32 {
        self.free[group as usize].len() as u32
    }

    /// Takes a free line: the one with the fewest erases, or the one that has
    /// been free the longest.
    pub(crate) fn take_free(&mut self, group: u32, least_worn: bool) -> Option<u32> {
        let free = &mut self.free[group as usize];
        if free.is_empty() {
            return None;
        }
        let index = if least_worn {
            let worn = |&line: &u32| self.lines[line as usize].erases;
            (0..free.len()).min_by_key(|&i| worn(&free[i]))?
        } else {
            0
        };
        Some(free.remove(index))
    }

    #[inline]
    pub(crate) fn is_valid(&self, page: u32) -> bool {
        self.valid[page as usize / 64] >> (page % 64) & 1 == 1
    }

    /// Asks the processor for the bit of a page that will be cleared soon.
    #[inline]
    pub(crate) fn prefetch_valid(&self, page: u32) {
        sim::prefetch(&self.valid, page as usize / 64);
    }

    /// Marks a page valid.
    #[inline]
    pub(crate) fn set_valid(&mut self, line: u32, page: u32) {
        let word = &mut self.valid[page as usize / 64];
        debug_assert!(*word >> (page % 64) & 1 == 0);
        *word |= 1 << (page % 64);
        self.lines[line as usize].valid += 1;
    }

    /// Marks a page invalid and gives the frontier that wrote it; none if it already is.
    #[inline]
    pub(crate) fn clear_valid(&mut self, line: u32, page: u32) -> Option<u16> {
        let word = &mut self.valid[page as usize / 64];
        let bit = 1 << (page % 64);
        if *word & bit == 0 {
            return None;
        }
        *word &= !bit;
        let line = &mut self.lines[line as usize];
        line.valid -= 1;
        Some(line.frontier)
    }

    /// Bytes of host memory.
    pub(crate) fn memory(&self) -> usize {
        self.valid.len() * 8 + self.lines.len() * size_of::<Line>()
    }
}
