//! The SkyByte paper reproduced: its plans, the runs that these need, and its claims
//! beside what was measured.
//!
//! What is run and what is claimed are files beside the system, embedded here: a
//! `setup.toml` and a file for each figure.
//!
//! Invariants: a value is arithmetic on outcomes of runs, none is written down; a run
//! is made once, however many figures need it; a mean is named as the one that it is.

mod figure;
mod plan;
mod source;

use crate::setup::Setup;
use figure::Row;
use plan::{Key, Plan};
use report::claim::{self, Claim, REPRODUCE_SCHEMA, Reproduction};
use serde::Serialize;
use source::Source;
use std::collections::{BTreeMap, BTreeSet};

pub use source::PlanError;

/// The paper's short name.
pub const PAPER: &str = "skybyte";

/// The file `NAME.toml` of the system.
macro_rules! files {
    ($($name:literal,)*) => {
        [$(Source {
            name: $name,
            path: concat!("systems/skybyte/reproduce/", $name, ".toml"),
            text: include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../systems/skybyte/reproduce/",
                $name,
                ".toml"
            )),
        },)*]
    };
}

const SETUP: [Source; 1] = files!["setup",];

const FIGURES: [Source; 18] = files![
    "fig2", "fig3", "fig4", "fig5", "fig6", "fig9", "fig10", "fig14", "fig15", "fig16", "fig17",
    "fig18", "fig19", "fig20", "fig21", "fig22", "fig23", "ablation",
];

/// A figure that can be reproduced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// As it is asked for: `skybyte/fig14`.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// Where it is in the paper.
    pub source: String,
    /// How many claims it has.
    pub claims: usize,
}

/// Figures that are ready to be measured.
pub struct Prepared {
    plan: Plan,
    scale: String,
    factor: u64,
    seed: u64,
    figures: Vec<String>,
    rows: Vec<Row>,
    keys: Vec<Key>,
    /// A setup for each run that the figures need.
    pub setups: Vec<Setup>,
}

/// The title of the paper.
///
/// # Errors
/// If a file says something else than it should.
pub fn title() -> Result<String, PlanError> {
    Ok(Plan::read(&SETUP[0])?.title)
}

/// The scales, and what each divides sizes by.
///
/// # Errors
/// As [`title`].
pub fn scales() -> Result<BTreeMap<String, u64>, PlanError> {
    Ok(Plan::read(&SETUP[0])?.scales)
}

/// The figures.
///
/// # Errors
/// As [`title`].
pub fn list() -> Result<Vec<Listed>, PlanError> {
    let plan = Plan::read(&SETUP[0])?;
    let listed = |file: &Source| {
        let read = figure::read(&plan, file)?;
        Ok(Listed {
            name: format!("{PAPER}/{}", file.name),
            title: read.title,
            source: read.source,
            claims: read.rows.len(),
        })
    };
    FIGURES.iter().map(listed).collect()
}

/// Reads what is asked for, all figures or one, at a scale of [`scales`], and makes its
/// setups.
///
/// # Errors
/// If there is no such figure or scale, or a file says something else than it should.
pub fn prepare(figure: Option<&str>, scale: &str, seed: u64) -> Result<Prepared, PlanError> {
    let plan = Plan::read(&SETUP[0])?;
    let wanted = |file: &&Source| figure.is_none_or(|figure| figure == file.name);
    let files: Vec<&Source> = FIGURES.iter().filter(wanted).collect();
    if files.is_empty() {
        let names: Vec<&str> = FIGURES.iter().map(|file| file.name).collect();
        return Err(PlanError::asked(
            "figures",
            &names,
            figure.unwrap_or_default(),
        ));
    }
    let Some(&factor) = plan.scales.get(scale) else {
        let names: Vec<&str> = plan.scales.keys().map(String::as_str).collect();
        return Err(PlanError::asked("scales", &names, scale));
    };
    let mut rows = Vec::new();
    for file in &files {
        rows.extend(figure::read(&plan, file)?.rows);
    }
    let keys: BTreeSet<&Key> = rows.iter().flat_map(Row::keys).collect();
    let keys: Vec<Key> = keys.into_iter().cloned().collect();
    let setups = keys.iter().map(|key| plan.setup(key, scale, seed));
    let setups = setups.collect::<Result<Vec<Setup>, PlanError>>()?;
    Ok(Prepared {
        figures: files.iter().map(|file| file.name.to_owned()).collect(),
        plan,
        scale: scale.to_owned(),
        factor,
        seed,
        rows,
        keys,
        setups,
    })
}

impl Prepared {
    /// Sets what `runs` of the setups, in their order, measured beside the claims; what
    /// takes a run that failed is listed with the reason.
    pub fn claims<R: Serialize>(&self, runs: Vec<Result<R, String>>) -> Reproduction<R> {
        let documents = claim::documents(&self.keys, &runs);
        let claims: Vec<Claim> = self.rows.iter().map(|row| row.claim(&documents)).collect();
        Reproduction {
            schema: REPRODUCE_SCHEMA.to_owned(),
            paper: PAPER.to_owned(),
            title: self.plan.title.clone(),
            figures: self.figures.clone(),
            scale: self.scale.clone(),
            factor: self.factor,
            seed: self.seed,
            notes: self.plan.notes.clone(),
            claims,
            runs: runs.into_iter().flatten().collect(),
        }
    }
}
