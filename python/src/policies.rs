//! Policies written in Python.
//!
//! Invariant: a function that raises, or whose choice does not exist, ends its run with that
//! exception. Until the run notices, a default choice is used.

use crate::refused;
use pyo3::prelude::*;
use ssd::{LineView, Policies, WriteView};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

/// Name of Python policies in records and messages.
const NAME: &str = "python";

/// A line of flash that can be reclaimed.
#[pyclass(frozen, get_all, module = "flashloom")]
#[derive(Clone, Copy)]
pub(crate) struct Line {
    /// Index of the line.
    line: u32,
    /// Valid pages, which must be relocated.
    valid: u32,
    /// Data pages that the line can hold.
    pages: u32,
    /// Programs issued since the line was closed.
    age: u64,
    /// Erase cycles so far.
    erases: u32,
}

/// A write of the host.
#[pyclass(frozen, get_all, module = "flashloom")]
#[derive(Clone, Copy)]
pub(crate) struct Write {
    /// First mapped page that the write touches.
    page: u32,
    /// Mapped pages that the write touches.
    pages: u32,
    /// Handle that the host named.
    handle: u16,
    /// Handles of the drive, over all reclaim groups.
    handles: u16,
    /// Programs issued since the line that holds the page's current version was closed; 0 while
    /// that line is open or the version is in the buffer, None if the page is unmapped.
    age: Option<u64>,
}

/// First exception of a run's Python functions.
#[derive(Clone, Default)]
pub(crate) struct Failure(Arc<Mutex<Option<PyErr>>>);

impl Failure {
    /// Whether a function has raised.
    pub(crate) fn is_there(&self) -> bool {
        self.held().is_some()
    }

    /// Keeps the exception of `outcome` if it is the first; breaks if there was one.
    pub(crate) fn keep<T>(&self, outcome: PyResult<T>) -> ControlFlow<(), T> {
        outcome.map_or_else(
            |error| {
                self.held().get_or_insert(error);
                ControlFlow::Break(())
            },
            ControlFlow::Continue,
        )
    }

    /// Raises the kept exception, if there is one.
    pub(crate) fn raised(&self) -> PyResult<()> {
        self.held().take().map_or(Ok(()), Err)
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Option<PyErr>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The choice of `choose`; `else_` if it raises, or a function has raised before.
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

/// Adds a victim policy to `policies`: `function` chooses one of a list of lines.
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

/// Adds a placement policy to `policies`: `function` chooses the handle of a write.
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
