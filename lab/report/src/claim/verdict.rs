//! What becomes of a claim, and how claims are counted.
//!
//! Invariants: every claim has one verdict; a share is of all claims that were measured, those
//! of another regime among them; claims of the primary set-up of a figure, of its other
//! set-ups, and those that do not test the paper's system are counted apart and never added up.

use super::Claim;
use serde::{Deserialize, Serialize};

/// What became of a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Measured, in the paper's regime or where none is declared, and as the paper has it.
    Held,
    /// Measured there, and not as the paper has it.
    Missed,
    /// Measured in an experiment that differs from the paper's by more than a factor of two in
    /// a number that its figure declares; see [`crate::regime`].
    OtherRegime,
    /// Not measured.
    #[default]
    NotMeasured,
}

impl Verdict {
    /// It in words, as in a table.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Missed => "missed",
            Self::OtherRegime => "other regime",
            Self::NotMeasured => "not measured",
        }
    }

    /// The class of style sheets that shows it.
    #[must_use]
    pub const fn class(self) -> &'static str {
        match self {
            Self::Held => "hold",
            Self::Missed => "miss",
            Self::OtherRegime => "else",
            Self::NotMeasured => "open",
        }
    }

    /// The field `holds` of a claim: true exactly for [`Self::Held`].
    #[must_use]
    pub const fn holds(self) -> Option<bool> {
        match self {
            Self::Held => Some(true),
            Self::Missed | Self::OtherRegime => Some(false),
            Self::NotMeasured => None,
        }
    }
}

/// Which system a claim is a test of.
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
    /// Nothing in the paper: what this project says of the mechanism.
    Own,
}

/// How many claims there are of each verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Claims that held.
    pub held: usize,
    /// Claims that were missed.
    pub missed: usize,
    /// Claims that were measured in another regime.
    pub other_regime: usize,
    /// Claims that were not measured.
    pub not_measured: usize,
}

impl Tally {
    /// The tally of `claims`.
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

    /// Claims that were measured.
    #[must_use]
    pub const fn measured(self) -> usize {
        self.held + self.missed + self.other_regime
    }

    /// All claims.
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
    /// Claims about the paper's systems in other set-ups.
    pub beside: Tally,
    /// Claims that are not about the paper's systems.
    pub apart: Tally,
}

impl Counts {
    /// The counts of `claims`.
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
