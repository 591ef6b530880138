//! A minimal model of a file system: names and sizes. Replaying a correct trace yields the files
//! that the programs left behind.

use std::collections::BTreeMap;
use std::path::Path;
use workload::files::trace::LoadedFiles;
use workload::files::{
    Allocation, Call, EntryKind, Event, Fd, Name, Names, OpenFlags, RenameHow, Target,
};

/// Index of a file in `sizes`; 0 is no file.
type File = usize;

pub(super) struct Model<'a> {
    names: &'a Names,
    files: BTreeMap<Vec<u8>, File>,
    sizes: Vec<u64>,
    open: BTreeMap<Fd, File>,
}

impl<'a> Model<'a> {
    /// The files after a replay of `trace`.
    pub(super) fn replayed(trace: &'a LoadedFiles) -> Self {
        let mut model = Self {
            names: &trace.names,
            files: BTreeMap::new(),
            sizes: vec![0],
            open: BTreeMap::new(),
        };
        for entry in &trace.setup.entries {
            match entry.kind {
                EntryKind::File { size } => {
                    let file = model.make(entry.path);
                    model.sizes[file] = size;
                }
                EntryKind::Link { to } => {
                    let file = model.at(to).expect("the first name comes first");
                    model.files.insert(model.path(entry.path), file);
                }
                _ => {}
            }
        }
        for event in trace.events.iter().filter(|it| it.result.is_ok()) {
            model.event(event);
        }
        model
    }

    fn path(&self, name: Name) -> Vec<u8> {
        self.names.bytes(name).to_vec()
    }

    fn at(&self, name: Name) -> Option<File> {
        self.files.get(self.names.bytes(name)).copied()
    }

    fn make(&mut self, name: Name) -> File {
        self.sizes.push(0);
        self.files.insert(self.path(name), self.sizes.len() - 1);
        self.sizes.len() - 1
    }

    fn of(&self, target: Target) -> Option<File> {
        match target {
            Target::Open(fd) => self.open.get(&fd).copied(),
            Target::Path(name) | Target::Link(name) => self.at(name),
        }
    }

    fn grow(&mut self, fd: Fd, to: u64) {
        let file = self.open[&fd];
        self.sizes[file] = self.sizes[file].max(to);
    }

    fn event(&mut self, event: &Event) {
        let moved = event.result.unwrap();
        match event.step.call {
            Call::Open {
                fd, path, flags, ..
            } => self.opened(fd, path, flags),
            Call::Close { fd } => drop(self.open.remove(&fd)),
            Call::Pwrite { fd, at, .. } => self.grow(fd, at + moved),
            Call::CopyRange { to, to_at, .. } => self.grow(to, to_at + moved),
            Call::Write { fd, .. } => {
                let file = self.open[&fd];
                self.sizes[file] += moved;
            }
            Call::Fallocate {
                fd,
                how: Allocation::Extend,
                at,
                len,
            } => self.grow(fd, at + len),
            Call::Truncate { of, len } => {
                let file = self.of(of).expect("a file that is there");
                self.sizes[file] = len;
            }
            Call::Rename { from, to, how } => self.renamed(from, to, how),
            Call::Unlink { path } => drop(self.files.remove(self.names.bytes(path))),
            Call::Link { of, to } => {
                let file = self.of(of).expect("a file that is there");
                self.files.insert(self.path(to), file);
            }
            _ => {}
        }
    }

    fn opened(&mut self, fd: Fd, path: Name, flags: OpenFlags) {
        let file = match self.at(path) {
            Some(file) => file,
            None if flags.has(OpenFlags::TMPFILE) => {
                self.sizes.push(0);
                self.sizes.len() - 1
            }
            None if flags.has(OpenFlags::CREATE) => self.make(path),
            // A directory, which this model does not have.
            None => 0,
        };
        if flags.has(OpenFlags::TRUNCATE) {
            self.sizes[file] = 0;
        }
        self.open.insert(fd, file);
    }

    fn renamed(&mut self, from: Name, to: Name, how: RenameHow) {
        assert_ne!(how, RenameHow::Exchange);
        let (from, to) = (self.path(from), self.path(to));
        let under = [&from[..], b"/"].concat();
        let moved: Vec<_> = self.files.keys().cloned().collect();
        for path in moved
            .into_iter()
            .filter(|path| *path == from || path.starts_with(&under))
        {
            let file = self.files.remove(&path).unwrap();
            self.files.insert([&to, &path[from.len()..]].concat(), file);
        }
    }

    /// Checks the model's names and sizes against the files in `folder`.
    pub(super) fn check(&self, folder: &Path) {
        let mut found = BTreeMap::new();
        walk(folder, folder, &mut found);
        let mine = self.files.iter();
        let mine = mine.map(|(path, file)| {
            let path = String::from_utf8_lossy(path).into_owned();
            (path, self.sizes[*file])
        });
        let mine: BTreeMap<_, _> = mine.collect();
        for (path, size) in &found {
            assert_eq!(mine.get(path), Some(size), "{path}");
        }
        for path in mine.keys() {
            assert!(found.contains_key(path), "{path} is not there");
        }
    }
}

/// Collects the regular files under `folder`, with their sizes.
fn walk(root: &Path, folder: &Path, found: &mut BTreeMap<String, u64>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let about = path.symlink_metadata().unwrap();
        let name = path
            .strip_prefix(root)
            .unwrap()
            .to_string_lossy()
            .into_owned();
        if about.is_dir() {
            walk(root, &path, found);
        } else if about.is_file() {
            found.insert(name, about.len());
        }
    }
}
