//! Which files were there before the recording.
//!
//! Invariants: a path that is known is never added to the setup again; what is
//! first seen in a directory that the program made was made by someone unseen
//! and is not added either; a path that is first seen after its directory was
//! renamed is added where it was before.

use super::paths::{is_under, parent, system};
use crate::wire::Info;
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

/// What is known of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// It was there.
    Before,
    /// The program made it.
    Made,
    /// The program made it, a symbolic link.
    Link,
    /// The program removed it.
    Gone,
}

/// Something that was there before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sight {
    pub(super) path: Vec<u8>,
    pub(super) info: Info,
    /// What it says, if it is a symbolic link.
    pub(super) target: Vec<u8>,
}

/// The paths that were met.
#[derive(Default)]
pub(super) struct Tree {
    known: BTreeMap<Vec<u8>, Known>,
    sights: Vec<Sight>,
    /// Directories that were there and were renamed: to where, from where.
    moved: Vec<(Vec<u8>, Vec<u8>)>,
}

const KIND: u32 = libc::S_IFMT;

impl Tree {
    /// The file at `path` was there when something was done with it.
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

    /// The folders of `path` are there.
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

    /// Whether the nearest directory of `path` that is known was made by the
    /// program.
    fn is_made_around(&self, path: &[u8]) -> bool {
        matches!(
            self.known.get(parent(path)),
            Some(Known::Made | Known::Link)
        )
    }

    /// Where `path` was before directories were renamed.
    fn origin(&self, path: &[u8]) -> Vec<u8> {
        let mut path = path.to_vec();
        for (to, from) in self.moved.iter().rev() {
            if is_under(&path, to) {
                path = [from, &path[to.len()..]].concat();
            }
        }
        path
    }

    /// The program made something at `path`.
    pub(super) fn made(&mut self, path: &[u8], link: bool) {
        self.saw_folders(path);
        let known = if link { Known::Link } else { Known::Made };
        self.known.insert(path.to_vec(), known);
    }

    /// The program removed what was at `path`.
    pub(super) fn gone(&mut self, path: &[u8]) {
        self.known.insert(path.to_vec(), Known::Gone);
    }

    /// The program renamed what was at `from`.
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

    /// What was there before, each parent before its children.
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
    fn what_is_met_first_was_there_with_its_folders() {
        let mut tree = Tree::default();
        tree.saw(b"none/dir/file", FILE, b"");
        tree.made(b"none/new", false);
        tree.saw(b"none/new", FILE, b"");
        tree.gone(b"none/dir/file");
        tree.saw(b"none/dir/file", FILE, b"");
        assert_eq!(paths(tree), ["none", "none/dir", "none/dir/file"]);
    }

    #[test]
    fn what_appears_in_a_made_folder_was_not_there() {
        let mut tree = Tree::default();
        tree.made(b"none/new", false);
        tree.saw(b"none/new/file", FILE, b"");
        assert_eq!(paths(tree), ["none"]);
    }

    #[test]
    fn what_is_met_after_a_rename_was_there_under_the_old_name() {
        let mut tree = Tree::default();
        tree.saw(b"none/old", FILE, b"");
        tree.renamed(b"none/old", b"none/new", true);
        tree.saw(b"none/new/file", FILE, b"");
        assert_eq!(paths(tree), ["none", "none/old", "none/old/file"]);
    }
}
