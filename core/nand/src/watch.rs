//! Which blocks have changed, for who keeps a copy of the cells elsewhere.
//!
//! Invariant: the deltas taken from a watch, laid in their order over the cells
//! that it began with, give at each taking the cells as they are if what is under
//! way then had not begun. That is a state which a power cut may leave.

use crate::device::Nand;
use crate::geometry::{BlockId, Row};
use crate::media::{BlockDelta, Known, Media};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A sector of a block in one of its lives, from erase to erase: it is programmed once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spot {
    /// The block ([`Geometry::index`](crate::Geometry::index)).
    pub block: u32,
    /// How often the block had been erased.
    pub erases: u32,
    /// The sector, counted from the first of the block.
    pub sector: u32,
}

/// Notes what changes, from [`Nand::watch`] on until it is dropped.
pub struct Watch {
    inner: RefCell<Inner>,
}

struct Inner {
    /// By block: what was told of it.
    told: Vec<Known>,
    /// By block: whether it is in `changed`.
    marked: Vec<bool>,
    changed: Vec<usize>,
}

impl Watch {
    fn new(nand: &Nand, told: &Media) -> Self {
        let geometry = *told.geometry();
        let blocks = 0..geometry.blocks() as usize;
        let known = |index| told.known(geometry.block_at(index), u32::MAX);
        let differs = |index: &usize| !nand.media().shares(told, *index);
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

    /// Whether the deltas taken until now tell what was programmed at `spot`.
    ///
    /// # Panics
    /// If there is no such block.
    #[must_use]
    pub fn is_told(&self, nand: &Nand, spot: Spot) -> bool {
        let page = spot.sector / nand.geometry().sectors_per_page();
        self.inner.borrow().told[spot.block as usize].has(spot.erases, page)
    }

    /// What became of the blocks that have changed since the last call, by
    /// growing index. Contents that are `left_out`, since the caller knows them, are
    /// given as zeros.
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

/// All watches on one flash.
#[derive(Default)]
pub(crate) struct Watches(RefCell<Vec<Rc<Watch>>>);

impl Watches {
    fn add(&self, watch: &Rc<Watch>) {
        let mut watches = self.0.borrow_mut();
        watches.retain(|watch| Rc::strong_count(watch) > 1);
        watches.push(Rc::clone(watch));
    }

    /// Whether nobody watches.
    pub(crate) fn is_empty(&self) -> bool {
        let watches = self.0.borrow();
        watches.iter().all(|watch| Rc::strong_count(watch) == 1)
    }

    /// The blocks of `row` have changed.
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
    /// Begins to note what is different from `told`, which has the same shape.
    #[must_use]
    pub fn watch(&self, told: &Media) -> Rc<Watch> {
        let watch = Rc::new(Watch::new(self, told));
        self.watches().add(&watch);
        watch
    }

    /// The cells as if what is under way had not begun.
    #[must_use]
    pub fn settled(&self) -> Media {
        let mut media = self.media().clone();
        for (index, page) in self.first_under_way() {
            let id = media.geometry().block_at(index);
            media.unwrite(id, page);
        }
        media
    }

    /// By block: the first page whose program has not completed.
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
