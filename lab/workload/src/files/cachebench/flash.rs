//! What is to be done on flash, and who waits for it (Navy's `Driver` and its scheduler).
//!
//! Invariants: jobs of one item are done in the order in which they came; an item has pending
//! jobs from when the first is queued until the last has ended.

//= cachelib 3
use super::items::Size;
use super::large::Large;
use super::small::Small;
use std::collections::{BTreeMap, VecDeque};

/// What a job does with its item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Writes this version.
    Put(u32),
    Remove,
}

/// A job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) key: u32,
    pub(super) what: What,
    /// Bytes that it holds in memory.
    bytes: u64,
}

/// Both engines and what they are to do.
#[derive(Clone, Debug)]
pub(super) struct Flash {
    pub(super) small: Small,
    pub(super) large: Large,
    /// Most bytes of a key and its value that are small, with what is before a value.
    small_max: u64,
    for_small: VecDeque<Job>,
    for_large: VecDeque<Job>,
    /// Jobs of each item that has any.
    pending: BTreeMap<u32, u32>,
    /// Bytes that jobs hold, and the most of them.
    bytes: u64,
    most: u64,
}

impl Flash {
    pub(super) const fn new(small: Small, large: Large, small_max: u64, most: u64) -> Self {
        Self {
            small,
            large,
            small_max,
            for_small: VecDeque::new(),
            for_large: VecDeque::new(),
            pending: BTreeMap::new(),
            bytes: 0,
            most,
        }
    }

    pub(super) fn is_small(&self, size: Size) -> bool {
        size.on_flash() <= self.small_max
    }

    pub(super) fn is_pending(&self, key: u32) -> bool {
        self.pending.contains_key(&key)
    }

    /// Whether nothing is queued.
    pub(super) fn is_idle(&self) -> bool {
        self.for_small.is_empty() && self.for_large.is_empty()
    }

    /// Queues a job, unless it would write and too much waits to be written.
    pub(super) fn queue(&mut self, key: u32, size: Size, what: What) -> bool {
        let bytes = match what {
            What::Put(_) => size.on_flash(),
            What::Remove => 0,
        };
        if bytes > 0 && self.bytes + bytes > self.most {
            return false;
        }
        self.bytes += bytes;
        *self.pending.entry(key).or_insert(0) += 1;
        let job = Job { key, what, bytes };
        match self.is_small(size) {
            true => self.for_small.push_back(job),
            false => self.for_large.push_back(job),
        }
        true
    }

    /// A job has ended.
    pub(super) fn ended(&mut self, job: Job) {
        self.bytes -= job.bytes;
        if let Some(jobs) = self.pending.get_mut(&job.key) {
            *jobs -= 1;
            if *jobs == 0 {
                self.pending.remove(&job.key);
            }
        }
    }

    /// Does the jobs of large items that need no input or output of their own, until one has
    /// to wait for a region. Whether any was done.
    pub(super) fn append(&mut self, sizes: &[Size]) -> bool {
        let mut any = false;
        while let Some(&job) = self.for_large.front() {
            let bytes = sizes[job.key as usize].in_region();
            match job.what {
                What::Put(version) if !self.large.insert(job.key, version, bytes) => return any,
                What::Put(_) => {}
                What::Remove => self.large.remove(job.key),
            }
            self.for_large.pop_front();
            self.ended(job);
            any = true;
        }
        any
    }

    /// The first job of a small item whose bucket nobody has, with its bucket taken.
    pub(super) fn take_small(&mut self) -> Option<(Job, u32)> {
        let small = &self.small;
        let free = |job: &Job| small.is_free(small.bucket_of(job.key));
        let at = self.for_small.iter().position(free)?;
        let job = self.for_small.remove(at)?;
        let bucket = self.small.bucket_of(job.key);
        self.small.begin_write(bucket);
        Some((job, bucket))
    }
}
