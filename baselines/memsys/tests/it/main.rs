//! The machine against a model, formulas and itself.

mod fake;
mod moves;
mod programs;
mod threads;
mod timing;
mod values;
