//! Words on recorded calls, for reports.

use super::{Call, Name, Recording};
use std::collections::BTreeMap;
use vfs::{FallocateMode, FileKind, Ino};

/// Names of files as the calls so far have left them.
struct Names {
    root: Ino,
    /// Files by directory and name.
    files: BTreeMap<(Ino, Vec<u8>), Ino>,
    /// The last name of each file, also of one that has lost it.
    names: BTreeMap<Ino, Name>,
}

impl Names {
    fn put(&mut self, at: &Name, ino: Ino) {
        self.files.insert((at.dir, at.name.clone()), ino);
        self.names.insert(ino, at.clone());
    }

    fn take(&mut self, at: &Name) -> Option<Ino> {
        self.files.remove(&(at.dir, at.name.clone()))
    }

    fn follow(&mut self, call: &Call) {
        match call {
            Call::Make { at, ino, .. } | Call::Link { at, ino } => self.put(at, *ino),
            Call::Remove { at, .. } => drop(self.take(at)),
            Call::Rename { from, to, exchange } => {
                let (moved, replaced) = (self.take(from), self.take(to));
                moved.into_iter().for_each(|ino| self.put(to, ino));
                let behind = replaced.filter(|_| *exchange);
                behind.into_iter().for_each(|ino| self.put(from, ino));
            }
            _ => {}
        }
    }

    fn place(&self, at: &Name) -> String {
        let name = String::from_utf8_lossy(&at.name);
        match self.names.get(&at.dir).filter(|_| at.dir != self.root) {
            Some(dir) => format!("{}/{name}", self.place(dir)),
            None => name.into_owned(),
        }
    }

    fn file(&self, ino: Ino) -> String {
        match self.names.get(&ino) {
            Some(at) if ino != self.root => self.place(at),
            _ => ".".to_owned(),
        }
    }

    fn told(&self, call: &Call) -> String {
        match call {
            Call::Make { at, kind, .. } => match kind {
                FileKind::Directory => format!("mkdir {}", self.place(at)),
                FileKind::Symlink => format!("symlink {}", self.place(at)),
                _ => format!("create {}", self.place(at)),
            },
            Call::Link { at, ino } => format!("link {} to {}", self.file(*ino), self.place(at)),
            Call::Remove { at, is_dir, .. } => {
                let verb = if *is_dir { "rmdir" } else { "unlink" };
                format!("{verb} {}", self.place(at))
            }
            Call::Rename { from, to, exchange } => {
                let verb = if *exchange { "exchange" } else { "rename" };
                format!("{verb} {} to {}", self.place(from), self.place(to))
            }
            Call::Write { ino, offset, bytes } => {
                let (len, file) = (bytes.len(), self.file(*ino));
                format!("write {len} bytes at {offset} to {file}")
            }
            Call::Resize { ino, size } => format!("truncate {} to {size}", self.file(*ino)),
            Call::Allocate { ino, mode, .. } => {
                let verb = match mode {
                    FallocateMode::Allocate { .. } => "allocate in",
                    FallocateMode::Punch => "punch a hole in",
                    FallocateMode::Zero { .. } => "zero a range of",
                };
                format!("{verb} {}", self.file(*ino))
            }
            Call::Share { from, to, .. } => {
                format!("clone from {} to {}", self.file(*from), self.file(*to))
            }
            Call::Own { ino, .. } => format!("chmod or chown {}", self.file(*ino)),
            Call::Extend { ino, .. } => format!("change an attribute of {}", self.file(*ino)),
            Call::Force { ino, data_only } => {
                let verb = if *data_only { "fdatasync" } else { "fsync" };
                format!("{verb} {}", self.file(*ino))
            }
            Call::ForceAll => "sync".to_owned(),
            Call::Print(_) => "print".to_owned(),
        }
    }
}

impl Recording {
    /// Words on the last call among the first `entries` that changes or forces files; `None` if
    /// there is none.
    #[must_use]
    pub fn last_call(&self, entries: usize) -> Option<String> {
        let done = &self.calls[..entries.min(self.calls.len())];
        let is_call = |call: &Call| !matches!(call, Call::Print(_));
        let last = done.iter().rposition(is_call)?;
        let mut names = Names {
            root: self.root,
            files: BTreeMap::new(),
            names: BTreeMap::new(),
        };
        done[..last].iter().for_each(|call| names.follow(call));
        Some(names.told(&done[last]))
    }
}
