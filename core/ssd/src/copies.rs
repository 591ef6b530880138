//! Where what the collection has copied came from, for who keeps the same flash elsewhere
//! and need not be given contents twice.
//!
//! Invariant: a copy that is noted has been issued to its place with the contents of its
//! origin, which had been told elsewhere by then, while it was the newest version and its
//! contents had not been forgotten.

use crate::drive::Core;
use crate::state::State;
use nand::{Payload, Spot, Watch};
use std::cell::RefCell;
use std::rc::Rc;

/// A mapped page that was copied: where its first sector is, and where that was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Copied {
    pub(crate) to: Spot,
    pub(crate) from: Spot,
}

/// Copies in the order of their issue.
pub(crate) type Copies = Rc<RefCell<Vec<Copied>>>;

/// All who are told of copies, and what each has been told of the flash.
#[derive(Default)]
pub(crate) struct Listeners(Vec<(Copies, Rc<Watch>)>);

impl Listeners {
    /// Tells of what is copied from here on, of what `watch` has told.
    pub(crate) fn listen(&mut self, watch: &Rc<Watch>) -> Copies {
        let copies = Copies::default();
        self.0.push((Rc::clone(&copies), Rc::clone(watch)));
        copies
    }

    /// Tells no more.
    pub(crate) fn dismiss(&mut self, copies: &Copies) {
        self.0.retain(|(other, _)| !Rc::ptr_eq(other, copies));
    }
}

impl Core {
    /// Tells of a copy from the place `from` to the place `to`, unless its contents are as
    /// easily told.
    #[inline]
    pub(crate) fn tell_copied(&self, state: &State, from: u32, to: u32, contents: &[Payload]) {
        let is_large = |sector: &Payload| matches!(sector, Payload::Bytes(_) | Payload::Partly(_));
        if state.listeners.0.is_empty() || !contents.iter().any(is_large) {
            return;
        }
        let spot = |place| {
            let (id, page, sectors) = self.sectors_at(state, place);
            let geometry = self.nand.geometry();
            Spot {
                block: geometry.index(id) as u32,
                erases: self.nand.media().erases(id),
                sector: page * geometry.sectors_per_page() + sectors.start,
            }
        };
        let (to, from) = (spot(to), spot(from));
        for (copies, watch) in &state.listeners.0 {
            if watch.is_told(&self.nand, from) {
                copies.borrow_mut().push(Copied { to, from });
            }
        }
    }
}
