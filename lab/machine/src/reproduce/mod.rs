//! Reproduction of the SkyByte paper: its plans, the runs that they need, and its claims compared
//! with the measurements.
//!
//! Runs and claims are described in files beside the system, which are embedded here: `setup.toml`
//! and one file for each figure.
//!
//! Invariants: a value is arithmetic on outcomes of runs, none is written down; a run is made once,
//! however many figures need it; each mean states its kind.

mod figure;
mod plan;

use crate::setup::Setup;
use input::document::DocumentError;
use plan::{Key, Plan};
use report::claim::{Counts, REPRODUCE_SCHEMA, Reproduction};
use report::figure::{self as figures, File, Files, Judged, Listed, NoFigure, Wanted};
use report::paper_file;
use serde::Serialize;
use std::collections::BTreeMap;

/// Short name of the paper, in commands and reports.
pub const PAPER: &str = "skybyte";

const SETUP: File = paper_file!("skybyte", "setup");

const REGIME: File = paper_file!("skybyte", "regime");

const FIGURES: &[File] = &[
    paper_file!("skybyte", "fig2"),
    paper_file!("skybyte", "fig3"),
    paper_file!("skybyte", "fig4"),
    paper_file!("skybyte", "fig5"),
    paper_file!("skybyte", "fig6"),
    paper_file!("skybyte", "fig9"),
    paper_file!("skybyte", "fig10"),
    paper_file!("skybyte", "fig14"),
    paper_file!("skybyte", "fig15"),
    paper_file!("skybyte", "fig16"),
    paper_file!("skybyte", "fig17"),
    paper_file!("skybyte", "fig18"),
    paper_file!("skybyte", "fig19"),
    paper_file!("skybyte", "fig20"),
    paper_file!("skybyte", "fig21"),
    paper_file!("skybyte", "fig22"),
    paper_file!("skybyte", "fig23"),
    paper_file!("skybyte", "ablation"),
    paper_file!("skybyte", "replayed"),
];

const FILES: Files = Files {
    paper: PAPER,
    figures: FIGURES,
    regime: Some(&REGIME),
};

/// Error of a plan, or of a request for it.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A file has a fault at one line.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// There is no such figure.
    #[error(transparent)]
    Figure(#[from] NoFigure),
    /// There is no such scale.
    #[error("{PAPER}: expected one of its scales {known}, found {found:?}")]
    Scale {
        /// Names of all scales.
        known: String,
        /// Name as it was given.
        found: String,
    },
}

/// Figures, ready to be measured.
pub struct Prepared {
    plan: Plan,
    scale: String,
    factor: u64,
    seed: u64,
    wanted: Wanted<Key>,
    /// A setup for each run that the figures need.
    pub setups: Vec<Setup>,
}

/// Title of the paper.
///
/// # Errors
/// If a file has a fault.
pub fn title() -> Result<String, PlanError> {
    Ok(Plan::read(&SETUP)?.title)
}

/// Scales, with the divisor of sizes of each.
///
/// # Errors
/// As [`title`].
pub fn scales() -> Result<BTreeMap<String, u64>, PlanError> {
    Ok(Plan::read(&SETUP)?.scales)
}

/// List of the figures.
///
/// # Errors
/// As [`title`].
pub fn list() -> Result<Vec<Listed>, PlanError> {
    let plan = Plan::read(&SETUP)?;
    Ok(figures::list(PAPER, FIGURES, |file| {
        figure::read(&plan, file)
    })?)
}

/// Prepares one figure or all, at a scale of [`scales`], and makes the setups of its runs.
///
/// # Errors
/// If there is no such figure or scale, or a file has a fault.
pub fn prepare(figure: Option<&str>, scale: &str, seed: u64) -> Result<Prepared, PlanError> {
    let plan = Plan::read(&SETUP)?;
    let read = |file: &File| figure::read(&plan, file);
    let wanted = Wanted::read::<PlanError>(FILES, figure, read)?;
    let Some(&factor) = plan.scales.get(scale) else {
        let known: Vec<&str> = plan.scales.keys().map(String::as_str).collect();
        return Err(PlanError::Scale {
            known: known.join(", "),
            found: scale.to_owned(),
        });
    };
    let setups = wanted.keys.iter().map(|key| plan.setup(key, scale, seed));
    let setups = setups.collect::<Result<Vec<Setup>, PlanError>>()?;
    Ok(Prepared {
        plan,
        scale: scale.to_owned(),
        factor,
        seed,
        wanted,
        setups,
    })
}

impl Prepared {
    /// Compares the claims with `runs`, which are in the order of the setups. Claims that need a
    /// failed run are listed with the reason.
    pub fn claims<R: Serialize>(&self, runs: Vec<Result<R, String>>) -> Reproduction<R> {
        let judged = self.wanted.measured(&runs, self.factor);
        self.reproduction(judged, runs.into_iter().flatten().collect())
    }

    /// Judges the values of an `earlier` report by the present plans, without a run.
    #[must_use]
    pub fn again<R>(&self, earlier: &Judged) -> Reproduction<R> {
        self.reproduction(self.wanted.judged_again(earlier), Vec::new())
    }

    fn reproduction<R>(&self, judged: Judged, runs: Vec<R>) -> Reproduction<R> {
        Reproduction {
            schema: REPRODUCE_SCHEMA.to_owned(),
            paper: PAPER.to_owned(),
            title: self.plan.title.clone(),
            figures: self.wanted.names.clone(),
            scale: self.scale.clone(),
            factor: self.factor,
            seed: self.seed,
            notes: self.plan.notes.clone(),
            counts: Counts::of(&judged.claims),
            regimes: judged.lines,
            claims: judged.claims,
            runs,
        }
    }
}
