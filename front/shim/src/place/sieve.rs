//! Which paths need a closer look: by how they end, in a few nanoseconds.
//!
//! A program asks for many more files than rules name, and pays for each. So the patterns
//! of rules are boiled down to how a name must end to match any of them, or what must be
//! in it.
//!
//! Invariant: what a pattern matches passes. A path passes whether it is said from the
//! root or from the folder that a program is in, but for patterns of all that is below a
//! folder (`dir/**`), of which that folder must be said.

/// What a byte must be.
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

/// What is known of all paths that a pattern matches.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Known {
    /// Their last bytes, the last first.
    End(Vec<Class>),
    /// What is in them.
    Within(Vec<u8>),
}

/// Patterns, boiled down.
#[derive(Clone, Debug)]
pub(super) struct Sieve {
    /// What the last byte may be.
    last: [bool; 256],
    ends: Vec<Vec<Class>>,
    within: Vec<Vec<u8>>,
    all: bool,
}

/// Bytes that stand for something else than themselves in a pattern.
fn is_special(byte: u8) -> bool {
    b"?*#%[]".contains(&byte)
}

/// What is known of paths that match `pattern`; nothing if it may be any.
fn known(pattern: &[u8]) -> Option<Known> {
    let component = |text: &[u8]| -> Vec<u8> {
        let last = text.rsplit(|byte| *byte == b'/').next();
        last.unwrap_or_default().to_vec()
    };
    let mut end = Vec::new();
    let name = component(pattern);
    for byte in name.iter().rev() {
        match byte {
            // More digits may come before, so that no more is known.
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
    // What is in brackets is one of several.
    if text.contains(&b'[') {
        return None;
    }
    let runs = text.split(|byte| is_special(*byte));
    let longest = runs.max_by_key(|run| run.len())?.to_vec();
    (!longest.is_empty()).then_some(Known::Within(longest))
}

impl Sieve {
    /// For patterns, as they are written.
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

    /// One that all paths pass.
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
        (self.last[usize::from(*last)] && self.ends.iter().any(|end| ends_so(path, end)))
            || self.within.iter().any(|text| contains(path, text))
    }
}

fn ends_so(path: &[u8], end: &[Class]) -> bool {
    path.len() >= end.len()
        && end
            .iter()
            .zip(path.iter().rev())
            .all(|(class, byte)| class.has(*byte))
}

fn contains(path: &[u8], text: &[u8]) -> bool {
    // SAFETY: both are as long as is said; the answer is not looked at but for being null.
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
    fn endings_are_told_apart() {
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

    /// A path that a pattern matches, by its parts.
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
    fn whatever_ready_rules_match_passes() {
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
