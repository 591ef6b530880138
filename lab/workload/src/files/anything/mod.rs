//! Calls of every kind, drawn at random, on few names, so that they meet.
//!
//! What a program of sense would do is no concern here: files are opened in every
//! way, written around the cache and through mappings, cut, punched, linked,
//! exchanged and removed while they are open, and forced in every way there is.
//! Many calls are refused, which is part of it. With `room` the space is taken
//! first, and again whenever a while has passed, as files that are cut and removed
//! give some back: so it runs out again and again.
//!
//! Invariants:
//! - A thread uses the slots that it opened and no others; which of them are open
//!   it knows from the answers.
//! - What a thread draws depends on the seed, its number and its answers alone.

mod calls;

use super::names::{Name, Names};
use super::setup::{Entry, EntryKind, Setup};
use super::source::{Parking, Source, Turn};
use super::{Allocation, Call, Errno, Fd, Mode, OpenFlags, ThreadId};
use sim::{Rng, Seed};
use std::mem;
use units::Ns;

/// Slots of a thread.
const SLOTS: u32 = 6;
/// Names in a directory, besides those of directories.
const PER_DIR: u32 = 6;
/// The first piece of space that is taken: larger ones than what is free are
/// refused and halved.
const BALLAST: u64 = 1 << 30;
/// Calls after which the space that came free is taken again, and the first piece.
const REFILL: u64 = 16;
const REFILL_PIECE: u64 = 1 << 20;
/// Thinking before a call: up to 32 µs; and now and then 4 ms, in which caches
/// and journals write of their own accord. A choice of ours.
const THINK: u64 = 32_000;
const REST: Ns = Ns::ms(4);
/// How long threads wait before they ask again whether the space is taken.
const PATIENCE: Ns = Ns::us(100);

/// What can be said of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Anything {
    /// Names of files.
    pub(super) files: u32,
    pub(super) threads: u32,
    /// Bytes at which no write begins any more.
    pub(super) size: u64,
    /// Bytes that are left free whenever the space is taken; 0 leaves all.
    pub(super) room: u64,
    pub(super) ops: u64,
    pub(super) until: Option<Ns>,
}

/// What a slot holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Held {
    #[default]
    Nothing,
    /// A directory.
    Directory,
    /// A file, opened so.
    File(OpenFlags),
}

#[derive(Debug)]
struct Worker {
    rng: Rng,
    slots: [Held; SLOTS as usize],
    /// The slot that the call under way takes, and what it will hold.
    opening: Option<(usize, Held)>,
}

/// How the space is being taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ballast {
    /// All the space there is stays free.
    Unwanted,
    Opening,
    Taking {
        at: u64,
        piece: u64,
    },
    /// Taken up to here, for some calls.
    Taken {
        at: u64,
        calls: u64,
    },
}

/// The source.
pub(super) struct Caller {
    names: Names,
    setup: Setup,
    anything: Anything,
    /// Directories, the root first.
    dirs: Vec<Name>,
    files: Vec<Name>,
    /// What symbolic links say.
    targets: Vec<Name>,
    attributes: [Name; 3],
    ballast_path: Name,
    ballast: Ballast,
    /// Whether the first thread's call under way takes space.
    taking: bool,
    workers: Vec<Worker>,
    left: u64,
    parking: Parking,
}

impl Anything {
    pub(super) fn open(&self, seed: Seed) -> Box<dyn Source> {
        Box::new(Caller::new(*self, seed))
    }
}

impl Caller {
    fn new(anything: Anything, seed: Seed) -> Self {
        let mut names = Names::default();
        let worker = |i: u32| Worker {
            rng: seed.child(u64::from(i)).stream("anything"),
            slots: [Held::default(); SLOTS as usize],
            opening: None,
        };
        let attributes = [&b"user.a"[..], b"user.b", b"user.long"].map(|name| names.intern(name));
        let mut caller = Self {
            setup: Setup::default(),
            anything,
            dirs: vec![Name::ROOT],
            files: Vec::new(),
            targets: Vec::new(),
            attributes,
            ballast_path: names.intern(b"ballast"),
            ballast: match anything.room {
                0 => Ballast::Unwanted,
                _ => Ballast::Opening,
            },
            taking: false,
            workers: (0..anything.threads).map(worker).collect(),
            left: anything.ops,
            parking: Parking::new(anything.threads),
            names,
        };
        caller.lay_out(&mut seed.stream("anything tree"));
        caller
    }

    /// Names directories, one in the other or beside, and files in all of them;
    /// half of the files are there at first.
    fn lay_out(&mut self, rng: &mut Rng) {
        let dirs = self.anything.files.div_ceil(PER_DIR);
        for number in 0..dirs {
            let above = self.dirs[rng.below(self.dirs.len() as u64) as usize];
            let path = self.below(above, &format!("d{number}"));
            self.dirs.push(path);
            self.put(path, EntryKind::Directory, 0o755);
        }
        for number in 0..self.anything.files {
            let above = self.dirs[rng.below(self.dirs.len() as u64) as usize];
            let path = self.below(above, &format!("f{number}"));
            self.files.push(path);
            if rng.chance(1, 2) {
                let size = rng.below(self.anything.size);
                self.put(path, EntryKind::File { size }, 0o644);
            }
        }
        // One that fits into an inode, and one that does not.
        let short = self.names.intern(b"f0");
        let long = self.names.intern(&[b'l'; 200]);
        self.targets = vec![short, long];
    }

    fn below(&mut self, dir: Name, name: &str) -> Name {
        let above = self.names.bytes(dir);
        let path = match above {
            b"" => name.as_bytes().to_vec(),
            above => [above, b"/", name.as_bytes()].concat(),
        };
        self.names.intern(&path)
    }

    fn put(&mut self, path: Name, kind: EntryKind, mode: u16) {
        let mode = Mode(mode);
        self.setup.entries.push(Entry { path, kind, mode });
    }

    /// The slot `index` of `thread`; the one behind them all is the ballast's.
    const fn slot(thread: ThreadId, index: usize) -> Fd {
        Fd(1 + thread.0 * SLOTS + index as u32)
    }

    /// The next call by which the first thread takes the space, while it does.
    fn take_space(&self) -> Option<Call> {
        match self.ballast {
            Ballast::Taking { at, piece } => Some(Call::Fallocate {
                fd: Fd(0),
                how: Allocation::KeepSize,
                at,
                len: piece,
            }),
            Ballast::Opening => Some(Call::Open {
                fd: Fd(0),
                path: self.ballast_path,
                flags: OpenFlags::WRITE.and(OpenFlags::CREATE),
                mode: Mode(0o644),
            }),
            Ballast::Unwanted | Ballast::Taken { .. } => None,
        }
    }

    /// One call more was made in what was left free.
    fn count_down(&mut self) {
        self.ballast = match self.ballast {
            Ballast::Taken { at, calls: 0 } => {
                let piece = REFILL_PIECE.max(self.anything.room);
                Ballast::Taking { at, piece }
            }
            Ballast::Taken { at, calls } => {
                let calls = calls - 1;
                Ballast::Taken { at, calls }
            }
            other => other,
        };
    }

    /// Takes in what came of it: what was refused is halved, until less than the
    /// room that shall stay is asked for.
    fn space_taken(&mut self, result: Result<u64, Errno>) {
        self.ballast = match (self.ballast, result) {
            (Ballast::Opening, Ok(_)) => Ballast::Taking {
                at: 0,
                piece: BALLAST,
            },
            (Ballast::Taking { at, piece }, Ok(_)) => Ballast::Taking {
                at: at + piece,
                piece,
            },
            (Ballast::Taking { at, piece }, Err(_)) if piece > self.anything.room => {
                let piece = piece / 2;
                Ballast::Taking { at, piece }
            }
            (Ballast::Taking { at, .. }, Err(_)) => Ballast::Taken { at, calls: REFILL },
            _ => Ballast::Unwanted,
        };
    }
}

impl Source for Caller {
    fn names(&self) -> &Names {
        &self.names
    }

    fn setup(&self) -> &Setup {
        &self.setup
    }

    fn threads(&self) -> u32 {
        self.anything.threads
    }

    fn next(&mut self, thread: ThreadId, now: Ns) -> Turn {
        self.parking.asks(thread);
        let over = self.anything.until.is_some_and(|until| now >= until);
        if self.left == 0 || over {
            return self.parking.done(thread);
        }
        if let Some(call) = self.take_space() {
            self.taking |= thread.0 == 0;
            return match thread.0 {
                0 => Turn::now(call),
                _ => Turn::Pause(PATIENCE),
            };
        }
        self.left -= 1;
        self.count_down();
        let rng = &mut self.workers[thread.0 as usize].rng;
        let rests = rng.chance(1, 64);
        let think = if rests { REST } else { Ns(rng.below(THINK)) };
        Turn::Call {
            think,
            call: self.draw(thread),
            expect: None,
        }
    }

    fn ended(&mut self, thread: ThreadId, result: Result<u64, Errno>) {
        if thread.0 == 0 && mem::take(&mut self.taking) {
            self.space_taken(result);
            return;
        }
        let worker = &mut self.workers[thread.0 as usize];
        if let Some((slot, held)) = worker.opening.take()
            && result.is_ok()
        {
            worker.slots[slot] = held;
        }
    }

    fn wake(&mut self) -> Option<ThreadId> {
        self.parking.next_woken()
    }
}
