//! The second pass: keeps the calls that the options select, and makes their paths relative to one
//! root.

use super::paths::{self, common, is_under, parent, relative, system};
use super::resolve::Seen;
use super::{ConvertError, Options, Outcome};
use crate::wire::Info;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io::Write;
use std::path::Path;
use workload::files::trace::{About, FileTrace, Summarizer, Writer};
use workload::files::{
    Call, Entry, EntryKind, Event, Fd, Mode, Name, Names, NodeKind, Setup, Thread, ThreadId,
};

/// Directories of the system: a program's accesses there are left out unless it changes a file
/// below them, or the folder to keep was named.
const SYSTEM: &[&[u8]] = &[
    b"usr",
    b"lib",
    b"lib64",
    b"bin",
    b"sbin",
    b"etc",
    b"opt",
    b"run",
    b"proc",
    b"sys",
    b"dev",
    b"var/lib/dpkg",
    b"memfd:",
];

/// Decides which paths are kept.
struct Wanted {
    /// Folders whose paths are kept; `None` keeps every path.
    folders: Option<Vec<Vec<u8>>>,
    /// Whether the user named the folder, in which case files of the system are kept too.
    named: bool,
}

impl Wanted {
    fn new(options: &Options, seen: &Seen) -> Self {
        let folders = match &options.under {
            _ if options.all && options.under.is_none() => None,
            Some(under) => Some(vec![paths::bytes(under)]),
            None => {
                let mut folders: Vec<_> = seen.changed.iter().cloned().collect();
                folders.push(paths::bytes(&options.folder));
                Some(folders)
            }
        };
        let named = options.under.is_some();
        Self { folders, named }
    }

    fn keeps(&self, path: &[u8]) -> bool {
        let own = |it: &&&[u8]| is_under(path, it);
        let of_system = SYSTEM.iter().find(own);
        let keeps = |folder: &Vec<u8>| {
            is_under(path, folder)
                && (self.named || of_system.is_none_or(|system| is_under(folder, system)))
        };
        self.folders
            .as_ref()
            .is_none_or(|all| all.iter().any(keeps))
    }
    /// Whether `path` is kept, or is an ancestor of a folder whose paths are kept.
    fn leads_through(&self, path: &[u8]) -> bool {
        let leads = |folder: &Vec<u8>| is_under(folder, path);
        self.keeps(path) || self.folders.iter().flatten().any(leads)
    }
}

/// Whether the field `key` of a call is a path.
fn is_path(key: &str) -> bool {
    matches!(key, "path" | "from" | "to")
}

/// The kept calls of a scratch trace, one after the other.
struct Kept {
    trace: FileTrace,
    wanted: Wanted,
    /// By name of the scratch trace: whether it is kept as a path, `None` until first asked.
    known: Vec<Option<bool>>,
    /// Slots of kept open files: from the scratch trace's slot to the slot in the trace.
    slots: BTreeMap<u32, u32>,
    free: BinaryHeap<Reverse<u32>>,
    fresh: u32,
}

impl Kept {
    fn open(scratch: &Path, wanted: Wanted) -> Result<Self, ConvertError> {
        Ok(Self {
            trace: FileTrace::open(scratch)?,
            wanted,
            known: Vec::new(),
            slots: BTreeMap::new(),
            free: BinaryHeap::new(),
            fresh: 0,
        })
    }

    fn wants(&mut self, name: Name) -> bool {
        let index = name.0 as usize;
        if self.known.len() <= index {
            self.known.resize(index + 1, None);
        }
        *self.known[index].get_or_insert_with(|| self.wanted.keeps(self.trace.names().bytes(name)))
    }

    /// The next kept event: its slots are those of the trace, its names still those of the scratch
    /// trace.
    fn next(&mut self) -> Result<Option<Event>, ConvertError> {
        while let Some(event) = self.trace.next().transpose()? {
            if let Some(call) = self.kept(&event) {
                let mut kept = event;
                kept.step.call = call;
                return Ok(Some(kept));
            }
        }
        Ok(None)
    }

    fn kept(&mut self, event: &Event) -> Option<Call> {
        let call = event.step.call;
        if let Call::Open { fd, path, .. } = call {
            if !self.wants(path) {
                self.slots.remove(&fd.0);
                return None;
            }
            return self.kept_open(event, fd);
        }
        let mut paths = Vec::new();
        let slots = &self.slots;
        let kept = call.map(
            |fd| slots.get(&fd.0).copied().map(Fd),
            |key, name| {
                if is_path(key) {
                    paths.push(name);
                }
                Some(name)
            },
        )?;
        if !paths.into_iter().all(|name| self.wants(name)) {
            return None;
        }
        if let Call::Close { fd } = call
            && let Some(slot) = self.slots.remove(&fd.0)
        {
            self.free.push(Reverse(slot));
        }
        Some(kept)
    }

    fn kept_open(&mut self, event: &Event, fd: Fd) -> Option<Call> {
        let slot = self.free.peek().map_or(self.fresh, |slot| slot.0);
        if event.result.is_ok() {
            if self.free.pop().is_none() {
                self.fresh += 1;
            }
            self.slots.insert(fd.0, slot);
        }
        event
            .step
            .call
            .map(|_| Some(Fd(slot)), |_, name| Some(name))
    }
}

/// Finds the root, then writes the trace.
pub(super) fn run(
    scratch: &Path,
    seen: &Seen,
    options: &Options,
    out: impl Write,
) -> Result<Outcome, ConvertError> {
    let root = root(scratch, seen, options)?;
    let notes = notes(seen);
    let about = About {
        root: [b"/", &root[..]].concat(),
        command: options.command.clone(),
        notes: notes.iter().map(|note| note.clone().into_bytes()).collect(),
    };
    let mut names = Names::default();
    let setup = setup(seen, &Wanted::new(options, seen), &root, &mut names);
    let mut out = Writer::new(out, &about, &setup, &names)?;
    let mut kept = Kept::open(scratch, Wanted::new(options, seen))?;
    let mut threads = Threads::default();
    let mut sum = Summarizer::default();
    while let Some(mut event) = kept.next()? {
        let from = kept.trace.names();
        let Some(call) = renamed(&event.step.call, from, &root, &mut names) else {
            continue;
        };
        event.step.call = call;
        let all = kept.trace.threads();
        event.step.thread = threads.write(all, event.step.thread, from, &mut names, &mut out)?;
        sum.add(&event);
        out.event(&event, &names)?;
    }
    out.finish()?.flush()?;
    Ok(Outcome {
        summary: sum.finish(&threads.written, &names),
        notes,
        root: system(&root),
    })
}

/// The call with its names interned in `names` and its paths relative to `root`; `None` if a path
/// lies outside of `root`.
fn renamed(call: &Call, from: &Names, root: &[u8], names: &mut Names) -> Option<Call> {
    call.map(Some, |key, name| {
        let bytes = from.bytes(name);
        let bytes = if is_path(key) {
            relative(bytes, root)?
        } else {
            bytes
        };
        Some(names.intern(bytes))
    })
}

/// Threads written to the trace so far, and their numbers there.
#[derive(Default)]
struct Threads {
    ids: BTreeMap<ThreadId, ThreadId>,
    processes: BTreeMap<u32, u32>,
    written: Vec<Thread>,
}

impl Threads {
    /// The number of `thread` in the trace. A thread is written, after its parents, when its first
    /// kept call is.
    fn write<W: Write>(
        &mut self,
        all: &[Thread],
        thread: ThreadId,
        from: &Names,
        names: &mut Names,
        out: &mut Writer<W>,
    ) -> Result<ThreadId, ConvertError> {
        if let Some(&known) = self.ids.get(&thread) {
            return Ok(known);
        }
        let said = all[thread.0 as usize];
        let parent = match said.parent {
            Some(parent) => Some(self.write(all, parent, from, names, out)?),
            None => None,
        };
        let count = self.processes.len();
        let fresh = u32::try_from(count).expect("as many as in the scratch trace");
        let process = *self.processes.entry(said.process).or_insert(fresh);
        let written = Thread {
            process,
            parent,
            program: names.intern(from.bytes(said.program)),
            ..said
        };
        out.thread(&written, names)?;
        let id = u32::try_from(self.written.len()).expect("as many as in the scratch trace");
        self.written.push(written);
        self.ids.insert(thread, ThreadId(id));
        Ok(ThreadId(id))
    }
}

/// The directory that paths are made relative to: the one that the options name, or the deepest
/// directory that holds every path of a kept call.
fn root(scratch: &Path, seen: &Seen, options: &Options) -> Result<Vec<u8>, ConvertError> {
    if let Some(under) = &options.under {
        return Ok(paths::bytes(under));
    }
    let mut kept = Kept::open(scratch, Wanted::new(options, seen))?;
    let mut used = Vec::new();
    while let Some(event) = kept.next()? {
        event.step.call.map(Some, |key, name| {
            let index = name.0 as usize;
            if is_path(key) && used.len() <= index {
                used.resize(index + 1, false);
            }
            if is_path(key) {
                used[index] = true;
            }
            Some(name)
        });
    }
    let used = (0_u32..).zip(used).filter(|(_, used)| *used);
    let names = kept.trace.names();
    Ok(root_of(used.map(|(index, _)| names.bytes(Name(index)))))
}

fn root_of<'a>(mut paths: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let Some(first) = paths.next() else {
        return Vec::new();
    };
    let (root, several) = paths.fold((first, false), |(root, several), path| {
        (common(root, path), several || path != first)
    });
    // A single path may be a file.
    if several { root } else { parent(root) }.to_vec()
}

/// The files that existed before the recording, as far as they are kept.
fn setup(seen: &Seen, wanted: &Wanted, root: &[u8], names: &mut Names) -> Setup {
    let mut first = BTreeMap::new();
    let mut entries = Vec::new();
    for sight in &seen.sights {
        let path = relative(&sight.path, root).filter(|path| !path.is_empty());
        let folder = sight.info.mode & libc::S_IFMT == libc::S_IFDIR;
        let Some(path) = path.filter(|_| match folder {
            true => wanted.leads_through(&sight.path),
            false => wanted.keeps(&sight.path),
        }) else {
            continue;
        };
        let path = names.intern(path);
        let target = names.intern(&sight.target);
        let identity = (sight.info.device, sight.info.inode);
        let other = *first.entry(identity).or_insert(path);
        let kind = kind(&sight.info, (path, other), target);
        entries.push(Entry {
            path,
            kind,
            mode: Mode((sight.info.mode & 0o7777) as u16),
        });
    }
    Setup { entries }
}

/// The kind of an entry; `other` is the first path of the same inode.
fn kind(info: &Info, (path, other): (Name, Name), target: Name) -> EntryKind {
    match info.mode & libc::S_IFMT {
        libc::S_IFDIR => EntryKind::Directory,
        libc::S_IFLNK => EntryKind::Symlink { target },
        libc::S_IFIFO => EntryKind::Node(NodeKind::Fifo),
        libc::S_IFSOCK => EntryKind::Node(NodeKind::Socket),
        libc::S_IFCHR => EntryKind::Node(NodeKind::Character),
        libc::S_IFBLK => EntryKind::Node(NodeKind::Block),
        _ if info.links > 1 && info.inode != 0 && path != other => EntryKind::Link { to: other },
        _ => EntryKind::File { size: info.size },
    }
}

/// Sentences on activity that the trace lacks.
fn notes(seen: &Seen) -> Vec<String> {
    let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
    let unseen = seen.unseen.iter().map(text);
    let mut notes: Vec<_> = unseen
        .map(|what| format!("{what}: used, and what was done through it is not in the trace"))
        .collect();
    let silent = seen.silent.iter().map(text);
    notes.extend(silent.map(|program| {
        format!("{program}: started, and left no record (linked statically, or it gains rights)")
    }));
    if seen.lost > 0 {
        notes.push(format!(
            "{} records were lost: the spool could not be written",
            seen.lost
        ));
    }
    if seen.unknown > 0 {
        notes.push(format!(
            "{} calls on descriptors that nobody was seen to open were left out",
            seen.unknown
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(changed: &[&str], folder: &str) -> Wanted {
        let mut seen = Seen::default();
        let changed = changed.iter().map(|path| path.as_bytes().to_vec());
        seen.changed.extend(changed);
        let options = Options {
            folder: folder.into(),
            ..Options::default()
        };
        Wanted::new(&options, &seen)
    }

    #[test]
    fn system_files_are_kept_only_under_changed_folders() {
        let wanted = wanted(&["tmp/db"], "/home/me");
        assert!(wanted.keeps(b"tmp/db/log") && wanted.keeps(b"home/me/x"));
        assert!(!wanted.keeps(b"usr/lib/x") && !wanted.keeps(b"tmp/other"));
        let everywhere = super::tests::wanted(&["etc/own"], "/");
        assert!(everywhere.keeps(b"etc/own/x") && everywhere.keeps(b"srv"));
        assert!(!everywhere.keeps(b"etc/passwd"));
    }

    #[test]
    fn root_is_the_deepest_folder_of_all_paths() {
        let root = |paths: &[&'static str]| {
            let bytes = paths.iter().map(|path| path.as_bytes());
            String::from_utf8(root_of(bytes)).unwrap()
        };
        assert_eq!(root(&["a/b/c", "a/b/d/e"]), "a/b");
        assert_eq!(root(&["a/b", "a/b/c"]), "a/b");
        assert_eq!(root(&["a/b", "a/b"]), "a");
        assert_eq!(root(&["a", "b"]), "");
        assert_eq!(root(&[]), "");
    }
}
