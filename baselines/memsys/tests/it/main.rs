//! The machine against a model, formulas and itself.

mod fake;
mod moves;
mod programs;
mod timing;
mod values;
