//! Memory of a guest: ranges of guest addresses, each backed by a part of a file.
//!
//! Invariants: ranges do not overlap, and their ends do not overflow. An access succeeds only if
//! ranges cover all of it; it may span several.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Most ranges of a guest; each holds a file descriptor.
pub(super) const RANGES_MAX: usize = 128;

/// Error: an address is not mapped, or not accessible in the requested way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unreachable;

/// Reason why a range is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// The range is empty, or its end overflows in memory or in the file.
    Shape,
    /// The range overlaps a mapped one.
    Overlap,
    /// [`RANGES_MAX`] ranges are mapped already.
    TooMany,
}

/// Access to memory by guest addresses.
pub(super) trait Memory {
    /// Fills `into` from address `at`.
    ///
    /// # Errors
    /// If a part is not mapped or not readable.
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Unreachable>;

    /// Writes `from` to address `at`.
    ///
    /// # Errors
    /// If a part is not mapped or not writable.
    fn write(&self, at: u64, from: &[u8]) -> Result<(), Unreachable>;
}

/// Part of a file, with access rights.
#[derive(Debug)]
pub(super) struct Range {
    /// Length in bytes; not zero once mapped.
    pub(super) len: u64,
    /// Offset of the range in the file.
    pub(super) offset: u64,
    /// Backing file; `None` if the monitor shares none, and the range cannot be accessed.
    pub(super) file: Option<File>,
    pub(super) readable: bool,
    pub(super) writable: bool,
}

/// Address map of a guest.
#[derive(Debug, Default)]
pub(super) struct Guest {
    /// Ranges by their first guest address.
    ranges: BTreeMap<u64, Range>,
}

impl Guest {
    /// Maps a range at guest address `at`.
    pub(super) fn map(&mut self, at: u64, range: Range) -> Result<(), Refused> {
        let end = at.checked_add(range.len).ok_or(Refused::Shape)?;
        let end_in_file = range.offset.checked_add(range.len);
        let fits = end_in_file.is_some_and(|end| i64::try_from(end).is_ok());
        if range.len == 0 || !fits {
            return Err(Refused::Shape);
        }
        let before = self.ranges.range(..end).next_back();
        if before.is_some_and(|(start, before)| start + before.len > at) {
            return Err(Refused::Overlap);
        }
        if self.ranges.len() >= RANGES_MAX {
            return Err(Refused::TooMany);
        }
        self.ranges.insert(at, range);
        Ok(())
    }

    /// Removes the ranges within the `len` bytes at `at`. Returns `None`, and removes nothing, if
    /// a range lies there only in part, or none at all.
    pub(super) fn unmap(&mut self, at: u64, len: u64) -> Option<()> {
        let end = at.checked_add(len)?;
        let touched: Vec<u64> = self
            .ranges
            .range(..end)
            .filter(|(start, range)| *start + range.len > at)
            .map(|(start, _)| *start)
            .collect();
        let whole = |start: &u64| *start >= at && start + self.ranges[start].len <= end;
        if touched.is_empty() || !touched.iter().all(whole) {
            return None;
        }
        for start in touched {
            self.ranges.remove(&start);
        }
        Some(())
    }

    /// Removes all ranges and closes their files.
    pub(super) fn clear(&mut self) {
        self.ranges.clear();
    }

    /// Finds address `at`: its range, the bytes from there to the range's end (at least one), and
    /// the offset in the file.
    fn find(&self, at: u64) -> Result<(&Range, u64, u64), Unreachable> {
        let (start, range) = self.ranges.range(..=at).next_back().ok_or(Unreachable)?;
        let within = at - start;
        let left = range.len.checked_sub(within).filter(|left| *left > 0);
        Ok((range, left.ok_or(Unreachable)?, range.offset + within))
    }
}

impl Memory for Guest {
    fn read(&self, mut at: u64, mut into: &mut [u8]) -> Result<(), Unreachable> {
        while !into.is_empty() {
            let (range, left, offset) = self.find(at)?;
            let len = left.min(into.len() as u64);
            let (part, rest) = into.split_at_mut(len as usize);
            let file = range.file.as_ref().filter(|_| range.readable);
            let read = file.ok_or(Unreachable)?.read_exact_at(part, offset);
            read.map_err(|_| Unreachable)?;
            (at, into) = (at.wrapping_add(len), rest);
        }
        Ok(())
    }

    fn write(&self, mut at: u64, mut from: &[u8]) -> Result<(), Unreachable> {
        while !from.is_empty() {
            let (range, left, offset) = self.find(at)?;
            let len = left.min(from.len() as u64);
            let (part, rest) = from.split_at(len as usize);
            let file = range.file.as_ref().filter(|_| range.writable);
            let written = file.ok_or(Unreachable)?.write_all_at(part, offset);
            written.map_err(|_| Unreachable)?;
            (at, from) = (at.wrapping_add(len), rest);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(len: u64, offset: u64) -> Range {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(1 << 16).expect("room");
        Range {
            len,
            offset,
            file: Some(file),
            readable: true,
            writable: true,
        }
    }

    #[test]
    fn an_access_goes_over_ranges_that_touch_and_not_over_gaps() {
        let mut guest = Guest::default();
        guest.map(0x1000, range(0x1000, 0x100)).expect("new");
        guest.map(0x2000, range(0x1000, 0)).expect("new");
        guest.map(0x4000, range(0x1000, 0)).expect("new");
        guest.write(0x1ffe, b"abcd").expect("it is there");
        let mut read = [0; 4];
        guest.read(0x1ffe, &mut read).expect("it is there");
        assert_eq!(&read, b"abcd");
        for (at, len) in [(0xffe, 4), (0x2ffe, 4), (0x5000, 1), (u64::MAX, 2)] {
            let mut bytes = vec![0; len];
            assert_eq!(guest.read(at, &mut bytes), Err(Unreachable), "{at:x}");
            assert_eq!(guest.write(at, &bytes), Err(Unreachable), "{at:x}");
        }
    }

    #[test]
    fn read_only_and_unshared_ranges_reject_writes() {
        let mut guest = Guest::default();
        let read_only = Range {
            writable: false,
            ..range(0x1000, 0)
        };
        let kept = Range {
            file: None,
            ..range(0x1000, 0)
        };
        guest.map(0, read_only).expect("new");
        guest.map(0x1000, kept).expect("new");
        assert_eq!(guest.read(0, &mut [0; 8]), Ok(()));
        assert_eq!(guest.write(0, &[0; 8]), Err(Unreachable));
        assert_eq!(guest.read(0x1000, &mut [0; 8]), Err(Unreachable));
    }

    #[test]
    fn shapes_without_an_end_are_refused() {
        let mut guest = Guest::default();
        for (at, len, offset) in [
            (0, 0, 0),
            (u64::MAX, 2, 0),
            (0, 2, u64::MAX),
            (0, 1, i64::MAX as u64),
        ] {
            assert_eq!(guest.map(at, range(len, offset)), Err(Refused::Shape));
        }
        for number in 0..RANGES_MAX as u64 {
            guest.map(number * 2, range(1, 0)).expect("room");
        }
        assert_eq!(guest.map(1, range(1, 0)), Err(Refused::TooMany));
    }

    proptest! {
        /// The mapped addresses agree with a model that has an owner per address.
        #[test]
        fn ranges_come_and_go_as_in_a_row_of_flags(
            steps in prop::collection::vec((any::<bool>(), 0_u64..32, 0_u64..8), 1..40),
        ) {
            let (mut guest, mut model) = (Guest::default(), [0_usize; 48]);
            for (number, (maps, at, len)) in steps.into_iter().enumerate() {
                let span = at as usize..(at + len) as usize;
                if maps {
                    let free = model[span.clone()].iter().all(|owner| *owner == 0);
                    let mapped = guest.map(at, range(len, 0)).is_ok();
                    prop_assert_eq!(mapped, free && len > 0);
                    if mapped {
                        model[span].fill(number + 1);
                    }
                    continue;
                }
                let mut owners: Vec<usize> = model[span.clone()].to_vec();
                owners.retain(|owner| *owner > 0);
                let beyond = |owner: &usize| {
                    let all = model.iter().filter(|other| *other == owner).count();
                    all != owners.iter().filter(|other| *other == owner).count()
                };
                let expected = !owners.is_empty() && !owners.iter().any(beyond);
                prop_assert_eq!(guest.unmap(at, len).is_some(), expected);
                if expected {
                    model[span].fill(0);
                }
            }
            for (at, owner) in model.iter().enumerate() {
                let there = guest.read(at as u64, &mut [0]).is_ok();
                prop_assert_eq!(there, *owner > 0, "{}", at);
            }
        }
    }
}
