//! Facts about each file of a recording: identity, manner of writing, and lifetime.
//!
//! Invariants: a file that is emptied counts as another one from then on. A file that exists at the
//! end has lived at least as long as was seen, and does not count as dead.

use crate::directive::Hint;
use crate::event::{Call, Event, FileKey, Opening};
use crate::flags::Flags;
use crate::scale;
use std::collections::BTreeMap;
use units::Ns;

/// The life of one file, from its first byte to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileLife {
    /// Path of the file when it was first written.
    pub path: Vec<u8>,
    /// Last path of the file, if it was renamed since.
    pub renamed: Option<Vec<u8>>,
    /// Paths in between, the first eight.
    pub between: Vec<Vec<u8>>,
    /// Program that opened the file.
    pub program: Vec<u8>,
    /// Name of the thread that opened it.
    pub thread: Vec<u8>,
    /// Flags with which it was opened.
    pub flags: Flags,
    /// Permissions passed when it was opened.
    pub mode: u32,
    /// Latest write hint of the program.
    pub hint: Hint,
    /// Time of the first write.
    pub born: Ns,
    /// Time of death, or the end of the recording.
    pub until: Ns,
    /// Whether the file died during the recording.
    pub died: bool,
    /// Number of bytes written.
    pub written: u64,
    /// Number of those bytes that replaced earlier ones.
    pub replaced: u64,
    /// Number of the replacing bytes that continued the previous write.
    pub followed: u64,
    /// Maximum size by its writes, in bytes.
    pub size: u64,
    /// Number of write calls.
    pub writes: u64,
    /// Number of syncs of the file.
    pub syncs: u64,
    /// Start and end of the latest write, as offsets in bytes.
    last: (u64, u64),
}

/// Number of intermediate paths that are remembered of a file that is renamed repeatedly: enough to
/// find a common pattern.
const NAMES: usize = 8;

/// Manner in which a file's data die. Each manner leaves either whole free units on a drive or
/// holes in them, so it is worth separating files by manner whatever their lifetimes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Manner {
    /// The data die all at once: the file is removed or emptied.
    #[default]
    Whole,
    /// The data die in the order of their writing: the file is overwritten from one end to the
    /// other, as a circular log.
    InOrder,
    /// The data die in random order: pages are overwritten in place.
    Scattered,
}

/// Lifetime of a file's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// Duration on a logarithmic scale: sixteenths of a power of two of nanoseconds.
    pub steps: u64,
    /// Whether the death was seen; otherwise the data lived at least so long.
    pub whole: bool,
}

impl FileLife {
    fn begin(open: &Opening<'_>, at: Ns) -> Self {
        Self {
            path: open.path.to_vec(),
            renamed: None,
            between: Vec::new(),
            program: open.program.to_vec(),
            thread: open.thread.to_vec(),
            flags: open.flags,
            mode: open.mode,
            hint: Hint::NotSet,
            born: at,
            until: at,
            died: false,
            written: 0,
            replaced: 0,
            followed: 0,
            size: 0,
            writes: 0,
            syncs: 0,
            last: (0, 0),
        }
    }

    /// The life of the same file after it was emptied.
    fn anew(&self, at: Ns) -> Self {
        Self {
            path: self.renamed.clone().unwrap_or_else(|| self.path.clone()),
            renamed: None,
            between: Vec::new(),
            born: at,
            until: at,
            written: 0,
            replaced: 0,
            followed: 0,
            size: 0,
            writes: 0,
            syncs: 0,
            last: (0, 0),
            ..self.clone()
        }
    }

    fn rename(&mut self, to: &[u8]) {
        let old = self.renamed.replace(to.to_vec());
        let room = self.between.len() < NAMES;
        self.between.extend(old.filter(|_| room));
    }

    /// Paths that the file got after its first write.
    pub(super) fn later(&self) -> impl Iterator<Item = &[u8]> {
        self.between.iter().chain(&self.renamed).map(Vec::as_slice)
    }

    fn write(&mut self, at: Ns, offset: u64, len: u64) {
        if self.written == 0 {
            self.born = at;
        }
        let over = self.size.saturating_sub(offset).min(len);
        self.replaced = self.replaced.saturating_add(over);
        // A partial block that fills up is written again from its start.
        let (first, next) = self.last;
        if (first..=next).contains(&offset) {
            self.followed = self.followed.saturating_add(over);
        }
        self.last = (offset, offset.saturating_add(len));
        self.written = self.written.saturating_add(len);
        self.size = self.size.max(offset.saturating_add(len));
        self.writes += 1;
    }

    /// Whether at least half of the written bytes replaced others: the file is written in place,
    /// and its data die while it lives.
    #[must_use]
    pub fn in_place(&self) -> bool {
        self.replaced > 0 && self.replaced >= self.written / 2
    }

    /// Manner in which the file's data die.
    #[must_use]
    pub fn manner(&self) -> Manner {
        match self.in_place() {
            false => Manner::Whole,
            true if self.followed > self.replaced / 2 => Manner::InOrder,
            true => Manner::Scattered,
        }
    }

    /// Lifetime of the file's data. In a file that is written in place it is, on average, (size) /
    /// (bytes replaced per unit of time), by Little's law.
    #[must_use]
    pub fn span(&self) -> Span {
        let age = self.until.since(self.born).0.max(1);
        if !self.in_place() {
            return Span {
                steps: scale::log2(age),
                whole: self.died,
            };
        }
        let stay = u128::from(age) * u128::from(self.size) / u128::from(self.replaced.max(1));
        let stay = u64::try_from(stay).unwrap_or(u64::MAX).clamp(1, age);
        Span {
            steps: scale::log2(stay),
            whole: true,
        }
    }
}

/// The lives of all files that `events` write, in the order of their first writes.
pub fn lives<'a>(events: impl Iterator<Item = Event<'a>>) -> Vec<FileLife> {
    let mut open: BTreeMap<FileKey, FileLife> = BTreeMap::new();
    let mut done = Vec::new();
    let mut now = Ns(0);
    for event in events {
        now = now.max(event.at);
        follow(&event, now, &mut open, &mut done);
    }
    for (_, mut file) in open {
        file.until = now;
        done.push(file);
    }
    done.retain(|file| file.written > 0);
    done.sort_by(|a, b| (a.born, &a.path).cmp(&(b.born, &b.path)));
    done
}

fn follow(
    event: &Event<'_>,
    now: Ns,
    open: &mut BTreeMap<FileKey, FileLife>,
    done: &mut Vec<FileLife>,
) {
    let key = event.file;
    let mut end = |mut file: FileLife| {
        file.until = now;
        file.died = true;
        done.push(file);
    };
    if let Call::Open(opening) = event.call {
        let empties = opening.flags.has(Flags::TRUNCATE) && opening.flags.writes();
        if empties && let Some(old) = open.remove(&key) {
            end(old);
        }
        let begin = || FileLife::begin(&opening, now);
        open.entry(key).or_insert_with(begin);
        return;
    }
    let Some(file) = open.get_mut(&key) else {
        return;
    };
    match event.call {
        Call::Write { offset, len } => file.write(now, offset, len),
        Call::Sync => file.syncs += 1,
        Call::Hint(hint) => file.hint = hint,
        Call::Rename { to } if file.written == 0 => file.path = to.to_vec(),
        Call::Rename { to } => file.rename(to),
        Call::Truncate { len: 0 } => {
            let new = file.anew(now);
            end(std::mem::replace(file, new));
        }
        Call::Gone => {
            if let Some(file) = open.remove(&key) {
                end(file);
            }
        }
        Call::Open(_) | Call::Allocate { .. } | Call::Truncate { .. } | Call::Close => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(at: u64, file: u64, call: Call<'_>) -> Event<'_> {
        Event {
            at: Ns(at),
            thread: 0,
            file: FileKey(file),
            call,
        }
    }

    fn open(path: &str, flags: Flags) -> Call<'_> {
        Call::Open(Opening {
            path: path.as_bytes(),
            flags,
            ..Opening::default()
        })
    }

    #[test]
    fn life_begins_at_the_first_written_byte() {
        let made = Flags::WRITE.and(Flags::CREATE);
        let events = [
            event(0, 1, open("a", made)),
            event(10, 1, Call::Write { offset: 0, len: 5 }),
            event(20, 2, open("b", made)),
            event(20, 2, Call::Write { offset: 0, len: 5 }),
            event(30, 1, Call::Close),
            event(74, 1, Call::Gone),
            event(80, 1, open("c", made)),
            event(84, 2, Call::Sync),
        ];
        let files = lives(events.into_iter());
        let of = |at: usize| (files[at].path.as_slice(), files[at].span());
        assert_eq!(files.len(), 2, "a file without a byte is none");
        let span = |life, whole| Span {
            steps: scale::log2(life),
            whole,
        };
        assert_eq!(of(0), (b"a".as_slice(), span(64, true)));
        assert_eq!(of(1), (b"b".as_slice(), span(64, false)));
        assert_eq!((files[0].syncs, files[1].syncs), (0, 1));
    }

    #[test]
    fn emptied_file_dies_and_begins_a_new_life() {
        let write = Call::Write { offset: 0, len: 8 };
        let emptied = Flags::WRITE.and(Flags::TRUNCATE);
        let events = [
            event(0, 1, open("a", Flags::WRITE)),
            event(0, 1, write),
            event(5, 1, Call::Rename { to: b"z" }),
            event(16, 1, Call::Truncate { len: 0 }),
            event(20, 1, write),
            event(52, 1, open("z", emptied)),
            event(60, 1, write),
        ];
        let files = lives(events.into_iter());
        let ages: Vec<_> = files
            .iter()
            .map(|f| (f.until.0 - f.born.0, f.died))
            .collect();
        assert_eq!(ages, [(16, true), (32, true), (0, false)]);
        assert_eq!(
            (&*files[0].path, &*files[1].path),
            (b"a".as_slice(), b"z".as_slice())
        );
    }

    #[test]
    fn data_written_in_place_die_before_the_file() {
        let mut events = vec![event(0, 1, open("a", Flags::READ_WRITE))];
        events.push(event(
            0,
            1,
            Call::Write {
                offset: 0,
                len: 100,
            },
        ));
        // Each of 1,000 steps replaces a tenth of the file: all of it within ten steps.
        for step in 1..=1_000 {
            let offset = step % 10 * 10;
            events.push(event(step, 1, Call::Write { offset, len: 10 }));
        }
        let files = lives(events.into_iter());
        assert!(files[0].in_place());
        assert_eq!(
            files[0].span(),
            Span {
                steps: scale::log2(10),
                whole: true
            }
        );
    }

    #[test]
    fn manner_of_death_follows_from_overwrites() {
        let of = |writes: &[(u64, u64)]| {
            let mut file = FileLife::begin(&Opening::default(), Ns(0));
            for &(offset, len) in writes {
                file.write(Ns(0), offset, len);
            }
            file.manner()
        };
        assert_eq!(of(&[(0, 8), (8, 8)]), Manner::Whole);
        let around = [
            (0, 8),
            (8, 8),
            (16, 8),
            (0, 8),
            (8, 8),
            (16, 8),
            (0, 8),
            (8, 8),
        ];
        assert_eq!(of(&around), Manner::InOrder);
        // The last block of a log is rewritten while it fills up.
        let filling = [(0, 16), (0, 2), (0, 4), (0, 8), (8, 2), (8, 4)];
        assert_eq!(of(&filling), Manner::InOrder);
        let pages = [(0, 32), (24, 8), (0, 8), (16, 8), (0, 8)];
        assert_eq!(of(&pages), Manner::Scattered);
    }
}
