//! What is read instead of what the table leads to: versions that are staged at spare
//! sectors, and nodes whose changes are in the journal and not on flash.
//!
//! Invariants: a spare sector is free, or of one version, or was given up and is freed by the
//! next publication. A node is here until what it holds is on flash under its own address.

use host::Who;
use nand::Payload;
use std::collections::BTreeMap;

/// A node whose newest changes are in the journal.
pub(crate) struct Pending {
    /// The record that has the newest of them.
    pub(crate) position: u64,
    pub(crate) contents: Vec<Payload>,
    pub(crate) who: Who,
}

/// Where a sector is read.
pub(crate) enum Place {
    /// Under its own address.
    Own,
    /// At a spare sector.
    Spare(u32),
    /// In memory.
    Here(Payload),
}

#[derive(Default)]
pub(crate) struct Overlay {
    /// Spare sectors that nobody has.
    free: Vec<u32>,
    /// Those of versions that were given up or overtaken.
    left: Vec<u32>,
    /// The number of the next staged batch.
    next: u64,
    /// Staged batches by number: sectors with the spare ones that have their versions.
    staged: BTreeMap<u64, Vec<(u32, u32)>>,
    /// Versions of sectors, the newest last: the batch and the spare sector.
    versions: BTreeMap<u32, Vec<(u64, u32)>>,
    /// Nodes, by their first sectors.
    nodes: BTreeMap<u32, Pending>,
}

/// What a publication takes into use.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Swap {
    /// Sectors, and the spare ones that have their newest versions.
    pub(crate) pairs: Vec<(u32, u32)>,
    /// All spare sectors that nobody has afterwards.
    pub(crate) spares: Vec<u32>,
    /// How many of them, the first, had been left before.
    left: usize,
}

impl Overlay {
    /// Nothing but free spare sectors, which are taken from the first one on.
    pub(crate) fn new(spares: std::ops::Range<u32>) -> Self {
        Self {
            free: spares.rev().collect(),
            ..Self::default()
        }
    }

    /// Spare sectors that nobody has.
    pub(crate) fn free(&self) -> &[u32] {
        &self.free
    }

    /// Takes so many spare sectors; none if there are fewer.
    pub(crate) fn take(&mut self, count: usize) -> Option<Vec<u32>> {
        let kept = self.free.len().checked_sub(count)?;
        Some(self.free.split_off(kept))
    }

    pub(crate) fn give(&mut self, spares: Vec<u32>) {
        self.free.extend(spares);
    }

    /// Has sectors from `first` on read at these spare ones; gives the number of the batch.
    pub(crate) fn stage(&mut self, first: u32, spares: Vec<u32>) -> u64 {
        let number = self.next;
        self.next += 1;
        let pairs: Vec<(u32, u32)> = (first..).zip(spares).collect();
        for &(sector, spare) in &pairs {
            let versions = self.versions.entry(sector).or_default();
            versions.push((number, spare));
        }
        self.staged.insert(number, pairs);
        number
    }

    fn forget(&mut self, number: u64) -> Vec<(u32, u32)> {
        let pairs = self.staged.remove(&number).unwrap_or_default();
        for (sector, _) in &pairs {
            let Some(versions) = self.versions.get_mut(sector) else {
                continue;
            };
            versions.retain(|&(of, _)| of != number);
            if versions.is_empty() {
                self.versions.remove(sector);
            }
        }
        pairs
    }

    /// Gives a batch up.
    pub(crate) fn unstage(&mut self, number: u64) {
        let pairs = self.forget(number);
        self.left.extend(pairs.iter().map(|(_, spare)| spare));
    }

    /// What these batches bring, and all spare sectors that are free once that is in use.
    pub(crate) fn swap_of(&self, batches: &[u64]) -> Swap {
        let mut newest: BTreeMap<u32, u32> = BTreeMap::new();
        let mut spares = self.left.clone();
        for (sector, spare) in batches.iter().filter_map(|n| self.staged.get(n)).flatten() {
            newest.insert(*sector, *spare);
            spares.push(*spare);
        }
        Swap {
            pairs: newest.into_iter().collect(),
            spares,
            left: self.left.len(),
        }
    }

    /// These batches are in use: what they had is read under its own address.
    pub(crate) fn end(&mut self, batches: &[u64]) {
        for &number in batches {
            self.forget(number);
        }
    }

    /// The spare sectors of a publication are nobody's any more.
    pub(crate) fn release(&mut self, swap: Swap) {
        // Those that were left since are behind them.
        self.left.drain(..swap.left);
        self.give(swap.spares);
    }

    /// A node is read here.
    pub(crate) fn hold(&mut self, first: u32, node: Pending) {
        self.nodes.insert(first, node);
    }

    /// Nodes that are read here.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (u32, &Pending)> {
        self.nodes.iter().map(|(&first, node)| (first, node))
    }

    /// What the record at `position` and those before it have changed is on flash.
    pub(crate) fn settle(&mut self, position: u64) {
        self.nodes.retain(|_, node| node.position > position);
    }

    /// The node that has a sector.
    fn node_at(&self, sector: u32) -> Option<&Payload> {
        let (first, node) = self.nodes.range(..=sector).next_back()?;
        node.contents.get((sector - first) as usize)
    }

    /// Whether a node that is read here has any sector from `first` up to `end`.
    pub(crate) fn has_node(&self, first: u32, end: u32) -> bool {
        let mut within = self.nodes.range(first..end);
        first < end && (self.node_at(first).is_some() || within.next().is_some())
    }

    /// Where a sector is read.
    pub(crate) fn place(&self, sector: u32) -> Place {
        let newest = self.versions.get(&sector).and_then(|all| all.last());
        match (newest, self.node_at(sector)) {
            (Some(&(_, spare)), _) => Place::Spare(spare),
            (None, Some(payload)) => Place::Here(payload.clone()),
            (None, None) => Place::Own,
        }
    }

    /// Whether every sector from `first` up to `end` is read under its own address.
    pub(crate) fn is_plain(&self, first: u32, end: u32) -> bool {
        self.versions.range(first..end).next().is_none() && !self.has_node(first, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_versions_the_newest_is_read_and_the_first_may_be_published_alone() {
        let mut overlay = Overlay::new(100..104);
        let first = overlay.take(2).map(|spares| overlay.stage(7, spares));
        let second = overlay.take(1).map(|spares| overlay.stage(8, spares));
        let (first, second) = (first.unwrap(), second.unwrap());
        assert!(matches!(overlay.place(7), Place::Spare(_)));
        let Place::Spare(newest) = overlay.place(8) else {
            panic!("it is staged")
        };
        assert_eq!(overlay.take(2), None);
        let swap = overlay.swap_of(&[first]);
        assert_eq!(swap.pairs.len(), 2);
        assert!(!swap.spares.contains(&newest));
        overlay.end(&[first]);
        overlay.release(swap);
        assert!(matches!(overlay.place(7), Place::Own));
        assert!(matches!(overlay.place(8), Place::Spare(at) if at == newest));
        overlay.unstage(second);
        assert!(overlay.is_plain(0, 99) && overlay.free().len() == 3);
        // It is free with the next publication.
        let swap = overlay.swap_of(&[]);
        assert_eq!(swap.spares, [newest]);
        overlay.release(swap);
        assert_eq!(overlay.free().len(), 4);
    }

    /// As many as there can be: to look each up among all others would take hours.
    #[test]
    fn many_spares_that_were_left_are_given_back() {
        let mut overlay = Overlay::new(0..1 << 20);
        let all = overlay.take(1 << 20).unwrap();
        let number = overlay.stage(1 << 21, all);
        overlay.unstage(number);
        let swap = overlay.swap_of(&[]);
        overlay.release(swap);
        assert_eq!((overlay.free().len(), overlay.left.len()), (1 << 20, 0));
    }

    /// What is given up while a publication is under way is free with the next one.
    #[test]
    fn what_is_left_during_a_publication_stays_left() {
        let mut overlay = Overlay::new(100..104);
        let numbers: Vec<u64> = (0..3)
            .map(|sector| {
                let spares = overlay.take(1).unwrap();
                overlay.stage(sector, spares)
            })
            .collect();
        overlay.unstage(numbers[0]);
        let swap = overlay.swap_of(&numbers[1..2]);
        overlay.unstage(numbers[2]);
        overlay.end(&numbers[1..2]);
        overlay.release(swap);
        assert_eq!((overlay.free().len(), overlay.left.len()), (3, 1));
        let swap = overlay.swap_of(&[]);
        overlay.release(swap);
        assert_eq!((overlay.free().len(), overlay.left.len()), (4, 0));
    }

    #[test]
    fn both_versions_of_one_publication_give_their_spares_back() {
        let mut overlay = Overlay::new(100..104);
        let numbers: Vec<u64> = (0..2)
            .map(|_| {
                let spares = overlay.take(1).unwrap();
                overlay.stage(3, spares)
            })
            .collect();
        let Place::Spare(newest) = overlay.place(3) else {
            panic!("it is staged")
        };
        let swap = overlay.swap_of(&numbers);
        assert_eq!(swap.pairs, [(3, newest)]);
        assert_eq!(swap.spares.len(), 2);
    }

    #[test]
    fn a_node_covers_its_sectors_and_no_others() {
        let mut overlay = Overlay::new(0..0);
        let node = Pending {
            position: 4,
            contents: vec![Payload::Fill(1); 4],
            who: Who::default(),
        };
        overlay.hold(20, node);
        assert!(overlay.has_node(0, 21) && overlay.has_node(23, 24));
        assert!(!overlay.has_node(24, 99) && !overlay.has_node(0, 20));
        assert!(overlay.is_plain(24, 99) && !overlay.is_plain(22, 23));
        overlay.settle(3);
        assert!(!overlay.is_plain(0, 99));
        overlay.settle(4);
        assert!(overlay.is_plain(0, 99));
    }
}
