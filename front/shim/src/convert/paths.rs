//! Paths as byte strings in one normal form.
//!
//! Paths are absolute and have no slash at either end, no `.` and no `..`: the
//! root is the empty string. A symbolic link among the folders of a path is
//! followed as it stands after the recording, unless the program made it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The normal form of `path`, resolved from the working directory `folder`.
pub(super) fn absolute(folder: &[u8], path: &[u8]) -> Vec<u8> {
    let from = if path.first() == Some(&b'/') {
        b""
    } else {
        folder
    };
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in from.split(|&b| b == b'/').chain(path.split(|&b| b == b'/')) {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join(&b'/')
}

/// The folder that a path lies in; that of the root is the root.
pub(super) fn parent(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|&b| b == b'/').unwrap_or(0);
    &path[..end]
}

/// Whether `path` is `folder` or lies under it.
pub(super) fn is_under(path: &[u8], folder: &[u8]) -> bool {
    folder.is_empty()
        || path
            .strip_prefix(folder)
            .is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

/// `path` relative to `folder`; `None` if it does not lie under it.
pub(super) fn relative<'a>(path: &'a [u8], folder: &[u8]) -> Option<&'a [u8]> {
    if folder.is_empty() {
        return Some(path);
    }
    let rest = path.strip_prefix(folder)?;
    if rest.is_empty() {
        return Some(rest);
    }
    rest.strip_prefix(b"/")
}

/// The deepest folder that contains or equals both paths.
pub(super) fn common<'a>(a: &'a [u8], b: &[u8]) -> &'a [u8] {
    let mut folder = a;
    while !is_under(b, folder) {
        folder = parent(folder);
    }
    folder
}

/// A path of the system in the normal form of this module.
pub(super) fn bytes(path: &Path) -> Vec<u8> {
    absolute(b"", path.as_os_str().as_bytes())
}

/// A normalized path as a path of the system.
pub(super) fn system(path: &[u8]) -> std::path::PathBuf {
    Path::new("/").join(OsStr::from_bytes(path))
}

/// Cache of folders with their symbolic links resolved.
#[derive(Default)]
pub(super) struct Folders {
    known: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Folders {
    /// `path` with the symbolic links of its folder resolved, unless `own` reports a link that the
    /// program made in that folder.
    pub(super) fn follow(&mut self, path: Vec<u8>, own: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        let folder = parent(&path);
        if folder.is_empty() || own(folder) {
            return path;
        }
        if !self.known.contains_key(folder) {
            let real = std::fs::canonicalize(system(folder));
            let real = real.map_or_else(|_| folder.to_vec(), |real| bytes(&real));
            self.known.insert(folder.to_vec(), real);
        }
        let real = &self.known[folder];
        if real == folder {
            return path;
        }
        [real, &path[folder.len()..]].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_put_in_one_form() {
        for (folder, path, means) in [
            ("home/me", "a", "home/me/a"),
            ("home/me", "./a//b/../c/", "home/me/a/c"),
            ("home/me", "/x", "x"),
            ("home/me", "../../../..", ""),
            ("", "a", "a"),
        ] {
            let got = absolute(folder.as_bytes(), path.as_bytes());
            assert_eq!(got, means.as_bytes(), "{folder} {path}");
        }
    }

    #[test]
    fn folders_hold_what_is_under_them() {
        assert!(is_under(b"a/b", b"a") && is_under(b"a", b"a") && is_under(b"a", b""));
        assert!(!is_under(b"ab", b"a"));
        assert_eq!(relative(b"a/b/c", b"a"), Some(&b"b/c"[..]));
        assert_eq!(relative(b"a", b"a"), Some(&b""[..]));
        assert_eq!(common(b"a/b/c", b"a/b/d/e"), b"a/b");
        assert_eq!(common(b"a/b", b"x"), b"");
        assert_eq!(parent(b"a"), b"");
    }
}
