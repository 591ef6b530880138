//! How a trace is to be read, and what reading it left out or changed.

use super::devices::{Devices, PIECE};
use super::order;
use serde::Serialize;
use units::{Bytes, Ns, SECTOR};

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
    /// Queued events if the beginning of the trace has any, else issued ones, else
    /// completed ones, so that a request with a line for each step is one request.
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
    /// What it comes to in a trace that begins with events of the actions `letters`.
    pub(super) fn in_trace<'a>(self, letters: impl Iterator<Item = &'a str>) -> Self {
        let rank = |action: &Self| {
            [Self::Auto, Self::Completed, Self::Issued, Self::Queued]
                .iter()
                .position(|known| known == action)
        };
        let met = letters.map(|letter| match letter {
            "Q" => Self::Queued,
            "D" => Self::Issued,
            "C" => Self::Completed,
            _ => Self::Auto,
        });
        match self {
            Self::Auto => met.max_by_key(rank).unwrap_or_default(),
            chosen => chosen,
        }
    }

    /// Whether events of the action `letter` are requests. The first one decides where
    /// the beginning of the trace has not.
    pub(super) fn takes(&mut self, letter: &str) -> bool {
        *self = self.in_trace(std::iter::once(letter));
        matches!(
            (*self, letter),
            (Self::Queued, "Q") | (Self::Issued, "D") | (Self::Completed, "C")
        )
    }
}

/// What of a trace was not taken over as it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Notes {
    /// Requests that stood behind later ones and were sorted by time.
    pub clock_went_back: u64,
    /// How far the furthest of them lay back.
    pub clock_went_back_ns: u64,
    /// Requests that move no data and flush nothing, left out.
    pub skipped: u64,
    /// Requests whose bounds were widened to whole sectors.
    pub widened: u64,
    /// Requests of devices that were not asked for, left out.
    pub other_devices: u64,
    /// Devices that were read; counted up to some thousands.
    pub devices: u64,
    /// Whether the addresses of several devices were taken as those of one.
    pub shares_addresses: bool,
    /// Whether devices were laid out in pieces by first use.
    pub packed: bool,
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
        let counted = happened.map(|(count, what)| format!("{count} {what}"));
        let order = (self.clock_went_back > 0).then(|| {
            format!(
                "{} requests were recorded out of order, by up to {}, and were sorted by time \
                 (up to {} is)",
                self.clock_went_back,
                Ns(self.clock_went_back_ns),
                order::FURTHEST,
            )
        });
        order
            .into_iter()
            .chain(self.layout())
            .chain(counted)
            .collect()
    }

    /// Where the addresses of several devices are, if that is not as they stand.
    fn layout(&self) -> Option<String> {
        let devices = self.devices;
        if self.packed {
            let piece = Bytes(PIECE * SECTOR);
            return Some(format!(
                "{devices} devices lie behind each other, in pieces of {piece} in the order of \
                 first use; devices=together takes addresses as they stand"
            ));
        }
        (self.shares_addresses && devices > 1).then(|| {
            format!(
                "{devices} devices share one range of addresses; devices=packed keeps them apart"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_action_decides_for_the_whole_trace() {
        let mut action = Action::Auto;
        let taken = ["G", "Q", "D", "C", "Q"].map(|a| action.takes(a));
        assert_eq!(taken, [false, true, false, false, true]);
        let mut action = Action::Auto;
        assert!(action.takes("D") && !action.takes("Q"));
    }

    #[test]
    fn action_that_comes_first_in_a_request_is_taken_wherever_the_trace_begins() {
        let of = |letters: &[&'static str]| Action::Auto.in_trace(letters.iter().copied());
        assert_eq!(of(&["C", "D", "Q", "G"]), Action::Queued);
        assert_eq!(of(&["C", "D", "M"]), Action::Issued);
        assert_eq!(of(&["C", "U"]), Action::Completed);
        assert_eq!(of(&["P"]), Action::Auto);
        let chosen = Action::Completed.in_trace(["Q"].into_iter());
        assert_eq!(chosen, Action::Completed);
    }
}
