//! Errors of expected lifetimes, compared with a recording.

use crate::event::Event;
use crate::learn::{Span, lives};
use crate::rules::{Facts, RuleSet};
use crate::scale::{self, STEPS};

/// Errors of expected lifetimes, over the files of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Errors {
    /// Number of files that died and whose stream has an expected lifetime.
    pub files: u64,
    /// Number of files that were alive at the end and older than expected, which is also an error.
    pub outlived: u64,
    /// Number of files without an expected lifetime: no rule names them, or their stream has none.
    pub unknown: u64,
    /// Median ratio between expected and actual lifetime, whichever is larger, in thousandths: 1000
    /// is exact, 2000 is double or half. 0 if there is no file.
    pub median_per_mille: u64,
    /// Histogram of the errors by powers of two: below 2, below 4, … ; the last bucket has the
    /// rest.
    pub buckets: [u64; 8],
}

/// The errors of the lifetimes that `rules` expect, over `events`.
#[must_use]
pub fn errors<'a>(rules: &RuleSet, events: impl Iterator<Item = Event<'a>>) -> Errors {
    let mut errors = Errors::default();
    let mut steps = Vec::new();
    for file in lives(events) {
        let facts = Facts {
            path: file.renamed.as_deref().unwrap_or(&file.path),
            flags: file.flags,
            mode: file.mode,
            program: &file.program,
            thread: &file.thread,
            hint: file.hint,
            ..Facts::default()
        };
        let stream = rules.classify(&facts);
        let expect = stream.and_then(|id| rules.streams[usize::from(id.0)].expect);
        let Some(expect) = expect.map(|expect| scale::log2(expect.0)) else {
            errors.unknown += 1;
            continue;
        };
        let Span {
            steps: found,
            whole,
        } = file.span();
        if !whole && found <= expect {
            continue;
        }
        errors.files += u64::from(whole);
        errors.outlived += u64::from(!whole);
        let off = found.abs_diff(expect);
        let bucket = usize::try_from(off / STEPS).unwrap_or(usize::MAX);
        errors.buckets[bucket.min(7)] += 1;
        steps.push(off);
    }
    steps.sort_unstable();
    if let Some(&median) = steps.get(steps.len() / 2) {
        // `exp2` yields integers; ten more powers of two keep three digits.
        errors.median_per_mille = scale::exp2(median + 10 * STEPS).saturating_mul(1000) >> 10;
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Call, FileKey, Opening};
    use units::Ns;

    #[test]
    fn lifetime_error_is_a_ratio_in_either_direction() {
        let text =
            "[[stream]]\nname = \"a\"\nexpect = \"1us\"\n[[rule]]\npath = \"a*\"\nstream = \"a\"\n";
        let rules = RuleSet::read("r", text).unwrap();
        let path = |name: &'static str| Opening {
            path: name.as_bytes(),
            ..Opening::default()
        };
        let mut events = Vec::new();
        let lives = [
            ("a1", 250, true),
            ("a2", 4_000, true),
            ("a3", 500, true),
            ("a4", 8_000, false),
            ("a5", 10, false),
            ("b", 1, true),
        ];
        for (file, &(name, life, dies)) in lives.iter().enumerate() {
            let mut push = |at, call| {
                events.push(Event {
                    at: Ns(at),
                    thread: 0,
                    file: FileKey(file as u64),
                    call,
                });
            };
            let end = 10_000;
            push(end - life, Call::Open(path(name)));
            push(end - life, Call::Write { offset: 0, len: 1 });
            if dies {
                push(end, Call::Gone);
            }
        }
        events.sort_by_key(|event| event.at);
        let errors = errors(&rules, events.into_iter());
        assert_eq!((errors.files, errors.outlived, errors.unknown), (3, 1, 1));
        assert_eq!(errors.median_per_mille, 4_000);
        assert_eq!(errors.buckets, [0, 1, 2, 1, 0, 0, 0, 0]);
    }
}
