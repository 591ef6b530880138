//! Meaning of the kernel's request flags, device numbers and decimal times.
//!
//! Flags are written as `blk_fill_rwbs` writes them: an optional `F` for a
//! flush before the request, one to three letters for the operation, then one
//! letter for each further flag, of which `F` is force unit access.

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

/// Letters that may follow the operation: secure erase, force unit access, read-ahead, synchronous,
/// metadata, atomic.
const FURTHER: &str = "EFASMU";

/// Operations by their letters in the kernel; `N` is any other operation. A word stands before its
/// own prefixes, as the first match counts.
const OPERATIONS: [(&str, Option<Op>); 11] = [
    ("ZRA", Some(Op::ZoneResetAll)),
    ("ZR", Some(Op::ZoneReset)),
    ("ZA", Some(Op::Append)),
    ("ZO", Some(Op::ZoneOpen)),
    ("ZC", Some(Op::ZoneClose)),
    ("ZF", Some(Op::ZoneFinish)),
    ("WZ", Some(Op::Zeroes)),
    ("R", Some(Op::Read)),
    ("W", Some(Op::Write)),
    ("D", Some(Op::Trim)),
    ("N", None),
];

/// Letters that the kernel writes for `op`.
pub(super) fn letters(op: Op) -> &'static str {
    let known = OPERATIONS.iter().find(|(_, known)| *known == Some(op));
    known.map_or("FF", |(letters, _)| letters)
}

/// Parses a word of flags such as `WFS`.
pub(super) fn parse(word: &str) -> Result<Flags, Expected> {
    let (preflush, rest) = match word.strip_prefix('F') {
        Some(rest) => (true, rest),
        None => (false, word),
    };
    let operation = OPERATIONS.iter().find_map(|&(letters, op)| {
        let further = rest.strip_prefix(letters)?;
        Some((op.map(Kind::Data), further))
    });
    let (kind, further) = match operation {
        Some(found) => found,
        None if preflush && !rest.starts_with(['E', 'A', 'U']) => (Some(Kind::Flush), rest),
        None => return refuse(),
    };
    if !further.chars().all(|c| FURTHER.contains(c)) {
        return refuse();
    }
    Ok(Flags {
        kind,
        preflush,
        fua: further.contains('F'),
        metadata: further.contains('M'),
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
pub(super) fn device(word: &str) -> Option<u64> {
    let (major, minor) = word.split_once(',')?;
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    Some(device_number(major, minor))
}

/// Packs a device into one number: the major number above the 20 bits of the minor, as the kernel
/// does.
pub(super) fn device_number(major: u32, minor: u32) -> u64 {
    u64::from(major) << 20 | u64::from(minor)
}

/// Parses seconds with up to nine decimals; the result is in nanoseconds.
pub(super) fn seconds(word: &str) -> Option<u64> {
    let (whole, fraction) = word.split_once('.').unwrap_or((word, ""));
    if fraction.len() > 9 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let ns: u64 = format!("{fraction:0<9}").parse().ok()?;
    whole
        .parse::<u64>()
        .ok()?
        .checked_mul(1_000_000_000)?
        .checked_add(ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(word: &str, sectors: u64) -> Option<Event<'static>> {
        parse(word).unwrap().event(8, sectors)
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
            let Expected(what) = parse(word).unwrap_err();
            assert_eq!(
                what, "kernel request flags such as R, WS, D or FF",
                "{word}"
            );
        }
    }

    #[test]
    fn decimal_seconds_are_exact() {
        assert_eq!(seconds("12.000001"), Some(12_000_001_000));
        assert_eq!(seconds("0.123456789"), Some(123_456_789));
        assert_eq!(seconds("7"), Some(7_000_000_000));
        assert_eq!(seconds("1.-2"), None);
        assert_eq!(seconds("99999999999999999999.0"), None);
    }
}
