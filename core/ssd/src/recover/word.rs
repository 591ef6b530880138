//! Words of the spare area. One word for each 4 KiB sector: the mapped page in its low bits, the
//! origin above them, or one of three marks.

use crate::layout::Layout;

/// Word of a padding sector.
pub(crate) const PADDING: u32 = u32::MAX;
/// Word of a sector of a line's summary.
pub(crate) const SUMMARY: u32 = u32::MAX - 1;
/// Word of a page of the journal.
pub(crate) const JOURNAL: u32 = u32::MAX - 2;

/// The word of `page` with origin `tag`.
#[inline]
pub(crate) fn word(layout: &Layout, page: u32, tag: u16) -> u32 {
    match layout.page_bits {
        u32::BITS => page,
        bits => u32::from(tag) << bits | page,
    }
}

/// Page and origin of `word`; `None` if it names no page.
#[inline]
pub(crate) fn parse(layout: &Layout, word: u32) -> Option<(u32, u16)> {
    let (page, tag) = match layout.page_bits {
        u32::BITS => (word, 0),
        bits => (word & ((1 << bits) - 1), (word >> bits) as u16),
    };
    (word < JOURNAL && page < layout.pages()).then_some((page, tag))
}

/// The label of the blocks of `line`, written by `frontier`.
pub(crate) fn label(line: u32, frontier: u16) -> u64 {
    u64::from(frontier) << 32 | u64::from(line)
}

/// Line and frontier of `label`; `None` if the drive lacks either.
pub(crate) fn parse_label(layout: &Layout, label: u64, frontiers: usize) -> Option<(u32, u16)> {
    let (line, frontier) = (label as u32, (label >> 32) as u16);
    (line < layout.lines() && usize::from(frontier) < frontiers).then_some((line, frontier))
}
