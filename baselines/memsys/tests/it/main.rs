//! The machine against a model, formulas and itself.

mod cached;
mod fake;
mod moves;
mod programs;
mod threads;
mod timing;
mod values;
