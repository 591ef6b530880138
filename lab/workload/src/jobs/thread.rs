//! The pace of one thread.
//!
//! A thread issues requests one after the other, up to its depth in flight. Like fio's, it waits for
//! its requests in flight before it sleeps, be it for its rate or to think.

use super::Direction;
use super::options::{Options, Pace};
use super::requests::Requests;
use super::value::Each;
use crate::request::Request;
use sim::fixed::exponential;
use sim::{Rng, Seed};
use units::{Ns, SECTOR};

const SECOND: u64 = 1_000_000_000;

/// Next step of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Issues a request. After a flush, the thread waits for its end.
    Issue(Request),
    /// Waits until no request is in flight.
    Drain,
    /// Waits until this time, from the start of the thread.
    Until(Ns),
    /// Has ended; requests in flight complete.
    End,
}

/// Thread of control of a job.
#[derive(Debug)]
pub struct Thread {
    requests: Requests,
    pace: Pace,
    depth: u32,
    refill: u32,
    flow: u64,
    /// Time after which requests are issued.
    start: Ns,
    /// Time after which none is issued, from `start`.
    end: Option<Ns>,
    rng: Rng,
    /// Requests and bytes issued.
    issued: Each<(u64, u64)>,
    /// Times at which the next requests of a Poisson process are due, in 256ths of a nanosecond.
    drawn: Each<u64>,
    /// Requests since the last pause.
    since_pause: u64,
    /// End of a pause.
    pause: Option<Ns>,
    /// Direction that waits for its rate.
    chosen: Option<Direction>,
    is_over: bool,
}

impl Thread {
    pub(super) fn new(options: &Options, requests: Requests, seed: Seed) -> Self {
        let mut rng = seed.stream("pace");
        let (from, to) = options.pace.start;
        let runtime = options.amount.runtime;
        Self {
            requests,
            pace: options.pace.clone(),
            depth: options.depth(),
            refill: options.refill(),
            flow: options.flow,
            start: from + Ns(rng.below(to.since(from).0 + 1)),
            end: runtime.map(|runtime| runtime + options.pace.ramp),
            rng,
            issued: [(0, 0); 3],
            drawn: [0; 3],
            since_pause: 0,
            pause: None,
            chosen: None,
            is_over: false,
        }
    }

    /// Largest number of requests in flight, at least 1.
    #[must_use]
    pub const fn depth(&self) -> u32 {
        self.depth
    }

    /// Number of requests in flight, below the depth, at which a thread that has reached its depth
    /// issues again.
    #[must_use]
    pub const fn refill(&self) -> u32 {
        self.refill
    }

    /// Share of the thread in the requests of all threads that have one; 0 for no share.
    #[must_use]
    pub const fn flow(&self) -> u64 {
        self.flow
    }

    /// Time from the release of the thread after which it issues requests.
    #[must_use]
    pub const fn start(&self) -> Ns {
        self.start
    }

    /// Stops the thread, as if it had reached its end.
    pub fn stop(&mut self) {
        self.is_over = true;
    }

    pub(super) fn into_requests(self) -> Requests {
        self.requests
    }

    /// The next step at `now`, counted from the release of the thread, with `in_flight` requests in
    /// flight.
    pub fn next(&mut self, now: Ns, in_flight: u32) -> Next {
        if now < self.start && !self.is_over {
            return Next::Until(self.start);
        }
        let elapsed = Ns(now.0.saturating_sub(self.start.0));
        self.is_over |= self.end.is_some_and(|end| elapsed >= end);
        if self.is_over {
            return self.finish(in_flight);
        }
        if let Some(wait) = self.think(elapsed, in_flight) {
            return wait;
        }
        if let Some(flush) = self.requests.flush() {
            return Next::Issue(flush);
        }
        let direction = match self.chosen.take() {
            Some(direction) => direction,
            None => self.requests.direction(),
        };
        let (direction, due) = self.due(direction, elapsed);
        if due > elapsed {
            self.chosen = Some(direction);
            return match in_flight > 0 && !self.pace.offload {
                true => Next::Drain,
                false => self.sleep(due),
            };
        }
        let Some(request) = self.requests.next(direction) else {
            self.is_over = true;
            return self.finish(in_flight);
        };
        self.count(direction, request.extent.sectors);
        Next::Issue(request)
    }

    fn sleep(&self, until: Ns) -> Next {
        let until = self.end.map_or(until, |end| until.min(end));
        Next::Until(self.start + until)
    }

    fn finish(&mut self, in_flight: u32) -> Next {
        if self.requests.needs_flush() && in_flight > 0 {
            return Next::Drain;
        }
        self.requests.last_flush().map_or(Next::End, Next::Issue)
    }

    /// The pause that is due; `None` if none is.
    fn think(&mut self, elapsed: Ns, in_flight: u32) -> Option<Next> {
        if self.pace.think == Ns::ZERO {
            return None;
        }
        if let Some(until) = self.pause {
            if elapsed < until {
                return Some(self.sleep(until));
            }
            (self.pause, self.since_pause) = (None, 0);
        }
        if self.since_pause < self.pace.think_blocks {
            return None;
        }
        if in_flight > 0 {
            return Some(Next::Drain);
        }
        let until = elapsed + self.pace.think;
        self.pause = Some(until);
        Some(self.sleep(until))
    }

    /// The direction of the next request, and the time at which it is due. A mixed job takes the
    /// direction that is due, or else the one that is due first.
    fn due(&self, wanted: Direction, elapsed: Ns) -> (Direction, Ns) {
        let due = self.time_of(wanted);
        if due <= elapsed || !self.requests.is_mixed() {
            return (wanted, due);
        }
        let other = match wanted {
            Direction::Read => Direction::Write,
            _ => Direction::Read,
        };
        let of_other = self.time_of(other);
        match of_other < due {
            true => (other, of_other),
            false => (wanted, due),
        }
    }

    fn time_of(&self, direction: Direction) -> Ns {
        let index = direction as usize;
        let ((ios, bytes), pace) = (self.issued[index], &self.pace);
        Ns(match pace.poisson {
            true => self.drawn[index] / 256,
            false => time(ios, pace.ios[index]).max(time(bytes, pace.bytes[index])),
        })
    }

    fn count(&mut self, direction: Direction, sectors: u32) {
        let index = direction as usize;
        self.since_pause += 1;
        let (ios, bytes) = &mut self.issued[index];
        (*ios, *bytes) = (*ios + 1, *bytes + u64::from(sectors) * SECTOR);
        let (per_second, bytes_per_second) = (self.pace.ios[index], self.pace.bytes[index]);
        let (amount, rate) = match per_second {
            0 => (self.requests.smallest(direction), bytes_per_second),
            _ => (1, per_second),
        };
        if self.pace.poisson && rate > 0 {
            let gap = exponential(self.rng.next_u64(), time(amount.saturating_mul(256), rate));
            self.drawn[index] = self.drawn[index].saturating_add(gap);
        }
    }
}

/// Nanoseconds in which `count` passes at `rate` a second; 0 without a rate.
fn time(count: u64, rate: u64) -> u64 {
    let ns = u128::from(count) * u128::from(SECOND);
    let ns = ns.checked_div(u128::from(rate)).unwrap_or(0);
    // Sums of a few times do not overflow.
    u64::try_from(ns).unwrap_or(u64::MAX).min(u64::MAX / 4)
}
