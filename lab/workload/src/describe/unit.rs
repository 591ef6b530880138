//! Units of parameter values: the check when text is parsed, and the readers of values.

use crate::files::Benchmarks;
use crate::generate::{Logs, Part, Sizes, Theta};
use crate::trace::{Action, Columns, Devices, Format};
use input::named::decimal;
use std::ops::Range;
use units::{Bytes, GIB, Ns, SECTOR};

/// Upper bound on the requests or calls of a workload. Some millions are simulated a second, so
/// this many take longer than a day.
pub(crate) const OPS_MAX: u64 = 100_000_000_000;

/// Form of the value of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number of bytes, a multiple of a sector and at most 256 MiB.
    Size,
    /// One size, or several with weights such as `4k/60:64k/40`.
    Sizes,
    /// Bytes, or hundredths of the drive.
    Part,
    /// Bytes of a file or of a file call, from 1 to 1 TiB.
    Length,
    /// Up to 64 lengths with colons between them.
    Lengths,
    /// Any whole number.
    Number,
    /// Number of files, from 1 to 2^24.
    Files,
    /// Number of records in a store that numbers them in 32 bits, from 1 to 2^30.
    Records,
    /// Number of threads, from 1 to 4096.
    Threads,
    /// Number of requests or calls, from 1 to `OPS_MAX`.
    Count,
    /// Number of requests or calls up to `OPS_MAX`; 0 for no limit.
    Limit,
    /// Requests in flight, from 1 to 65,535.
    Depth,
    /// A percentage from 0 to 100, with or without its sign.
    Percent,
    /// A percentage from 1 to 99.
    Share,
    /// A span of time, which may be 0.
    Time,
    /// A span of time that is not 0.
    PositiveTime,
    /// Requests per second up to 10^9, or 0.
    Rate,
    /// Requests per second, from 1 to 10^9.
    PositiveRate,
    /// A decimal above 0 and up to 3.
    Exponent,
    /// A factor up to 1,000 with at most six places, or 0.
    Speed,
    /// Number of placement handles, from 1 to 65,535.
    Handles,
    /// Number of circular logs, from 1 to [`Logs::MAX`].
    Logs,
    /// Bytes to deallocate at once: a multiple of a sector up to 1 GiB, or 0.
    Trim,
    /// Name of a trace format, or `auto`.
    Format,
    /// Meanings of the columns of a table, as [`Columns`] reads them, or `none`.
    Columns,
    /// A decimal factor above 0 and up to 1,000,000.
    Factor,
    /// Two sizes with a hyphen between them, or `all`.
    Range,
    /// Choice among the devices of a trace, as [`Devices`] reads it.
    Devices,
    /// Choice of the blktrace events that count as requests, as [`Action`] names them.
    Action,
    /// Up to 8 benchmarks of a store, which run one after the other.
    Benchmarks,
    /// One of these words.
    Choice(&'static [&'static str]),
}

impl Unit {
    const fn fixed_expectation(self) -> &'static str {
        match self {
            Self::Size => "a multiple of 512 up to 256MiB such as 4k",
            Self::Sizes => "multiples of 512 up to 256MiB such as 4k or 4k/60:64k/40",
            Self::Part => "a size such as 10GiB or a percentage such as 50%",
            Self::Length => "a size from 1 to 1TiB such as 16k",
            Self::Lengths => "sizes from 1 to 1TiB such as 4k or 64:512:4k",
            Self::Number => "a whole number",
            Self::Files => "a number from 1 to 16777216",
            Self::Records => "a number from 1 to 1073741824",
            Self::Threads => "a number from 1 to 4096",
            Self::Count => {
                "a number from 1 to 100000000000 (the largest takes more than a day to simulate)"
            }
            Self::Limit => {
                "a number up to 100000000000 (which takes more than a day to simulate), or 0"
            }
            Self::Depth | Self::Handles => "a number from 1 to 65535",
            Self::Percent => "a percentage from 0 to 100",
            Self::Share => "a percentage from 1 to 99",
            Self::Time => "a time such as 100us or 5ms",
            Self::PositiveTime => "a time above 0 such as 100us or 5ms",
            Self::Rate => "requests per second up to 1000000000, or 0",
            Self::PositiveRate => "requests per second from 1 to 1000000000",
            Self::Exponent => "a decimal above 0 and up to 3 such as 0.99",
            Self::Speed => "a factor up to 1000 such as 0.5, or 0",
            Self::Trim => "a multiple of 512 up to 1GiB, or 0",
            Self::Factor => "a factor above 0 and up to 1000000 such as 2 or 0.5",
            Self::Range => "all or a range of multiples of 512 such as 0-1GiB",
            Self::Devices => {
                "auto, together, packed, tenants, a device such as 3 or 8,0, or apart:64GiB"
            }
            Self::Action => "auto, queued, issued or completed",
            Self::Benchmarks => {
                "up to 8 of fillseq, fillrandom, overwrite, updaterandom, readrandom and readseq, those that fill first and alone, such as fillseq:overwrite/1000"
            }
            Self::Logs | Self::Format | Self::Columns | Self::Choice(_) => "",
        }
    }
}

impl input::named::Unit for Unit {
    fn expectation(self) -> String {
        match self {
            Self::Choice(words) => format!("one of {}", words.join(", ")),
            Self::Format => format!("auto or one of {}", Format::list()),
            Self::Columns => format!(
                "none, or one time, one operation, one offset and one size, among the columns {}, \
                 with a slash between them",
                Columns::names()
            ),
            Self::Logs => format!("a number from 1 to {}", Logs::MAX),
            other => other.fixed_expectation().to_owned(),
        }
    }

    fn accepts(self, text: &str) -> bool {
        let within = |least, most| number(text).is_some_and(|n| (least..=most).contains(&n));
        match self {
            Self::Size => size(text).is_some_and(|b| Sizes::one(b).is_some()),
            Self::Sizes => sizes(text).is_some(),
            Self::Part => part(text).is_some(),
            Self::Length => length(text).is_some(),
            Self::Lengths => lengths(text).is_some(),
            Self::Number => number(text).is_some(),
            Self::Files => within(1, 1 << 24),
            Self::Records => within(1, 1 << 30),
            Self::Threads => within(1, 4_096),
            Self::Count => within(1, OPS_MAX),
            Self::Limit => within(0, OPS_MAX),
            Self::Depth | Self::Handles => within(1, u64::from(u16::MAX)),
            Self::Percent => percent(text).is_some(),
            Self::Share => percent(text).is_some_and(|p| (1..=99).contains(&p)),
            Self::Time => time(text).is_some(),
            Self::PositiveTime => time(text).is_some_and(|t| t > Ns::ZERO),
            Self::Rate => within(0, 1_000_000_000),
            Self::PositiveRate => within(1, 1_000_000_000),
            Self::Exponent => theta(text).is_some(),
            Self::Speed => speed(text).is_some(),
            Self::Logs => within(1, u64::from(Logs::MAX)),
            Self::Trim => size(text).is_some_and(|b| b.0 <= GIB && b.0.is_multiple_of(SECTOR)),
            Self::Format => text == "auto" || text.parse::<Format>().is_ok(),
            Self::Columns => text == "none" || text.parse::<Columns>().is_ok(),
            Self::Factor => factor(text).is_some(),
            Self::Range => text == "all" || range(text).is_some(),
            Self::Devices => text.parse::<Devices>().is_ok(),
            Self::Action => action(text).is_some(),
            Self::Benchmarks => Benchmarks::parse(text).is_some(),
            Self::Choice(words) => words.contains(&text),
        }
    }
}

pub(super) fn number(text: &str) -> Option<u64> {
    text.parse().ok()
}

pub(crate) fn size(text: &str) -> Option<Bytes> {
    text.parse().ok()
}

/// Reads the size of a file or of a file call: 1 byte to 1 TiB.
pub(crate) fn length(text: &str) -> Option<u64> {
    let bytes = size(text)?.0;
    (1..=1 << 40).contains(&bytes).then_some(bytes)
}

/// Reads up to 64 lengths with colons between them.
pub(crate) fn lengths(text: &str) -> Option<Vec<u64>> {
    let all: Option<Vec<u64>> = text.split(':').map(length).collect();
    all.filter(|all| all.len() <= 64)
}

pub(crate) fn time(text: &str) -> Option<Ns> {
    text.parse().ok()
}

/// Reads a percentage, with or without its sign.
pub(crate) fn percent(text: &str) -> Option<u64> {
    let percent = number(text.strip_suffix('%').unwrap_or(text))?;
    (percent <= 100).then_some(percent)
}

pub(super) fn part(text: &str) -> Option<Part> {
    match text.strip_suffix('%') {
        Some(_) => percent(text).map(Part::Percent),
        None => size(text).map(Part::Bytes),
    }
}

/// One size, or several with weights as fio's `bssplit` writes them.
pub(super) fn sizes(text: &str) -> Option<Sizes> {
    if let Some(one) = size(text) {
        return Sizes::one(one);
    }
    let weighted = |part: &str| {
        let (bytes, weight) = part.split_once('/')?;
        Some((size(bytes)?, number(weight)?))
    };
    Sizes::weighted(text.split(':').map(weighted).collect::<Option<_>>()?)
}

/// Reads a decimal above 0 and up to 3, with at most six places; no rounding.
pub(crate) fn theta(text: &str) -> Option<Theta> {
    let millionths = decimal(text, 6)?;
    (1..=3_000_000)
        .contains(&millionths)
        .then_some(Theta(millionths))
}

/// A factor of time in millionths.
pub(crate) fn speed(text: &str) -> Option<u64> {
    decimal(text, 6).filter(|millionths| *millionths <= 1_000_000_000)
}

/// Reads a factor above 0 and up to 1,000,000 as millionths.
pub(super) fn factor(text: &str) -> Option<u64> {
    let millionths = decimal(text, 6)?;
    (1..=1_000_000_000_000)
        .contains(&millionths)
        .then_some(millionths)
}

/// Reads two sizes with a hyphen between them as a range of sectors that is not empty.
pub(super) fn range(text: &str) -> Option<Range<u64>> {
    let (start, end) = text.split_once('-')?;
    let sector = |text: &str| {
        size(text)
            .map(|bytes| bytes.0)
            .filter(|b| b.is_multiple_of(SECTOR))
    };
    let (start, end) = (sector(start)? / SECTOR, sector(end)? / SECTOR);
    (start < end).then_some(start..end)
}

pub(super) fn action(text: &str) -> Option<Action> {
    Some(match text {
        "auto" => Action::Auto,
        "queued" => Action::Queued,
        "issued" => Action::Issued,
        "completed" => Action::Completed,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponents_are_exact() {
        assert_eq!(theta("0.99"), Some(Theta(990_000)));
        assert_eq!(theta("1"), Some(Theta(1_000_000)));
        for text in ["0", "3.000001", "0.1234567", ".5", "1e-1", "+1", "-1", ""] {
            assert_eq!(theta(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_have_weights() {
        let two = Sizes::weighted(vec![(Bytes(4096), 60), (Bytes(65536), 40)]);
        assert_eq!(sizes("4k/60:64k/40"), two);
        for text in ["", "1000", "4k/", "4k/0", "0", "257m", "4k/1:5000/1"] {
            assert_eq!(sizes(text), None, "{text}");
        }
    }

    #[test]
    fn ranges_and_speeds_are_exact() {
        assert_eq!(range("0-1GiB"), Some(0..1 << 21));
        assert_eq!(range("512-1k"), Some(1..2));
        for text in ["", "-", "1GiB", "1k-1k", "2k-1k", "0-100", "0-1k-2k"] {
            assert_eq!(range(text), None, "{text}");
        }
        assert_eq!(factor("0.5"), Some(500_000));
        for text in ["0", "1000001", "-1", "x"] {
            assert_eq!(factor(text), None, "{text}");
        }
    }

    #[test]
    fn parts_are_bytes_or_hundredths() {
        assert_eq!(part("50%"), Some(Part::Percent(50)));
        assert_eq!(part("1g"), Some(Part::Bytes(Bytes(1 << 30))));
        assert_eq!(part("101%"), None);
        assert_eq!(Part::Percent(33).of(Bytes(100 << 20)).0 % SECTOR, 0);
    }
}
