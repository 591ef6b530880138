//! The flash of a preconditioned drive as a function, so that a drive of any size starts at once.
//!
//! A past workload wrote lines in *turns*: in every group the first line, then in every group the
//! second, and so on. The line of rank r in a group has the good block of rank r in every plane of
//! the group. Sequence numbers start at 1 and are consecutive.
//!
//! Invariant: for every mapped page, [`Past::place`] is the place with the highest sequence number
//! whose spare word names the page. Recovery, which scans the words, finds the same map.

mod aged;
mod shuffle;

use crate::config::ConfigError;
use crate::layout::{Divisor, Layout, NONE};
use crate::recover::word;
use aged::Aged;
use nand::{BlockId, BlockState, PastBlock};
use sim::Seed;
use std::ops::Range;

/// The past workload of a drive that maps pages.
#[derive(Clone, Debug)]
pub(crate) struct Past {
    layout: Layout,
    /// Indices of the blocks that are bad from the factory, ascending.
    bad: Vec<u32>,
    /// Data of an aged drive; without them every page was written once, in order.
    aged: Option<Aged>,
    /// Written lines, over all groups.
    turns: u32,
    data: Divisor,
    groups: Divisor,
    ranks: Divisor,
}

impl Past {
    /// Every page of the host, written once, in order.
    pub(crate) fn full(layout: Layout, bad: Vec<u32>) -> Self {
        let turns = layout.host_pages.div_ceil(layout.line_data);
        Self::new(layout, bad, turns, None)
    }

    /// The steady state of random overwrites, in `lines` lines of each group.
    pub(crate) fn aged(layout: Layout, bad: Vec<u32>, lines: u32, seed: Seed) -> Self {
        let turns = lines * layout.groups;
        let aged = Aged::new(&layout, turns, seed);
        Self::new(layout, bad, turns, Some(aged))
    }

    fn new(layout: Layout, bad: Vec<u32>, turns: u32, aged: Option<Aged>) -> Self {
        Self {
            turns,
            aged,
            data: Divisor::new(layout.line_data),
            groups: Divisor::new(layout.groups),
            ranks: Divisor::new(layout.lines_per_group),
            layout,
            bad,
        }
    }

    /// The layout of the drive that the workload ran on.
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Turn of a line; `None` if it is not written.
    #[inline]
    pub(crate) fn turn(&self, line: u32) -> Option<u32> {
        let (group, rank) = self.ranks.split(line);
        let turn = rank * self.layout.groups + group;
        (turn < self.turns).then_some(turn)
    }

    #[inline]
    fn line(&self, turn: u32) -> u32 {
        let (rank, group) = self.groups.split(turn);
        group * self.layout.lines_per_group + rank
    }

    /// Data pages written in a line; they begin at its start.
    #[inline]
    fn data_pages(&self, turn: u32) -> u32 {
        if self.aged.is_some() {
            return self.layout.line_data;
        }
        let first = turn * self.layout.line_data;
        self.layout.line_data.min(self.layout.host_pages - first)
    }

    /// Programs of a line. A line full of data has its summary, too.
    fn programs(&self, turn: u32) -> u32 {
        match self.data_pages(turn) {
            pages if pages == self.layout.line_data => self.layout.units_per_line,
            pages => pages.div_ceil(self.layout.unit),
        }
    }

    /// Sequence number of the first program of a line, and of the first one after its last.
    pub(crate) fn sequences(&self, turn: u32) -> (u64, u64) {
        let first = 1 + u64::from(turn) * u64::from(self.layout.units_per_line);
        (first, first + u64::from(self.programs(turn)))
    }

    /// Sequence number of the first program after the past.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.sequences(self.turns - 1).1
    }

    /// Frontier that wrote a line: that of the first handle of its group.
    pub(crate) fn frontier(&self, line: u32) -> u16 {
        (self.layout.group(line) * self.layout.handles) as u16
    }

    /// Place of the newest version of a mapped page; `None` if it has none.
    #[inline]
    pub(crate) fn place(&self, page: u32) -> Option<u32> {
        if page >= self.layout.host_pages {
            return None;
        }
        let (turn, position) = match &self.aged {
            None => self.data.split(page),
            Some(aged) => aged.find(page),
        };
        Some(self.line(turn) * self.layout.line_pages + position)
    }

    /// Valid pages of a line.
    pub(crate) fn valid_pages(&self, turn: u32) -> u32 {
        match &self.aged {
            None => self.data_pages(turn),
            Some(aged) => aged.valid_pages(turn),
        }
    }

    /// Whether the page at `position` of a line is the newest version of a mapped page.
    #[inline]
    pub(crate) fn is_valid(&self, line: u32, position: u32) -> bool {
        let turn = self.turn(line);
        turn.is_some_and(|turn| {
            let is_newest = |aged: &Aged| aged.is_valid(turn, position);
            position < self.data_pages(turn) && self.aged.as_ref().is_none_or(is_newest)
        })
    }

    /// Positions in a line with the newest version of a mapped page, in no order.
    pub(crate) fn valid_positions(&self, line: u32) -> impl Iterator<Item = u32> {
        let turn = self.turn(line);
        let numbers = 0..turn.map_or(0, |turn| self.valid_pages(turn));
        numbers.filter_map(move |number| match &self.aged {
            None => Some(number),
            Some(aged) => Some(aged.position(turn?, number)),
        })
    }

    /// The page that the data at `position` of a line are a version of.
    fn page_at(&self, turn: u32, position: u32) -> Option<u32> {
        match &self.aged {
            None => Some(turn * self.layout.line_data + position),
            Some(aged) => aged.page_at(turn, position),
        }
    }

    /// Pages whose newest version the past left in `line`.
    pub(crate) fn newest_in(&self, line: u32) -> impl Iterator<Item = u32> {
        let turn = self.turn(line);
        let data = turn.map_or(0, |turn| self.data_pages(turn));
        let valid = (0..data).filter(move |&position| self.is_valid(line, position));
        valid.filter_map(move |position| self.page_at(turn?, position))
    }

    /// The spare word at `position` of a line.
    fn word(&self, turn: u32, position: u32) -> u32 {
        let count = self.data_pages(turn);
        if position < count {
            let page = self.page_at(turn, position);
            page.map_or(word::PADDING, |page| word::word(&self.layout, page, 0))
        } else if count == self.layout.line_data {
            word::SUMMARY
        } else {
            word::PADDING
        }
    }

    /// Good blocks of a plane, ascending. A column is a plane of the drive, counted over all dies.
    fn good(&self, column: u32) -> impl Iterator<Item = u32> {
        let per_plane = self.layout.geometry.blocks_per_plane;
        let first = column * per_plane;
        let mut bad = &self.bad[self.bad.partition_point(|&bad| bad < first)..];
        (0..per_plane).filter(move |block| match bad.split_first() {
            Some((&next, rest)) if next == first + block => {
                bad = rest;
                false
            }
            _ => true,
        })
    }

    fn columns(&self) -> u32 {
        self.layout.geometry.dies() * self.layout.geometry.planes
    }

    /// Checks that the good blocks of each plane are enough for the written lines.
    ///
    /// # Errors
    /// [`ConfigError::BadBlocks`].
    pub(crate) fn check_blocks(&self) -> Result<(), ConfigError> {
        let per_plane = self.layout.geometry.blocks_per_plane;
        let bad = |column: u32| self.bad_in(column * per_plane..(column + 1) * per_plane);
        let good = per_plane - (0..self.columns()).map(bad).max().unwrap_or(0);
        let need = self.turns.div_ceil(self.layout.groups);
        if good >= need {
            return Ok(());
        }
        Err(ConfigError::BadBlocks { good, need })
    }

    /// Count of the bad blocks among those with the indices in `range`.
    fn bad_in(&self, range: Range<u32>) -> u32 {
        let below = |limit: u32| self.bad.partition_point(|&bad| bad < limit) as u32;
        below(range.end) - below(range.start)
    }

    /// Blocks of all lines as in [`crate::state::State::blocks`], and the spare blocks of each
    /// column, ascending.
    pub(crate) fn blocks(&self) -> (Vec<u32>, Vec<Vec<u32>>) {
        let layout = &self.layout;
        let in_group = (layout.dies_per_group * layout.geometry.planes) as usize;
        let mut columns: Vec<_> = (0..self.columns()).map(|c| self.good(c)).collect();
        let mut blocks = Vec::with_capacity(layout.lines() as usize * in_group);
        for group in columns.chunks_mut(in_group) {
            for _ in 0..layout.lines_per_group {
                blocks.extend(group.iter_mut().map(|column| column.next().unwrap_or(NONE)));
            }
        }
        let spares = columns.into_iter().map(Iterator::collect).collect();
        (blocks, spares)
    }

    /// Whether the past wrote `line` into this block.
    pub(crate) fn holds(&self, id: BlockId, line: u32) -> bool {
        let turn = self.turn_of_block(id).map(|(turn, _)| turn);
        turn.is_some() && turn == self.turn(line) && !self.is_bad(id)
    }

    /// Turn of the line that a block belongs to, and the die in the group; `None` if that line is
    /// not written.
    fn turn_of_block(&self, id: BlockId) -> Option<(u32, u32)> {
        let layout = &self.layout;
        let column = id.die * layout.geometry.planes + id.plane;
        let first = column * layout.geometry.blocks_per_plane;
        let rank = id.block - self.bad_in(first..first + id.block);
        let (group, die) = layout.group_of_die(id.die);
        let turn = rank * layout.groups + group;
        (turn < self.turns).then_some((turn, die))
    }

    fn is_bad(&self, id: BlockId) -> bool {
        let index = self.layout.geometry.index(id) as u32;
        self.bad.binary_search(&index).is_ok()
    }
}

const WRITTEN: &str = "the block is written";

impl nand::Past for Past {
    fn block(&self, id: BlockId) -> PastBlock {
        let mut block = PastBlock {
            state: BlockState::Erased,
            written: 0,
            label: 0,
        };
        if self.is_bad(id) {
            block.state = BlockState::Bad;
        } else if let Some((turn, die)) = self.turn_of_block(id) {
            let dies = self.layout.dies_per_group;
            let programs = (self.programs(turn) + dies - 1 - die) / dies;
            if programs > 0 {
                let line = self.line(turn);
                block.state = BlockState::Written;
                block.written = programs * self.layout.geometry.pages_per_program;
                block.label = word::label(line, self.frontier(line));
            }
        }
        block
    }

    fn stamp(&self, id: BlockId, program: u32) -> u64 {
        let (turn, die) = self.turn_of_block(id).expect(WRITTEN);
        let unit = program * self.layout.dies_per_group + die;
        self.sequences(turn).0 + u64::from(unit)
    }

    fn word(&self, id: BlockId, page: u32, sector: u32) -> u32 {
        let layout = &self.layout;
        let (turn, die) = self.turn_of_block(id).expect(WRITTEN);
        let step = layout.geometry.pages_per_program;
        let unit = page / step * layout.dies_per_group + die;
        let in_page = layout.geometry.sectors_per_page() / layout.sectors_per_page;
        let row = page % step * layout.geometry.planes + id.plane;
        let position = unit * layout.unit + row * in_page + sector / layout.sectors_per_page;
        self.word(turn, position)
    }
}
