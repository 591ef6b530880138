//! Pasts of a stack: that of its drive alone, or that of its file system in use.
//!
//! Invariant: the name of a past is read back as the same past.

use crate::error::StackError;
use crate::plan::Plan;
use serde::{Deserialize, Serialize};
use ssd::{DriveConfig, Precondition};
use std::fmt;
use std::str::FromStr;
use units::{Bytes, MIB};

/// Rounding of capacities, so that drives of the same flash get the same files.
const STEP: u64 = 64 * MIB;

/// State of a stack before a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Past {
    /// State of the drive; a file system is made on it before the run.
    Drive(Precondition),
    /// State of the file system and of the drive below it.
    Used(Used),
}

/// A file system in use: filled, and written over until garbage collection is steady.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Used {
    /// Percentage of the drive's capacity that the files fill. Flash of one size holds as many bytes
    /// of files under each interface, whatever part of it a file system offers.
    pub fill: u8,
}

impl Default for Used {
    fn default() -> Self {
        Self { fill: Self::USUAL }
    }
}

impl Used {
    /// Percentage without a parameter: our choice, with room on every stack for files beside it.
    pub const USUAL: u8 = 70;
    /// Largest share of the drive in percent.
    const MOST: u8 = 95;

    /// Bytes that the files hold on `drive`. Its capacity counts as the nearest multiple of 64 MiB,
    /// since zones and rows of blocks round that of the same flash differently.
    #[must_use]
    pub const fn bytes(self, drive: &DriveConfig) -> u64 {
        let steps = (drive.capacity.0 + STEP / 2) / STEP;
        let capacity = if steps == 0 {
            drive.capacity.0
        } else {
            steps * STEP
        };
        capacity / 100 * self.fill as u64
    }
}

impl fmt::Display for Used {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fill {
            Self::USUAL => f.write_str("used"),
            fill => write!(f, "used:fill={fill}"),
        }
    }
}

impl fmt::Display for Past {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Drive(past) => f.write_str(past.name()),
            Self::Used(used) => used.fmt(f),
        }
    }
}

impl From<Precondition> for Past {
    fn from(past: Precondition) -> Self {
        Self::Drive(past)
    }
}

impl Past {
    /// Percentage of a drive that files take at most: our choice. F2FS in zones takes 90 % of the
    /// capacity, and a workload grows beyond the size at which it was recorded.
    const FULL: u64 = 86;

    /// Capacity of a drive on which this past leaves as much as `size`, in multiples of 64 MiB, and
    /// a share for the file system itself.
    pub(crate) const fn beside(self, size: Bytes) -> Bytes {
        match self {
            Self::Drive(_) => size,
            Self::Used(used) => {
                let left = Self::FULL.saturating_sub(used.fill as u64);
                let left = if left == 0 { 1 } else { left };
                Bytes((size.0 / left * 100).div_ceil(STEP) * STEP)
            }
        }
    }

    /// The precondition of `drive` in a plan with this past, and the use of the file system on it.
    #[must_use]
    pub const fn parts(self, drive: &DriveConfig) -> (Precondition, Option<Used>) {
        match self {
            Self::Drive(precondition) => (precondition, None),
            Self::Used(used) => (below(drive), Some(used)),
        }
    }
}

/// The past of a drive in use: conventional drives are aged. Zones do not age; the mapping of an
/// open-channel drive is in its host, so only a run can have used the drive.
pub(crate) const fn below(drive: &DriveConfig) -> Precondition {
    match (&drive.zones, &drive.raw) {
        (_, Some(_)) => Precondition::Fresh,
        (Some(_), None) => Precondition::Full,
        (None, None) => Precondition::Aged,
    }
}

impl FromStr for Past {
    type Err = StackError;

    fn from_str(text: &str) -> Result<Self, StackError> {
        let mut pasts = Precondition::ALL.into_iter();
        if let Some(past) = pasts.find(|past| past.name() == text) {
            return Ok(Self::Drive(past));
        }
        let Some(params) = text.strip_prefix("used") else {
            return Err(StackError::Past);
        };
        if params.is_empty() {
            return Ok(Self::Used(Used::default()));
        }
        let fill = params.strip_prefix(":fill=").ok_or(StackError::Past)?;
        let fill = fill.strip_suffix('%').unwrap_or(fill);
        let within = |fill: &u8| (1..=Used::MOST).contains(fill);
        let fill = fill.parse().ok().filter(within).ok_or(StackError::Fill)?;
        Ok(Self::Used(Used { fill }))
    }
}

/// Parses the name of a past.
///
/// # Errors
/// If `text` names none.
pub fn past(text: &str) -> Result<Past, StackError> {
    text.parse()
}

/// Parses the name of a precondition of a drive alone.
///
/// # Errors
/// If `text` names none.
pub fn past_of_drive(text: &str) -> Result<Precondition, StackError> {
    match text.parse()? {
        Past::Drive(past) => Ok(past),
        Past::Used(_) => Err(StackError::UsedDrive),
    }
}

/// Rejects a past that the stack cannot have.
pub(crate) fn check(plan: &Plan) -> Result<(), StackError> {
    let of_files = plan.stack.host != "raw";
    let (zoned, raw) = (plan.drive.zones.is_some(), plan.drive.raw.is_some());
    let reason = match plan.precondition {
        _ if plan.used.is_some() && !of_files => {
            "the precondition used is that of a file system; expected fresh, full or aged"
        }
        Precondition::Aged if zoned && of_files => {
            "zones do not age, since the drive moves no data of its own; use the precondition used, \
             which ages the file system (or fresh, or full)"
        }
        Precondition::Full | Precondition::Aged if raw && of_files => {
            "an open-channel drive holds only the data of its host, so it is neither full nor aged; \
             use the precondition used, which fills and ages the file system (or fresh)"
        }
        _ => return Ok(()),
    };
    Err(StackError::Stack {
        stack: plan.stack.to_string(),
        reason: reason.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_pasts_are_read_back_as_the_same() {
        let used = |fill| Past::Used(Used { fill });
        let drives = Precondition::ALL.map(Past::Drive);
        for past in drives.into_iter().chain([used(70), used(1), used(95)]) {
            assert_eq!(past.to_string().parse::<Past>().ok(), Some(past));
        }
        assert_eq!("used:fill=70".parse::<Past>().ok(), Some(used(70)));
        assert_eq!("used:fill=80%".parse::<Past>().ok(), Some(used(80)));
    }

    #[test]
    fn drive_grows_by_the_share_that_files_of_the_past_fill() {
        let beside = |text: &str| {
            text.parse::<Past>()
                .expect("it is a past")
                .beside(Bytes(960 * MIB))
        };
        assert_eq!(beside("aged"), Bytes(960 * MIB));
        assert_eq!(beside("used:fill=50"), Bytes(2688 * MIB));
        assert_eq!(beside("used"), Bytes(6016 * MIB));
    }

    #[test]
    fn unknown_pasts_and_fills_out_of_range_are_refused() {
        for text in ["", "old", "used:", "used:full=1", "usedfill=1"] {
            assert!(
                matches!(text.parse::<Past>(), Err(StackError::Past)),
                "{text}"
            );
        }
        for text in [
            "used:fill=",
            "used:fill=0",
            "used:fill=96",
            "used:fill=1000",
        ] {
            assert!(
                matches!(text.parse::<Past>(), Err(StackError::Fill)),
                "{text}"
            );
        }
        assert!(past_of_drive("used").is_err() && past_of_drive("aged").is_ok());
    }
}
