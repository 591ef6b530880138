//! Designs of memory beside each other: what is asked for, and the document of what came out.

use crate::outcome::{Outcome, compare};
use crate::setup::{Change, Setup, SetupError};
use programs::{Workload, WorkloadError};
use serde::Serialize;
use skybyte::Profile;

/// What designs are compared with, where it is among them; else with the first.
const BASE: &str = "base-cssd";

/// The schema of the document of several designs.
pub const MEMORY_RUNS_SCHEMA: &str = "flashloom.memory-runs/1";

/// What designs of memory are asked for, in words.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Their names.
    pub designs: &'a [&'a str],
    /// What runs on each, with its parameters.
    pub workload: &'a str,
    /// The reading of the paper.
    pub profile: &'a str,
    /// Changes of knobs of all of them, `key=value`.
    pub changes: &'a [String],
    /// The seed of everything that is random.
    pub seed: u64,
}

/// What cannot be asked for.
#[derive(Debug, thiserror::Error)]
pub enum AskedError {
    /// No such reading of the paper.
    #[error("expected one of {known}, found {found:?}")]
    Profile {
        /// What there is.
        known: String,
        /// What was asked for.
        found: String,
    },
    /// The workload.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A design, or a change of it.
    #[error(transparent)]
    Setup(#[from] SetupError),
}

impl Asked<'_> {
    /// A setup for each design.
    ///
    /// # Errors
    /// What of it there is not, in a sentence.
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

/// Sets `runs` of one workload beside that of `base-cssd`, or the first if they are several without
/// it; one alone beside nothing.
pub fn beside(runs: &mut [Outcome]) {
    let base = match &*runs {
        [first, _, ..] if !runs.iter().any(|run| run.design == BASE) => first.design.clone(),
        _ => BASE.to_owned(),
    };
    compare(runs, &base);
}

/// The document [`MEMORY_RUNS_SCHEMA`].
#[derive(Clone, Copy, Debug, Serialize)]
pub struct MemoryRuns<'a> {
    schema: &'static str,
    runs: &'a [Outcome],
}

impl<'a> MemoryRuns<'a> {
    /// That of `runs`.
    #[must_use]
    pub const fn of(runs: &'a [Outcome]) -> Self {
        let schema = MEMORY_RUNS_SCHEMA;
        Self { schema, runs }
    }
}
