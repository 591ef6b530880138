//! Policies that are written in Python.
//!
//! Invariant: a function that raises, or that chooses what is not there, ends its run
//! with that exception. Until the run notices, the first choice there is stands in.

use crate::refused;
use pyo3::prelude::*;
use ssd::{LineView, Policies, WriteView};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

/// What records and messages call a policy of a Python program.
const NAME: &str = "python";

/// A line of flash that can be reclaimed.
#[pyclass(frozen, get_all, module = "flashloom")]
#[derive(Clone, Copy)]
pub(crate) struct Line {
    /// Its number.
    line: u32,
    /// Valid pages, which have to be moved.
    valid: u32,
    /// Pages that it could hold.
    pages: u32,
    /// Programs issued since it was closed.
    age: u64,
    /// Erases so far.
    erases: u32,
}

/// A write of the host.
#[pyclass(frozen, get_all, module = "flashloom")]
#[derive(Clone, Copy)]
pub(crate) struct Write {
    /// The first mapped page that it touches.
    page: u32,
    /// How many it touches.
    pages: u32,
    /// The handle that it would go through otherwise.
    handle: u16,
    /// Handles that there are.
    handles: u16,
    /// Programs issued since the line was closed that holds what it replaces; 0 while
    /// that is open or in the buffer, None if there is nothing.
    age: Option<u64>,
}

/// The first exception of a run.
#[derive(Clone, Default)]
pub(crate) struct Failure(Arc<Mutex<Option<PyErr>>>);

impl Failure {
    /// Whether there is one.
    pub(crate) fn is_there(&self) -> bool {
        self.held().is_some()
    }

    /// Keeps what `outcome` has raised, if it is the first, and says whether to go on.
    pub(crate) fn keep<T>(&self, outcome: PyResult<T>) -> ControlFlow<(), T> {
        outcome.map_or_else(
            |error| {
                self.held().get_or_insert(error);
                ControlFlow::Break(())
            },
            ControlFlow::Continue,
        )
    }

    /// Raises it.
    pub(crate) fn raised(&self) -> PyResult<()> {
        self.held().take().map_or(Ok(()), Err)
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Option<PyErr>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What `choose` chooses; `else_` if it raises, or has raised.
    fn choice<T>(&self, else_: T, choose: impl FnOnce(Python<'_>) -> PyResult<T>) -> T {
        if self.is_there() {
            return else_;
        }
        match Python::attach(|py| self.keep(choose(py))) {
            ControlFlow::Continue(choice) => choice,
            ControlFlow::Break(()) => else_,
        }
    }
}

/// `policies` with the victim that `function` chooses of a list of lines.
pub(crate) fn victim(policies: Policies, function: Py<PyAny>, failure: Failure) -> Policies {
    policies.victim(NAME, move |lines| {
        let index = failure.choice(0, |py| {
            let views: Vec<Line> = lines.iter().map(Line::of).collect();
            let chosen = function.call1(py, (views,))?;
            let chosen = chosen.bind(py).cast::<Line>().map(|line| line.get().line);
            let chosen = chosen.ok();
            let mut lines = lines.iter();
            let index = lines.position(|view| Some(view.line) == chosen);
            index.ok_or_else(|| refused("victim: expected one of the lines that it was given"))
        });
        &lines[index]
    })
}

/// `policies` with the handle that `function` chooses for a write.
pub(crate) fn placement(policies: Policies, function: Py<PyAny>, failure: Failure) -> Policies {
    policies.placement(NAME, move |view| {
        failure.choice(view.handle, |py| {
            let chosen = function.call1(py, (Write::of(view),))?;
            let handle = chosen.extract::<u16>(py).ok();
            let there = handle.filter(|&handle| handle < view.handles);
            let wanted = || {
                let most = view.handles - 1;
                refused(format!("placement: expected a handle from 0 to {most}"))
            };
            there.ok_or_else(wanted)
        })
    })
}

impl Line {
    fn of(view: &LineView) -> Self {
        Self {
            line: view.line,
            valid: view.valid,
            pages: view.pages,
            age: view.age,
            erases: view.erases,
        }
    }
}

impl Write {
    fn of(view: &WriteView) -> Self {
        Self {
            page: view.page,
            pages: view.pages,
            handle: view.handle,
            handles: view.handles,
            age: view.age,
        }
    }
}
