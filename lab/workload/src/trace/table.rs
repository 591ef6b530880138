//! Tables of any program, by a list of the meanings of their columns.
//!
//! Invariant: a list has exactly one time, operation, place and size, so that each line states a
//! whole request.

use super::bytes::{Words, decimal, scaled, trimmed};
use super::event::{Event, Kind, Line, Parser};
use super::names::Names;
use super::rwbs;
use crate::request::Op;
use input::{Expected, expected};
use std::fmt;
use std::str::FromStr;
use units::did_you_mean;

/// Upper bound on the columns of a list.
const COLUMNS_MAX: usize = 32;

/// Meaning of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    /// Time, in units of ten to this power of nanoseconds.
    Time(u32),
    /// Operation as a word or as the kernel's flags.
    Op,
    /// Operation as a number; this one is a read and any other one a write.
    Numbered(u64),
    /// First address, in units of this many bytes.
    Start(u64),
    /// Size, in units of this many bytes.
    Size(u64),
    /// Device or volume, as a number or a name.
    Volume,
    /// Origin of the request.
    Process,
    /// Column without a meaning.
    Other,
}

/// Names of the columns.
const NAMES: [(&str, Column); 19] = [
    ("time_s", Column::Time(9)),
    ("time_ms", Column::Time(6)),
    ("time_us", Column::Time(3)),
    ("time_100ns", Column::Time(2)),
    ("time_ns", Column::Time(0)),
    ("op", Column::Op),
    ("op_0read", Column::Numbered(0)),
    ("op_1read", Column::Numbered(1)),
    ("offset_bytes", Column::Start(1)),
    ("offset_kib", Column::Start(1024)),
    ("offset_pages", Column::Start(4096)),
    ("sector", Column::Start(512)),
    ("size_bytes", Column::Size(1)),
    ("size_kib", Column::Size(1024)),
    ("size_pages", Column::Size(4096)),
    ("sectors", Column::Size(512)),
    ("volume", Column::Volume),
    ("process", Column::Process),
    ("-", Column::Other),
];

/// Meanings of the columns of a table, from the left. Further columns have no meaning.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Columns {
    /// Indices into the names of the columns.
    list: [u8; COLUMNS_MAX],
    count: usize,
}

impl Columns {
    fn list(&self) -> impl Iterator<Item = (&'static str, Column)> {
        let list = self.list.into_iter().take(self.count);
        list.map(|index| NAMES[usize::from(index)])
    }

    /// Whether a column states the volume of a request.
    pub(super) fn has_volumes(&self) -> bool {
        self.list().any(|(_, column)| column == Column::Volume)
    }

    /// Names of all columns, separated by commas, for messages.
    #[must_use]
    pub fn names() -> String {
        NAMES.map(|(name, _)| name).join(", ")
    }
}

impl fmt::Display for Columns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (turn, (name, _)) in self.list().enumerate() {
            let comma = if turn > 0 { "," } else { "" };
            write!(f, "{comma}{name}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Columns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Error: a text that is no list of columns.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, found {found:?}{hint}")]
pub struct BadColumns {
    expected: String,
    found: String,
    hint: String,
}

impl FromStr for Columns {
    type Err = BadColumns;

    /// Reads names with commas between them; in the text of a workload, where a comma ends a
    /// parameter, slashes do the same.
    fn from_str(text: &str) -> Result<Self, BadColumns> {
        let refuse = |expected: &str, hint| BadColumns {
            expected: expected.to_owned(),
            found: text.to_owned(),
            hint,
        };
        let mut columns = Self {
            list: [0; COLUMNS_MAX],
            count: 0,
        };
        for name in text.split([',', '/']).map(str::trim) {
            let Some(index) = NAMES.iter().position(|(known, _)| *known == name) else {
                let names = NAMES.map(|(name, _)| name);
                let hint = format!(" with {name:?}{}", did_you_mean(name, names));
                let expected = format!("columns of the names {}", Self::names());
                return Err(refuse(&expected, hint));
            };
            let Some(place) = columns.list.get_mut(columns.count) else {
                return Err(refuse("at most 32 columns", String::new()));
            };
            *place = u8::try_from(index).expect("there are few names");
            columns.count += 1;
        }
        let count = |is: fn(Column) -> bool| columns.list().filter(|(_, c)| is(*c)).count();
        let one_each = [
            count(|c| matches!(c, Column::Time(_))),
            count(|c| matches!(c, Column::Op | Column::Numbered(_))),
            count(|c| matches!(c, Column::Start(_))),
            count(|c| matches!(c, Column::Size(_))),
        ];
        let at_most_one = [
            count(|c| c == Column::Volume),
            count(|c| c == Column::Process),
        ];
        match one_each == [1; 4] && at_most_one.iter().all(|count| *count <= 1) {
            true => Ok(columns),
            false => Err(refuse(
                "one time, one operation, one offset and one size, such as \
                 time_us,op,offset_bytes,size_bytes, and at most one volume and one process",
                String::new(),
            )),
        }
    }
}

/// Parser of a table. Its first line may be a heading, and tells what divides the columns: a comma,
/// a semicolon or white space.
pub(super) struct Table {
    columns: Columns,
    /// Separator, once a line was read; `None` inside for white space.
    separator: Option<Option<u8>>,
    volumes: Names,
}

impl Table {
    pub(super) fn new(columns: Columns) -> Self {
        Self {
            columns,
            separator: None,
            volumes: Names::default(),
        }
    }

    /// Request of the columns `words`.
    fn request<'a>(
        &mut self,
        mut words: impl Iterator<Item = &'a [u8]>,
    ) -> Result<Line<'a>, Expected> {
        let (mut at, mut kind, mut start, mut size) = (0, None, 0, 0);
        let (mut volume, mut process) = (None, None);
        for (turn, (_, column)) in self.columns.list().enumerate() {
            let word = words.next().map(trimmed);
            let Some(word) = word else {
                let count = self.columns.count;
                return expected(format!("{count} columns {}", self.columns));
            };
            let wrong = |what: &str| Expected(format!("{what} in column {}", turn + 1));
            match column {
                Column::Time(power) => {
                    at = scaled(word, power).ok_or_else(|| wrong("a time"))?;
                }
                Column::Op => kind = Some(operation(word).ok_or_else(|| wrong(OPERATION))?),
                Column::Numbered(read) => {
                    let code = scaled(word, 0).ok_or_else(|| wrong("an operation's number"))?;
                    let op = if code == read { Op::Read } else { Op::Write };
                    kind = Some(Kind::Data(op));
                }
                Column::Start(unit) => start = in_bytes(word, unit).ok_or_else(|| wrong(PLACE))?,
                Column::Size(unit) => size = in_bytes(word, unit).ok_or_else(|| wrong("a size"))?,
                Column::Volume => volume = Some(word),
                Column::Process => process = Some(word),
                Column::Other => {}
            }
        }
        let event = match kind {
            Some(Kind::Data(op)) => Event::bytes(op, start, size)?,
            _ => Event::new(Kind::Flush),
        };
        let device = match volume.map(|word| (word, decimal(word))) {
            None => 0,
            Some((_, Some(number))) => number,
            // Downwards, so that a volume with a name is none of those with a number.
            Some((word, None)) => u64::MAX - self.volumes.number(word, "volumes")?,
        };
        Ok(Line::Event(Event {
            at,
            device,
            name: process.or(volume).unwrap_or_default(),
            volume: volume.unwrap_or_default(),
            ..event
        }))
    }
}

const OPERATION: &str = "an operation such as R, W, read, write, trim or flush";
const PLACE: &str = "an offset below 2^64 bytes";

fn in_bytes(word: &[u8], unit: u64) -> Option<u64> {
    decimal(word)?.checked_mul(unit)
}

/// Kind of the operation `word`, a common word or flags of the kernel.
fn operation(word: &[u8]) -> Option<Kind> {
    let is = |words: &[&str]| {
        words
            .iter()
            .any(|w| word.eq_ignore_ascii_case(w.as_bytes()))
    };
    Some(match word {
        _ if is(&["r", "read", "rd"]) => Kind::Data(Op::Read),
        _ if is(&["w", "write", "wr"]) => Kind::Data(Op::Write),
        _ if is(&["trim", "discard", "unmap"]) => Kind::Data(Op::Trim),
        _ if is(&["flush", "sync"]) => Kind::Flush,
        _ => rwbs::parse(word).ok()?.event(0, 1)?.kind,
    })
}

impl Parser for Table {
    fn line<'a>(&mut self, line: &'a [u8]) -> Result<Line<'a>, Expected> {
        let is_first = self.separator.is_none();
        let found = [b',', b';']
            .into_iter()
            .find(|separator| line.contains(separator));
        let separator = *self.separator.get_or_insert(found);
        let is_separator = move |byte: &u8| Some(*byte) == separator;
        if is_first {
            let is_number = |word: &[u8]| scaled(trimmed(word), 0).is_some();
            let has_numbers = match separator {
                Some(_) => line.split(is_separator).any(is_number),
                None => Words(line).any(is_number),
            };
            if !has_numbers {
                return Ok(Line::Nothing);
            }
        }
        match separator {
            Some(_) => self.request(line.split(is_separator)),
            None => self.request(Words(line)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_columns_are_checked_and_named() {
        let list = "time_us,-,op,sector,size_bytes,volume";
        let columns: Columns = list.parse().unwrap();
        assert_eq!(columns.to_string(), list);
        assert_eq!(list.replace(',', "/").parse(), Ok(columns));
        let refused = |text: &str| text.parse::<Columns>().unwrap_err().to_string();
        let near = refused("time_us,op,offset_byte");
        assert!(near.contains("did you mean offset_bytes"), "{near}");
        for text in ["", "time_s,op,sector", "time_s,time_ms,op,sector,sectors"] {
            assert!(text.parse::<Columns>().is_err(), "{text}");
        }
        assert!(refused(&format!("{list}{}", ",-".repeat(40))).contains("at most 32 columns"));
    }
}
