//! The life of a file system in use: files of many sizes and lifetimes, made, rewritten and
//! deleted.
//!
//! First files are made until they hold a number of bytes: those that a file system of that use
//! holds at any time, in equilibrium. Then each new file takes the space of those that are next to
//! die. One of two files that take such space replaces the contents of the last of these, cut to
//! length 0 first; all other files get names of their own. After a share of the bytes all data is
//! synced, since hours pass between two files of the model. At the end one more file takes the bytes
//! that are missing, so that the files hold the same bytes on every file system. The module `model`
//! has the distributions and their sources.
//!
//! Choices of ours: the share of rewritten files, the directories for each byte, the largest file,
//! and the bytes between two syncs. One thread makes all calls, so that their order depends on
//! nothing else.
//!
//! Invariants: calls are a function of the size and the seed, whatever the number of passes; files
//! never hold more bytes than the size. Time is counted in bytes that were written: in the mean
//! lifetime of a file, as many are written as all files hold.

mod model;

use super::fileset::{DIR_MODE, FILE_MODE};
use super::names::{Name, Names};
use super::setup::{Entry, EntryKind, Setup};
use super::source::{Source, Turn};
use super::{Call, Errno, Fd, OpenFlags, ThreadId};
use crate::describe::table::{Param, param};
use crate::describe::unit::Unit;
use sim::{Rng, Seed};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use units::{MIB, Ns};

/// The directory of all files.
pub const FOLDER: &str = "ageing";
/// The file that takes the bytes that are missing at the end.
const REST: &[u8] = b"ageing/rest";
/// The bytes of all files over those of the largest one, and over those between two syncs.
const PIECES: u64 = 64;
/// Bytes for each directory, and the least number of directories.
const PER_DIRECTORY: (u64, u64) = (MIB, 8);
/// Largest number of directories: that of Impressions' default image.
const MOST_DIRECTORIES: u64 = 4_000;
/// Most bytes of one write call.
const WRITE: u64 = MIB;
/// Slot of every file, which is closed before the next.
const SLOT: Fd = Fd(0);

pub(super) const PARAMS: [Param; 2] = [
    param("size", "64m", Unit::Length, "bytes that the files hold"),
    param(
        "churn",
        "1",
        Unit::Number,
        "times that as many bytes are written again",
    ),
];

/// The life of a file system whose files hold a number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ageing {
    /// Bytes that the files hold.
    pub size: u64,
    /// Times that as many bytes are written again; `None` until [`Ager::finish`] is called.
    pub churn: Option<u64>,
}

/// A file by its death: the number of bytes written by then, and the number of the file.
type Dying = Reverse<(u64, u64)>;

#[derive(Clone, Copy, Debug)]
struct File {
    path: Name,
    size: u64,
}

/// Source of the calls that age a file system.
pub struct Ager {
    ageing: Ageing,
    names: Names,
    setup: Setup,
    /// Names of directories by their level.
    levels: Vec<Vec<Name>>,
    rng: Rng,
    /// Every file that was ever made, by number.
    files: Vec<File>,
    dying: BinaryHeap<Dying>,
    /// Bytes that the files hold, and bytes that were written.
    held: u64,
    written: u64,
    /// Bytes written before the last sync, and the number of syncs.
    synced: u64,
    syncs: u64,
    /// Calls that were drawn and not made.
    calls: VecDeque<Call>,
    /// Call that has not ended.
    call: Option<Call>,
    stage: Stage,
    failure: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Filling,
    Churning,
    /// No more files are drawn.
    Ending,
    Done,
}

impl Ageing {
    /// Opens the source; its random choices follow `seed`.
    #[must_use]
    pub fn open(self, seed: Seed) -> Ager {
        let (mut names, mut setup) = (Names::default(), Setup::default());
        let count = (self.size / PER_DIRECTORY.0).clamp(PER_DIRECTORY.1, MOST_DIRECTORIES);
        let parents = model::tree(&mut seed.stream("ageing tree"), count as usize);
        let mut paths: Vec<(usize, Vec<u8>)> = Vec::new();
        let mut levels: Vec<Vec<Name>> = Vec::new();
        for (made, parent) in parents.into_iter().enumerate() {
            let (level, path) = match made {
                0 => (0, FOLDER.as_bytes().to_vec()),
                _ => {
                    let (level, above) = &paths[parent];
                    (level + 1, [above, format!("/d{made}").as_bytes()].concat())
                }
            };
            let name = names.intern(&path);
            setup.entries.push(Entry {
                path: name,
                kind: EntryKind::Directory,
                mode: DIR_MODE,
            });
            levels.resize(levels.len().max(level + 1), Vec::new());
            levels[level].push(name);
            paths.push((level, path));
        }
        Ager {
            ageing: self,
            names,
            setup,
            levels,
            rng: seed.stream("ageing"),
            files: Vec::new(),
            dying: BinaryHeap::new(),
            held: 0,
            written: 0,
            synced: 0,
            syncs: 0,
            calls: VecDeque::new(),
            call: None,
            stage: Stage::Filling,
            failure: None,
        }
    }
}

impl Ager {
    /// Draws no more files: the last calls follow.
    pub fn finish(&mut self) {
        if self.stage != Stage::Done {
            self.stage = Stage::Ending;
        }
    }

    /// Number of syncs that have ended.
    #[must_use]
    pub const fn syncs(&self) -> u64 {
        self.syncs
    }

    /// Whether the files hold as many bytes as they shall.
    #[must_use]
    pub fn is_filled(&self) -> bool {
        self.stage != Stage::Filling
    }

    /// Number of files that exist.
    #[must_use]
    pub fn files(&self) -> u64 {
        self.dying.len() as u64
    }

    /// Draws the calls of one file.
    fn draw(&mut self) {
        let size = model::size(&mut self.rng, (self.ageing.size / PIECES).max(1));
        let rewrites = self.rng.chance(1, 2);
        if self.stage == Stage::Filling && self.held + size > self.ageing.size {
            self.stage = Stage::Churning;
        }
        let mut replaced = None;
        while self.held + size > self.ageing.size {
            let Some(Reverse((_, number))) = self.dying.pop() else {
                break;
            };
            let file = self.files[number as usize];
            self.held -= file.size;
            match rewrites && self.held + size <= self.ageing.size {
                true => replaced = Some(file.path),
                false => self.calls.push_back(Call::Unlink { path: file.path }),
            }
        }
        let path = replaced.unwrap_or_else(|| self.path());
        let hours = match self.stage {
            Stage::Filling => model::rest_of_lifetime(&mut self.rng),
            _ => model::lifetime(&mut self.rng),
        };
        let lives = u128::from(hours) * u128::from(self.ageing.size);
        let lives = (lives / u128::from(model::MEAN_LIFETIME)) as u64;
        // The first files are found, not made: all of them at one time.
        let now = match self.stage {
            Stage::Filling => self.ageing.size,
            _ => self.written,
        };
        self.dying
            .push(Reverse((now + lives, self.files.len() as u64)));
        self.files.push(File { path, size });
        self.write(path, size);
        if self.written - self.synced >= self.ageing.size / PIECES {
            self.sync();
        }
        let passes = self.ageing.churn.map(|churn| churn.saturating_add(1));
        let end = passes.map(|passes| passes.saturating_mul(self.ageing.size));
        if self.stage == Stage::Churning && end.is_some_and(|end| self.written >= end) {
            self.finish();
        }
    }

    /// The path of a new file.
    fn path(&mut self) -> Name {
        let level = model::level(&mut self.rng).min(self.levels.len() - 1);
        let all = &self.levels[level];
        let folder = all[self.rng.below(all.len() as u64) as usize];
        let number = self.files.len();
        let above = self.names.bytes(folder);
        let path = [above, format!("/f{number}").as_bytes()].concat();
        self.names.intern(&path)
    }

    /// Adds the calls that give the file at `path` new contents of `size` bytes.
    fn write(&mut self, path: Name, size: u64) {
        let flags = OpenFlags::WRITE
            .and(OpenFlags::CREATE)
            .and(OpenFlags::TRUNCATE);
        let (fd, mode) = (SLOT, FILE_MODE);
        let open = Call::Open {
            fd,
            path,
            flags,
            mode,
        };
        self.calls.push_back(open);
        let writes = (0..size).step_by(WRITE as usize).map(|at| Call::Write {
            fd,
            len: WRITE.min(size - at),
        });
        self.calls.extend(writes);
        self.calls.push_back(Call::Close { fd });
        self.held += size;
        self.written += size;
    }

    fn sync(&mut self) {
        self.calls.push_back(Call::Sync {});
        self.synced = self.written;
    }

    /// Adds the last calls.
    fn end(&mut self) {
        let path = self.names.intern(REST);
        self.write(path, self.ageing.size - self.held);
        self.sync();
        self.stage = Stage::Done;
    }

    /// The reason why `call` did not do all of its work.
    fn refused(&self, call: &Call, why: &str) -> String {
        let done = match call {
            Call::Write { .. } => "written",
            Call::Unlink { .. } => "deleted",
            Call::Sync {} => "synced",
            _ => "opened or closed",
        };
        let held = units::Bytes(self.held);
        format!("a file could not be {done} while the files held {held}: {why}")
    }
}

impl Source for Ager {
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
        if self.failure.is_some() {
            return Turn::Done;
        }
        while self.calls.is_empty() {
            match self.stage {
                Stage::Filling | Stage::Churning => self.draw(),
                Stage::Ending => self.end(),
                Stage::Done => return Turn::Done,
            }
        }
        self.call = self.calls.pop_front();
        self.call.map_or(Turn::Done, Turn::now)
    }

    fn ended(&mut self, _: ThreadId, result: Result<u64, Errno>) {
        let Some(call) = self.call.take() else { return };
        self.syncs += u64::from(matches!(call, Call::Sync {}));
        let short = matches!((call, result), (Call::Write { len, .. }, Ok(n)) if n < len);
        match result {
            Err(errno) => self.failure = Some(self.refused(&call, &errno.to_string())),
            Ok(_) if short => self.failure = Some(self.refused(&call, "part of it was taken")),
            Ok(_) => {}
        }
    }

    fn wake(&mut self) -> Option<ThreadId> {
        None
    }

    fn failure(&self) -> Option<String> {
        self.failure.clone()
    }
}

#[cfg(test)]
mod tests;
