//! Watches: records of changed blocks, for an incremental copy of the cells elsewhere.
//!
//! Invariant: the deltas taken from a watch, applied in order to the cells at its
//! start, give the cells at the time of each taking, without the operations then in
//! progress. A power cut may leave exactly that state.

use crate::device::Nand;
use crate::geometry::{BlockId, Row};
use crate::media::{BlockDelta, Known, Media};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A sector of a block between two erases: it is programmed at most once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spot {
    /// Index of the block ([`Geometry::index`](crate::Geometry::index)).
    pub block: u32,
    /// Number of erases of the block before the program.
    pub erases: u32,
    /// Number of the sector in the block.
    pub sector: u32,
}

/// A record of changed blocks, from [`Nand::watch`] until its drop.
pub struct Watch {
    inner: RefCell<Inner>,
}

struct Inner {
    /// By block: its progress as of the last delta taken.
    told: Vec<Known>,
    /// By block: whether `changed` contains it.
    marked: Vec<bool>,
    changed: Vec<usize>,
}

impl Watch {
    fn new(nand: &Nand, told: &Media) -> Self {
        let geometry = *told.geometry();
        let blocks = 0..geometry.blocks() as usize;
        let known = |index| told.known(geometry.block_at(index), u32::MAX);
        let differs = |&index: &usize| !nand.media().shares(told, geometry.block_at(index));
        let mut inner = Inner {
            told: blocks.clone().map(known).collect(),
            marked: vec![false; blocks.len()],
            changed: Vec::new(),
        };
        blocks.filter(differs).for_each(|index| inner.mark(index));
        Self {
            inner: RefCell::new(inner),
        }
    }

    /// Whether the deltas taken so far contain the program of `spot`.
    ///
    /// # Panics
    /// If the block of `spot` does not exist.
    #[must_use]
    pub fn is_told(&self, nand: &Nand, spot: Spot) -> bool {
        let page = spot.sector / nand.geometry().sectors_per_page();
        self.inner.borrow().told[spot.block as usize].has(spot.erases, page)
    }

    /// Takes the deltas of all blocks changed since the last call, by rising index. Sectors
    /// for which `left_out` is true, since the caller knows them, have zeros as contents.
    #[must_use]
    pub fn take(&self, nand: &Nand, left_out: impl Fn(Spot) -> bool) -> Vec<(BlockId, BlockDelta)> {
        let under_way = nand.first_under_way();
        let (media, mut inner) = (nand.media(), self.inner.borrow_mut());
        let mut changed = std::mem::take(&mut inner.changed);
        changed.sort_unstable();
        let mut deltas = Vec::new();
        for index in changed {
            inner.marked[index] = false;
            let id = media.geometry().block_at(index);
            let limit = under_way.get(&index).copied().unwrap_or(u32::MAX);
            let (before, now) = (inner.told[index], media.known(id, limit));
            if before != now {
                deltas.push((id, media.delta(id, before, now, &left_out)));
                inner.told[index] = now;
            }
        }
        deltas
    }
}

impl Inner {
    fn mark(&mut self, index: usize) {
        if !std::mem::replace(&mut self.marked[index], true) {
            self.changed.push(index);
        }
    }
}

/// All live watches on one flash.
#[derive(Default)]
pub(crate) struct Watches(RefCell<Vec<Rc<Watch>>>);

impl Watches {
    fn add(&self, watch: &Rc<Watch>) {
        let mut watches = self.0.borrow_mut();
        watches.retain(|watch| Rc::strong_count(watch) > 1);
        watches.push(Rc::clone(watch));
    }

    /// Whether no watch is live.
    pub(crate) fn is_empty(&self) -> bool {
        let watches = self.0.borrow();
        watches.iter().all(|watch| Rc::strong_count(watch) == 1)
    }

    /// Marks the blocks of `row` as changed in all watches.
    #[inline]
    pub(crate) fn mark(&self, nand: &Nand, row: Row) {
        for watch in &*self.0.borrow() {
            let mut inner = watch.inner.borrow_mut();
            let indices = row.blocks().map(|block| nand.geometry().index(block));
            indices.for_each(|index| inner.mark(index));
        }
    }
}

impl Nand {
    /// Starts a watch of the differences to `told`, which must have the same geometry.
    #[must_use]
    pub fn watch(&self, told: &Media) -> Rc<Watch> {
        let watch = Rc::new(Watch::new(self, told));
        self.watches().add(&watch);
        watch
    }

    /// A copy of the cells without the programs in progress.
    #[must_use]
    pub fn settled(&self) -> Media {
        let mut media = self.media().clone();
        for (index, page) in self.first_under_way() {
            let id = media.geometry().block_at(index);
            media.unwrite(id, page);
        }
        media
    }

    /// By block index: the first page of a program in progress.
    fn first_under_way(&self) -> BTreeMap<usize, u32> {
        let mut first = BTreeMap::new();
        for row in self.programs_under_way() {
            for block in row.blocks() {
                let page = first
                    .entry(self.geometry().index(block))
                    .or_insert(row.page);
                *page = row.page.min(*page);
            }
        }
        first
    }
}
