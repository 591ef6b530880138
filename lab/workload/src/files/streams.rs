//! Named files, each written from its start to its size by a thread of its own.
//!
//! Names are those of zone files, `seq/0` and so on, so the same calls can be made on a file system
//! whose files always exist.
//!
//! Invariant: a thread writes to its own file only, and in order.

use super::fileset::{DIR_MODE, FILE_MODE};
use super::names::{Name, Names};
use super::setup::{Entry, EntryKind, Setup};
use super::source::{Source, Turn};
use super::{Call, Errno, Fd, Hint, OpenFlags, ThreadId};
use units::Ns;

/// Parameters of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Streams {
    pub(super) files: u32,
    /// Bytes of a file, and of a write.
    pub(super) size: u64,
    pub(super) chunk: u64,
    pub(super) direct: bool,
    pub(super) life: Hint,
}

/// Next step of a thread.
#[derive(Clone, Copy, Debug, Default)]
enum Step {
    #[default]
    Open,
    Hint,
    /// Continue after this many bytes.
    Write(u64),
    /// A write in progress after this many bytes.
    Writing(u64),
    End,
}

struct Writers {
    streams: Streams,
    names: Names,
    setup: Setup,
    paths: Vec<Name>,
    steps: Vec<Step>,
    failure: Option<String>,
}

impl Streams {
    pub(super) fn open(&self) -> Box<dyn Source> {
        let (mut names, mut setup) = (Names::default(), Setup::default());
        setup.entries.push(Entry {
            path: names.intern(b"seq"),
            kind: EntryKind::Directory,
            mode: DIR_MODE,
        });
        let paths = (0..self.files).map(|file| names.intern(format!("seq/{file}").as_bytes()));
        let paths: Vec<Name> = paths.collect();
        setup.entries.extend(paths.iter().map(|&path| Entry {
            path,
            kind: EntryKind::File { size: 0 },
            mode: FILE_MODE,
        }));
        Box::new(Writers {
            streams: *self,
            names,
            setup,
            paths,
            steps: vec![Step::default(); self.files as usize],
            failure: None,
        })
    }
}

impl Source for Writers {
    fn names(&self) -> &Names {
        &self.names
    }

    fn setup(&self) -> &Setup {
        &self.setup
    }

    fn threads(&self) -> u32 {
        self.streams.files
    }

    fn next(&mut self, thread: ThreadId, _: Ns) -> Turn {
        let (index, fd) = (thread.0 as usize, Fd(thread.0));
        let Streams {
            size,
            chunk,
            direct,
            life,
            ..
        } = self.streams;
        if self.failure.is_some() {
            return Turn::Done;
        }
        let (call, next) = match self.steps[index] {
            Step::Open => {
                let flags = OpenFlags::WRITE;
                let open = Call::Open {
                    fd,
                    path: self.paths[index],
                    flags: if direct {
                        flags.and(OpenFlags::DIRECT)
                    } else {
                        flags
                    },
                    mode: FILE_MODE,
                };
                (open, Step::Hint)
            }
            Step::Hint => (Call::Hint { fd, life }, Step::Write(0)),
            Step::Write(done) if done < size => {
                let len = chunk.min(size - done);
                (Call::Write { fd, len }, Step::Writing(done))
            }
            Step::Write(_) | Step::Writing(_) => (Call::Close { fd }, Step::End),
            Step::End => return Turn::Done,
        };
        self.steps[index] = next;
        Turn::now(call)
    }

    fn ended(&mut self, thread: ThreadId, result: Result<u64, Errno>) {
        let step = &mut self.steps[thread.0 as usize];
        let why = match (*step, result) {
            (Step::Writing(_), Ok(0)) => "nothing of it was taken".to_owned(),
            (Step::Writing(done), Ok(count)) => return *step = Step::Write(done + count),
            (_, Ok(_)) => return,
            (_, Err(errno)) => errno.to_string(),
        };
        let why = format!("seq/{} could not be written: {why}", thread.0);
        self.failure.get_or_insert(why);
    }

    fn wake(&mut self) -> Option<ThreadId> {
        None
    }

    fn failure(&self) -> Option<String> {
        self.failure.clone()
    }
}
