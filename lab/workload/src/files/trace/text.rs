//! Text form of traces of file calls: one item a line, to read, to search and to write by hand.
//!
//! ```text
//! flashloom file calls 1
//! root text="/home/me"
//! thread process=0 pid=12 tid=12 parent=0 born=0 program="/usr/bin/tool"
//! setup-file path="db" mode=0644 size=4096
//! 1200 0 open fd=0 path="db" flags=read|write mode=0 = 0 +5100
//! 9000 0 pwrite fd=0 at=4096 len=512 = 512 +2100
//! 12000 0 stat of=path path="log" = ENOENT +900
//! end events=3
//! ```
//!
//! The fields of a call are the time in nanoseconds at which it began, its thread, its name, its
//! fields in the order of their declaration, its result, and its duration in nanoseconds. Strings
//! hold `\xNN` for bytes that are not printable. Empty lines and lines that begin with `#` are
//! ignored.

use super::super::field::{FieldSink, FieldSource};
use super::super::{Call, Errno, Event, Fd, Name, Names, Setup, Thread};
use super::item::{self, Item};
use super::state::{OFFSET_MAX, Said, State};
use super::{About, TraceError};
use crate::trace::MAX_LINE;
use input::{Expected, Input, excerpt, expected};
use std::fmt::Write as _;
use std::io::{self, Write};

/// First line of the text form.
pub(super) const HEADER: &str = "flashloom file calls 1";

/// Writer of the text form.
pub struct TextWriter<W: Write> {
    out: W,
    line: String,
    events: u64,
}

impl<W: Write> TextWriter<W> {
    /// Begins a trace with the header items and the setup.
    ///
    /// # Errors
    /// If the output fails; so for all methods below.
    pub fn new(mut out: W, about: &About, setup: &Setup, names: &Names) -> io::Result<Self> {
        writeln!(out, "{HEADER}")?;
        let mut writer = Self {
            out,
            line: String::new(),
            events: 0,
        };
        let mut own = Names::default();
        writer.item(&Item::Root(own.intern(&about.root)), &own)?;
        writer.item(&Item::Command(own.intern(&about.command)), &own)?;
        for note in &about.notes {
            writer.item(&Item::Note(own.intern(note)), &own)?;
        }
        for entry in &setup.entries {
            writer.item(&Item::Entry(*entry), names)?;
        }
        Ok(writer)
    }

    /// Writes a thread; threads are numbered from 0 in the order of writing.
    ///
    /// # Errors
    /// See [`TextWriter::new`].
    pub fn thread(&mut self, thread: &Thread, names: &Names) -> io::Result<()> {
        self.item(&Item::Thread(*thread), names)
    }

    /// Writes an event as one line.
    ///
    /// # Errors
    /// See [`TextWriter::new`].
    pub fn event(&mut self, event: &Event, names: &Names) -> io::Result<()> {
        self.line.clear();
        line(event, names, &mut self.line);
        self.events += 1;
        writeln!(self.out, "{}", self.line)
    }

    fn item(&mut self, item: &Item, names: &Names) -> io::Result<()> {
        self.line.clear();
        self.line += item.word();
        item.put(&mut Fields {
            line: &mut self.line,
            names,
        });
        writeln!(self.out, "{}", self.line)
    }

    /// Ends the trace.
    ///
    /// # Errors
    /// See [`TextWriter::new`].
    pub fn finish(mut self) -> io::Result<W> {
        self.item(&Item::End(self.events), &Names::default())?;
        Ok(self.out)
    }
}

/// Appends the line of `event` to `out`, without a line end.
fn line(event: &Event, names: &Names, out: &mut String) {
    let call = event.step.call;
    // Writing to a string cannot fail, here and below.
    let _ = write!(
        out,
        "{} {} {}",
        event.at.0,
        event.step.thread.0,
        call.name()
    );
    call.put(&mut Fields { line: out, names });
    let _ = match event.result {
        Ok(value) => write!(out, " = {value} +{}", event.took.0),
        Err(errno) => write!(out, " = {errno} +{}", event.took.0),
    };
}

impl Event {
    /// Line of the event in the text form of traces.
    #[must_use]
    pub fn text(&self, names: &Names) -> String {
        let mut out = String::new();
        line(self, names, &mut out);
        out
    }
}

struct Fields<'a> {
    line: &'a mut String,
    names: &'a Names,
}

impl FieldSink for Fields<'_> {
    fn fd(&mut self, key: &'static str, fd: Fd) {
        self.number(key, fd.0.into());
    }

    fn name(&mut self, key: &'static str, name: Name) {
        let _ = write!(self.line, " {key}=");
        quote(self.names.bytes(name), self.line);
    }

    fn number(&mut self, key: &'static str, number: u64) {
        let _ = write!(self.line, " {key}={number}");
    }

    fn octal(&mut self, key: &'static str, number: u64) {
        let zero = if number == 0 { "" } else { "0" };
        let _ = write!(self.line, " {key}={zero}{number:o}");
    }

    fn word(&mut self, key: &'static str, index: usize, words: &'static [&'static str]) {
        let _ = write!(self.line, " {key}={}", words[index]);
    }

    fn bits(&mut self, key: &'static str, bits: u32, words: &'static [&'static str]) {
        let set = (0..words.len()).filter(|bit| bits >> bit & 1 == 1);
        let set: Vec<_> = set.map(|bit| words[bit]).collect();
        let all = if set.is_empty() { NONE } else { &set.join("|") };
        let _ = write!(self.line, " {key}={all}");
    }
}

/// Word for an empty set of flags.
const NONE: &str = "none";

fn quote(bytes: &[u8], out: &mut String) {
    out.push('"');
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => {
                out.push('\\');
                out.push(char::from(byte));
            }
            b' '..=b'~' => out.push(char::from(byte)),
            _ => {
                let _ = write!(out, "\\x{byte:02x}");
            }
        }
    }
    out.push('"');
}

/// Parses the quoted string at the beginning of `text`; returns its bytes and the rest.
fn unquote(text: &str) -> Option<(Vec<u8>, &str)> {
    let mut rest = text.strip_prefix('"')?;
    let mut bytes = Vec::new();
    loop {
        let plain = rest.find(['"', '\\'])?;
        bytes.extend_from_slice(&rest.as_bytes()[..plain]);
        let special = &rest[plain..];
        if let Some(rest) = special.strip_prefix('"') {
            return Some((bytes, rest));
        }
        let escaped = &special[1..];
        if let Some(hex) = escaped.strip_prefix('x') {
            let digits = hex.get(..2)?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &hex[2..];
        } else {
            let byte = *escaped.as_bytes().first()?;
            (byte == b'"' || byte == b'\\').then_some(())?;
            bytes.push(byte);
            rest = &escaped[1..];
        }
    }
}

/// Reader of the text form.
pub(super) struct Text {
    name: String,
    input: Input,
    line: Vec<u8>,
    lines: u64,
}

impl Text {
    pub(super) fn new(name: &str, input: Input) -> Self {
        Self {
            name: name.to_owned(),
            input,
            line: Vec::new(),
            lines: 0,
        }
    }

    /// Reads the next event; `None` at the end.
    pub(super) fn next(&mut self, state: &mut State) -> Result<Option<Event>, TraceError> {
        loop {
            self.lines += 1;
            let read = input::read_line(&mut *self.input, &mut self.line, MAX_LINE);
            let place = format!("line {}", self.lines);
            let more = read.map_err(TraceError::unreadable(&self.name, place))?;
            let text = String::from_utf8_lossy(&self.line);
            let line = text.trim();
            let taken = match () {
                () if !more => expected("the line `end` at the end"),
                () if self.lines == 1 || line.is_empty() || line.starts_with('#') => continue,
                () => take(line, state),
            };
            let taken = taken.map_err(|Expected(expected)| TraceError::Line {
                name: self.name.clone(),
                line: self.lines,
                expected,
                found: excerpt(line),
            })?;
            match taken {
                Taken::Event(event) => return Ok(Some(event)),
                Taken::Item => {}
                Taken::End => return Ok(None),
            }
        }
    }
}

enum Taken {
    Event(Event),
    Item,
    End,
}

fn take(line: &str, state: &mut State) -> Result<Taken, Expected> {
    if line.starts_with(|c: char| c.is_ascii_digit()) {
        return event(line, state).map(Taken::Event);
    }
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let Some(tag) = item::tag(word) else {
        return expected("a time, or the name of an item");
    };
    let mut source = Source {
        rest,
        state,
        opens: false,
    };
    let item = Item::take(tag, &mut source)?;
    source.end("")?;
    let item = item.expect("a word stands for a tag that is known");
    Ok(if state.item(item)? {
        Taken::Item
    } else {
        Taken::End
    })
}

fn event(line: &str, state: &mut State) -> Result<Event, Expected> {
    let mut words = line.splitn(4, ' ');
    let mut word = || words.next().unwrap_or("");
    let (Ok(at), Ok(thread)) = (word().parse(), word().parse()) else {
        return expected("a time in ns and the number of a thread");
    };
    let Some(kind) = item::kind(word()) else {
        return expected("the name of a call");
    };
    let mut source = Source {
        rest: word(),
        state,
        opens: kind == 1,
    };
    let call = Call::take(kind, &mut source)?;
    let (result, took) = source.answer()?;
    state.event(&Said {
        thread,
        at,
        took,
        result,
        call: call.expect("a name stands for a call that is known"),
    })
}

struct Source<'a> {
    rest: &'a str,
    state: &'a mut State,
    opens: bool,
}

impl<'a> Source<'a> {
    /// Consumes the text `key=`.
    fn key(&mut self, key: &str) -> Result<(), Expected> {
        let rest = self.rest.trim_start().strip_prefix(key);
        match rest.and_then(|rest| rest.strip_prefix('=')) {
            Some(rest) => {
                self.rest = rest;
                Ok(())
            }
            None => expected(format!("`{key}=`")),
        }
    }

    /// Consumes `key=WORD` and returns the word.
    fn value(&mut self, key: &str) -> Result<&'a str, Expected> {
        self.key(key)?;
        let end = self.rest.find(' ').unwrap_or(self.rest.len());
        let (value, rest) = self.rest.split_at(end);
        self.rest = rest;
        Ok(value)
    }

    /// Consumes ` = RESULT +TOOK`, which ends a line.
    fn answer(&mut self) -> Result<(i64, u64), Expected> {
        let rest = self.rest.trim_start().strip_prefix("= ");
        let parts = rest.and_then(|rest| rest.split_once(" +"));
        let Some((result, took)) = parts else {
            return expected("`= RESULT +NANOSECONDS` after the fields of the call");
        };
        let failed = || Errno::named(result).map(|errno| -i64::from(errno.0));
        let answered = || result.parse::<u64>().ok()?.try_into().ok();
        match (failed().or_else(answered), took.parse()) {
            (Some(result), Ok(took)) => Ok((result, took)),
            _ => expected("a number or the name of an error, and nanoseconds"),
        }
    }

    fn end(&self, what: &str) -> Result<(), Expected> {
        match self.rest.trim() {
            rest if rest == what => Ok(()),
            _ => expected("nothing more on the line"),
        }
    }

    fn bounded(key: &str, value: Option<u64>, max: u64) -> Result<u64, Expected> {
        let max = max.min(OFFSET_MAX);
        match value {
            Some(number) if number <= max => Ok(number),
            _ => expected(format!("`{key}` as a number of at most {max}")),
        }
    }
}

impl FieldSource for Source<'_> {
    type Error = Expected;

    fn fd(&mut self, key: &'static str) -> Result<Fd, Expected> {
        let fd = self.number(key, u32::MAX.into())?;
        self.state.fd(fd, self.opens)
    }

    fn name(&mut self, key: &'static str) -> Result<Name, Expected> {
        self.key(key)?;
        let Some((bytes, rest)) = unquote(self.rest) else {
            return expected(format!("`{key}` in quotes"));
        };
        self.rest = rest;
        let name = self.state.names.intern(&bytes);
        self.state.path(key, name)
    }

    fn number(&mut self, key: &'static str, max: u64) -> Result<u64, Expected> {
        let value = self.value(key)?.parse().ok();
        Self::bounded(key, value, max)
    }

    fn octal(&mut self, key: &'static str, max: u64) -> Result<u64, Expected> {
        let value = u64::from_str_radix(self.value(key)?, 8).ok();
        Self::bounded(key, value, max)
    }

    fn word(
        &mut self,
        key: &'static str,
        words: &'static [&'static str],
    ) -> Result<usize, Expected> {
        let value = self.value(key)?;
        match words.iter().position(|word| *word == value) {
            Some(index) => Ok(index),
            None => expected(format!("`{key}` of {}", words.join(", "))),
        }
    }

    fn bits(&mut self, key: &'static str, words: &'static [&'static str]) -> Result<u32, Expected> {
        let value = self.value(key)?;
        let mut bits = 0;
        for part in value.split('|').filter(|part| *part != NONE) {
            match words.iter().position(|word| *word == part) {
                Some(bit) => bits |= 1 << bit,
                None => return expected(format!("`{key}` of {}", words.join(", "))),
            }
        }
        Ok(bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_strings_round_trip() {
        for bytes in [&b""[..], b"a b", b"\"\\\n\xff\x7f", b"=+|"] {
            let mut text = String::new();
            quote(bytes, &mut text);
            assert!(text.is_ascii());
            assert_eq!(unquote(&(text + " x")), Some((bytes.to_vec(), " x")));
        }
        for wrong in ["", "a", "\"", "\"\\", "\"\\x1", "\"\\n\"", "\"\\xé\""] {
            assert_eq!(unquote(wrong), None, "{wrong}");
        }
    }
}
