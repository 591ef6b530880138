//! Large items in regions of a file that are filled in order (`BlockCache` of Navy).
//!
//! A region is filled in a memory buffer, then written as a whole and tracked. A few regions are
//! kept clean: each region that is taken queues the reclaim of another, which reads it and evicts
//! its items.
//!
//! Invariants: a region is in one state; the index only has entries of regions that hold them;
//! clean regions and pending reclaims together are at most one more than the clean regions to keep.

//= cachelib 3
use std::collections::{BTreeMap, VecDeque};

/// Number of memory buffers if `clean` regions are kept clean: twice as many (`setCleanRegions` of
/// `BlockCacheConfig`).
pub(super) const fn buffers(clean: u64) -> u64 {
    clean.saturating_mul(2)
}

/// Upper bound on the regions, as each takes memory even while empty; our own choice. The longest
/// flash has half as many regions of 2 MiB.
pub(super) const REGIONS_MAX: u64 = 1 << 20;

/// Position of an item on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) region: u32,
    /// Offset from the beginning of the region.
    pub(super) at: u64,
    pub(super) bytes: u64,
    pub(super) version: u32,
}

/// Work for the cleaner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    Flush(u32),
    /// Reclaim the region at the front of the reuse order.
    Reclaim,
}

#[derive(Clone, Debug, Default)]
struct Region {
    /// Bytes used, and keys of the items put in, in order.
    used: u64,
    items: Vec<u32>,
    /// Whether a memory buffer holds the region's contents.
    buffered: bool,
    readers: u32,
}

/// State of all regions, and the index of their items.
#[derive(Clone, Debug)]
pub(super) struct Large {
    index: BTreeMap<u32, Place>,
    regions: Vec<Region>,
    /// Bytes of one region.
    pub(super) region: u64,
    lru: bool,
    /// Regions that can be reclaimed, the next victim at the front.
    order: VecDeque<u32>,
    clean: Vec<u32>,
    clean_min: usize,
    /// Reclaims queued and not ended.
    reclaims: usize,
    /// Free memory buffers.
    buffers: u64,
    /// Region that items are appended to.
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

    /// Whether reads of `region` are served from its memory buffer.
    pub(super) fn is_buffered(&self, region: u32) -> bool {
        self.regions[region as usize].buffered
    }

    /// Counts a reader of `region`, which keeps the region from reuse.
    pub(super) fn begin_read(&mut self, region: u32) {
        self.regions[region as usize].readers += 1;
    }

    pub(super) fn end_read(&mut self, region: u32) {
        self.regions[region as usize].readers -= 1;
    }

    /// Moves `region` to the back of the reuse order after a hit, if the policy is least recently
    /// used.
    pub(super) fn touch(&mut self, region: u32) {
        let at = self.order.iter().position(|one| *one == region);
        if let Some(at) = at.filter(|_| self.lru) {
            self.order.remove(at);
            self.order.push_back(region);
        }
    }

    /// Appends an item to the active region, or to a clean one if the active region is full.
    /// Returns `false` if no clean region with a free buffer exists; the caller retries after the
    /// tasks of [`Large::task`].
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

    /// Takes a clean region and a free buffer, if both exist; queues reclaims so that enough
    /// regions become clean.
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

    /// Takes the next task, in the order of queueing.
    pub(super) fn task(&mut self) -> Option<Task> {
        self.tasks.pop_front()
    }

    pub(super) fn has_tasks(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// Marks `region` as written: its buffer is free, and it can be reclaimed.
    pub(super) fn flushed(&mut self, region: u32) {
        self.regions[region as usize].buffered = false;
        self.buffers += 1;
        self.order.push_back(region);
    }

    /// Takes the region to reclaim off the reuse order, with the bytes in use in it.
    pub(super) fn victim(&mut self) -> Option<(u32, u64)> {
        let region = self.order.pop_front()?;
        Some((region, self.regions[region as usize].used))
    }

    /// Removes the items of `region` from the index and returns their keys.
    pub(super) fn evict(&mut self, region: u32) -> Vec<u32> {
        let mut items = std::mem::take(&mut self.regions[region as usize].items);
        let index = &mut self.index;
        // An item that was set again lies elsewhere, or further behind in the same region.
        items.retain(|key| index.get(key).is_some_and(|entry| entry.region == region));
        items.sort_unstable();
        items.dedup();
        items.iter().for_each(|key| {
            index.remove(key);
        });
        items
    }

    /// Makes an evicted region clean; returns `false` while it has readers.
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

    /// Does all tasks; returns the regions that were written.
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

    /// Inserts items of 1 KiB; returns the regions that were written.
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
    fn full_regions_are_written_in_order_and_reused_by_age() {
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
    fn region_read_last_is_reused_last_under_lru() {
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
    fn insert_without_clean_region_or_buffer_is_refused() {
        let mut large = Large::new(5, 1_024, 1, false);
        assert!(!large.insert(0, 0, 1_024), "none is clean at first");
        work(&mut large);
        assert!(large.insert(0, 0, 1_024));
        assert!(!large.insert(1, 0, 1_024), "the next one is not clean");
        work(&mut large);
        assert!(large.insert(1, 0, 1_024));
    }

    #[test]
    fn region_with_a_reader_is_not_reused() {
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
