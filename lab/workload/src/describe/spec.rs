//! Preset with the values of its parameters, and its translation into a generator.

use super::Pacing;
use super::fitted::{Fit, Onto};
use super::table::Preset;
use super::unit::{Unit, action, factor, number, part, percent, range, size, sizes, theta, time};
use crate::classify::Placing;
use crate::generate::{Arrivals, Limit, Logs, Order, Synthetic};
use crate::trace::{Format, Options};
use input::named::{Given, ParamError};
use std::ops::Deref;
use units::Ns;

/// Preset and the values given for its parameters.
pub(crate) struct Spec(Given<Unit>);

impl Deref for Spec {
    type Target = Given<Unit>;

    fn deref(&self) -> &Given<Unit> {
        &self.0
    }
}

impl Spec {
    /// Reads `name=value,name=value` as parameters of `preset`; `called` is its name in errors.
    pub(crate) fn parse(
        preset: &'static Preset,
        called: &str,
        text: &str,
    ) -> Result<Self, ParamError> {
        Given::parse(preset, called, text).map(Self)
    }

    pub(crate) fn number(&self, name: &str) -> u64 {
        self.value(name, number)
    }

    pub(super) fn synthetic(&self) -> Synthetic {
        Synthetic {
            label: self.name().to_owned(),
            order: self.order(),
            read_percent: self.value("read", percent),
            sizes: self.value("bs", sizes),
            span: self.value("span", part),
            limit: self.limit(),
            flush_every: self.number("flush"),
            arrivals: self.arrivals(),
        }
    }

    fn order(&self) -> Order {
        match self.name() {
            "seqwrite" | "seqread" => Order::Sequential,
            "zipfwrite" | "zipfread" => Order::Zipf(self.value("theta", theta)),
            "hotcold" => Order::HotCold {
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
            _ if self.name() == "bursts" => Arrivals::Bursts {
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

    /// Treatment of the addresses of a trace.
    pub(super) fn fit(&self) -> Fit {
        let onto = match (self.text("compact"), self.text("fit")) {
            ("first-touch", _) => Onto::Compact,
            (_, "wrap") => Onto::Fold,
            _ => Onto::Keep,
        };
        Fit {
            range: range(self.text("range")),
            onto,
        }
    }

    /// Factor by which the times of a trace pass faster, in millionths.
    pub(super) fn speed(&self) -> u64 {
        self.value("speed", factor)
    }

    pub(super) fn trace_options(&self) -> Options {
        Options {
            devices: self.value("devices", |t| t.parse().ok()),
            action: self.value("action", action),
            columns: self.text("columns").parse().ok(),
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

#[cfg(test)]
mod tests {
    use super::super::table::{JOB, PRESETS, TRACE};
    use input::named::Unit;

    #[test]
    fn defaults_are_accepted_by_their_units() {
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
}
