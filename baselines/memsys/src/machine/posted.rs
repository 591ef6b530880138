//! Writes of the device that the host still holds, first come first.
//!
//! Which of them wrote a line last is asked for by every access to the device, so each
//! knows the one before it in its bucket of lines. Writes are numbered as they come, and
//! a number below `first` has gone: nothing is taken out of the chains.

use crate::cache::Block;
use std::collections::VecDeque;

const BUCKETS: usize = 4_096;

/// A write that the host still holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Posted {
    pub(super) line: u64,
    pub(super) data: Block,
    /// Cores with a flush that waits for this write, one bit each.
    pub(super) flushers: u64,
    /// Whether it is one of the 64 lines of a page that are written together.
    pub(super) whole: bool,
}

pub(super) struct PostedWrites {
    /// Each with the number of the one before it in its bucket.
    queue: VecDeque<(Posted, u64)>,
    /// The number of the first. Numbers begin at one, and zero is none.
    first: u64,
    /// The last of each bucket.
    last: Vec<u64>,
}

impl PostedWrites {
    pub(super) fn new() -> Self {
        Self {
            queue: VecDeque::new(),
            first: 1,
            last: vec![0; BUCKETS],
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn len(&self) -> u64 {
        self.queue.len() as u64
    }

    pub(super) fn front(&self) -> Option<&Posted> {
        self.queue.front().map(|entry| &entry.0)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Posted> {
        self.queue.iter().map(|entry| &entry.0)
    }

    pub(super) fn push(&mut self, post: Posted) {
        let number = self.first + self.len();
        let last = &mut self.last[post.line as usize % BUCKETS];
        self.queue.push_back((post, *last));
        *last = number;
    }

    pub(super) fn pop(&mut self) -> Option<Posted> {
        let (post, _) = self.queue.pop_front()?;
        self.first += 1;
        Some(post)
    }

    /// The last held write of a line.
    #[inline]
    pub(super) fn last_of(&self, line: u64) -> Option<&Posted> {
        self.position(line).map(|at| &self.queue[at].0)
    }

    pub(super) fn last_of_mut(&mut self, line: u64) -> Option<&mut Posted> {
        self.position(line).map(|at| &mut self.queue[at].0)
    }

    #[inline]
    fn position(&self, line: u64) -> Option<usize> {
        let mut number = self.last[line as usize % BUCKETS];
        while let Some(at) = number.checked_sub(self.first) {
            let (post, before) = &self.queue[at as usize];
            if post.line == line {
                return Some(at as usize);
            }
            number = *before;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Seed;

    fn post(line: u64, mark: u8) -> Posted {
        Posted {
            line,
            data: [mark; 64],
            flushers: 0,
            whole: false,
        }
    }

    /// Against a plain queue that is searched from its end.
    #[test]
    fn the_last_write_of_a_line_is_found_while_others_come_and_go() {
        let mut rng = Seed(7).stream("posted");
        let mut posted = PostedWrites::new();
        let mut model: VecDeque<(u64, u8)> = VecDeque::new();
        for step in 0..40_000_u32 {
            // Lines of three buckets, some of them many times.
            let line = rng.below(3) + BUCKETS as u64 * rng.below(40);
            if rng.below(10) < if step % 4_000 < 2_000 { 6 } else { 4 } {
                let mark = step as u8;
                posted.push(post(line, mark));
                model.push_back((line, mark));
            } else {
                let gone = posted.pop().map(|gone| (gone.line, gone.data[0]));
                assert_eq!(gone, model.pop_front());
            }
            let line = rng.below(3) + BUCKETS as u64 * rng.below(40);
            let expected = model.iter().rev().find(|write| write.0 == line);
            let found = posted.last_of(line).map(|found| found.data[0]);
            assert_eq!(found, expected.map(|write| write.1));
            assert_eq!(posted.len(), model.len() as u64);
        }
    }
}
