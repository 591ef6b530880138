//! Pieces of files: lookup, cutting and insertion.
//!
//! An extent is allocated once, as a whole, and a piece of a file refers to a part of it. An
//! overwrite that copies cuts its range out of that piece, which leaves two pieces if the range
//! was in the middle. The whole extent stays allocated as long as any part of it is in use.
//!
//! Invariants: pieces of a file do not overlap; each is one reference to its extent.
//= btrfs-format 4.5

use crate::forest::{Forest, Tree, Try};
use crate::format::extent::{self, Part, Piece};
use crate::format::{Key, SECTOR_BYTES, kind, node};
use crate::fs::Core;
use crate::persist::Persist;
use std::ops::Range;
use vfs::{Errno, Result};

/// A piece of a file, decoded from its item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Contents that lie in the item itself, from the start of the file.
    Inline(Vec<u8>),
    /// A part of an extent, at this byte offset of the file.
    Part(u64, Part),
}

impl Found {
    /// Byte range of the file that this piece covers, in whole sectors.
    pub(crate) fn span(&self) -> Range<u64> {
        match self {
            Self::Inline(_) => 0..SECTOR_BYTES,
            Self::Part(at, part) => *at..at + part.bytes,
        }
    }

    fn of(key: Key, data: &[u8]) -> Try<Self> {
        // Compressed or encoded contents of other writers are not supported.
        let piece = extent::piece(data).ok_or(Errno::EOPNOTSUPP)?;
        Ok(match piece {
            Piece::Inline(bytes) => Self::Inline(bytes.to_vec()),
            Piece::Extent(part) => Self::Part(key.offset, part),
        })
    }
}

pub(crate) const fn piece_key(number: u64, at: u64) -> Key {
    Key::new(number, kind::EXTENT_DATA, at)
}

impl Forest {
    /// The first piece of a file that ends after byte `at`.
    pub(crate) fn piece_from(&self, tree: &Tree, number: u64, at: u64) -> Try<Option<Found>> {
        let is_piece = |key: Key| (key.object, key.kind) == (number, kind::EXTENT_DATA);
        let before = self.last_until(tree, piece_key(number, at), |key, data| {
            is_piece(key).then(|| Found::of(key, data))
        })?;
        if let Some(found) = before.flatten().transpose()?
            && found.span().end > at
        {
            return Ok(Some(found));
        }
        let Some(next) = piece_key(number, at).next() else {
            return Ok(None);
        };
        let next = self.first_from(tree, next, |key, data| {
            is_piece(key).then(|| Found::of(key, data))
        })?;
        next.flatten().transpose()
    }

    /// The first pieces of a file that overlap `span`, as far as one leaf holds them.
    fn pieces_in_leaf(&self, tree: &Tree, number: u64, span: &Range<u64>) -> Try<Vec<Found>> {
        let Some(first) = self.piece_from(tree, number, span.start)? else {
            return Ok(Vec::new());
        };
        let key = piece_key(number, first.span().start);
        let Some((leaf, slot)) = self.leaf_from(tree, key)? else {
            return Ok(Vec::new());
        };
        let bytes = leaf.bytes();
        let mut some = Vec::new();
        for slot in slot..node::items(&bytes) {
            let key = node::key(&bytes, slot);
            let own = (key.object, key.kind) == (number, kind::EXTENT_DATA);
            if !own || key.offset >= span.end {
                break;
            }
            some.push(Found::of(key, node::data(&bytes, slot))?);
        }
        Ok(some)
    }

    /// Cuts `span` out of the first piece that overlaps it. Returns the bytes of contents cut (0
    /// for a hole), or `None` if no piece overlaps.
    fn cut_one(&self, tree: &Tree, number: u64, span: &Range<u64>) -> Try<Option<u64>> {
        let Some(found) = self.piece_from(tree, number, span.start)? else {
            return Ok(None);
        };
        if found.span().start >= span.end {
            return Ok(None);
        }
        let (at, part) = match found {
            Found::Inline(bytes) => {
                self.remove(tree, piece_key(number, 0))?;
                return Ok(Some(bytes.len() as u64));
            }
            Found::Part(at, part) => (at, part),
        };
        let end = at + part.bytes;
        let (from, to) = (at.max(span.start), end.min(span.end));
        let key = piece_key(number, at);
        let (before, behind) = (part.until(from - at), part.from(to - at));
        let references = match (from > at, to < end) {
            (false, false) => {
                self.remove(tree, key)?;
                -1
            }
            (true, false) => {
                self.set(tree, key, &before.item())?;
                0
            }
            (false, true) => {
                self.move_item(tree, key, piece_key(number, to), &behind.item())?;
                0
            }
            (true, true) => {
                self.fetch_for_update(tree, key)?;
                self.insert(tree, piece_key(number, to), &behind.item())?;
                self.set(tree, key, &before.item())?;
                1
            }
        };
        if !part.is_hole() && !tree.is_log() {
            let by = part.owner(tree.id, number, at);
            match references {
                1 => self
                    .refs
                    .borrow_mut()
                    .add(part.bytenr, part.len, None, by, 1),
                -1 => self.drop_ref(part.bytenr, part.len, None, by, 1),
                _ => {}
            }
        }
        Ok(Some(if part.is_hole() { 0 } else { to - from }))
    }

    /// Inserts a piece at byte `at` of a file, where the file has none, and adds a reference to
    /// its extent.
    pub(crate) fn put_part(&self, tree: &Tree, number: u64, at: u64, part: Part) -> Try<()> {
        self.insert(tree, piece_key(number, at), &part.item())?;
        if !part.is_hole() && !tree.is_log() {
            let by = part.owner(tree.id, number, at);
            self.refs
                .borrow_mut()
                .add(part.bytenr, part.len, None, by, 1);
        }
        Ok(())
    }

    /// Whether the extent of `part`, which the file has at `at`, has or may have other
    /// references. As in Linux, a part that is no newer than the last snapshot counts as shared.
    pub(crate) fn is_shared(&self, tree: &Tree, number: u64, at: u64, part: Part) -> Try<bool> {
        if part.generation <= tree.last_snapshot.get() {
            return Ok(true);
        }
        let found = self.extent(part.bytenr, None, part.len)?;
        let mine = part.owner(tree.id, number, at);
        let refs = self.refs.borrow();
        let pending = refs.of(part.bytenr);
        let newly =
            pending.is_some_and(|change| change.by.iter().any(|(by, n)| *by != mine && *n > 0));
        let known = pending.is_some_and(|change| change.new);
        drop(refs);
        let Some((_, found)) = found else {
            return Ok(newly || !known);
        };
        let others = self.referrers(part.bytenr, &found)?;
        Ok(newly || others.iter().any(|(by, _)| *by != mine))
    }
}

impl<S: Persist> Core<S> {
    /// The pieces of a file that overlap `span`, in ascending order.
    pub(crate) async fn pieces(
        &self,
        tree: &Tree,
        number: u64,
        span: Range<u64>,
    ) -> Result<Vec<Found>> {
        let (mut all, mut left) = (Vec::new(), span);
        while left.start < left.end {
            let some = self.with(|| self.forest.pieces_in_leaf(tree, number, &left));
            let some = some.await?;
            let Some(last) = some.last() else { break };
            left.start = last.span().end;
            all.extend(some);
        }
        Ok(all)
    }

    /// Cuts `span` out of a file, within an operation. Returns the bytes of contents cut,
    /// without holes.
    pub(crate) async fn cut(&self, tree: &Tree, number: u64, span: Range<u64>) -> Result<u64> {
        let mut cut = 0;
        let forest = &self.forest;
        while let Some(bytes) = self.with(|| forest.cut_one(tree, number, &span)).await? {
            cut = bytes.saturating_add(cut);
        }
        Ok(cut)
    }
}
