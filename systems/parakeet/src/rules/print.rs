//! The writer of rule files: reading its output yields the same rule set.

use super::read::NO_STREAM;
use super::{Glob, Rule, RuleSet};
use crate::directive::{Grouping, Stream};
use std::fmt::Write as _;
use units::Ns;

/// Comments for the reader of a rule file, one line each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Comments at the top of the file.
    pub head: Vec<String>,
    /// Comments above each stream, by its index.
    pub streams: Vec<Vec<String>>,
    /// Comments above each rule, by its index.
    pub rules: Vec<Vec<String>>,
}

impl RuleSet {
    /// Prints the rules as a file, with `notes` as comments.
    #[must_use]
    pub fn print(&self, notes: &Notes) -> String {
        let mut out = String::new();
        comment(&mut out, &notes.head);
        if !self.name.is_empty() {
            line(&mut out, "name", &quoted(&self.name));
        }
        for (at, stream) in self.streams.iter().enumerate() {
            out.push('\n');
            comment(&mut out, notes.streams.get(at).map_or(&[], Vec::as_slice));
            print_stream(&mut out, stream);
        }
        for (at, rule) in self.rules.iter().enumerate() {
            out.push('\n');
            comment(&mut out, notes.rules.get(at).map_or(&[], Vec::as_slice));
            self.print_rule(&mut out, rule);
        }
        out
    }

    fn print_rule(&self, out: &mut String, rule: &Rule) {
        out.push_str("[[rule]]\n");
        list(out, "path", rule.paths.iter().map(Glob::as_str));
        let flag =
            |&(word, wanted): &(&str, bool)| format!("{}{word}", if wanted { "" } else { "!" });
        list(out, "flags", rule.flags.words.iter().map(flag));
        list(
            out,
            "mode",
            rule.modes.iter().map(|mode| format!("{mode:04o}")),
        );
        if let Some(size) = &rule.size {
            ends(out, "size", (*size.start(), *size.end()), &(0, u64::MAX));
        }
        list(out, "program", rule.programs.iter().map(Glob::as_str));
        list(out, "thread", rule.threads.iter().map(Glob::as_str));
        list(out, "hint", rule.hints.iter().map(|hint| hint.word()));
        if let Some(level) = &rule.level {
            ends(out, "level", (*level.start(), *level.end()), &(0, u8::MAX));
        }
        let stream = rule
            .stream
            .and_then(|id| self.streams.get(usize::from(id.0)));
        let name = stream.map_or(NO_STREAM, |stream| &stream.name);
        line(out, "stream", &quoted(name));
    }
}

fn print_stream(out: &mut String, stream: &Stream) {
    out.push_str("[[stream]]\n");
    line(out, "name", &quoted(&stream.name));
    if let Some(life) = stream.life {
        line(out, "life", &quoted(life.word()));
    }
    if let Some(expect) = stream.expect {
        line(out, "expect", &quoted(&span(expect)));
    }
    if stream.share != 1 {
        line(out, "share", &stream.share.to_string());
    }
    if let Some(hint) = stream.hint {
        line(out, "hint", &quoted(hint.word()));
    }
    if stream.grouping != Grouping::default() {
        line(out, "group", &grouping(stream.grouping));
    }
}

fn grouping(grouping: Grouping) -> String {
    match grouping {
        Grouping::One => "{ by = \"one\" }".to_owned(),
        Grouping::File => "{ by = \"file\" }".to_owned(),
        Grouping::Batch { files, gap } => {
            format!(
                "{{ by = \"batch\", files = {files}, gap = \"{}\" }}",
                span(gap)
            )
        }
        Grouping::Epoch { every } => format!("{{ by = \"epoch\", every = \"{}\" }}", span(every)),
        Grouping::Bytes { size } => format!("{{ by = \"bytes\", size = \"{size}\" }}"),
    }
}

/// A time in the largest unit of which it is a whole number: `90s`, `1500ms`.
#[must_use]
pub fn span(time: Ns) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let whole = units
        .into_iter()
        .find(|(unit, _)| time.0 > 0 && time.0.is_multiple_of(*unit));
    let (unit, name) = whole.unwrap_or((1, "ns"));
    format!("{}{name}", time.0 / unit)
}

fn comment(out: &mut String, lines: &[String]) {
    for line in lines {
        let plain = line.replace(char::is_control, " ");
        let _ = writeln!(out, "# {plain}");
    }
}

fn line(out: &mut String, key: &str, value: &str) {
    let _ = writeln!(out, "{key} = {value}");
}

fn list(out: &mut String, key: &str, values: impl Iterator<Item = impl AsRef<str>>) {
    let values: Vec<String> = values.map(|value| quoted(value.as_ref())).collect();
    match values.as_slice() {
        [] => {}
        [one] => line(out, key, one),
        _ => line(out, key, &format!("[{}]", values.join(", "))),
    }
}

fn ends<T: PartialEq + ToString>(out: &mut String, key: &str, (low, high): (T, T), open: &(T, T)) {
    let low = if low == open.0 {
        String::new()
    } else {
        low.to_string()
    };
    let high = if high == open.1 {
        String::new()
    } else {
        high.to_string()
    };
    line(out, key, &quoted(&format!("{low}..{high}")));
}

/// The text as a basic string of TOML.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
