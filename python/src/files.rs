//! Output files.

use crate::refused;
use pyo3::prelude::*;
use std::path::Path;

/// Writes `text` to `path`, where it appears complete or not at all.
#[pyfunction]
pub(crate) fn write(path: &str, text: &str) -> PyResult<()> {
    report::file::write(Path::new(path), text).map_err(refused)
}
