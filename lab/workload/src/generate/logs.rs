//! Circular logs whose data has different lifetimes.
//!
//! A key-value store, a journal and a cache side by side write like this: each appends to its own
//! region and overwrites its oldest data when it wraps. Of N logs, log i has a size in proportion
//! to i+1 and is written at a rate in proportion to 1/(i+1), so that its data lives (i+1)² times as
//! long as log 0's. A drive that keeps the logs apart finds whole blocks dead; a drive that mixes
//! them does not.

use super::arrivals::Clock;
use super::{Arrivals, Budget, Limit, NoRoom, Part};
use crate::request::{Labels, Op, Request};
use sim::{Rng, Seed};
use std::collections::VecDeque;
use units::{Bytes, Extent, Ns, Origin, Placement, SECTOR};

/// Several logs side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logs {
    /// Number of logs, at most [`Logs::MAX`].
    pub logs: u16,
    /// Bytes of one append, a multiple of a sector.
    pub append: Bytes,
    /// Part of the drive that all logs take together.
    pub fill: Part,
    /// Limit of the appends; trims do not count.
    pub limit: Limit,
    /// Bytes of the piece that is deallocated before appends reach it; 0 to overwrite in place.
    pub trim: Bytes,
    /// Times at which appends are issued.
    pub arrivals: Arrivals,
}

impl Logs {
    /// Upper bound on the number of logs.
    pub const MAX: u16 = 64;
}

/// Rate of log 0. A common multiple of 1 to 16, so that the rates of the first 16 logs are exact.
const RATE: u64 = 720_720;

/// Iterator over the requests of [`Logs`].
#[derive(Clone, Debug)]
pub(crate) struct LogsIter {
    description: Logs,
    logs: Vec<Log>,
    rates: u64,
    budget: Budget,
    clock: Clock,
    rng: Rng,
    /// Trims and the append of the log drawn last, which leave before another log is drawn.
    ready: VecDeque<Request>,
}

#[derive(Clone, Copy, Debug)]
struct Log {
    origin: Origin,
    placement: Placement,
    base: u64,
    size: u64,
    rate: u64,
    head: u64,
    /// End of the part that has been deallocated since the last wrap, in bytes.
    trimmed: u64,
}

impl LogsIter {
    pub(crate) fn new(
        description: &Logs,
        capacity: Bytes,
        labels: &mut Labels,
        seed: Seed,
    ) -> Result<Self, NoRoom> {
        let mut base = 0;
        let mut logs = Vec::new();
        for i in 0..description.logs {
            let log = Log::new(description, i, base, capacity, labels)?;
            base += log.size;
            logs.push(log);
        }
        Ok(Self {
            description: *description,
            rates: logs.iter().map(|l| l.rate).sum(),
            logs,
            budget: Budget::new(description.limit, capacity),
            clock: Clock::new(description.arrivals),
            rng: seed.stream("workload logs"),
            ready: VecDeque::new(),
        })
    }

    /// Draws the log that appends next, by the rates.
    fn draw(&mut self) -> usize {
        let mut rest = self.rng.below(self.rates);
        let passed = |log: &&Log| {
            let before = rest >= log.rate;
            rest = rest.saturating_sub(log.rate);
            before
        };
        self.logs.iter().take_while(passed).count()
    }
}

impl Log {
    fn new(
        description: &Logs,
        index: u16,
        base: u64,
        capacity: Bytes,
        labels: &mut Labels,
    ) -> Result<Self, NoRoom> {
        let (share, all) = (u64::from(index) + 1, u64::from(description.logs));
        let room = description.fill.of(capacity).0.min(capacity.0);
        let part = u128::from(room) * u128::from(share) / u128::from(all * (all + 1) / 2);
        let size = part as u64 / description.append.0 * description.append.0;
        let label = format!("log{index}");
        // Room for two appends: a log with room for one would only overwrite a single place.
        let needed = Bytes(2 * description.append.0);
        if size < needed.0 {
            let room = Bytes(size);
            return Err(NoRoom {
                label,
                needed,
                room,
            });
        }
        Ok(Self {
            origin: labels.intern(&label),
            placement: Placement(index),
            base,
            size,
            rate: RATE / share,
            head: 0,
            trimmed: 0,
        })
    }

    fn request(&self, at: Ns, op: Op, start: u64, bytes: u64) -> Request {
        let sectors = u32::try_from(bytes / SECTOR).expect("appends and trims are bounded");
        Request {
            at,
            op,
            extent: Extent::new((self.base + start) / SECTOR, sectors),
            placement: self.placement,
            origin: self.origin,
            fua: false,
        }
    }

    fn append(&mut self, at: Ns, bytes: u64, trim: u64, ready: &mut VecDeque<Request>) {
        if self.head == self.size {
            (self.head, self.trimmed) = (0, 0);
        }
        while trim > 0 && self.trimmed < self.head + bytes {
            let piece = trim.min(self.size - self.trimmed);
            ready.push_back(self.request(at, Op::Trim, self.trimmed, piece));
            self.trimmed += piece;
        }
        ready.push_back(self.request(at, Op::Write, self.head, bytes));
        self.head += bytes;
    }
}

impl Iterator for LogsIter {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        if self.ready.is_empty() && self.budget.spend(self.description.append.0) {
            let at = self.clock.tick(&mut self.rng);
            let log = self.draw();
            let Logs { append, trim, .. } = self.description;
            self.logs[log].append(at, append.0, trim.0, &mut self.ready);
        }
        self.ready.pop_front()
    }
}
