//! Comparison of memory designs: the request in words, and the document of the outcomes.

use crate::outcome::{Outcome, compare};
use crate::setup::{Change, Setup, SetupError};
use programs::{Workload, WorkloadError};
use serde::Serialize;
use skybyte::Profile;

/// Design that others are compared with if it is among the runs; otherwise the first one.
const BASE: &str = "base-cssd";

/// Schema of the document of several designs.
pub const MEMORY_RUNS_SCHEMA: &str = "flashloom.memory-runs/1";

/// Request for runs of memory designs, in words.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Names of the designs.
    pub designs: &'a [&'a str],
    /// Workload with its parameters, run on each design.
    pub workload: &'a str,
    /// Name of the reading of the paper, as [`Profile`] has it.
    pub profile: &'a str,
    /// Changes of knobs for all designs, `key=value` each.
    pub changes: &'a [String],
    /// Seed of all random choices.
    pub seed: u64,
}

/// Reason for which a request is refused.
#[derive(Debug, thiserror::Error)]
pub enum AskedError {
    /// There is no profile of this name.
    #[error("expected one of {known}, found {found:?}")]
    Profile {
        /// Names of all profiles.
        known: String,
        /// Name as it was given.
        found: String,
    },
    /// The workload is refused.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The design does not exist, or a change is invalid.
    #[error(transparent)]
    Setup(#[from] SetupError),
}

impl Asked<'_> {
    /// One setup for each design.
    ///
    /// # Errors
    /// A sentence about the first unknown name or invalid value.
    pub fn setups(&self) -> Result<Vec<Setup>, AskedError> {
        let workload = Workload::parse(self.workload)?;
        let profile = self.profile()?;
        let setup = |design: &&str| {
            let setup = Setup::new(design, profile, workload.clone(), self.seed)?;
            self.changes.iter().try_fold(setup, |setup, change| {
                Ok(setup.with(&change.parse::<Change>()?)?)
            })
        };
        self.designs.iter().map(setup).collect()
    }

    fn profile(&self) -> Result<Profile, AskedError> {
        let found = Profile::ALL.into_iter().find(|p| p.name() == self.profile);
        found.ok_or_else(|| AskedError::Profile {
            known: Profile::ALL.map(Profile::name).join(", "),
            found: self.profile.to_owned(),
        })
    }
}

/// Compares `runs` of one workload with the run of `base-cssd`, or with the first run if there are
/// several without it; a single other run is compared with nothing.
pub fn beside(runs: &mut [Outcome]) {
    let base = match &*runs {
        [first, _, ..] if !runs.iter().any(|run| run.design == BASE) => first.design.clone(),
        _ => BASE.to_owned(),
    };
    compare(runs, &base);
}

/// Document with the schema [`MEMORY_RUNS_SCHEMA`].
#[derive(Clone, Copy, Debug, Serialize)]
pub struct MemoryRuns<'a> {
    schema: &'static str,
    runs: &'a [Outcome],
}

impl<'a> MemoryRuns<'a> {
    /// The document of `runs`.
    #[must_use]
    pub const fn of(runs: &'a [Outcome]) -> Self {
        let schema = MEMORY_RUNS_SCHEMA;
        Self { schema, runs }
    }
}
