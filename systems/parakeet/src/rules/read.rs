//! The reader of rule files.
//!
//! Invariants: any text yields a rule set that fulfils the invariants of [`super`], or one error
//! with its position. No allocation has a size that the file states.

use super::value::{Entries, Source, Value};
use super::{Glob, GlobError, Rule, RuleError, RuleSet};
use crate::directive::{BATCH_FILES, BATCH_GAP, Grouping, Hint, Life, Stream, StreamId};
use crate::flags::{FlagTest, words};
use std::ops::RangeInclusive;
use toml::de::DeTable;
use units::did_you_mean;
use units::{Bytes, Ns};

/// Maximum number of streams in a file.
pub const MAX_STREAMS: usize = 255;
/// Maximum number of rules in a file.
pub const MAX_RULES: usize = 4096;
/// Maximum size of a file in bytes.
pub const MAX_TEXT: usize = 1 << 20;

/// Name that stands for no stream in a rule: matching files get no directive.
pub(crate) const NO_STREAM: &str = "none";

const STREAM: &[&str] = &["name", "life", "expect", "share", "hint", "group"];
const RULE: &[&str] = &[
    "path", "flags", "mode", "size", "program", "thread", "hint", "level", "stream",
];
const GROUP: &[&str] = &["by", "files", "gap", "every", "size"];
const GROUPINGS: &[&str] = &["one", "file", "batch", "epoch", "bytes"];

impl RuleSet {
    /// Parses the rules in `text`; errors name it `file`.
    ///
    /// # Errors
    /// The first problem, with line and column.
    pub fn read(file: &str, text: &str) -> Result<Self, RuleError> {
        let source = Source { file, text };
        if text.len() > MAX_TEXT {
            let problem = format!("expected at most {MAX_TEXT} bytes, found {}", text.len());
            return Err(source.error(0, problem));
        }
        let syntax = |error: toml::de::Error| {
            let at = error.span().map_or(0, |span| span.start);
            source.error(at, error.message())
        };
        let root = DeTable::parse(text).map_err(syntax)?;
        let root = Entries::of(source, 0, root.get_ref(), &["name", "stream", "rule"])?;
        let name = root.maybe("name", |value| value.text("a name"))?;
        let mut set = Self {
            name: name.unwrap_or_default().to_owned(),
            ..Self::default()
        };
        let of = |key: &str, max: usize| -> Result<Vec<Value<'_>>, RuleError> {
            let Some(value) = root.get(key) else {
                return Ok(Vec::new());
            };
            let list = value.list(&format!("tables [[{key}]]"))?;
            match list.get(max) {
                Some(over) => Err(over.error(format!("expected at most {max} [[{key}]]"))),
                None => Ok(list),
            }
        };
        for value in of("stream", MAX_STREAMS)? {
            let stream = stream(value, &set)?;
            set.streams.push(stream);
        }
        let mut open = false;
        for value in of("rule", MAX_RULES)? {
            if open {
                let problem = "expected no rule here: the one before has no conditions and \
                               matches everything";
                return Err(value.error(problem));
            }
            let rule = rule(value, &set)?;
            open = rule.is_open();
            set.rules.push(rule);
        }
        Ok(set)
    }
}

fn stream(value: Value<'_>, set: &RuleSet) -> Result<Stream, RuleError> {
    let entries = value.entries("a table [[stream]]", STREAM)?;
    let named = entries.need("name", "a name")?;
    let name = named.text("a name")?;
    if name.is_empty() || name == NO_STREAM {
        let problem = format!("expected a name other than \"\" and {NO_STREAM:?}, found {name:?}");
        return Err(named.error(problem));
    }
    if set.stream(name).is_some() {
        return Err(named.error(format!("expected a new name, found {name:?} again")));
    }
    let share = entries.maybe("share", |v| v.number("a share", 1, 1_000_000))?;
    Ok(Stream {
        name: name.to_owned(),
        life: entries.maybe("life", |v| Ok(Life::ALL[v.word(&Life::WORDS)?]))?,
        expect: entries.maybe("expect", time)?,
        share: share.map_or(1, |share| u32::try_from(share).unwrap_or(1)),
        hint: entries.maybe("hint", hint)?,
        grouping: entries.maybe("group", grouping)?.unwrap_or_default(),
    })
}

fn hint(value: Value<'_>) -> Result<Hint, RuleError> {
    value.word(&Hint::WORDS).map(|at| Hint::ALL[at])
}

fn time(value: Value<'_>) -> Result<Ns, RuleError> {
    let what = "a time above 0, such as \"1.5ms\" or \"20s\"";
    match value.parse(what)? {
        Ns(0) => Err(value.error(format!("expected {what}, found 0"))),
        time => Ok(time),
    }
}

fn bytes(value: Value<'_>) -> Result<u64, RuleError> {
    let what = "a size above 0, such as \"64MiB\"";
    match value.parse(what)? {
        Bytes(0) => Err(value.error(format!("expected {what}, found 0"))),
        Bytes(size) => Ok(size),
    }
}

fn grouping(value: Value<'_>) -> Result<Grouping, RuleError> {
    let entries = value.entries("a table such as { by = \"batch\", files = 16 }", GROUP)?;
    let by = entries.need("by", "\"batch\"")?;
    let by = GROUPINGS[by.word(GROUPINGS)?];
    let own: &[&str] = match by {
        "batch" => &["files", "gap"],
        "epoch" => &["every"],
        "bytes" => &["size"],
        _ => &[],
    };
    for key in &GROUP[1..] {
        if let Some(value) = entries.get(key).filter(|_| !own.contains(key)) {
            return Err(value.error(format!("expected no {key} in a group by {by:?}")));
        }
    }
    Ok(match by {
        "one" => Grouping::One,
        "file" => Grouping::File,
        "epoch" => Grouping::Epoch {
            every: time(entries.need("every", "\"10s\"")?)?,
        },
        "bytes" => Grouping::Bytes {
            size: bytes(entries.need("size", "\"1GiB\"")?)?,
        },
        _ => batch(&entries)?,
    })
}

fn batch(entries: &Entries<'_>) -> Result<Grouping, RuleError> {
    let max = u64::from(u32::MAX);
    let files = entries.maybe("files", |v| v.number("files", 1, max))?;
    let gap = entries.maybe("gap", time)?;
    let files = files.and_then(|files| u32::try_from(files).ok());
    Ok(Grouping::Batch {
        files: files.unwrap_or(BATCH_FILES),
        gap: gap.unwrap_or(BATCH_GAP),
    })
}

fn rule(value: Value<'_>, set: &RuleSet) -> Result<Rule, RuleError> {
    let entries = value.entries("a table [[rule]]", RULE)?;
    let level = |v| {
        range(
            v,
            "levels such as \"0..3\"",
            |text| text.parse::<u8>().ok(),
            u8::MAX,
        )
    };
    let size = |v| {
        range(
            v,
            "sizes such as \"..64KiB\" or \"1MiB..\"",
            number,
            u64::MAX,
        )
    };
    let mut rule = Rule {
        paths: entries.each("path", glob)?,
        modes: entries.each("mode", mode)?,
        size: entries.maybe("size", size)?,
        programs: entries.each("program", glob)?,
        threads: entries.each("thread", glob)?,
        hints: entries.each("hint", hint)?,
        level: entries.maybe("level", level)?,
        ..Rule::default()
    };
    rule.flags.words = entries.each("flags", flag)?;
    rule.stream = of_stream(entries.need("stream", "the name of a stream")?, set)?;
    Ok(rule)
}

fn number(text: &str) -> Option<u64> {
    text.parse::<Bytes>().ok().map(|bytes| bytes.0)
}

fn of_stream(value: Value<'_>, set: &RuleSet) -> Result<Option<StreamId>, RuleError> {
    let name = value.text("the name of a stream")?;
    if name == NO_STREAM {
        return Ok(None);
    }
    let found = set.stream(name).map(Some);
    found.ok_or_else(|| {
        let names = || set.streams.iter().map(|stream| stream.name.as_str());
        let names = names().chain([NO_STREAM]);
        let meant = did_you_mean(name, names);
        let problem = format!("expected the name of a [[stream]], found {name:?}{meant}");
        value.error(problem)
    })
}

fn glob(value: Value<'_>) -> Result<Glob, RuleError> {
    let text = value.text("a pattern such as \"*.sst\"")?;
    Glob::new(text).map_err(|error: GlobError| value.error(error.to_string()))
}

fn flag(value: Value<'_>) -> Result<(&'static str, bool), RuleError> {
    let text = value.text("a flag such as \"direct\" or \"!direct\"")?;
    FlagTest::parse(text).ok_or_else(|| {
        let all: Vec<&str> = words().collect();
        let meant = did_you_mean(text.trim_start_matches('!'), words());
        let all = all.join(", ");
        let problem = format!("expected a flag, one of {all}, found {text:?}{meant}");
        value.error(problem)
    })
}

fn mode(value: Value<'_>) -> Result<u32, RuleError> {
    let what = "permissions in octal, such as \"0644\"";
    let text = value.text(what)?;
    let mode = u32::from_str_radix(text, 8).ok();
    let good = mode.filter(|&mode| mode <= 0o7777 && !text.starts_with('+'));
    good.ok_or_else(|| value.error(format!("expected {what}, found {text:?}")))
}

/// Parses a range: `A..B`, `A..`, `..B` or `A` alone; both ends are included.
fn range<T: Copy + Default + PartialOrd>(
    value: Value<'_>,
    what: &str,
    parse: impl Fn(&str) -> Option<T>,
    max: T,
) -> Result<RangeInclusive<T>, RuleError> {
    let text = value.text(what)?;
    let end = |text: &str, open: T| match text.trim() {
        "" => Some(open),
        text => parse(text),
    };
    let ends = match text.split_once("..") {
        Some((low, high)) => end(low, T::default()).zip(end(high, max)),
        None => parse(text.trim()).map(|only| (only, only)),
    };
    let good = ends.filter(|(low, high)| low <= high);
    let wrong = || value.error(format!("expected {what}, found {text:?}"));
    good.map(|(low, high)| low..=high).ok_or_else(wrong)
}
