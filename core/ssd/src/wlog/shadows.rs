//! Lines of the log whose newer version is in a volatile write buffer.
//!
//! A page on its way to flash supersedes lines of the log: a block replaced them, cleaning merged
//! them, or the host deallocated them. A battery that keeps the log alone loses the page until it is
//! on flash, so the log keeps the lines until then. Reads and cleaning do not see them.
//!
//! Invariants: a hidden slot is in the ring and not dead. Each hidden slot belongs to a shadow of
//! its page. A version of the page on flash makes the shadows of that version, and of earlier
//! versions, invalid.

use super::{Index, Log};
use std::collections::BTreeMap;

/// Lines of a page that one version of the page supersedes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shadow {
    /// Serial number of the version; 0 for a deallocation.
    by: u64,
    /// The first and the last slot that it hides.
    first: u64,
    pub(super) last: u64,
    /// Lines of the page, one bit each.
    pub(super) lines: u64,
}

/// All shadows of a log.
#[derive(Debug, Default)]
pub(super) struct Shadows {
    of_page: BTreeMap<u32, Vec<Shadow>>,
    /// Places of hidden slots in the ring, one bit each.
    hidden: Vec<u64>,
}

impl Shadows {
    /// Adds a shadow of `page` by version `by`, over slots `first` to `last`.
    pub(super) fn add(&mut self, page: u32, lines: u64, by: u64, (first, last): (u64, u64)) {
        let shadows = self.of_page.entry(page).or_default();
        shadows.push(Shadow {
            by,
            first,
            last,
            lines,
        });
    }

    /// Whether a slot before `mark` is hidden.
    pub(super) fn reach_before(&self, mark: u64) -> bool {
        let mut shadows = self.of_page.values().flatten();
        shadows.any(|shadow| shadow.first < mark)
    }

    /// Makes all shadows of `page` those of its deallocation.
    pub(super) fn deallocate(&mut self, page: u32) {
        for shadow in self.of_page.get_mut(&page).into_iter().flatten() {
            shadow.by = 0;
        }
    }

    /// The first page with shadows, from `from` on.
    pub(super) fn next_page(&self, from: u32) -> Option<u32> {
        self.of_page.range(from..).next().map(|(&page, _)| page)
    }

    /// The last slot of the shadows of `page`.
    pub(super) fn last_of(&self, page: u32) -> Option<u64> {
        let shadows = self.of_page.get(&page)?;
        shadows.iter().map(|shadow| shadow.last).max()
    }

    /// Takes the shadows of `page` that version `by` or an earlier one casts.
    pub(super) fn take(&mut self, page: u32, by: u64) -> Vec<Shadow> {
        let Some(shadows) = self.of_page.get_mut(&page) else {
            return Vec::new();
        };
        let taken = shadows.extract_if(.., |shadow| shadow.by <= by).collect();
        if shadows.is_empty() {
            self.of_page.remove(&page);
        }
        taken
    }

    pub(super) fn hide(&mut self, place: u32) {
        let word = place as usize / 64;
        if self.hidden.len() <= word {
            self.hidden.resize(word + 1, 0);
        }
        self.hidden[word] |= 1 << (place % 64);
    }

    pub(super) fn show(&mut self, place: u32) {
        if let Some(word) = self.hidden.get_mut(place as usize / 64) {
            *word &= !(1 << (place % 64));
        }
    }

    pub(super) fn is_hidden(&self, place: u32) -> bool {
        let word = self.hidden.get(place as usize / 64);
        word.is_some_and(|word| word >> (place % 64) & 1 == 1)
    }
}

impl<I: Index> Log<I> {
    /// Hides `lines` of `page`, which version `by` of the page supersedes in a volatile buffer:
    /// [`Log::written`] invalidates them, and a power cut before that brings them back.
    pub fn hide(&mut self, page: u32, lines: u64, by: u64) {
        let Some(last) = self.last_of(page) else {
            return;
        };
        self.cover(page, lines, (by, last));
        self.cut(page, lines);
    }

    /// Hides the valid lines of `lines` in the entry of slot `last` and in earlier entries of the
    /// same page.
    pub(super) fn cover(&mut self, page: u32, lines: u64, (by, last): (u64, u64)) {
        let ring = &self.kept.ring;
        let mut slots = self.slots_of(last, lines);
        // A slot that is hidden already belongs to an earlier version, which is on flash earlier.
        slots.retain(|&slot| !ring.is_dead(slot) && !self.shadows.is_hidden(ring.place(slot)));
        for &slot in &slots {
            self.shadows.hide(ring.place(slot));
        }
        if let Some(&first) = slots.iter().min() {
            self.shadows.add(page, lines, by, (first, last));
        }
    }

    /// Hides the lines of pages `first` to before `end`, which the host deallocated, until the
    /// deallocation is on flash ([`Log::deallocated`]).
    pub fn deallocate(&mut self, first: u32, end: u32) {
        let mut from = first;
        while let Some(page) = self.next_page(from).filter(|&page| page < end) {
            self.hide(page, u64::MAX, 0);
            from = page + 1;
        }
        let mut from = first;
        while let Some(page) = self.shadows.next_page(from).filter(|&page| page < end) {
            self.shadows.deallocate(page);
            from = page + 1;
        }
    }

    /// Invalidates the lines that version `by` of `page`, or an earlier one, superseded: the version
    /// is on flash.
    pub fn written(&mut self, page: u32, by: u64) {
        for shadow in self.shadows.take(page, by) {
            self.kill(shadow.last, shadow.lines);
        }
    }

    /// Invalidates the lines of deallocated pages: all deallocations are on flash.
    pub fn deallocated(&mut self) {
        let mut from = 0;
        while let Some(page) = self.shadows.next_page(from) {
            self.written(page, 0);
            from = page + 1;
        }
    }

    /// Whether a line that the current cleaning is to free is hidden: a power cut would bring it
    /// back.
    #[must_use]
    pub fn hides_frozen(&self) -> bool {
        let mark = self.frozen.as_ref().map(|(_, mark)| *mark);
        mark.is_some_and(|mark| self.shadows.reach_before(mark))
    }
}
