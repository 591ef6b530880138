//! Directory tree of a set: widths and depths of its directories.
//!
//! A directory draws a depth; at that depth or deeper it holds files, above it directories, as many
//! as it draws for its width. The mean depth is the logarithm of the number of files to the base of
//! the mean width. The root gets as many directories as all files need.

use super::{File, FilesetSpec};
use crate::files::draw::gamma;
use crate::files::{Name, Names};
use sim::Rng;
use sim::fixed::log2;

/// Deepest directory, whatever is drawn; bounds the length of paths.
const DEEPEST: u64 = 64;

/// Bits after the point of depths and widths.
const POINT: u32 = 16;

/// Names of a set, in the order of creation.
pub(super) struct Tree {
    /// Directories, each after its parent.
    pub(super) dirs: Vec<Name>,
    pub(super) files: Vec<File>,
    pub(super) leafdirs: Vec<Name>,
}

/// State of growing a tree.
struct Grower<'a> {
    spec: &'a FilesetSpec,
    names: &'a mut Names,
    rng: &'a mut Rng,
    /// Mean depth, with [`POINT`] bits after the point.
    mean_depth: u64,
    path: Vec<u8>,
    tree: Tree,
}

impl Tree {
    /// Draws the tree of `spec`.
    pub(super) fn grow(spec: &FilesetSpec, names: &mut Names, rng: &mut Rng) -> Self {
        let members = u64::from(spec.entries) + u64::from(spec.leafdirs);
        let ratio = u128::from(log2(members.max(1))) << POINT;
        let mut grower = Grower {
            spec,
            names,
            rng,
            mean_depth: (ratio / u128::from(log2(spec.dirwidth.max(2)))) as u64,
            path: spec.name.clone().into_bytes(),
            tree: Self {
                dirs: Vec::new(),
                files: Vec::new(),
                leafdirs: Vec::new(),
            },
        };
        grower.root();
        grower.tree
    }
}

impl Grower<'_> {
    fn root(&mut self) {
        self.enter_dir();
        let mut serial = 1;
        while self.wants_files() || self.wants_leafdirs() {
            self.within(serial, |grower| grower.dir(2));
            serial += 1;
        }
    }

    /// Makes the directory at the current path and everything below it.
    fn dir(&mut self, depth: u64) {
        self.enter_dir();
        let drawn = (self.drawn(self.mean_depth) >> POINT).clamp(1, DEEPEST);
        let width = self.drawn(self.spec.dirwidth << POINT);
        let width = width.div_ceil(1 << POINT).max(1);
        let is_leaf = depth >= drawn;
        for serial in 1..=width {
            match is_leaf {
                _ if !self.wants_files() && !self.wants_leafdirs() => return,
                false => self.within(serial, |grower| grower.dir(depth + 1)),
                true if self.wants_files() => self.within(serial, Self::file),
                true => self.within(serial, Self::leafdir),
            }
        }
    }

    fn wants_files(&self) -> bool {
        self.tree.files.len() < self.spec.entries as usize
    }

    fn wants_leafdirs(&self) -> bool {
        self.tree.leafdirs.len() < self.spec.leafdirs as usize
    }

    fn drawn(&mut self, mean: u64) -> u64 {
        match self.spec.dirgamma {
            0 => mean,
            halves => gamma(self.rng, mean, halves),
        }
    }

    fn within(&mut self, serial: u64, make: impl FnOnce(&mut Self)) {
        let len = self.path.len();
        self.path.extend(format!("/{serial:08}").bytes());
        make(self);
        self.path.truncate(len);
    }

    fn enter_dir(&mut self) {
        let name = self.names.intern(&self.path);
        self.tree.dirs.push(name);
    }

    fn leafdir(&mut self) {
        let name = self.names.intern(&self.path);
        self.tree.leafdirs.push(name);
    }

    fn file(&mut self) {
        self.tree.files.push(File {
            path: self.names.intern(&self.path),
            size: self.spec.size.draw(self.rng),
            len: 0,
            open: 0,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Amount;
    use sim::Seed;

    fn grown(entries: u32, leafdirs: u32, dirwidth: u64) -> (Tree, Names) {
        let spec = FilesetSpec {
            leafdirs,
            dirwidth,
            ..FilesetSpec::new("set", entries, Amount::Fixed(1))
        };
        let mut names = Names::default();
        let tree = Tree::grow(&spec, &mut names, &mut Seed(1).stream("t"));
        (tree, names)
    }

    /// Mean depth of the files in slashes, and mean number of files in a directory.
    fn shape(spec: &FilesetSpec) -> (f64, f64) {
        let mut names = Names::default();
        let tree = Tree::grow(spec, &mut names, &mut Seed(1).stream("t"));
        let files = tree.files.len() as f64;
        let slashes = |n: Name| names.bytes(n).iter().filter(|b| **b == b'/').count();
        let depth: usize = tree.files.iter().map(|f| slashes(f.path)).sum();
        let leaves = tree.files.iter().map(|f| parent(names.bytes(f.path)));
        let mut leaves: Vec<_> = leaves.collect();
        leaves.dedup();
        (depth as f64 / files, files / leaves.len() as f64)
    }

    #[test]
    fn without_chance_a_tree_has_the_mean_width_and_depth() {
        let spec = FilesetSpec {
            dirwidth: 20,
            dirgamma: 0,
            ..FilesetSpec::new("set", 20_000, Amount::Fixed(1))
        };
        // log(20,000)/log(20) is 3.3, of which the whole part counts.
        assert_eq!(shape(&spec), (3.0, 20.0));
    }

    #[test]
    fn by_chance_widths_keep_their_mean_and_most_files_lie_deeper() {
        let spec = FilesetSpec {
            dirwidth: 20,
            ..FilesetSpec::new("set", 20_000, Amount::Fixed(1))
        };
        let (depth, width) = shape(&spec);
        // Rounded up: half a file more than the mean.
        assert!((18.0..24.0).contains(&width), "{width}");
        // A directory that is no leaf has twenty below it that draw anew.
        assert!(depth > 3.3, "{depth}");
    }

    fn parent(path: &[u8]) -> &[u8] {
        &path[..path.iter().rposition(|b| *b == b'/').unwrap()]
    }

    #[test]
    fn a_wide_tree_is_one_directory_and_parents_come_first() {
        let (tree, names) = grown(1_000, 0, 1_000_000);
        assert_eq!(tree.dirs.len(), 2);
        assert_eq!(names.bytes(tree.files[999].path), b"set/00000001/00001000");
        let (tree, names) = grown(300, 700, 4);
        assert_eq!((tree.files.len(), tree.leafdirs.len()), (300, 700));
        let mut seen = std::collections::BTreeSet::new();
        for dir in &tree.dirs[1..] {
            seen.insert(names.bytes(*dir));
            let up = parent(names.bytes(*dir));
            assert!(up == b"set" || seen.contains(up));
        }
        // No path is given twice.
        assert_eq!(names.len(), 1 + tree.dirs.len() + 1_000);
    }
}
