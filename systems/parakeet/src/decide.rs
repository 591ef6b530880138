//! Decisions: applies the rules to each file, and keeps the result up to date with events.
//!
//! Invariants:
//! - The rules are evaluated when a file is opened, and again when an attribute that they can test
//!   changes: at a rename, at a hint, when space is allocated. Data already written stay where they
//!   are; the result applies to later writes.
//! - A file that no rule names leaves no trace once it is closed.
//! - At most [`Limits::files`] files are remembered. Of the closed files the one remembered for
//!   longest is forgotten first; if it is opened again, it is treated as new.

use crate::directive::{Directive, Hint, Newest, StreamId};
use crate::event::{Call, Event, FileKey, Opening};
use crate::flags::Flags;
use crate::rules::{Facts, RuleSet};
use std::collections::BTreeMap;
use units::Ns;

/// Limits of a decider's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of remembered files, at least 1.
    pub files: usize,
}

impl Default for Limits {
    /// A million files, about 200 MB if all have long names: our choice.
    fn default() -> Self {
        Self { files: 1 << 20 }
    }
}

/// Decides the stream and lifetime group of files, by rules.
#[derive(Clone, Debug)]
pub struct Decider {
    rules: RuleSet,
    newest: Vec<Newest>,
    files: BTreeMap<FileKey, Held>,
    /// Closed files, by the order in which they were first opened.
    closed: BTreeMap<u64, FileKey>,
    next: u64,
    limits: Limits,
}

/// State of a remembered file.
#[derive(Clone, Debug)]
struct Held {
    order: u64,
    opens: u32,
    path: Box<[u8]>,
    program: Box<[u8]>,
    thread: Box<[u8]>,
    flags: Flags,
    mode: u32,
    size: u64,
    hint: Hint,
    level: Option<u8>,
    /// Bytes written since the file was last assigned a group.
    written: u64,
    rule: Option<usize>,
    directive: Option<Directive>,
}

impl Held {
    fn facts(&self) -> Facts<'_> {
        Facts {
            path: &self.path,
            flags: self.flags,
            mode: self.mode,
            size: self.size,
            program: &self.program,
            thread: &self.thread,
            hint: self.hint,
            level: self.level,
        }
    }
}

impl Decider {
    /// A decider by `rules` that knows no file yet.
    #[must_use]
    pub fn new(rules: RuleSet, limits: Limits) -> Self {
        Self {
            newest: vec![Newest::default(); rules.streams.len()],
            rules,
            files: BTreeMap::new(),
            closed: BTreeMap::new(),
            next: 0,
            limits: Limits {
                files: limits.files.max(1),
            },
        }
    }

    /// The rules that decide.
    #[must_use]
    pub fn rules(&self) -> &RuleSet {
        &self.rules
    }

    /// Number of remembered files.
    #[must_use]
    pub fn remembered(&self) -> usize {
        self.files.len()
    }

    /// The directive of `file`; `None` if it is not remembered, or no rule names it.
    //= dissertation 6.1
    #[must_use]
    pub fn directive(&self, file: FileKey) -> Option<Directive> {
        self.files.get(&file)?.directive
    }

    /// Index of the rule that decided for `file`; `None` if none did.
    #[must_use]
    pub fn why(&self, file: FileKey) -> Option<usize> {
        self.files.get(&file)?.rule
    }

    /// Processes an event and returns the directive for later writes to the file; `None` if no rule
    /// names it.
    pub fn tell(&mut self, event: &Event<'_>) -> Option<Directive> {
        let (at, key) = (event.at, event.file);
        match event.call {
            Call::Open(open) => return self.open(at, key, &open),
            Call::Write { offset, len } => return self.write(key, offset, len),
            Call::Close => return self.close(key),
            Call::Gone => {
                self.forget(key);
                return None;
            }
            Call::Sync => {}
            Call::Allocate { len } => {
                let held = self.files.get_mut(&key)?;
                if len > held.size {
                    held.size = len;
                    self.ask(at, key);
                }
            }
            Call::Truncate { len } => self.files.get_mut(&key)?.size = len,
            Call::Hint(hint) => {
                let held = self.files.get_mut(&key)?;
                if held.hint != hint {
                    held.hint = hint;
                    self.ask(at, key);
                }
            }
            Call::Rename { to } => return self.rename(at, key, to),
        }
        self.directive(key)
    }

    fn open(&mut self, at: Ns, key: FileKey, open: &Opening<'_>) -> Option<Directive> {
        let empties = open.flags.has(Flags::TRUNCATE) && open.flags.writes();
        if let Some(held) = self.files.get_mut(&key) {
            self.closed.remove(&held.order);
            held.opens = held.opens.saturating_add(1);
            if !empties {
                return held.directive;
            }
        }
        // The open empties the file: its data die, and later data are a new file's.
        let opens = self.files.get(&key).map_or(1, |held| held.opens);
        let held = Held {
            order: self.next,
            opens,
            path: open.path.into(),
            program: open.program.into(),
            thread: open.thread.into(),
            flags: open.flags,
            mode: open.mode,
            size: if empties { 0 } else { open.size },
            hint: Hint::NotSet,
            level: open.level,
            written: 0,
            rule: None,
            directive: None,
        };
        self.next += 1;
        self.files.insert(key, held);
        self.ask(at, key);
        let answer = self.directive(key);
        self.make_room(key);
        answer
    }

    fn write(&mut self, key: FileKey, offset: u64, len: u64) -> Option<Directive> {
        let held = self.files.get_mut(&key)?;
        held.size = held.size.max(offset.saturating_add(len));
        held.written = held.written.saturating_add(len);
        let directive = held.directive?;
        self.newest[usize::from(directive.stream.0)].wrote(directive.group, len);
        Some(directive)
    }

    fn close(&mut self, key: FileKey) -> Option<Directive> {
        let held = self.files.get_mut(&key)?;
        held.opens = held.opens.saturating_sub(1);
        let directive = held.directive;
        if held.opens == 0 {
            if directive.is_none() {
                self.forget(key);
            } else {
                self.closed.insert(held.order, key);
            }
        }
        directive
    }

    fn rename(&mut self, at: Ns, key: FileKey, to: &[u8]) -> Option<Directive> {
        match self.files.get_mut(&key) {
            Some(held) => {
                held.path = to.into();
                self.ask(at, key);
                let held = self.files.get(&key)?;
                let directive = held.directive;
                if directive.is_none() && held.opens == 0 {
                    self.forget(key);
                }
                directive
            }
            // A file known only by its new name is taken to be closed.
            None => {
                let open = Opening {
                    path: to,
                    ..Opening::default()
                };
                self.open(at, key, &open);
                self.close(key)
            }
        }
    }

    /// Evaluates the rules for a remembered file, and assigns a new group if the stream changes.
    fn ask(&mut self, at: Ns, key: FileKey) {
        let Some(held) = self.files.get_mut(&key) else {
            return;
        };
        held.rule = self.rules.find(&held.facts());
        let stream = held.rule.and_then(|rule| self.rules.rules[rule].stream);
        let before = held.directive;
        if before.map(|directive| directive.stream) == stream {
            return;
        }
        if let Some(left) = before.filter(|_| held.written == 0) {
            self.newest[usize::from(left.stream.0)].leave(left.group);
        }
        held.written = 0;
        held.directive = stream.map(|stream| {
            let newest = &mut self.newest[usize::from(stream.0)];
            let grouping = self.rules.streams[usize::from(stream.0)].grouping;
            let group = newest.take(grouping, at);
            Directive { stream, group }
        });
    }

    fn forget(&mut self, key: FileKey) {
        if let Some(held) = self.files.remove(&key) {
            self.closed.remove(&held.order);
        }
    }

    /// Forgets a closed file if there are too many files; forgets `key` if all are open.
    fn make_room(&mut self, key: FileKey) {
        if self.files.len() > self.limits.files {
            let oldest = self.closed.first_key_value().map(|(_, &oldest)| oldest);
            self.forget(oldest.unwrap_or(key));
        }
    }

    /// Checks the invariants.
    ///
    /// # Panics
    /// If an invariant is violated.
    pub fn check(&self) {
        assert!(self.files.len() <= self.limits.files);
        for (order, key) in &self.closed {
            let held = &self.files[key];
            assert_eq!((held.order, held.opens), (*order, 0));
            assert!(held.directive.is_some(), "a file that nobody names is kept");
        }
        for held in self.files.values() {
            let listed = self.closed.contains_key(&held.order);
            assert_eq!(
                listed,
                held.opens == 0,
                "a closed file is in the list of them"
            );
            let stream = |StreamId(stream): StreamId| usize::from(stream);
            if let Some(directive) = held.directive {
                assert!(stream(directive.stream) < self.rules.streams.len());
            }
        }
    }
}
