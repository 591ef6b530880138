//! Lines (superblocks) and their states.
//!
//! A line moves `Free → Open → Closed → Collecting → Erasing → Free`, or from `Erasing` to
//! `Retired`. [`Lines`] owns the transitions and the counters that follow from them. A closed line
//! becomes a candidate for collection once its last program has completed.

use crate::layout::Layout;

/// State of a line in its life cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LineState {
    /// Erased, and in the free list of its group.
    #[default]
    Free,
    /// A frontier appends programs to it.
    Open,
    /// Takes no more programs; its last programs may still be under way.
    Closed,
    /// Its valid pages are being relocated; the erase follows.
    Collecting,
    /// The blocks of the line are being erased.
    Erasing,
    /// Out of service: no spare block was left to replace a bad block of the line.
    Retired,
}

impl LineState {
    /// Whether the life cycle has a transition from `self` to `next`.
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
    /// Pages with the newest issued version of a mapped page.
    pub(crate) valid: u32,
    /// Units issued since the line's last erase.
    pub(crate) issued: u32,
    /// Units below `issued` that a power cut left unwritten; they are written first.
    pub(crate) holes: Vec<u32>,
    /// Programs of the line that have been issued and not completed.
    pub(crate) in_flight: u32,
    /// Reads of the line's flash pages that have not completed; they delay its erase.
    pub(crate) readers: u32,
    /// Index of the frontier that wrote the line.
    pub(crate) frontier: u16,
    /// Sequence number at which the line was opened.
    pub(crate) opened: u64,
    /// Sequence number at which the line was closed; 0 if it never was.
    pub(crate) closed: u64,
    /// Sequence number of the first program that need not have completed when the line is erased.
    /// Set once the line has no valid page; 0 until then.
    pub(crate) erase_after: u64,
    /// Erase cycles so far.
    pub(crate) erases: u32,
    /// Dies of the group, by index, whose program in this line failed: they take no more of them
    /// until the erase.
    pub(crate) dead_dies: Vec<u32>,
}

/// State of a line, for reports and test oracles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineReport {
    /// State of the line in its life cycle.
    pub state: LineState,
    /// Pages with the newest issued version of a mapped page.
    pub valid: u32,
    /// Data pages that the line can hold, summary excluded.
    pub pages: u32,
    /// Programs that the drive issued since the line was closed; 0 while it is not closed.
    pub age: u64,
    /// Erase cycles so far.
    pub erases: u32,
    /// Placement handle through which all its data were written, in the host's numbering. `None`
    /// for a line without data, with data of the firmware, or with relocated data of several
    /// handles.
    pub handle: Option<u32>,
    /// Whether the line's frontier takes only relocated data.
    pub moved: bool,
}

/// Facts about a line that a policy may decide by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineView {
    /// Index of the line.
    pub line: u32,
    /// Pages with the newest issued version of a mapped page.
    pub valid: u32,
    /// Data pages that the line can hold, summary excluded.
    pub pages: u32,
    /// Programs that the drive issued since the line was closed.
    pub age: u64,
    /// Erase cycles so far.
    pub erases: u32,
}

pub(crate) struct Lines {
    pub(crate) lines: Vec<Line>,
    /// Free lines of each group, in the order in which they became free.
    free: Vec<Vec<u32>>,
    /// One bit for each flash page: set while it has the newest issued version of a mapped page.
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

    /// Sets the state of `line` as recovery finds it at power-on.
    pub(crate) fn found(&mut self, line: u32, state: LineState) {
        self.lines[line as usize].state = state;
        if state == LineState::Free {
            self.free[(line / self.lines_per_group) as usize].push(line);
        }
    }

    pub(crate) fn free_count(&self, group: u32) -> u32 {
        self.free[group as usize].len() as u32
    }

    /// Takes a free line of `group`: the one with the fewest erases if `least_worn`, else the one
    /// that has been free the longest.
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

    /// Prefetches the word with the bit of `page` into the processor's cache.
    #[inline]
    pub(crate) fn prefetch_valid(&self, page: u32) {
        sim::prefetch(&self.valid, page as usize / 64);
    }

    /// Marks `page` of `line` valid. The page must be invalid.
    #[inline]
    pub(crate) fn set_valid(&mut self, line: u32, page: u32) {
        let word = &mut self.valid[page as usize / 64];
        debug_assert!(*word >> (page % 64) & 1 == 0);
        *word |= 1 << (page % 64);
        self.lines[line as usize].valid += 1;
    }

    /// Marks `page` invalid and returns the frontier that wrote it; `None` if it already was
    /// invalid.
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

    /// Bytes of host memory that the bitmap and the table of lines take.
    pub(crate) fn memory(&self) -> usize {
        self.valid.len() * 8 + self.lines.len() * size_of::<Line>()
    }
}
