//! What a recording says of each file: who it was, how it was written, how long it lived.
//!
//! Invariants: a file that is emptied is another one from then on; a file that is there at
//! the end has lived at least as long as was seen, and is not said to have died.

use crate::directive::Hint;
use crate::event::{Call, Event, FileKey, Opening};
use crate::flags::Flags;
use crate::scale;
use std::collections::BTreeMap;
use units::Ns;

/// One file from its first byte to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileLife {
    /// Its path when it was first written.
    pub path: Vec<u8>,
    /// Its last path, if it was renamed since.
    pub renamed: Option<Vec<u8>>,
    /// The program that opened it.
    pub program: Vec<u8>,
    /// The name of the thread that did.
    pub thread: Vec<u8>,
    /// How.
    pub flags: Flags,
    /// With which permissions.
    pub mode: u32,
    /// What the program said of it last.
    pub hint: Hint,
    /// When it was first written.
    pub born: Ns,
    /// When it was last seen alive, or died.
    pub until: Ns,
    /// Whether it died.
    pub died: bool,
    /// Bytes that were written.
    pub written: u64,
    /// Those of them that replaced others.
    pub replaced: u64,
    /// Its largest size by what was written, in bytes.
    pub size: u64,
    /// Calls that wrote.
    pub writes: u64,
    /// Calls that made it durable.
    pub syncs: u64,
}

/// How long the data of a file live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// The time, on the logarithmic scale of sixteenths of a power of two of nanoseconds.
    pub steps: u64,
    /// Whether they were seen to die; else they lived at least so long.
    pub whole: bool,
}

impl FileLife {
    fn begin(open: &Opening<'_>, at: Ns) -> Self {
        Self {
            path: open.path.to_vec(),
            renamed: None,
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
            size: 0,
            writes: 0,
            syncs: 0,
        }
    }

    /// The same file, emptied.
    fn anew(&self, at: Ns) -> Self {
        Self {
            path: self.renamed.clone().unwrap_or_else(|| self.path.clone()),
            renamed: None,
            born: at,
            until: at,
            written: 0,
            replaced: 0,
            size: 0,
            writes: 0,
            syncs: 0,
            ..self.clone()
        }
    }

    fn write(&mut self, at: Ns, offset: u64, len: u64) {
        if self.written == 0 {
            self.born = at;
        }
        let over = self.size.saturating_sub(offset).min(len);
        self.replaced = self.replaced.saturating_add(over);
        self.written = self.written.saturating_add(len);
        self.size = self.size.max(offset.saturating_add(len));
        self.writes += 1;
    }

    /// Whether at least half of what was written replaced something: the file is written in
    /// place, and its data die while it lives.
    #[must_use]
    pub fn in_place(&self) -> bool {
        self.replaced > 0 && self.replaced >= self.written / 2
    }

    /// How long its data live. In a file that is written in place they are replaced after
    /// (its size) / (bytes replaced in a unit of time) on average, by Little's law.
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

/// Every file of `events` that was written, in the order of their first bytes.
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
        Call::Rename { to } => file.renamed = Some(to.to_vec()),
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
    fn a_file_lives_from_its_first_byte() {
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
    fn what_is_emptied_dies_and_begins_anew() {
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
    fn in_place_the_data_die_before_the_file() {
        let mut events = vec![event(0, 1, open("a", Flags::READ_WRITE))];
        events.push(event(
            0,
            1,
            Call::Write {
                offset: 0,
                len: 100,
            },
        ));
        // A tenth of the file in each of 1,000 steps: all of it within ten.
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
}
