//! Read-ahead: the on-demand algorithm of Linux, as pure functions of an open file's state.
//!
//! A first read gets a window of a few times its size. When the reader reaches the mark in a
//! window, the next window is read meanwhile, two or four times as large, up to the limit. A miss
//! that follows no earlier read loads only the requested pages.

use crate::types::PAGE;
use units::Bytes;

/// A range of pages to load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) first: u64,
    pub(crate) len: u64,
    /// The page whose reading triggers the next window.
    pub(crate) mark: Option<u64>,
}

/// Read-ahead state of an open file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead {
    start: u64,
    size: u64,
    /// Pages of the window behind the mark.
    trigger: u64,
    /// The last page that was read.
    previous: u64,
    limit: u64,
    base: u64,
    random: bool,
}

impl Ahead {
    pub(crate) fn new(limit: Bytes) -> Self {
        let limit = limit.0 / PAGE;
        Self {
            start: 0,
            size: 0,
            trigger: 0,
            previous: u64::MAX,
            limit,
            base: limit,
            random: limit == 0,
        }
    }

    /// Disables read-ahead: the program reads at random.
    pub(crate) fn expect_random(&mut self) {
        self.random = true;
    }

    /// Doubles the limit: the program reads from the start to the end.
    pub(crate) fn expect_sequential(&mut self) {
        self.random = self.base == 0;
        self.limit = 2 * self.base;
    }

    /// Restores the default: the access pattern is unknown.
    pub(crate) fn expect_nothing(&mut self) {
        self.random = self.base == 0;
        self.limit = self.base;
    }

    /// Notes the last page of a read.
    #[inline]
    pub(crate) fn passed(&mut self, page: u64) {
        self.previous = page;
    }

    /// The window to load when `wanted` pages from `index` on are read and the first is missing;
    /// `history` pages before it are cached.
    pub(crate) fn miss(&mut self, index: u64, wanted: u64, history: u64) -> Window {
        let only = Window {
            first: index,
            len: wanted,
            mark: None,
        };
        if self.random {
            return only;
        }
        let follows = index != 0 && self.follows(index);
        let fresh = index == 0 || wanted > self.limit || index.wrapping_sub(self.previous) <= 1;
        if follows {
            self.advance();
        } else if fresh {
            self.begin(index, wanted);
        } else if history > wanted {
            let twice = if history >= index { 2 } else { 1 };
            self.start = index;
            self.size = (history * twice + wanted).min(self.limit);
            self.trigger = 1;
        } else {
            return only;
        }
        self.window(index, wanted)
    }

    /// The window to load when the marked page `index` is read; `hole` is the first missing page
    /// behind it. `None` if nothing is to be loaded.
    pub(crate) fn marked(&mut self, index: u64, wanted: u64, hole: u64) -> Option<Window> {
        if self.random {
            return None;
        }
        if index != 0 && self.follows(index) {
            self.advance();
        } else if hole - index > self.limit {
            return None;
        } else {
            self.start = hole;
            self.size = self.larger(hole - index + wanted);
            self.trigger = self.size;
        }
        Some(self.window(index, 0))
    }

    fn follows(&self, index: u64) -> bool {
        let end = self.start + self.size;
        index == end - self.trigger || index == end
    }

    fn advance(&mut self) {
        self.start += self.size;
        self.size = self.larger(self.size);
        self.trigger = self.size;
    }

    fn begin(&mut self, index: u64, wanted: u64) {
        self.start = index;
        self.size = self.first_size(wanted);
        self.trigger = match self.size > wanted {
            true => self.size - wanted,
            false => self.size,
        };
    }

    fn window(&mut self, index: u64, wanted: u64) -> Window {
        if index == self.start && self.size == self.trigger {
            // The read would hit the mark of this very window.
            let more = self.larger(self.size);
            if self.size + more <= self.limit {
                self.trigger = more;
                self.size += more;
            } else {
                self.size = self.limit.max(wanted);
                self.trigger = self.limit / 2;
            }
        }
        Window {
            first: self.start,
            len: self.size,
            mark: Some(self.start + self.size - self.trigger),
        }
    }

    fn first_size(&self, wanted: u64) -> u64 {
        let size = wanted.next_power_of_two();
        let size = match () {
            () if size <= self.limit / 32 => size * 4,
            () if size <= self.limit / 4 => size * 2,
            () => self.limit,
        };
        size.max(1)
    }

    fn larger(&self, size: u64) -> u64 {
        match () {
            () if size < self.limit / 16 => size * 4,
            () if size <= self.limit / 2 => size * 2,
            () => self.limit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ahead() -> Ahead {
        Ahead::new(Bytes(128 << 10))
    }

    #[test]
    fn windows_of_a_sequential_reader_double_up_to_the_limit() {
        let mut ahead = ahead();
        let mut windows = vec![ahead.miss(0, 1, 0)];
        for _ in 0..4 {
            let mark = windows.last().and_then(|w| w.mark).unwrap();
            windows.push(ahead.marked(mark, 1, mark + 1).unwrap());
        }
        let sizes: Vec<_> = windows.iter().map(|w| (w.first, w.len)).collect();
        assert_eq!(sizes, [(0, 4), (4, 8), (12, 16), (28, 32), (60, 32)]);
        assert_eq!(windows[0].mark, Some(1));
        assert_eq!(windows[1].mark, Some(4));
    }

    #[test]
    fn a_random_reader_gets_what_it_asks_for() {
        let mut ahead = ahead();
        for index in [500, 20, 9_000] {
            let window = ahead.miss(index, 2, 0);
            assert_eq!((window.first, window.len, window.mark), (index, 2, None));
            ahead.passed(index + 1);
        }
    }

    #[test]
    fn a_reader_beside_another_is_known_by_the_pages_before_it() {
        let window = ahead().miss(100, 1, 8);
        assert_eq!((window.first, window.len, window.mark), (100, 9, Some(108)));
    }

    #[test]
    fn a_large_read_gets_all_that_it_wants_in_one_window() {
        let window = ahead().miss(0, 32, 0);
        assert_eq!((window.first, window.len, window.mark), (0, 32, Some(16)));
    }
}
