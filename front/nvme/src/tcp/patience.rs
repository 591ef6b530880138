//! Timeouts of a connection.
//!
//! Invariant: a connection times out only if its host failed to act. A host is never considered
//! silent while it is not read from. Its bytes may sit in the socket while the thread is busy, so
//! a connection is dropped only if it is still overdue at the next check.

use std::time::{Duration, Instant};

/// Time for a connection to become a queue.
const JOIN_TIME: Duration = Duration::from_secs(10);
/// Time without progress of a write.
const WRITE_TIME: Duration = Duration::from_secs(30);
/// Time for a host to close a terminated connection.
pub(super) const LEAVE_TIME: Duration = Duration::from_secs(2);

/// Start times of the pending timeouts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    start: Instant,
    /// Time of the last read.
    heard: Instant,
    /// Start of the current stall of writes; none if nothing is unsent.
    stuck: Option<Instant>,
    /// Time at which the connection ended.
    over: Option<Instant>,
    /// Overdue instant seen by the last check.
    doubt: Option<Instant>,
}

impl Patience {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            start: now,
            heard: now,
            stuck: None,
            over: None,
            doubt: None,
        }
    }

    /// Notes a read, or that reading is suspended.
    pub(super) const fn heard(&mut self, now: Instant) {
        self.heard = now;
    }

    /// Notes the end of the connection.
    pub(super) fn over(&mut self, now: impl FnOnce() -> Instant) {
        self.over.get_or_insert_with(now);
    }

    /// Notes that `left` bytes are unsent; `moved` tells whether any were sent since the last call.
    pub(super) fn sent(&mut self, left: u64, moved: bool, now: impl FnOnce() -> Instant) {
        if left == 0 {
            self.stuck = None;
        } else if moved || self.stuck.is_none() {
            self.stuck = Some(now());
        }
    }

    /// Whether the connection has timed out: overdue now and at the last check, with no progress
    /// between. `keep_alive_ms` is the keep-alive timeout if there is one; a connection that is not
    /// `is_live` has to become a queue in time.
    pub(super) fn is_up(
        &mut self,
        now: Instant,
        keep_alive_ms: Option<u32>,
        is_live: bool,
    ) -> bool {
        let since = self.overdue(now, keep_alive_ms, is_live);
        let before = std::mem::replace(&mut self.doubt, since);
        since.is_some() && since == before
    }

    /// Start of the timeout that has expired; none if none has.
    fn overdue(&self, now: Instant, keep_alive_ms: Option<u32>, is_live: bool) -> Option<Instant> {
        let said = match keep_alive_ms {
            Some(ms) => Some((self.heard, Duration::from_millis(ms.into()))),
            None if is_live => None,
            None => Some((self.start, JOIN_TIME)),
        };
        let taken = self.stuck.map(|since| (since, WRITE_TIME));
        let gone = self.over.map(|since| (since, LEAVE_TIME));
        let mut all = [said, taken, gone].into_iter().flatten();
        let late = all.find(|&(since, span)| now.saturating_duration_since(since) > span);
        late.map(|(since, _)| since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tenths of a second after `start` at which the connection times out.
    fn up(patience: Patience, keep_alive_ms: Option<u32>, is_live: bool) -> Option<u64> {
        (0..1000).find(|&tenths| {
            let now = patience.start + Duration::from_millis(tenths * 100);
            let is_overdue = patience.overdue(now, keep_alive_ms, is_live).is_some();
            let (mut first, mut second) = (patience, patience);
            assert!(
                !first.is_up(now, keep_alive_ms, is_live),
                "at the first look"
            );
            second.is_up(now, keep_alive_ms, is_live);
            assert_eq!(second.is_up(now, keep_alive_ms, is_live), is_overdue);
            is_overdue
        })
    }

    #[test]
    fn progress_between_two_checks_counts_and_other_input_does_not() {
        let start = Instant::now();
        let late = start + JOIN_TIME * 2;
        let mut patience = Patience::new(start);
        for _ in 0..3 {
            assert!(!patience.is_up(late, Some(1000), true));
            // The bytes had been in the socket.
            patience.heard(late - Duration::from_millis(1500));
            assert!(!patience.is_up(late, Some(1000), true));
            patience.heard(late);
            assert!(!patience.is_up(late, Some(1000), true));
            patience.heard(start);
        }
        assert!(!patience.is_up(late, None, false));
        // The connection has become a queue.
        assert!(!patience.is_up(late, None, true));
        assert!(!patience.is_up(late, None, false));
        // Reads do not extend the time to become a queue.
        patience.heard(late);
        assert!(patience.is_up(late, None, false));
    }

    #[test]
    fn each_limit_counts_from_the_last_progress() {
        let start = Instant::now();
        let after = |tenths: u64| start + Duration::from_millis(tenths * 100);
        let mut patience = Patience::new(start);
        assert_eq!(up(patience, None, false), Some(101), "it is no queue");
        assert_eq!(up(patience, None, true), None, "a queue may say nothing");
        patience.heard(after(7));
        assert_eq!(up(patience, Some(5000), true), Some(58));
        patience.sent(9, false, || after(10));
        patience.sent(9, false, || after(20));
        assert_eq!(up(patience, None, true), Some(311), "nothing is taken");
        patience.sent(8, true, || after(30));
        assert_eq!(up(patience, None, true), Some(331), "a byte was");
        patience.sent(0, true, || after(40));
        assert_eq!(up(patience, None, true), None, "all was");
        patience.over(|| after(50));
        patience.over(|| after(60));
        assert_eq!(up(patience, None, true), Some(71));
    }
}
