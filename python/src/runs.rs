//! Runs of plans; other Python threads continue meanwhile.

use crate::plans::{asked, read};
use crate::policies::{self, Failure};
use crate::refused;
use pyo3::prelude::*;
use ssd::Policies;
use stack::Progress;
use std::ops::ControlFlow;

/// Runs the plan of a document and returns its record as a document, without wall time and memory,
/// which the caller measures.
///
/// `victim` and `placement` replace the firmware's policies; `heard` is called from time to time
/// with the requests completed and the virtual time in ns. An exception in any of them ends the
/// run, and so does a signal.
#[pyfunction]
#[allow(
    clippy::needless_pass_by_value,
    reason = "what comes from Python is converted, and owned"
)]
#[pyo3(signature = (plan, victim=None, placement=None, heard=None))]
pub(crate) fn run(
    py: Python<'_>,
    plan: &str,
    victim: Option<Py<PyAny>>,
    placement: Option<Py<PyAny>>,
    heard: Option<Py<PyAny>>,
) -> PyResult<String> {
    let mut plan = read(plan)?;
    let asked = asked(&plan.workload)?;
    plan.workload.clone_from(&asked.text);
    let failure = Failure::default();
    plan.policies = chosen(victim, placement, &failure);
    let mut go_on = |progress: Progress| match failure.is_there() {
        true => ControlFlow::Break(()),
        false => Python::attach(|py| failure.keep(told(py, heard.as_ref(), progress))),
    };
    let outcome = py.detach(|| stack::run_while(&plan, &mut go_on));
    failure.raised()?;
    let mut run = outcome.map_err(|error| refused(asked.named(&error.to_string())))?;
    run.workload = asked.named(&run.workload);
    run.label = asked.named(&run.label);
    Ok(report::to_json(&run))
}

/// The policies of Python functions, whose exceptions `failure` keeps.
pub(crate) fn chosen(
    victim: Option<Py<PyAny>>,
    placement: Option<Py<PyAny>>,
    failure: &Failure,
) -> Policies {
    let mut chosen = Policies::default();
    if let Some(victim) = victim {
        chosen = policies::victim(chosen, victim, failure.clone());
    }
    if let Some(placement) = placement {
        chosen = policies::placement(chosen, placement, failure.clone());
    }
    chosen
}

/// Checks for signals, then calls the listener.
fn told(py: Python<'_>, heard: Option<&Py<PyAny>>, progress: Progress) -> PyResult<()> {
    py.check_signals()?;
    if let Some(heard) = heard {
        heard.call1(py, (progress.ops, progress.sim_time.0))?;
    }
    Ok(())
}
