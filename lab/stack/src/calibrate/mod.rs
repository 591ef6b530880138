//! A model of a drive that fits measurements of it.
//!
//! [`Evidence`] holds the measured values, with the jobs that gave them. A [`fit()`] turns the
//! [`KNOBS`] of a drive within their physical ranges until the same jobs on the model come as close
//! as they can; what the values say nothing about stays near the drive that the fit starts from.
//!
//! Invariants: a fit is a function of its evidence and its first drive; no value that is left out
//! takes part in it; a knob never leaves its range.

mod datasheet;
mod evidence;
mod fit;
mod knobs;

pub use evidence::{Evidence, EvidenceError, Fold, Sample};
pub use fit::{Fit, Found, fit};
pub use knobs::{KNOBS, Knob};
