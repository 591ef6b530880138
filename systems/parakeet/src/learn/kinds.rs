//! Kinds of files: those whose names have one shape, or else one extension or folder.
//!
//! Invariants: kinds are in the order in which their patterns are to be asked, the more
//! special first; a file is of the first kind whose pattern matches it.

use super::FileLife;
use super::shape::{Shapes, extension, split};
use crate::rules::Glob;
use std::collections::BTreeMap;

/// Files with a pattern in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    /// The pattern of their names, without a folder.
    pub(super) pattern: String,
    /// A folder that the pattern is of in any case.
    pub(super) folder: Option<String>,
    /// Names that files of it were given while they were written.
    pub(super) later: Vec<String>,
    /// The files.
    pub(super) files: Vec<usize>,
}

/// A folder, if the kind is of one, and a pattern of names.
type Key = (Option<String>, String);

/// The kind of a file, if it has one of this sort.
type By<'f> = &'f dyn Fn(&FileLife) -> Option<Key>;

/// A file or a few of one shape are a kind of their own if they wrote this part of all.
const RARE: u64 = 256;

/// The kinds of `files`, of `min_files` files or of much that was written. What is in none
/// has nothing in common with enough others.
pub(super) fn kinds(files: &[FileLife], min_files: usize) -> Vec<Kind> {
    let names = files.iter().map(|file| split(&file.path).1);
    let shapes = Shapes::of(names);
    let all: u64 = files.iter().map(weight).sum();
    let mut kinds = Vec::new();
    let mut left: Vec<usize> = (0..files.len()).collect();
    let by: [By<'_>; 3] = [
        &|file| Some((None, shapes.shape(split(&file.path).1))),
        &|file| extension(split(&file.path).1).map(|end| (None, format!("*.{end}"))),
        &|file| {
            let (folder, _) = split(&file.path);
            (!folder.is_empty()).then(|| (Some(shapes.shape(folder)), "*".to_owned()))
        },
    ];
    for of in by {
        let mut groups: BTreeMap<Key, Vec<usize>> = BTreeMap::new();
        let mut none = Vec::new();
        for at in left {
            match of(&files[at]).filter(|(_, pattern)| Glob::new(pattern).is_ok()) {
                Some(key) => groups.entry(key).or_default().push(at),
                None => none.push(at),
            }
        }
        left = none;
        for ((folder, pattern), own) in groups {
            let wrote: u64 = own.iter().map(|&at| weight(&files[at])).sum();
            if own.len() >= min_files || wrote >= all.div_ceil(RARE) {
                kinds.push(Kind {
                    pattern,
                    folder,
                    later: Vec::new(),
                    files: own,
                });
            } else {
                left.extend(own);
            }
        }
        left.sort_unstable();
    }
    name_later(files, &shapes, &mut kinds);
    sort(files, &mut kinds);
    kinds
}

/// How much a file wrote, in blocks of 4 KiB.
pub(super) fn weight(file: &FileLife) -> u64 {
    file.written.div_ceil(4096).max(1)
}

fn name_later(files: &[FileLife], shapes: &Shapes, kinds: &mut [Kind]) {
    let taken: Vec<String> = kinds.iter().map(|kind| kind.pattern.clone()).collect();
    for kind in kinds {
        let later = kind
            .files
            .iter()
            .filter_map(|&at| files[at].renamed.as_deref());
        let mut later: Vec<String> = later.map(|path| shapes.shape(split(path).1)).collect();
        later.sort_unstable();
        later.dedup();
        later.retain(|name| !taken.contains(name) && Glob::new(name).is_ok());
        // A name that each file has its own of is no pattern.
        later.truncate(4);
        kind.later = later;
    }
}

/// Patterns with a star come last, those of a folder at the very end; of the others a
/// pattern that matches names of another kind comes after it.
fn sort(files: &[FileLife], kinds: &mut Vec<Kind>) {
    let rank = |kind: &Kind| {
        let stars = kind.pattern.starts_with('*');
        (kind.folder.is_some(), stars)
    };
    kinds.sort_by(|a, b| {
        rank(a)
            .cmp(&rank(b))
            .then_with(|| a.pattern.cmp(&b.pattern))
    });
    // `%` matches what `#` does, and a shape with fewer letters may match more: whoever is
    // matched by an earlier pattern and is not of its kind moves before it.
    let mut sorted: Vec<Kind> = Vec::with_capacity(kinds.len());
    for kind in kinds.drain(..) {
        let name = kind.files.first().map(|&at| split(&files[at].path).1);
        let catches = |earlier: &Kind| {
            let glob = Glob::new(&earlier.pattern).ok();
            earlier.folder.is_none()
                && glob
                    .zip(name)
                    .is_some_and(|(glob, name)| glob.matches(name))
        };
        let place = sorted.iter().position(catches).unwrap_or(sorted.len());
        sorted.insert(place, kind);
    }
    *kinds = sorted;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Call, Event, FileKey, Opening};
    use crate::learn::lives;
    use units::Ns;

    #[test]
    fn a_pattern_that_matches_names_of_another_kind_comes_later() {
        let names: [&[u8]; 2] = ["d/xab.log".as_bytes(), "d/x\u{e4}.log".as_bytes()];
        let calls = |file: u64| {
            let path = names[file as usize % 2];
            let open = Opening {
                path,
                ..Opening::default()
            };
            let write = Call::Write { offset: 0, len: 1 };
            [Call::Open(open), write].map(|call| Event {
                at: Ns(file),
                thread: 0,
                file: FileKey(file),
                call,
            })
        };
        let files = lives((0..8).flat_map(calls));
        let kinds = kinds(&files, 4);
        let patterns: Vec<&str> = kinds.iter().map(|kind| kind.pattern.as_str()).collect();
        assert_eq!(patterns, ["xab.log", "x??.log"]);
    }
}
