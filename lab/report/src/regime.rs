//! Lines of a regime: numbers that say whether an experiment is the paper's.
//!
//! Each line has a quantity, ours of the records and the paper's with its source. A figure names
//! the lines that open it. Where ours and the paper's differ by more than [`FACTOR`], claims that
//! were measured under the workloads of the line, in its set-up, are of another regime: they
//! neither held nor were missed.

use crate::claim::Claim;
use serde::{Deserialize, Serialize};

/// How far a number of the regime may be from the paper's, as a factor.
pub const FACTOR: f64 = 2.0;

/// A number of the regime beside the paper's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// What figures call it by.
    pub id: String,
    /// The quantity, with its unit and its workload.
    pub what: String,
    /// The stack or design that it is measured on.
    pub stack: String,
    /// The set-up that it is measured in.
    pub set_up: String,
    /// Where the paper's number is from.
    pub source: String,
    /// The paper's number.
    pub paper: f64,
    /// Ours; none where it was not measured.
    pub measured: Option<f64>,
    /// Ours over the paper's.
    pub ratio: Option<f64>,
    /// Whether they are within [`FACTOR`]; none where ours was not measured.
    pub same: Option<bool>,
    /// The workloads that it speaks for; for all where it names none.
    pub workloads: Vec<String>,
    /// The figures that it opens.
    pub figures: Vec<String>,
}

impl Line {
    /// The line that `claim` says, with what was `measured`.
    #[must_use]
    pub fn of(claim: &Claim, measured: Option<f64>, workloads: Vec<String>) -> Self {
        let paper = claim.paper.unwrap_or_default();
        let ratio = measured.map(|m| m / paper);
        Self {
            id: claim.id.clone(),
            what: claim.what.clone(),
            stack: claim.stack.clone(),
            set_up: claim.set_up.clone(),
            source: claim.source.clone(),
            paper,
            measured,
            ratio,
            same: ratio.map(|ratio| (1.0 / FACTOR..=FACTOR).contains(&ratio)),
            workloads,
            figures: Vec::new(),
        }
    }

    /// Whether claims of `figure` in `set_up` that are measured under `workloads` are of another
    /// regime by this line.
    #[must_use]
    pub fn differs_for(&self, figure: &str, set_up: &str, workloads: &[String]) -> bool {
        let shared = || workloads.iter().any(|name| self.workloads.contains(name));
        self.same == Some(false)
            && self.set_up == set_up
            && self.figures.iter().any(|name| name == figure)
            && (self.workloads.is_empty() || shared())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Expectation;

    fn line(measured: f64) -> Line {
        let expected = Expectation::Value(10.0);
        let claim = Claim::unmeasured("mpki", "regime", "Table I", String::new(), expected);
        let claim = Claim {
            set_up: "paper".to_owned(),
            ..claim
        };
        Line {
            figures: vec!["fig14".to_owned()],
            ..Line::of(&claim, Some(measured), vec!["bc".to_owned()])
        }
    }

    #[test]
    fn line_differs_beyond_a_factor_of_two() {
        let same = |measured: f64| line(measured).same;
        assert_eq!((same(5.0), same(20.0)), (Some(true), Some(true)));
        assert_eq!((same(4.99), same(20.01)), (Some(false), Some(false)));
        assert_eq!(same(0.0), Some(false));
    }

    #[test]
    fn line_speaks_for_its_figure_set_up_and_workloads_alone() {
        let differs = |figure: &str, set_up: &str, workloads: &[&str]| {
            let workloads: Vec<String> = workloads.iter().map(|&name| name.to_owned()).collect();
            line(50.0).differs_for(figure, set_up, &workloads)
        };
        assert!(differs("fig14", "paper", &["bc"]) && differs("fig14", "paper", &["tpcc", "bc"]));
        assert!(!differs("fig14", "paper", &["tpcc"]));
        assert!(!differs("fig14", "default", &["bc"]) && !differs("fig2", "paper", &["bc"]));
        assert!(!line(12.0).differs_for("fig14", "paper", &["bc".to_owned()]));
    }
}
