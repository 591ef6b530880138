//! Marks: the unfinished calls that touch each key.
//!
//! Invariant: a mark names only unfinished calls that a later call may have to wait for directly;
//! calls that the last change waits for are left out, as the change ends after them.

use super::keys::{Access, Key};
use std::collections::{BTreeMap, BTreeSet};

/// Unfinished calls that touch one key.
#[derive(Clone, Debug, Default)]
struct Mark {
    changes: BTreeSet<u32>,
    uses: BTreeSet<u32>,
}

/// Marks of all keys that unfinished calls touch.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks(BTreeMap<Key, Mark>);

impl Marks {
    /// Adds `id` and returns the calls that it conflicts with. A change replaces them in the mark.
    pub(super) fn enter(&mut self, key: Key, access: Access, id: u32) -> Vec<u32> {
        let mark = self.0.entry(key).or_default();
        match access {
            Access::Uses => {
                mark.uses.insert(id);
                mark.changes.iter().copied().collect()
            }
            Access::Changes => {
                let mut before = std::mem::take(&mut mark.changes);
                before.append(&mut mark.uses);
                mark.changes.insert(id);
                before.into_iter().collect()
            }
        }
    }

    /// Puts `id` back into the mark, because the change that replaced it does not wait for it.
    pub(super) fn stay(&mut self, key: Key, id: u32, access: Access) {
        let mark = self.0.entry(key).or_default();
        let list = match access {
            Access::Uses => &mut mark.uses,
            Access::Changes => &mut mark.changes,
        };
        list.insert(id);
    }

    /// Removes `id`, which has ended, from the mark of `key`.
    pub(super) fn leave(&mut self, key: Key, id: u32) {
        let Some(mark) = self.0.get_mut(&key) else {
            return;
        };
        mark.changes.remove(&id);
        mark.uses.remove(&id);
        if mark.changes.is_empty() && mark.uses.is_empty() {
            self.0.remove(&key);
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_replaces_the_calls_that_it_waits_for() {
        let (mut marks, key) = (Marks::default(), Key::slot(1));
        assert!(marks.enter(key, Access::Uses, 1).is_empty());
        assert!(marks.enter(key, Access::Uses, 2).is_empty());
        assert_eq!(marks.enter(key, Access::Changes, 3), [1, 2]);
        assert_eq!(marks.enter(key, Access::Uses, 4), [3]);
        marks.stay(key, 2, Access::Uses);
        assert_eq!(marks.enter(key, Access::Changes, 5), [2, 3, 4]);
        (1..=5).for_each(|id| marks.leave(key, id));
        assert!(marks.is_empty());
    }
}
