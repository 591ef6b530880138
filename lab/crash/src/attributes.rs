//! Owner, permissions and extended attributes, as far as a power cut may undo changes.
//!
//! Invariant: recovery shows all attributes of a file as they were at one time since its
//! last force. A change that has begun and not ended may have happened.

use std::collections::BTreeMap;
use vfs::Attr;

/// Attributes of a file that the judge compares; times are not among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Permission bits, without the kind of the file.
    pub mode: u16,
    /// User that owns the file.
    pub uid: u32,
    /// Group that owns the file.
    pub gid: u32,
    /// Values of the extended attributes, by name.
    pub extended: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Attributes {
    /// The attributes in `attr`, without extended ones.
    #[must_use]
    pub fn of(attr: &Attr) -> Self {
        let mut attributes = Self::default();
        attributes.take_over(attr);
        attributes
    }

    /// Takes over owner and permissions and leaves extended attributes as they are.
    pub(crate) const fn take_over(&mut self, attr: &Attr) {
        (self.mode, self.uid, self.gid) = (attr.mode, attr.uid, attr.gid);
    }
}

/// Time at which a state was reached, or the ticket of the call that is to reach it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reached {
    At(u64),
    Pending(u64),
}

/// States of the attributes of a file since its last force, oldest first; empty if they
/// are not known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known(Vec<(Reached, Attributes)>);

impl Known {
    /// Attributes that have been these since time `now`.
    pub(crate) fn since(now: u64, attributes: Attributes) -> Self {
        Self(vec![(Reached::At(now), attributes)])
    }

    /// Records that the call of `ticket` begins to change the attributes.
    pub(crate) fn begin(&mut self, ticket: u64, change: impl FnOnce(&mut Attributes)) {
        let Some((_, last)) = self.0.last() else {
            return;
        };
        let mut new = last.clone();
        change(&mut new);
        if new != *last {
            self.0.push((Reached::Pending(ticket), new));
        }
    }

    /// Records that the call of `ticket` took effect at time `at`, or had none.
    pub(crate) fn end(&mut self, ticket: u64, at: Option<u64>) {
        let pending = |state: &(Reached, _)| state.0 == Reached::Pending(ticket);
        let Some(index) = self.0.iter().position(pending) else {
            return;
        };
        match at {
            Some(at) => self.0[index].0 = Reached::At(at),
            None => drop(self.0.remove(index)),
        }
    }

    /// Drops the states that were outdated when the force of `ticket` began.
    pub(crate) fn force(&mut self, ticket: u64) {
        let before = |state: &(Reached, _)| matches!(state.0, Reached::At(at) if at < ticket);
        if let Some(last) = self.0.iter().rposition(before) {
            self.0.drain(..last);
        }
    }

    /// The states since the last force, oldest first.
    pub(crate) fn states(&self) -> impl Iterator<Item = &Attributes> {
        self.0.iter().map(|(_, state)| state)
    }

    /// Whether recovery may show the attributes `seen`.
    pub(crate) fn allows(&self, seen: &Attributes) -> bool {
        self.0.is_empty() || self.states().any(|state| state == seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(uid: u32) -> Attributes {
        Attributes {
            uid,
            ..Attributes::default()
        }
    }

    #[test]
    fn force_covers_changes_that_had_ended_when_it_began() {
        let mut known = Known::since(1, owned(0));
        known.begin(2, |attributes| attributes.uid = 1);
        assert!(known.allows(&owned(0)) && known.allows(&owned(1)));
        known.end(2, Some(5));
        known.force(4);
        assert!(known.allows(&owned(0)), "it had not ended by then");
        known.force(6);
        assert!(!known.allows(&owned(0)) && known.allows(&owned(1)));
    }

    #[test]
    fn failed_change_is_not_shown() {
        let mut known = Known::since(1, owned(0));
        known.begin(2, |attributes| attributes.uid = 1);
        known.end(2, None);
        assert!(known.allows(&owned(0)) && !known.allows(&owned(1)));
    }
}
