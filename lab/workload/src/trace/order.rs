//! Sorts requests by time while they are read.
//!
//! Invariants: what leaves never goes back in time, and requests of one time leave in
//! the order of the file; at most [`HELD`] requests are held. What would have to move
//! further than [`FURTHEST`] or past more requests than that is refused: such a file is
//! not sorted by time, or the column is no time.

use crate::request::Request;
use input::{Expected, expected};
use std::collections::VecDeque;
use units::Ns;

/// How far a request may lie behind a later one. Traces that are written when requests
/// complete are out of order by as long as one takes, which is seconds at most.
pub(super) const FURTHEST: Ns = Ns::secs(10);

/// How many requests are held to be sorted.
pub(super) const HELD: usize = 16_384;

/// Requests on their way to be sorted. Their times are those of the trace.
#[derive(Default)]
pub(super) struct Window {
    held: VecDeque<Request>,
    /// The latest time so far.
    newest: Ns,
    /// The time of the request that left last, and that of the first.
    left: Option<Ns>,
    first: Option<Ns>,
}

impl Window {
    /// Takes a request in; how far it lay back.
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

    /// The next request by time, counted from the first, once no earlier one can come.
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
