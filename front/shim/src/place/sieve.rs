//! A cheap filter of paths: decides by a path's end, in a few nanoseconds, whether it needs a
//! closer look.
//!
//! A program opens many more files than rules name, and each opening pays for the filter. So the
//! patterns of rules are reduced to the end that a matching name must have, or a text it must
//! contain.
//!
//! Invariant: every path that a pattern matches passes. A path passes in absolute form or relative
//! to the program's folder, except for patterns of all below a folder (`dir/**`), for which the
//! path must contain that folder.

/// A class of bytes at one position of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Byte(u8),
    Digit,
    HexDigit,
}

impl Class {
    fn has(self, byte: u8) -> bool {
        match self {
            Self::Byte(own) => own == byte,
            Self::Digit => byte.is_ascii_digit(),
            Self::HexDigit => byte.is_ascii_hexdigit(),
        }
    }
}

/// A property of all paths that a pattern matches.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Known {
    /// The last bytes of the paths, in reverse order.
    End(Vec<Class>),
    /// A text that the paths contain.
    Within(Vec<u8>),
}

/// A set of patterns, reduced to necessary conditions.
#[derive(Clone, Debug)]
pub(super) struct Sieve {
    /// For each byte, whether it may be the last one of a matching path.
    last: [bool; 256],
    ends: Vec<Vec<Class>>,
    within: Vec<Vec<u8>>,
    all: bool,
}

/// Whether a byte is a wildcard in a pattern.
fn is_special(byte: u8) -> bool {
    b"?*#%[]".contains(&byte)
}

/// A condition on all paths that match `pattern`; `None` if there is none.
fn known(pattern: &[u8]) -> Option<Known> {
    let component = |text: &[u8]| -> Vec<u8> {
        let last = text.rsplit(|byte| *byte == b'/').next();
        last.unwrap_or_default().to_vec()
    };
    let mut end = Vec::new();
    let name = component(pattern);
    for byte in name.iter().rev() {
        match byte {
            // A run of digits may be longer, so nothing is known of the bytes before.
            b'#' => {
                end.push(Class::Digit);
                break;
            }
            b'%' => {
                end.push(Class::HexDigit);
                break;
            }
            byte if is_special(*byte) => break,
            byte => end.push(Class::Byte(*byte)),
        }
    }
    if !end.is_empty() {
        return Some(Known::End(end));
    }
    let text = match pattern.strip_suffix(b"/**") {
        Some(folder) => component(folder),
        None => name,
    };
    // Brackets match one of several bytes.
    if text.contains(&b'[') {
        return None;
    }
    let runs = text.split(|byte| is_special(*byte));
    let longest = runs.max_by_key(|run| run.len())?.to_vec();
    (!longest.is_empty()).then_some(Known::Within(longest))
}

impl Sieve {
    /// A sieve for patterns in their written form.
    pub(super) fn new<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Self {
        let mut sieve = Self {
            last: [false; 256],
            ends: Vec::new(),
            within: Vec::new(),
            all: false,
        };
        for pattern in patterns {
            match known(pattern.as_bytes()) {
                Some(Known::End(end)) if !sieve.ends.contains(&end) => sieve.ends.push(end),
                Some(Known::Within(text)) if !sieve.within.contains(&text) => {
                    sieve.within.push(text);
                }
                Some(_) => {}
                None => sieve.all = true,
            }
        }
        for byte in 0..=u8::MAX {
            sieve.last[usize::from(byte)] = sieve.ends.iter().any(|end| end[0].has(byte));
        }
        sieve
    }

    /// A sieve that all paths pass.
    pub(super) fn open() -> Self {
        let mut sieve = Self::new([]);
        sieve.all = true;
        sieve
    }

    /// Whether a path may match one of the patterns.
    #[inline]
    pub(super) fn passes(&self, path: &[u8]) -> bool {
        if self.all {
            return true;
        }
        let Some(last) = path.last() else {
            return false;
        };
        (self.last[usize::from(*last)] && self.ends.iter().any(|end| ends_with_classes(path, end)))
            || self.within.iter().any(|text| contains(path, text))
    }
}

fn ends_with_classes(path: &[u8], end: &[Class]) -> bool {
    path.len() >= end.len()
        && end
            .iter()
            .zip(path.iter().rev())
            .all(|(class, byte)| class.has(*byte))
}

fn contains(path: &[u8], text: &[u8]) -> bool {
    // SAFETY: both pointers are valid for their lengths; the result is only compared with null.
    let found = unsafe {
        libc::memmem(
            path.as_ptr().cast(),
            path.len(),
            text.as_ptr().cast(),
            text.len(),
        )
    };
    !found.is_null()
}

#[cfg(test)]
mod tests {
    use super::*;
    use parakeet::rules::{Glob, RuleSet, sets};

    fn passes(pattern: &str, path: &str) -> bool {
        Sieve::new([pattern]).passes(path.as_bytes())
    }

    #[test]
    fn sieve_passes_only_paths_with_a_possible_end() {
        assert!(passes("*.sst", "/db/1.sst") && passes("*.sst", ".sst"));
        assert!(!passes("*.sst", "/db/1.log") && !passes("*.sst", "sst"));
        assert!(passes("#.log", "7.log") && !passes("#.log", "a.log"));
        assert!(passes("base/#/#.#", "base/1/22.3") && !passes("base/#/#.#", "base/1/22.x"));
        assert!(passes("pg_wal/%", "0F") && !passes("pg_wal/%", "0G"));
        assert!(passes("navy*", "x/navy7") && !passes("navy*", "x/nav7"));
        assert!(passes("tmp/**", "/a/tmp/b") && !passes("tmp/**", "/a/b"));
        assert!(passes("a[xyz]", "anything") && passes("*", "anything"));
        assert!(!Sieve::new([]).passes(b"x") && Sieve::open().passes(b"x"));
    }

    /// A path made from a pattern; it usually matches.
    fn example(pattern: &str, number: usize) -> String {
        let mut path = String::new();
        let text = pattern.replace("**/", "d/").replace("**", "deep/x");
        for byte in text.bytes() {
            match byte {
                b'#' | b'%' => path.push_str(&number.to_string()),
                b'*' => path.push_str(["", "y", "zz"][number % 3]),
                b'?' => path.push('q'),
                byte => path.push(char::from(byte)),
            }
        }
        path
    }

    #[test]
    fn every_path_that_built_in_rules_match_passes() {
        let mut seen = 0;
        for name in [
            "rocksdb",
            "wiredtiger",
            "cachelib",
            "postgresql",
            "sqlite",
            "kafka",
        ] {
            let rules = RuleSet::read(name, sets::text(name).unwrap()).unwrap();
            let all = || rules.rules.iter().flat_map(|rule| &rule.paths);
            let sieve = Sieve::new(all().map(Glob::as_str));
            for glob in all() {
                for number in 0..30 {
                    let path = example(glob.as_str(), number);
                    if glob.matches(path.as_bytes()) {
                        assert!(sieve.passes(path.as_bytes()), "{glob} and {path}");
                        seen += 1;
                    }
                }
            }
        }
        assert!(seen > 500, "{seen}");
    }
}
