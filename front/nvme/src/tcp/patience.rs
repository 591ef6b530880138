//! How long a host is waited for.
//!
//! Invariant: a host is given up for what it did not do in time, and never for what we did not:
//! who is not read from is not said to be silent.

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
}

impl Patience {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            start: now,
            heard: now,
            stuck: None,
            over: None,
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

    /// Whether the host has taken too long, which has to say something this often, if at all,
    /// or has to become a queue.
    pub(super) fn is_up(&self, now: Instant, keep_alive_ms: Option<u32>, is_live: bool) -> bool {
        let is_past = |since, span| now.saturating_duration_since(since) > span;
        let is_silent = match keep_alive_ms {
            Some(ms) => is_past(self.heard, Duration::from_millis(ms.into())),
            None => !is_live && is_past(self.start, JOIN_TIME),
        };
        let is_late = |since: Option<_>, span| since.is_some_and(|since| is_past(since, span));
        is_silent || is_late(self.stuck, WRITE_TIME) || is_late(self.over, LEAVE_TIME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many tenths of a second after `start` it is up.
    fn up(patience: Patience, keep_alive_ms: Option<u32>, is_live: bool) -> Option<u64> {
        (0..1000).find(|&tenths| {
            let now = patience.start + Duration::from_millis(tenths * 100);
            patience.is_up(now, keep_alive_ms, is_live)
        })
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
