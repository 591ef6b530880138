//! The third layer of the index: for each page, which of its lines are in the log.
//!
//! Invariants: the chunks of a list are ordered by line and do not overlap; two
//! that touch both in the page and in the log are one. Lists lie in blocks of
//! 1, 2, 4 … 64 chunks of one arena, so that a list of a line or two costs no
//! allocation and 3 million of them cost no more than their chunks.

use super::LINES;

/// Consecutive lines of a page that lie one after the other in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// First line in the page.
    pub line: u8,
    /// How many lines.
    pub lines: u8,
    /// Slot of the first line.
    pub slot: u32,
}

impl Chunk {
    /// One past the last line.
    #[must_use]
    pub fn end(self) -> u8 {
        self.line + self.lines
    }

    /// The part of it before `line`, and the part from `line` on.
    fn split(self, line: u8) -> (Self, Self) {
        let before = line.clamp(self.line, self.end()) - self.line;
        let left = Self {
            lines: before,
            ..self
        };
        let right = Self {
            line: self.line + before,
            lines: self.lines - before,
            slot: self.slot + u32::from(before),
        };
        (left, right)
    }

    fn is_followed_by(self, next: Self) -> bool {
        self.end() == next.line && self.slot + u32::from(self.lines) == next.slot
    }
}

/// Where a list is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct List {
    start: u32,
    len: u8,
    /// The block has room for `1 << class` chunks.
    class: u8,
}

const CLASSES: usize = LINES.ilog2() as usize + 1;

/// All lists.
#[derive(Clone, Debug, Default)]
pub(super) struct Lists {
    arena: Vec<Chunk>,
    free: [Vec<u32>; CLASSES],
}

impl Lists {
    /// A list of nothing but `chunk`.
    pub(super) fn with(&mut self, chunk: Chunk) -> List {
        let start = self.block(0);
        self.arena[start as usize] = chunk;
        List {
            start,
            len: 1,
            class: 0,
        }
    }

    #[inline]
    pub(super) fn get(&self, list: List) -> &[Chunk] {
        &self.arena[list.start as usize..][..usize::from(list.len)]
    }

    /// Lays `new` over what the list has.
    pub(super) fn lay(&mut self, list: &mut List, new: Chunk) {
        let mut merged = [Chunk::default(); LINES as usize];
        let mut len = 0;
        let mut add = |chunk: Chunk| {
            let last: Option<&mut Chunk> = merged[..len].last_mut();
            match last {
                _ if chunk.lines == 0 => {}
                Some(last) if last.is_followed_by(chunk) => last.lines += chunk.lines,
                _ => {
                    merged[len] = chunk;
                    len += 1;
                }
            }
        };
        let mut pending = Some(new);
        for &old in self.get(*list) {
            let (left, rest) = old.split(new.line);
            add(left);
            if old.end() > new.line
                && let Some(new) = pending.take()
            {
                add(new);
            }
            add(rest.split(new.end()).1);
        }
        pending.into_iter().for_each(add);
        self.put(list, &merged[..len]);
    }

    fn put(&mut self, list: &mut List, chunks: &[Chunk]) {
        let class = chunks.len().next_power_of_two().ilog2() as u8;
        if class != list.class {
            self.release(*list);
            (list.start, list.class) = (self.block(class), class);
        }
        list.len = chunks.len() as u8;
        self.arena[list.start as usize..][..chunks.len()].copy_from_slice(chunks);
    }

    pub(super) fn release(&mut self, list: List) {
        self.free[usize::from(list.class)].push(list.start);
    }

    fn block(&mut self, class: u8) -> u32 {
        if let Some(start) = self.free[usize::from(class)].pop() {
            return start;
        }
        let start = self.arena.len();
        self.arena.resize(start + (1 << class), Chunk::default());
        u32::try_from(start).expect("the chunks of a log have 32-bit numbers")
    }
}
