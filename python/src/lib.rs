//! The compiled half of the Python package `flashloom`.
//!
//! Invariants: plans and records cross the boundary as JSON documents, as everywhere else, so that
//! Python has no state that the command line lacks. Every failure is one exception with one
//! sentence. Other Python threads run during a simulation, and a signal ends it.
//!
//! The Python programs' interface is in `flashloom/`, which is written in Python.

mod device;
mod files;
mod lists;
mod memory;
mod plans;
mod policies;
mod runs;

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

create_exception!(
    flashloom,
    Error,
    PyException,
    "What cannot be carried out as asked, in one sentence."
);

/// `error` as a Python exception of one line.
fn refused(error: impl std::fmt::Display) -> PyErr {
    let sentence = error.to_string();
    let words: Vec<&str> = sentence.split_whitespace().collect();
    Error::new_err(words.join(" "))
}

/// The module `flashloom._native`, the compiled half.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::Error;
    #[pymodule_export]
    use crate::device::Stepped;
    #[pymodule_export]
    use crate::files::write;
    #[pymodule_export]
    use crate::lists::{designs, differences, drives, metrics, programs, stacks, workloads};
    #[pymodule_export]
    use crate::memory::Designs;
    #[pymodule_export]
    use crate::plans::{compared, drive, plan, plan_file};
    #[pymodule_export]
    use crate::policies::{Line, Write};
    #[pymodule_export]
    use crate::runs::run;
}
