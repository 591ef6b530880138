//! How a trace is to be read, and what reading it left out or changed.

use super::event::Event;
use input::{Expected, expected};
use serde::Serialize;
use std::str::FromStr;
use units::{Bytes, SECTOR};

/// How a trace is to be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Which devices of several.
    pub devices: Devices,
    /// Which events of a blktrace or blkparse file are the requests.
    pub action: Action,
}

/// Which step of a request's life in the kernel stands for the request, in a
/// trace that has several (blktrace, blkparse).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// Queued events, or issued ones where the first of either kind is an
    /// issued one: a request is queued before it is issued, so a trace that
    /// holds both begins with a queued one.
    #[default]
    Auto,
    /// As the file system handed them over: `Q`.
    Queued,
    /// As the driver got them, after merging: `D`.
    Issued,
    /// As they completed: `C`.
    Completed,
}

impl Action {
    /// Whether events of the action `letter` are requests. The first decides
    /// where it is left to the trace.
    pub(super) fn takes(&mut self, letter: &str) -> bool {
        match (*self, letter) {
            (Self::Auto, "Q") => *self = Self::Queued,
            (Self::Auto, "D") => *self = Self::Issued,
            _ => {}
        }
        matches!(
            (*self, letter),
            (Self::Queued, "Q") | (Self::Issued, "D") | (Self::Completed, "C")
        )
    }
}

/// What becomes of a trace of several devices (the disks of MSR, the devices
/// of `MQSim` and of the kernel, the files of fio).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Devices {
    /// One address space, addresses as they stand.
    #[default]
    Together,
    /// Only this one. The kernel's `major,minor` counts as `major << 20 | minor`,
    /// a file of fio by its place among those that the log names, from 0.
    Only(u64),
    /// Each behind the other in order of first appearance, this far apart.
    Apart(Bytes),
}

/// Most devices that are set apart.
const MAX_DEVICES: usize = 4096;

impl Devices {
    /// The sector at which `device` begins, or none if it is not read.
    pub(super) fn base(self, device: u64, seen: &mut Vec<u64>) -> Result<Option<u64>, Expected> {
        match self {
            Self::Together => Ok(Some(0)),
            Self::Only(one) => Ok((one == device).then_some(0)),
            Self::Apart(distance) => {
                let index = place(device, seen)?;
                Ok(Some(index.saturating_mul(distance.0 / SECTOR)))
            }
        }
    }

    /// That `event` stays within the room of its device.
    pub(super) fn check(self, event: &Event<'_>) -> Result<(), Expected> {
        let Self::Apart(distance) = self else {
            return Ok(());
        };
        if event.start.saturating_add(event.sectors) > distance.0 / SECTOR {
            return expected(format!("a request within {distance} of its device's start"));
        }
        Ok(())
    }
}

fn place(device: u64, seen: &mut Vec<u64>) -> Result<u64, Expected> {
    let known = seen.iter().position(|&d| d == device);
    if known.is_none() && seen.len() == MAX_DEVICES {
        return expected(format!("at most {MAX_DEVICES} devices"));
    }
    let index = known.unwrap_or_else(|| {
        seen.push(device);
        seen.len() - 1
    });
    Ok(index as u64)
}

/// A choice of devices that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected together, a device such as 3 or 8,0, or apart:64GiB, found {found:?}")]
pub struct BadDevices {
    /// The text as given.
    pub found: String,
}

impl FromStr for Devices {
    type Err = BadDevices;
    fn from_str(text: &str) -> Result<Self, BadDevices> {
        let refuse = || BadDevices {
            found: text.to_owned(),
        };
        if text == "together" {
            return Ok(Self::Together);
        }
        if let Some(distance) = text.strip_prefix("apart:") {
            let distance: Bytes = distance.parse().map_err(|_| refuse())?;
            return Ok(Self::Apart(distance));
        }
        let device = super::rwbs::device(text).or_else(|| text.parse().ok());
        device.map(Self::Only).ok_or_else(refuse)
    }
}

/// What of a trace was not taken over as it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Notes {
    /// Requests whose time lay before their predecessor's and was moved to it.
    pub clock_went_back: u64,
    /// Requests that move no data and flush nothing, left out.
    pub skipped: u64,
    /// Requests whose bounds were widened to whole sectors.
    pub widened: u64,
    /// Requests of devices that were not asked for, left out.
    pub other_devices: u64,
    /// Requests past the end of the drive that were folded back onto it.
    pub wrapped: u64,
    /// Times that the kernel says it lost events.
    pub lost: u64,
}

impl Notes {
    /// A sentence for each thing that happened.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        let said = [
            (
                self.clock_went_back,
                "requests were recorded out of order and got the time of the one before",
            ),
            (self.skipped, "requests move no data and were left out"),
            (self.widened, "requests were widened to whole sectors"),
            (
                self.other_devices,
                "requests of other devices were left out",
            ),
            (
                self.wrapped,
                "requests past the end of the drive were folded back onto it",
            ),
            (self.lost, "times the kernel lost events while it recorded"),
        ];
        let happened = said.into_iter().filter(|(count, _)| *count > 0);
        happened
            .map(|(count, what)| format!("{count} {what}"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_chosen_by_text() {
        assert_eq!("together".parse(), Ok(Devices::Together));
        assert_eq!("3".parse(), Ok(Devices::Only(3)));
        assert_eq!("8,1".parse(), Ok(Devices::Only(8 << 20 | 1)));
        assert_eq!("apart:1GiB".parse(), Ok(Devices::Apart(Bytes(1 << 30))));
        assert_eq!(
            "all".parse::<Devices>().unwrap_err().to_string(),
            "expected together, a device such as 3 or 8,0, or apart:64GiB, found \"all\""
        );
    }

    #[test]
    fn the_first_action_decides_for_the_whole_trace() {
        let mut action = Action::Auto;
        let taken = ["G", "Q", "D", "C", "Q"].map(|a| action.takes(a));
        assert_eq!(taken, [false, true, false, false, true]);
        let mut action = Action::Auto;
        assert!(action.takes("D") && !action.takes("Q"));
    }
}
