//! Which files are placed, and where.
//!
//! A rule is a line: a pattern, a stream, a lifetime group, and the kernel's write hint
//! (0 to 5) that stands for them where there are no zones. A pattern may hold `*`; one
//! without a slash is of the last part of a path. The first rule that fits counts. Empty
//! lines and those that begin with `#` are left out.

use core::ffi::c_int;

/// What the rules say of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Who writes it.
    pub stream: u32,
    /// When it is expected to go.
    pub group: u32,
    /// The kernel's hint for its writes, `RWH_WRITE_LIFE_*`.
    pub hint: u8,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    pattern: Vec<u8>,
    verdict: Verdict,
}

/// Rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    rules: Vec<Rule>,
}

/// Whether a text fits a pattern. Each star is tried at its first place, and further on
/// only if the rest does not fit: no pattern takes longer than its length times the text's.
fn fits(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    let mut retry = None;
    while from < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                retry = Some((at + 1, from + 1));
                at += 1;
            }
            Some(byte) if *byte == text[from] => (at, from) = (at + 1, from + 1),
            _ => match retry {
                Some((next, later)) => {
                    (at, from) = (next, later);
                    retry = Some((next, later + 1));
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

fn rule(line: &str) -> Option<Rule> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [pattern, stream, group, hint] = words[..] else {
        return None;
    };
    let verdict = Verdict {
        stream: stream.parse().ok()?,
        group: group.parse().ok()?,
        hint: hint.parse().ok().filter(|hint| *hint <= 5)?,
    };
    Some(Rule {
        pattern: pattern.into(),
        verdict,
    })
}

impl Rules {
    /// Reads rules.
    ///
    /// # Errors
    /// The number of the first line that is none.
    pub fn parse(text: &str) -> Result<Self, usize> {
        let lines = (1..).zip(text.lines().map(str::trim));
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let rules: Result<_, usize> = lines
            .map(|(number, line)| rule(line).ok_or(number))
            .collect();
        Ok(Self { rules: rules? })
    }

    /// What becomes of a file that is opened with these flags and this mode; none if it
    /// is not the rules' business.
    #[must_use]
    pub fn place(&self, path: &[u8], _flags: c_int, _mode: u32) -> Option<Verdict> {
        let last = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        let of = |rule: &&Rule| {
            let whole = rule.pattern.contains(&b'/');
            fits(&rule.pattern, if whole { path } else { last })
        };
        self.rules.iter().find(of).map(|rule| rule.verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_fits_counts() {
        let rules = Rules::parse("# all\n/db/x*.log 9 9 5\n*.log 1 2 3\n\n").unwrap();
        let stream = |path: &str| rules.place(path.as_bytes(), 0, 0).map(|it| it.stream);
        assert_eq!(stream("/db/x1.log"), Some(9));
        assert_eq!(stream("/db/1.log"), Some(1));
        assert_eq!(stream("1.log"), Some(1));
        assert_eq!(stream("/1.log/sst"), None);
    }

    #[test]
    fn what_is_no_rule_is_named_by_its_line() {
        for bad in ["*.log 1 2", "*.log 1 2 6", "*.log a 2 3", "*.log 1 2 3 4"] {
            assert_eq!(Rules::parse(&format!("* 1 1 1\n{bad}")), Err(2), "{bad}");
        }
    }

    #[test]
    fn stars_fit_any_text() {
        for (pattern, text, good) in [
            ("*", "", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-b-b-d", false),
            ("**x", "aax", true),
            ("a", "ab", false),
        ] {
            assert_eq!(
                fits(pattern.as_bytes(), text.as_bytes()),
                good,
                "{pattern} {text}"
            );
        }
    }
}
