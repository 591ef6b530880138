//! The machine against a model, formulas and itself.

mod fake;
mod programs;
mod timing;
mod values;
