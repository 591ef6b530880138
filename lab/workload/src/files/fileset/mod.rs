//! Sets of files and directories that the threads of a generator share, as
//! filebench keeps them.
//!
//! Invariants: a set has a fixed number of names, each of which exists or does
//! not; what a thread has picked and not given back is busy, and nobody else
//! gets it; a file that somebody has open is not deleted. Paths are made once.

mod pool;
mod set;
mod tree;

pub(super) use pool::{Picked, Pool};
pub(super) use set::IndexSet;

use super::{Amount, Entry, EntryKind, Mode, Name, Names};
use sim::Rng;

/// Permissions of files that are made.
pub(super) const FILE_MODE: Mode = Mode(0o666);
/// Permissions of directories that are made.
pub(super) const DIR_MODE: Mode = Mode(0o755);

/// What a set is to be like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilesetSpec {
    /// Its name, which is that of its directory.
    pub name: String,
    /// Size of each file.
    pub size: Amount,
    /// How many files.
    pub entries: u32,
    /// How many directories that hold nothing, for `makedir` and `removedir`.
    pub leafdirs: u32,
    /// Mean number of entries of a directory, at least 2.
    pub dirwidth: u64,
    /// Shape of the distributions of width and depth in halves; 0 takes the
    /// mean each time.
    pub dirgamma: u32,
    /// Percentage of files and empty directories that are there from the start.
    pub prealloc: u64,
    /// How files are opened.
    pub access: Access,
}

/// How the files of a set are opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// For reading and writing.
    #[default]
    Both,
    /// For reading.
    ReadOnly,
    /// For writing.
    WriteOnly,
}

impl FilesetSpec {
    /// A set of `entries` files of `size`, all else as filebench has it: a gamma
    /// distribution of shape 1.5 for widths and depths, nothing there from the
    /// start.
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
    /// The size that it is given when it is written as a whole.
    pub(super) size: u64,
    /// The size that it has.
    pub(super) len: u64,
    /// How many descriptors are open on it.
    pub(super) open: u32,
}

/// A set with its files.
#[derive(Clone, Debug)]
pub(super) struct Fileset {
    pub(super) access: Access,
    pub(super) files: Vec<File>,
    /// Which files exist.
    pub(super) pool: Pool,
    /// Directories, for those who list them.
    pub(super) dirs: Vec<Name>,
    pub(super) dir_rotor: usize,
    pub(super) leafdirs: Vec<Name>,
    /// Which empty directories exist.
    pub(super) leaf_pool: Pool,
}

impl Fileset {
    /// Makes the names of `spec` and adds what is there from the start to `setup`.
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

    /// Makes `percent` of what can be, each with that probability. Files are
    /// made in a random order, so that neighbours in the tree are not neighbours
    /// on the medium.
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
