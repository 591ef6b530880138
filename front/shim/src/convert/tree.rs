//! The files that existed before the recording.
//!
//! Invariants:
//! - A path that is known is never added to the setup again.
//! - A path that is first seen in a directory that the program made was made by a process outside
//!   of the recording, and is not added either.
//! - A path that is first seen after its directory was renamed is added at its old place.

use super::paths::{is_under, parent, system};
use crate::wire::Info;
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

/// State of a path that the recording has touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// The path existed before the recording.
    Before,
    /// The program created the path, not as a symbolic link.
    Made,
    /// The program created the path as a symbolic link.
    Link,
    /// The program removed or renamed the path.
    Gone,
}

/// A file that existed before the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sight {
    pub(super) path: Vec<u8>,
    pub(super) info: Info,
    /// Target of a symbolic link; empty for other files.
    pub(super) target: Vec<u8>,
}

/// Every path that the recording has touched.
#[derive(Default)]
pub(super) struct Tree {
    known: BTreeMap<Vec<u8>, Known>,
    sights: Vec<Sight>,
    /// Directories from before the recording that were renamed, as (new path, old path).
    moved: Vec<(Vec<u8>, Vec<u8>)>,
}

const KIND: u32 = libc::S_IFMT;

impl Tree {
    /// Notes that a file existed at `path` when a call touched it, and adds it to the setup unless
    /// the path is known or its folder was made by the program.
    pub(super) fn saw(&mut self, path: &[u8], info: Info, target: &[u8]) {
        if path.is_empty() || self.known.contains_key(path) {
            return;
        }
        self.saw_folders(path);
        if self.is_made_around(path) {
            self.known.insert(path.to_vec(), Known::Made);
            return;
        }
        self.known.insert(path.to_vec(), Known::Before);
        let path = self.origin(path);
        let target = match info.mode & KIND {
            libc::S_IFLNK if target.is_empty() => std::fs::read_link(system(&path))
                .map_or_else(|_| Vec::new(), |said| said.as_os_str().as_bytes().to_vec()),
            _ => target.to_vec(),
        };
        self.sights.push(Sight { path, info, target });
    }

    /// Notes that the folders of `path` exist.
    pub(super) fn saw_folders(&mut self, path: &[u8]) {
        let folder = parent(path);
        if folder.is_empty() || self.known.contains_key(folder) {
            return;
        }
        let found = std::fs::metadata(system(folder));
        let mode = found.map_or(0o755, |found| found.permissions().mode() & 0o7777);
        let info = Info {
            mode: libc::S_IFDIR | mode,
            ..Info::default()
        };
        let folder = folder.to_vec();
        self.saw(&folder, info, b"");
    }

    /// Whether the program made the folder of `path`.
    fn is_made_around(&self, path: &[u8]) -> bool {
        matches!(
            self.known.get(parent(path)),
            Some(Known::Made | Known::Link)
        )
    }

    /// The path that `path` had before its directories were renamed.
    fn origin(&self, path: &[u8]) -> Vec<u8> {
        let mut path = path.to_vec();
        for (to, from) in self.moved.iter().rev() {
            if is_under(&path, to) {
                path = [from, &path[to.len()..]].concat();
            }
        }
        path
    }

    /// Notes that the program made a file at `path`; `link` if it is a symbolic link.
    pub(super) fn made(&mut self, path: &[u8], link: bool) {
        self.saw_folders(path);
        let known = if link { Known::Link } else { Known::Made };
        self.known.insert(path.to_vec(), known);
    }

    /// Notes that the program removed the file at `path`.
    pub(super) fn gone(&mut self, path: &[u8]) {
        self.known.insert(path.to_vec(), Known::Gone);
    }

    /// Notes that the program renamed the file at `from`, with all that lies under it if it is a
    /// folder.
    pub(super) fn renamed(&mut self, from: &[u8], to: &[u8], folder: bool) {
        self.saw_folders(to);
        let known = self.known.insert(from.to_vec(), Known::Gone);
        let known = known.unwrap_or(Known::Before);
        if folder {
            self.move_all(from, to);
            if known == Known::Before {
                self.moved.push((to.to_vec(), from.to_vec()));
            }
        }
        self.known.insert(to.to_vec(), known);
    }

    fn move_all(&mut self, from: &[u8], to: &[u8]) {
        let first = [from, b"/"].concat();
        let under = self.known.range(first.clone()..);
        let under = under.take_while(|(path, _)| path.starts_with(&first));
        let paths: Vec<_> = under.map(|(path, _)| path.clone()).collect();
        for path in paths {
            let known = self.known.insert(path.clone(), Known::Gone);
            let moved = [to, &path[from.len()..]].concat();
            self.known.extend(known.map(|known| (moved, known)));
        }
    }

    /// Whether the program made a symbolic link at `path` or above it.
    pub(super) fn has_own_link(&self, path: &[u8]) -> bool {
        let mut path = path;
        while !path.is_empty() {
            if self.known.get(path) == Some(&Known::Link) {
                return true;
            }
            path = parent(path);
        }
        false
    }

    /// The files that existed before the recording, sorted by path, so that parents precede
    /// children.
    pub(super) fn finish(mut self) -> Vec<Sight> {
        self.sights.sort_by(|a, b| a.path.cmp(&b.path));
        self.sights.dedup_by(|b, a| a.path == b.path);
        self.sights
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Info = Info {
        mode: libc::S_IFREG | 0o644,
        links: 1,
        size: 7,
        inode: 1,
        device: 1,
    };

    fn paths(tree: Tree) -> Vec<String> {
        let text = |sight: Sight| String::from_utf8(sight.path).unwrap();
        tree.finish().into_iter().map(text).collect()
    }

    #[test]
    fn path_seen_first_is_in_the_setup_with_its_folders() {
        let mut tree = Tree::default();
        tree.saw(b"none/dir/file", FILE, b"");
        tree.made(b"none/new", false);
        tree.saw(b"none/new", FILE, b"");
        tree.gone(b"none/dir/file");
        tree.saw(b"none/dir/file", FILE, b"");
        assert_eq!(paths(tree), ["none", "none/dir", "none/dir/file"]);
    }

    #[test]
    fn path_seen_in_a_made_folder_is_not_in_the_setup() {
        let mut tree = Tree::default();
        tree.made(b"none/new", false);
        tree.saw(b"none/new/file", FILE, b"");
        assert_eq!(paths(tree), ["none"]);
    }

    #[test]
    fn path_seen_after_a_rename_is_in_the_setup_by_its_old_name() {
        let mut tree = Tree::default();
        tree.saw(b"none/old", FILE, b"");
        tree.renamed(b"none/old", b"none/new", true);
        tree.saw(b"none/new/file", FILE, b"");
        assert_eq!(paths(tree), ["none", "none/old", "none/old/file"]);
    }
}
