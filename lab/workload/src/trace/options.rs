//! Options of reading a trace, and notes on deviations from the file.

use super::devices::{Devices, PIECE};
use super::order;
use super::table::Columns;
use serde::Serialize;
use units::{Bytes, Ns, SECTOR};

/// Options of reading a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Treatment of several devices.
    pub devices: Devices,
    /// Events of a blktrace or blkparse file that count as requests.
    pub action: Action,
    /// Meanings of the columns, for a table of any program; they take the place of a format.
    pub columns: Option<Columns>,
}

/// Step of a request's life in the kernel that counts as the request, in traces with an event for
/// each step (blktrace, blkparse).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// Queued events if the beginning of the trace has any, else issued events, else completed
    /// events: a request with a line for each step counts once.
    #[default]
    Auto,
    /// `Q`: the file system handed the request to the block layer.
    Queued,
    /// `D`: the driver got the request, after merging.
    Issued,
    /// `C`: the request completed.
    Completed,
}

impl Action {
    /// Resolves `Auto` for a trace that begins with events of the actions `letters`; stays `Auto`
    /// if none of them can be a request.
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

    /// Whether events of the action `letter` count as requests. The first `Q`, `D` or `C` decides
    /// if `Auto` was not resolved by the beginning of the trace.
    pub(super) fn takes(&mut self, letter: &str) -> bool {
        *self = self.in_trace(std::iter::once(letter));
        matches!(
            (*self, letter),
            (Self::Queued, "Q") | (Self::Issued, "D") | (Self::Completed, "C")
        )
    }
}

/// Deviations of the requests read from the trace as it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Notes {
    /// Requests that followed later ones in the file and were sorted by time.
    pub clock_went_back: u64,
    /// Largest distance in time of such a request from the latest before it, in nanoseconds.
    pub clock_went_back_ns: u64,
    /// Requests left out because they move no data and flush nothing.
    pub skipped: u64,
    /// Requests whose bounds were widened to whole sectors.
    pub widened: u64,
    /// Requests left out because their device was not selected.
    pub other_devices: u64,
    /// Devices read; counted up to 16,384.
    pub devices: u64,
    /// Whether the addresses of all devices were taken as those of one.
    pub shares_addresses: bool,
    /// Whether devices were laid out in pieces, in the order of first use.
    pub packed: bool,
    /// Requests past the end of the drive that were folded back onto it.
    pub wrapped: u64,
    /// Notices of the kernel that it lost events.
    pub lost: u64,
    /// Requests left out because they lie outside of the chosen range of addresses.
    pub outside: u64,
    /// Requests that were cut to the chosen range of addresses.
    pub cut: u64,
    /// Requests that became several, because compaction put their parts at different places.
    pub divided: u64,
}

impl Notes {
    /// These notes on one pass over a trace, with those of the passes `before` it.
    #[must_use]
    pub(crate) fn after(&self, before: &Self) -> Self {
        Self {
            clock_went_back: self.clock_went_back + before.clock_went_back,
            clock_went_back_ns: self.clock_went_back_ns.max(before.clock_went_back_ns),
            skipped: self.skipped + before.skipped,
            widened: self.widened + before.widened,
            other_devices: self.other_devices + before.other_devices,
            devices: self.devices.max(before.devices),
            shares_addresses: self.shares_addresses,
            packed: self.packed,
            wrapped: self.wrapped + before.wrapped,
            lost: self.lost + before.lost,
            outside: self.outside + before.outside,
            cut: self.cut + before.cut,
            divided: self.divided + before.divided,
        }
    }

    /// One sentence for each deviation that occurred.
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
            (
                self.outside,
                "requests outside of the range of addresses were left out",
            ),
            (self.cut, "requests were cut to the range of addresses"),
            (
                self.divided,
                "requests were divided, because their parts lie at different places after \
                 compaction",
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

    /// Sentence on the layout of several devices, if their addresses share one range or were
    /// packed.
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
    fn first_action_selects_the_events_of_the_whole_trace() {
        let mut action = Action::Auto;
        let taken = ["G", "Q", "D", "C", "Q"].map(|a| action.takes(a));
        assert_eq!(taken, [false, true, false, false, true]);
        let mut action = Action::Auto;
        assert!(action.takes("D") && !action.takes("Q"));
    }

    #[test]
    fn auto_action_takes_the_earliest_step_met_in_the_head() {
        let of = |letters: &[&'static str]| Action::Auto.in_trace(letters.iter().copied());
        assert_eq!(of(&["C", "D", "Q", "G"]), Action::Queued);
        assert_eq!(of(&["C", "D", "M"]), Action::Issued);
        assert_eq!(of(&["C", "U"]), Action::Completed);
        assert_eq!(of(&["P"]), Action::Auto);
        let chosen = Action::Completed.in_trace(["Q"].into_iter());
        assert_eq!(chosen, Action::Completed);
    }
}
