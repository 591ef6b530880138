//! Mappings of files in a process, by address.

use super::process::Slot;

/// A mapping of a part of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    /// First address of the mapping.
    pub(super) start: u64,
    /// Length of the mapping in bytes.
    pub(super) len: u64,
    /// The open file that is mapped.
    pub(super) slot: Slot,
    /// Offset in the file of the first byte, in bytes.
    pub(super) offset: u64,
    /// Whether stores reach the file: a shared mapping that may be written.
    pub(super) shared: bool,
}

/// A range of a file behind a range of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) slot: Slot,
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) shared: bool,
}

impl Mapping {
    fn end(&self) -> u64 {
        self.start.saturating_add(self.len)
    }

    /// The part of the mapping that lies in `len` bytes from the address `start`.
    pub(super) fn part(&self, start: u64, len: u64) -> Option<Part> {
        let from = self.start.max(start);
        let to = self.end().min(start.saturating_add(len));
        (from < to).then(|| Part {
            slot: self.slot,
            offset: self.offset.saturating_add(from - self.start),
            len: to - from,
            shared: self.shared,
        })
    }

    /// The rest of the mapping without `len` bytes from `start`: the part before the hole and the
    /// part behind it.
    pub(super) fn without(&self, start: u64, len: u64) -> [Option<Self>; 2] {
        // The kernel unmaps whole pages.
        let pages = len.checked_next_multiple_of(4096).unwrap_or(u64::MAX);
        let end = start.saturating_add(pages);
        if self.part(start, end - start).is_none() {
            return [Some(*self), None];
        }
        let before = (self.start < start).then(|| Self {
            len: start - self.start,
            ..*self
        });
        let behind = (end < self.end()).then(|| Self {
            start: end,
            len: self.end() - end,
            offset: self.offset.saturating_add(end - self.start),
            ..*self
        });
        [before, behind]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unmapped_range_is_cut_out_of_the_mapping() {
        let mapping = Mapping {
            start: 0x10_000,
            len: 0x4100,
            slot: 3,
            offset: 0x1000,
            shared: true,
        };
        let part = mapping.part(0x11_000, 0x10_0000).unwrap();
        assert_eq!((part.offset, part.len), (0x2000, 0x3100));
        assert_eq!(mapping.part(0, 0x10_000), None);
        let [before, behind] = mapping.without(0x11_000, 0x1000);
        assert_eq!(before.map(|it| (it.offset, it.len)), Some((0x1000, 0x1000)));
        assert_eq!(behind.map(|it| (it.offset, it.len)), Some((0x3000, 0x2100)));
        assert_eq!(mapping.without(0x10_000, 0x4001), [None, None]);
        assert_eq!(mapping.without(0, 1), [Some(mapping), None]);
    }
}
