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
use crate::toml_file::Source;
use figure::{Key, Row};
use report::claim::{self, Claim, REPRODUCE_SCHEMA, Reproduction};
use serde::Serialize;
use setup::Setup;
use std::collections::{BTreeMap, BTreeSet};

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
    figures: Vec<String>,
    rows: Vec<Row>,
    keys: Vec<Key>,
    /// A plan for each run that the figures need.
    pub plans: Vec<Plan>,
}

/// A figure that can be reproduced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// As it is asked for: `bytefs/fig6`.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// Where it is in the paper.
    pub source: String,
    /// How many claims it has.
    pub claims: usize,
}

impl Paper {
    /// The scales at which it can be run, and what each divides sizes by.
    ///
    /// # Errors
    /// Names the file, the line and what was expected there.
    pub fn scales(&self) -> Result<BTreeMap<String, u64>, StackError> {
        Ok(Setup::read(source(&self.setup))?.scales)
    }

    /// Its title.
    ///
    /// # Errors
    /// As [`Self::scales`].
    pub fn title(&self) -> Result<String, StackError> {
        Ok(Setup::read(source(&self.setup))?.title)
    }

    /// Its figures.
    ///
    /// # Errors
    /// As [`Self::scales`].
    pub fn list(&self) -> Result<Vec<Listed>, StackError> {
        let setup = Setup::read(source(&self.setup))?;
        let listed = |file: &papers::File| {
            let read = figure::read(&setup, file.name, &source(file))?;
            Ok(Listed {
                name: format!("{}/{}", self.name, file.name),
                title: read.title,
                source: read.source,
                claims: read.rows.len(),
            })
        };
        self.figures.iter().map(listed).collect()
    }
}

fn source(file: &papers::File) -> Source {
    Source {
        file: file.path.to_owned(),
        text: file.text.to_owned(),
    }
}

/// Reads what is asked for and makes its plans.
///
/// # Errors
/// If there is no such figure, or if a plan file says something else than it should:
/// then the error names the file, the line and what was expected there.
pub fn prepare(asked: Asked) -> Result<Prepared, StackError> {
    let setup = Setup::read(source(&asked.paper.setup))?;
    let wanted = |file: &&papers::File| asked.figure.as_ref().is_none_or(|f| f == file.name);
    let files: Vec<&papers::File> = asked.paper.figures.iter().filter(wanted).collect();
    if files.is_empty() {
        let names: Vec<&str> = asked.paper.figures.iter().map(|f| f.name).collect();
        let found = asked.figure.unwrap_or_default();
        let (paper, names) = (asked.paper.name, names.join(", "));
        let problem = format!("{paper}: expected one of its figures {names}, found {found:?}");
        return Err(StackError::Paper(problem));
    }
    let mut rows = Vec::new();
    for file in &files {
        rows.extend(figure::read(&setup, file.name, &source(file))?.rows);
    }
    let keys: BTreeSet<&Key> = rows.iter().flat_map(Row::keys).collect();
    let keys: Vec<Key> = keys.into_iter().cloned().collect();
    let plans = keys
        .iter()
        .map(|key| setup.plan(key, asked.factor, asked.seed));
    let plans = plans.collect::<Result<Vec<Plan>, StackError>>()?;
    let figures = files.iter().map(|file| file.name.to_owned()).collect();
    Ok(Prepared {
        asked,
        setup,
        figures,
        rows,
        keys,
        plans,
    })
}

impl Prepared {
    /// Sets what `runs` of the plans, in their order, measured beside the claims; what
    /// takes a run that failed is listed with the reason.
    pub fn claims<R: Serialize>(&self, runs: Vec<Result<R, String>>) -> Reproduction<R> {
        let documents = claim::documents(&self.keys, &runs);
        let claims = self
            .rows
            .iter()
            .map(|row| row.claim(&documents, self.asked.factor));
        let claims: Vec<Claim> = claims.collect();
        Reproduction {
            schema: REPRODUCE_SCHEMA.to_owned(),
            paper: self.asked.paper.name.to_owned(),
            title: self.setup.title.clone(),
            figures: self.figures.clone(),
            scale: self.asked.scale.clone(),
            factor: self.asked.factor,
            seed: self.asked.seed,
            notes: self.setup.notes.clone(),
            claims,
            runs: runs.into_iter().flatten().collect(),
        }
    }
}

#[cfg(test)]
mod tests;
