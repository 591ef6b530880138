//! References to extents that the tree of extents does not have yet, and how it gets
//! them.
//!
//! Invariants: what is added and taken away again within a transaction never comes to the
//! tree. An extent is one of the tree as long as somebody refers to it; with its last
//! reference its item goes, the sums of its contents go, and its place waits for the end
//! of the commit.
//= btrfs-format 3.2

use crate::forest::{Forest, Try, sound};
use crate::format::extent::{self, Extent, Ref};
use crate::format::{Key, kind};
use std::collections::{BTreeMap, BTreeSet};

/// What has changed of an extent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) len: u64,
    /// The level of a node; none of contents.
    pub(crate) level: Option<u8>,
    /// Whether the tree of extents does not have it yet.
    pub(crate) new: bool,
    /// Whether what it leads to is referred to by itself from now on.
    pub(crate) full: bool,
    /// How often more, or less, by whom.
    pub(crate) by: BTreeMap<Ref, i64>,
}

/// What has changed.
#[derive(Debug, Default)]
pub(crate) struct Refs {
    changes: BTreeMap<u64, Change>,
    /// Steps that it takes to settle them.
    steps: usize,
    /// Nodes of what was forced, which the tree of extents never has.
    pub(crate) log_nodes: BTreeSet<u64>,
}

impl Change {
    /// Steps that it takes to settle it.
    fn steps(&self) -> usize {
        let is_nothing = self.by.is_empty() && !self.new && !self.full;
        if is_nothing { 0 } else { self.by.len().max(1) }
    }
}

impl Refs {
    /// Changes what is known of an extent; what is nothing is forgotten.
    fn update(&mut self, at: u64, of: (u64, Option<u8>), change: impl FnOnce(&mut Change)) {
        let (len, level) = of;
        let found = self.changes.entry(at).or_insert_with(|| Change {
            len,
            level,
            ..Change::default()
        });
        self.steps -= found.steps();
        change(found);
        let steps = found.steps();
        self.steps += steps;
        if steps == 0 {
            self.changes.remove(&at);
        }
    }

    /// An extent is given out.
    pub(crate) fn make(&mut self, at: u64, len: u64, level: Option<u8>) {
        self.update(at, (len, level), |change| change.new = true);
    }

    /// `by` refers to an extent `times` more, or less.
    pub(crate) fn add(&mut self, at: u64, len: u64, level: Option<u8>, by: Ref, times: i64) {
        self.update(at, (len, level), |change| {
            let count = change.by.entry(by).or_default();
            *count += times;
            if *count == 0 {
                change.by.remove(&by);
            }
        });
    }

    /// What the node at `at` leads to is referred to by itself from now on.
    pub(crate) fn make_full(&mut self, at: u64, level: u8) {
        let node = (crate::format::NODE_BYTES, Some(level));
        self.update(at, node, |change| change.full = true);
    }

    /// Whether an extent that is new has nobody left that refers to it.
    pub(crate) fn is_gone(&self, at: u64) -> bool {
        let change = self.changes.get(&at);
        change.is_some_and(|change| change.new && change.by.is_empty())
    }

    pub(crate) fn forget(&mut self, at: u64) {
        let gone = self.changes.remove(&at);
        self.steps -= gone.map_or(0, |change| change.steps());
    }

    /// How many references more there are than the tree of extents has, and whether the
    /// extent refers to what it leads to by itself.
    pub(crate) fn pending(&self, at: u64) -> (i64, bool) {
        let change = self.changes.get(&at);
        change.map_or((0, false), |c| (c.by.values().sum(), c.full))
    }

    /// What has changed of the extent at `at`.
    pub(crate) fn of(&self, at: u64) -> Option<&Change> {
        self.changes.get(&at)
    }

    /// Steps that it takes to settle all that has changed: references that came or went,
    /// and extents that changed without.
    pub(crate) const fn steps(&self) -> usize {
        self.steps
    }

    /// Extents that have changed, from `from` on.
    pub(crate) fn next(&self, from: u64) -> Option<(u64, &Change)> {
        let mut later = self.changes.range(from..);
        later.next().map(|(at, change)| (*at, change))
    }
}

/// An extent that nobody refers to any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone {
    pub(crate) len: u64,
    /// Whether it held contents.
    pub(crate) data: bool,
}

/// Where a reference is.
enum Place {
    /// In the item of the extent, by its number there.
    Inline(usize),
    /// In an item of its own, there so often.
    Item(Key, u32),
}

impl Forest {
    /// The items of references to an extent that are outside its own item.
    fn ref_items(&self, at: u64) -> Try<Vec<(Key, Ref, u32)>> {
        let mut found = Vec::new();
        let mut from = Key::new(at, kind::TREE_BLOCK_REF, 0);
        let end = Key::new(at, kind::SHARED_DATA_REF, u64::MAX);
        while let Some((key, item)) = self.first_from(&self.extents, from, |key, data| {
            let own = key <= end;
            (key, own.then(|| Ref::of_item(key, data)))
        })? {
            let Some(item) = item else { break };
            let (by, count) = sound(item)?;
            found.push((key, by, count));
            from = sound(key.next())?;
        }
        Ok(found)
    }

    /// All who refer to an extent, by the tree of extents.
    pub(crate) fn referrers(&self, at: u64, found: &Extent) -> Try<Vec<(Ref, u32)>> {
        let mut all = found.inline.clone();
        let held: u64 = all.iter().map(|(_, count)| u64::from(*count)).sum();
        if held < found.refs {
            let items = self.ref_items(at)?;
            all.extend(items.into_iter().map(|(_, by, count)| (by, count)));
        }
        Ok(all)
    }

    fn place_of(&self, at: u64, found: &Extent, by: Ref) -> Try<Option<Place>> {
        let inline = found.inline.iter().position(|(other, _)| *other == by);
        if let Some(slot) = inline {
            return Ok(Some(Place::Inline(slot)));
        }
        let held: u64 = found
            .inline
            .iter()
            .map(|(_, count)| u64::from(*count))
            .sum();
        if held >= found.refs {
            return Ok(None);
        }
        let items = self.ref_items(at)?;
        let item = items.into_iter().find(|(_, other, _)| *other == by);
        Ok(item.map(|(key, _, count)| Place::Item(key, count)))
    }

    /// The key of a new item of its own for a reference, that is free.
    fn free_key(&self, at: u64, by: Ref) -> Try<Key> {
        let mut key = Key::new(at, by.kind(), by.hash());
        while self.read(&self.extents, key, |_| ())?.is_some() {
            key = sound(key.next())?;
        }
        Ok(key)
    }

    /// Takes one reference of the first extent from `from` on that has changed to the tree
    /// of extents; gives where the extent is that it was of, and what is gone with it.
    pub(crate) fn settle_ref(&self, from: u64) -> Try<Option<(u64, Option<Gone>)>> {
        let refs = self.refs.borrow();
        let Some((at, change)) = refs.next(from) else {
            return Ok(None);
        };
        let change = change.clone();
        drop(refs);
        if change.new {
            return Ok(Some((at, self.insert_extent(at, &change)?)));
        }
        let found = self.extent(at, change.level, change.len)?;
        let (key, mut found) = sound(found)?;
        if change.full {
            found.flags |= extent::FULL_BACKREF;
            self.set(&self.extents, key, &found.bytes())?;
            let mut refs = self.refs.borrow_mut();
            refs.update(at, (change.len, change.level), |change| change.full = false);
            return Ok(Some((at, None)));
        }
        // What is added goes first, so that an extent does not go for a moment.
        let by = change.by.iter().max_by_key(|(_, times)| **times > 0);
        let (by, times) = by.map_or((Ref::Tree(0), 0), |(by, times)| (*by, *times));
        let gone = match times {
            0 => None,
            1.. => self.add_refs(at, key, found, by, times).map(|()| None)?,
            _ => self.take_refs(at, key, found, by, -times)?,
        };
        self.refs
            .borrow_mut()
            .add(at, change.len, change.level, by, -times);
        Ok(Some((at, gone)))
    }

    /// An extent that the tree did not have, with the first of who refer to it; or if there
    /// is nobody, what is no more.
    fn insert_extent(&self, at: u64, change: &Change) -> Try<Option<Gone>> {
        let taken = change.by.iter().find(|(_, times)| **times > 0);
        let Some((by, times)) = taken.map(|(by, times)| (*by, *times)) else {
            // It was given out, and is not needed any more.
            self.refs.borrow_mut().forget(at);
            self.space.borrow_mut().pin(at, change.len);
            return Ok(Some(Gone {
                len: change.len,
                data: change.level.is_none(),
            }));
        };
        let (key, flags) = match change.level {
            Some(level) => (
                Key::new(at, kind::METADATA_ITEM, level.into()),
                extent::TREE_BLOCK,
            ),
            None => (Key::new(at, kind::EXTENT_ITEM, change.len), extent::DATA),
        };
        let full = if change.full { extent::FULL_BACKREF } else { 0 };
        let item = Extent {
            refs: times as u64,
            generation: self.transid.get(),
            flags: flags | full,
            inline: vec![(by, times as u32)],
        };
        self.insert(&self.extents, key, &item.bytes())?;
        self.space.borrow_mut().account(at, change.len, true);
        let mut refs = self.refs.borrow_mut();
        refs.update(at, (change.len, change.level), |change| {
            (change.new, change.full) = (false, false);
        });
        refs.add(at, change.len, change.level, by, -times);
        Ok(None)
    }

    fn add_refs(&self, at: u64, key: Key, mut found: Extent, by: Ref, times: i64) -> Try<()> {
        let place = self.place_of(at, &found, by)?;
        found.refs = found.refs.saturating_add_signed(times);
        let more = times as u32;
        match place {
            Some(Place::Inline(slot)) => {
                let count = &mut found.inline[slot].1;
                *count = count.saturating_add(more);
            }
            Some(Place::Item(item, count)) => {
                // The sum in the extent's item is of the same length: it cannot stop.
                self.fetch_for_update(&self.extents, key)?;
                self.set(&self.extents, item, &by.item(count.saturating_add(more)))?;
            }
            None if found.has_room(by) && self.ref_items(at)?.is_empty() => {
                found.inline.push((by, more));
            }
            None => {
                let item = self.free_key(at, by)?;
                self.fetch_for_update(&self.extents, key)?;
                self.insert(&self.extents, item, &by.item(more))?;
            }
        }
        self.set(&self.extents, key, &found.bytes())
    }

    fn take_refs(
        &self,
        at: u64,
        key: Key,
        mut found: Extent,
        by: Ref,
        times: i64,
    ) -> Try<Option<Gone>> {
        let place = sound(self.place_of(at, &found, by)?)?;
        found.refs = sound(found.refs.checked_add_signed(-times))?;
        let fewer = times as u32;
        match place {
            Place::Inline(slot) => {
                let count = sound(found.inline[slot].1.checked_sub(fewer))?;
                found.inline[slot].1 = count;
                if count == 0 {
                    found.inline.remove(slot);
                }
            }
            Place::Item(item, count) => {
                self.fetch_for_update(&self.extents, key)?;
                match sound(count.checked_sub(fewer))? {
                    0 => self.remove(&self.extents, item)?,
                    left => self.set(&self.extents, item, &by.item(left))?,
                }
            }
        }
        if found.refs > 0 {
            self.set(&self.extents, key, &found.bytes())?;
            return Ok(None);
        }
        self.remove_too(&self.extents, key)?;
        let data = found.flags & extent::DATA != 0;
        let len = if data {
            key.offset
        } else {
            crate::format::NODE_BYTES
        };
        let mut space = self.space.borrow_mut();
        space.account(at, len, false);
        space.pin(at, len);
        drop(space);
        if !data {
            self.nodes.borrow_mut().remove(at);
        }
        Ok(Some(Gone { len, data }))
    }
}
