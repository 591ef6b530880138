//! Meaning of the kernel's request flags, device numbers and decimal times.
//!
//! Flags are written as `blk_fill_rwbs` writes them: an optional `F` for a
//! flush before the request, one to three letters for the operation, then one
//! letter for each further flag, of which `F` is force unit access.

use super::bytes::{digits, divided};
use super::event::{Event, Kind};
use crate::request::Op;
use input::{Expected, expected};

/// Meaning of a word of flags, as it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flags {
    kind: Option<Kind>,
    preflush: bool,
    fua: bool,
    metadata: bool,
}

/// Operations by their letters in the kernel.
const OPERATIONS: [(&str, Op); 10] = [
    ("ZRA", Op::ZoneResetAll),
    ("ZR", Op::ZoneReset),
    ("ZA", Op::Append),
    ("ZO", Op::ZoneOpen),
    ("ZC", Op::ZoneClose),
    ("ZF", Op::ZoneFinish),
    ("WZ", Op::Zeroes),
    ("R", Op::Read),
    ("W", Op::Write),
    ("D", Op::Trim),
];

/// Letters that the kernel writes for `op`.
pub(super) fn letters(op: Op) -> &'static str {
    let known = OPERATIONS.iter().find(|(_, known)| *known == op);
    known.map_or("FF", |(letters, _)| letters)
}

/// The operation whose letters begin `word`, with the rest of `word`; `N` is any other operation.
fn operation(word: &[u8]) -> Option<(Option<Op>, &[u8])> {
    Some(match word {
        [b'R', rest @ ..] => (Some(Op::Read), rest),
        [b'W', b'Z', rest @ ..] => (Some(Op::Zeroes), rest),
        [b'W', rest @ ..] => (Some(Op::Write), rest),
        [b'D', rest @ ..] => (Some(Op::Trim), rest),
        [b'N', rest @ ..] => (None, rest),
        [b'Z', b'R', b'A', rest @ ..] => (Some(Op::ZoneResetAll), rest),
        [b'Z', b'R', rest @ ..] => (Some(Op::ZoneReset), rest),
        [b'Z', b'A', rest @ ..] => (Some(Op::Append), rest),
        [b'Z', b'O', rest @ ..] => (Some(Op::ZoneOpen), rest),
        [b'Z', b'C', rest @ ..] => (Some(Op::ZoneClose), rest),
        [b'Z', b'F', rest @ ..] => (Some(Op::ZoneFinish), rest),
        _ => return None,
    })
}

/// Parses a word of flags such as `WFS`.
pub(super) fn parse(word: &[u8]) -> Result<Flags, Expected> {
    let (preflush, rest) = match word {
        [b'F', rest @ ..] => (true, rest),
        _ => (false, word),
    };
    let (kind, further) = match operation(rest) {
        Some((op, further)) => (op.map(Kind::Data), further),
        None if preflush && !matches!(rest, [b'E' | b'A' | b'U', ..]) => (Some(Kind::Flush), rest),
        None => return refuse(),
    };
    let (mut fua, mut metadata) = (false, false);
    for letter in further {
        match letter {
            b'F' => fua = true,
            b'M' => metadata = true,
            // Secure erase, read-ahead, synchronous, atomic.
            b'E' | b'A' | b'S' | b'U' => {}
            _ => return refuse(),
        }
    }
    Ok(Flags {
        kind,
        preflush,
        fua,
        metadata,
    })
}

fn refuse<T>() -> Result<T, Expected> {
    expected("kernel request flags such as R, WS, D or FF")
}

impl Flags {
    /// The event of a request with these flags; `None` if it moves no data and flushes nothing.
    pub(super) fn event(self, start: u64, sectors: u64) -> Option<Event<'static>> {
        let kind = match self.kind? {
            // Old kernels request a flush by an empty write with preflush.
            _ if sectors == 0 && self.preflush => Kind::Flush,
            kind => kind,
        };
        Some(Event {
            start: if kind == Kind::Flush { 0 } else { start },
            sectors: if kind == Kind::Flush { 0 } else { sectors },
            preflush: self.preflush && kind != Kind::Flush,
            fua: self.fua && matches!(kind, Kind::Data(Op::Write | Op::Append)),
            metadata: self.metadata,
            ..Event::new(kind)
        })
    }
}

/// Parses a device such as `8,0` into one number.
pub(super) fn device(word: &[u8]) -> Option<u64> {
    let (major, minor) = divided(word, b',')?;
    let number = |word| u32::try_from(whole(word)?).ok();
    Some(device_number(number(major)?, number(minor)?))
}

/// Parses a whole number without white space around it.
fn whole(word: &[u8]) -> Option<u64> {
    digits(word).or_else(|| std::str::from_utf8(word).ok()?.parse().ok())
}

/// Packs a device into one number: the major number above the 20 bits of the minor, as the kernel
/// does.
pub(super) fn device_number(major: u32, minor: u32) -> u64 {
    u64::from(major) << 20 | u64::from(minor)
}

/// Parses seconds with up to nine decimals; the result is in nanoseconds.
pub(super) fn seconds(word: &[u8]) -> Option<u64> {
    let (seconds, fraction) = divided(word, b'.').unwrap_or((word, b""));
    if fraction.len() > 9 || !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let decimals = match fraction {
        [] => 0,
        _ => digits(fraction)? * 10_u64.pow(9 - fraction.len() as u32),
    };
    whole(seconds)?
        .checked_mul(1_000_000_000)?
        .checked_add(decimals)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(word: &str, sectors: u64) -> Option<Event<'static>> {
        parse(word.as_bytes()).unwrap().event(8, sectors)
    }

    #[test]
    fn flags_are_read_as_the_kernel_writes_them() {
        let write = event("WFSM", 8).unwrap();
        assert_eq!(write.kind, Kind::Data(Op::Write));
        assert!(write.fua && write.metadata && !write.preflush);
        let barrier = event("FWFS", 8).unwrap();
        assert!(barrier.preflush && barrier.fua);
        assert_eq!(event("RA", 8).unwrap().kind, Kind::Data(Op::Read));
        assert_eq!(event("DE", 8).unwrap().kind, Kind::Data(Op::Trim));
        assert_eq!(event("FF", 0).unwrap().kind, Kind::Flush);
        assert_eq!(event("FWS", 0).unwrap().kind, Kind::Flush);
        assert_eq!(event("NS", 0), None);
    }

    #[test]
    fn zone_commands_and_zeroes_keep_their_operation() {
        for (word, op) in [
            ("ZAS", Op::Append),
            ("WZS", Op::Zeroes),
            ("ZRS", Op::ZoneReset),
            ("ZRAS", Op::ZoneResetAll),
            ("ZO", Op::ZoneOpen),
            ("ZC", Op::ZoneClose),
            ("ZFS", Op::ZoneFinish),
        ] {
            assert_eq!(event(word, 8).unwrap().kind, Kind::Data(op), "{word}");
            assert!(word.starts_with(letters(op)), "{word}");
        }
        assert!(event("ZAFS", 8).unwrap().fua);
        assert!(!event("ZFS", 0).unwrap().fua);
    }

    #[test]
    fn other_words_are_refused() {
        for word in ["", "X", "Wq", "S", "8", "WR", "Z", "ZX", "WSZ"] {
            let Expected(what) = parse(word.as_bytes()).unwrap_err();
            assert_eq!(
                what, "kernel request flags such as R, WS, D or FF",
                "{word}"
            );
        }
    }

    #[test]
    fn decimal_seconds_are_exact() {
        assert_eq!(seconds(b"12.000001"), Some(12_000_001_000));
        assert_eq!(seconds(b"0.123456789"), Some(123_456_789));
        assert_eq!(seconds(b"7"), Some(7_000_000_000));
        assert_eq!(seconds(b"1.-2"), None);
        assert_eq!(seconds(b"99999999999999999999.0"), None);
    }
}
