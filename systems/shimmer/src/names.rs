//! Paths of files, as byte strings.
//!
//! Invariants: a path belongs to one file. Folders are prefixes of paths, so there are no empty
//! ones.

use crate::{FileId, Refusal};
use std::collections::BTreeMap;

/// Maximum length of a path in Linux, without the terminating zero.
pub(crate) const PATH_MAX: usize = 4095;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    ids: BTreeMap<Box<[u8]>, FileId>,
}

pub(crate) fn is_path(path: &[u8]) -> bool {
    (1..=PATH_MAX).contains(&path.len()) && !path.contains(&0)
}

/// The path, if it is valid.
pub(crate) fn checked(path: &[u8]) -> Result<Box<[u8]>, Refusal> {
    if is_path(path) {
        Ok(path.into())
    } else {
        Err(Refusal::Path)
    }
}

/// Common prefix of all paths in a folder.
fn prefix(folder: &[u8]) -> Vec<u8> {
    let mut prefix = folder.to_vec();
    if !prefix.is_empty() && prefix.last() != Some(&b'/') {
        prefix.push(b'/');
    }
    prefix
}

impl Names {
    pub(crate) fn get(&self, path: &[u8]) -> Option<FileId> {
        self.ids.get(path).copied()
    }

    /// Assigns a path to a file; returns the file that had it before.
    pub(crate) fn set(&mut self, path: Box<[u8]>, id: FileId) -> Option<FileId> {
        self.ids.insert(path, id)
    }

    pub(crate) fn remove(&mut self, path: &[u8]) {
        self.ids.remove(path);
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Files whose paths are below a folder, sorted by path.
    pub(crate) fn within(&self, folder: &[u8]) -> impl Iterator<Item = (&[u8], FileId)> {
        let prefix = prefix(folder);
        let from = self.ids.range::<[u8], _>((
            std::ops::Bound::Included(&prefix[..]),
            std::ops::Bound::Unbounded,
        ));
        from.take_while(move |(path, _)| path.starts_with(&prefix))
            .map(|(path, id)| (&**path, *id))
    }

    /// Names directly in a folder, sorted; those of folders end with a slash.
    pub(crate) fn list(&self, folder: &[u8]) -> Vec<Vec<u8>> {
        let skip = prefix(folder).len();
        let mut names: Vec<Vec<u8>> = Vec::new();
        for (path, _) in self.within(folder) {
            let rest = &path[skip..];
            let end = rest.iter().position(|&byte| byte == b'/');
            let name = &rest[..end.map_or(rest.len(), |slash| slash + 1)];
            if names.last().is_none_or(|last| last != name) {
                names.push(name.to_vec());
            }
        }
        names.dedup();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_lists_files_and_folders_once() {
        let mut names = Names::default();
        for (id, path) in ["/db/a", "/db/b/1", "/db/b/2", "/db/c", "/dbx"]
            .iter()
            .enumerate()
        {
            names.set(path.as_bytes().into(), FileId(id as u64));
        }
        assert_eq!(names.list(b"/db"), [&b"a"[..], b"b/", b"c"]);
        assert_eq!(names.list(b"/db/b/"), [b"1", b"2"]);
        assert_eq!(names.list(b"/none"), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn invalid_path_is_refused() {
        let long = [b'x'; PATH_MAX + 1];
        for path in [&b""[..], b"a\0b", &long] {
            assert_eq!(checked(path), Err(Refusal::Path));
        }
        assert!(checked(&long[1..]).is_ok());
    }
}
