//! Lines or zones of a drive for the record.

use report::record::{Place, Places};
use ssd::{Drive, Interface, LineReport, LineState, ZoneInfo, ZoneState};

/// Largest number of entries in a record.
const MOST: usize = 1024;

/// State of all lines or zones of `drive`; `None` for an open-channel drive.
pub(crate) fn places(drive: &Drive, interface: Interface) -> Option<Places> {
    if interface == Interface::OpenChannel {
        return None;
    }
    let (of, each): (&str, Vec<Place>) = match drive.zones() {
        Some(zones) => {
            let all = (0..zones.limits().zones).filter_map(|zone| zones.info(zone));
            ("zone", all.map(|info| zone(&info)).collect())
        }
        None => ("line", drive.lines().iter().map(line).collect()),
    };
    Some(merged(of, &each))
}

fn line(report: &LineReport) -> Place {
    let state = match report.state {
        LineState::Free | LineState::Erasing => "free",
        LineState::Open => "open",
        LineState::Closed | LineState::Collecting => "closed",
        LineState::Retired => "gone",
    };
    Place {
        full: thousandths(u64::from(report.valid), u64::from(report.pages)),
        age: report.age,
        state: state.to_owned(),
    }
}

fn zone(info: &ZoneInfo) -> Place {
    let written = info.written();
    let state = match info.state {
        ZoneState::Offline => "gone",
        ZoneState::Full | ZoneState::ReadOnly => "closed",
        _ if written > 0 => "open",
        _ => "free",
    };
    Place {
        full: thousandths(written, info.capacity),
        age: 0,
        state: state.to_owned(),
    }
}

fn thousandths(part: u64, whole: u64) -> u64 {
    (part.min(whole) * 1000).checked_div(whole).unwrap_or(0)
}

/// Merges neighbours so that at most [`MOST`] entries remain.
fn merged(of: &str, all: &[Place]) -> Places {
    let group = all.len().div_ceil(MOST).max(1);
    Places {
        of: of.to_owned(),
        per_entry: group as u64,
        each: all.chunks(group).map(together).collect(),
    }
}

/// The mean of neighbours: open if one is, and else in the state of most of them.
fn together(group: &[Place]) -> Place {
    let mean = |of: fn(&Place) -> u64| group.iter().map(of).sum::<u64>() / group.len() as u64;
    let count = |state: &str| group.iter().filter(|place| place.state == state).count();
    let most = ["free", "closed", "gone"]
        .into_iter()
        .max_by_key(|state| count(state));
    let state = match count("open") {
        0 => most.unwrap_or_default(),
        _ => "open",
    };
    Place {
        full: mean(|place| place.full),
        age: mean(|place| place.age),
        state: state.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(full: u64, state: &str) -> Place {
        Place {
            full,
            age: 2 * full,
            state: state.to_owned(),
        }
    }

    #[test]
    fn few_places_are_kept_and_many_are_merged() {
        let few = merged(
            "line",
            &[
                place(10, "closed"),
                place(10, "closed"),
                place(10, "closed"),
            ],
        );
        assert_eq!((few.per_entry, few.each.len()), (1, 3));
        let many = (0..2 * MOST as u64).map(|i| place(i % 2 * 1000, "closed"));
        let mut many: Vec<Place> = many.collect();
        many[5].state = "open".to_owned();
        let many = merged("line", &many);
        assert_eq!((many.per_entry, many.each.len()), (2, MOST));
        assert_eq!(
            many.each[0],
            Place {
                full: 500,
                age: 1000,
                state: "closed".to_owned()
            }
        );
        assert_eq!(many.each[2].state, "open");
    }
}
