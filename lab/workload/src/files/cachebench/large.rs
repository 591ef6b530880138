//! Large items in regions of a file that are filled in order (`BlockCache` of Navy).
//!
//! A region is filled in a buffer of memory, then written as a whole and tracked. A few are
//! kept clean: one is reclaimed, which reads it and forgets its items, for each that is taken.
//!
//! Invariants: a region is in one state; the index only has entries of regions that hold them;
//! regions that are clean or become so are at most one more than are kept clean.

//= cachelib 3
use std::collections::{BTreeMap, VecDeque};

/// Buffers in memory, for so many regions that are kept clean: twice as many
/// (`setCleanRegions` of `BlockCacheConfig`).
pub(super) const fn buffers(clean: u64) -> u64 {
    clean.saturating_mul(2)
}

/// Most regions, as all of them are kept in memory, filled or not; a choice of ours. The
/// longest flash has half as many of 2 MiB.
pub(super) const REGIONS_MAX: u64 = 1 << 20;

/// Where an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) region: u32,
    /// From the begin of the region.
    pub(super) at: u64,
    pub(super) bytes: u64,
    pub(super) version: u32,
}

/// What is to be done with a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    Flush(u32),
    /// The one that is the first to be reused.
    Reclaim,
}

#[derive(Clone, Debug, Default)]
struct Region {
    /// Bytes and items that are in it.
    used: u64,
    items: Vec<u32>,
    /// Whether a buffer has what is in it.
    buffered: bool,
    readers: u32,
}

/// All regions.
#[derive(Clone, Debug)]
pub(super) struct Large {
    index: BTreeMap<u32, Place>,
    regions: Vec<Region>,
    /// Bytes of a region.
    pub(super) region: u64,
    lru: bool,
    /// Regions that can be reclaimed, the next one first.
    order: VecDeque<u32>,
    clean: Vec<u32>,
    clean_min: usize,
    /// Reclaims that were asked for and have not ended.
    reclaims: usize,
    /// Buffers that are free.
    buffers: u64,
    /// The region that is filled.
    active: Option<u32>,
    tasks: VecDeque<Task>,
}

impl Large {
    pub(super) fn new(regions: u64, region: u64, clean: u64, lru: bool) -> Self {
        Self {
            index: BTreeMap::new(),
            regions: vec![Region::default(); regions as usize],
            region,
            lru,
            order: (0..regions as u32).collect(),
            clean: Vec::new(),
            clean_min: clean as usize,
            reclaims: 0,
            buffers: buffers(clean),
            active: None,
            tasks: VecDeque::new(),
        }
    }

    pub(super) fn find(&self, key: u32) -> Option<Place> {
        self.index.get(&key).copied()
    }

    pub(super) fn remove(&mut self, key: u32) {
        self.index.remove(&key);
    }

    /// Whether a region is read from memory.
    pub(super) fn is_buffered(&self, region: u32) -> bool {
        self.regions[region as usize].buffered
    }

    /// Begins to read a region from its file.
    pub(super) fn begin_read(&mut self, region: u32) {
        self.regions[region as usize].readers += 1;
    }

    pub(super) fn end_read(&mut self, region: u32) {
        self.regions[region as usize].readers -= 1;
    }

    /// An item of it was found: with the policy of the least recent use, it is the last one to
    /// be reused.
    pub(super) fn touch(&mut self, region: u32) {
        let at = self.order.iter().position(|one| *one == region);
        if let Some(at) = at.filter(|_| self.lru) {
            self.order.remove(at);
            self.order.push_back(region);
        }
    }

    /// Appends an item to the region that is filled, if it or another one has room; else it has
    /// to wait for what [`Large::task`] gives.
    pub(super) fn insert(&mut self, key: u32, version: u32, bytes: u64) -> bool {
        let full = |region: &u32| self.regions[*region as usize].used + bytes > self.region;
        if let Some(region) = self.active.take_if(|region| full(region)) {
            self.tasks.push_back(Task::Flush(region));
        }
        if self.active.is_none() {
            self.active = self.take_clean();
        }
        let Some(number) = self.active else {
            return false;
        };
        let region = &mut self.regions[number as usize];
        let entry = Place {
            region: number,
            at: region.used,
            bytes,
            version,
        };
        region.used += bytes;
        region.items.push(key);
        self.index.insert(key, entry);
        true
    }

    /// A clean region with a buffer, if both are there; sees to it that others become clean.
    fn take_clean(&mut self) -> Option<u32> {
        let region = self.clean.pop();
        while self.clean.len() + self.reclaims < self.clean_min {
            self.reclaims += 1;
            self.tasks.push_back(Task::Reclaim);
        }
        let region = region?;
        if self.buffers == 0 {
            self.clean.push(region);
            return None;
        }
        self.buffers -= 1;
        self.regions[region as usize].buffered = true;
        Some(region)
    }

    /// What is to be done next, in the order in which it was asked for.
    pub(super) fn task(&mut self) -> Option<Task> {
        self.tasks.pop_front()
    }

    pub(super) fn has_tasks(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// A region is in its file, and its buffer is free.
    pub(super) fn flushed(&mut self, region: u32) {
        self.regions[region as usize].buffered = false;
        self.buffers += 1;
        self.order.push_back(region);
    }

    /// The region to reclaim, and its bytes that are in use.
    pub(super) fn victim(&mut self) -> Option<(u32, u64)> {
        let region = self.order.pop_front()?;
        Some((region, self.regions[region as usize].used))
    }

    /// Forgets the items of a region that was read for that, and gives them.
    pub(super) fn evict(&mut self, region: u32) -> Vec<u32> {
        let mut items = std::mem::take(&mut self.regions[region as usize].items);
        let index = &mut self.index;
        // One that was set again is elsewhere, or further behind in the same region.
        items.retain(|key| index.get(key).is_some_and(|entry| entry.region == region));
        items.sort_unstable();
        items.dedup();
        items.iter().for_each(|key| {
            index.remove(key);
        });
        items
    }

    /// Makes a region clean whose items are forgotten, unless somebody still reads it.
    pub(super) fn release(&mut self, region: u32) -> bool {
        if self.regions[region as usize].readers > 0 {
            return false;
        }
        self.regions[region as usize] = Region::default();
        self.reclaims -= 1;
        self.clean.push(region);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does all that is to be done; regions that were written.
    fn work(large: &mut Large) -> Vec<u32> {
        let mut flushed = Vec::new();
        while let Some(task) = large.task() {
            match task {
                Task::Flush(region) => {
                    flushed.push(region);
                    large.flushed(region);
                }
                Task::Reclaim => {
                    let (region, _) = large.victim().unwrap();
                    large.evict(region);
                    assert!(large.release(region));
                }
            }
        }
        flushed
    }

    /// Inserts items of 1 KiB; regions that were written.
    fn fill(large: &mut Large, keys: std::ops::Range<u32>) -> Vec<u32> {
        let mut flushed = Vec::new();
        for key in keys {
            while !large.insert(key, 0, 1_024) {
                flushed.extend(work(large));
            }
        }
        flushed
    }

    #[test]
    fn regions_are_written_in_their_order_and_reused_by_age() {
        let mut large = Large::new(5, 4_096, 1, false);
        let flushed = fill(&mut large, 0..48);
        assert_eq!(flushed[..10], [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]);
        assert_eq!(large.find(0), None);
        let there = (0..48).filter(|key| large.find(*key).is_some());
        let there: Vec<u32> = there.collect();
        assert!(
            there.len() <= 20 && there.ends_with(&[45, 46, 47]),
            "{there:?}"
        );
    }

    #[test]
    fn what_was_read_is_reused_last() {
        for (lru, kept) in [(true, true), (false, false)] {
            let mut large = Large::new(6, 4_096, 1, lru);
            fill(&mut large, 0..17);
            work(&mut large);
            large.touch(large.find(0).unwrap().region);
            fill(&mut large, 17..25);
            work(&mut large);
            assert_eq!(large.find(0).is_some(), kept);
        }
    }

    #[test]
    fn who_has_neither_region_nor_buffer_waits() {
        let mut large = Large::new(5, 1_024, 1, false);
        assert!(!large.insert(0, 0, 1_024), "none is clean at first");
        work(&mut large);
        assert!(large.insert(0, 0, 1_024));
        assert!(!large.insert(1, 0, 1_024), "the next one is not clean");
        work(&mut large);
        assert!(large.insert(1, 0, 1_024));
    }

    #[test]
    fn a_region_that_is_read_is_not_reused() {
        let mut large = Large::new(5, 1_024, 1, false);
        fill(&mut large, 0..5);
        large.begin_read(0);
        assert_eq!(large.task(), Some(Task::Reclaim));
        assert_eq!(large.victim(), Some((0, 1_024)));
        assert_eq!(large.evict(0), [0]);
        assert!(!large.release(0));
        assert!(
            !large.insert(5, 0, 1_024),
            "the only one to be clean is read"
        );
        large.end_read(0);
        assert!(large.release(0));
        assert!(large.insert(5, 0, 1_024));
        assert_eq!(large.find(5).unwrap().region, 0);
    }
}
