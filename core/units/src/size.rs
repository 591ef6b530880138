//! Sizes in bytes: parsing, printing and the binary units.

use crate::parse::{ParseError, Text, quantity};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Bytes in a KiB: 1,024.
pub const KIB: u64 = 1 << 10;
/// Bytes in a MiB: 1,024 KiB.
pub const MIB: u64 = 1 << 20;
/// Bytes in a GiB: 1,024 MiB.
pub const GIB: u64 = 1 << 30;
/// Bytes in a TiB: 1,024 GiB.
pub const TIB: u64 = 1 << 40;

/// A number of bytes. Parsed from `4096`, `16KiB`, `1.5GiB`, `1TB`; `k`, `m`,
/// `g` and `t` alone mean the binary units, as fio and coreutils read them.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(try_from = "Text", into = "u64")]
pub struct Bytes(pub u64);

impl TryFrom<Text> for Bytes {
    type Error = ParseError;
    fn try_from(text: Text) -> Result<Self, ParseError> {
        match text {
            Text::Number(bytes) => Ok(Self(bytes)),
            Text::Words(words) => words.parse(),
        }
    }
}

impl From<Bytes> for u64 {
    fn from(bytes: Bytes) -> Self {
        bytes.0
    }
}

impl FromStr for Bytes {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        quantity(text, "a size such as 4096, 16KiB or 1.5GiB", unit).map(Self)
    }
}

fn unit(suffix: &str) -> Option<u64> {
    Some(match suffix.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => KIB,
        "m" | "mib" => MIB,
        "g" | "gib" => GIB,
        "t" | "tib" => TIB,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return None,
    })
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scale, name) = match self.0 {
            0..KIB => return f.pad(&format!("{} B", self.0)),
            KIB..MIB => (KIB, "KiB"),
            MIB..GIB => (MIB, "MiB"),
            GIB..TIB => (GIB, "GiB"),
            _ => (TIB, "TiB"),
        };
        // Two decimals, rounded half up in integers so that every machine agrees.
        let hundredths = (u128::from(self.0) * 100 + u128::from(scale) / 2) / u128::from(scale);
        let (whole, part) = (hundredths / 100, hundredths % 100);
        let text = match part {
            0 => format!("{whole} {name}"),
            p if p % 10 == 0 => format!("{whole}.{} {name}", p / 10),
            p => format!("{whole}.{p:02} {name}"),
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_the_field_writes_them() {
        let read = |t: &str| t.parse::<Bytes>().map(|b| b.0);
        assert_eq!(read("4096"), Ok(4096));
        assert_eq!(read("4k"), Ok(4096));
        assert_eq!(read("1.5GiB"), Ok(3 << 29));
        assert_eq!(read("1TB"), Ok(1_000_000_000_000));
        assert_eq!(read("16 MiB"), Ok(16 << 20));
    }

    #[test]
    fn nonsense_is_refused_with_an_example() {
        for text in ["", "k", "-1", "1.5", "3XB", "99999999999TiB", "1..2k", "."] {
            let error = text.parse::<Bytes>().unwrap_err();
            assert!(error.to_string().contains("16KiB"), "{text}: {error}");
        }
    }

    #[test]
    fn printing_rounds_to_two_decimals() {
        assert_eq!(Bytes(0).to_string(), "0 B");
        assert_eq!(Bytes(1536).to_string(), "1.5 KiB");
        assert_eq!(Bytes(1 << 30).to_string(), "1 GiB");
        assert_eq!(Bytes(1_000_000_000_000).to_string(), "931.32 GiB");
    }
}
