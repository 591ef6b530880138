//! Prefetching of lines into the second cache.
//!
//! A prefetch raises no exception: a delay hint ends it.

use super::{Machine, Values};
use crate::config::Prefetch;
use crate::far::Far;
use crate::op::Program;
use crate::pages::is_far;
use crate::tick::Tick;
use crate::tiering::Promote;

const WALKS: usize = 16;

/// The last walks through pages that a core was seen to do: page, line, stride, how
/// often it was the same.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strides {
    walks: [(u64, i64, i64, u8); WALKS],
}

impl Default for Strides {
    fn default() -> Self {
        Self {
            walks: [(u64::MAX, 0, 0, 0); WALKS],
        }
    }
}

impl Strides {
    /// The line ahead of `line`, once its page was walked by one stride twice.
    fn next(&mut self, line: u64) -> Option<u64> {
        let (page, at) = (line / 64, (line % 64) as i64);
        let walk = &mut self.walks[page as usize % WALKS];
        if walk.0 != page {
            *walk = (page, at, 0, 0);
            return None;
        }
        let stride = at - walk.1;
        let steady = if stride == walk.2 {
            walk.3.saturating_add(1)
        } else {
            0
        };
        *walk = (page, at, stride, steady);
        let ahead = at + stride;
        (steady > 0 && stride != 0 && (0..64).contains(&ahead)).then(|| page * 64 + ahead as u64)
    }
}

impl<F: Far, P: Program, W: Values, M: Promote> Machine<'_, F, P, W, M> {
    /// Prefetches the successor of `line`, which missed the second cache of `core`.
    #[inline]
    pub(super) fn look_ahead(&mut self, core: usize, line: u64, now: Tick) {
        let next = match self.config.prefetch {
            Prefetch::None => return,
            Prefetch::NextLine => (line % 64 != 63).then_some(line + 1),
            Prefetch::Stride => self.cores[core].strides.next(line),
        };
        if let Some(next) = next {
            self.fetch_ahead(core, next, now);
        }
    }

    fn fetch_ahead(&mut self, core: usize, line: u64, now: Tick) {
        if self.caches.holds(line) || self.caches.room_ahead(core, now) > now {
            return;
        }
        if is_far(line) {
            self.fetch_far(core, line, now);
            return;
        }
        let (done, data) = self.host_read(core, line, now);
        self.caches.ahead_until(core, done);
        self.caches.fill(core, line, (false, true), done, &data);
        self.send_out(now);
    }

    fn fetch_far(&mut self, core: usize, line: u64, now: Tick) {
        if self.is_page_cached(line) || self.held_by_host(line).is_some() || self.is_asked(line) {
            return;
        }
        self.read_ahead(core, line, now);
    }
}
