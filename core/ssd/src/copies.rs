//! Notes of copies by collection: the source of each copied page, for an image of the same flash
//! that already stores the contents of the source.
//!
//! Invariant: a noted copy has been issued to its place with the contents of its source, which the
//! listener's watch had reported by then. At that time the source was the newest version, and its
//! contents had not been released.

use crate::drive::Core;
use crate::state::State;
use nand::{Payload, Spot, Watch};
use std::cell::RefCell;
use std::rc::Rc;

/// A mapped page that was copied: flash positions of the first sector of copy and source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Copied {
    pub(crate) to: Spot,
    pub(crate) from: Spot,
}

/// Copies in the order of their issue.
pub(crate) type Copies = Rc<RefCell<Vec<Copied>>>;

/// Listeners: for each, the list that receives copies and the watch that reports its flash.
#[derive(Default)]
pub(crate) struct Listeners(Vec<(Copies, Rc<Watch>)>);

impl Listeners {
    /// Registers a listener; it receives copies from here on whose source `watch` has reported.
    pub(crate) fn listen(&mut self, watch: &Rc<Watch>) -> Copies {
        let copies = Copies::default();
        self.0.push((Rc::clone(&copies), Rc::clone(watch)));
        copies
    }

    /// Removes the listener of `copies`.
    pub(crate) fn dismiss(&mut self, copies: &Copies) {
        self.0.retain(|(other, _)| !Rc::ptr_eq(other, copies));
    }
}

impl Core {
    /// Notes a copy of the page at `from` to the place `to`, unless its contents are small: a
    /// reference would save nothing then.
    #[inline]
    pub(crate) fn tell_copied(&self, state: &State, from: u32, to: u32, contents: &[Payload]) {
        let is_large = |sector: &Payload| matches!(sector, Payload::Bytes(_) | Payload::Partly(_));
        if state.listeners.0.is_empty() || !contents.iter().any(is_large) {
            return;
        }
        let spot = |place| {
            let (id, page, sectors) = state.sectors_at(&self.layout, place);
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
