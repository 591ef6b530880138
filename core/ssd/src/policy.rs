//! Which line next: pure functions from views of lines to a line.
//!
//! Ties go to the lower line number, so that a choice never depends on the order
//! in which candidates are found.

use crate::config::VictimPolicy;
use crate::line::LineView;
use std::cmp::Reverse;

/// The line to reclaim next. A line without any invalid page is never chosen:
/// moving it gains nothing.
#[must_use]
pub fn victim(policy: VictimPolicy, lines: impl Iterator<Item = LineView>) -> Option<u32> {
    let gains = lines.filter(|view| view.valid < view.pages);
    let chosen = match policy {
        VictimPolicy::Greedy => gains.min_by_key(|view| (view.valid, view.line)),
        VictimPolicy::CostBenefit => {
            gains.max_by_key(|view| (cost_benefit(view), Reverse(view.line)))
        }
        VictimPolicy::Fifo => gains.max_by_key(|view| (view.age, Reverse(view.line))),
    };
    chosen.map(|view| view.line)
}

/// Age times free space over cost: (1 − u) · age / 2u, scaled to an integer
/// (Rosenblum and Ousterhout 1992, with reading and writing counted).
fn cost_benefit(view: &LineView) -> u128 {
    let free = u128::from(view.pages - view.valid);
    let cost = 2 * u128::from(view.valid) + 1;
    ((free * u128::from(view.age)) << 20) / cost
}

/// The line with the least worn blocks, if it lags behind the most worn one of
/// all by more than `threshold` erases: its data are cold, and move on so that
/// its blocks take part in the wear.
#[must_use]
pub fn coldest(
    threshold: u32,
    most_erases: u32,
    lines: impl Iterator<Item = LineView>,
) -> Option<u32> {
    let least = lines.min_by_key(|view| (view.erases, view.line))?;
    (threshold > 0 && most_erases - least.erases.min(most_erases) > threshold).then_some(least.line)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn view(line: u32, valid: u32, age: u64, erases: u32) -> LineView {
        LineView {
            line,
            valid,
            pages: 100,
            age,
            erases,
        }
    }

    const LINES: [LineView; 4] = [
        view(0, 100, 900, 0),
        view(1, 60, 800, 5),
        view(2, 20, 10, 9),
        view(3, 20, 10, 9),
    ];

    #[test]
    fn greedy_takes_the_emptiest_and_the_lower_number() {
        assert_eq!(victim(VictimPolicy::Greedy, LINES.into_iter()), Some(2));
    }

    #[test]
    fn fifo_takes_the_oldest_that_gains() {
        assert_eq!(victim(VictimPolicy::Fifo, LINES.into_iter()), Some(1));
    }

    #[test]
    fn cost_benefit_prefers_old_to_slightly_emptier() {
        // (1-u)·age/2u: line 1 has 40·800/121 = 264, line 2 has 80·10/41 = 19.
        assert_eq!(victim(VictimPolicy::CostBenefit, LINES.into_iter()), Some(1));
    }

    #[test]
    fn a_line_of_valid_pages_only_is_no_victim() {
        let full = [view(0, 100, 9, 0)];
        assert_eq!(victim(VictimPolicy::Greedy, full.into_iter()), None);
    }

    #[test]
    fn cold_data_move_only_past_the_threshold() {
        assert_eq!(coldest(9, 10, LINES.into_iter()), Some(0));
        assert_eq!(coldest(10, 10, LINES.into_iter()), None);
        assert_eq!(coldest(0, 1000, LINES.into_iter()), None);
    }
}
