//! Threads of the cache: clients that get, set and delete, writers of small items, and one cleaner
//! that writes and reclaims regions.
//!
//! Invariants: an operation ends before its client begins the next one; a get waits for the pending
//! flash jobs of its item; sets and deletes work in memory and never wait for flash.

mod cleaner;

use super::flash::{Flash, Job, What};
use super::items::{Ranges, Size};
use super::large::{Large, Place};
use super::memory::Memory;
use super::small::{BUCKET, Small};
use super::{BLOCK, CacheBench};
use crate::files::source::Parking;
use crate::files::{Call, Errno, Fd, Names, Setup, Source, ThreadId, Turn};
use crate::generate::Zipf;
use sim::{Rng, Seed};
use std::collections::BTreeSet;
use units::Ns;

/// Processor time of an operation besides its calls: our own choice, of the order of an operation
/// in memory.
const THINK: Ns = Ns(2_000);
/// Files of large and of small items, by slot and path. The dissertation on Shimmer gives them
/// these extensions, and CacheLib rules match their beginnings.
//= dissertation 7.2
const LARGE: (Fd, &[u8]) = (Fd(0), b"cache/navy_loc.sst");
const SMALL: (Fd, &[u8]) = (Fd(1), b"cache/navy_soc.log");

/// An operation on an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Get(u32),
    Set(u32),
    Delete(u32),
}

/// Source that a get reads from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    Bucket(u32),
    Region(Place),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Idle,
    Begins(Op),
    /// Reads an item for a get: key, source and the version of the item when the get began.
    Reads(u32, From, u32),
    /// Reads a bucket for a job, to write it next.
    Fetches(Job, u32),
    Writes(Job, u32),
    /// Opens the files; this many of the calls have been made.
    Opens(usize),
    /// Writes a region, of which this many bytes are written or in flight.
    Flushes(u32, u64),
    /// Reads a region to evict its items.
    Cleans(u32),
    /// Waits for the readers of an evicted region.
    Releases(u32),
}

/// Result of a get, for tests.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) key: u32,
    /// Version found, if any; then the item's version when the get began and when it ended.
    pub(super) found: Option<u32>,
    pub(super) before: u32,
    pub(super) after: u32,
}

/// The cache, and the state of all its threads.
pub(super) struct Engine {
    bench: CacheBench,
    names: Names,
    setup: Setup,
    opening: Vec<Call>,
    ready: bool,
    sizes: Vec<Size>,
    /// Version of each item (sets and deletes so far), and whether the last change was a set.
    versions: Vec<(u32, bool)>,
    memory: Memory,
    pub(super) flash: Flash,
    zipf: Zipf,
    rngs: Vec<Rng>,
    phases: Vec<Phase>,
    begun: Vec<Option<Ns>>,
    parking: Parking,
    /// Clients that wait for a flash job, and idle writers.
    waiting: Vec<ThreadId>,
    idle: BTreeSet<ThreadId>,
    left: u64,
    /// Clients and writers that have ended.
    gone: u32,
    finished: Vec<(&'static str, Ns)>,
    failure: Option<String>,
    #[cfg(test)]
    pub(super) found: Vec<Found>,
}

impl Engine {
    pub(super) fn new(bench: &CacheBench, ranges: &(Ranges, Ranges), seed: Seed) -> Self {
        let mut rng = seed.stream("cachebench items");
        let regions = bench.large_bytes() / bench.region;
        let large = Large::new(regions, bench.region, bench.clean, bench.lru);
        let threads = bench.threads + bench.writers + 1;
        let client = |i| seed.child(u64::from(i)).stream("cachebench");
        let sizes = (0..bench.keys)
            .map(|_| Size::draw(ranges, &mut rng))
            .collect();
        let mut engine = Self {
            names: Names::default(),
            setup: Setup::default(),
            opening: Vec::new(),
            ready: false,
            sizes,
            versions: vec![(0, false); bench.keys as usize],
            memory: Memory::new(bench.memory),
            flash: Flash::new(
                Small::new(bench.buckets()),
                large,
                bench.small_max,
                bench.parcels,
            ),
            zipf: Zipf::new(bench.keys, bench.theta, &mut seed.stream("cachebench keys")),
            rngs: (0..bench.threads).map(client).collect(),
            phases: vec![Phase::default(); threads as usize],
            begun: vec![None; bench.threads as usize],
            parking: Parking::new(threads),
            waiting: Vec::new(),
            idle: BTreeSet::new(),
            left: bench.ops,
            gone: 0,
            finished: Vec::new(),
            failure: None,
            bench: bench.clone(),
            #[cfg(test)]
            found: Vec::new(),
        };
        engine.prepare();
        engine
    }

    fn draws(&mut self, client: usize) -> Op {
        let rng = &mut self.rngs[client];
        let percent = rng.below(100);
        let key = self.zipf.draw(rng) as u32;
        match percent {
            p if p < self.bench.gets => Op::Get(key),
            p if p < self.bench.gets + self.bench.sets => Op::Set(key),
            _ => Op::Delete(key),
        }
    }

    fn size(&self, key: u32) -> Size {
        self.sizes[key as usize]
    }

    fn client_turn(&mut self, thread: ThreadId, now: Ns) -> Turn {
        let client = thread.0 as usize;
        loop {
            match std::mem::take(&mut self.phases[client]) {
                Phase::Begins(Op::Get(key)) => {
                    if let Some(turn) = self.get(thread, key, now) {
                        return turn;
                    }
                }
                Phase::Begins(Op::Set(key)) => {
                    self.set(client, key);
                    self.end(client, "set", now);
                }
                Phase::Begins(Op::Delete(key)) => {
                    self.change(key, false);
                    self.end(client, "delete", now);
                }
                Phase::Reads(key, from, version) => self.was_read(client, key, from, version, now),
                _ => {
                    let over = self.bench.until.is_some_and(|until| now >= until);
                    if self.left == 0 || over {
                        return self.leave(thread);
                    }
                    self.left -= 1;
                    self.begun[client] = Some(now);
                    self.phases[client] = Phase::Begins(self.draws(client));
                    return Turn::Pause(THINK);
                }
            }
        }
    }

    fn end(&mut self, client: usize, kind: &'static str, now: Ns) {
        let begun = self.begun[client].take();
        self.finished
            .extend(begun.map(|begun| (kind, now.since(begun))));
    }

    /// Looks an item up in memory, then on flash once the item has no pending flash jobs. Returns
    /// the turn to take if the get must read or wait, `None` if it has ended.
    //= cachelib 1
    fn get(&mut self, thread: ThreadId, key: u32, now: Ns) -> Option<Turn> {
        let client = thread.0 as usize;
        let version = self.versions[key as usize].0;
        if self.memory.touch(key) {
            self.tell(key, Some(version), version);
            self.end(client, "get-memory", now);
            return None;
        }
        let again = Phase::Begins(Op::Get(key));
        if self.flash.is_pending(key) {
            return Some(self.wait(thread, again));
        }
        if self.flash.is_small(self.size(key)) {
            if !self.flash.small.could_exist(key) {
                self.missed(client, key, version, now);
                return None;
            }
            let bucket = self.flash.small.bucket_of(key);
            if !self.flash.small.try_read(bucket) {
                return Some(self.wait(thread, again));
            }
            self.phases[client] = Phase::Reads(key, From::Bucket(bucket), version);
            return Some(Turn::now(bucket_read(bucket)));
        }
        let Some(entry) = self.flash.large.find(key) else {
            self.missed(client, key, version, now);
            return None;
        };
        if self.flash.large.is_buffered(entry.region) {
            self.hit(client, key, entry.version, version, now);
            return None;
        }
        self.flash.large.begin_read(entry.region);
        self.phases[client] = Phase::Reads(key, From::Region(entry), version);
        Some(Turn::now(self.entry_read(entry)))
    }

    /// Reads the blocks that hold `entry`.
    fn entry_read(&self, entry: Place) -> Call {
        let begin = u64::from(entry.region) * self.bench.region + entry.at;
        let at = begin / BLOCK * BLOCK;
        let len = (begin + entry.bytes).next_multiple_of(BLOCK) - at;
        let fd = LARGE.0;
        Call::Pread { fd, at, len }
    }

    fn was_read(&mut self, client: usize, key: u32, from: From, version: u32, now: Ns) {
        let found = match from {
            From::Bucket(bucket) => {
                let found = self.flash.small.find(key);
                self.flash.small.end_read(bucket);
                found
            }
            From::Region(entry) => {
                self.flash.large.end_read(entry.region);
                self.flash.large.touch(entry.region);
                Some(entry.version)
            }
        };
        self.wake_writer();
        self.parking.wake(self.cleaner());
        match found {
            Some(found) => self.hit(client, key, found, version, now),
            None => self.missed(client, key, version, now),
        }
    }

    /// Ends a get that found version `found` on flash. The item is inserted into memory unless it
    /// was set or deleted meanwhile, or another get has inserted it.
    fn hit(&mut self, client: usize, key: u32, found: u32, before: u32, now: Ns) {
        self.tell(key, Some(found), before);
        self.end(client, "get-flash", now);
        if self.versions[key as usize] == (found, true) && !self.memory.has(key) {
            // The region may have been evicted while it was read.
            let size = self.size(key);
            let clean = self.flash.is_small(size) || self.flash.large.find(key).is_some();
            self.memory.insert(key, size.in_memory(), clean);
            self.make_room(client);
        }
    }

    fn missed(&mut self, client: usize, key: u32, before: u32, now: Ns) {
        self.tell(key, None, before);
        self.end(client, "get-miss", now);
        if self.bench.lookaside {
            self.begun[client] = Some(now);
            self.phases[client] = Phase::Begins(Op::Set(key));
        }
    }

    #[cfg(test)]
    fn tell(&mut self, key: u32, found: Option<u32>, before: u32) {
        let after = self.versions[key as usize].0;
        self.found.push(Found {
            key,
            found,
            before,
            after,
        });
    }

    #[cfg(not(test))]
    const fn tell(&self, _: u32, _: Option<u32>, _: u32) {}

    fn set(&mut self, client: usize, key: u32) {
        self.change(key, true);
        self.memory.insert(key, self.size(key).in_memory(), false);
        self.make_room(client);
    }

    /// Counts a set or a delete of an item and removes it from memory. A removal on flash is queued
    /// unless memory held a version that flash has not.
    //= cachelib 1
    fn change(&mut self, key: u32, is_set: bool) {
        let (version, _) = self.versions[key as usize];
        self.versions[key as usize] = (version + 1, is_set);
        if self.memory.remove(key) != Some(false) {
            self.queue(key, What::Remove);
        }
    }

    /// Evicts items until memory fits its limit, and queues the dirty ones that are admitted for
    /// flash.
    fn make_room(&mut self, client: usize) {
        while let Some((key, clean)) = self.memory.evict() {
            if !clean && self.rngs[client].chance(self.bench.admit, 100) {
                self.queue(key, What::Put(self.versions[key as usize].0));
            }
        }
    }

    fn queue(&mut self, key: u32, what: What) {
        if self.flash.queue(key, self.size(key), what) {
            self.wake_writer();
        }
    }

    fn wait(&mut self, thread: ThreadId, phase: Phase) -> Turn {
        self.phases[thread.0 as usize] = phase;
        self.waiting.push(thread);
        self.parking.park(thread)
    }

    /// Wakes the clients that wait for a flash job.
    fn wake_clients(&mut self) {
        for thread in self.waiting.drain(..) {
            self.parking.wake(thread);
        }
    }

    /// Wakes one idle writer, as there may be a job.
    fn wake_writer(&mut self) {
        if let Some(thread) = self.idle.pop_first() {
            self.parking.wake(thread);
        }
    }

    fn leave(&mut self, thread: ThreadId) -> Turn {
        self.gone += 1;
        self.parking.wake_all();
        self.parking.done(thread)
    }

    fn writer_turn(&mut self, thread: ThreadId) -> Turn {
        let index = thread.0 as usize;
        self.idle.remove(&thread);
        loop {
            match std::mem::take(&mut self.phases[index]) {
                Phase::Fetches(job, bucket) => {
                    if job.what == What::Remove && self.flash.small.find(job.key).is_none() {
                        self.small_ended(job, bucket);
                        continue;
                    }
                    self.phases[index] = Phase::Writes(job, bucket);
                    return Turn::now(bucket_write(bucket));
                }
                Phase::Writes(job, bucket) => self.was_written(job, bucket),
                _ => {
                    if self.flash.append(&self.sizes) {
                        self.wake_clients();
                    }
                    if self.flash.large.has_tasks() {
                        self.parking.wake(self.cleaner());
                    }
                    if let Some((job, bucket)) = self.flash.take_small() {
                        if job.what == What::Remove && !self.flash.small.could_exist(job.key) {
                            self.small_ended(job, bucket);
                            continue;
                        }
                        self.phases[index] = Phase::Fetches(job, bucket);
                        return Turn::now(bucket_read(bucket));
                    }
                    if self.gone >= self.bench.threads && self.flash.is_idle() {
                        return self.leave(thread);
                    }
                    self.idle.insert(thread);
                    return self.parking.park(thread);
                }
            }
        }
    }

    fn was_written(&mut self, job: Job, bucket: u32) {
        match job.what {
            What::Put(version) => {
                let bytes = self.size(job.key).on_flash();
                let evicted = self.flash.small.insert(job.key, version, bytes);
                evicted.into_iter().for_each(|key| self.memory.soil(key));
            }
            What::Remove => self.flash.small.remove(job.key),
        }
        self.small_ended(job, bucket);
    }

    fn small_ended(&mut self, job: Job, bucket: u32) {
        self.flash.small.end_write(bucket);
        self.flash.ended(job);
        self.wake_clients();
    }

    const fn cleaner(&self) -> ThreadId {
        ThreadId(self.bench.threads + self.bench.writers)
    }
}

const fn bucket_read(bucket: u32) -> Call {
    Call::Pread {
        fd: SMALL.0,
        at: bucket as u64 * BUCKET,
        len: BUCKET,
    }
}

const fn bucket_write(bucket: u32) -> Call {
    Call::Pwrite {
        fd: SMALL.0,
        at: bucket as u64 * BUCKET,
        len: BUCKET,
    }
}

impl Source for Engine {
    fn names(&self) -> &Names {
        &self.names
    }

    fn setup(&self) -> &Setup {
        &self.setup
    }

    fn threads(&self) -> u32 {
        self.cleaner().0 + 1
    }

    fn process(&self, _: ThreadId) -> u32 {
        0
    }

    fn next(&mut self, thread: ThreadId, now: Ns) -> Turn {
        self.parking.asks(thread);
        if self.failure.is_some() {
            self.parking.done(thread)
        } else if thread == self.cleaner() {
            self.cleaner_turn()
        } else if !self.ready {
            self.parking.park(thread)
        } else if thread.0 < self.bench.threads {
            self.client_turn(thread, now)
        } else {
            self.writer_turn(thread)
        }
    }

    fn ended(&mut self, _: ThreadId, result: Result<u64, Errno>) {
        if let Err(errno) = result {
            let why = format!("the cache's call failed with {errno}");
            self.failure.get_or_insert(why);
            self.parking.wake_all();
        }
    }

    fn wake(&mut self) -> Option<ThreadId> {
        self.parking.next_woken()
    }

    fn finished(&mut self) -> Option<(&'static str, Ns)> {
        self.finished.pop()
    }

    fn failure(&self) -> Option<String> {
        self.failure.clone()
    }
}
