//! How long a host is waited for.
//!
//! Invariant: a host is given up for what it did not do in time, and never for what we did not:
//! who is not read from is not said to be silent, and as what a host did in time may lie in its
//! socket while the thread is busy, it is looked at again before it is given up.

use std::time::{Duration, Instant};

/// How long a connection may take until it is a queue.
const JOIN_TIME: Duration = Duration::from_secs(10);
/// How long nothing may be taken of what is written.
const WRITE_TIME: Duration = Duration::from_secs(30);
/// How long a host that was told to go may take until it has gone.
pub(super) const LEAVE_TIME: Duration = Duration::from_secs(2);

/// What has been waited for, and since when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    start: Instant,
    /// When something was read last.
    heard: Instant,
    /// Since when nothing was taken of what waits to be sent.
    stuck: Option<Instant>,
    /// Since when the connection is over.
    over: Option<Instant>,
    /// What was too long ago at the last look.
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

    /// Something was read, or nobody listens.
    pub(super) const fn heard(&mut self, now: Instant) {
        self.heard = now;
    }

    /// The connection is over.
    pub(super) fn over(&mut self, now: impl FnOnce() -> Instant) {
        self.over.get_or_insert_with(now);
    }

    /// So many bytes wait to be sent; whether some have gone since the last time.
    pub(super) fn sent(&mut self, left: u64, moved: bool, now: impl FnOnce() -> Instant) {
        if left == 0 {
            self.stuck = None;
        } else if moved || self.stuck.is_none() {
            self.stuck = Some(now());
        }
    }

    /// Whether the host is given up, which has to say something this often, if at all, or has to
    /// become a queue: if it has taken too long, and had at the last look, and has done nothing
    /// between.
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

    /// When that was of which the next is overdue.
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

    /// How many tenths of a second after `start` something is overdue.
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
    fn what_was_done_between_two_looks_counts_and_what_helps_nothing_does_not() {
        let start = Instant::now();
        let late = start + JOIN_TIME * 2;
        let mut patience = Patience::new(start);
        for _ in 0..3 {
            assert!(!patience.is_up(late, Some(1000), true));
            // It lay in the socket.
            patience.heard(late - Duration::from_millis(1500));
            assert!(!patience.is_up(late, Some(1000), true));
            patience.heard(late);
            assert!(!patience.is_up(late, Some(1000), true));
            patience.heard(start);
        }
        assert!(!patience.is_up(late, None, false));
        // It has become a queue.
        assert!(!patience.is_up(late, None, true));
        assert!(!patience.is_up(late, None, false));
        // It has said something, and is none.
        patience.heard(late);
        assert!(patience.is_up(late, None, false));
    }

    #[test]
    fn each_limit_counts_from_what_was_done_last() {
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
