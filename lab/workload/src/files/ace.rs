//! A bounded-exhaustive corpus of short call sequences for crash tests.
//!
//! ACE and CrashMonkey call this bounded black-box crash testing, B3 (Mohan et al., "Finding
//! Crash-Consistency Bugs with Bounded Black-Box Crash Testing", OSDI 2018): every sequence of
//! a few calls over a few names, on a small file system, with a force at its end.
//!
//! Invariants:
//! - The corpus is a function of its parameters; a sequence keeps its number.
//! - Every call of a sequence succeeds on a correct file system: sequences that would name a
//!   missing file or make a name twice are left out when the corpus is enumerated.

use super::fileset::{DIR_MODE, FILE_MODE};
use super::names::{Name, Names};
use super::setup::{Entry, EntryKind, Setup};
use super::source::{Source, Turn};
use super::{Allocation, Call, Errno, Fd, OpenFlags, RenameHow, Target, ThreadId, XattrHow};
use crate::describe::table::{Param, param};
use crate::describe::unit::Unit;
use std::collections::BTreeMap;
use units::Ns;

pub(super) const PARAMS: [Param; 4] = [
    param(
        "seq",
        "2",
        Unit::Choice(&["1", "2", "3"]),
        "calls of a sequence before the sync",
    ),
    param("every", "1", Unit::Count, "runs every N-th sequence only"),
    param("from", "1", Unit::Count, "first sequence to run"),
    param(
        "nth",
        "0",
        Unit::Limit,
        "number of the only sequence to run, from 1; 0 for all, each in its own directory, or one \
         run for each in crash tests",
    ),
];

/// Calls that change something, each over the names `foo`, `bar`, `A` and `A/foo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Creat(&'static str),
    Mkdir(&'static str),
    Rmdir(&'static str),
    /// Writes 4 KiB at an offset; makes the file if it is missing.
    Write(&'static str, u64),
    Truncate(&'static str, u64),
    Falloc(&'static str, Allocation),
    Link(&'static str, &'static str),
    Symlink(&'static str),
    Rename(&'static str, &'static str),
    Exchange(&'static str, &'static str),
    Unlink(&'static str),
    SetXattr(&'static str),
}

const OPS: [Op; 26] = [
    Op::Creat("foo"),
    Op::Creat("bar"),
    Op::Creat("A/foo"),
    Op::Mkdir("A"),
    Op::Mkdir("B"),
    Op::Rmdir("A"),
    Op::Write("foo", 0),
    Op::Write("foo", 6_000),
    Op::Write("bar", 0),
    Op::Write("A/foo", 2_000),
    Op::Truncate("foo", 0),
    Op::Truncate("foo", 2_500),
    Op::Falloc("foo", Allocation::KeepSize),
    Op::Falloc("foo", Allocation::Punch),
    Op::Link("foo", "bar"),
    Op::Link("foo", "A/bar"),
    Op::Symlink("bar"),
    Op::Rename("foo", "bar"),
    Op::Rename("bar", "foo"),
    Op::Rename("foo", "A/foo"),
    Op::Rename("A", "B"),
    Op::Exchange("foo", "A/foo"),
    Op::Unlink("foo"),
    Op::Unlink("bar"),
    Op::Unlink("A/foo"),
    Op::SetXattr("foo"),
];

/// The force that ends a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Force {
    Fsync(&'static str),
    Fdatasync(&'static str),
    Sync,
}

/// Kinds of the paths that a tree has, as far as sequences depend on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Dir,
    File,
    Link,
}

type Tree = BTreeMap<&'static str, Kind>;

/// One sequence of the corpus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sequence {
    settled: bool,
    ops: Vec<Op>,
    force: Force,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ace {
    /// Calls before the force.
    pub(super) seq: u64,
    /// Takes one sequence in so many.
    pub(super) every: u64,
    /// The first sequence that is taken, from 1.
    pub(super) from: u64,
    /// The only sequence that is made, from 1; 0 for all, each in a directory of its own.
    pub(super) nth: u64,
    /// The sequence `nth`, once the enumeration has reached it.
    pub(super) one: Option<Sequence>,
}

fn tree(settled: bool) -> Tree {
    let there = [("A", Kind::Dir), ("A/foo", Kind::File), ("foo", Kind::File)];
    there.into_iter().filter(|_| settled).collect()
}

/// The directory of a path; the root is the empty path.
fn parent(path: &'static str) -> &'static str {
    path.rsplit_once('/').map_or("", |(dir, _)| dir)
}

/// Another file that is in the tree, in the same directory if there is one.
fn neighbour(tree: &Tree, path: &'static str) -> Option<&'static str> {
    let files = || {
        let files = tree
            .iter()
            .filter(|(other, kind)| **kind == Kind::File && **other != path);
        files.map(|(other, _)| *other)
    };
    let mut near = files().filter(|other| parent(other) == parent(path));
    near.next().or_else(|| files().next())
}

impl Op {
    /// The path that a force after the call is about: the new name, if there is one.
    const fn path(self) -> &'static str {
        match self {
            Self::Creat(path)
            | Self::Mkdir(path)
            | Self::Rmdir(path)
            | Self::Write(path, _)
            | Self::Truncate(path, _)
            | Self::Falloc(path, _)
            | Self::Symlink(path)
            | Self::Unlink(path)
            | Self::SetXattr(path)
            | Self::Link(_, path)
            | Self::Rename(_, path)
            | Self::Exchange(_, path) => path,
        }
    }

    /// Makes the call in `tree`; false if the call would fail there.
    fn apply(self, tree: &mut Tree) -> bool {
        let kind = |path: &str| tree.get(path).copied();
        let has_dir = |path| parent(path).is_empty() || kind(parent(path)) == Some(Kind::Dir);
        let is_empty = |path| !tree.keys().any(|other| parent(other) == path);
        let is_free = |path| kind(path).is_none() && has_dir(path);
        let is_file = |path| kind(path) == Some(Kind::File);
        let works = match self {
            Self::Creat(path) | Self::Mkdir(path) | Self::Symlink(path) => is_free(path),
            Self::Write(path, _) | Self::Falloc(path, _) => is_file(path) || is_free(path),
            Self::Truncate(path, _) | Self::SetXattr(path) => is_file(path),
            Self::Unlink(path) => matches!(kind(path), Some(Kind::File | Kind::Link)),
            Self::Rmdir(path) => kind(path) == Some(Kind::Dir) && is_empty(path),
            Self::Link(from, to) => is_file(from) && is_free(to),
            Self::Rename("A", to) => kind("A").is_some() && is_free(to),
            Self::Rename(from, to) => is_file(from) && (is_file(to) || is_free(to)),
            Self::Exchange(from, to) => is_file(from) && is_file(to),
        };
        if !works {
            return false;
        }
        match self {
            Self::Creat(path) | Self::Write(path, _) | Self::Falloc(path, _) => {
                tree.insert(path, Kind::File);
            }
            Self::Link(_, path) => drop(tree.insert(path, Kind::File)),
            Self::Mkdir(path) => drop(tree.insert(path, Kind::Dir)),
            Self::Symlink(path) => drop(tree.insert(path, Kind::Link)),
            Self::Rmdir(path) | Self::Unlink(path) => drop(tree.remove(path)),
            // What is in the directory has names that no later call uses.
            Self::Rename("A", to) => {
                tree.retain(|path, _| *path != "A" && parent(path) != "A");
                tree.insert(to, Kind::Dir);
            }
            Self::Rename(from, to) => {
                tree.remove(from);
                tree.insert(to, Kind::File);
            }
            Self::Truncate(..) | Self::SetXattr(_) | Self::Exchange(..) => {}
        }
        true
    }
}

/// Forces of the file of `path`, its directory and its neighbour, as far as they are there.
fn forces(tree: &Tree, path: &'static str) -> Vec<Force> {
    let file = tree.get(path).filter(|kind| **kind != Kind::Link);
    let targets = [
        file.map(|_| path),
        Some(parent(path)),
        neighbour(tree, path),
    ];
    let targets = targets.into_iter().flatten();
    let forces = targets.flat_map(|target| [Force::Fsync(target), Force::Fdatasync(target)]);
    forces.chain([Force::Sync]).collect()
}

/// Adds every sequence that goes on from `ops` with `left` further calls.
fn extend(tree: &Tree, settled: bool, ops: &[Op], left: u64, all: &mut Vec<Sequence>) {
    if left == 0 {
        let path = ops.last().map_or("", |op| op.path());
        all.extend(forces(tree, path).into_iter().map(|force| Sequence {
            settled,
            ops: ops.to_vec(),
            force,
        }));
        return;
    }
    for op in OPS {
        let mut tree = tree.clone();
        if op.apply(&mut tree) {
            extend(&tree, settled, &[ops, &[op]].concat(), left - 1, all);
        }
    }
}

impl Ace {
    fn sequences(&self) -> Vec<Sequence> {
        let mut all = Vec::new();
        for settled in [false, true] {
            extend(&tree(settled), settled, &[], self.seq, &mut all);
        }
        all
    }

    /// The sequences that `from` and `every` take, with their numbers.
    fn taken<'a>(&self, all: &'a [Sequence]) -> impl Iterator<Item = (u64, &'a Sequence)> {
        let (first, every) = (self.from.max(1) - 1, self.every.max(1));
        let all = (1..).zip(all).skip(first as usize);
        all.step_by(every as usize)
    }

    /// Every sequence of the corpus by itself, those on a fresh tree apart from those on a
    /// settled one; none if this is one sequence.
    pub(super) fn groups(&self) -> Option<[Vec<Self>; 2]> {
        if self.nth > 0 {
            return None;
        }
        let mut groups = [Vec::new(), Vec::new()];
        let all = self.sequences();
        for (number, sequence) in self.taken(&all) {
            groups[usize::from(sequence.settled)].push(Self {
                nth: number,
                one: Some(sequence.clone()),
                ..*self
            });
        }
        Some(groups)
    }

    /// The calls.
    ///
    /// # Errors
    /// If there is no sequence of the number `nth`.
    pub(super) fn open(&self) -> Result<Box<dyn Source>, String> {
        let mut player = Player::default();
        if let Some(sequence) = &self.one {
            player.add("", sequence);
            player.calls.reverse();
            return Ok(Box::new(player));
        }
        let all = self.sequences();
        if self.nth > 0 {
            let sequence = all.get(self.nth as usize - 1);
            let sequence = sequence
                .ok_or_else(|| format!("expected nth up to {}, found {}", all.len(), self.nth))?;
            player.add("", sequence);
        } else {
            for (number, sequence) in self.taken(&all) {
                let dir = format!("{number}");
                player.put(&dir, EntryKind::Directory);
                player.add(&format!("{dir}/"), sequence);
            }
        }
        player.calls.reverse();
        Ok(Box::new(player))
    }
}

/// Calls of the sequences in a row, by one thread.
#[derive(Default)]
struct Player {
    names: Names,
    setup: Setup,
    /// The last call first.
    calls: Vec<Call>,
    failure: Option<String>,
}

/// Slot of every file, which is closed before the next.
const FD: Fd = Fd(0);
/// Bytes of a write and of files that are there, so that files end within a page.
const LEN: u64 = 4_096;
const THERE: u64 = 5_000;

impl Player {
    fn put(&mut self, path: &str, kind: EntryKind) {
        let path = self.names.intern(path.as_bytes());
        let mode = match kind {
            EntryKind::Directory => DIR_MODE,
            _ => FILE_MODE,
        };
        self.setup.entries.push(Entry { path, kind, mode });
    }

    fn add(&mut self, base: &str, sequence: &Sequence) {
        for (path, kind) in tree(sequence.settled) {
            let kind = match kind {
                Kind::Dir => EntryKind::Directory,
                Kind::File | Kind::Link => EntryKind::File { size: THERE },
            };
            self.put(&format!("{base}{path}"), kind);
        }
        for op in &sequence.ops {
            self.op(base, *op);
        }
        match sequence.force {
            Force::Fsync(path) => self.on(base, path, OpenFlags::READ, Call::Fsync { fd: FD }),
            Force::Fdatasync(path) => {
                self.on(base, path, OpenFlags::READ, Call::Fdatasync { fd: FD });
            }
            Force::Sync => self.calls.push(Call::Sync {}),
        }
    }

    fn name(&mut self, base: &str, path: &str) -> Name {
        let path = format!("{base}{path}");
        self.names.intern(path.trim_end_matches('/').as_bytes())
    }

    /// A call on an open file between an open and a close.
    fn on(&mut self, base: &str, path: &str, flags: OpenFlags, call: Call) {
        let path = self.name(base, path);
        let open = Call::Open {
            fd: FD,
            path,
            flags,
            mode: FILE_MODE,
        };
        self.calls.extend([open, call, Call::Close { fd: FD }]);
    }

    fn op(&mut self, base: &str, op: Op) {
        let fd = FD;
        let path = self.name(base, op.path());
        let create = OpenFlags::WRITE.and(OpenFlags::CREATE);
        let rename = |from, how| Call::Rename {
            from,
            to: path,
            how,
        };
        let call = match op {
            Op::Creat(to) => {
                let flags = create.and(OpenFlags::EXCLUSIVE);
                let open = Call::Open {
                    fd,
                    path: self.name(base, to),
                    flags,
                    mode: FILE_MODE,
                };
                self.calls.extend([open, Call::Close { fd }]);
                return;
            }
            Op::Write(to, at) => {
                return self.on(base, to, create, Call::Pwrite { fd, at, len: LEN });
            }
            Op::Falloc(to, how) => {
                let (at, len) = (1_000, 8_000);
                return self.on(base, to, create, Call::Fallocate { fd, how, at, len });
            }
            Op::Mkdir(_) => Call::Mkdir {
                path,
                mode: DIR_MODE,
            },
            Op::Rmdir(_) => Call::Rmdir { path },
            Op::Unlink(_) => Call::Unlink { path },
            Op::Truncate(_, len) => Call::Truncate {
                of: Target::Path(path),
                len,
            },
            Op::Symlink(_) => Call::Symlink {
                target: self.names.intern(b"foo"),
                path,
            },
            Op::SetXattr(_) => Call::SetXattr {
                of: Target::Path(path),
                name: self.names.intern(b"user.a"),
                len: 10,
                how: XattrHow::Set,
            },
            Op::Link(from, _) => Call::Link {
                of: Target::Path(self.name(base, from)),
                to: path,
            },
            Op::Rename(from, _) => rename(self.name(base, from), RenameHow::Replace),
            Op::Exchange(from, _) => rename(self.name(base, from), RenameHow::Exchange),
        };
        self.calls.push(call);
    }
}

impl Source for Player {
    fn names(&self) -> &Names {
        &self.names
    }

    fn setup(&self) -> &Setup {
        &self.setup
    }

    fn threads(&self) -> u32 {
        1
    }

    fn next(&mut self, _: ThreadId, _: Ns) -> Turn {
        match self.calls.pop() {
            Some(call) => Turn::now(call),
            None => Turn::Done,
        }
    }

    fn ended(&mut self, _: ThreadId, result: Result<u64, Errno>) {
        if let Err(errno) = result {
            let why = format!("a call answered {errno}, with {} to come", self.calls.len());
            self.failure.get_or_insert(why);
        }
    }

    fn wake(&mut self) -> Option<ThreadId> {
        None
    }

    fn failure(&self) -> Option<String> {
        self.failure.clone()
    }
}
