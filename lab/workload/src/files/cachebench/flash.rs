//! Flash engines with their queues of jobs, and the pending jobs of each item (Navy's `Driver` and
//! its scheduler).
//!
//! Invariants: jobs of one item are done in the order in which they were queued; an item is pending
//! from the first queued job until the last one has ended.

//= cachelib 3
use super::items::Size;
use super::large::Large;
use super::small::Small;
use std::collections::{BTreeMap, VecDeque};

/// Change that a job makes to its item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Writes this version.
    Put(u32),
    Remove,
}

/// One change of an item on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) key: u32,
    pub(super) what: What,
    /// Bytes of memory that the job holds.
    bytes: u64,
}

/// Both engines and their queues of jobs.
#[derive(Clone, Debug)]
pub(super) struct Flash {
    pub(super) small: Small,
    pub(super) large: Large,
    /// Upper bound on the bytes of a small item: key, value and header of the value.
    small_max: u64,
    for_small: VecDeque<Job>,
    for_large: VecDeque<Job>,
    /// Number of pending jobs of each item that has any.
    pending: BTreeMap<u32, u32>,
    /// Bytes that queued jobs hold, and the limit on them.
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

    /// Whether both queues are empty.
    pub(super) fn is_idle(&self) -> bool {
        self.for_small.is_empty() && self.for_large.is_empty()
    }

    /// Queues a job. Returns `false`, and drops the job, if it is a put and the queued bytes would
    /// exceed the limit.
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

    /// Takes an ended job off the pending ones and releases its bytes.
    pub(super) fn ended(&mut self, job: Job) {
        self.bytes -= job.bytes;
        if let Some(jobs) = self.pending.get_mut(&job.key) {
            *jobs -= 1;
            if *jobs == 0 {
                self.pending.remove(&job.key);
            }
        }
    }

    /// Does the jobs of large items, which need no call of their own, until one has to wait for a
    /// region. Returns whether any job was done.
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

    /// Takes the first job of a small item whose bucket is free, and locks that bucket for writing.
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
