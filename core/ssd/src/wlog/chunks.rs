//! The third layer of the index: the logged lines of each page, as lists of chunks.
//!
//! Invariants: the chunks of a list are ordered by line and do not overlap. Chunks that are
//! adjacent both in the page and in the log are merged. A list of one chunk is that chunk itself. A
//! longer list is represented by a chunk with no lines, which holds the position and the number of
//! its chunks. These lie in blocks of one arena, and so do the lists of neighbouring pages: no list
//! costs an allocation of its own.

use super::LINES;

/// Consecutive lines of a page that lie consecutively in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// First line in the page.
    pub line: u8,
    /// Number of lines; 0 marks a reference to a longer list.
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

    /// Splits the chunk into the part before `line` and the part from `line` on.
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

/// A list under construction; its chunks are added in order.
struct Merged {
    chunks: [Chunk; LINES as usize],
    len: usize,
}

impl Default for Merged {
    fn default() -> Self {
        Self {
            chunks: [Chunk::default(); LINES as usize],
            len: 0,
        }
    }
}

impl Merged {
    fn add(&mut self, chunk: Chunk) {
        match self.chunks[..self.len].last_mut() {
            _ if chunk.lines == 0 => {}
            Some(last) if last.is_followed_by(chunk) => last.lines += chunk.lines,
            _ => {
                self.chunks[self.len] = chunk;
                self.len += 1;
            }
        }
    }

    fn chunks(&self) -> &[Chunk] {
        &self.chunks[..self.len]
    }
}

/// Number of block sizes: 1 to 4, then multiples of 4 up to a page or group.
const CLASSES: usize = 4 + (LINES as usize / 4 - 1);

/// Class of a block with room for `len` chunks.
const fn class(len: usize) -> usize {
    if len <= 4 {
        len - 1
    } else {
        len.div_ceil(4) + 2
    }
}

/// Chunks of a block of `class`.
const fn size(class: usize) -> usize {
    if class < 4 {
        class + 1
    } else {
        (class - 2) * 4
    }
}

const _: () = assert!(size(CLASSES - 1) == LINES as usize && class(5) == 4 && size(4) == 8);

/// Allocator of blocks of chunks.
#[derive(Clone, Debug, Default)]
struct Arena {
    chunks: Vec<Chunk>,
    free: [Vec<u32>; CLASSES],
    /// Chunks of blocks that are in use.
    used: u64,
}

impl Arena {
    fn block(&mut self, class: usize) -> u32 {
        self.used += size(class) as u64;
        if let Some(start) = self.free[class].pop() {
            return start;
        }
        let start = self.chunks.len();
        self.chunks.resize(start + size(class), Chunk::default());
        u32::try_from(start).expect("the chunks of a log have 32-bit numbers")
    }

    fn release(&mut self, start: u32, class: usize) {
        self.used -= size(class) as u64;
        self.free[class].push(start);
    }

    /// Moves the first chunks of a block of `len` to one for `new_len`, if that is of another
    /// class. Returns its start.
    fn resize(&mut self, start: u32, len: usize, new_len: usize) -> u32 {
        let keep = len.min(new_len);
        if len > 0 && new_len > 0 && class(len) == class(new_len) {
            return start;
        }
        let new = if new_len > 0 {
            self.block(class(new_len))
        } else {
            0
        };
        if len > 0 {
            let from = start as usize;
            self.chunks.copy_within(from..from + keep, new as usize);
            self.release(start, class(len));
        }
        new
    }
}

/// The lists of the pages of each group, in ascending order of pages.
#[derive(Clone, Debug, Default)]
pub(super) struct Pages {
    arena: Arena,
    len: u64,
}

impl Pages {
    #[inline]
    pub(super) fn get(&self, start: u32, rank: usize) -> &Chunk {
        &self.arena.chunks[start as usize + rank]
    }

    pub(super) fn get_mut(&mut self, start: u32, rank: usize) -> &mut Chunk {
        &mut self.arena.chunks[start as usize + rank]
    }

    /// Inserts a page as number `rank` of a group of `len`. Returns the new start of the group.
    pub(super) fn insert(&mut self, start: u32, len: usize, rank: usize, list: Chunk) -> u32 {
        let start = self.arena.resize(start, len, len + 1);
        let group = &mut self.arena.chunks[start as usize..][..=len];
        group.copy_within(rank..len, rank + 1);
        group[rank] = list;
        self.len += 1;
        start
    }

    /// Removes page number `rank` from a group of `len`. Returns the new start of the group.
    pub(super) fn remove(&mut self, start: u32, len: usize, rank: usize) -> u32 {
        let group = &mut self.arena.chunks[start as usize..][..len];
        group.copy_within(rank + 1.., rank);
        self.len -= 1;
        self.arena.resize(start, len, len - 1)
    }

    /// Number of pages with logged lines.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Pages that the allocated blocks have room for.
    pub(super) fn room(&self) -> u64 {
        self.arena.used
    }
}

/// Chunk lists of more than one chunk; a list of one chunk is stored in place of its reference.
#[derive(Clone, Debug, Default)]
pub(super) struct Lists {
    arena: Arena,
}

impl Lists {
    #[inline]
    pub(super) fn get<'a>(&'a self, list: &'a Chunk) -> &'a [Chunk] {
        match list.lines {
            0 => &self.arena.chunks[list.slot as usize..][..usize::from(list.line)],
            _ => std::slice::from_ref(list),
        }
    }

    /// Replaces the lines of `new` in the list.
    pub(super) fn lay(&mut self, list: &mut Chunk, new: Chunk) {
        let mut merged = Merged::default();
        let mut pending = Some(new);
        for &old in self.get(list) {
            let (left, rest) = old.split(new.line);
            merged.add(left);
            if old.end() > new.line
                && let Some(new) = pending.take()
            {
                merged.add(new);
            }
            merged.add(rest.split(new.end()).1);
        }
        pending.into_iter().for_each(|new| merged.add(new));
        self.put(list, merged.chunks());
    }

    /// Removes the lines of `mask`. Returns whether any line is left; if not, the list is
    /// unchanged.
    pub(super) fn cut(&mut self, list: &mut Chunk, mask: u64) -> bool {
        let mut merged = Merged::default();
        for &old in self.get(list) {
            let lines = (old.line..old.end()).filter(|line| mask >> line & 1 == 0);
            for line in lines {
                merged.add(Chunk {
                    line,
                    lines: 1,
                    slot: old.slot + u32::from(line - old.line),
                });
            }
        }
        if merged.len > 0 {
            self.put(list, merged.chunks());
        }
        merged.len > 0
    }

    fn put(&mut self, list: &mut Chunk, chunks: &[Chunk]) {
        let before = match list.lines {
            0 => usize::from(list.line),
            _ => 0,
        };
        if let [only] = chunks {
            self.release(*list);
            *list = *only;
            return;
        }
        let start = self.arena.resize(list.slot, before, chunks.len());
        self.arena.chunks[start as usize..][..chunks.len()].copy_from_slice(chunks);
        *list = Chunk {
            line: chunks.len() as u8,
            lines: 0,
            slot: start,
        };
    }

    /// Frees the chunks of a list.
    pub(super) fn release(&mut self, list: Chunk) {
        if list.lines == 0 {
            self.arena.release(list.slot, class(usize::from(list.line)));
        }
    }

    /// Chunks that the allocated blocks have room for.
    pub(super) fn room(&self) -> u64 {
        self.arena.used
    }
}
