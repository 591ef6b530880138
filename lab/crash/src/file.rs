//! One file of the history: present and earlier bytes and sizes.
//!
//! Invariant: an overwritten value of a byte is kept until a force ends that began after the
//! write; the same holds for every size.

use crate::attributes::Known;
use crate::spans::Spans;
use std::ops::Range;
use vfs::{FileKind, Ino};

/// A byte range of a file, and the pattern of 8 bytes that fills it.
pub(crate) type Part = (Range<u64>, u64);

/// A value that bytes had before they were overwritten.
#[derive(Clone, Debug)]
pub(crate) struct Older {
    /// Time at which the value was overwritten.
    at: u64,
    pub(crate) range: Range<u64>,
    /// Pattern of the bytes; none if the bytes were not recorded.
    pub(crate) pattern: Option<u64>,
}

/// Time at which an inode got its first name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Birth {
    /// Before the history, or before a [`Chronicle::settle`](crate::Chronicle::settle): no
    /// moment of the log made the inode.
    Before,
    /// Not yet: the inode was made without a name.
    Unnamed,
    /// At this moment of the log.
    At(usize),
}

/// State of a file, directory or symbolic link.
#[derive(Clone, Debug)]
pub(crate) struct File {
    pub(crate) ino: Ino,
    pub(crate) kind: FileKind,
    /// Target of a symbolic link; empty for other kinds.
    pub(crate) target: Vec<u8>,
    pub(crate) size: u64,
    pub(crate) now: Spans,
    /// Bytes whose value was not recorded: 1, all others 0.
    pub(crate) unknown: Spans,
    /// Overwritten values that the medium may still show.
    pub(crate) older: Vec<Older>,
    /// Sizes since the last force, with the time at which each was set.
    pub(crate) sizes: Vec<(u64, u64)>,
    /// Values that a failed change may have written in part. A force makes either these values
    /// or the ones before them durable.
    pub(crate) maybe: Vec<Part>,
    /// Smallest and largest size that a failed change may have set; no others are judged by.
    /// All of them would double with every failed force of a file that grows.
    maybe_sizes: Option<(u64, u64)>,
    /// Moments since the last force that changed a name of the file, or a name in it.
    pub(crate) touches: Vec<usize>,
    pub(crate) birth: Birth,
    pub(crate) attributes: Known,
}

impl File {
    pub(crate) fn new(ino: Ino, kind: FileKind, target: &[u8]) -> Self {
        Self {
            ino,
            kind,
            target: target.to_vec(),
            size: 0,
            now: Spans::default(),
            unknown: Spans::default(),
            older: Vec::new(),
            sizes: Vec::new(),
            maybe: Vec::new(),
            maybe_sizes: None,
            touches: Vec::new(),
            birth: Birth::Unnamed,
            attributes: Known::default(),
        }
    }

    /// Smallest and largest size since the last force.
    pub(crate) fn sizes(&self) -> (u64, u64) {
        let maybe = self.maybe_sizes.into_iter();
        let maybe = maybe.flat_map(|(least, most)| [least, most]);
        let sizes = self.sizes.iter().map(|s| s.1).chain(maybe);
        let sizes = sizes.chain([self.size]);
        let most = sizes.clone().max().unwrap_or(self.size);
        (sizes.min().unwrap_or(self.size), most)
    }

    /// Contents of `span`, moved to offset `place` of another file; no parts if they are not
    /// known.
    pub(crate) fn held(&self, span: &Range<u64>, place: u64) -> Vec<Part> {
        let unknown = self.unknown.read(span.clone());
        let maybe = |part: &Range<u64>| part.start < span.end && span.start < part.end;
        let is_unknown = unknown.iter().any(|(_, unknown)| *unknown != 0)
            || self.maybe.iter().any(|(part, _)| maybe(part))
            // Patterns repeat from the start of the file, so a shift must keep their phase.
            || span.start % 8 != place % 8;
        if is_unknown {
            return Vec::new();
        }
        let there = |at: u64| place + (at - span.start);
        let parts = self.now.read(span.clone()).into_iter();
        let parts = parts.map(|(part, pattern)| (there(part.start)..there(part.end), pattern));
        parts.collect()
    }

    /// Effect of `edit` with `done` bytes written: the range, its new parts (none if they are
    /// not known), and the new size.
    fn effect(&self, edit: Edit, done: u64) -> (Range<u64>, Vec<Part>, u64) {
        let size = self.size;
        let zeros = |range: Range<u64>| vec![(range, 0)];
        match edit {
            Edit::Write { range, parts } => {
                let end = range.end.min(range.start + done);
                let parts = parts.into_iter();
                let parts = parts.map(|(part, pattern)| (part.start..part.end.min(end), pattern));
                let parts = parts.filter(|(part, _)| !part.is_empty()).collect();
                // An empty write behind the end does not grow the file.
                let grown = if end > range.start { end } else { 0 };
                (range.start..end, parts, size.max(grown))
            }
            Edit::Zero { range } => {
                let range = range.start..range.end.min(size).max(range.start);
                (range.clone(), zeros(range), size)
            }
            Edit::Resize { size: new } => {
                let range = new..size.max(new);
                (range.clone(), zeros(range), new)
            }
        }
    }

    pub(crate) fn change(&mut self, at: u64, edit: Edit, done: u64) {
        let cuts = matches!(edit, Edit::Resize { .. });
        let (range, mut parts, size) = self.effect(edit, done);
        let unknown = parts.is_empty();
        if unknown {
            parts.push((range.clone(), 0));
        }
        self.overwrite_maybe(at, &range);
        for (range, pattern) in parts {
            let overwritten = self.now.write(range, pattern).into_iter();
            let older = overwritten.map(|(range, pattern)| Older {
                at,
                range,
                pattern: Some(pattern),
            });
            self.older.extend(older);
        }
        // Until a force the file may have any of the sizes that it may have had.
        if let Some((least, most)) = self.maybe_sizes.filter(|_| cuts || size > self.size) {
            self.sizes.extend([(at - 1, least), (at - 1, most)]);
            let grown = (size.max(least), size.max(most));
            self.maybe_sizes = (!cuts).then_some(grown);
        }
        let before = self.unknown.write(range, u64::from(unknown)).into_iter();
        let before = before.filter(|(_, unknown)| *unknown != 0);
        self.older.extend(before.map(|(range, _)| Older {
            at,
            range,
            pattern: None,
        }));
        self.size = size;
        self.sizes.push((at, size));
    }

    /// Turns values of failed changes in `range` into overwritten ones.
    fn overwrite_maybe(&mut self, at: u64, range: &Range<u64>) {
        for (part, pattern) in std::mem::take(&mut self.maybe) {
            let inside = part.start.max(range.start)..part.end.min(range.end);
            let outside = [
                part.start..part.end.min(range.start),
                part.start.max(range.end)..part.end,
            ];
            let outside = outside.into_iter().filter(|part| !part.is_empty());
            self.maybe.extend(outside.map(|part| (part, pattern)));
            if !inside.is_empty() {
                self.older.push(Older {
                    at,
                    range: inside,
                    pattern: Some(pattern),
                });
            }
        }
    }

    pub(crate) fn maybe_change(&mut self, edit: Edit) {
        let (range, parts, size) = self.effect(edit, u64::MAX / 2);
        if parts.is_empty() {
            self.unknown.write(range, 1);
        }
        self.maybe.extend(parts);
        if size != self.size {
            self.add_maybe_size(size);
        }
    }

    fn add_maybe_size(&mut self, size: u64) {
        let (least, most) = self.maybe_sizes.unwrap_or((size, size));
        self.maybe_sizes = Some((least.min(size), most.max(size)));
    }

    /// Records that a force or a write-back of `range` failed. Its bytes may never reach the
    /// medium, and a later force does not report that.
    pub(crate) fn doubt(&mut self, range: &Range<u64>) {
        for older in std::mem::take(&mut self.older) {
            let part = older.range.start.max(range.start)..older.range.end.min(range.end);
            match older.pattern {
                _ if part.is_empty() => self.older.push(older),
                Some(pattern) => self.maybe.push((older.range, pattern)),
                None => drop(self.unknown.write(older.range, 1)),
            }
        }
        let sizes = std::mem::take(&mut self.sizes).into_iter();
        sizes.for_each(|(_, size)| self.add_maybe_size(size));
    }

    /// Records a force that began at time `at`: bytes of `range` from before are durable. So
    /// is the size, if `range` reaches to the end of all files; otherwise the file reaches at
    /// least to the end of `range`.
    pub(crate) fn force(&mut self, at: u64, range: &Range<u64>) {
        for older in std::mem::take(&mut self.older) {
            if older.at >= at {
                self.older.push(older);
                continue;
            }
            let Range { start, end } = older.range;
            let outside = [start..end.min(range.start), start.max(range.end)..end];
            let outside = outside.into_iter().filter(|part| !part.is_empty());
            self.older
                .extend(outside.map(|range| Older { range, ..older }));
        }
        // The size at `at` is the last one that was set before it.
        let last = self.sizes.iter().rposition(|&(time, _)| time < at);
        let Some(last) = last else { return };
        if range.start == 0 && range.end >= u64::MAX / 2 {
            self.sizes.drain(..last);
            return;
        }
        let reached = self.sizes[last].1.min(range.end);
        for (_, size) in &mut self.sizes[..last] {
            *size = reached.max(*size);
        }
    }
}

/// A change of the contents of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Edit {
    /// Writes patterns over the parts of a range and grows the file to its end. Without parts
    /// the bytes are not recorded, and the judge accepts any.
    Write { range: Range<u64>, parts: Vec<Part> },
    /// Writes zeros over a range; the size stays.
    Zero { range: Range<u64> },
    /// Sets the size; bytes past it become zeros.
    Resize { size: u64 },
}
