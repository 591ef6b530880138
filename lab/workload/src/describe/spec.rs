//! A preset and the values of its parameters.

use super::table::{Preset, Shape};
use super::unit::{action, number, part, percent, size, sizes, theta, time};
use super::{Pacing, WorkloadError};
use crate::classify::Placing;
use crate::generate::{Arrivals, Limit, Logs, Order, Part, Synthetic};
use crate::request::Op;
use crate::trace::{Format, Options};
use std::collections::BTreeMap;
use units::did_you_mean;
use units::{Bytes, Ns};

/// A preset and the values that were given. Each has been checked against its
/// unit, so that reading one cannot fail.
pub(crate) struct Spec {
    pub(crate) preset: &'static Preset,
    given: BTreeMap<&'static str, String>,
}

impl Spec {
    /// Reads `name=value,name=value` for the workload `called`.
    pub(crate) fn parse(
        preset: &'static Preset,
        called: &str,
        text: &str,
    ) -> Result<Self, WorkloadError> {
        let mut given = BTreeMap::new();
        for assignment in assignments(text) {
            let (name, value) = assignment.split_once('=').unwrap_or((assignment, ""));
            let Some(param) = preset.param(name) else {
                return Err(unknown(preset, called, name));
            };
            if !param.unit.accepts(value) {
                return Err(WorkloadError::Value {
                    workload: called.to_owned(),
                    param: param.name,
                    expected: param.unit.expectation(),
                    found: value.to_owned(),
                });
            }
            given.insert(param.name, value.to_owned());
        }
        Ok(Self { preset, given })
    }

    /// Whether the workload has such a parameter.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.preset.param(name).is_some()
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        let default = self.preset.param(name).map_or("", |p| p.default);
        self.given.get(name).map_or(default, String::as_str)
    }

    /// The value of `name`, as `read` reads it.
    pub(crate) fn value<T>(&self, name: &str, read: impl Fn(&str) -> Option<T>) -> T {
        let text = self.text(name);
        read(text).unwrap_or_else(|| panic!("{name}={text} was checked by its unit"))
    }

    pub(crate) fn number(&self, name: &str) -> u64 {
        self.value(name, number)
    }

    pub(super) fn synthetic(&self) -> Synthetic {
        Synthetic {
            label: self.preset.name.to_owned(),
            order: self.order(),
            random_percent: 100,
            read_percent: self.value("read", percent),
            otherwise: Op::Write,
            sizes: self.value("bs", sizes),
            offset: Part::Bytes(Bytes(0)),
            span: self.value("span", part),
            limit: self.limit(),
            flush_every: self.number("flush"),
            arrivals: self.arrivals(),
        }
    }

    fn order(&self) -> Order {
        match self.preset.shape {
            Shape::Sequential => Order::Sequential,
            Shape::Zipf => Order::Zipf(self.value("theta", theta)),
            Shape::HotCold => Order::HotCold {
                hot: self.value("hot", percent),
                access: self.value("access", percent),
            },
            _ => Order::Uniform,
        }
    }

    pub(super) fn logs(&self) -> Logs {
        Logs {
            logs: self.number("logs") as u16,
            append: self.value("bs", size),
            fill: self.value("fill", part),
            limit: self.limit(),
            trim: self.value("trim", size),
            arrivals: self.arrivals(),
        }
    }

    fn limit(&self) -> Limit {
        Limit {
            ops: self.number("ops"),
            ..Limit::NONE
        }
    }

    fn arrivals(&self) -> Arrivals {
        let per_second = self.number("rate");
        match self.text("arrivals") {
            _ if self.preset.shape == Shape::Bursts => Arrivals::Bursts {
                per_second,
                on: self.value("on", time),
                off: self.value("off", time),
            },
            _ if per_second == 0 => Arrivals::Closed,
            "poisson" => Arrivals::Poisson { per_second },
            _ => Arrivals::Fixed { per_second },
        }
    }

    pub(super) fn pacing(&self) -> Pacing {
        match self.arrivals() {
            Arrivals::Closed => Pacing::Closed {
                depth: self.number("depth") as u32,
                think: self.value("think", time),
            },
            _ => Pacing::Open,
        }
    }

    pub(super) fn trace_pacing(&self) -> Pacing {
        match self.number("depth") {
            0 => Pacing::Open,
            depth => Pacing::Closed {
                depth: u32::try_from(depth).unwrap_or(u32::MAX),
                think: Ns::ZERO,
            },
        }
    }

    pub(super) fn format(&self) -> Option<Format> {
        self.text("format").parse().ok()
    }

    /// Whether requests past the end of the drive are folded back onto it.
    pub(super) fn wraps(&self) -> bool {
        self.text("fit") == "wrap"
    }

    pub(super) fn trace_options(&self) -> Options {
        Options {
            devices: self.value("devices", |t| t.parse().ok()),
            action: self.value("action", action),
        }
    }

    pub(super) fn placing(&self) -> Placing {
        let handles = self.number("handles") as u16;
        match self.text("placement") {
            "none" => Placing::None,
            "auto" => Placing::Auto { handles },
            "origin" => Placing::Origin { handles },
            _ => Placing::Own,
        }
    }
}

/// The assignments in `text`. A comma also stands within a device (`8,0`), so
/// what holds no `=` continues the assignment before.
fn assignments(text: &str) -> Vec<&str> {
    let mut all = Vec::new();
    let mut start = 0;
    for (comma, _) in text.match_indices(',') {
        let rest = &text[comma + 1..];
        let next = rest.split(',').next().unwrap_or_default();
        if next.contains('=') || !next.starts_with(|c: char| c.is_ascii_digit()) {
            all.push(&text[start..comma]);
            start = comma + 1;
        }
    }
    all.push(&text[start..]);
    all.retain(|a| !a.is_empty());
    all
}

fn unknown(preset: &'static Preset, called: &str, name: &str) -> WorkloadError {
    let names: Vec<&str> = preset.params().map(|p| p.name).collect();
    WorkloadError::Param {
        workload: called.to_owned(),
        known: names.join(", "),
        found: name.to_owned(),
        hint: did_you_mean(name, names),
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{JOB, PRESETS, TRACE};
    use super::*;

    #[test]
    fn every_default_is_a_value_of_its_unit() {
        for preset in PRESETS.iter().chain([&TRACE, &JOB]) {
            for param in preset.params() {
                assert!(
                    param.unit.accepts(param.default),
                    "{} {}",
                    preset.name,
                    param.name
                );
                assert!(!param.unit.expectation().is_empty());
            }
        }
    }

    #[test]
    fn a_device_keeps_its_comma() {
        assert_eq!(
            assignments("devices=8,0,depth=4"),
            ["devices=8,0", "depth=4"]
        );
        assert_eq!(assignments("a=1,,b"), ["a=1", "b"]);
    }
}
