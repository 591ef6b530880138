//! Space: chunks of addresses, the block groups in them, and what is free in each.
//!
//! Invariants: what is given out was free, and is free again only once a commit has ended
//! after it was given back, so that nothing is written over that the last commit leads to;
//! nothing is given out where superblocks are. Promises are kept by counting: of each kind
//! no more is promised than is free.
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

    /// Adds a range, parts of which may be in it already.
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

    /// Takes a range out, as far as it is in it; gives how much that was.
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

    /// Whether a range has `at`.
    pub(crate) fn has(&self, at: u64) -> bool {
        let last = self.by_start.range(..=at).next_back();
        last.is_some_and(|(start, len)| start + len > at)
    }

    /// What of `span` is in none of them.
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

    /// How many ranges there are.
    pub(crate) fn count(&self) -> u64 {
        self.by_start.len() as u64
    }

    pub(crate) const fn total(&self) -> u64 {
        self.total
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.by_start.iter().map(|(start, len)| (*start, *len))
    }

    /// The first range at or behind `from` of at least `len`, among the next few; else the
    /// smallest of all that is large enough.
    fn fit(&self, from: u64, len: u64) -> Option<u64> {
        /// Ranges that are looked at for one that is near, a choice of ours.
        const NEAR: usize = 32;
        let near = self.by_start.range(from..).take(NEAR);
        let near = near.filter(|(_, has)| **has >= len).map(|(at, _)| *at);
        let best = || self.by_len.range((len, 0)..).next().map(|(_, at)| *at);
        near.into_iter().next().or_else(best)
    }

    /// The largest range.
    fn largest(&self) -> Option<(u64, u64)> {
        self.by_len.last().map(|(len, start)| (*start, *len))
    }
}

/// A block group.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) chunk: Chunk,
    /// Bytes of extents in it.
    pub(crate) used: u64,
    /// Whether its item says something else.
    pub(crate) changed: bool,
    free: Ranges,
    /// Where the last range was given out.
    cursor: u64,
}

impl Group {
    /// A chunk all of which is free, but for where superblocks are.
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

/// Ranges of a chunk where superblocks are.
fn kept(chunk: &Chunk) -> impl Iterator<Item = (u64, u64)> + '_ {
    chunk.copies.iter().flat_map(move |&copy| {
        PLACES.into_iter().filter_map(move |place| {
            let from = place.max(copy);
            let to = (place + KEPT).min(copy + chunk.len);
            (from < to).then(|| (chunk.start + (from - copy), to - from))
        })
    })
}

/// What space is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Use {
    /// Contents of files.
    Data,
    /// Nodes of all trees but that of chunks.
    Nodes,
    /// Nodes of the tree of chunks.
    System,
}

impl Use {
    /// Of a block group with these flags.
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

/// All space.
#[derive(Debug, Default)]
pub(crate) struct Space {
    groups: BTreeMap<u64, Group>,
    /// What the device has that is in no chunk, by addresses of the device.
    unallocated: Ranges,
    /// What a commit frees.
    pinned: Ranges,
    /// Bytes that a commit which is on its way frees.
    freeing: u64,
    /// Bytes of contents that were promised and have no place yet.
    promised: u64,
    /// Bytes of nodes that operations under way may need.
    held: u64,
}

/// Bytes at the start of the device that are in no chunk.
pub(crate) const FIRST: u64 = 1 << 20;

impl Space {
    /// The space of a device of so many bytes, without a chunk.
    pub(crate) fn new(total_bytes: u64) -> Self {
        let mut space = Self::default();
        let end = total_bytes / SECTOR_BYTES * SECTOR_BYTES;
        if end > FIRST {
            space.unallocated.add(FIRST, end - FIRST);
        }
        space
    }

    /// Takes in a chunk; false if it overlaps another one, or lies where nothing is.
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

    /// Where the addresses from `start` on are on the device, for each copy, and how many
    /// bytes of them are there at least; none if they are nowhere.
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

    /// An extent that is there takes its place; false if it is taken already, or nowhere.
    pub(crate) fn occupy(&mut self, start: u64, len: u64) -> bool {
        let Some(group) = self.group_mut(start) else {
            return false;
        };
        let fits = len <= group.chunk.start + group.chunk.len - start;
        fits && group.free.remove(start, len) == len
    }

    /// An extent has become one that the tree of extents has, or is none any more.
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

    /// Says how much of the block group at `start` is used, at a mount; false if that cannot
    /// be.
    pub(crate) fn set_used(&mut self, start: u64, used: u64) -> bool {
        let group = self.groups.get_mut(&start);
        let group = group.filter(|group| used <= group.chunk.len);
        group.map(|group| group.used = used).is_some()
    }

    /// Block groups whose items are not up to date: start, length, used and flags.
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

    /// Gives out the place of a node.
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

    /// Gives out up to `len` bytes for contents, in one piece: as much as there is in one
    /// place if that is less.
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

    /// Takes back what was given out, and what nothing leads to that was ever written.
    pub(crate) fn give_back(&mut self, start: u64, len: u64) {
        if let Some(group) = self.group_mut(start) {
            group.free.add(start, len);
        }
    }

    /// Takes back what something on the medium may lead to, for when a commit has ended.
    pub(crate) fn pin(&mut self, start: u64, len: u64) {
        self.pinned.add(start, len);
    }

    /// What a commit that has just begun frees when it ends.
    pub(crate) fn take_pinned(&mut self) -> Ranges {
        let pinned = std::mem::take(&mut self.pinned);
        self.freeing = pinned.total();
        pinned
    }

    /// Makes free what a commit has freed.
    pub(crate) fn unpin(&mut self, freed: &Ranges) {
        self.freeing = 0;
        for (mut start, len) in freed.iter() {
            let end = start + len;
            // Ranges of different groups may have met.
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

    /// Bytes that are free in block groups.
    pub(crate) fn free(&self, kind: Use) -> u64 {
        self.groups_of(kind).map(|group| group.free.total()).sum()
    }

    /// Bytes of block groups.
    pub(crate) fn size(&self, kind: Use) -> u64 {
        self.groups_of(kind).map(|group| group.chunk.len).sum()
    }

    /// Bytes of extents.
    pub(crate) fn used(&self, kind: Use) -> u64 {
        self.groups_of(kind).map(|group| group.used).sum()
    }

    /// Bytes that a commit frees.
    pub(crate) fn pinned(&self, kind: Use) -> u64 {
        let of = |at: u64| self.group_of(at).map(|group| Use::of(group.chunk.flags));
        let own = self.pinned.iter().filter(|(at, _)| of(*at) == Some(kind));
        own.map(|(_, len)| len).sum()
    }

    /// Whether a commit frees anything, the next one or one that is on its way.
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

    /// Promises bytes for contents; false if they are not free.
    pub(crate) fn promise(&mut self, bytes: u64) -> bool {
        let fits = self.free(Use::Data) >= self.promised + bytes;
        if fits {
            self.promised += bytes;
        }
        fits
    }

    /// A promise is kept, or not needed any more.
    pub(crate) fn release(&mut self, bytes: u64) {
        debug_assert!(self.promised >= bytes, "nothing is released twice");
        self.promised = self.promised.saturating_sub(bytes);
    }

    /// Holds bytes of nodes for an operation, of which `debt` have to be left for the
    /// commit; false if they are not free.
    pub(crate) fn hold(&mut self, bytes: u64, debt: u64) -> bool {
        let fits = self.free(Use::Nodes) >= self.held + bytes + debt;
        if fits {
            self.held += bytes;
        }
        fits
    }

    /// An operation has ended.
    pub(crate) fn let_go(&mut self, bytes: u64) {
        debug_assert!(self.held >= bytes, "nothing is let go twice");
        self.held = self.held.saturating_sub(bytes);
    }

    /// Where the next chunk would begin, in the addresses of the file system.
    fn next_address(&self) -> u64 {
        let last = self.groups.values().next_back();
        last.map_or(FIRST, |group| group.chunk.start + group.chunk.len)
    }

    /// A chunk of up to `len` bytes, in `copies`, where the device has room; as large as
    /// there is room for if that is less.
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
    fn ranges_hold_what_a_map_of_bits_does() {
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
    fn nothing_is_given_out_where_superblocks_are() {
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
    fn what_is_pinned_is_free_once_the_commit_has_ended() {
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
    fn chunks_are_cut_to_what_the_device_has() {
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
