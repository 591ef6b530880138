//! Sorting of requests by time while they are read.
//!
//! Invariants: requests leave in the order of their times, those of equal time in the order of the
//! file; the window holds at most [`HELD`] requests. A request that would have to move back further
//! than [`FURTHEST`] or past more than [`HELD`] requests is refused: such a file is not sorted by
//! time, or its column is no time.

use crate::request::Request;
use input::{Expected, expected};
use std::collections::VecDeque;
use units::Ns;

/// Longest time that a request may lie behind a later one. Traces that are written when requests
/// complete are out of order by the duration of a request, which is seconds at most.
pub(super) const FURTHEST: Ns = Ns::secs(10);

/// Requests that the window holds.
pub(super) const HELD: usize = 16_384;

/// Window of requests that may still be overtaken. Their times are those of the trace.
#[derive(Default)]
pub(super) struct Window {
    held: VecDeque<Request>,
    /// Latest time pushed so far.
    newest: Ns,
    /// Time of the request that left last, and of the first that left.
    left: Option<Ns>,
    first: Option<Ns>,
}

impl Window {
    /// Inserts a request by its time. Returns its distance from the latest time before it, 0 if it
    /// is in order.
    pub(super) fn push(&mut self, request: Request) -> Result<Ns, Expected> {
        let at = request.at;
        if at >= self.newest {
            self.newest = at;
            self.held.push_back(request);
            return Ok(Ns::ZERO);
        }
        let back = self.newest.since(at);
        if back > FURTHEST {
            return expected(format!(
                "a time at most {FURTHEST} before the latest so far, not {back}, in a trace \
                 that is sorted by time"
            ));
        }
        if self.left.is_some_and(|left| at < left) {
            return expected(format!(
                "a request at most {HELD} requests behind its place by time"
            ));
        }
        let place = self.held.partition_point(|held| held.at <= at);
        self.held.insert(place, request);
        Ok(back)
    }

    /// Removes the earliest request if no earlier one can follow, or if the trace has `ended`. Its
    /// time is counted from the first request.
    pub(super) fn pop(&mut self, ended: bool) -> Option<Request> {
        let front = self.held.front()?;
        let settled = self.newest.since(front.at) > FURTHEST || self.held.len() > HELD;
        if !settled && !ended {
            return None;
        }
        let request = self.held.pop_front()?;
        self.left = Some(request.at);
        let first = *self.first.get_or_insert(request.at);
        Some(Request {
            at: request.at.since(first),
            ..request
        })
    }
}
