//! Lines (superblocks) and their states.
//!
//! A line moves `Free → Open → Closed → Collecting → Erasing → Free`, or from `Erasing` to
//! `Retired`. [`Lines`] owns the transitions and the counters that follow from them. A closed line
//! becomes a candidate for collection once its last program has completed.

use crate::config::{DriveConfig, VictimPolicy};
use crate::layout::{Divisor, Layout, NONE};
use crate::map;
use crate::past::Past;
use crate::victims::{Keys, Pool, Victims};
use std::sync::Arc;

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
    /// Number of states of the life cycle.
    const COUNT: usize = Self::Retired as usize + 1;

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
    /// Index of the line in its group.
    place: u32,
    /// Whether the line was neither collected nor erased since the past of the drive.
    pub(crate) is_past: bool,
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
    /// Pool of that frontier, counted over all groups; [`NONE`] for the journal.
    pub(crate) pool: u32,
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

pub(crate) struct Lines {
    pub(crate) lines: Vec<Line>,
    /// Free lines of each group, in the order in which they became free.
    free: Vec<Vec<u32>>,
    /// One bit for each flash page: set while it has the newest issued version of a mapped page. In
    /// a line of the past, the bit is set while that differs from what the past says.
    valid: Vec<u64>,
    past: Option<Arc<Past>>,
    line_of: Divisor,
    line_pages: u32,
    lines_per_group: u32,
    /// For each group: its lines in each state.
    counts: Vec<[u32; LineState::COUNT]>,
    /// For each group: closed lines with programs under way.
    closing: Vec<u32>,
    /// Pool of each frontier, counted within a group; [`NONE`] for the journal.
    pools: Vec<u32>,
    pools_per_group: u32,
    victims: Victims,
}

impl Lines {
    /// Free lines without data. `pools` has the pool of each frontier within its group, of
    /// `pools_per_group`; see [`crate::demand::pools`].
    pub(crate) fn new(
        layout: &Layout,
        config: &DriveConfig,
        pools: Vec<u32>,
        pools_per_group: u32,
    ) -> Self {
        let pages = layout.lines() as usize * layout.line_pages as usize;
        let groups = layout.groups as usize;
        let line = |index| Line {
            place: index % layout.lines_per_group,
            ..Line::default()
        };
        let mut counts = [0; LineState::COUNT];
        counts[LineState::Free as usize] = layout.lines_per_group;
        Self {
            lines: (0..layout.lines()).map(line).collect(),
            free: vec![Vec::new(); groups],
            valid: vec![0; pages.div_ceil(64)],
            past: None,
            line_of: layout.line,
            line_pages: layout.line_pages,
            lines_per_group: layout.lines_per_group,
            counts: vec![counts; groups],
            closing: vec![0; groups],
            pools,
            pools_per_group,
            victims: Victims::new(
                (layout.groups, pools_per_group),
                (layout.lines_per_group, layout.line_data),
                config.collection.victim,
                config.wear.static_threshold > 0,
            ),
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
        let before = std::mem::replace(&mut entry.state, next);
        self.counts[group][before as usize] -= 1;
        self.counts[group][next as usize] += 1;
        if entry.in_flight > 0 {
            self.closing[group] += u32::from(next == LineState::Closed);
            self.closing[group] -= u32::from(before == LineState::Closed);
        }
        if entry.pool != NONE {
            let pool = self.victims.pool_mut(entry.pool);
            pool.lines += u32::from(before == LineState::Free);
            pool.lines -= u32::from(next == LineState::Free);
        }
        if before == LineState::Closed || next == LineState::Closed {
            self.index(line);
        }
        if matches!(next, LineState::Collecting | LineState::Erasing) {
            self.leave_past(line);
        }
        let entry = &mut self.lines[line as usize];
        if next == LineState::Free {
            entry.issued = 0;
            entry.erase_after = 0;
            entry.holes.clear();
            entry.dead_dies.clear();
            self.free[group].push(line);
        }
    }

    /// Sets the data of `line` as `past` left them.
    pub(crate) fn remember(&mut self, line: u32, past: &Arc<Past>) {
        let Some(turn) = past.turn(line) else { return };
        let entry = &mut self.lines[line as usize];
        entry.is_past = true;
        entry.valid = past.valid_pages(turn);
        (entry.opened, entry.closed) = past.sequences(turn);
        self.past.get_or_insert_with(|| Arc::clone(past));
    }

    /// Makes the bits of a line independent of the past: collection looks at each of them several
    /// times, and an erased line has no past.
    fn leave_past(&mut self, line: u32) {
        if !self.lines[line as usize].is_past {
            return;
        }
        let positions = self.past.iter().flat_map(|past| past.valid_positions(line));
        for position in positions {
            let page = line * self.line_pages + position;
            self.valid[page as usize / 64] ^= 1 << (page % 64);
        }
        self.lines[line as usize].is_past = false;
    }

    /// Opens a free line for `frontier` at sequence number `now`.
    pub(crate) fn open(&mut self, line: u32, frontier: u16, now: u64) {
        let pool = self.pool(line, frontier);
        let entry = &mut self.lines[line as usize];
        (entry.opened, entry.frontier, entry.pool) = (now, frontier, pool);
        self.transition(line, LineState::Open);
    }

    /// Counts a program of `line` as under way.
    #[inline]
    pub(crate) fn begin_program(&mut self, line: u32) {
        let entry = &mut self.lines[line as usize];
        entry.in_flight += 1;
        if entry.state == LineState::Closed && entry.in_flight == 1 {
            self.closing[(line / self.lines_per_group) as usize] += 1;
            self.index(line);
        }
    }

    /// Counts a program of `line` as completed.
    #[inline]
    pub(crate) fn end_program(&mut self, line: u32) {
        let entry = &mut self.lines[line as usize];
        entry.in_flight -= 1;
        if entry.state == LineState::Closed && entry.in_flight == 0 {
            self.closing[(line / self.lines_per_group) as usize] -= 1;
            self.index(line);
        }
    }

    /// Whether collection may choose `line`: it is closed, without programs under way, and not of
    /// the journal.
    pub(crate) fn is_candidate(&self, line: u32) -> bool {
        let entry = &self.lines[line as usize];
        entry.state == LineState::Closed && entry.in_flight == 0 && entry.pool != NONE
    }

    /// Updates the keys of `line`, which became a candidate or ceased to be one.
    fn index(&mut self, line: u32) {
        let is_candidate = self.is_candidate(line);
        let entry = &self.lines[line as usize];
        if entry.pool == NONE {
            return;
        }
        let keys = Keys {
            place: entry.place,
            valid: entry.valid,
            closed: entry.closed,
            is_candidate,
        };
        self.victims.update(entry.pool, keys);
        let erases = is_candidate.then_some(entry.erases);
        let group = line / self.lines_per_group;
        self.victims.update_wear(group, keys.place, erases);
    }

    /// Whether a closed line of `group` still has programs under way, and cannot be collected yet.
    pub(crate) fn is_closing(&self, group: u32) -> bool {
        self.closing[group as usize] > 0
    }

    /// Whether a line of `group` is being erased.
    pub(crate) fn is_erasing(&self, group: u32) -> bool {
        self.counts[group as usize][LineState::Erasing as usize] > 0
    }

    /// Lines of `group` that are being collected or erased.
    pub(crate) fn reclaiming(&self, group: u32) -> u32 {
        let counts = &self.counts[group as usize];
        counts[LineState::Collecting as usize] + counts[LineState::Erasing as usize]
    }

    /// The victim policy by which the index is ordered.
    pub(crate) fn victim_policy(&self) -> VictimPolicy {
        self.victims.policy()
    }

    /// Pool of a frontier, counted within a group; `None` for the journal.
    pub(crate) fn pool_of(&self, frontier: usize) -> Option<usize> {
        let pool = self.pools[frontier];
        (pool != NONE).then_some(pool as usize)
    }

    /// Pool of `line` with data of `frontier`, counted over all groups. A line without data that
    /// recovery found belongs to the first frontier, whatever its group.
    fn pool(&self, line: u32, frontier: u16) -> u32 {
        match self.pools[usize::from(frontier)] {
            NONE => NONE,
            pool => line / self.lines_per_group * self.pools_per_group + pool,
        }
    }

    /// The pools of `group`.
    pub(crate) fn pools(&self, group: u32) -> &[Pool] {
        self.victims.pools(group)
    }

    /// The line that the victim policy chooses in each pool of `group` after `now` programs.
    pub(crate) fn pool_victims(&self, group: u32, now: u64) -> impl Iterator<Item = Option<u32>> {
        let first = group * self.lines_per_group;
        let pools = self.victims.pools(group).iter();
        pools.map(move |pool| Some(first + self.victims.of_pool(pool, now)?))
    }

    /// The candidate of `group` with the fewest erases; `None` without static wear levelling.
    pub(crate) fn least_worn(&self, group: u32) -> Option<u32> {
        let first = group * self.lines_per_group;
        Some(first + self.victims.least_worn(group)?)
    }

    /// Sets the frontier and state of `line` as recovery finds them at power-on; the valid pages of
    /// the line and its erases are known by then.
    pub(crate) fn found(&mut self, line: u32, frontier: u16, state: LineState) {
        let group = (line / self.lines_per_group) as usize;
        let pool = self.pool(line, frontier);
        let entry = &mut self.lines[line as usize];
        (entry.frontier, entry.pool) = (frontier, pool);
        let before = std::mem::replace(&mut entry.state, state);
        self.counts[group][before as usize] -= 1;
        self.counts[group][state as usize] += 1;
        if entry.pool != NONE {
            let pool = self.victims.pool_mut(entry.pool);
            pool.valid += u64::from(entry.valid);
            pool.lines += u32::from(state != LineState::Free);
        }
        self.index(line);
        if state == LineState::Free {
            self.free[group].push(line);
        }
    }

    /// Makes a closed line an open one: recovery found room in it.
    pub(crate) fn reopen(&mut self, line: u32) {
        let group = (line / self.lines_per_group) as usize;
        self.lines[line as usize].state = LineState::Open;
        self.counts[group][LineState::Closed as usize] -= 1;
        self.counts[group][LineState::Open as usize] += 1;
        self.index(line);
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
        self.is_valid_in(self.line_of.split(page).0, page)
    }

    #[inline]
    pub(crate) fn is_valid_in(&self, line: u32, page: u32) -> bool {
        let bit = self.valid[page as usize / 64] >> (page % 64) & 1 == 1;
        bit != (self.lines[line as usize].is_past && self.was_valid(line, page))
    }

    /// Whether `page` was valid in the past.
    fn was_valid(&self, line: u32, page: u32) -> bool {
        let position = page - line * self.line_pages;
        let past = self.past.as_ref();
        past.is_some_and(|past| past.is_valid(line, position))
    }

    /// Prefetches the word with the bit of `page` into the processor's cache.
    #[inline]
    pub(crate) fn prefetch_valid(&self, page: u32) {
        sim::prefetch(&self.valid, page as usize / 64);
    }

    /// Marks `page` of `line` valid, which is open. The page must be invalid.
    #[inline]
    pub(crate) fn set_valid(&mut self, line: u32, page: u32) {
        self.find_valid(line, page);
        let pool = self.lines[line as usize].pool;
        if pool != NONE {
            self.victims.pool_mut(pool).valid += 1;
        }
    }

    /// Marks `page` of `line` valid, whose state recovery has yet to find.
    pub(crate) fn find_valid(&mut self, line: u32, page: u32) {
        debug_assert!(!self.is_valid_in(line, page));
        self.valid[page as usize / 64] ^= 1 << (page % 64);
        self.lines[line as usize].valid += 1;
    }

    /// Marks `page` of `line` invalid, which was valid in the past. The keys of the line are not
    /// updated: recovery has yet to find its state.
    pub(crate) fn find_invalid(&mut self, line: u32, page: u32) {
        debug_assert!(self.is_valid_in(line, page));
        self.valid[page as usize / 64] ^= 1 << (page % 64);
        self.lines[line as usize].valid -= 1;
    }

    /// Marks `page` invalid and returns the frontier that wrote it; `None` if it already was
    /// invalid.
    #[inline]
    pub(crate) fn clear_valid(&mut self, line: u32, page: u32) -> Option<u16> {
        if !self.is_valid_in(line, page) {
            return None;
        }
        self.valid[page as usize / 64] ^= 1 << (page % 64);
        let entry = &mut self.lines[line as usize];
        entry.valid -= 1;
        if entry.pool != NONE {
            self.victims.pool_mut(entry.pool).valid -= 1;
            if entry.state == LineState::Closed && entry.in_flight == 0 {
                self.lose_valid(line);
            }
        }
        Some(self.lines[line as usize].frontier)
    }

    /// Updates the keys of a candidate that lost a valid page.
    #[inline]
    fn lose_valid(&mut self, line: u32) {
        let entry = &self.lines[line as usize];
        let keys = Keys {
            place: entry.place,
            valid: entry.valid,
            closed: entry.closed,
            is_candidate: true,
        };
        self.victims.update(entry.pool, keys);
    }

    /// Free lines, counters and index of victims, for tests.
    #[cfg(test)]
    pub(crate) fn derived(&self) -> impl std::fmt::Debug {
        (&self.free, &self.counts, &self.closing, &self.victims)
    }

    /// Bytes of host memory that the bitmap and the table of lines take.
    pub(crate) fn memory(&self) -> usize {
        map::touched(&self.valid) + self.lines.len() * size_of::<Line>()
    }
}
