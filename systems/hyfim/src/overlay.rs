//! Redirections of reads: versions staged at spare sectors, and nodes whose changes are in the
//! journal and not yet on flash.
//!
//! Invariants: a spare sector is free, or has one staged version, or was given up and becomes free
//! with the next publication. A node stays here until its contents are on flash under its own
//! address.

use host::Who;
use nand::Payload;
use std::collections::BTreeMap;

/// A node whose newest changes are in the journal only.
pub(crate) struct Pending {
    /// Position of the record with the newest changes of the node.
    pub(crate) position: u64,
    pub(crate) contents: Vec<Payload>,
    pub(crate) who: Who,
}

/// Source of a read of one sector.
pub(crate) enum Place {
    /// The sector's own address.
    Own,
    /// The spare sector that has the newest staged version.
    Spare(u32),
    /// Contents of a node held in memory.
    Here(Payload),
}

#[derive(Default)]
pub(crate) struct Overlay {
    /// Free spare sectors; the last one is taken first.
    free: Vec<u32>,
    /// Spare sectors of batches that were given up; free after the next publication.
    left: Vec<u32>,
    /// Number of the next staged batch.
    next: u64,
    /// Staged batches by number: pairs of sector and spare sector.
    staged: BTreeMap<u64, Vec<(u32, u32)>>,
    /// Staged versions by sector, newest last: batch and spare sector.
    versions: BTreeMap<u32, Vec<(u64, u32)>>,
    /// Held nodes, by first sector.
    nodes: BTreeMap<u32, Pending>,
}

/// The exchange of one publication.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Swap {
    /// Sectors with the spare sectors of their newest versions.
    pub(crate) pairs: Vec<(u32, u32)>,
    /// All spare sectors that become free by the exchange.
    pub(crate) spares: Vec<u32>,
    /// Number of leading `spares` that had been given up before.
    left: usize,
}

impl Overlay {
    /// An overlay with all of `spares` free; the first one is taken first.
    pub(crate) fn new(spares: std::ops::Range<u32>) -> Self {
        Self {
            free: spares.rev().collect(),
            ..Self::default()
        }
    }

    /// Free spare sectors, in reverse order of use.
    pub(crate) fn free(&self) -> &[u32] {
        &self.free
    }

    /// Takes `count` spare sectors; `None` if fewer are free.
    pub(crate) fn take(&mut self, count: usize) -> Option<Vec<u32>> {
        let kept = self.free.len().checked_sub(count)?;
        Some(self.free.split_off(kept))
    }

    pub(crate) fn give(&mut self, spares: Vec<u32>) {
        self.free.extend(spares);
    }

    /// Redirects reads of the sectors from `first` on to `spares`; returns the number of the batch.
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

    /// Drops a staged batch; its spare sectors become free with the next publication.
    pub(crate) fn unstage(&mut self, number: u64) {
        let pairs = self.forget(number);
        self.left.extend(pairs.iter().map(|(_, spare)| spare));
    }

    /// The exchange that publishes `batches`, with all spare sectors that are free afterwards.
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

    /// Ends the redirection of `batches`: their sectors are read under their own addresses.
    pub(crate) fn end(&mut self, batches: &[u64]) {
        for &number in batches {
            self.forget(number);
        }
    }

    /// Frees the spare sectors of a completed exchange.
    pub(crate) fn release(&mut self, swap: Swap) {
        // Sectors given up since were appended behind these.
        self.left.drain(..swap.left);
        self.give(swap.spares);
    }

    /// Redirects reads of a node to memory; replaces an older version.
    pub(crate) fn hold(&mut self, first: u32, node: Pending) {
        self.nodes.insert(first, node);
    }

    /// Held nodes with their first sectors.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (u32, &Pending)> {
        self.nodes.iter().map(|(&first, node)| (first, node))
    }

    /// Drops the nodes whose newest changes are in the record at `position` or before: they are on
    /// flash.
    pub(crate) fn settle(&mut self, position: u64) {
        self.nodes.retain(|_, node| node.position > position);
    }

    /// Contents of `sector` in a held node.
    fn node_at(&self, sector: u32) -> Option<&Payload> {
        let (first, node) = self.nodes.range(..=sector).next_back()?;
        node.contents.get((sector - first) as usize)
    }

    /// Whether a held node has any sector of `first..end`.
    pub(crate) fn has_node(&self, first: u32, end: u32) -> bool {
        let mut within = self.nodes.range(first..end);
        first < end && (self.node_at(first).is_some() || within.next().is_some())
    }

    /// Source of a read of `sector`: newest staged version, held node, or its own address.
    pub(crate) fn place(&self, sector: u32) -> Place {
        let newest = self.versions.get(&sector).and_then(|all| all.last());
        match (newest, self.node_at(sector)) {
            (Some(&(_, spare)), _) => Place::Spare(spare),
            (None, Some(payload)) => Place::Here(payload.clone()),
            (None, None) => Place::Own,
        }
    }

    /// Whether every sector of `first..end` is read under its own address.
    pub(crate) fn is_plain(&self, first: u32, end: u32) -> bool {
        self.versions.range(first..end).next().is_none() && !self.has_node(first, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_version_is_published_alone_while_the_newest_is_read() {
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
        // The next publication frees the spare sector.
        let swap = overlay.swap_of(&[]);
        assert_eq!(swap.spares, [newest]);
        overlay.release(swap);
        assert_eq!(overlay.free().len(), 4);
    }

    /// With the most spare sectors possible: a quadratic release would take hours.
    #[test]
    fn release_of_many_spares_is_linear() {
        let mut overlay = Overlay::new(0..1 << 20);
        let all = overlay.take(1 << 20).unwrap();
        let number = overlay.stage(1 << 21, all);
        overlay.unstage(number);
        let swap = overlay.swap_of(&[]);
        overlay.release(swap);
        assert_eq!((overlay.free().len(), overlay.left.len()), (1 << 20, 0));
    }

    /// A batch given up during a publication is freed by the next one.
    #[test]
    fn batch_given_up_during_a_publication_waits_for_the_next() {
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
    fn publication_of_two_versions_frees_both_spares() {
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
    fn held_node_covers_exactly_its_sectors() {
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
