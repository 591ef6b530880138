//! Papers reproduced: their plans, the runs that these need, and their claims beside the measured
//! values.
//!
//! Runs and claims are declared in files beside the system, embedded here: a `setup.toml` for the
//! paper (`setup`) and a file for each figure (`figure`).
//!
//! Invariants: every value is arithmetic on records of runs; runs of the same host, workload and
//! setting are made once, however many figures need them; a claim about a host that cannot be run
//! is listed with the reason of the table of stacks, and is measured as soon as that table has the
//! host.

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

/// A request to reproduce a paper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The paper to reproduce.
    pub paper: &'static Paper,
    /// Name of one figure; `None` for all.
    pub figure: Option<String>,
    /// The name of the scale, for the document.
    pub scale: String,
    /// Divisor between the sizes of the paper and those of the runs.
    pub factor: u64,
    /// The seed of all runs.
    pub seed: u64,
}

/// Figures with their plans, ready to be measured.
pub struct Prepared {
    asked: Asked,
    setup: Setup,
    wanted: Wanted<Key>,
    /// One plan for each run that the figures need.
    pub plans: Vec<Plan>,
}

impl Paper {
    /// The scales of the paper by name, each with its divisor of sizes.
    ///
    /// # Errors
    /// With the file, the line and what was expected there.
    pub fn scales(&self) -> Result<BTreeMap<String, u64>, StackError> {
        Ok(Setup::read(self.setup.source())?.scales)
    }

    /// The full title of the paper.
    ///
    /// # Errors
    /// The errors of [`Self::scales`].
    pub fn title(&self) -> Result<String, StackError> {
        Ok(Setup::read(self.setup.source())?.title)
    }

    /// All figures of the paper.
    ///
    /// # Errors
    /// The errors of [`Self::scales`].
    pub fn list(&self) -> Result<Vec<Listed>, StackError> {
        let setup = Setup::read(self.setup.source())?;
        let read = |file: &report::figure::File| figure::read(&setup, file.name, &file.source());
        Ok(report::figure::list(self.name, self.figures, read)?)
    }
}

/// Reads the requested figures, and makes their plans.
///
/// # Errors
/// If there is no such figure, or if a file is malformed: then with the file, the line and what was
/// expected there.
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
    /// The claims, measured by `runs` of the plans in their order; a claim that needs a failed run
    /// has the reason.
    pub fn claims<R: Serialize>(&self, runs: Vec<Result<R, String>>) -> Reproduction<R> {
        let judged = self.wanted.measured(&runs, self.asked.factor);
        self.reproduction(judged, runs.into_iter().flatten().collect())
    }

    /// Judges the values of an `earlier` report by the present plans, without any run.
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
