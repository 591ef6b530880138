//! Patterns of paths.
//!
//! Invariants: matching takes at most (length of the path) × (parts of the pattern) steps for any
//! input, and allocates nothing. A pattern has at most [`MAX_PARTS`] parts.

use std::fmt;

/// A pattern of paths, over bytes.
///
/// | in a pattern | stands for |
/// | --- | --- |
/// | `?` | one byte other than `/` |
/// | `*` | any bytes other than `/`, or none |
/// | `#` | one or more decimal digits |
/// | `%` | one or more hexadecimal digits |
/// | `[a-z_]`, `[!a-z]` | one byte of a set, or not of it; never `/` |
/// | `**/` | any number of directories, or none |
/// | `**` at the end | everything below |
///
/// Any other character stands for itself, and so does a single one in brackets: `[*]`. A pattern
/// that begins with `/` matches whole paths; any other one matches the last components of a path,
/// as many as it has: `*.sst` is any file of that extension, and `pg_wal/%` a file directly in any
/// directory `pg_wal`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    text: String,
    parts: Vec<Part>,
}

/// Maximum number of parts of a pattern: characters, wildcards and sets.
pub const MAX_PARTS: usize = 254;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Byte(u8),
    One,
    Star,
    Digits,
    HexDigits,
    /// The wildcard `**/`: any number of folders, or none.
    Folders,
    /// The wildcard `**` at the end: everything below.
    Rest,
    Set(Box<Set>),
}

/// A set of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Set([u64; 4]);

impl Set {
    fn has(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
    }

    fn add(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }
}

/// Reasons why a text is no valid pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GlobError {
    /// The text is empty.
    #[error("expected a pattern such as *.sst, found nothing")]
    Empty,
    /// A set has no closing bracket.
    #[error("expected ] after the [ at character {0}; a bracket itself is [[]")]
    Open(usize),
    /// A set has a range whose last byte is below its first.
    #[error("expected bytes such as a-z within the [] at character {0}")]
    Set(usize),
    /// `**` is not a whole component of the path.
    #[error("expected ** to be a whole component, as in a/**/b, at character {0}")]
    Stars(usize),
    /// The pattern has more than [`MAX_PARTS`] parts.
    #[error("expected at most {MAX_PARTS} characters and wildcards, found more")]
    Long,
}

impl Glob {
    /// Parses a pattern.
    ///
    /// # Errors
    /// The first problem, with its character (from 1) where it has one.
    pub fn new(text: &str) -> Result<Self, GlobError> {
        let bytes = text.as_bytes();
        if bytes.is_empty() {
            return Err(GlobError::Empty);
        }
        let mut parts = Vec::new();
        if bytes[0] != b'/' {
            parts.push(Part::Folders);
        }
        let mut at = 0;
        while at < bytes.len() {
            let (part, len) = Self::part(bytes, at)?;
            parts.push(part);
            at += len;
            if parts.len() > MAX_PARTS {
                return Err(GlobError::Long);
            }
        }
        let text = text.to_owned();
        Ok(Self { text, parts })
    }

    /// The part that begins at byte `at`, and its length in bytes.
    fn part(bytes: &[u8], at: usize) -> Result<(Part, usize), GlobError> {
        Ok(match bytes[at] {
            b'?' => (Part::One, 1),
            b'#' => (Part::Digits, 1),
            b'%' => (Part::HexDigits, 1),
            b'[' => Self::set(bytes, at)?,
            b'*' if bytes.get(at + 1) != Some(&b'*') => (Part::Star, 1),
            b'*' if at > 0 && bytes[at - 1] != b'/' => return Err(GlobError::Stars(at + 1)),
            b'*' => match bytes.get(at + 2) {
                None => (Part::Rest, 2),
                Some(b'/') => (Part::Folders, 3),
                Some(_) => return Err(GlobError::Stars(at + 1)),
            },
            byte => (Part::Byte(byte), 1),
        })
    }

    fn set(bytes: &[u8], open: usize) -> Result<(Part, usize), GlobError> {
        let mut set = Set([0; 4]);
        let negated = bytes.get(open + 1) == Some(&b'!') && bytes.get(open + 2) != Some(&b']');
        let first = open + 1 + usize::from(negated);
        let mut at = first;
        loop {
            let byte = *bytes.get(at).ok_or(GlobError::Open(open + 1))?;
            // A closing bracket that comes first is a member.
            if byte == b']' && at > first {
                break;
            }
            let last = match (bytes.get(at + 1), bytes.get(at + 2)) {
                (Some(b'-'), Some(&last)) if last != b']' => {
                    at += 3;
                    last
                }
                _ => {
                    at += 1;
                    byte
                }
            };
            if last < byte {
                return Err(GlobError::Set(open + 1));
            }
            (byte..=last).for_each(|byte| set.add(byte));
        }
        if negated {
            set.0.iter_mut().for_each(|word| *word = !*word);
        }
        Ok((Part::Set(Box::new(set)), at + 1 - open))
    }

    /// Whether the whole of `path` matches the pattern.
    #[must_use]
    pub fn matches(&self, path: &[u8]) -> bool {
        let mut states = States::default();
        self.enter(&mut states, 0);
        for &byte in path {
            let mut next = States::default();
            for at in states.iter() {
                self.step(&mut next, at, byte);
            }
            if next == States::default() {
                return false;
            }
            states = next;
        }
        states.has(self.parts.len())
    }

    /// Adds part `at` to the states, and the following parts as long as they may match nothing.
    fn enter(&self, states: &mut States, mut at: usize) {
        states.add(at);
        while let Some(Part::Star | Part::Folders | Part::Rest) = self.parts.get(at) {
            at += 1;
            states.add(at);
        }
    }

    /// Adds the states that follow if part `at` consumes `byte`.
    fn step(&self, next: &mut States, at: usize, byte: u8) {
        let Some(part) = self.parts.get(at) else {
            return;
        };
        let (stays, goes) = match part {
            Part::Byte(own) => (false, *own == byte),
            Part::One => (false, byte != b'/'),
            Part::Set(set) => (false, byte != b'/' && set.has(byte)),
            Part::Star => (byte != b'/', false),
            Part::Digits => (byte.is_ascii_digit(), byte.is_ascii_digit()),
            Part::HexDigits => (byte.is_ascii_hexdigit(), byte.is_ascii_hexdigit()),
            // The next part must begin at a component. Within a component only this part stays
            // active, as no later part may begin there.
            Part::Folders => (false, byte == b'/'),
            Part::Rest => (true, false),
        };
        if matches!(part, Part::Folders) {
            next.add(at);
        }
        if stays {
            self.enter(next, at);
        }
        if goes {
            self.enter(next, at + 1);
        }
    }

    /// The pattern in its written form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Set of the parts that may match next.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct States([u64; 4]);

impl States {
    fn add(&mut self, at: usize) {
        self.0[at >> 6] |= 1 << (at & 63);
    }

    fn has(&self, at: usize) -> bool {
        self.0[at >> 6] >> (at & 63) & 1 == 1
    }

    fn iter(self) -> impl Iterator<Item = usize> {
        (0..4).flat_map(move |word| {
            let mut left = self.0[word];
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros() as usize;
                left &= left.checked_sub(1)?;
                Some(word * 64 + bit)
            })
        })
    }
}

/// A pattern that matches `text` only, except that bytes which rule files cannot hold become `?`.
#[must_use]
pub fn escaped(text: &[u8]) -> String {
    let mut out = String::new();
    for &byte in text {
        match byte {
            b'*' | b'?' | b'[' | b'#' | b'%' => {
                out.push('[');
                out.push(char::from(byte));
                out.push(']');
            }
            b' '..=b'~' => out.push(char::from(byte)),
            _ => out.push('?'),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn matches(pattern: &str, path: &str) -> bool {
        Glob::new(pattern).unwrap().matches(path.as_bytes())
    }

    #[test]
    fn relative_pattern_matches_the_last_components() {
        assert!(matches("*.sst", "/srv/db/000012.sst"));
        assert!(matches("*.sst", "000012.sst"));
        assert!(!matches("*.sst", "/srv/x.sst/LOCK"));
        assert!(matches("db/*.sst", "/srv/db/1.sst"));
        assert!(!matches("db/*.sst", "/srv/db/old/1.sst"));
        assert!(!matches("db/*.sst", "/srv/mydb/1.sst"));
        assert!(matches("/srv/*", "/srv/x"));
        assert!(!matches("/srv/*", "/mnt/srv/x"));
        assert!(!matches("/srv/*", "srv/x"));
    }

    #[test]
    fn runs_of_digits_are_not_empty_and_nothing_else() {
        assert!(matches("#.log", "000012.log"));
        assert!(!matches("#.log", ".log"));
        assert!(!matches("#.log", "a12.log"));
        assert!(!matches("#.log", "12a.log"));
        assert!(matches("x#", "x1"));
        assert!(matches("pg_wal/%", "/d/pg_wal/00000001000000000000000A"));
        assert!(!matches("pg_wal/%", "/d/pg_wal/00000001.history"));
        assert!(matches("##", "12") && !matches("##", "1"));
    }

    #[test]
    fn two_stars_match_any_number_of_directories() {
        assert!(matches("a/**/b", "/x/a/b"));
        assert!(matches("a/**/b", "/x/a/c/d/b"));
        assert!(!matches("a/**/b", "/x/a/c/db"));
        assert!(matches("a/**", "/x/a/b/c"));
        assert!(matches("/a/**/*.c", "/a/b/c.c"));
        assert!(!matches("a", "a/") && !matches("a*", "a/"));
        assert!(!matches("?", "/"));
        assert!(!matches("a[!x]b", "a/b"));
    }

    #[test]
    fn sets_and_brackets() {
        assert!(matches("[a-c]x", "bx") && !matches("[a-c]x", "dx"));
        assert!(matches("[!a-c]x", "dx") && !matches("[!a-c]x", "bx"));
        assert!(matches("[]]", "]") && matches("[[]", "[") && matches("[!]", "!"));
        assert!(matches("[a-]", "-") && matches("[*]", "*") && !matches("[*]", "a"));
        assert_eq!(Glob::new("x[ab"), Err(GlobError::Open(2)));
        assert_eq!(Glob::new("[b-a]"), Err(GlobError::Set(1)));
        assert_eq!(Glob::new("a**"), Err(GlobError::Stars(2)));
        assert_eq!(Glob::new("**a"), Err(GlobError::Stars(1)));
        assert_eq!(Glob::new(""), Err(GlobError::Empty));
        assert_eq!(Glob::new(&"x".repeat(MAX_PARTS)), Err(GlobError::Long));
        assert!(Glob::new(&"x".repeat(MAX_PARTS - 1)).is_ok());
    }

    #[test]
    fn many_stars_take_bounded_steps() {
        // A backtracking matcher would take 2^60 steps here.
        let pattern = "*a".repeat(60) + "b";
        assert!(!matches(&pattern, &"a".repeat(4_000)));
    }

    #[test]
    fn escaped_text_matches_only_itself() {
        bolero::check!().for_each(|path: &[u8]| {
            let name: Vec<u8> = path
                .iter()
                .map(|&b| if b == 0 { b'*' } else { b })
                .collect();
            let pattern = format!("/{}", escaped(&name));
            let Ok(glob) = Glob::new(&pattern) else {
                return;
            };
            let whole = [b"/", name.as_slice()].concat();
            let plain = name.iter().all(|byte| (b' '..=b'~').contains(byte));
            assert!(!plain || glob.matches(&whole), "{pattern}");
            assert!(!glob.matches(&[&whole, b"x".as_slice()].concat()));
        });
    }

    /// A recursive model of the matcher, without its sets of states.
    fn model(parts: &[Part], path: &[u8]) -> bool {
        let Some((part, rest)) = parts.split_first() else {
            return path.is_empty();
        };
        let run = |good: fn(&u8) -> bool| {
            let len = path.iter().take_while(|byte| good(byte)).count();
            (1..=len).any(|n| model(rest, &path[n..]))
        };
        let first = |good: &dyn Fn(u8) -> bool| {
            path.first().is_some_and(|&byte| good(byte)) && model(rest, &path[1..])
        };
        match part {
            Part::Byte(own) => first(&|byte| byte == *own),
            Part::One => first(&|byte| byte != b'/'),
            Part::Set(set) => first(&|byte| byte != b'/' && set.has(byte)),
            Part::Star => model(rest, path) || run(|&byte| byte != b'/'),
            Part::Digits => run(u8::is_ascii_digit),
            Part::HexDigits => run(u8::is_ascii_hexdigit),
            Part::Rest => (0..=path.len()).any(|n| model(rest, &path[n..])),
            Part::Folders => {
                let begins = |n: usize| n == 0 || path[n - 1] == b'/';
                (0..=path.len()).any(|n| begins(n) && model(rest, &path[n..]))
            }
        }
    }

    #[test]
    fn random_patterns_agree_with_the_model() {
        bolero::check!()
            .with_type::<(Vec<u8>, Vec<u8>)>()
            .with_iterations(20_000)
            .for_each(|(pattern, path)| {
                let of = |alphabet: &[u8], bytes: &[u8]| -> Vec<u8> {
                    let letter = |byte: &u8| alphabet[usize::from(*byte) % alphabet.len()];
                    bytes.iter().take(10).map(letter).collect()
                };
                let pattern = of(b"a1/?*#%[a]!", pattern);
                let path = of(b"aa1/f", path);
                let pattern = String::from_utf8(pattern).unwrap().replace("***", "**");
                if let Ok(glob) = Glob::new(&pattern) {
                    assert_eq!(glob.matches(&path), model(&glob.parts, &path), "{pattern}");
                }
            });
    }
}
