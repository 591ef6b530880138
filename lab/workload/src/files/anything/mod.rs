//! Calls of every kind, drawn at random on a few names, so that they conflict.
//!
//! The calls need not make sense: files are opened in every way, written around the cache and
//! through mappings, cut, punched, linked, exchanged and removed while they are open, and synced in
//! every way. Many calls are refused, on purpose. With `room` a ballast file takes all space but
//! that first, and again every few calls, since files that are cut and removed give some back: so
//! the file system runs out of space again and again.
//!
//! Invariants:
//! - A thread uses only the slots that it opened; results of its calls tell which of them are open.
//! - The calls that a thread draws depend on the seed, its number and the results of its calls
//!   alone.

mod calls;

use super::names::{Name, Names};
use super::setup::{Entry, EntryKind, Setup};
use super::source::{Parking, Source, Turn};
use super::{Allocation, Call, Errno, Fd, Mode, OpenFlags, ThreadId};
use sim::{Rng, Seed};
use std::mem;
use units::Ns;

/// Slots of each thread.
const SLOTS: u32 = 6;
/// Names of files for each directory.
const PER_DIR: u32 = 6;
/// Bytes of the ballast's first allocation: an allocation larger than the free space is refused,
/// and half of it is tried.
const BALLAST: u64 = 1 << 30;
/// Calls between two refills of the ballast, and the bytes of a refill's first allocation.
const REFILL: u64 = 16;
const REFILL_PIECE: u64 = 1 << 20;
/// Think time before a call, at most 32 µs; in one of 64 cases 4 ms instead, in which caches and
/// journals write back on their own. Our own choice.
const THINK: u64 = 32_000;
const REST: Ns = Ns::ms(4);
/// Pause of the other threads between two checks whether the ballast is full.
const PATIENCE: Ns = Ns::us(100);

/// Parameters of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Anything {
    /// Number of file names.
    pub(super) files: u32,
    pub(super) threads: u32,
    /// Offsets below which writes begin.
    pub(super) size: u64,
    /// Bytes that the ballast leaves free; 0 for no ballast.
    pub(super) room: u64,
    pub(super) ops: u64,
    pub(super) until: Option<Ns>,
}

/// Content of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Held {
    #[default]
    Nothing,
    /// An open directory.
    Directory,
    /// A file, with the flags that it was opened with.
    File(OpenFlags),
}

#[derive(Debug)]
struct Worker {
    rng: Rng,
    slots: [Held; SLOTS as usize],
    /// Slot that the open call in progress takes, and its content if the call succeeds.
    opening: Option<(usize, Held)>,
}

/// State of the ballast file that takes the free space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ballast {
    /// No ballast: `room` is 0.
    Unwanted,
    Opening,
    Taking {
        at: u64,
        piece: u64,
    },
    /// Allocated up to `at`; the next refill comes after `calls` more calls.
    Taken {
        at: u64,
        calls: u64,
    },
}

/// Source of the calls.
pub(super) struct Caller {
    names: Names,
    setup: Setup,
    anything: Anything,
    /// Names of directories, the root first.
    dirs: Vec<Name>,
    files: Vec<Name>,
    /// Targets of symbolic links.
    targets: Vec<Name>,
    attributes: [Name; 3],
    ballast_path: Name,
    ballast: Ballast,
    /// Whether the first thread's call in progress belongs to the ballast.
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

    /// Names nested directories and files in all of them; half of the files exist from the start.
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
        // A target that fits into an inode, and one that does not.
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

    /// Descriptor of slot `index` of `thread`; descriptor 0 is the ballast's.
    const fn slot(thread: ThreadId, index: usize) -> Fd {
        Fd(1 + thread.0 * SLOTS + index as u32)
    }

    /// Next call of the ballast, made by the first thread; `None` if the ballast is full or
    /// unwanted.
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

    /// Counts one call towards the next refill of the ballast.
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

    /// Updates the ballast with the result of its call: a refused allocation is halved until it is
    /// no larger than the room to leave free.
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
            late: Ns::ZERO,
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
