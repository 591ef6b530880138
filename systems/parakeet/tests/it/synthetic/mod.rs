//! Synthetic recordings of programs with known lifetimes.

pub(crate) mod lsm;
pub(crate) mod postgres;
pub(crate) mod wiredtiger;

use parakeet::directive::Hint;
use parakeet::event::{Call, Event, FileKey, Opening};
use parakeet::flags::Flags;
use units::Ns;

/// A recording under construction.
#[derive(Default)]
pub(crate) struct Tape {
    events: Vec<(Ns, u32, u64, Done)>,
    now: u64,
    next: u64,
    sizes: Vec<u64>,
    pub(crate) program: &'static str,
}

enum Done {
    Open {
        path: String,
        flags: Flags,
        size: u64,
        thread: &'static str,
    },
    Hint(Hint),
    Write(u64, u64),
    Sync,
    Rename(String),
    Close,
    Gone,
}

/// Flags with which a program creates a file to append to.
pub(crate) const MADE: Flags = Flags(0o2_001_101);

impl Tape {
    pub(crate) fn of(program: &'static str) -> Self {
        Self {
            program,
            ..Self::default()
        }
    }

    pub(crate) fn pass(&mut self, ns: u64) {
        self.now += ns;
    }

    fn push(&mut self, thread: u32, file: u64, done: Done) {
        self.now += 1;
        self.events.push((Ns(self.now), thread, file, done));
    }

    pub(crate) fn open(&mut self, path: String, flags: Flags, thread: &'static str) -> u64 {
        let file = self.next;
        self.next += 1;
        self.sizes.push(0);
        self.push(
            thread.len() as u32,
            file,
            Done::Open {
                path,
                flags,
                size: 0,
                thread,
            },
        );
        file
    }

    pub(crate) fn append(&mut self, file: u64, len: u64) {
        let at = self.sizes[file as usize];
        self.write(file, at, len);
    }

    pub(crate) fn write(&mut self, file: u64, at: u64, len: u64) {
        let size = &mut self.sizes[file as usize];
        *size = (*size).max(at + len);
        self.push(0, file, Done::Write(at, len));
    }

    pub(crate) fn hint(&mut self, file: u64, hint: Hint) {
        self.push(0, file, Done::Hint(hint));
    }

    pub(crate) fn sync(&mut self, file: u64) {
        self.push(0, file, Done::Sync);
    }

    pub(crate) fn rename(&mut self, file: u64, to: String) {
        self.push(0, file, Done::Rename(to));
    }

    pub(crate) fn close(&mut self, file: u64) {
        self.push(0, file, Done::Close);
    }

    pub(crate) fn gone(&mut self, file: u64) {
        self.push(0, file, Done::Gone);
    }

    pub(crate) fn events(&self) -> impl Iterator<Item = Event<'_>> + Clone {
        self.events.iter().map(|(at, thread, file, done)| Event {
            at: *at,
            thread: *thread,
            file: FileKey(*file),
            call: match done {
                Done::Open {
                    path,
                    flags,
                    size,
                    thread,
                } => Call::Open(Opening {
                    path: path.as_bytes(),
                    flags: *flags,
                    mode: 0o644,
                    size: *size,
                    program: self.program.as_bytes(),
                    thread: thread.as_bytes(),
                    level: None,
                }),
                Done::Hint(hint) => Call::Hint(*hint),
                Done::Write(offset, len) => Call::Write {
                    offset: *offset,
                    len: *len,
                },
                Done::Sync => Call::Sync,
                Done::Rename(to) => Call::Rename { to: to.as_bytes() },
                Done::Close => Call::Close,
                Done::Gone => Call::Gone,
            },
        })
    }
}
