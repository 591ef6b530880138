//! The first pass: resolves records to calls on absolute paths.

use super::paths::{Folders, absolute, parent};
use super::process::{Descriptors, Files, OpenFile, Process, Slot};
use super::spool::{Merged, Said};
use super::tree::{Sight, Tree};
use super::{ConvertError, paths};
use crate::wire::{Info, Op};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use units::Ns;
use workload::files::trace::{About, Writer};
use workload::files::{
    Call, Errno, Event, Fd, Mode, Name, Names, OpenFlags, Setup, Step, Thread, ThreadId,
};

/// Results of the first pass besides the scratch trace.
#[derive(Default)]
pub(super) struct Seen {
    /// Files that existed before the recording, each parent before its children.
    pub(super) sights: Vec<Sight>,
    /// Directories in which the program changed something.
    pub(super) changed: BTreeSet<Vec<u8>>,
    /// Names of interfaces that the program used and the library does not record.
    pub(super) unseen: BTreeSet<Vec<u8>>,
    /// Programs that were started and left no record.
    pub(super) silent: BTreeSet<Vec<u8>>,
    /// Number of records that were lost.
    pub(super) lost: u64,
    /// Number of calls on descriptors whose open file is unknown.
    pub(super) unknown: u64,
}

/// Resolves all records and writes a scratch trace to `out`.
pub(super) fn run(records: &mut Merged, out: impl Write) -> Result<Seen, ConvertError> {
    let names = Names::default();
    let out = Writer::new(out, &About::default(), &Setup::default(), &names)?;
    let mut resolver = Resolver::new(out, names);
    while let Some((said, last)) = records.next()? {
        resolver.record(&said)?;
        if last {
            resolver.ends(&said)?;
        }
    }
    resolver.finish()
}

/// The thread that made a call, and its times in ns since the first record.
#[derive(Clone, Copy)]
pub(super) struct Who {
    pub(super) process: usize,
    tid: u32,
    start: u64,
    end: u64,
}

pub(super) struct Resolver<W: Write> {
    out: Writer<W>,
    pub(super) names: Names,
    threads: BTreeMap<(usize, u32), ThreadId>,
    /// Numbers in the trace of the processes that made calls.
    numbers: BTreeMap<usize, u32>,
    pub(super) processes: Vec<Process>,
    by_pid: BTreeMap<u32, usize>,
    pub(super) files: Files,
    pub(super) tree: Tree,
    folders: Folders,
    pub(super) seen: Seen,
    /// Start of the first record, in ns of the monotonic clock.
    begin: Option<u64>,
}

impl<W: Write> Resolver<W> {
    fn new(out: Writer<W>, names: Names) -> Self {
        Self {
            out,
            names,
            threads: BTreeMap::new(),
            numbers: BTreeMap::new(),
            processes: Vec::new(),
            by_pid: BTreeMap::new(),
            files: Files::default(),
            tree: Tree::default(),
            folders: Folders::default(),
            seen: Seen::default(),
            begin: None,
        }
    }

    fn record(&mut self, said: &Said) -> Result<(), ConvertError> {
        let head = &said.head;
        let begin = *self.begin.get_or_insert(head.start);
        let who = Who {
            process: self.process(said),
            tid: said.tid,
            start: head.start.saturating_sub(begin),
            end: head.end.saturating_sub(begin),
        };
        if !matches!(head.op, Op::Start | Op::Found) {
            self.settle(&who)?;
        }
        match head.op {
            Op::Start => self.starts(&who, said)?,
            Op::Born => {}
            Op::Exec if head.a == 0 => self.processes[who.process].exec = Some(said.s1.clone()),
            Op::Exec => {}
            Op::Unseen => drop(self.seen.unseen.insert(said.s1.clone())),
            Op::Lost => self.seen.lost = self.seen.lost.saturating_add(head.a),
            _ => self.call(&who, said)?,
        }
        Ok(())
    }

    /// The index of the process of a record; adds the process with its first record.
    fn process(&mut self, said: &Said) -> usize {
        let parent = || self.by_pid.get(&(said.head.a as u32)).copied();
        if let Some(&known) = self.by_pid.get(&said.pid) {
            return known;
        }
        let mut process = match (said.head.op, parent()) {
            (Op::Born, Some(parent)) => {
                let mut forked = self.processes[parent].forked(&mut self.files);
                forked.parent = Some(parent);
                forked
            }
            // The library saw no fork (as with `posix_spawn`): the child starts with copies of its
            // parent's descriptors, which `Found` records confirm.
            (Op::Start, Some(parent)) => {
                let forked = self.processes[parent].forked(&mut self.files);
                for mapping in &forked.mappings {
                    self.files.release(mapping.slot);
                }
                Process {
                    parent: Some(parent),
                    descriptors: forked.descriptors,
                    ..Process::default()
                }
            }
            _ => Process::default(),
        };
        (process.pid, process.first) = (said.pid, said.pid);
        self.processes.push(process);
        self.by_pid.insert(said.pid, self.processes.len() - 1);
        self.processes.len() - 1
    }

    /// Handles the start of a program: its mappings are gone, its descriptors are kept as inherited
    /// until `Found` records confirm them.
    fn starts(&mut self, who: &Who, said: &Said) -> Result<(), ConvertError> {
        let process = &mut self.processes[who.process];
        process.exec = None;
        process.program.clone_from(&said.s2);
        process.folder = absolute(b"", &said.s1);
        let open = std::mem::take(&mut process.descriptors);
        process.inherited.extend(open);
        let mappings = std::mem::take(&mut process.mappings);
        for mapping in mappings {
            self.release(who, mapping.slot)?;
        }
        Ok(())
    }

    /// Closes the inherited descriptors that no `Found` record confirmed.
    fn settle(&mut self, who: &Who) -> Result<(), ConvertError> {
        let process = &mut self.processes[who.process];
        // A successful `exec` would have replaced this program before its next record.
        process.exec = None;
        let gone = std::mem::take(&mut process.inherited);
        for slot in gone.into_values() {
            self.release(who, slot)?;
        }
        Ok(())
    }

    /// Closes all descriptors and mappings of a process after its last record.
    fn ends(&mut self, said: &Said) -> Result<(), ConvertError> {
        let begin = self.begin.unwrap_or(0);
        let end = said.head.end.saturating_sub(begin);
        let process = self.process(said);
        let who = Who {
            process,
            tid: said.tid,
            start: end,
            end,
        };
        if let Some(program) = self.processes[process].exec.take() {
            self.seen.silent.insert(program);
        }
        self.settle(&who)?;
        let process = &mut self.processes[process];
        let open = std::mem::take(&mut process.descriptors);
        let mappings = std::mem::take(&mut process.mappings);
        let slots = open
            .into_values()
            .chain(mappings.into_iter().map(|it| it.slot));
        for slot in slots {
            self.release(&who, slot)?;
        }
        self.by_pid.remove(&said.pid);
        Ok(())
    }

    fn finish(self) -> Result<Seen, ConvertError> {
        self.out.finish()?.flush()?;
        let mut seen = self.seen;
        seen.sights = self.tree.finish();
        Ok(seen)
    }

    /// Drops one reference to an open file; the last one emits a `close`.
    pub(super) fn release(&mut self, who: &Who, slot: Slot) -> Result<(), ConvertError> {
        if self.files.release(slot) {
            self.emit(who, Call::Close { fd: Fd(slot) }, 0)?;
        }
        Ok(())
    }

    /// Makes `fd` refer to the open file `slot`, and releases the file that it referred to before.
    pub(super) fn set(&mut self, who: &Who, fd: i32, slot: Slot) -> Result<(), ConvertError> {
        let before = self.processes[who.process].descriptors.insert(fd, slot);
        before.map_or(Ok(()), |slot| self.release(who, slot))
    }

    /// The open file of a descriptor; counts a descriptor that is unknown.
    pub(super) fn slot(&mut self, who: &Who, fd: i32) -> Option<Slot> {
        let found = self.processes[who.process].descriptors.get(&fd).copied();
        self.seen.unknown += u64::from(found.is_none());
        found
    }

    /// The absolute path that a call refers to, with the symbolic links of its folder resolved.
    pub(super) fn path(&mut self, who: &Who, folder: i32, path: &[u8]) -> Vec<u8> {
        let process = &self.processes[who.process];
        let open = process.descriptors.get(&folder);
        let from = open.map_or(&process.folder, |&slot| &self.files.get(slot).path);
        let path = absolute(from, path);
        let tree = &self.tree;
        self.folders.follow(path, |path| tree.has_own_link(path))
    }

    /// Interns a path as a name of the trace.
    pub(super) fn name(&mut self, path: &[u8]) -> Name {
        self.names.intern(path)
    }

    /// Notes that the program changed something in the folder of `path`.
    pub(super) fn changed(&mut self, path: &[u8]) {
        let folder = parent(path);
        if !self.seen.changed.contains(folder) {
            self.seen.changed.insert(folder.to_vec());
        }
    }

    /// Writes a call and its result to the scratch trace; a negative `result` is an errno.
    pub(super) fn emit(&mut self, who: &Who, call: Call, result: i64) -> Result<(), ConvertError> {
        let thread = self.thread(who)?;
        let result = match u64::try_from(result) {
            Ok(value) => Ok(value),
            Err(_) => Err(Errno(
                u16::try_from(result.unsigned_abs()).unwrap_or(u16::MAX),
            )),
        };
        let event = Event {
            step: Step {
                thread,
                think: Ns::ZERO,
                call,
            },
            at: Ns(who.start),
            took: Ns(who.end.saturating_sub(who.start)),
            result,
        };
        Ok(self.out.event(&event, &self.names)?)
    }

    /// The thread of a call; it is written to the trace before its first call.
    fn thread(&mut self, who: &Who) -> Result<ThreadId, ConvertError> {
        let key = (who.process, who.tid);
        if let Some(&known) = self.threads.get(&key) {
            return Ok(known);
        }
        let parent = self.thread_before(who)?;
        let process = &self.processes[who.process];
        let fresh = u32::try_from(self.numbers.len()).expect("fewer than 2^32 processes");
        let number = *self.numbers.entry(who.process).or_insert(fresh);
        let thread = Thread {
            process: number,
            pid: process.pid,
            tid: who.tid,
            parent,
            born: Ns(who.start),
            program: self.names.intern(&process.program),
        };
        self.out.thread(&thread, &self.names)?;
        let id = u32::try_from(self.threads.len()).expect("fewer than 2^32 threads");
        self.threads.insert(key, ThreadId(id));
        Ok(ThreadId(id))
    }

    /// The presumed parent of a thread: the first thread of its process, or of the process that
    /// this one was forked from.
    fn thread_before(&mut self, who: &Who) -> Result<Option<ThreadId>, ConvertError> {
        let process = &self.processes[who.process];
        let (before, tid) = match process.parent {
            _ if process.first != who.tid => (who.process, process.first),
            Some(parent) => (parent, self.processes[parent].first),
            None => return Ok(None),
        };
        let start = Who {
            process: before,
            tid,
            ..*who
        };
        self.thread(&start).map(Some)
    }

    /// Handles a descriptor that was open before its process was recorded.
    pub(super) fn found(&mut self, who: &Who, said: &Said) -> Result<(), ConvertError> {
        let Some(info) = said.infos[0] else {
            return Ok(());
        };
        let fd = said.head.fd;
        let identity = (info.device, info.inode);
        let process = &mut self.processes[who.process];
        let known = matching(&self.files, &mut process.inherited, fd, identity);
        let known = known.or_else(|| {
            let open = process.descriptors.get(&fd).copied();
            open.filter(|&slot| self.files.get(slot).identity == identity)
                .inspect(|&slot| self.files.share(slot))
        });
        let slot = match known {
            Some(slot) => slot,
            None => self.opened_before(who, said, info)?,
        };
        self.files.get_mut(slot).offset = said.head.a;
        self.set(who, fd, slot)
    }

    /// Emits an `open` for a descriptor that came from outside of the recording.
    fn opened_before(&mut self, who: &Who, said: &Said, info: Info) -> Result<Slot, ConvertError> {
        let deleted = said.s1.strip_suffix(b" (deleted)");
        let path = self.path(who, libc::AT_FDCWD, deleted.unwrap_or(&said.s1));
        let mut flags = super::translate::flags(said.head.flags as i32, false);
        let mut place = path.clone();
        if deleted.is_some() {
            flags = flags.and(OpenFlags::TMPFILE).and(OpenFlags::WRITE);
            place = parent(&path).to_vec();
        } else {
            self.tree.saw(&path, info, b"");
        }
        let fd = Fd(self.files.next());
        let path_name = self.name(&place);
        let call = Call::Open {
            fd,
            path: path_name,
            flags,
            mode: Mode(0),
        };
        self.emit(who, call, 0)?;
        Ok(self.files.open(OpenFile {
            path,
            append: flags.has(OpenFlags::APPEND),
            identity: (info.device, info.inode),
            ..OpenFile::default()
        }))
    }

    /// Updates the paths of open files and working directories at or under `from`.
    pub(super) fn moved(&mut self, from: &[u8], to: &[u8]) {
        self.files.renamed(from, to);
        for process in &mut self.processes {
            if paths::is_under(&process.folder, from) {
                process.folder = [to, &process.folder[from.len()..]].concat();
            }
        }
    }
}

/// Takes an open file with this identity out of `inherited`, preferably that of the same
/// descriptor.
fn matching(
    files: &Files,
    inherited: &mut Descriptors,
    fd: i32,
    identity: (u64, u64),
) -> Option<Slot> {
    let is = |slot: Slot| files.get(slot).identity == identity;
    let same = inherited.get(&fd).copied().filter(|&slot| is(slot));
    let key = match same {
        Some(_) => fd,
        None => *inherited.iter().find(|(_, slot)| is(**slot))?.0,
    };
    inherited.remove(&key)
}
