//! Cache of a file's block map in memory, so that a warm lookup touches no buffer.
//!
//! Invariants: pieces do not overlap and agree with the extent tree. Blocks without a piece are
//! unknown and must be looked up in the tree.

use crate::format::extent::Entry;
use std::collections::BTreeMap;

/// Allocation state of a block of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Not allocated; reads as zeros.
    Hole,
    /// Allocated and written, at this block of the medium.
    Written(u64),
    /// Allocated at this block of the medium and never written; reads as zeros.
    Unwritten(u64),
}

impl State {
    /// State of the block `by` blocks later in the same piece.
    fn later(self, by: u64) -> Self {
        match self {
            Self::Hole => Self::Hole,
            Self::Written(block) => Self::Written(block + by),
            Self::Unwritten(block) => Self::Unwritten(block + by),
        }
    }

    /// State of the first block of a tree entry.
    pub(crate) fn of(entry: &Entry) -> Self {
        if entry.unwritten {
            Self::Unwritten(entry.start)
        } else {
            Self::Written(entry.start)
        }
    }
}

/// Blocks of a file in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Length of the piece in blocks.
    pub(crate) len: u64,
    /// State of the first block; later blocks follow on the medium.
    pub(crate) state: State,
}

/// Most pieces of a file in memory: 65,536, some 3 MiB. When they are exceeded, all pieces are
/// dropped and looked up again.
const MOST: usize = 1 << 16;

/// The known pieces of a file, by their first block.
#[derive(Default)]
pub(crate) struct ExtentCache {
    pieces: BTreeMap<u64, Piece>,
}

impl ExtentCache {
    /// The known piece from `block` on; `None` if the block is unknown.
    #[inline]
    pub(crate) fn get(&self, block: u64) -> Option<Piece> {
        let (start, piece) = self.pieces.range(..=block).next_back()?;
        let skip = block - start;
        (skip < piece.len).then(|| Piece {
            len: piece.len - skip,
            state: piece.state.later(skip),
        })
    }

    /// Records that the blocks in `from..to` are in `state`.
    pub(crate) fn set(&mut self, from: u64, to: u64, state: State) {
        if from >= to {
            return;
        }
        self.forget(from, to);
        if self.pieces.len() >= MOST {
            self.pieces.clear();
        }
        let (mut start, mut len, mut first) = (from, to - from, state);
        if let Some((&earlier, before)) = self.pieces.range(..from).next_back()
            && earlier + before.len == from
            && before.state.later(before.len) == state
        {
            (start, len, first) = (earlier, before.len + len, before.state);
        }
        if let Some(after) = self.pieces.get(&to).copied()
            && first.later(len) == after.state
        {
            len += after.len;
            self.pieces.remove(&to);
        }
        self.pieces.insert(start, Piece { len, state: first });
    }

    /// Learns the entries of a leaf that covers `from..to`.
    pub(crate) fn learn(&mut self, from: u64, to: u64, entries: &[Entry]) {
        let mut at = from;
        for entry in entries {
            self.set(at, u64::from(entry.logical), State::Hole);
            self.set(u64::from(entry.logical), entry.end(), State::of(entry));
            at = entry.end();
        }
        self.set(at, to, State::Hole);
    }

    fn forget(&mut self, from: u64, to: u64) {
        if let Some((&start, &piece)) = self.pieces.range(..from).next_back()
            && start + piece.len > from
        {
            let head = Piece {
                len: from - start,
                ..piece
            };
            self.pieces.insert(start, head);
            self.keep_end(start, piece, to);
        }
        while let Some((&start, &piece)) = self.pieces.range(from..to).next() {
            self.pieces.remove(&start);
            self.keep_end(start, piece, to);
        }
    }

    /// Puts back the part of a piece that lies behind `to`.
    fn keep_end(&mut self, start: u64, piece: Piece, to: u64) {
        let end = start + piece.len;
        if end > to {
            let rest = Piece {
                len: end - to,
                state: piece.state.later(to - start),
            };
            self.pieces.insert(to, rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_set_in_the_cache_are_found() {
        let mut rng = sim::Seed(5).stream("pieces");
        let mut cache = ExtentCache::default();
        let mut model = [None; 64];
        for _ in 0..20_000 {
            let from = rng.below(64);
            let to = from + 1 + rng.below(64 - from);
            let base = 100 + from * rng.below(3);
            let state = match rng.below(3) {
                0 => State::Hole,
                1 => State::Written(base),
                _ => State::Unwritten(base),
            };
            cache.set(from, to, state);
            for block in from..to {
                model[block as usize] = Some(state.later(block - from));
            }
            for (block, expected) in model.iter().enumerate() {
                let found = cache.get(block as u64).map(|piece| piece.state);
                assert_eq!(found, *expected);
            }
        }
    }
}
