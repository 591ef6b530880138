//! Detection of the trace format from the beginning of the contents.
//!
//! A format is taken only if the beginning of the contents reads as that format and its values are
//! plausible, and only if no second format fits. Columns of numbers do not state their units, so
//! sizes and times decide: no trace in sectors has only sizes that are multiples of 512, as sizes
//! in bytes are, and no trace in nanoseconds has twenty million requests a second.

use super::event::{Event, Kind, Line};
use super::{Devices, Format, Options, Reader, blktrace, flb, parser, records, rwbs};
use crate::request::Op;
use crate::trace::Action;
use input::{Expected, excerpt};
use units::Ns;

/// Lines that are examined.
const LINES: usize = 256;

/// Shortest plausible time between requests, on average, in a trace in nanoseconds.
const GAP: u64 = 50;

/// Digits from which a number is taken for a time and not for a process: microseconds since 1970
/// have 16.
const DIGITS: usize = 13;

/// Seconds since 1970 of plausible times: from 2001 to 2103.
const EPOCH: std::ops::Range<u64> = 1_000_000_000..4_200_000_000;

/// Beginnings of first lines that name their format or its columns, in lower case.
const HEADINGS: [(&str, Format); 10] = [
    ("fio version ", Format::Fio),
    ("time_ns,", Format::Csv),
    ("timestamp,hostname,", Format::Msr),
    ("device_id,opcode,", Format::Alibaba),
    ("timestamp,offset,size,", Format::Tencent),
    ("timestamp,response,", Format::Systor),
    ("version,time,op,", Format::CloudPhysics),
    ("ts,lba,op,size", Format::CloudPhysics),
    ("time(s)", Format::Biosnoop),
    ("version = ", Format::TraceCmd),
];

/// Reason against a format, at one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Flaw {
    /// Line number, from 1.
    pub(super) line: u64,
    pub(super) expected: String,
    pub(super) found: String,
}

/// Reason for which no format is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Undecided {
    /// The only format that could fit has implausible or unusual values.
    Doubtful(Format, Flaw),
    /// The contents fit oracleGeneral, with objects that are no blocks.
    Objects,
    /// The contents fit each of these formats.
    Several(Vec<Format>),
    /// No format fits: the formats with similar columns, each with its flaw, and the first line.
    None(Vec<(Format, Flaw)>, String),
}

/// Result of reading the first lines as a format.
enum Fit {
    Good,
    /// The lines read well, and their values are unusual.
    Doubtful(Flaw),
    /// The lines read well, and a value is impossible.
    Implausible(Flaw),
    /// A line does not parse.
    Bad(Flaw),
}

/// Format of contents that begin with `head`.
pub(super) fn detect(head: &[u8]) -> Result<Format, Undecided> {
    if blktrace::magic(head).is_some() {
        return Ok(Format::Blktrace);
    }
    if head.starts_with(&flb::NAME) {
        return Ok(Format::Flb);
    }
    if let Some(format) = records::recognize(head).filter(|_| head.contains(&0)) {
        return match format == Format::Oracle && records::has_objects(head) {
            true => Err(Undecided::Objects),
            false => Ok(format),
        };
    }
    let text = String::from_utf8_lossy(head);
    if let Some(format) = tracepoints(&text) {
        return Ok(format);
    }
    let lines = lines(&text);
    let Some((_, first)) = lines.first() else {
        return Err(Undecided::None(Vec::new(), String::new()));
    };
    let heading = first.to_ascii_lowercase();
    let headed = HEADINGS
        .iter()
        .find(|(begins, _)| heading.starts_with(begins));
    if let Some((_, format)) = headed {
        return Ok(*format);
    }
    let alike = Format::ALL.into_iter().filter(|f| resembles(*f, first));
    let fits = alike.map(|format| (format, fit(format, &lines)));
    decide(fits.collect(), lines[0].1)
}

/// The program that printed the block tracepoints in `text`, if it has some.
fn tracepoints(text: &str) -> Option<Format> {
    let has = |words: [&str; 2]| words.iter().any(|word| text.contains(word));
    let begins = |word| text.trim_start().starts_with(word);
    if has([": block:block_rq_", ": block:block_bio_"]) {
        return Some(Format::Perf);
    }
    has([": block_rq_", ": block_bio_"]).then_some(match begins("cpus=") || begins("version = ") {
        true => Format::TraceCmd,
        false => Format::Ftrace,
    })
}

fn decide(fits: Vec<(Format, Fit)>, first: &str) -> Result<Format, Undecided> {
    let able = |fit: &Fit| matches!(fit, Fit::Good | Fit::Doubtful(_));
    let able = fits.iter().filter(|(_, fit)| able(fit));
    let able: Vec<Format> = able.map(|(format, _)| *format).collect();
    match (able.as_slice(), fits.as_slice()) {
        // The reader of the only similar format reports the fault and its line.
        ([], [(only, Fit::Bad(_))]) => Ok(*only),
        ([], [(only, Fit::Implausible(flaw))]) => Err(Undecided::Doubtful(*only, flaw.clone())),
        ([], _) => {
            let reasons = fits.into_iter().filter_map(|(format, fit)| match fit {
                Fit::Bad(flaw) | Fit::Implausible(flaw) | Fit::Doubtful(flaw) => {
                    Some((format, flaw))
                }
                Fit::Good => None,
            });
            Err(Undecided::None(reasons.collect(), first.to_owned()))
        }
        ([only], _) => {
            let fit = fits.into_iter().find(|(format, _)| format == only);
            match fit {
                Some((_, Fit::Doubtful(flaw))) => Err(Undecided::Doubtful(*only, flaw)),
                _ => Ok(*only),
            }
        }
        (several, _) => Err(Undecided::Several(several.to_vec())),
    }
}

/// Whole lines that are neither empty nor a comment, with their numbers; at most [`LINES`].
fn lines(text: &str) -> Vec<(u64, &str)> {
    // The last line may be cut off, unless it is the only one.
    let whole = text.rfind('\n').map_or(text, |end| &text[..end]);
    let numbered = (1..).zip(whole.lines().map(str::trim));
    let said = numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    said.take(LINES).collect()
}

/// Whether `line` has columns like those of `format`, by their number and a few of their values.
fn resembles(format: Format, line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let columns: Vec<&str> = line.split(',').map(str::trim).collect();
    let five = columns.len() == 5;
    match format {
        Format::Csv => {
            columns.len() >= 5
                && columns[..4].iter().all(|c| !c.contains(' '))
                && rwbs::parse(columns[1].as_bytes()).is_ok()
        }
        Format::Msr => {
            let kind =
                |c: &str| ["type", "read", "write"].contains(&c.to_ascii_lowercase().as_str());
            columns.len() == 7 && kind(columns[3])
        }
        Format::Mqsim => words.len() == 5 && words.iter().all(|word| is_number(word)),
        Format::Blkparse => words.len() >= 6 && rwbs::device(words[0].as_bytes()).is_some(),
        Format::Alibaba => five && is_letter(columns[1]) && is_number(columns[4]),
        Format::Tencent => five && columns.iter().all(|column| is_number(column)),
        Format::Spc => columns.len() >= 5 && is_letter(columns[3]) && is_number(columns[1]),
        Format::Systor => {
            let kind = ["", "R", "W", "Read", "Write"].contains(columns.get(2).unwrap_or(&"-"));
            columns.len() == 6 && kind && is_number(columns[0])
        }
        Format::CloudPhysics => match columns.as_slice() {
            [_, _, kind, _] => is_letter(kind),
            ["1" | "2", _, code, size, _] => code.len() == 2 && is_number(size),
            _ => false,
        },
        Format::Fiu => {
            let kind = |behind: usize| words.iter().rev().nth(behind).is_some_and(|w| is_letter(w));
            words.len() >= 7 && is_number(words[1]) && (kind(2) || kind(3))
        }
        Format::DiskSim => {
            words.len() == 5
                && words[..4].iter().all(|word| is_number(word))
                && words[0].contains('.')
        }
        Format::Biosnoop => {
            let kind = |behind: usize| words.iter().rev().nth(behind).is_some_and(|w| is_letter(w));
            words.len() >= 6 && words[0].contains('.') && (kind(3) || kind(4))
        }
        Format::Fio
        | Format::Blktrace
        | Format::Ftrace
        | Format::Perf
        | Format::TraceCmd
        | Format::Vscsi
        | Format::Oracle
        | Format::Flb
        | Format::Table => false,
    }
}

/// Whether `word` is a decimal number, with or without a sign and a fraction.
fn is_number(word: &str) -> bool {
    let digits = word.trim_start_matches('-').replacen('.', "", 1);
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

fn is_letter(word: &str) -> bool {
    ["R", "r", "W", "w"].contains(&word)
}

/// Reads `lines` as `format` and rates the result.
fn fit(format: Format, lines: &[(u64, &str)]) -> Fit {
    let mut parser = parser(format, Action::Auto, b"").expect("binary contents resemble no format");
    let mut reader = Reader::new(
        Options {
            devices: Devices::Together,
            ..Options::default()
        },
        format,
    );
    let mut sample = Sample::default();
    for &(number, line) in lines {
        let flaw = |expected: String| Flaw {
            line: number,
            expected,
            found: excerpt(line),
        };
        let taken = parser.line(line.as_bytes()).and_then(|said| {
            reader.take(&said)?;
            Ok(said)
        });
        match taken {
            Err(Expected(expected)) => return Fit::Bad(flaw(expected)),
            Ok(Line::Event(event)) => {
                if let Some(expected) = implausible(format, &event) {
                    return Fit::Implausible(flaw(expected));
                }
                sample.add(format, &event, flaw);
            }
            Ok(_) => {}
        }
    }
    match sample.doubt(format) {
        Some(flaw) => Fit::Doubtful(flaw),
        None => Fit::Good,
    }
}

/// Expectation that an impossible value of `event` violates, if it has one.
fn implausible(format: Format, event: &Event<'_>) -> Option<String> {
    let digits = event.name.len() >= DIGITS && event.name.iter().all(u8::is_ascii_digit);
    match format {
        Format::Csv if digits => Some("a process in column 5, and no time".to_owned()),
        Format::Alibaba if event.widened => {
            Some("an offset and a length in multiples of 512 bytes".to_owned())
        }
        _ => None,
    }
}

/// Statistics of the lines read so far.
#[derive(Default)]
struct Sample {
    first: Option<Flaw>,
    widened: Option<Flaw>,
    outside: Option<Flaw>,
    /// Reads and writes, and those among them whose size is a multiple of 512.
    sized: u64,
    bytes_alike: u64,
    earliest: Option<u64>,
    latest: u64,
    count: u64,
}

impl Sample {
    fn add(&mut self, format: Format, event: &Event<'_>, flaw: impl Fn(String) -> Flaw) {
        let here = || Some(flaw(String::new()));
        if self.first.is_none() {
            self.first = here();
        }
        if event.widened && self.widened.is_none() {
            self.widened = here();
        }
        let since_1970 = matches!(format, Format::Tencent | Format::Systor);
        let outside = since_1970 && !EPOCH.contains(&(event.at / Ns::secs(1).0));
        if outside && self.outside.is_none() {
            self.outside = here();
        }
        if matches!(event.kind, Kind::Data(Op::Read | Op::Write)) && event.sectors > 0 {
            self.sized += 1;
            self.bytes_alike += u64::from(event.sectors.is_multiple_of(512));
        }
        self.count += 1;
        self.earliest = Some(self.earliest.unwrap_or(event.at).min(event.at));
        self.latest = self.latest.max(event.at);
    }

    /// Flaw that makes `format` doubtful, if there is one.
    fn doubt(self, format: Format) -> Option<Flaw> {
        let said =
            |flaw: Option<Flaw>, expected: String| flaw.map(|flaw| Flaw { expected, ..flaw });
        let in_sectors = matches!(
            format,
            Format::Csv | Format::Mqsim | Format::Tencent | Format::DiskSim | Format::Fiu
        );
        if in_sectors && self.sized > 0 && self.bytes_alike == self.sized {
            let expected = "sizes in sectors of 512 bytes, not multiples of 512 alone, which look \
                            like bytes";
            return said(self.first, expected.to_owned());
        }
        let span = self.latest - self.earliest.unwrap_or_default();
        let gaps = self.count.saturating_sub(1);
        if format == Format::Mqsim && span > 0 && span < gaps * GAP {
            let expected = format!(
                "times in nanoseconds, of which these would be {gaps} requests within {}",
                Ns(span)
            );
            return said(self.first, expected);
        }
        let outside = "a time in seconds since 1970 in column 1".to_owned();
        let widened = "addresses and sizes in multiples of 512 bytes".to_owned();
        match format {
            Format::Tencent => said(self.outside, outside),
            Format::Systor => said(self.outside, outside).or(said(self.widened, widened)),
            Format::Msr | Format::Spc | Format::CloudPhysics | Format::Biosnoop => {
                said(self.widened, widened)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Format, Undecided> {
        detect(text.as_bytes())
    }

    #[test]
    fn format_is_detected_from_contents() {
        for (text, format) in [
            ("time_ns,flags,sector,sectors,process\n", Format::Csv),
            ("0,RM,69896,8,db_bench\n", Format::Csv),
            (
                "128166372003061629,hm,0,Read,383496192,32768,113736\n",
                Format::Msr,
            ),
            ("\n938513000 4 264719034 16 0\n", Format::Mqsim),
            ("fio version 3 iolog\n", Format::Fio),
            ("\x07taexxxx", Format::Blktrace),
            (
                "  8,0 1 1 0.000000000 697 Q W 223490 + 8 [kjournald]\n",
                Format::Blkparse,
            ),
            (
                "# tracer: nop\n x-1 [0] ... 1.0: block_rq_issue: ",
                Format::Ftrace,
            ),
            ("3,R,8192,4096,1577808000000046\n", Format::Alibaba),
            ("1538323200,12910952,128,0,1063\n", Format::Tencent),
            ("0,20941264,8192,W,0.551706\n", Format::Spc),
            (
                "device_id,opcode,offset,length,timestamp\n7,R,1024,2048,10\n",
                Format::Alibaba,
            ),
        ] {
            assert_eq!(of(text), Ok(format), "{text}");
        }
        for text in ["#!/bin/sh\necho hello, world\n", ""] {
            assert!(matches!(of(text), Err(Undecided::None(..))), "{text}");
        }
    }

    #[test]
    fn contents_of_two_formats_are_refused_with_both_names() {
        let both = Err(Undecided::Several(vec![Format::Csv, Format::Alibaba]));
        assert_eq!(of("10,W,4096,1024,77\n20,R,8192,512,78\n"), both);
        // A request of 8 bytes is impossible on a block device.
        assert_eq!(of("10,W,4096,8,77\n20,R,8192,16,78\n"), Ok(Format::Csv));
    }

    #[test]
    fn numbers_of_other_units_are_doubted() {
        for text in [
            // Milliseconds and bytes.
            "12 0 409600 4096 1\n40 0 8192 65536 0\n",
            "1200000 0 409600 4096 1\n",
            // Milliseconds and sectors.
            "1 0 409600 8 1\n3 0 8192 16 0\n9 0 0 8 1\n",
            // Time of day and bytes, as SYSTOR '17 has them.
            "12.5,0.001,R,0,4096,4096\n",
            // Milliseconds and bytes, as DiskSim has sectors.
            "12.5 0 409600 4096 1\n",
            // Seconds, bytes and the name of a host.
            "1600000000,W,409600,4096,web1\n1600000001,R,8192,8192,web1\n",
            "1600000000,4096,8192,1,77\n",
            "12,4096,8,1,77\n",
            "1,h,0,Read,100,700,1\n",
            "0,20941264,100,W,0.551706\n",
        ] {
            assert!(matches!(of(text), Err(Undecided::Doubtful(..))), "{text}");
        }
    }
}
