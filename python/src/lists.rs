//! Lists of names, as tuples of strings: stacks, drives, workloads, designs, programs, metrics.

use crate::refused;
use input::named::{self, Preset};
use pyo3::prelude::*;
use report::configuration;
use report::metric::{self, Unit};
use report::record::Run;
use workload::shipped;

/// A name and its help text.
type Named = (&'static str, &'static str);

/// A workload: name, help, and parameters as (name, default, form of a value, help).
type Workload = (
    &'static str,
    &'static str,
    Vec<(&'static str, &'static str, String, &'static str)>,
);

/// All stacks, with their help.
#[pyfunction]
pub(crate) fn stacks() -> Vec<Named> {
    stack::STACKS.iter().map(|s| (s.name, s.help)).collect()
}

/// All presets of drives, with their help.
#[pyfunction]
pub(crate) fn drives() -> Vec<Named> {
    ssd::PRESETS.iter().map(|p| (p.name, p.help)).collect()
}

/// Workloads of requests and of files, with their parameters.
#[pyfunction]
pub(crate) fn workloads() -> Vec<Workload> {
    let come_along = shipped::ALL.into_iter();
    let come_along = come_along.map(|s| (s.name, s.help, params(s.params)));
    let presets = workload::presets().map(|p| (p.name, p.help, params(p)));
    come_along.chain(presets).collect()
}

/// All designs of memory, with their help.
#[pyfunction]
pub(crate) fn designs() -> Vec<Named> {
    skybyte::DESIGNS.iter().map(|d| (d.name, d.help)).collect()
}

/// Programs for memory, with their parameters.
#[pyfunction]
pub(crate) fn programs() -> Vec<Workload> {
    let told = ::programs::PRESETS.iter();
    told.map(|p| (p.name, p.help, params(p))).collect()
}

fn params<U: named::Unit>(
    preset: &Preset<U>,
) -> Vec<(&'static str, &'static str, String, &'static str)> {
    let params = preset.params();
    let told = params.map(|p| (p.name, p.default, p.unit.expectation(), p.help));
    told.collect()
}

/// Numbers of a record that comparisons use: JSON pointer, label, unit, help.
#[pyfunction]
pub(crate) fn metrics() -> Vec<(&'static str, &'static str, &'static str, &'static str)> {
    let told = |m: &'static metric::Metric| (m.path, m.label, unit(m.unit), m.help);
    metric::all().map(told).collect()
}

/// Differences of runs besides the interfaces of their drives. `runs` is a JSON list of records;
/// the result is a JSON document.
#[pyfunction]
pub(crate) fn differences(runs: &str) -> PyResult<String> {
    let runs: Vec<Run> = serde_json::from_str(runs).map_err(refused)?;
    serde_json::to_string(&configuration::differences(&runs)).map_err(refused)
}

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Count => "",
        Unit::Ns => "ns",
        Unit::Seconds => "s",
        Unit::Bytes => "bytes",
        Unit::Rate => "bytes/s",
        Unit::Factor => "factor",
        Unit::Share => "share",
        Unit::Years => "years",
    }
}
