//! Programs on memory systems with a CXL-SSD.
//!
//! Invariants: records cross the boundary as the documents of the command line. An exception of a
//! listener ends a run, and so does a signal.

use crate::policies::Failure;
use crate::refused;
use machine::{Asked, MemoryRuns, Outcome, Sweep, Witness, beside};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One program on several designs, each run once. The designs share the execution of the program
/// before its section.
#[pyclass(frozen, module = "flashloom._native")]
pub(crate) struct Designs {
    sweep: Sweep,
    /// Instructions that all runs have executed so far.
    executed: AtomicU64,
    /// Outcomes of finished runs, by the index of the design.
    outcomes: Mutex<BTreeMap<usize, Outcome>>,
}

#[pymethods]
impl Designs {
    /// Prepares the runs of `designs` with a reading of the paper and changed knobs, `key=value`.
    #[new]
    #[allow(
        clippy::needless_pass_by_value,
        reason = "what comes from Python is converted, and owned"
    )]
    fn new(
        py: Python<'_>,
        designs: Vec<String>,
        workload: &str,
        profile: &str,
        changes: Vec<String>,
        seed: u64,
    ) -> PyResult<Self> {
        let names: Vec<&str> = designs.iter().map(String::as_str).collect();
        let asked = Asked {
            designs: &names,
            workload,
            profile,
            changes: &changes,
            seed,
        };
        Ok(Self {
            sweep: Sweep::new(py.detach(|| asked.setups()).map_err(refused)?),
            executed: AtomicU64::new(0),
            outcomes: Mutex::default(),
        })
    }

    fn __len__(&self) -> usize {
        self.sweep.setups().len()
    }

    /// Performs run number `turn`, and returns the index of its design. Each turn may be run once.
    /// `heard` is called from time to time with the instructions that all runs have executed.
    #[pyo3(signature = (turn, heard=None))]
    #[allow(
        clippy::needless_pass_by_value,
        reason = "what comes from Python is converted, and owned"
    )]
    fn run(&self, py: Python<'_>, turn: usize, heard: Option<Py<PyAny>>) -> PyResult<usize> {
        let failure = Failure::default();
        let told = |py: Python<'_>, executed: u64| {
            py.check_signals()?;
            if let Some(heard) = &heard {
                heard.call1(py, (executed,))?;
            }
            Ok(())
        };
        let listen = |more| {
            let executed = self.executed.fetch_add(more, Ordering::Relaxed) + more;
            Python::attach(|py| failure.keep(told(py, executed)))
        };
        let witness = Witness {
            heard: &listen,
            ..Witness::NOBODY
        };
        let made = py.detach(|| self.sweep.run(turn, witness));
        failure.raised()?;
        let none = || PyIndexError::new_err(format!("there are {} runs", self.__len__()));
        let (index, outcome) = made.ok_or_else(none)?;
        self.held().insert(index, outcome.map_err(refused)?);
        Ok(index)
    }

    /// The document of all finished runs with their ratios, without wall times.
    fn document(&self) -> PyResult<String> {
        let mut runs: Vec<Outcome> = self.held().values().cloned().collect();
        beside(&mut runs);
        serde_json::to_string(&MemoryRuns::of(&runs)).map_err(refused)
    }
}

impl Designs {
    fn held(&self) -> MutexGuard<'_, BTreeMap<usize, Outcome>> {
        self.outcomes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
