//! A source of calls written as text: `write fd=0 len=10 -> 10` is a call and its expected result.

use play::{Options, Outcome, Place, play, prepare};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use units::Ns;
use workload::files::{
    Call, Entry, EntryKind, Errno, Fd, FieldSource, Mode, Name, Names, Setup, Source, ThreadId,
    Turn,
};

/// A call of a thread; it waits until `after` calls of all threads together have ended.
pub(crate) struct Line {
    pub(crate) call: Call,
    pub(crate) expect: Option<Result<u64, Errno>>,
    pub(crate) after: u32,
}

/// Source that gives each thread its lines in order.
#[derive(Default)]
pub(crate) struct Script {
    pub(crate) names: Names,
    pub(crate) setup: Setup,
    pub(crate) threads: Vec<Vec<Line>>,
    at: Vec<usize>,
    ended: u32,
    parked: Vec<ThreadId>,
    /// Calls in the order in which they ended: thread and line.
    pub(crate) order: Vec<(u32, usize)>,
    /// Number of ended calls after which playing is stopped; `None` plays to the end.
    pub(crate) stop_after: Option<u32>,
    stop: Arc<AtomicBool>,
}

impl Script {
    /// A script of one thread, a call a line.
    pub(crate) fn new(text: &str) -> Self {
        let mut script = Self::default();
        script.threads.push(Vec::new());
        text.lines().for_each(|line| script.say(line));
        script
    }

    /// Adds a line to thread 0, unless it is blank.
    pub(crate) fn say(&mut self, line: &str) {
        let (call, answer) = line.split_once("->").unwrap_or((line, ""));
        let mut words = call.split_whitespace();
        let Some(kind) = words.next() else {
            return;
        };
        let fields = words.map(|word| word.split_once('=').expect("key=value"));
        let (number, _) = Call::KINDS.iter().find(|k| k.1 == kind).expect("a call");
        let mut fields = Fields(&mut self.names, fields.collect());
        let call = Call::take(*number, &mut fields).unwrap().unwrap();
        let answer = answer.trim();
        let number = || answer.parse().ok().map(Ok);
        let expect = Errno::named(answer).map(Err).or_else(number);
        let after = 0;
        self.threads[0].push(Line {
            call,
            expect,
            after,
        });
    }

    /// Adds an entry to the tree that exists before the first call.
    pub(crate) fn entry(mut self, path: &str, kind: EntryKind, mode: u16) -> Self {
        let (path, mode) = (self.names.intern(path.as_bytes()), Mode(mode));
        self.setup.entries.push(Entry { path, kind, mode });
        self
    }

    /// Adds a file to the tree that exists before the first call.
    pub(crate) fn file(self, path: &str, size: u64) -> Self {
        self.entry(path, EntryKind::File { size }, 0o644)
    }

    /// Creates the tree in `dir` and plays the script there.
    pub(crate) fn play(&mut self, dir: &Path) -> Outcome {
        let place = Place::new(dir).unwrap();
        prepare(&place, &self.setup, &self.names).unwrap();
        let stop = Arc::clone(&self.stop);
        play(&place, self, Options::default(), &stop).unwrap()
    }

    /// Plays the script in `dir` and asserts that every call has its expected result.
    pub(crate) fn play_well(&mut self, dir: &Path) -> Outcome {
        let outcome = self.play(dir);
        assert_eq!(outcome.first_mismatches, []);
        assert_eq!(outcome.mismatches, 0);
        outcome
    }
}

/// Fields of a call in text form.
struct Fields<'a>(&'a mut Names, BTreeMap<&'a str, &'a str>);

impl FieldSource for Fields<'_> {
    type Error = String;

    fn fd(&mut self, key: &'static str) -> Result<Fd, String> {
        self.number(key, u32::MAX.into()).map(|fd| Fd(fd as u32))
    }

    fn name(&mut self, key: &'static str) -> Result<Name, String> {
        let text = self.1.get(key).ok_or(key)?;
        Ok(self.0.intern(text.as_bytes()))
    }

    fn number(&mut self, key: &'static str, max: u64) -> Result<u64, String> {
        let number = self.1.get(key).and_then(|text| text.parse().ok());
        number.filter(|&n| n <= max).ok_or(key.to_owned())
    }

    fn octal(&mut self, key: &'static str, _: u64) -> Result<u64, String> {
        let text = self.1.get(key).ok_or(key)?;
        u64::from_str_radix(text, 8).map_err(|e| e.to_string())
    }

    fn word(&mut self, key: &'static str, words: &'static [&'static str]) -> Result<usize, String> {
        let word = self.1.get(key).ok_or(key)?;
        words.iter().position(|w| w == word).ok_or(key.to_owned())
    }

    fn bits(&mut self, key: &'static str, words: &'static [&'static str]) -> Result<u32, String> {
        let text = self.1.get(key).ok_or(key)?;
        let bit = |word| words.iter().position(|&w| w == word).map(|i| 1 << i);
        let bits = text.split('|').map(|word| bit(word).ok_or(key.to_owned()));
        bits.sum()
    }
}

impl Source for Script {
    fn names(&self) -> &Names {
        &self.names
    }

    fn setup(&self) -> &Setup {
        &self.setup
    }

    fn threads(&self) -> u32 {
        self.threads.len() as u32
    }

    fn next(&mut self, thread: ThreadId, _: Ns) -> Turn {
        let index = thread.0 as usize;
        self.at.resize(self.threads.len(), 0);
        let Some(line) = self.threads[index].get(self.at[index]) else {
            return Turn::Done;
        };
        if line.after > self.ended {
            self.parked.push(thread);
            return Turn::Park;
        }
        Turn::Call {
            late: Ns::ZERO,
            think: Ns::ZERO,
            call: line.call,
            expect: line.expect,
        }
    }

    fn ended(&mut self, thread: ThreadId, _: Result<u64, Errno>) {
        let at = &mut self.at[thread.0 as usize];
        self.order.push((thread.0, *at));
        *at += 1;
        self.ended += 1;
        if self.stop_after == Some(self.ended) {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    fn wake(&mut self) -> Option<ThreadId> {
        let (threads, at, ended) = (&self.threads, &self.at, self.ended);
        let ready = |id: &ThreadId| threads[id.0 as usize][at[id.0 as usize]].after <= ended;
        let index = self.parked.iter().position(ready)?;
        Some(self.parked.remove(index))
    }
}
