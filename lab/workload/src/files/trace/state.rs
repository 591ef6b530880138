//! State of a reader of file calls, with the checks of each item against it.

use super::super::{Call, Errno, Event, Fd, Name, Names, Setup, Step, Thread, ThreadId};
use super::About;
use super::item::Item;
use input::{Expected, expected};
use units::Ns;

/// Upper bound on a time in nanoseconds: some 146 years, so that sums of a few times fit into 64
/// bits.
pub(super) const TIME_MAX: u64 = u64::MAX / 4;

/// Upper bound on an offset or a length: that of the operating system.
pub(super) const OFFSET_MAX: u64 = i64::MAX as u64;

/// Contents of the trace so far.
#[derive(Default)]
pub(super) struct State {
    pub(super) about: About,
    pub(super) setup: Setup,
    pub(super) names: Names,
    pub(super) threads: Vec<Thread>,
    /// End of the last step of each thread, in nanoseconds.
    ends: Vec<u64>,
    /// Number of slots ever taken: one more than the largest.
    slots: u32,
    events: u64,
}

/// Call with its recorded times and result, before it is checked.
pub(super) struct Said {
    pub(super) thread: u64,
    pub(super) at: u64,
    pub(super) took: u64,
    pub(super) result: i64,
    pub(super) call: Call,
}

impl State {
    /// Adds an item; returns `false` for the end of the trace.
    pub(super) fn item(&mut self, item: Item) -> Result<bool, Expected> {
        let bytes = |name| self.names.bytes(name).to_vec();
        match item {
            Item::Root(root) => self.about.root = bytes(root),
            Item::Command(command) => self.about.command = bytes(command),
            Item::Note(note) => self.about.notes.push(bytes(note)),
            Item::Thread(thread) => self.thread(thread)?,
            Item::Entry(_) if self.events > 0 => return expected("no setup after the first call"),
            Item::Entry(entry) => self.setup.entries.push(entry),
            Item::End(events) if events != self.events => {
                return expected(format!("{events} calls before the end"));
            }
            Item::End(_) => return Ok(false),
        }
        Ok(true)
    }

    fn thread(&mut self, thread: Thread) -> Result<(), Expected> {
        let known = self.threads.len();
        if thread.parent.is_some_and(|it| it.0 as usize >= known) {
            return expected("a thread whose parent is known");
        }
        if thread.process as usize > known {
            return expected("processes numbered from 0");
        }
        if thread.born.0 > TIME_MAX {
            return expected("a time within 146 years");
        }
        self.threads.push(thread);
        self.ends.push(thread.born.0);
        Ok(())
    }

    /// Checks a call and converts it into an event.
    pub(super) fn event(&mut self, said: &Said) -> Result<Event, Expected> {
        let thread = usize::try_from(said.thread).ok();
        let Some(end) = thread.and_then(|thread| self.ends.get_mut(thread)) else {
            return expected("a thread that is known");
        };
        if said.at > TIME_MAX || said.took > TIME_MAX {
            return expected("a time within 146 years");
        }
        let think = said.at.saturating_sub(*end);
        *end = said.at + said.took;
        if let Call::Open { fd, .. } = said.call {
            self.slots = self.slots.max(fd.0.saturating_add(1));
        }
        self.events += 1;
        let id = u32::try_from(said.thread).expect("an index of threads");
        Ok(Event {
            step: Step {
                thread: ThreadId(id),
                think: Ns(think),
                call: said.call,
            },
            at: Ns(said.at),
            took: Ns(said.took),
            result: result(said.result)?,
        })
    }

    /// Checks the slot `number`, which may be one above all others if `opens`.
    pub(super) fn fd(&self, number: u64, opens: bool) -> Result<Fd, Expected> {
        let most = u64::from(self.slots) + u64::from(opens);
        match u32::try_from(number) {
            Ok(fd) if number < most => Ok(Fd(fd)),
            _ => expected(format!("an open file below {most}")),
        }
    }

    /// Checks `name` as the value of the field `key`: a path must be inside the root.
    pub(super) fn path(&self, key: &str, name: Name) -> Result<Name, Expected> {
        let path = matches!(key, "path" | "from" | "to");
        if path && !is_inside(self.names.bytes(name)) {
            return expected("a path inside the root, without empty parts, `.` and `..`");
        }
        Ok(name)
    }
}

/// Whether `path` keeps the rules for paths of [`super::super`].
fn is_inside(path: &[u8]) -> bool {
    let fine = |part: &[u8]| !matches!(part, b"" | b"." | b"..") && !part.contains(&0);
    path.is_empty() || path.split(|&b| b == b'/').all(fine)
}

/// Result of a call from its encoding as one number.
fn result(number: i64) -> Result<Result<u64, Errno>, Expected> {
    match u64::try_from(number) {
        Ok(value) => Ok(Ok(value)),
        Err(_) => match u16::try_from(number.unsigned_abs()) {
            Ok(errno) => Ok(Err(Errno(errno))),
            Err(_) => expected("an error below 65536"),
        },
    }
}

/// Encodes the result of a call as one number: the value, or the negated error.
pub(super) fn number(result: Result<u64, Errno>) -> i64 {
    match result {
        Ok(value) => i64::try_from(value).unwrap_or(i64::MAX),
        Err(errno) => -i64::from(errno.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_inside_the_root() {
        for path in ["", "a", "a/b", "..a/.b"] {
            assert!(is_inside(path.as_bytes()), "{path}");
        }
        for path in ["/", "/a", "a/", "a//b", "..", "a/../b", ".", "a\0"] {
            assert!(!is_inside(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn call_results_round_trip_as_one_number() {
        for answer in [Ok(0), Ok(7), Err(Errno(2)), Err(Errno(65535))] {
            assert_eq!(result(number(answer)).unwrap(), answer);
        }
        assert!(result(-65_536).is_err());
    }
}
