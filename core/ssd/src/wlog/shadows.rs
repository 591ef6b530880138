//! Lines of the log whose newer version is in a volatile write buffer.
//!
//! A page on its way to flash supersedes lines of the log: a block replaced them, cleaning merged
//! them, or the host deallocated them. A battery that keeps the log alone loses the page until it is
//! on flash, so the log keeps the lines until then. Reads and cleaning do not see them.
//!
//! Invariants: a hidden slot is in the ring and not dead. Each hidden slot belongs to a shadow of
//! its page. A version of the page on flash makes the shadows of that version, and of earlier
//! versions, invalid.

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
