//! Space: chunks of addresses, their block groups, and the free ranges of each group.
//!
//! Invariants:
//! - Space that is given out was free. A pinned range is free again only once the next commit
//!   has ended, so nothing that the last commit leads to is overwritten.
//! - Space that superblocks occupy is never given out.
//! - No more bytes of contents are promised than are free, and no more bytes of nodes are
//!   held; both are counters, not reserved ranges.
//= btrfs-format 3.1

use crate::format::superblock::{KEPT, PLACES};
use crate::format::tree::Chunk;
use crate::format::{NODE_BYTES, SECTOR_BYTES, group};
use std::collections::{BTreeMap, BTreeSet};

/// Ranges by their start, each with its length; ranges that touch are one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges {
    by_start: BTreeMap<u64, u64>,
    by_len: BTreeSet<(u64, u64)>,
    total: u64,
}

impl Ranges {
    fn put(&mut self, start: u64, len: u64) {
        self.by_start.insert(start, len);
        self.by_len.insert((len, start));
        self.total += len;
    }

    fn take(&mut self, start: u64) -> u64 {
        let len = self.by_start.remove(&start).unwrap_or(0);
        self.by_len.remove(&(len, start));
        self.total -= len;
        len
    }

    /// Adds `len` bytes at `start`; parts of the range may be present already.
    pub(crate) fn add(&mut self, start: u64, len: u64) {
        let (mut from, mut to) = (start, start + len);
        let before = self.by_start.range(..start).next_back();
        if let Some((&at, &len)) = before
            && at + len >= start
        {
            from = at;
            to = to.max(at + self.take(at));
        }
        while let Some((&at, _)) = self.by_start.range(from..=to).next() {
            to = to.max(at + self.take(at));
        }
        if to > from {
            self.put(from, to - from);
        }
    }

    /// Removes the `len` bytes at `start`, as far as they are present; returns how many were.
    pub(crate) fn remove(&mut self, start: u64, len: u64) -> u64 {
        let (end, before) = (start + len, self.total);
        let first = self.by_start.range(..start).next_back();
        let first = first.filter(|(at, len)| **at + **len > start);
        let mut met: Vec<u64> = first.map(|(at, _)| *at).into_iter().collect();
        met.extend(self.by_start.range(start..end).map(|(at, _)| *at));
        for at in met {
            let len = self.take(at);
            if at < start {
                self.put(at, start - at);
            }
            if at + len > end {
                self.put(end, at + len - end);
            }
        }
        before - self.total
    }

    /// Whether any range contains `at`.
    pub(crate) fn has(&self, at: u64) -> bool {
        let last = self.by_start.range(..=at).next_back();
        last.is_some_and(|(start, len)| start + len > at)
    }

    /// The parts of `span` that no range covers, in ascending order.
    pub(crate) fn gaps(&self, span: &std::ops::Range<u64>) -> Vec<std::ops::Range<u64>> {
        let (mut gaps, mut at) = (Vec::new(), span.start);
        let before = self.by_start.range(..span.start).next_back();
        let later = self.by_start.range(span.clone());
        for (start, len) in before.into_iter().chain(later) {
            if *start > at {
                gaps.push(at..*start);
            }
            at = at.max(start + len);
        }
        if at < span.end {
            gaps.push(at..span.end);
        }
        gaps
    }

    /// Number of maximal ranges; ranges that touch count as one.
    pub(crate) fn count(&self) -> u64 {
        self.by_start.len() as u64
    }

    pub(crate) const fn total(&self) -> u64 {
        self.total
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.by_start.iter().map(|(start, len)| (*start, *len))
    }

    /// Start of the first range of at least `len` bytes among the next few at or after `from`;
    /// otherwise of the smallest range that is large enough.
    fn fit(&self, from: u64, len: u64) -> Option<u64> {
        /// Ranges examined for a near fit before the best fit is taken; our own choice.
        const NEAR: usize = 32;
        let near = self.by_start.range(from..).take(NEAR);
        let near = near.filter(|(_, has)| **has >= len).map(|(at, _)| *at);
        let best = || self.by_len.range((len, 0)..).next().map(|(_, at)| *at);
        near.into_iter().next().or_else(best)
    }

    /// Start and length of the largest range.
    fn largest(&self) -> Option<(u64, u64)> {
        self.by_len.last().map(|(len, start)| (*start, *len))
    }
}

/// A block group: a chunk, its usage, and its free ranges.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) chunk: Chunk,
    /// Bytes that extents in the tree of extents occupy here.
    pub(crate) used: u64,
    /// Whether the item of this group on the medium is out of date.
    pub(crate) changed: bool,
    free: Ranges,
    /// End of the last allocation: the next search starts here.
    cursor: u64,
}

impl Group {
    /// A group whose chunk is free except for the ranges that superblocks occupy.
    fn new(chunk: Chunk) -> Self {
        let mut free = Ranges::default();
        free.add(chunk.start, chunk.len);
        for (start, len) in kept(&chunk) {
            free.remove(start, len);
        }
        Self {
            used: 0,
            changed: false,
            cursor: chunk.start,
            free,
            chunk,
        }
    }
}

/// Ranges of `chunk` that superblocks occupy in any copy: address and length.
fn kept(chunk: &Chunk) -> impl Iterator<Item = (u64, u64)> + '_ {
    chunk.copies.iter().flat_map(move |&copy| {
        PLACES.into_iter().filter_map(move |place| {
            let from = place.max(copy);
            let to = (place + KEPT).min(copy + chunk.len);
            (from < to).then(|| (chunk.start + (from - copy), to - from))
        })
    })
}

/// Purpose of an allocation; selects the block groups that may serve it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Use {
    /// Block groups for contents of files.
    Data,
    /// Nodes of all trees but that of chunks.
    Nodes,
    /// Nodes of the tree of chunks.
    System,
}

impl Use {
    /// The purpose that a block group with `flags` serves; data unless the flags say otherwise.
    pub(crate) const fn of(flags: u64) -> Self {
        match flags & group::WHAT {
            group::SYSTEM => Self::System,
            group::METADATA => Self::Nodes,
            _ => Self::Data,
        }
    }

    pub(crate) const fn flags(self) -> u64 {
        match self {
            Self::Data => group::DATA,
            Self::Nodes => group::METADATA,
            Self::System => group::SYSTEM,
        }
    }
}

/// Space of the device: chunks, free ranges and reservations.
#[derive(Debug, Default)]
pub(crate) struct Space {
    groups: BTreeMap<u64, Group>,
    /// Ranges of the device outside all chunks, in device addresses.
    unallocated: Ranges,
    /// Ranges that the next commit frees.
    pinned: Ranges,
    /// Bytes that the commit in progress frees; 0 if there is none.
    freeing: u64,
    /// Bytes of contents that are promised and not allocated yet.
    promised: u64,
    /// Bytes of nodes that operations under way may need.
    held: u64,
}

/// Bytes at the start of the device that no chunk may use.
pub(crate) const FIRST: u64 = 1 << 20;

impl Space {
    /// The space of a device of `total_bytes`, rounded down to sectors, without chunks.
    pub(crate) fn new(total_bytes: u64) -> Self {
        let mut space = Self::default();
        let end = total_bytes / SECTOR_BYTES * SECTOR_BYTES;
        if end > FIRST {
            space.unallocated.add(FIRST, end - FIRST);
        }
        space
    }

    /// Adds a chunk with all its space free. Returns false if it overlaps another chunk or lies
    /// outside the allocatable part of the device.
    pub(crate) fn add_chunk(&mut self, chunk: Chunk) -> bool {
        let before = self.groups.range(..chunk.start + chunk.len).next_back();
        if before.is_some_and(|(_, g)| g.chunk.start + g.chunk.len > chunk.start) {
            return false;
        }
        for copy in &chunk.copies {
            if self.unallocated.remove(*copy, chunk.len) != chunk.len {
                return false;
            }
        }
        self.groups.insert(chunk.start, Group::new(chunk));
        true
    }

    /// Resolves an address to device addresses. Returns the start of each copy of its chunk,
    /// the offset of `start` in the chunk, and the bytes from there to the end of the chunk.
    /// `None` if no chunk contains `start`.
    pub(crate) fn place(&self, start: u64) -> Option<(&[u64], u64, u64)> {
        let group = self.group_of(start)?;
        let skip = start - group.chunk.start;
        Some((&group.chunk.copies, skip, group.chunk.len - skip))
    }

    pub(crate) fn group_of(&self, at: u64) -> Option<&Group> {
        let (_, group) = self.groups.range(..=at).next_back()?;
        (at < group.chunk.start + group.chunk.len).then_some(group)
    }

    fn group_mut(&mut self, at: u64) -> Option<&mut Group> {
        let (_, group) = self.groups.range_mut(..=at).next_back()?;
        (at < group.chunk.start + group.chunk.len).then_some(group)
    }

    pub(crate) fn groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.values()
    }

    fn groups_of(&self, kind: Use) -> impl Iterator<Item = &Group> {
        let is = move |group: &&Group| Use::of(group.chunk.flags) == kind;
        self.groups.values().filter(is)
    }

    /// Marks an extent found on the medium as used. Returns false if any of it is in use
    /// already or outside its chunk.
    pub(crate) fn occupy(&mut self, start: u64, len: u64) -> bool {
        let Some(group) = self.group_mut(start) else {
            return false;
        };
        let fits = len <= group.chunk.start + group.chunk.len - start;
        fits && group.free.remove(start, len) == len
    }

    /// Counts an extent that enters the tree of extents (`more`) or leaves it, in the usage of
    /// its block group.
    pub(crate) fn account(&mut self, start: u64, len: u64, more: bool) {
        if let Some(group) = self.group_mut(start) {
            group.used = if more {
                group.used.saturating_add(len)
            } else {
                group.used.saturating_sub(len)
            };
            group.changed = true;
        }
    }

    /// Sets the usage of the block group at `start` at a mount. Returns false if there is no
    /// such group or `used` exceeds its length.
    pub(crate) fn set_used(&mut self, start: u64, used: u64) -> bool {
        let group = self.groups.get_mut(&start);
        let group = group.filter(|group| used <= group.chunk.len);
        group.map(|group| group.used = used).is_some()
    }

    /// Takes the block groups whose items are out of date, as (start, length, used, flags), and
    /// marks them up to date.
    pub(crate) fn take_changed(&mut self) -> Vec<(u64, u64, u64, u64)> {
        let changed = self.groups.values_mut().filter(|group| group.changed);
        let said = changed.map(|group| {
            group.changed = false;
            let Chunk {
                start, len, flags, ..
            } = group.chunk;
            (start, len, group.used, flags)
        });
        said.collect()
    }

    /// Allocates one node; `None` if no group of this kind has room for it.
    pub(crate) fn take_node(&mut self, kind: Use) -> Option<u64> {
        let is = |group: &&mut Group| Use::of(group.chunk.flags) == kind;
        let mut groups = self.groups.values_mut().filter(is);
        groups.find_map(|group| {
            let at = group.free.fit(group.cursor, NODE_BYTES)?;
            group.free.remove(at, NODE_BYTES);
            group.cursor = at + NODE_BYTES;
            Some(at)
        })
    }

    /// Allocates up to `len` contiguous bytes for contents: the largest free range if none holds
    /// `len`. Returns start and length; `None` if nothing is free.
    pub(crate) fn take_data(&mut self, len: u64) -> Option<(u64, u64)> {
        let is = |group: &&mut Group| Use::of(group.chunk.flags) == Use::Data;
        for group in self.groups.values_mut().filter(is) {
            if let Some(at) = group.free.fit(group.cursor, len) {
                group.free.remove(at, len);
                group.cursor = at + len;
                return Some((at, len));
            }
        }
        let largest = self.groups_of(Use::Data).filter_map(|g| g.free.largest());
        let (at, len) = largest.max_by_key(|(at, len)| (*len, std::cmp::Reverse(*at)))?;
        let group = self.group_mut(at)?;
        group.free.remove(at, len);
        Some((at, len))
    }

    /// Frees a range at once. Nothing on the medium may lead to it.
    pub(crate) fn give_back(&mut self, start: u64, len: u64) {
        if let Some(group) = self.group_mut(start) {
            group.free.add(start, len);
        }
    }

    /// Frees a range that the medium may still lead to, once the next commit has ended.
    pub(crate) fn pin(&mut self, start: u64, len: u64) {
        self.pinned.add(start, len);
    }

    /// Takes the pinned ranges for a commit that begins; it returns them with [`Self::unpin`].
    pub(crate) fn take_pinned(&mut self) -> Ranges {
        let pinned = std::mem::take(&mut self.pinned);
        self.freeing = pinned.total();
        pinned
    }

    /// Makes the ranges of a finished commit free, except where superblocks are.
    pub(crate) fn unpin(&mut self, freed: &Ranges) {
        self.freeing = 0;
        for (mut start, len) in freed.iter() {
            let end = start + len;
            // One range may span groups, since ranges that touch are merged.
            while start < end {
                let Some(group) = self.group_mut(start) else {
                    break;
                };
                let to = end.min(group.chunk.start + group.chunk.len);
                group.free.add(start, to - start);
                for (kept, len) in kept(&group.chunk.clone()) {
                    group.free.remove(kept, len);
                }
                start = to;
            }
        }
    }

    /// Free bytes in the block groups of this kind, promised and held bytes included.
    pub(crate) fn free(&self, kind: Use) -> u64 {
        self.groups_of(kind).map(|group| group.free.total()).sum()
    }

    /// Total length in bytes of the block groups of this kind.
    pub(crate) fn size(&self, kind: Use) -> u64 {
        self.groups_of(kind).map(|group| group.chunk.len).sum()
    }

    /// Bytes that extents occupy in the block groups of this kind.
    pub(crate) fn used(&self, kind: Use) -> u64 {
        self.groups_of(kind).map(|group| group.used).sum()
    }

    /// Bytes of this kind that the next commit frees.
    pub(crate) fn pinned(&self, kind: Use) -> u64 {
        let of = |at: u64| self.group_of(at).map(|group| Use::of(group.chunk.flags));
        let own = self.pinned.iter().filter(|(at, _)| of(*at) == Some(kind));
        own.map(|(_, len)| len).sum()
    }

    /// Whether the next commit or the one in progress frees anything.
    pub(crate) fn has_pinned(&self) -> bool {
        self.pinned.total() + self.freeing > 0
    }

    /// Bytes of the device that are in no chunk.
    pub(crate) const fn unallocated(&self) -> u64 {
        self.unallocated.total()
    }

    pub(crate) const fn promised(&self) -> u64 {
        self.promised
    }

    pub(crate) const fn held(&self) -> u64 {
        self.held
    }

    /// Promises `bytes` of contents. Returns false if fewer are free and unpromised.
    pub(crate) fn promise(&mut self, bytes: u64) -> bool {
        let fits = self.free(Use::Data) >= self.promised + bytes;
        if fits {
            self.promised += bytes;
        }
        fits
    }

    /// Ends the promise of `bytes`: they were allocated, or are no longer needed.
    pub(crate) fn release(&mut self, bytes: u64) {
        debug_assert!(self.promised >= bytes, "nothing is released twice");
        self.promised = self.promised.saturating_sub(bytes);
    }

    /// Holds `bytes` of nodes for an operation. Returns false unless they are free beyond the
    /// bytes already held and the `debt` reserved for the commit.
    pub(crate) fn hold(&mut self, bytes: u64, debt: u64) -> bool {
        let fits = self.free(Use::Nodes) >= self.held + bytes + debt;
        if fits {
            self.held += bytes;
        }
        fits
    }

    /// Returns the `bytes` of nodes that an operation held, at its end.
    pub(crate) fn let_go(&mut self, bytes: u64) {
        debug_assert!(self.held >= bytes, "nothing is let go twice");
        self.held = self.held.saturating_sub(bytes);
    }

    /// Start of the next chunk in the file system's address space: the end of the last one.
    fn next_address(&self) -> u64 {
        let last = self.groups.values().next_back();
        last.map_or(FIRST, |group| group.chunk.start + group.chunk.len)
    }

    /// Plans a chunk of up to `len` bytes, in two copies if `dup`, shrunk to the room on the
    /// device in units of 64 KiB. `None` if less than four units fit.
    pub(crate) fn plan_chunk(&self, kind: Use, len: u64, dup: bool) -> Option<Chunk> {
        const UNIT: u64 = 65_536;
        let mut holes: Vec<(u64, u64)> = self.unallocated.iter().collect();
        holes.sort_by_key(|(start, len)| (std::cmp::Reverse(*len), *start));
        let (start, room) = *holes.first()?;
        let second = holes.get(1).map_or(0, |(_, len)| *len);
        let each = if dup {
            (room / 2).max(second.min(room))
        } else {
            room
        };
        let len = len.min(each) / UNIT * UNIT;
        if len < 4 * UNIT || self.next_address().checked_add(len).is_none() {
            return None;
        }
        let fitting = || holes.iter().filter(|(_, room)| *room >= len);
        let first = fitting().map(|(start, _)| *start).min().unwrap_or(start);
        let mut copies = vec![first];
        if dup {
            let own = holes.iter().find(|(start, _)| *start == first)?;
            let other = fitting().map(|(start, _)| *start).find(|at| *at != first);
            let behind = (own.1 >= 2 * len).then_some(first + len);
            copies.push(behind.or(other)?);
        }
        Some(Chunk {
            start: self.next_address(),
            len,
            flags: kind.flags() | if dup { group::DUP } else { 0 },
            copies,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_match_a_bitmap_under_random_changes() {
        let mut rng = sim::Seed(1).stream("ranges");
        let (mut ranges, mut model) = (Ranges::default(), [false; 200]);
        for _ in 0..5_000 {
            let (start, len) = (rng.below(180), 1 + rng.below(20));
            let add = rng.below(2) == 0;
            let span = &mut model[start as usize..(start + len) as usize];
            let there = span.iter().filter(|there| **there).count() as u64;
            span.fill(add);
            if add {
                ranges.add(start, len);
            } else {
                assert_eq!(ranges.remove(start, len), there);
            }
            let held: Vec<u64> = ranges.iter().flat_map(|(s, l)| s..s + l).collect();
            let expected = (0..200).filter(|at| model[*at as usize]);
            assert_eq!(held, expected.collect::<Vec<_>>());
            assert_eq!(ranges.total(), held.len() as u64);
        }
    }

    fn data(start: u64, len: u64, copy: u64) -> Chunk {
        Chunk {
            start,
            len,
            flags: group::DATA,
            copies: vec![copy],
        }
    }

    #[test]
    fn allocation_skips_superblocks() {
        let mut space = Space::new(128 << 20);
        assert!(space.add_chunk(data(60 << 20, 8 << 20, 60 << 20)));
        assert_eq!(space.free(Use::Data), (8 << 20) - KEPT);
        let mut taken = Ranges::default();
        while let Some((start, len)) = space.take_data(1 << 20) {
            taken.add(start, len);
        }
        assert_eq!(taken.total(), (8 << 20) - KEPT);
        assert_eq!(taken.remove(64 << 20, KEPT), 0);
        assert!(!space.add_chunk(data(64 << 20, 8 << 20, 80 << 20)));
    }

    #[test]
    fn pinned_range_is_free_after_the_commit() {
        let mut space = Space::new(64 << 20);
        assert!(space.add_chunk(data(1 << 20, 8 << 20, 1 << 20)));
        let (start, len) = space.take_data(8 << 20).unwrap();
        space.pin(start, len);
        assert_eq!(
            (space.take_data(4096), space.pinned(Use::Data)),
            (None, len)
        );
        let freed = space.take_pinned();
        space.unpin(&freed);
        assert_eq!(space.free(Use::Data), len);
    }

    #[test]
    fn chunk_plan_is_cut_to_the_room_of_the_device() {
        let mut space = Space::new(32 << 20);
        let chunk = space.plan_chunk(Use::Nodes, 8 << 20, true).unwrap();
        assert_eq!(chunk.copies, [1 << 20, 9 << 20]);
        assert!(space.add_chunk(chunk));
        let rest = space.plan_chunk(Use::Data, 1 << 30, false).unwrap();
        assert_eq!((rest.len, rest.start), (15 << 20, 9 << 20));
        assert!(space.add_chunk(rest));
        assert_eq!(space.plan_chunk(Use::Data, 1 << 30, false), None);
    }
}
