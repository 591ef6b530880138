//! Plans as documents.
//!
//! Invariant: a document contains the workload as the caller wrote it, so that it means the same on
//! any machine that has the package.

use crate::refused;
use pyo3::prelude::*;
use stack::{Choices, Past, Plan, Sampling, StackName};
use std::str::FromStr;
use units::{Bytes, Ns};
use workload::shipped::Asked;

/// Choices common to all plans of a call: drive, size, assignments to knobs, seed, interval of the
/// timeline, end of the run.
type Chosen = (
    Option<String>,
    Option<String>,
    Vec<String>,
    Option<u64>,
    Option<String>,
    String,
);

/// The plan of one run, as a document.
#[pyfunction]
pub(crate) fn plan(
    stack: &str,
    workload: Option<&str>,
    past: Option<&str>,
    chosen: Chosen,
) -> PyResult<String> {
    let stack: StackName = parsed(stack)?;
    let asked = asked(workload.unwrap_or_else(|| stack::usual_workload(&stack)))?;
    let past = past.map(stack::past).transpose().map_err(refused)?;
    let plan = choices(chosen)?.plan(&stack, past, &asked);
    plan.map(|plan| document(plan, &asked)).map_err(refused)
}

/// The plans of a comparison, as documents in the order of the command line. Missing stacks or
/// preconditions take the command line's defaults.
#[pyfunction]
pub(crate) fn compared(
    workload: &str,
    stacks: Option<Vec<String>>,
    pasts: Option<Vec<String>>,
    chosen: Chosen,
) -> PyResult<Vec<String>> {
    let (asked, choices) = (asked(workload)?, choices(chosen)?);
    let stacks: Vec<StackName> = match stacks {
        Some(names) => names
            .iter()
            .map(|name| parsed(name))
            .collect::<PyResult<_>>()?,
        None => stack::usual_stacks(&asked),
    };
    let pasts: Vec<Past> = match pasts {
        Some(names) => names
            .iter()
            .map(|name| stack::past(name).map_err(refused))
            .collect::<PyResult<_>>()?,
        None => stack::usual_pasts(&stacks),
    };
    let mut documents = Vec::new();
    for past in pasts {
        for stack in &stacks {
            let mut plan = choices.plan(stack, Some(past), &asked).map_err(refused)?;
            plan.sample = plan.sample.or(Some(Sampling::widening()));
            documents.push(document(plan, &asked));
        }
    }
    Ok(documents)
}

/// The plans of a plan file, as documents.
#[pyfunction]
pub(crate) fn plan_file(path: &str) -> PyResult<Vec<String>> {
    let plans = stack::plan_file(path).map_err(refused)?;
    Ok(plans.iter().map(written).collect())
}

/// A drive with all its knobs: a preset or a drive's file, resized, with assignments.
#[pyfunction]
#[allow(
    clippy::needless_pass_by_value,
    reason = "what comes from Python is converted, and owned"
)]
pub(crate) fn drive(name: &str, size: Option<&str>, set: Vec<String>) -> PyResult<String> {
    if let Some(other) = set.iter().find(|set| !stack::knobs::are_of_drive(set)) {
        return Err(refused(format!("{other}: expected a setting of the drive")));
    }
    let size = size.map(parsed::<Bytes>).transpose()?;
    let config = stack::drive::resolve(name, size).map_err(refused)?;
    let config = stack::knobs::drive(config, &set).map_err(refused)?;
    serde_json::to_string(&config).map_err(refused)
}

/// Parses a workload as the library does.
pub(crate) fn asked(told: &str) -> PyResult<Asked> {
    Asked::new(told).map_err(refused)
}

/// Parses the document of a plan.
pub(crate) fn read(document: &str) -> PyResult<Plan> {
    serde_json::from_str(document).map_err(|e| refused(format!("expected a plan: {e}")))
}

fn choices((drive, size, set, seed, timeline, until): Chosen) -> PyResult<Choices> {
    let sample = timeline.as_deref().map(parsed::<Ns>).transpose()?;
    Ok(Choices {
        drive,
        size: size.as_deref().map(parsed::<Bytes>).transpose()?,
        set,
        seed,
        sample: sample.map(Sampling::each),
        until: parsed(&until)?,
    })
}

fn parsed<T: FromStr<Err: std::fmt::Display>>(text: &str) -> PyResult<T> {
    text.parse().map_err(refused)
}

fn document(mut plan: Plan, asked: &Asked) -> String {
    plan.workload.clone_from(&asked.told);
    written(&plan)
}

fn written(plan: &Plan) -> String {
    serde_json::to_string(plan).expect("a plan is numbers and words")
}
