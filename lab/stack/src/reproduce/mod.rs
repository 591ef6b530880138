//! Papers reproduced: their plans, the runs that these need, and their claims beside
//! what was measured.
//!
//! What is run and what is claimed are files beside the system, embedded here: a
//! `setup.toml` for the paper (`setup`) and a file for each figure (`figure`).
//!
//! Invariants: a value is arithmetic on records of runs, none is written down; runs of
//! the same host, workload and setting are made once, however many figures need them;
//! a claim of a host that cannot be run is listed with the reason that the table of
//! stacks gives, and begins to be measured once that table has the host.

mod figure;
mod papers;
mod scale;
mod setup;

pub use papers::{PAPERS, Paper};

use crate::error::StackError;
use crate::plan::Plan;
use figure::Key;
use report::claim::{Counts, REPRODUCE_SCHEMA, Reproduction};
use report::figure::{Judged, Listed, Wanted};
use serde::Serialize;
use setup::Setup;
use std::collections::BTreeMap;

/// What is asked of a paper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The paper.
    pub paper: &'static Paper,
    /// The figure; none for all.
    pub figure: Option<String>,
    /// The name of the scale, for the document.
    pub scale: String,
    /// What sizes of the paper are divided by.
    pub factor: u64,
    /// The seed of all runs.
    pub seed: u64,
}

/// Figures that are ready to be measured.
pub struct Prepared {
    asked: Asked,
    setup: Setup,
    wanted: Wanted<Key>,
    /// A plan for each run that the figures need.
    pub plans: Vec<Plan>,
}

impl Paper {
    /// The scales at which it can be run, and what each divides sizes by.
    ///
    /// # Errors
    /// Names the file, the line and what was expected there.
    pub fn scales(&self) -> Result<BTreeMap<String, u64>, StackError> {
        Ok(Setup::read(self.setup.source())?.scales)
    }

    /// Its title.
    ///
    /// # Errors
    /// As [`Self::scales`].
    pub fn title(&self) -> Result<String, StackError> {
        Ok(Setup::read(self.setup.source())?.title)
    }

    /// Its figures.
    ///
    /// # Errors
    /// As [`Self::scales`].
    pub fn list(&self) -> Result<Vec<Listed>, StackError> {
        let setup = Setup::read(self.setup.source())?;
        let read = |file: &report::figure::File| figure::read(&setup, file.name, &file.source());
        Ok(report::figure::list(self.name, self.figures, read)?)
    }
}

/// Reads what is asked for and makes its plans.
///
/// # Errors
/// If there is no such figure, or if a plan file says something else than it should:
/// then the error names the file, the line and what was expected there.
pub fn prepare(asked: Asked) -> Result<Prepared, StackError> {
    let setup = Setup::read(asked.paper.setup.source())?;
    let read = |file: &report::figure::File| figure::read(&setup, file.name, &file.source());
    let figure = asked.figure.as_deref();
    let wanted = Wanted::read::<StackError>(asked.paper.files(), figure, read)?;
    let keys = wanted.keys.iter();
    let plans = keys.map(|key| setup.plan(key, asked.factor, asked.seed));
    let plans = plans.collect::<Result<Vec<Plan>, StackError>>()?;
    Ok(Prepared {
        asked,
        setup,
        wanted,
        plans,
    })
}

impl Prepared {
    /// Sets what `runs` of the plans, in their order, measured beside the claims; what
    /// takes a run that failed is listed with the reason.
    pub fn claims<R: Serialize>(&self, runs: Vec<Result<R, String>>) -> Reproduction<R> {
        let judged = self.wanted.measured(&runs, self.asked.factor);
        self.reproduction(judged, runs.into_iter().flatten().collect())
    }

    /// Judges the values of an `earlier` report by the plans of today, without a run.
    #[must_use]
    pub fn again<R>(&self, earlier: &Judged) -> Reproduction<R> {
        self.reproduction(self.wanted.judged_again(earlier), Vec::new())
    }

    fn reproduction<R>(&self, judged: Judged, runs: Vec<R>) -> Reproduction<R> {
        Reproduction {
            schema: REPRODUCE_SCHEMA.to_owned(),
            paper: self.asked.paper.name.to_owned(),
            title: self.setup.title.clone(),
            figures: self.wanted.names.clone(),
            scale: self.asked.scale.clone(),
            factor: self.asked.factor,
            seed: self.asked.seed,
            notes: self.setup.notes.clone(),
            counts: Counts::of(&judged.claims),
            regimes: judged.lines,
            claims: judged.claims,
            runs,
        }
    }
}

#[cfg(test)]
mod tests;
