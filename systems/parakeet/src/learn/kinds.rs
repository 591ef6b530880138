//! Kinds of files: files whose names have one shape, or else one extension or folder.
//!
//! Invariants: kinds are in the order in which their patterns must be tried, the more specific
//! first. A file belongs to the first kind whose pattern matches it.

use super::FileLife;
use super::shape::{Shapes, extension, shape, split};
use crate::rules::Glob;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::iter;

/// Files with a common pattern of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    /// Pattern of their names, without the folder.
    pub(super) pattern: String,
    /// Folder that the pattern must be combined with, if any.
    pub(super) folder: Option<String>,
    /// Patterns of names that its files got later; some include the folder.
    pub(super) later: Vec<String>,
    /// Indices of its files.
    pub(super) files: Vec<usize>,
}

/// Folder, if the kind is limited to one, and pattern of names.
type Key = (Option<String>, String);

/// Key of a file's kind by one criterion; `None` if it does not apply.
type By<'f> = &'f dyn Fn(&FileLife) -> Option<Key>;

/// Fraction (1/256) of all written data that justifies a kind with few files.
const RARE: u64 = 256;

/// The kinds of `files` that have `min_files` files or a considerable part of the written data.
/// Other files belong to no kind.
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
    name_later(files, &mut kinds);
    sort(files, &mut kinds);
    kinds
}

/// Amount of data that a file wrote, in blocks of 4 KiB; at least 1.
pub(super) fn weight(file: &FileLife) -> u64 {
    file.written.div_ceil(4096).max(1)
}

/// Maximum number of patterns for later names of a kind.
const LATER: usize = 4;

/// Number of shapes of later names that are tried, the most frequent first, as each is matched
/// against all files. Names with no common shape yield no pattern.
const TRIED: usize = 8;

/// Finds patterns for names that files got after they were first written. A pattern must match no
/// file of another kind; the folder is included if this requires it.
fn name_later(files: &[FileLife], kinds: &mut [Kind]) {
    let mut kind_of = vec![usize::MAX; files.len()];
    for (at, kind) in kinds.iter().enumerate() {
        kind.files.iter().for_each(|&file| kind_of[file] = at);
    }
    for (at, kind) in kinds.iter_mut().enumerate() {
        let own = kind.files.iter().flat_map(|&file| files[file].later());
        let later: BTreeSet<&[u8]> = own.collect();
        let shapes = Shapes::of(later.iter().map(|path| split(path).1));
        let free = |pattern: &String| {
            let Ok(glob) = Glob::new(pattern) else {
                return false;
            };
            let is_of = |file: &FileLife| {
                let mut names = iter::once(&*file.path).chain(file.later());
                names.any(|name| glob.matches(name))
            };
            let mut others = files.iter().zip(&kind_of).filter(|(_, of)| **of != at);
            !others.any(|(file, _)| is_of(file))
        };
        let mut count: BTreeMap<[String; 2], usize> = BTreeMap::new();
        for path in &later {
            let (folder, name) = split(path);
            let name = shapes.shape(name);
            let whole = format!("{}/{name}", shape(folder));
            *count.entry([name, whole]).or_default() += 1;
        }
        let mut tried: Vec<_> = count.into_iter().collect();
        tried.sort_by_key(|&(_, names)| Reverse(names));
        let tried = tried.into_iter().take(TRIED).map(|(patterns, _)| patterns);
        let named = tried.filter_map(|patterns| patterns.into_iter().find(free));
        let named = named.filter(|pattern| *pattern != kind.pattern);
        let patterns: BTreeSet<String> = named.take(LATER).collect();
        kind.later = patterns.into_iter().collect();
    }
}

/// Orders kinds: patterns with a star are last, and those with a folder at the very end. Among the
/// others, a pattern that matches names of another kind comes after that kind.
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
    // `%` matches what `#` does, and a shape with fewer letters may match more. So a kind whose
    // names match an earlier pattern is moved before that one.
    let mut sorted: Vec<Kind> = Vec::with_capacity(kinds.len());
    for kind in kinds.drain(..) {
        let names = names(files, &kind);
        let catches = |earlier: &Kind| {
            let glob = Glob::new(&earlier.pattern).ok();
            let glob = glob.filter(|_| earlier.folder.is_none());
            glob.is_some_and(|glob| names.iter().any(|name| glob.matches(name)))
        };
        let place = sorted.iter().position(catches).unwrap_or(sorted.len());
        sorted.insert(place, kind);
    }
    *kinds = sorted;
}

/// One example name for each pattern of a kind.
fn names<'f>(files: &'f [FileLife], kind: &Kind) -> Vec<&'f [u8]> {
    let first = kind.files.first().map(|&at| &*files[at].path);
    let later = || kind.files.iter().flat_map(|&at| files[at].later());
    let of = |pattern: &String| {
        let glob = Glob::new(pattern).ok()?;
        later().find(|path| glob.matches(path))
    };
    first
        .into_iter()
        .chain(kind.later.iter().filter_map(of))
        .collect()
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

    /// Events of a file that is created and written, and then renamed if `later` is given.
    fn calls(
        (file, path, later): (u64, String, Option<String>),
    ) -> impl Iterator<Item = Event<'static>> {
        let open = Opening {
            path: path.leak().as_bytes(),
            ..Opening::default()
        };
        let renamed = later.map(|to| Call::Rename {
            to: to.leak().as_bytes(),
        });
        let write = Call::Write { offset: 0, len: 1 };
        let calls = [Call::Open(open), write].into_iter().chain(renamed);
        calls.map(move |call| Event {
            at: Ns(file),
            thread: 0,
            file: FileKey(file),
            call,
        })
    }

    /// Files of two kinds get later names of one shape in one folder, which no rule can tell apart.
    #[test]
    fn later_name_of_two_kinds_is_dropped() {
        let named = |file: u64| {
            let first = if file.is_multiple_of(2) { "a" } else { "b" };
            (file, format!("{first}.{file}"), Some(format!("d/{file}")))
        };
        let files = lives((100..120).map(named).flat_map(calls));
        for kind in kinds(&files, 4) {
            assert!(kind.later.is_empty(), "{kind:?}");
        }
    }

    /// Among names that have nothing in common, only the most frequent shapes are tried.
    #[test]
    fn number_of_later_names_is_bounded() {
        let named = |file: u64| {
            let name = "x".repeat(1 + file as usize % 40);
            (file, format!("tmp.{file}"), Some(format!("d/{name}{file}")))
        };
        let files = lives((0..200).map(named).flat_map(calls));
        for kind in kinds(&files, 4) {
            assert!(kind.later.len() <= LATER, "{kind:?}");
        }
    }

    /// Segments of a log are created under another name; relations keep their names.
    #[test]
    fn ambiguous_later_name_is_narrowed_by_its_folder() {
        let log = |file: u64| {
            (
                file,
                format!("wal/tmp.{file}"),
                Some(format!("wal/{file:08X}")),
            )
        };
        let other = |file: u64| (file, format!("base/{file}"), None);
        let named: Vec<_> = (100..112).map(log).chain((200..204).map(other)).collect();
        let files = lives(named.into_iter().flat_map(calls));
        let kinds = kinds(&files, 4);
        let names: Vec<(&str, &[String])> = kinds
            .iter()
            .map(|kind| (kind.pattern.as_str(), &*kind.later))
            .collect();
        let later = ["wal/%".to_owned()];
        assert_eq!(names, [("tmp.#", &later[..]), ("#", &[])]);
    }
}
