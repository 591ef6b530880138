//! Lines of a regime: numbers that show whether an experiment is the paper's.
//!
//! Each line has a quantity: the measured value and the paper's, with its source. A figure names
//! the lines that open it. If the two values differ by more than [`FACTOR`], claims measured under
//! the line's workloads, in its set-up, belong to another regime: they neither held nor were
//! missed.

use crate::claim::Claim;
use serde::{Deserialize, Serialize};

/// Largest factor between a number of the regime and the paper's.
pub const FACTOR: f64 = 2.0;

/// A number of the regime beside the paper's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Identifier by which figures refer to the line.
    pub id: String,
    /// The quantity, with its unit and its workload.
    pub what: String,
    /// The stack or memory design that the quantity is measured on.
    pub stack: String,
    /// The set-up in which the quantity is measured.
    pub set_up: String,
    /// Section, figure or table of the paper's number.
    pub source: String,
    /// The number that the paper states.
    pub paper: f64,
    /// The measured number; `None` if it was not measured.
    pub measured: Option<f64>,
    /// Measured number over the paper's.
    pub ratio: Option<f64>,
    /// Whether the ratio is within [`FACTOR`]; `None` if it was not measured.
    pub same: Option<bool>,
    /// The workloads whose claims the line affects; empty for all.
    pub workloads: Vec<String>,
    /// Names of the figures that the line opens.
    pub figures: Vec<String>,
}

impl Line {
    /// The line that `claim` declares, with the value `measured`; it opens no figure yet.
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

    /// Whether this line puts claims of `figure` in `set_up`, measured under `workloads`, into
    /// another regime.
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
    fn line_affects_only_its_figure_set_up_and_workloads() {
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
