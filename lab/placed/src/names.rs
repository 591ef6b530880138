//! Where inodes are in the tree, as far as somebody has looked: rules ask for paths, and a
//! body is given a directory and a name.
//!
//! Invariant: what is known of an inode is the name that was looked up, given or changed
//! last; whoever is not known is taken for the root, so a path is at least its own name.

use std::cell::RefCell;
use std::collections::BTreeMap;
use vfs::Ino;

/// Deepest path that is spelled, so that a damaged tree ends.
const DEEPEST: usize = 64;

/// Names of inodes in use.
#[derive(Debug, Default)]
pub(crate) struct Paths(RefCell<BTreeMap<Ino, (Ino, Vec<u8>)>>);

impl Paths {
    /// `ino` is called `name` in `dir`.
    pub(crate) fn learn(&self, ino: Ino, dir: Ino, name: &[u8]) {
        self.0.borrow_mut().insert(ino, (dir, name.to_vec()));
    }

    /// `ino` is not in use any more.
    pub(crate) fn forget(&self, ino: Ino) {
        self.0.borrow_mut().remove(&ino);
    }

    /// The path of `ino` from the root.
    pub(crate) fn of(&self, ino: Ino) -> Vec<u8> {
        let known = self.0.borrow();
        let (mut names, mut at) = (Vec::new(), ino);
        while let Some((dir, name)) = known.get(&at).filter(|_| names.len() < DEEPEST) {
            names.push(&name[..]);
            at = *dir;
        }
        let mut path = Vec::new();
        for name in names.into_iter().rev() {
            path.push(b'/');
            path.extend(name);
        }
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_follows_what_was_learned_last() {
        let paths = Paths::default();
        paths.learn(Ino(5), Ino(1), b"db");
        paths.learn(Ino(9), Ino(5), b"000004.log");
        assert_eq!(paths.of(Ino(9)), b"/db/000004.log");
        paths.learn(Ino(5), Ino(1), b"old");
        assert_eq!(paths.of(Ino(9)), b"/old/000004.log");
        paths.forget(Ino(5));
        assert_eq!(paths.of(Ino(9)), b"/000004.log");
        paths.learn(Ino(5), Ino(5), b"x");
        assert_eq!(paths.of(Ino(5)).len(), 2 * DEEPEST);
    }
}
