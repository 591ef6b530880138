//! Paths of inodes, as far as names were looked up: rules match paths, and a body is given a
//! directory and a name.
//!
//! Invariant: the known name of an inode is the one looked up, given or changed last. An unknown
//! directory counts as the root, so a path has at least the file's own name.

use std::cell::RefCell;
use std::collections::BTreeMap;
use vfs::Ino;

/// Deepest path that is built, so that a damaged tree ends.
const DEEPEST: usize = 64;

/// Directory and name of each inode in use.
#[derive(Debug, Default)]
pub(crate) struct Paths(RefCell<BTreeMap<Ino, (Ino, Vec<u8>)>>);

impl Paths {
    /// Notes that `ino` is called `name` in `dir`.
    pub(crate) fn learn(&self, ino: Ino, dir: Ino, name: &[u8]) {
        self.0.borrow_mut().insert(ino, (dir, name.to_vec()));
    }

    /// Drops the name of `ino`, which is not in use any more.
    pub(crate) fn forget(&self, ino: Ino) {
        self.0.borrow_mut().remove(&ino);
    }

    /// The path of `ino` from the root, as far as it is known.
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
    fn path_follows_the_name_learned_last() {
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
