//! What becomes of a file after an input or output error.

use std::str::FromStr;

/// How the file system was mounted: `errors=`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Nothing is written any more, to no file.
    #[default]
    RemountReadOnly,
    /// The file is not written any more.
    ZoneReadOnly,
    /// The file is not used any more.
    ZoneOffline,
    /// The file is as long as the drive says, and goes on.
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

/// What a zone can still do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// All.
    Good,
    /// It can be read.
    ReadOnly,
    /// Nothing.
    Offline,
}

/// How long a file is after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// It has no contents any more.
    Nothing,
    /// As it was.
    Kept,
    /// As the drive says if that is less: what was written by a call that failed is not
    /// shown.
    Shortened,
    /// As the drive says.
    Repaired,
}

/// What a file can still do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct After {
    /// How long it is.
    pub length: Length,
    /// Whether it is read.
    pub reads: bool,
    /// Whether it is written.
    pub writes: bool,
}

/// The table of `zonefs.rst`, "IO error handling". What it calls a fixed size is as
/// `fs/zonefs` has it since 6.8: a file grows by an error only if the mount repairs.
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
        // Size fixed, file read, file written.
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
