//! Sets of files and directories that the threads of a generator share, as in filebench.
//!
//! Invariants: a set has a fixed number of names, each of which exists or does not; a member that
//! one thread has picked is busy, and no other thread gets it until it is given back; an open file
//! is not deleted. Paths are interned once.

mod pool;
mod set;
mod tree;

pub(super) use pool::{Picked, Pool};
pub(super) use set::IndexSet;

use super::{Amount, Entry, EntryKind, Mode, Name, Names};
use sim::Rng;

/// Permissions of new files.
pub(super) const FILE_MODE: Mode = Mode(0o666);
/// Permissions of new directories.
pub(super) const DIR_MODE: Mode = Mode(0o755);

/// Description of a set of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilesetSpec {
    /// Name of the set and of its directory.
    pub name: String,
    /// Distribution of the file sizes.
    pub size: Amount,
    /// Number of file names.
    pub entries: u32,
    /// Number of empty directories, for `makedir` and `removedir`.
    pub leafdirs: u32,
    /// Mean number of entries of a directory, at least 2.
    pub dirwidth: u64,
    /// Shape of the distributions of width and depth, in halves; 0 for the mean each time.
    pub dirgamma: u32,
    /// Percentage of files and empty directories that exist from the start.
    pub prealloc: u64,
    /// Access mode with which the files are opened.
    pub access: Access,
}

/// Access mode of the files of a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Reading and writing.
    #[default]
    Both,
    /// Reading only.
    ReadOnly,
    /// Writing only.
    WriteOnly,
}

impl FilesetSpec {
    /// A set of `entries` files of `size` with filebench's defaults: widths and depths from a gamma
    /// distribution of shape 1.5, no file from the start.
    #[must_use]
    pub fn new(name: &str, entries: u32, size: Amount) -> Self {
        Self {
            name: name.to_owned(),
            size,
            entries,
            leafdirs: 0,
            dirwidth: 10,
            dirgamma: 3,
            prealloc: 0,
            access: Access::Both,
        }
    }
}

/// A file of a set.
#[derive(Clone, Copy, Debug)]
pub(super) struct File {
    pub(super) path: Name,
    /// Size to which the file is written as a whole.
    pub(super) size: u64,
    /// Current size of the file in bytes.
    pub(super) len: u64,
    /// Number of open descriptors.
    pub(super) open: u32,
}

/// A set with its files.
#[derive(Clone, Debug)]
pub(super) struct Fileset {
    pub(super) access: Access,
    pub(super) files: Vec<File>,
    /// Files that exist, are missing or are busy.
    pub(super) pool: Pool,
    /// Directories for `listdir`, which takes them in turn.
    pub(super) dirs: Vec<Name>,
    pub(super) dir_rotor: usize,
    pub(super) leafdirs: Vec<Name>,
    /// Empty directories that exist, are missing or are busy.
    pub(super) leaf_pool: Pool,
}

impl Fileset {
    /// Interns the names of `spec` and adds the members that exist from the start to `setup`.
    pub(super) fn populate(
        spec: &FilesetSpec,
        names: &mut Names,
        setup: &mut Vec<Entry>,
        rng: &mut Rng,
    ) -> Self {
        let tree = tree::Tree::grow(spec, names, rng);
        setup.extend(tree.dirs.iter().map(|&path| Entry {
            path,
            kind: EntryKind::Directory,
            mode: DIR_MODE,
        }));
        let mut set = Self {
            access: spec.access,
            pool: Pool::new(tree.files.len() as u32),
            files: tree.files,
            dirs: tree.dirs,
            dir_rotor: 0,
            leaf_pool: Pool::new(tree.leafdirs.len() as u32),
            leafdirs: tree.leafdirs,
        };
        set.allocate(spec.prealloc, setup, rng);
        set
    }

    /// Creates each file and empty directory with a probability of `percent`. Files are created in
    /// random order, so that neighbours in the tree are not neighbours on the medium.
    fn allocate(&mut self, percent: u64, setup: &mut Vec<Entry>, rng: &mut Rng) {
        let mut order: Vec<u32> = (0..self.files.len() as u32).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, rng.below(i as u64 + 1) as usize);
        }
        for index in order {
            if rng.chance(percent, 100) {
                let file = &mut self.files[index as usize];
                file.len = file.size;
                self.pool.exists(index);
                setup.push(Entry {
                    path: file.path,
                    kind: EntryKind::File { size: file.size },
                    mode: FILE_MODE,
                });
            }
        }
        for (index, &path) in (0..).zip(&self.leafdirs) {
            if rng.chance(percent, 100) {
                self.leaf_pool.exists(index);
                setup.push(Entry {
                    path,
                    kind: EntryKind::Directory,
                    mode: DIR_MODE,
                });
            }
        }
    }
}
