//! Values of fio options that are words of their own: files, engines, accesses, distributions.

use super::options::{Access, Distribution};
use super::value::{Each, set_each, within, zones};
use crate::describe::unit::{OPS_MAX, theta};
use crate::generate::Theta;
use input::named::decimal;

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
