//! Owner, permissions and extended attributes, as far as a power cut may undo
//! changes of them.
//!
//! Invariant: recovery shows all of them as they were at one time since the file
//! was forced; a change that has begun and not ended may have happened.

use std::collections::BTreeMap;
use vfs::Attr;

/// What is judged of the attributes of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Permissions.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Extended attributes: names and values.
    pub extended: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Attributes {
    /// Those of a file that has no extended ones.
    #[must_use]
    pub fn of(attr: &Attr) -> Self {
        let mut attributes = Self::default();
        attributes.take_over(attr);
        attributes
    }

    /// Takes over all but the extended ones.
    pub(crate) const fn take_over(&mut self, attr: &Attr) {
        (self.mode, self.uid, self.gid) = (attr.mode, attr.uid, attr.gid);
    }
}

/// When a state was reached: before, or not yet, by the call of a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reached {
    At(u64),
    Pending(u64),
}

/// States of the attributes of a file since it was forced, oldest first; none if
/// nothing is known of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known(Vec<(Reached, Attributes)>);

impl Known {
    /// They are these since `now`.
    pub(crate) fn since(now: u64, attributes: Attributes) -> Self {
        Self(vec![(Reached::At(now), attributes)])
    }

    /// The call of `ticket` begins to change them.
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

    /// The call of `ticket` has changed them at a time, or not at all.
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

    /// They are durable as they were when the force of `ticket` began.
    pub(crate) fn force(&mut self, ticket: u64) {
        let before = |state: &(Reached, _)| matches!(state.0, Reached::At(at) if at < ticket);
        if let Some(last) = self.0.iter().rposition(before) {
            self.0.drain(..last);
        }
    }

    /// Whether recovery may show `seen`.
    pub(crate) fn allows(&self, seen: &Attributes) -> bool {
        self.0.is_empty() || self.0.iter().any(|(_, state)| state == seen)
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
    fn a_force_covers_what_had_ended_when_it_began() {
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
    fn what_failed_has_not_happened() {
        let mut known = Known::since(1, owned(0));
        known.begin(2, |attributes| attributes.uid = 1);
        known.end(2, None);
        assert!(known.allows(&owned(0)) && !known.allows(&owned(1)));
    }
}
