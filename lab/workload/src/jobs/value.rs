//! Values of fio options: sizes, times, shares, and lists with one element a direction.
//!
//! Sizes are binary whatever their suffix, as with fio's default `kb_base=1024`.

use crate::describe::unit;
use crate::generate::Part;
use crate::trace::MAX_SECTORS;
use units::{Ns, SECTOR};

/// Reads, writes and trims, by [`Direction`](super::Direction).
pub(super) type Each<T> = [T; 3];

/// Sizes of requests in one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sizes {
    /// All requests have this size.
    One(u64),
    /// Multiples of the first size up to the second one, all equally likely.
    Range(u64, u64),
    /// Sizes, each with its weight.
    Split(Vec<(u64, u64)>),
}

impl Sizes {
    pub(super) fn smallest(&self) -> u64 {
        match self {
            Self::One(size) | Self::Range(size, _) => *size,
            Self::Split(sizes) => sizes.iter().map(|s| s.0).min().unwrap_or(SECTOR),
        }
    }

    pub(super) fn largest(&self) -> u64 {
        match self {
            Self::One(size) | Self::Range(_, size) => *size,
            Self::Split(sizes) => sizes.iter().map(|s| s.0).max().unwrap_or(SECTOR),
        }
    }

    /// Draws the size of one request.
    pub(super) fn draw(&self, rng: &mut sim::Rng) -> u64 {
        match self {
            Self::One(size) => *size,
            Self::Range(least, most) => least * (1 + rng.below(most / least)),
            Self::Split(sizes) => {
                let mut rest = rng.below(sizes.iter().map(|s| s.1).sum());
                let drawn = sizes.iter().find(|(_, weight)| {
                    let is_drawn = rest < *weight;
                    rest = rest.saturating_sub(*weight);
                    is_drawn
                });
                drawn.map_or_else(|| self.smallest(), |s| s.0)
            }
        }
    }
}

/// Reads a whole number, in decimal or hexadecimal, with a binary suffix.
pub(super) fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    if let Some(digits) = text.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok();
    }
    let lower = text.to_ascii_lowercase();
    let plain = lower.replace("ib", "").replace('b', "");
    match plain.strip_suffix('p') {
        Some(digits) => digits.parse::<u64>().ok()?.checked_mul(1 << 50),
        None => unit::size(&plain).map(|bytes| bytes.0),
    }
}

/// Reads a number of at least `least` and at most `most`.
pub(super) fn within(text: &str, least: u64, most: u64) -> Option<u64> {
    number(text).filter(|n| (least..=most).contains(n))
}

/// Reads bytes, or hundredths of a file.
pub(super) fn part(text: &str) -> Option<Part> {
    match text.strip_suffix('%') {
        Some(_) => unit::percent(text).map(Part::Percent),
        None => number(text).map(|bytes| Part::Bytes(units::Bytes(bytes))),
    }
}

/// Reads the size of a request: a multiple of a sector up to 256 MiB.
fn request(text: &str) -> Option<u64> {
    within(text, SECTOR, MAX_SECTORS * SECTOR).filter(|bytes| bytes.is_multiple_of(SECTOR))
}

/// Reads one element of `bs`.
pub(super) fn one_size(text: &str) -> Option<Sizes> {
    request(text).map(Sizes::One)
}

/// Reads one element of `bsrange`.
pub(super) fn size_range(text: &str) -> Option<Sizes> {
    let (least, most) = text.split_once('-')?;
    let (least, most) = (request(least)?, request(most)?);
    (least <= most).then_some(Sizes::Range(least, most))
}

/// Reads `bssplit`: sizes with percentages; those without one share the rest.
pub(super) fn size_split(text: &str) -> Option<Sizes> {
    let (sizes, shares): (Vec<&str>, Vec<Option<u64>>) = shares(text)?.into_iter().unzip();
    let sizes: Option<Vec<u64>> = sizes.into_iter().map(request).collect();
    Some(Sizes::Split(
        sizes?.into_iter().zip(filled(&shares)?).collect(),
    ))
}

/// Splits `a/60:b/40:c` into names and percentages, 64 at most.
fn shares(text: &str) -> Option<Vec<(&str, Option<u64>)>> {
    let one = |part| {
        let (name, share) = str::split_once(part, '/').unwrap_or((part, ""));
        let share = match share {
            "" => None,
            share => Some(unit::percent(share)?),
        };
        Some((name, share))
    };
    let all: Option<Vec<_>> = text.split(':').map(one).collect();
    all.filter(|all| all.len() <= 64)
}

/// Percentages with the missing ones filled in, in hundredths of a percent; `None` if they exceed
/// 100 % or are all 0.
fn filled(shares: &[Option<u64>]) -> Option<Vec<u64>> {
    let given: u64 = shares.iter().flatten().sum();
    let missing = shares.iter().filter(|share| share.is_none()).count() as u64;
    let rest = (10_000_u64).checked_sub(given * 100)?;
    let each = rest.checked_div(missing).unwrap_or(0);
    let all = shares.iter().map(|share| share.map_or(each, |s| s * 100));
    let all: Vec<u64> = all.collect();
    (all.iter().sum::<u64>() > 0).then_some(all)
}

/// Zone of a distribution: its hundredths of hundredths of the accesses, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ZoneShare {
    pub(super) accesses: u64,
    /// Hundredths of a percent of the file, or bytes.
    pub(super) length: u64,
}

/// Reads the zones of `zoned` (percentages of the file) or of `zoned_abs` (bytes).
pub(super) fn zones(text: &str, is_absolute: bool) -> Option<Vec<ZoneShare>> {
    let parts = text
        .split(':')
        .map(|part| part.split_once('/').unwrap_or((part, "")));
    let parts: Vec<(&str, &str)> = parts.collect();
    let percents = |texts: Vec<&str>| {
        let read = |text| match text {
            "" => Some(None),
            share => unit::percent(share).map(Some),
        };
        let read: Option<Vec<Option<u64>>> = texts.into_iter().map(read).collect();
        filled(&read?)
    };
    let accesses = percents(parts.iter().map(|p| p.0).collect())?;
    let lengths = match is_absolute {
        true => {
            let bytes = parts.iter().map(|p| number(p.1).filter(|&bytes| bytes > 0));
            bytes.collect::<Option<Vec<u64>>>()?
        }
        false => percents(parts.iter().map(|p| p.1).collect())?,
    };
    let zones = accesses.into_iter().zip(lengths);
    let zones = zones.map(|(accesses, length)| ZoneShare { accesses, length });
    Some(zones.collect()).filter(|all: &Vec<_>| all.len() <= 64)
}

/// Sets the directions that `text`, a list with commas, gives: one element for all, or one for
/// each; a missing last one is like that before it. `None` if an element cannot be read.
pub(super) fn set_each<T: Clone>(
    each: &mut Each<T>,
    text: &str,
    read: impl Fn(&str) -> Option<T>,
) -> Option<()> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    if parts.len() > each.len() {
        return None;
    }
    for (index, slot) in each.iter_mut().enumerate() {
        let part = parts[index.min(parts.len() - 1)];
        if !part.is_empty() {
            *slot = read(part)?;
        } else if parts.len() == 1 {
            return None;
        }
    }
    Some(())
}

/// Reads a time; a bare number is in units of `bare`.
pub(super) fn time(text: &str, bare: Ns) -> Option<Ns> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, suffix) = text.split_at(digits);
    let unit = match suffix.trim().to_ascii_lowercase().as_str() {
        "" => bare.0,
        "ns" | "nsec" => 1,
        "us" | "usec" => 1_000,
        "ms" | "msec" => 1_000_000,
        "s" | "sec" => SECOND,
        "m" | "min" => 60 * SECOND,
        "h" => 3_600 * SECOND,
        "d" => 86_400 * SECOND,
        _ => return None,
    };
    let span = number.parse::<u64>().ok()?.checked_mul(unit)?;
    (span <= LONGEST).then_some(Ns(span))
}

const SECOND: u64 = 1_000_000_000;

/// Longest time: ten years, so that sums of a few times do not overflow.
const LONGEST: u64 = 3_650 * 86_400 * SECOND;

/// Reads a time, or a range of times such as `2-5`.
pub(super) fn time_range(text: &str) -> Option<(Ns, Ns)> {
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let (from, to) = (time(from, Ns::secs(1))?, time(to, Ns::secs(1))?);
    (from <= to).then_some((from, to))
}

/// Reads a flag; an empty value sets it.
pub(super) fn flag(text: &str) -> Option<bool> {
    match text {
        "" | "1" | "true" => Some(true),
        "0" | "false" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary_and_times_have_units() {
        for (text, bytes) in [("4k", 4096), ("1GB", 1 << 30), ("0x10", 16), ("2KiB", 2048)] {
            assert_eq!(number(text), Some(bytes), "{text}");
        }
        let second = Ns::secs(1);
        assert_eq!(time("5m", second), Some(Ns::secs(300)));
        assert_eq!(time("7", Ns::us(1)), Some(Ns::us(7)));
        assert_eq!(time("2usec", second), Some(Ns::us(2)));
        for text in ["", "s", "-1", "1x", "99999999999999999999", "9999999d"] {
            assert_eq!(time(text, second), None, "{text}");
        }
    }

    #[test]
    fn lists_set_their_directions() {
        let mut each = [1, 2, 3];
        set_each(&mut each, "7", number).unwrap();
        assert_eq!(each, [7, 7, 7]);
        set_each(&mut each, ",8", number).unwrap();
        assert_eq!(each, [7, 8, 8]);
        set_each(&mut each, "1,2,3", number).unwrap();
        assert_eq!(each, [1, 2, 3]);
        assert_eq!(set_each(&mut each, "1,2,3,4", number), None);
        assert_eq!(set_each(&mut each, "", number), None);
    }

    #[test]
    fn sizes_without_a_share_get_the_rest() {
        let split = size_split("4k/10:64k/50:32k/").unwrap();
        let sizes = vec![(4_096, 1_000), (65_536, 5_000), (32_768, 4_000)];
        assert_eq!(split, Sizes::Split(sizes));
        for text in ["", "4k/60:8k/50", "1000/100", "4k/0", "4k/x"] {
            assert_eq!(size_split(text), None, "{text}");
        }
    }

    #[test]
    fn zones_have_shares_of_accesses_and_lengths() {
        let read = zones("50/5:30/15:20/", false).unwrap();
        assert_eq!(read[2].length, 8_000);
        assert_eq!(zones("60/1g:40/2g", true).unwrap()[1].length, 2 << 30);
        assert_eq!(zones("60/1g:40/", true), None);
    }
}
