//! The fit: least squares over the logarithms of the knobs.
//!
//! A value's deviation is the logarithm of its ratio to the measured one over [`NOISE`]; beyond
//! [`MILD`] it grows as its root, so that one value that the model cannot reach does not pull all
//! others. Each knob has a deviation of its own from the first drive, whose width is a quarter of
//! its range: a prior. Levenberg and Marquardt's method is that of the crate `rmpfit`, a port of
//! MINPACK's, which keeps to ranges and gives the error of each knob.
//!
//! Channels and chips are whole numbers: each is halved and doubled, with blocks the other way
//! round, as long as the deviations fall. So is the write buffer, since a small change of it has no
//! effect.

use super::evidence::{Evidence, Fold};
use super::knobs::{BUFFER, KNOBS};
use crate::validate::small;
use rmpfit::{MPConfig, MPFitter, MPMaxFev, MPPar, MPResult};
use serde::{Deserialize, Serialize};
use ssd::DriveConfig;

/// Relative error of a measured value that is expected of a good fit: our choice.
const NOISE: f64 = 0.05;
/// Deviations beyond which a value counts less.
const MILD: f64 = 4.0;
/// Deviation of a value that the model does not give.
const ABSENT: f64 = 100.0;
/// Relative step of a knob for a derivative: large, since a run has few requests.
const STEP: f64 = 0.1;
/// Iterations for one shape of the flash while shapes are compared, and for the last one.
const ITERATIONS: (usize, usize) = (2, 8);
/// Changes of the shape at most, and the share of the deviations that one must save.
const SHAPES: (usize, f64) = (3, 0.05);
/// Changes of the shape that are fitted: those with the least deviations before.
const SOLVED: usize = 2;
/// Error of a knob, over that of its prior, below which the values determine it.
const KNOWN: f64 = 0.5;

/// A knob after a fit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// Name of the setting in drive files.
    pub name: String,
    /// Unit of the values.
    pub unit: String,
    /// Value of the first drive.
    pub before: f64,
    /// Fitted value, within the knob's range.
    pub value: f64,
    /// Ends of two standard errors around the value, within the knob's range.
    pub low: f64,
    /// Upper end of the two standard errors.
    pub high: f64,
    /// Whether the values determine the knob; if not, it is near the first drive's.
    pub known: bool,
}

/// A drive that fits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// The first drive with the fitted settings.
    pub drive: DriveConfig,
    /// Fitted values of the knobs, in the order of [`KNOBS`].
    pub knobs: Vec<Found>,
    /// Its values for all samples, those left out too.
    pub ours: Vec<Option<f64>>,
}

/// Fits `first` to the samples of `evidence` that `fold` does not leave out.
///
/// # Errors
/// If the jobs cannot run on the drive, or too few values are left.
pub fn fit(evidence: &Evidence, first: &DriveConfig, fold: &Fold) -> Result<Fit, String> {
    let taken = evidence.samples.iter();
    let taken: Vec<bool> = taken.map(|s| s.counts && !fold.leaves(s)).collect();
    if !taken.contains(&true) {
        return Err("no value is left to fit".to_owned());
    }
    if let Some(reason) = evidence.refused(&small(first)) {
        return Err(reason);
    }
    let problem =
        |drive: DriveConfig, iterations| Problem::new(evidence, drive, first, &taken, iterations);
    let mut best = problem(first.clone(), ITERATIONS.0).solve()?;
    for _ in 0..SHAPES.0 {
        let mut tried: Vec<(f64, DriveConfig)> = shapes(&best.drive)
            .into_iter()
            .map(|drive| (problem(drive.clone(), 0).norm(), drive))
            .collect();
        tried.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let tried = tried.into_iter().take(SOLVED);
        let solved = tried.filter_map(|(_, drive)| problem(drive, ITERATIONS.0).solve().ok());
        let next = solved.min_by(|a, b| a.norm.total_cmp(&b.norm));
        match next {
            Some(next) if next.norm < best.norm * (1.0 - SHAPES.1) => best = next,
            _ => break,
        }
    }
    let last = problem(best.drive, ITERATIONS.1).solve()?;
    let all = vec![true; taken.len()];
    Ok(Fit {
        ours: evidence.measured(&small(&last.drive), &all),
        drive: last.drive,
        knobs: last.knobs,
    })
}

/// The drive with half and twice the channels, the chips of each, with as much flash, and the write
/// buffer, whose effect comes in steps.
fn shapes(drive: &DriveConfig) -> Vec<DriveConfig> {
    let mut all = Vec::new();
    for (channels, chips) in [
        ((2, 1), (1, 1)),
        ((1, 2), (1, 1)),
        ((1, 1), (2, 1)),
        ((1, 1), (1, 2)),
    ] {
        let mut next = drive.clone();
        let shape = &mut next.geometry;
        shape.channels = shape.channels * channels.0 / channels.1;
        shape.chips_per_channel = shape.chips_per_channel * chips.0 / chips.1;
        let (more, fewer) = (channels.0 * chips.0, channels.1 * chips.1);
        shape.blocks_per_plane = shape.blocks_per_plane * fewer / more;
        let is_whole = next.geometry.bytes() == drive.geometry.bytes();
        all.extend(crate::drive::checked("", next).ok().filter(|_| is_whole));
    }
    for factor in [0.5, 2.0] {
        let mut next = drive.clone();
        BUFFER.turn(&mut next, BUFFER.of(drive) * factor);
        all.extend(crate::drive::checked("", next));
    }
    all
}

/// Outcome of a [`Problem`]: its drive, knobs and deviations.
struct Solved {
    drive: DriveConfig,
    knobs: Vec<Found>,
    norm: f64,
}

/// Least squares for one shape of the flash.
struct Problem<'a> {
    evidence: &'a Evidence,
    drive: DriveConfig,
    taken: &'a [bool],
    /// Logarithms of the knobs of the first drive.
    first: Vec<f64>,
    config: MPConfig,
    parameters: Vec<MPPar>,
}

impl<'a> Problem<'a> {
    fn new(
        evidence: &'a Evidence,
        drive: DriveConfig,
        first: &DriveConfig,
        taken: &'a [bool],
        iterations: usize,
    ) -> Self {
        let parameters = KNOBS.iter().map(|knob| MPPar {
            limited_low: true,
            limited_up: true,
            limit_low: knob.range.0.ln(),
            limit_up: knob.range.1.ln(),
            step: STEP,
            ..MPPar::new()
        });
        Self {
            evidence,
            drive,
            taken,
            first: KNOBS.iter().map(|knob| knob.of(first).ln()).collect(),
            config: MPConfig {
                ftol: 1e-3,
                xtol: 1e-3,
                max_iter: iterations,
                max_fev: MPMaxFev::Limited(iterations * (KNOBS.len() + 4)),
                ..MPConfig::new()
            },
            parameters: parameters.collect(),
        }
    }

    fn solve(mut self) -> Result<Solved, String> {
        let mut at: Vec<f64> = KNOBS.iter().map(|knob| knob.of(&self.drive).ln()).collect();
        let status = self.mpfit(&mut at);
        let status = status.map_err(|error| format!("the fit ended without a result: {error}"))?;
        let free = status.n_func.saturating_sub(status.n_free).max(1) as f64;
        // Values that scatter more than expected make the knobs less certain.
        let scatter = (status.best_norm / free).sqrt().max(1.0);
        let found = KNOBS.iter().enumerate().map(|(index, knob)| {
            let (value, error) = (at[index], status.xerror[index] * scatter);
            let is_pegged = error == 0.0;
            let ends = |sign: f64| {
                let end = (value + sign * 2.0 * error).exp();
                end.clamp(knob.range.0, knob.range.1)
            };
            Found {
                name: knob.name.to_owned(),
                unit: knob.unit.to_owned(),
                before: self.first[index].exp(),
                value: value.exp(),
                low: ends(-1.0),
                high: ends(1.0),
                known: !is_pegged && error < KNOWN * prior(knob.range),
            }
        });
        let knobs = found.collect();
        Ok(Solved {
            knobs,
            drive: self.turned(&at),
            norm: status.best_norm,
        })
    }

    /// Sum of the squares of the deviations at the drive's own settings.
    fn norm(&mut self) -> f64 {
        let at: Vec<f64> = KNOBS.iter().map(|knob| knob.of(&self.drive).ln()).collect();
        let mut deviates = vec![0.0; self.number_of_points()];
        match self.eval(&at, &mut deviates) {
            Ok(()) => deviates.iter().map(|deviation| deviation * deviation).sum(),
            Err(_) => f64::INFINITY,
        }
    }

    fn turned(&self, at: &[f64]) -> DriveConfig {
        let mut drive = self.drive.clone();
        for (knob, value) in KNOBS.iter().zip(at) {
            knob.turn(&mut drive, value.exp());
        }
        drive
    }
}

impl MPFitter for Problem<'_> {
    fn eval(&mut self, at: &[f64], deviates: &mut [f64]) -> MPResult<()> {
        let drive = small(&self.turned(at));
        let ours = self.evidence.measured(&drive, self.taken);
        let samples = self.evidence.samples.iter().zip(ours).zip(self.taken);
        let of_samples =
            samples
                .filter(|(_, taken)| **taken)
                .map(|((sample, ours), _)| match ours {
                    Some(ours) if ours > 0.0 => softened((ours / sample.real).ln() / NOISE),
                    _ => softened(ABSENT),
                });
        let knobs = KNOBS.iter().zip(at).zip(&self.first);
        let of_knobs = knobs.map(|((knob, at), first)| (at - first) / prior(knob.range));
        for (to, deviation) in deviates.iter_mut().zip(of_samples.chain(of_knobs)) {
            *to = deviation;
        }
        Ok(())
    }

    fn number_of_points(&self) -> usize {
        self.taken.iter().filter(|&&taken| taken).count() + KNOBS.len()
    }

    fn config(&self) -> &MPConfig {
        &self.config
    }

    fn parameters(&self) -> &[MPPar] {
        &self.parameters
    }
}

/// Width of the prior of a knob with this range, in logarithms.
fn prior((least, most): (f64, f64)) -> f64 {
    (most / least).ln() / 4.0
}

/// A deviation that grows as its root beyond [`MILD`].
fn softened(deviation: f64) -> f64 {
    let ratio = deviation / MILD;
    let loss = 2.0 * ((1.0 + ratio * ratio).sqrt() - 1.0);
    MILD * loss.sqrt().copysign(deviation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_deviations_grow_as_their_root() {
        assert!((softened(0.5) - 0.5).abs() < 0.01);
        assert!((softened(-0.5) + 0.5).abs() < 0.01);
        assert!(softened(400.0) < 60.0 && softened(400.0) > softened(100.0));
    }

    #[test]
    fn shapes_have_as_much_flash() {
        let drive = (ssd::Preset::named("pm9a3").unwrap().config)();
        let all = shapes(&drive);
        assert!(all.len() >= 3, "{}", all.len());
        assert!(
            all.iter()
                .all(|shape| shape.geometry.bytes() == drive.geometry.bytes())
        );
    }
}
