//! Output files of the Python package.

use crate::refused;
use pyo3::prelude::*;
use std::path::Path;

/// Writes `text` to `path` atomically: the file appears complete or not at all.
#[pyfunction]
pub(crate) fn write(path: &str, text: &str) -> PyResult<()> {
    report::file::write(Path::new(path), text).map_err(refused)
}
