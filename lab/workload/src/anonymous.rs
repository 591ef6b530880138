//! Pseudonyms for the names in a trace, so that it can be given away.
//!
//! Names are numbered in the order of first appearance. Unlike hashes, numbers cannot be compared
//! with those of guessed names.
//!
//! Invariants: equal names get equal pseudonyms and different names different ones, so the shape of
//! a trace is kept: which calls share a file, the directory of each file, which files share a
//! suffix, and the length of each name where its number fits in. Nothing else of a name is kept.

use crate::files::Names;
use crate::files::trace::About;
use crate::request::{Labels, Purpose};
use std::collections::BTreeMap;
use std::sync::Arc;
use units::Origin;

/// Namespaces of extended attributes, which a file system interprets.
const NAMESPACES: [&[u8]; 4] = [b"user.", b"security.", b"system.", b"trusted."];

/// Pseudonyms given so far, by the part of a file name that they replace.
#[derive(Debug, Default)]
pub struct Pseudonyms {
    stems: BTreeMap<Arc<[u8]>, usize>,
    suffixes: BTreeMap<Arc<[u8]>, usize>,
}

impl Pseudonyms {
    /// Pseudonym of a path, component by component, or of another string.
    pub fn path(&mut self, path: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(path.len());
        let namespace = NAMESPACES.into_iter().find(|space| path.starts_with(space));
        let named = path
            .strip_prefix(namespace.unwrap_or_default())
            .unwrap_or(path);
        match namespace {
            Some(space) if !path.contains(&b'/') => out.extend_from_slice(space),
            _ => return self.components(path, out),
        }
        self.components(named, out)
    }

    fn components(&mut self, path: &[u8], mut out: Vec<u8>) -> Vec<u8> {
        for (turn, component) in path.split(|byte| *byte == b'/').enumerate() {
            if turn > 0 {
                out.push(b'/');
            }
            match component {
                b"" | b"." | b".." => out.extend_from_slice(component),
                name => self.component(name, &mut out),
            }
        }
        out
    }

    /// Appends the pseudonym of the file name `name`: of its stem and of its suffix.
    fn component(&mut self, name: &[u8], out: &mut Vec<u8>) {
        let dot = name
            .iter()
            .rposition(|byte| *byte == b'.')
            .filter(|at| *at > 0);
        let (stem, suffix) = name.split_at(dot.unwrap_or(name.len()));
        append(&mut self.stems, stem, b'n', out);
        if let Some(suffix) = suffix.strip_prefix(b".") {
            out.push(b'.');
            append(&mut self.suffixes, suffix, b'e', out);
        }
    }

    /// Adds the pseudonyms of the strings that `names` has and `pseudonyms` has not yet, so that a
    /// name of one table is a name of the other.
    pub fn follow(&mut self, names: &Names, pseudonyms: &mut Names) {
        for number in pseudonyms.len()..names.len() {
            let number = u32::try_from(number).expect("names have numbers of 32 bits");
            let of = self.path(names.bytes(crate::files::Name(number)));
            pseudonyms.intern(&of);
        }
    }
}

/// Appends `letter` and the number of `text` among `known`, filled up to the length of `text`.
fn append(known: &mut BTreeMap<Arc<[u8]>, usize>, text: &[u8], letter: u8, out: &mut Vec<u8>) {
    let next = known.len() + 1;
    let number = match known.get(text) {
        Some(number) => *number,
        None => {
            known.insert(text.into(), next);
            next
        }
    };
    let end = out.len() + text.len();
    out.push(letter);
    out.extend_from_slice(number.to_string().as_bytes());
    if out.len() < end {
        out.resize(end, b'x');
    }
}

impl About {
    /// A header that names neither the directory nor the command of the recording.
    #[must_use]
    pub fn anonymous() -> Self {
        Self {
            root: b"/".to_vec(),
            ..Self::default()
        }
    }
}

impl Labels {
    /// The same labels under pseudonyms. Journals keep the beginning of their name, by which readers
    /// know their purpose.
    #[must_use]
    pub fn anonymous(&self) -> Self {
        let mut pseudonyms = Pseudonyms::default();
        let mut labels = Self::default();
        for at in 1..self.names().len() {
            let at = u16::try_from(at).expect("labels have numbers of 16 bits");
            let (purpose, name) = self.interned(Origin(at));
            let begin = if purpose == Purpose::Journal {
                "jbd2/"
            } else {
                ""
            };
            let mut of = begin.as_bytes().to_vec();
            append(&mut pseudonyms.stems, name.as_bytes(), b'n', &mut of);
            labels.intern_at(at.into(), &String::from_utf8_lossy(&of), purpose);
        }
        labels
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pseudonyms_keep_directories_suffixes_and_lengths() {
        let mut names = Pseudonyms::default();
        let mut of = |path: &str| String::from_utf8(names.path(path.as_bytes())).unwrap();
        assert_eq!(of("db/000017.sst"), "n1/n2xxxx.e1x");
        assert_eq!(of("db/000018.sst"), "n1/n3xxxx.e1x");
        assert_eq!(of("db/LOG"), "n1/n4x");
        assert_eq!(of("/db/../.hidden"), "/n1/../n5xxxxx");
        assert_eq!(of("user.mime.type"), "user.n6xx.e2xx");
        assert_eq!(of(""), "");
    }

    #[test]
    fn labels_keep_purposes_and_lose_names() {
        let mut labels = Labels::default();
        let writer = labels.intern("postgres");
        let metadata = labels.intern_as("postgres", Purpose::Metadata);
        let journal = labels.intern_as("jbd2/sda1-8", Purpose::Journal);
        let anonymous = labels.anonymous();
        assert_eq!(anonymous.name(writer), "n1xxxxxx");
        assert_eq!(anonymous.name(metadata), "n1xxxxxx (metadata)");
        assert_eq!(anonymous.purpose(journal), Purpose::Journal);
        assert!(anonymous.names().iter().all(|name| !name.contains("sda")));
    }

    proptest! {
        #[test]
        fn different_paths_get_different_pseudonyms(
            paths in prop::collection::btree_set("[a-c./n1x]{0,6}|user\\.[a-c]{1,3}", 1..40),
        ) {
            let mut names = Names::default();
            paths.iter().for_each(|path| {
                names.intern(path.as_bytes());
            });
            let (mut of, mut table) = (Pseudonyms::default(), Names::default());
            of.follow(&names, &mut table);
            prop_assert_eq!(table.len(), names.len());
        }
    }
}
