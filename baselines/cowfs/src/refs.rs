//! Pending reference changes, and their application to the tree of extents.
//!
//! Invariants: a reference that is added and removed between two applications never reaches
//! the tree. The tree holds an extent as long as it has references. With the last reference
//! its item and the sums of its contents go, and its space is pinned until the commit ends.
//= btrfs-format 3.2

use crate::forest::{Forest, Try, sound};
use crate::format::extent::{self, Extent, Ref};
use crate::format::{Key, kind};
use std::collections::{BTreeMap, BTreeSet};

/// Pending changes of one extent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) len: u64,
    /// The level of a node; `None` for contents.
    pub(crate) level: Option<u8>,
    /// Whether the tree of extents does not have it yet.
    pub(crate) new: bool,
    /// Whether the node is to get the flag of full back references: its children are then
    /// referenced by its address, not by its tree.
    pub(crate) full: bool,
    /// Change of the reference count, per referrer; never 0.
    pub(crate) by: BTreeMap<Ref, i64>,
}

/// All pending changes, by address of the extent.
#[derive(Debug, Default)]
pub(crate) struct Refs {
    changes: BTreeMap<u64, Change>,
    /// Steps that applying all changes takes: the sum over [`Change::steps`].
    steps: usize,
    /// Nodes of the log of forced files; the tree of extents never holds them.
    pub(crate) log_nodes: BTreeSet<u64>,
}

impl Change {
    /// Calls of [`Forest::settle_ref`] that this change takes; 0 if it is void.
    fn steps(&self) -> usize {
        let is_nothing = self.by.is_empty() && !self.new && !self.full;
        if is_nothing { 0 } else { self.by.len().max(1) }
    }
}

impl Refs {
    /// Edits the pending change of the extent at `at`; drops it if it becomes void.
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

    /// Records a newly allocated extent, which the tree does not hold yet.
    pub(crate) fn make(&mut self, at: u64, len: u64, level: Option<u8>) {
        self.update(at, (len, level), |change| change.new = true);
    }

    /// Adds `times` (negative: removes) references of `by` to the extent at `at`.
    pub(crate) fn add(&mut self, at: u64, len: u64, level: Option<u8>, by: Ref, times: i64) {
        self.update(at, (len, level), |change| {
            let count = change.by.entry(by).or_default();
            *count += times;
            if *count == 0 {
                change.by.remove(&by);
            }
        });
    }

    /// Requests the flag of full back references for the node at `at`.
    pub(crate) fn make_full(&mut self, at: u64, level: u8) {
        let node = (crate::format::NODE_BYTES, Some(level));
        self.update(at, node, |change| change.full = true);
    }

    /// Whether the extent at `at` is new and has no references left.
    pub(crate) fn is_gone(&self, at: u64) -> bool {
        let change = self.changes.get(&at);
        change.is_some_and(|change| change.new && change.by.is_empty())
    }

    pub(crate) fn forget(&mut self, at: u64) {
        let gone = self.changes.remove(&at);
        self.steps -= gone.map_or(0, |change| change.steps());
    }

    /// The pending change of the reference count of the extent at `at`, and whether the flag of
    /// full back references is pending.
    pub(crate) fn pending(&self, at: u64) -> (i64, bool) {
        let change = self.changes.get(&at);
        change.map_or((0, false), |c| (c.by.values().sum(), c.full))
    }

    /// The pending change of the extent at `at`, if any.
    pub(crate) fn of(&self, at: u64) -> Option<&Change> {
        self.changes.get(&at)
    }

    /// Steps that applying all pending changes takes: one per changed referrer, and one per
    /// extent that changes without.
    pub(crate) const fn steps(&self) -> usize {
        self.steps
    }

    /// The first extent at or after `from` with a pending change.
    pub(crate) fn next(&self, from: u64) -> Option<(u64, &Change)> {
        let mut later = self.changes.range(from..);
        later.next().map(|(at, change)| (*at, change))
    }
}

/// An extent that has lost its last reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone {
    pub(crate) len: u64,
    /// Whether the extent held contents; otherwise it was a node.
    pub(crate) data: bool,
}

/// Location of a reference in the tree of extents.
enum Place {
    /// Inside the item of the extent, at this index.
    Inline(usize),
    /// In a separate item with this key and count.
    Item(Key, u32),
}

impl Forest {
    /// References to the extent at `at` that have separate items: key, referrer and count.
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

    /// All references to an extent that the tree of extents holds, with their counts.
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

    /// A free key for a separate item of a reference: its hash, or the next free one.
    fn free_key(&self, at: u64, by: Ref) -> Try<Key> {
        let mut key = Key::new(at, by.kind(), by.hash());
        while self.read(&self.extents, key, |_| ())?.is_some() {
            key = sound(key.next())?;
        }
        Ok(key)
    }

    /// Applies one step of the first pending change at or after `from`. Returns the address of
    /// the extent, and the extent if it is gone with this step; `None` if nothing is pending.
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
        // Additions go first, so that the count does not drop to zero in between.
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

    /// Inserts a new extent with its first referrer. Without a referrer, pins its space and
    /// returns it as gone.
    fn insert_extent(&self, at: u64, change: &Change) -> Try<Option<Gone>> {
        let taken = change.by.iter().find(|(_, times)| **times > 0);
        let Some((by, times)) = taken.map(|(by, times)| (*by, *times)) else {
            // The extent was allocated and has no references any more.
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
                // The item of the extent keeps its length, so the second write cannot stop.
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
