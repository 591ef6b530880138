//! A recording as events that concern the placement of its files.
//!
//! Invariants: events are in the order of the recording; a file has one key while it has a name or
//! is open, and no other file gets that key; failed calls have no effect, except that a failed hint
//! counts, since it still states the program's intent.
//!
//! Paths are relative to the root of the recording. Symbolic links count as files of their own.

use super::trace::LoadedFiles;
use super::{Allocation, Call, EntryKind, Event, Fd, Name, OpenFlags, RenameHow, Target};
use parakeet::event::{Call as Done, Event as Placed, FileKey, Opening};
use parakeet::flags::Flags;
use std::collections::BTreeMap;
use units::Ns;

/// State of a file of the recording.
#[derive(Clone, Copy, Default)]
struct File {
    names: u32,
    opens: u32,
    size: u64,
}

/// Interpreter of the recording, up to the present event.
struct Follower<'a> {
    loaded: &'a LoadedFiles,
    files: BTreeMap<FileKey, File>,
    names: BTreeMap<Vec<u8>, FileKey>,
    /// File of each open slot; the number beside it is unused and always 0.
    open: BTreeMap<Fd, (FileKey, u64)>,
    next: u64,
    out: Vec<Placed<'a>>,
}

/// Events of the files of `loaded`, for placement rules.
#[must_use]
pub fn placed(loaded: &LoadedFiles) -> Vec<Placed<'_>> {
    let mut follower = Follower {
        loaded,
        files: BTreeMap::new(),
        names: BTreeMap::new(),
        open: BTreeMap::new(),
        next: 0,
        out: Vec::new(),
    };
    for entry in &loaded.setup.entries {
        follower.set_up(entry.path, entry.kind);
    }
    for event in &loaded.events {
        follower.take(event);
    }
    follower.out
}

impl<'a> Follower<'a> {
    fn set_up(&mut self, path: Name, kind: EntryKind) {
        let path = self.loaded.names.bytes(path);
        match kind {
            EntryKind::File { size } => {
                let file = self.make(path);
                self.file(file).size = size;
            }
            EntryKind::Link { to } => {
                if let Some(&file) = self.names.get(self.loaded.names.bytes(to)) {
                    self.name(path, file);
                }
            }
            EntryKind::Directory | EntryKind::Symlink { .. } | EntryKind::Node(_) => {}
        }
    }

    fn take(&mut self, event: &Event) {
        let done = match (event.result, event.step.call) {
            (Ok(done), _) => done,
            (Err(_), Call::Hint { .. }) => 0,
            (Err(_), _) => return,
        };
        let loaded = self.loaded;
        let bytes = |name| loaded.names.bytes(name);
        match event.step.call {
            Call::Open {
                fd,
                path,
                flags,
                mode,
            } => {
                self.open(event, fd, bytes(path), flags, u32::from(mode.0));
            }
            Call::Close { fd } => self.close(event, fd),
            Call::Write { fd, .. } => self.append(event, fd, done),
            Call::Pwrite { fd, at, .. } => self.write(event, fd, at, done),
            Call::Store { fd, at, len } => self.write(event, fd, at, len),
            Call::CopyRange { to, to_at, .. } => self.write(event, to, to_at, done),
            Call::Fsync { fd } | Call::Fdatasync { fd } | Call::Msync { fd, .. } => {
                self.tell_of(event, fd, Done::Sync);
            }
            Call::Hint { fd, life } => self.tell_of(event, fd, Done::Hint(life)),
            Call::Fallocate { fd, how, at, len } => {
                self.allocate(event, fd, how, at.saturating_add(len));
            }
            Call::Truncate { of, len } => self.truncate(event, of, len),
            Call::Rename { from, to, how } => self.rename(event, bytes(from), bytes(to), how),
            Call::Unlink { path } => self.unlink(event, bytes(path)),
            Call::Link { of, to } => {
                if let Some(file) = self.target(of) {
                    self.name(bytes(to), file);
                }
            }
            _ => {}
        }
    }

    /// Adds `call` on `file`, at the time at which the recorded call ended.
    fn tell(&mut self, event: &Event, file: FileKey, call: Done<'a>) {
        let at = self
            .out
            .last()
            .map_or(Ns(0), |last| last.at)
            .max(event.end());
        self.out.push(Placed {
            at,
            thread: event.step.thread.0,
            file,
            call,
        });
    }

    fn tell_of(&mut self, event: &Event, fd: Fd, call: Done<'a>) {
        if let Some(&(file, _)) = self.open.get(&fd) {
            self.tell(event, file, call);
        }
    }

    fn file(&mut self, key: FileKey) -> &mut File {
        self.files.entry(key).or_default()
    }

    /// Adds a new file without a name.
    fn unnamed(&mut self) -> FileKey {
        self.next += 1;
        let key = FileKey(self.next);
        self.files.insert(key, File::default());
        key
    }

    fn make(&mut self, path: &[u8]) -> FileKey {
        let key = self.unnamed();
        self.name(path, key);
        key
    }

    fn name(&mut self, path: &[u8], file: FileKey) {
        self.names.insert(path.to_vec(), file);
        self.file(file).names += 1;
    }

    fn target(&self, of: Target) -> Option<FileKey> {
        match of {
            Target::Open(fd) => self.open.get(&fd).map(|&(file, _)| file),
            Target::Path(path) | Target::Link(path) => {
                self.names.get(self.loaded.names.bytes(path)).copied()
            }
        }
    }

    fn open(&mut self, event: &Event, fd: Fd, path: &'a [u8], flags: OpenFlags, mode: u32) {
        if flags.has(OpenFlags::DIRECTORY) && !flags.has(OpenFlags::TMPFILE) {
            return;
        }
        let known = self.names.get(path).copied();
        let file = match known {
            _ if flags.has(OpenFlags::TMPFILE) => self.unnamed(),
            Some(file) => file,
            // Opening a directory to read it looks like opening a file; it is never written.
            None => self.make(path),
        };
        let size = self.file(file).size;
        self.file(file).opens += 1;
        if flags.has(OpenFlags::TRUNCATE) {
            self.file(file).size = 0;
        }
        self.open.insert(fd, (file, 0));
        let thread = self.loaded.threads.get(event.step.thread.0 as usize);
        let program = thread.map_or(&[][..], |thread| self.loaded.names.bytes(thread.program));
        let opening = Opening {
            path,
            flags: raw(flags),
            mode,
            size,
            program,
            ..Opening::default()
        };
        self.tell(event, file, Done::Open(opening));
    }

    fn close(&mut self, event: &Event, fd: Fd) {
        if let Some((file, _)) = self.open.remove(&fd) {
            self.tell(event, file, Done::Close);
            let held = self.file(file);
            held.opens = held.opens.saturating_sub(1);
            self.bury(event, file);
        }
    }

    /// Removes a file, and reports it gone, if it has no name and no open slot.
    fn bury(&mut self, event: &Event, file: FileKey) {
        let File { names, opens, .. } = *self.file(file);
        if names == 0 && opens == 0 {
            self.files.remove(&file);
            self.tell(event, file, Done::Gone);
        }
    }

    fn write(&mut self, event: &Event, fd: Fd, offset: u64, len: u64) {
        let Some(&(key, _)) = self.open.get(&fd) else {
            return;
        };
        let file = self.file(key);
        file.size = file.size.max(offset.saturating_add(len));
        self.tell(event, key, Done::Write { offset, len });
    }

    /// Handles a write at the slot's offset. Recorded writes of this kind append; see
    /// [`Call::Write`].
    fn append(&mut self, event: &Event, fd: Fd, len: u64) {
        if let Some(&(key, _)) = self.open.get(&fd) {
            let end = self.file(key).size;
            self.write(event, fd, end, len);
        }
    }

    fn allocate(&mut self, event: &Event, fd: Fd, how: Allocation, end: u64) {
        if let Allocation::Extend | Allocation::KeepSize = how {
            self.tell_of(event, fd, Done::Allocate { len: end });
        }
    }

    fn truncate(&mut self, event: &Event, of: Target, len: u64) {
        if let Some(file) = self.target(of) {
            self.file(file).size = len;
            self.tell(event, file, Done::Truncate { len });
        }
    }

    fn unlink(&mut self, event: &Event, path: &[u8]) {
        if let Some(file) = self.names.remove(path) {
            let held = self.file(file);
            held.names = held.names.saturating_sub(1);
            self.bury(event, file);
        }
    }

    fn rename(&mut self, event: &Event, from: &'a [u8], to: &'a [u8], how: RenameHow) {
        if from == to {
            return;
        }
        let Some(file) = self.names.remove(from) else {
            return self.move_folder(from, to);
        };
        let before = self.names.insert(to.to_vec(), file);
        self.tell(event, file, Done::Rename { to });
        match before {
            Some(other) if how == RenameHow::Exchange => {
                self.names.insert(from.to_vec(), other);
                self.tell(event, other, Done::Rename { to: from });
            }
            // Both names belong to the same file, which keeps both.
            Some(other) if other == file => {
                self.names.insert(from.to_vec(), file);
            }
            Some(other) => {
                let held = self.file(other);
                held.names = held.names.saturating_sub(1);
                self.bury(event, other);
            }
            None => {}
        }
    }
}

impl Follower<'_> {
    /// Renames the paths inside a directory; no event is reported, since no call was made on those
    /// files.
    fn move_folder(&mut self, from: &[u8], to: &[u8]) {
        let begin = [from, b"/"].concat();
        let inside = |(path, file): (&Vec<u8>, &FileKey)| (path.clone(), *file);
        let moved: Vec<_> = self
            .names
            .range(begin.clone()..)
            .map(inside)
            .take_while(|(path, _)| path.starts_with(&begin))
            .collect();
        for (path, file) in moved {
            self.names.remove(&path);
            self.names.insert([to, &path[from.len()..]].concat(), file);
        }
    }
}

/// `flags` with the numbers of Linux. Flags that a recording does not keep (`O_CLOEXEC`,
/// `O_NONBLOCK`) are not set.
fn raw(flags: OpenFlags) -> Flags {
    let access = match (flags.has(OpenFlags::READ), flags.has(OpenFlags::WRITE)) {
        (true, true) => Flags::READ_WRITE,
        (_, true) => Flags::WRITE,
        _ => Flags::READ,
    };
    let known = [
        (OpenFlags::CREATE, Flags::CREATE),
        (OpenFlags::EXCLUSIVE, Flags::EXCLUSIVE),
        (OpenFlags::TRUNCATE, Flags::TRUNCATE),
        (OpenFlags::APPEND, Flags::APPEND),
        (OpenFlags::DIRECT, Flags::DIRECT),
        (OpenFlags::SYNC, Flags::SYNC),
        (OpenFlags::DSYNC, Flags::DSYNC),
    ];
    let set = known.into_iter().filter(|(own, _)| flags.has(*own));
    set.fold(access, |all, (_, flag)| all.and(flag))
}
