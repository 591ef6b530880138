//! The thread that opens the files, then writes full regions and reclaims others.
//!
//! Invariants: tasks are done one after the other, in the order in which they were queued; no other
//! thread makes a call before the files are open.

use super::{BUCKET, Engine, LARGE, Phase, SMALL};
use crate::files::cachebench::BLOCK;
use crate::files::cachebench::large::Task;
use crate::files::fileset::{DIR_MODE, FILE_MODE};
use crate::files::{Advice, Allocation, Call, Entry, EntryKind, OpenFlags, Target, Turn};
use units::Ns;

/// Upper bound on the bytes of one write: longer writes are split and made one after the other
/// (`deviceMaxWriteSize` of `cachebench`).
//= cachelib 4
const WRITE_MAX: u64 = 1 << 20;

impl Engine {
    /// Queues the calls that open both files past the page cache and allocate them as a whole;
    /// without `allocate` only the file of buckets gets its full length, since buckets are read
    /// before they are written.
    //= cachelib 4
    pub(super) fn prepare(&mut self) {
        let path = self.names.intern(b"cache");
        self.setup.entries.push(Entry {
            path,
            kind: EntryKind::Directory,
            mode: DIR_MODE,
        });
        let flags = OpenFlags::READ.and(OpenFlags::WRITE).and(OpenFlags::CREATE);
        for (fd, path) in [LARGE, SMALL] {
            self.opening.push(Call::Open {
                fd,
                path: self.names.intern(path),
                flags: flags.and(OpenFlags::DIRECT),
                mode: FILE_MODE,
            });
        }
        let lens = [self.bench.large_bytes(), self.bench.buckets() * BUCKET];
        let files = [LARGE.0, SMALL.0].into_iter().zip(lens);
        for (fd, len) in files {
            if self.bench.allocate {
                let how = Allocation::Extend;
                self.opening.push(Call::Fallocate {
                    fd,
                    how,
                    at: 0,
                    len,
                });
            } else if fd == SMALL.0 {
                let of = Target::Open(fd);
                self.opening.push(Call::Truncate { of, len });
            }
            let advice = Advice::DontNeed;
            self.opening.push(Call::Advise {
                fd,
                advice,
                at: 0,
                len,
            });
        }
    }

    pub(super) fn cleaner_turn(&mut self) -> Turn {
        let thread = self.cleaner();
        let index = thread.0 as usize;
        if !self.ready {
            return self.open_turn(index);
        }
        loop {
            match std::mem::take(&mut self.phases[index]) {
                Phase::Flushes(region, done) if done < self.bench.region => {
                    return Turn::now(self.flush(region, done));
                }
                Phase::Flushes(region, _) => {
                    self.flash.large.flushed(region);
                    self.wake_writer();
                }
                Phase::Cleans(region) => {
                    for key in self.flash.large.evict(region) {
                        self.memory.soil(key);
                    }
                    self.phases[index] = Phase::Releases(region);
                }
                Phase::Releases(region) if self.flash.large.release(region) => {
                    self.wake_writer();
                }
                Phase::Releases(region) => {
                    self.phases[index] = Phase::Releases(region);
                    return self.parking.park(thread);
                }
                _ => match self.region_call(index) {
                    Some(call) => return Turn::now(call),
                    None if self.flash.large.has_tasks() || self.phases[index] != Phase::Idle => {}
                    None if self.gone == self.bench.threads + self.bench.writers => {
                        return self.parking.done(thread);
                    }
                    None => return self.parking.park(thread),
                },
            }
        }
    }

    /// Next task's call on the file of regions; `None` without a task, or if the region to reclaim
    /// is empty.
    fn region_call(&mut self, index: usize) -> Option<Call> {
        let (fd, whole) = (LARGE.0, self.bench.region);
        match self.flash.large.task()? {
            Task::Flush(region) => Some(self.flush(region, 0)),
            Task::Reclaim => {
                // A region besides those with a buffer and the clean ones exists
                // (`CacheBench::check`).
                let victim = self.flash.large.victim();
                let (region, used) = victim.expect("a region that can be reclaimed");
                self.phases[index] = Phase::Cleans(region);
                let at = u64::from(region) * whole;
                let len = used.next_multiple_of(BLOCK);
                (len > 0).then_some(Call::Pread { fd, at, len })
            }
        }
    }

    /// Writes the next part of `region`, of which `done` bytes are written.
    fn flush(&mut self, region: u32, done: u64) -> Call {
        let len = WRITE_MAX.min(self.bench.region - done);
        let index = self.cleaner().0 as usize;
        self.phases[index] = Phase::Flushes(region, done + len);
        let (fd, at) = (LARGE.0, u64::from(region) * self.bench.region + done);
        Call::Pwrite { fd, at, len }
    }

    fn open_turn(&mut self, index: usize) -> Turn {
        let made = match self.phases[index] {
            Phase::Opens(made) => made,
            _ => 0,
        };
        match self.opening.get(made) {
            Some(call) => {
                self.phases[index] = Phase::Opens(made + 1);
                Turn::now(*call)
            }
            None => {
                self.ready = true;
                self.parking.wake_all();
                self.phases[index] = Phase::Idle;
                Turn::Pause(Ns::ZERO)
            }
        }
    }
}
