//! Interned paths and other strings.

use std::collections::BTreeMap;
use std::sync::Arc;

/// A string of a workload: an index into its [`Names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(pub u32);

impl Name {
    /// The empty string, which as a path is the root of the workload.
    pub const ROOT: Self = Self(0);
}

/// Every string of a workload, each once. Equal names are equal strings, so comparing numbers is
/// enough to find calls that share a path.
///
/// Strings are bytes, as paths are.
#[derive(Clone, Debug)]
pub struct Names {
    strings: Vec<Arc<[u8]>>,
    index: BTreeMap<Arc<[u8]>, Name>,
}

impl Default for Names {
    fn default() -> Self {
        let mut names = Self {
            strings: Vec::new(),
            index: BTreeMap::new(),
        };
        names.intern(b"");
        names
    }
}

impl Names {
    /// The name of `string`, added if it is new.
    ///
    /// # Panics
    /// With more than 2^32 different strings.
    pub fn intern(&mut self, string: &[u8]) -> Name {
        if let Some(&name) = self.index.get(string) {
            return name;
        }
        let name = Name(u32::try_from(self.strings.len()).expect("fewer than 2^32 strings"));
        let string: Arc<[u8]> = string.into();
        self.strings.push(Arc::clone(&string));
        self.index.insert(string, name);
        name
    }

    /// The name of `string`, if it has one.
    #[must_use]
    pub fn find(&self, string: &[u8]) -> Option<Name> {
        self.index.get(string).copied()
    }

    /// The string behind `name`; empty for a name of another table.
    #[must_use]
    pub fn bytes(&self, name: Name) -> &[u8] {
        self.strings.get(name.0 as usize).map_or(b"", |s| s)
    }

    /// Number of strings, the empty one included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.strings.len()
    }

    /// Always `false`: the empty string is always interned.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.strings.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_have_one_name() {
        let mut names = Names::default();
        assert_eq!(names.intern(b""), Name::ROOT);
        let a = names.intern(b"dir/a");
        assert_eq!(names.intern(b"dir/a"), a);
        assert_eq!(names.bytes(a), b"dir/a");
        assert_eq!(names.find(b"dir/a"), Some(a));
        assert_eq!((names.find(b"b"), names.len()), (None, 2));
        assert_eq!(names.bytes(Name(7)), b"");
    }
}
