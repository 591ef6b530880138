//! Model of a file system without time, and a driver that runs threads on it in turns.

use sim::Seed;
use std::collections::BTreeMap;
use units::Ns;
use workload::files::{
    Call, EntryKind, Errno, Fd, FileWorkload, OpenFlags, Source, Target, ThreadId, Turn,
};

const ENOENT: Errno = Errno(2);
const EBADF: Errno = Errno(9);
const EEXIST: Errno = Errno(17);

/// Entry of the model: a directory, or a file by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Dir,
    File(u32),
}

/// Contents of the file system, by path.
#[derive(Default)]
pub(crate) struct Model {
    nodes: BTreeMap<Vec<u8>, Node>,
    /// Sizes of all files, by number.
    sizes: Vec<u64>,
    slots: BTreeMap<Fd, (u32, OpenFlags)>,
    /// Offset of each slot for writes without an offset.
    places: BTreeMap<Fd, u64>,
    /// Open directories, and whether each has been listed.
    listed: BTreeMap<Fd, bool>,
    pub(crate) written: u64,
    pub(crate) read: u64,
}

impl Model {
    pub(crate) fn new(source: &dyn Source) -> Self {
        let mut model = Self::default();
        for entry in &source.setup().entries {
            let path = source.names().bytes(entry.path).to_vec();
            let node = match entry.kind {
                EntryKind::File { size } => model.file(size),
                _ => Node::Dir,
            };
            assert!(model.has_parent(&path), "parents come first");
            assert!(model.nodes.insert(path, node).is_none(), "each entry once");
        }
        model
    }

    fn file(&mut self, size: u64) -> Node {
        self.sizes.push(size);
        Node::File(self.sizes.len() as u32 - 1)
    }

    fn has_parent(&self, path: &[u8]) -> bool {
        match path.iter().rposition(|b| *b == b'/') {
            Some(at) => self.nodes.get(&path[..at]) == Some(&Node::Dir),
            None => true,
        }
    }

    pub(crate) fn files(&self) -> usize {
        let files = self.nodes.values().filter(|n| **n != Node::Dir);
        files.count()
    }

    pub(crate) fn dirs(&self) -> usize {
        self.nodes.len() - self.files()
    }

    /// Total size of all files with a name.
    pub(crate) fn bytes(&self) -> u64 {
        let files = self.nodes.values().filter_map(|node| match node {
            Node::File(file) => Some(self.sizes[*file as usize]),
            Node::Dir => None,
        });
        files.sum()
    }

    /// Extends an open file to at least `end` bytes.
    fn extend(&mut self, fd: Fd, end: u64) -> Result<u64, Errno> {
        let (file, _) = *self.slots.get(&fd).ok_or(EBADF)?;
        let size = &mut self.sizes[file as usize];
        *size = (*size).max(end);
        Ok(0)
    }

    pub(crate) fn do_call(&mut self, source: &dyn Source, call: &Call) -> Result<u64, Errno> {
        let path = |name| source.names().bytes(name).to_vec();
        match *call {
            Call::Open {
                fd,
                path: name,
                flags,
                ..
            } => self.open(fd, path(name), flags),
            Call::Close { fd } => match self.listed.remove(&fd) {
                Some(_) => Ok(0),
                None => self.slots.remove(&fd).map(|_| 0).ok_or(EBADF),
            },
            Call::Pread { fd, at, len } => self.io(fd, Some(at), len, false),
            Call::Pwrite { fd, at, len } => self.io(fd, Some(at), len, true),
            Call::Write { fd, len } => self.io(fd, None, len, true),
            Call::Fsync { fd }
            | Call::Fdatasync { fd }
            | Call::Hint { fd, .. }
            | Call::Advise { fd, .. } => self.slots.get(&fd).map(|_| 0).ok_or(EBADF),
            Call::Fallocate { fd, at, len, .. } => self.extend(fd, at + len),
            Call::Truncate {
                of: Target::Open(fd),
                len,
            } => {
                let (file, _) = *self.slots.get(&fd).ok_or(EBADF)?;
                self.sizes[file as usize] = len;
                Ok(0)
            }
            Call::Unlink { path: name } => match self.nodes.remove(&path(name)) {
                Some(Node::File(_)) => Ok(0),
                other => panic!("unlinked {other:?}"),
            },
            Call::Mkdir { path: name, .. } => {
                let path = path(name);
                assert!(self.has_parent(&path));
                match self.nodes.insert(path, Node::Dir) {
                    None => Ok(0),
                    Some(_) => Err(EEXIST),
                }
            }
            Call::Rmdir { path: name } => self.nodes.remove(&path(name)).map(|_| 0).ok_or(ENOENT),
            Call::Stat {
                of: Target::Path(name),
            } => self.nodes.get(&path(name)).map(|_| 0).ok_or(ENOENT),
            Call::Readdir { fd, .. } => {
                let listed = self.listed.get_mut(&fd).ok_or(EBADF)?;
                Ok(if std::mem::replace(listed, true) {
                    0
                } else {
                    3
                })
            }
            Call::Sync {} => Ok(0),
            ref other => panic!("{other:?} is not expected"),
        }
    }

    fn open(&mut self, fd: Fd, path: Vec<u8>, flags: OpenFlags) -> Result<u64, Errno> {
        assert!(!self.slots.contains_key(&fd), "{fd:?} is free");
        if flags.has(OpenFlags::DIRECTORY) {
            assert_eq!(self.nodes.get(&path), Some(&Node::Dir));
            assert!(self.listed.insert(fd, false).is_none(), "{fd:?} is free");
            return Ok(0);
        }
        let file = match self.nodes.get(&path) {
            Some(Node::File(file)) => *file,
            Some(Node::Dir) => panic!("a directory is opened"),
            None if flags.has(OpenFlags::CREATE) => {
                assert!(self.has_parent(&path));
                let node = self.file(0);
                self.nodes.insert(path, node);
                self.sizes.len() as u32 - 1
            }
            None => return Err(ENOENT),
        };
        self.slots.insert(fd, (file, flags));
        self.places.insert(fd, 0);
        Ok(0)
    }

    fn io(&mut self, fd: Fd, at: Option<u64>, len: u64, writes: bool) -> Result<u64, Errno> {
        let (file, flags) = *self.slots.get(&fd).ok_or(EBADF)?;
        let wanted = if writes {
            OpenFlags::WRITE
        } else {
            OpenFlags::READ
        };
        if !flags.has(wanted) {
            return Err(EBADF);
        }
        let size = &mut self.sizes[file as usize];
        assert!(len > 0);
        if writes {
            let place = self.places.get_mut(&fd).ok_or(EBADF)?;
            let next = if flags.has(OpenFlags::APPEND) {
                *size
            } else {
                *place
            };
            let end = at.unwrap_or(next) + len;
            if at.is_none() {
                *place = end;
            }
            *size = (*size).max(end);
            self.written += len;
            return Ok(len);
        }
        let count = size.saturating_sub(at.unwrap_or(0)).min(len);
        self.read += count;
        Ok(count)
    }
}

/// Call that was made, with the bytes that it moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Made {
    pub(crate) thread: ThreadId,
    pub(crate) call: Call,
    pub(crate) count: u64,
}

/// Result of running a workload.
pub(crate) struct Run {
    pub(crate) made: Vec<Made>,
    pub(crate) model: Model,
    pub(crate) source: Box<dyn Source>,
    pub(crate) time: Ns,
}

impl Run {
    pub(crate) fn count(&self, name: &str) -> usize {
        self.made.iter().filter(|m| m.call.name() == name).count()
    }

    pub(crate) fn text(&self) -> String {
        format!("{:?}", self.made)
    }
}

/// Runs `text` to its end, each call taking 1 to 20 µs, and asserts that no call fails. `watch` is
/// called with the model after each call.
pub(crate) fn run_watched(text: &str, seed: u64, mut watch: impl FnMut(&Made, &Model)) -> Run {
    let workload = FileWorkload::parse(text).unwrap_or_else(|e| panic!("{e}"));
    let source = workload.open(Seed(seed)).unwrap_or_else(|e| panic!("{e}"));
    run_source(source, seed, &mut watch)
}

pub(crate) fn run(text: &str, seed: u64) -> Run {
    run_watched(text, seed, |_, _| {})
}

pub(crate) fn run_source(
    mut source: Box<dyn Source>,
    seed: u64,
    watch: &mut dyn FnMut(&Made, &Model),
) -> Run {
    let mut model = Model::new(&*source);
    let mut rng = Seed(seed).stream("model");
    let mut made = Vec::new();
    // Turns of threads, in order of time and then of request.
    let mut agenda: BTreeMap<(Ns, u64), (ThreadId, Option<Call>)> = BTreeMap::new();
    let mut sequence = 0;
    let mut then = |agenda: &mut BTreeMap<_, _>, at: Ns, who, call| {
        sequence += 1;
        agenda.insert((at, sequence), (who, call));
    };
    for thread in 0..source.threads() {
        then(&mut agenda, Ns::ZERO, ThreadId(thread), None);
    }
    let mut time = Ns::ZERO;
    while let Some(((now, _), (thread, call))) = agenda.pop_first() {
        assert!(made.len() < 20_000_000, "it ends");
        time = now;
        if let Some(call) = call {
            let result = model.do_call(&*source, &call);
            let count = result.unwrap_or_else(|e| panic!("{thread:?} {call:?}: {e}"));
            let one = Made {
                thread,
                call,
                count,
            };
            watch(&one, &model);
            made.push(one);
            source.ended(thread, Ok(count));
        }
        match source.next(thread, now) {
            Turn::Call { think, call, .. } => {
                let end = now + think + Ns(1_000 + rng.below(19_000));
                then(&mut agenda, end, thread, Some(call));
            }
            Turn::Pause(span) => then(&mut agenda, now + span, thread, None),
            Turn::Park | Turn::Done => {}
        }
        while let Some(woken) = source.wake() {
            then(&mut agenda, now, woken, None);
        }
    }
    assert_eq!(source.failure(), None);
    Run {
        made,
        model,
        source,
        time,
    }
}
