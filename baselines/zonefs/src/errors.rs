//! State of a file after an I/O error.

use std::str::FromStr;

/// Mount option `errors=`: the reaction to an I/O error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// The whole file system becomes read-only.
    #[default]
    RemountReadOnly,
    /// The file becomes read-only.
    ZoneReadOnly,
    /// The file becomes inaccessible.
    ZoneOffline,
    /// The size follows the write position of the zone, and the file stays writable.
    Repair,
}

impl FromStr for OnError {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        Ok(match word {
            "remount-ro" => Self::RemountReadOnly,
            "zone-ro" => Self::ZoneReadOnly,
            "zone-offline" => Self::ZoneOffline,
            "repair" => Self::Repair,
            _ => {
                let expected = "expected remount-ro, zone-ro, zone-offline or repair";
                return Err(format!("errors={word}: {expected}"));
            }
        })
    }
}

/// Condition of a zone as the drive reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The zone is readable and writable.
    Good,
    /// The zone is readable only.
    ReadOnly,
    /// The zone is neither readable nor writable.
    Offline,
}

/// Size of a file after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// The file has no contents any more: size 0.
    Nothing,
    /// The size from before the error.
    Kept,
    /// The smaller of the previous size and the write position: data of the failed call stay
    /// hidden.
    Shortened,
    /// The write position that the drive reports.
    Repaired,
}

/// State of a file after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct After {
    /// Rule for the new size.
    pub length: Length,
    /// Whether the file can still be read.
    pub reads: bool,
    /// Whether the file can still be written.
    pub writes: bool,
}

/// The table of `zonefs.rst`, "IO error handling". A size that the document calls fixed follows
/// `fs/zonefs` since 6.8: an error lets a file grow only with `errors=repair`.
//= zonefs 5
#[must_use]
pub const fn after(on: OnError, zone: Condition) -> After {
    let (length, writes) = match (on, zone) {
        (_, Condition::Offline) | (OnError::ZoneOffline, _) => (Length::Nothing, false),
        (_, Condition::ReadOnly) | (OnError::ZoneReadOnly, _) => (Length::Kept, false),
        (OnError::RemountReadOnly, Condition::Good) => (Length::Shortened, false),
        (OnError::Repair, Condition::Good) => (Length::Repaired, true),
    };
    After {
        length,
        reads: !matches!(length, Length::Nothing),
        writes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_that_of_the_documentation() {
        use Condition::{Good, Offline, ReadOnly};
        use OnError::{RemountReadOnly, Repair, ZoneOffline, ZoneReadOnly};
        // Size kept, file readable, file writable.
        let (nothing, read, all) = ("---", "sr-", "srw");
        for (on, zone, expected) in [
            (RemountReadOnly, Good, read),
            (RemountReadOnly, ReadOnly, read),
            (RemountReadOnly, Offline, nothing),
            (ZoneReadOnly, Good, read),
            (ZoneReadOnly, ReadOnly, read),
            (ZoneReadOnly, Offline, nothing),
            (ZoneOffline, Good, nothing),
            (ZoneOffline, ReadOnly, nothing),
            (ZoneOffline, Offline, nothing),
            (Repair, Good, all),
            (Repair, ReadOnly, read),
            (Repair, Offline, nothing),
        ] {
            let After {
                length,
                reads,
                writes,
            } = after(on, zone);
            let kept = length != Length::Nothing;
            let told = [(kept, 's'), (reads, 'r'), (writes, 'w')];
            let told: String = told
                .iter()
                .map(|&(is, c)| if is { c } else { '-' })
                .collect();
            assert_eq!(told, expected, "{on:?} {zone:?}");
        }
    }
}
