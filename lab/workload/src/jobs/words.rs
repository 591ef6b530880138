//! Values of fio options that are words of their own: files, engines, accesses, distributions.

use super::value::{Each, ZoneShare, set_each, within, zones};
use crate::describe::unit::{OPS_MAX, theta};
use crate::generate::Theta;
use input::named::decimal;

/// The value of `rw`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Access {
    pub(super) random: bool,
    pub(super) reads: bool,
    pub(super) writes: bool,
    pub(super) trims: bool,
    /// Number of requests that a random place serves.
    pub(super) run: u64,
    /// Bytes from the end of a request to the start of the next one in a sequence.
    pub(super) gap: i64,
    /// Whether the requests of a run are at the same place.
    pub(super) identical: bool,
}

/// Order of random places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Distribution {
    Uniform,
    Zipf(Theta),
    /// The parameter h of a Pareto distribution, in millionths.
    Pareto(u64),
    /// Deviation of a normal distribution, in millionths of hundredths of the file.
    Normal(u64),
    Zoned(Vec<ZoneShare>),
    ZonedAbsolute(Vec<ZoneShare>),
}

// Expected values, for errors.
pub(super) const RW: &str = "read, write, trim, rw, trimwrite, or these with rand before them, and a number \
                  after a colon";
pub(super) const SIZES: &str = "multiples of 512 up to 256m such as 4k or 4k,8k";
pub(super) const RANGE: &str =
    "ranges of multiples of 512 up to 256m such as 4k-16k or 4k-8k,16k-32k";
pub(super) const SPLIT: &str = "sizes and percentages such as 4k/60:64k/40, in at most three lists";
pub(super) const ALIGN: &str = "multiples of 512 such as 4k";
pub(super) const PART: &str = "a size such as 1g or a percentage such as 50%";
pub(super) const SIZE: &str = "a size such as 1g";
pub(super) const PERCENT: &str = "a percentage from 0 to 100";
pub(super) const NUMBER: &str = "a whole number";
pub(super) const DEPTH: &str = "a number from 1 to 65535";
pub(super) const COUNT: &str =
    "a number from 1 to 100000000000 (the largest takes more than a day to simulate)";
pub(super) const TIME: &str = "a time such as 10, 500us, 30s or 5m";
pub(super) const FLAG: &str = "0 or 1";
pub(super) const DISTRIBUTION: &str = "random, zipf:0.99, pareto:0.2, normal:5, zoned:60/10:40/90 or \
                            zoned_abs:60/1g:40/9g";

/// Names of files, with colons between them; a colon that belongs to a name follows a backslash.
pub(super) fn names_of(value: &str) -> Result<Vec<String>, String> {
    let mut names = vec![String::new()];
    let mut is_escaped = false;
    for c in value.chars() {
        match c {
            ':' if !is_escaped => names.push(String::new()),
            _ => names[0..].last_mut().expect("one at least").push(c),
        }
        is_escaped = c == '\\';
    }
    let is_whole = names.iter().all(|name| !name.is_empty()) && names.len() <= 1024;
    is_whole
        .then_some(names)
        .ok_or_else(|| "names of files or devices".to_owned())
}

/// Whether an engine of block or file requests is one whose calls wait for their result.
pub(super) fn engine(value: &str) -> Result<bool, String> {
    let name = value.split(':').next().unwrap_or_default();
    match name {
        "sync" | "psync" | "vsync" | "pvsync" | "pvsync2" | "mmap" => Ok(true),
        "libaio" | "io_uring" | "io_uring_cmd" | "posixaio" | "solarisaio" | "windowsaio"
        | "sg" | "null" | "libblkio" | "libzbc" | "xnvme" | "nbd" | "external" | "splice" | "" => {
            Ok(false)
        }
        _ => Err("an engine of block or file requests such as libaio or io_uring".to_owned()),
    }
}

pub(super) fn access(text: &str) -> Option<Access> {
    let (word, number) = text
        .split_once(':')
        .map_or((text, None), |(w, n)| (w, Some(n)));
    let (random, kind) = match word.strip_prefix("rand") {
        Some(kind) => (true, kind),
        None => (false, word),
    };
    let (reads, writes, trims) = match kind {
        "read" => (true, false, false),
        "write" => (false, true, false),
        "trim" => (false, false, true),
        "rw" => (true, true, false),
        "readwrite" if !random => (true, true, false),
        "trimwrite" => (false, true, true),
        _ => return None,
    };
    let (mut run, mut gap) = (1, 0);
    match number {
        None => {}
        Some(number) if random => run = within(number, 1, OPS_MAX)?,
        Some(number) => {
            let (sign, digits) = match number.strip_prefix('-') {
                Some(digits) => (-1, digits),
                None => (1, number),
            };
            let bytes = within(digits, 0, 1 << 50).filter(|n| n.is_multiple_of(512))?;
            gap = sign * bytes as i64;
        }
    }
    Some(Access {
        random,
        reads,
        writes,
        trims,
        run,
        gap,
        identical: false,
    })
}

/// Reads `random_distribution`, whose zones may differ by direction.
pub(super) fn distribution(text: &str) -> Option<Each<Distribution>> {
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    let millionths = |most: u64| decimal(rest, 6).filter(|n| (1..most).contains(n));
    let one = match kind {
        "random" if rest.is_empty() => Distribution::Uniform,
        "zipf" if rest.is_empty() => Distribution::Zipf(Theta(1_100_000)),
        "zipf" => Distribution::Zipf(theta(rest)?),
        "pareto" if rest.is_empty() => Distribution::Pareto(200_000),
        "pareto" => Distribution::Pareto(millionths(1_000_000)?),
        "normal" if rest.is_empty() => Distribution::Normal(0),
        "normal" => Distribution::Normal(decimal(rest, 6).filter(|&n| n < 100_000_000)?),
        "zoned" | "zoned_abs" => {
            let is_absolute = kind == "zoned_abs";
            let mut each = [const { Distribution::Uniform }; 3];
            set_each(&mut each, rest, |text| {
                let zones = zones(text, is_absolute)?;
                Some(match is_absolute {
                    true => Distribution::ZonedAbsolute(zones),
                    false => Distribution::Zoned(zones),
                })
            })?;
            return Some(each);
        }
        _ => return None,
    };
    Some([one.clone(), one.clone(), one])
}
