//! Online placement: assigns files to streams while it learns their lifetimes.
//!
//! The expected lifetime of a new file is the median of similar files: those with the same shape of
//! name, folder, hint and thread; if these are too few, those with the same shape and hint; the
//! same shape; the same extension; all files. The death of a file's data is noted as a lifetime. A
//! file that outlives its expectation is noted before its death with twice its age, and again at
//! each doubling; such a note is replaced when the true lifetime is known. So files that never die
//! are learned, too.
//!
//! Streams are ranges of lifetimes, cut such that written data are divided with the least spread
//! within streams. Stream 0 is for files without an expected lifetime.
//!
//! Invariants: memory is bounded by [`OnlineLimits`] in any case: the files remembered first and
//! the kinds least recently used are forgotten. Each event takes a bounded number of steps.

mod seen;
#[cfg(test)]
mod tests;

use super::shape::shape;
use crate::directive::{Directive, Grouping, Hint, Newest, StreamId};
use crate::event::{Call, Event, FileKey, Opening};
use crate::flags::Flags;
use crate::translate::cheapest;
use seen::{BUCKETS, FADE, LEVELS, Live, Seen, Traits, bytes};
use std::collections::{BTreeMap, BTreeSet};
use units::Ns;

/// Limits of online learning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnlineLimits {
    /// Number of streams beside stream 0, at least 1.
    pub streams: u16,
    /// Maximum number of remembered files, at least 1; about 200 bytes each.
    pub files: usize,
    /// Maximum number of remembered kinds of files, at least 5; about 350 bytes each.
    pub kinds: usize,
    /// Policy by which a stream starts a new group.
    pub grouping: Grouping,
}

impl Default for OnlineLimits {
    /// Our choices: 7 streams, as many as eight placement handles leave; 65,536 files and 4,096
    /// kinds, about 15 MB.
    fn default() -> Self {
        Self {
            streams: 7,
            files: 1 << 16,
            kinds: 1 << 12,
            grouping: Grouping::default(),
        }
    }
}

/// Maximum number of overdue files that one event processes.
const LOOKS: usize = 16;
/// Number of opened files after which the streams are cut anew.
const CUT_EVERY: u32 = 64;
/// Default expectation, as a power of two: 2^20 ns, a millisecond.
const FIRST: u8 = 20;

/// Assigns files to streams, and learns lifetimes meanwhile.
#[derive(Clone, Debug)]
pub struct Online {
    limits: OnlineLimits,
    seen: BTreeMap<u64, Seen>,
    by_use: BTreeMap<u64, u64>,
    files: BTreeMap<FileKey, Live>,
    by_order: BTreeMap<u64, FileKey>,
    due: BTreeSet<(Ns, FileKey)>,
    /// Blocks written, by the expected lifetime of their files.
    traffic: [u64; BUCKETS],
    stream_of: [u16; BUCKETS],
    opened: u32,
    newest: Vec<Newest>,
    next: u64,
}

impl Online {
    /// A learner without any knowledge.
    #[must_use]
    pub fn new(limits: OnlineLimits) -> Self {
        let limits = OnlineLimits {
            streams: limits.streams.max(1),
            files: limits.files.max(1),
            kinds: limits.kinds.max(LEVELS),
            ..limits
        };
        Self {
            limits,
            seen: BTreeMap::new(),
            by_use: BTreeMap::new(),
            files: BTreeMap::new(),
            by_order: BTreeMap::new(),
            due: BTreeSet::new(),
            traffic: [0; BUCKETS],
            stream_of: [1; BUCKETS],
            opened: 0,
            newest: vec![Newest::default(); usize::from(limits.streams) + 1],
            next: 0,
        }
    }

    /// Processes an event and returns the directive for later writes to the file; `None` if the
    /// file is not remembered.
    pub fn tell(&mut self, event: &Event<'_>) -> Option<Directive> {
        let (at, key) = (event.at, event.file);
        self.look_at_due(at);
        match event.call {
            Call::Open(open) => self.open(at, key, &open, event.thread),
            Call::Write { offset, len } => self.write(at, key, offset, len),
            Call::Hint(hint) => self.change(at, key, |traits| traits.hint = hint),
            Call::Rename { to } => self.change(at, key, |traits| traits.name(to)),
            Call::Truncate { len: 0 } => self.end(at, key),
            Call::Gone => {
                self.end(at, key);
                self.forget(key);
            }
            Call::Allocate { .. } | Call::Truncate { .. } | Call::Sync | Call::Close => {}
        }
        self.files.get(&key).map(|live| live.directive)
    }

    /// Expected lifetime of the data of `file`, as a power of two of nanoseconds; `None` if it is
    /// unknown.
    #[must_use]
    pub fn expected(&self, file: FileKey) -> Option<u8> {
        self.files.get(&file)?.expected
    }

    /// Numbers of remembered files and of remembered kinds.
    #[must_use]
    pub fn remembered(&self) -> (usize, usize) {
        (self.files.len(), self.seen.len())
    }

    fn open(&mut self, at: Ns, key: FileKey, open: &Opening<'_>, thread: u32) {
        if self.files.contains_key(&key) {
            if open.flags.has(Flags::TRUNCATE) && open.flags.writes() {
                self.end(at, key);
            }
            return;
        }
        let thread = match open.thread {
            [] => u64::from(thread),
            name => bytes(shape(name).as_bytes()),
        };
        let mut traits = Traits {
            folder: 0,
            shape: 0,
            extension: 0,
            thread,
            hint: Hint::NotSet,
        };
        traits.name(open.path);
        let live = Live {
            order: self.next,
            traits,
            born: None,
            size: 0,
            written: 0,
            replaced: 0,
            expected: None,
            noted: None,
            due: None,
            directive: Directive {
                stream: StreamId(0),
                group: 0,
            },
        };
        self.by_order.insert(self.next, key);
        self.next += 1;
        self.files.insert(key, live);
        self.opened += 1;
        if self.opened.is_multiple_of(CUT_EVERY) {
            self.cut();
        }
        self.expect(at, key);
        if self.files.len() > self.limits.files
            && let Some((_, &oldest)) = self.by_order.first_key_value()
        {
            self.forget(oldest);
        }
    }

    /// Updates the expected lifetime of a file, and assigns a group in its stream.
    fn expect(&mut self, at: Ns, key: FileKey) {
        let Some(live) = self.files.get_mut(&key) else {
            return;
        };
        let kinds = live.traits.kinds();
        live.expected = kinds.iter().find_map(|kind| self.seen.get(kind)?.median());
        let stream = live
            .expected
            .map_or(0, |bucket| self.stream_of[usize::from(bucket)]);
        let group = self.newest[usize::from(stream)].take(self.limits.grouping, at);
        live.directive = Directive {
            stream: StreamId(stream),
            group,
        };
    }

    fn change(&mut self, at: Ns, key: FileKey, how: impl FnOnce(&mut Traits)) {
        let Some(live) = self.files.get_mut(&key) else {
            return;
        };
        // A provisional note belongs to the kinds that the file had before.
        let noted = live
            .noted
            .take()
            .map(|bucket| (live.traits.kinds(), bucket));
        how(&mut live.traits);
        let unwritten = live.written == 0;
        if let Some((kinds, bucket)) = noted {
            self.take_back(kinds, bucket);
        }
        if unwritten {
            self.expect(at, key);
        }
    }

    fn write(&mut self, at: Ns, key: FileKey, offset: u64, len: u64) {
        let Some(live) = self.files.get_mut(&key) else {
            return;
        };
        if live.born.is_none() {
            live.born = Some(at);
            let until = after(at, live.expected.unwrap_or(FIRST) + 1);
            live.due = Some(until);
            self.due.insert((until, key));
        }
        let over = live.size.saturating_sub(offset).min(len);
        live.replaced = live.replaced.saturating_add(over);
        live.written = live.written.saturating_add(len);
        live.size = live.size.max(offset.saturating_add(len));
        let bucket = usize::from(live.expected.unwrap_or(FIRST));
        self.traffic[bucket] = self.traffic[bucket].saturating_add(len.div_ceil(4096));
        let Directive { stream, group } = live.directive;
        self.newest[usize::from(stream.0)].wrote(group, len);
    }

    /// Processes files that outlived their expectation, at most [`LOOKS`] of them.
    fn look_at_due(&mut self, now: Ns) {
        for _ in 0..LOOKS {
            let Some(&(until, key)) = self.due.first() else {
                return;
            };
            if until > now {
                return;
            }
            self.due.remove(&(until, key));
            self.outlived(now, key);
        }
    }

    fn outlived(&mut self, now: Ns, key: FileKey) {
        let Some(live) = self.files.get_mut(&key) else {
            return;
        };
        let age = now.since(live.born.unwrap_or(now)).0.max(1).ilog2() as u8;
        let in_place = live.in_place();
        let bucket = if in_place {
            live.bucket(now)
        } else {
            (age + 1).min(BUCKETS as u8 - 1)
        };
        let kinds = live.traits.kinds();
        let before = live.noted.replace(bucket);
        let next = after(live.born.unwrap_or(now), age + 1);
        live.due = (next > now).then_some(next);
        self.due.extend(live.due.map(|due| (due, key)));
        if let Some(before) = before {
            self.take_back(kinds, before);
        }
        self.note(kinds, bucket);
        // Such a file continues to be written, so it profits from the lesson itself.
        if in_place {
            self.expect(now, key);
        }
    }

    /// Handles the death of a file's data; the file itself may live on.
    fn end(&mut self, at: Ns, key: FileKey) {
        let Some(live) = self.files.get_mut(&key) else {
            return;
        };
        let kinds = live.traits.kinds();
        let noted = live.noted.take();
        let bucket = live.born.take().map(|born| {
            live.born = Some(born);
            live.bucket(at)
        });
        live.born = None;
        (live.size, live.written, live.replaced) = (0, 0, 0);
        if let Some(due) = live.due.take() {
            self.due.remove(&(due, key));
        }
        if let Some(noted) = noted {
            self.take_back(kinds, noted);
        }
        if let Some(bucket) = bucket {
            self.note(kinds, bucket);
            self.expect(at, key);
        }
    }

    fn note(&mut self, kinds: [u64; LEVELS], bucket: u8) {
        for kind in kinds {
            self.next += 1;
            let fresh = Seen {
                counts: [0; BUCKETS],
                total: 0,
                used: self.next,
            };
            let seen = self.seen.entry(kind).or_insert(fresh);
            self.by_use.remove(&seen.used);
            seen.used = self.next;
            seen.note(bucket);
            self.by_use.insert(self.next, kind);
        }
        while self.seen.len() > self.limits.kinds {
            match self.by_use.pop_first() {
                Some((_, kind)) => self.seen.remove(&kind),
                None => return,
            };
        }
    }

    fn take_back(&mut self, kinds: [u64; LEVELS], bucket: u8) {
        for kind in kinds {
            if let Some(seen) = self.seen.get_mut(&kind) {
                seen.take_back(bucket);
            }
        }
    }

    fn forget(&mut self, key: FileKey) {
        if let Some(live) = self.files.remove(&key) {
            self.by_order.remove(&live.order);
            if let Some(due) = live.due {
                self.due.remove(&(due, key));
            }
        }
    }

    /// Cuts the range of lifetimes into streams anew, by the data written since the last cut and
    /// half of the earlier ones.
    fn cut(&mut self) {
        let used = |(bucket, &blocks): (usize, &u64)| {
            (blocks > 0).then_some((bucket as u64, blocks.min(1 << 40)))
        };
        let points: Vec<(u64, u64)> = self.traffic.iter().enumerate().filter_map(used).collect();
        if points.is_empty() {
            return;
        }
        let cuts = cheapest(&points, points.len().min(usize::from(self.limits.streams)));
        let mut stream = 1;
        for bucket in 0..BUCKETS {
            // A range ends at the first point of the next one.
            let next = cuts
                .get(usize::from(stream))
                .and_then(|&cut| points.get(cut));
            if next.is_some_and(|point| bucket as u64 >= point.0) {
                stream += 1;
            }
            self.stream_of[bucket] = stream;
        }
        self.traffic.iter_mut().for_each(|blocks| *blocks /= 2);
    }

    /// Checks the invariants.
    ///
    /// # Panics
    /// If an invariant is violated.
    pub fn check(&self) {
        assert!(self.files.len() <= self.limits.files && self.seen.len() <= self.limits.kinds);
        assert_eq!(self.files.len(), self.by_order.len());
        assert_eq!(self.seen.len(), self.by_use.len());
        let due = self
            .files
            .values()
            .filter(|live| live.due.is_some())
            .count();
        assert_eq!(due, self.due.len());
        assert!(self.stream_of.is_sorted());
        for seen in self.seen.values() {
            assert_eq!(seen.total, seen.counts.iter().sum::<u32>());
            assert!(seen.total <= FADE);
        }
        let streams = self.files.values().map(|live| live.directive.stream.0);
        assert!(streams.max().unwrap_or(0) <= self.limits.streams);
    }
}

/// The time 2^`power` nanoseconds after `at`.
fn after(at: Ns, power: u8) -> Ns {
    let span = 1_u64.checked_shl(u32::from(power)).unwrap_or(u64::MAX);
    Ns(at.0.saturating_add(span))
}
