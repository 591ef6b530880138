//! Verdicts of claims, and their counts.
//!
//! Invariants: every claim has one verdict. A share is of all measured claims, those of another
//! regime included. Claims of a figure's primary set-up, claims of secondary set-ups, and claims
//! that do not test the paper's system are counted apart and never added up.

use super::Claim;
use serde::{Deserialize, Serialize};

/// The verdict on a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Measured in the paper's regime, or where none is declared, and as expected.
    Held,
    /// Measured in the paper's regime, or where none is declared, and not as expected.
    Missed,
    /// Measured in an experiment that differs from the paper's by more than a factor of two in
    /// a number that its figure declares; see [`crate::regime`].
    OtherRegime,
    /// Not measured, for the reason in the claim.
    #[default]
    NotMeasured,
}

impl Verdict {
    /// The verdict in words, as in a table.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Missed => "missed",
            Self::OtherRegime => "other regime",
            Self::NotMeasured => "not measured",
        }
    }

    /// CSS class of the verdict on the page.
    #[must_use]
    pub const fn class(self) -> &'static str {
        match self {
            Self::Held => "hold",
            Self::Missed => "miss",
            Self::OtherRegime => "else",
            Self::NotMeasured => "open",
        }
    }

    /// The value of a claim's field `holds`: `Some(true)` only for [`Self::Held`].
    #[must_use]
    pub const fn holds(self) -> Option<bool> {
        match self {
            Self::Held => Some(true),
            Self::Missed | Self::OtherRegime => Some(false),
            Self::NotMeasured => None,
        }
    }
}

/// The system that a claim tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum About {
    /// The systems that the paper compares.
    #[default]
    Paper,
    /// One implementation here stands on both sides of the comparison.
    Itself,
    /// Another file system decides, so the value says nothing of the paper's system.
    Others,
    /// This project's own statement about the mechanism, which is not in the paper.
    Own,
}

/// Number of claims by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Number of claims that held.
    pub held: usize,
    /// Number of claims that were missed.
    pub missed: usize,
    /// Number of claims measured in another regime.
    pub other_regime: usize,
    /// Number of claims not measured.
    pub not_measured: usize,
}

impl Tally {
    /// Counts `claims` by verdict.
    pub fn of<'a>(claims: impl IntoIterator<Item = &'a Claim>) -> Self {
        let mut tally = Self::default();
        for claim in claims {
            *match claim.verdict {
                Verdict::Held => &mut tally.held,
                Verdict::Missed => &mut tally.missed,
                Verdict::OtherRegime => &mut tally.other_regime,
                Verdict::NotMeasured => &mut tally.not_measured,
            } += 1;
        }
        tally
    }

    /// Number of measured claims, those of another regime included.
    #[must_use]
    pub const fn measured(self) -> usize {
        self.held + self.missed + self.other_regime
    }

    /// Number of all claims.
    #[must_use]
    pub const fn all(self) -> usize {
        self.measured() + self.not_measured
    }

    /// `3 of 8 (38 %)`: claims that held, of those that were measured.
    #[must_use]
    pub fn share(self) -> String {
        let (held, measured) = (self.held, self.measured());
        match measured {
            0 => "0 of 0".to_owned(),
            _ => format!(
                "{held} of {measured} ({:.0} %)",
                100.0 * held as f64 / measured as f64
            ),
        }
    }

    /// All four counts in words.
    #[must_use]
    pub fn told(self) -> String {
        format!(
            "{} held, {} missed, {} in another regime, {} not measured",
            self.held, self.missed, self.other_regime, self.not_measured
        )
    }
}

/// Tallies of claims that are never added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Claims about the paper's systems in the primary set-up of their figure.
    pub primary: Tally,
    /// Claims about the paper's systems in secondary set-ups.
    pub beside: Tally,
    /// Claims that do not test the paper's systems; see [`About`].
    pub apart: Tally,
}

impl Counts {
    /// Counts `claims` by set-up and verdict.
    pub fn of<'a>(claims: impl IntoIterator<Item = &'a Claim>) -> Self {
        let (about, apart): (Vec<&Claim>, Vec<&Claim>) = claims
            .into_iter()
            .partition(|claim| claim.about == About::Paper);
        let (primary, beside): (Vec<&Claim>, Vec<&Claim>) =
            about.into_iter().partition(|claim| claim.primary);
        let tally = |claims: Vec<&Claim>| Tally::of(claims);
        Self {
            primary: tally(primary),
            beside: tally(beside),
            apart: tally(apart),
        }
    }
}
