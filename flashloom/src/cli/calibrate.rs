//! `calibrate`: a drive file that fits the measurements of a user's drive.

use super::Answer;
use super::failure::Failure;
use super::kept::{Kept, Outcome, Wanted};
use super::lists::settings;
use super::output::Shown;
use super::validate::{number, percent, text, unit};
use clap::Args;
use report::Style;
use report::claim::document;
use report::table::{Side, listing};
use serde::Serialize;
use ssd::DriveConfig;
use stack::calibrate::{Evidence, Fit, Fold, Found, fit};
use stack::validate::{Row, Spread, small};
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Fit a drive to measurements of yours, and write it as a drive file
///
/// Files are outputs of fio --output-format=json, with any jobs of reads and writes, and datasheets
/// as lines such as "random read 4k: 1000 kIOPS", "sequential write 128k: 4200 MB/s" or "read latency
/// 4k: 80 us". The jobs run on the model again and again, while six settings of the drive and the
/// numbers of its channels and chips change within their physical ranges; capacity and kind of flash
/// stay. The fit is repeated without each order of requests and without each block size, and
/// predicts what was left out: the error to expect of jobs that were not measured.
#[derive(Args)]
pub(crate) struct Calibrate {
    /// Outputs of fio, and datasheets
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Drive file to write
    #[arg(short = 'o', long = "output", value_name = "FILE.toml")]
    output: PathBuf,
    /// Preset or drive file to start from
    #[arg(long, value_name = "DRIVE", default_value = "pm9a3")]
    from: String,
    /// Directory of finished fits, which a later command reuses
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Parallel fits [default: one per core]
    #[arg(long, value_name = "N", value_parser = super::some)]
    jobs: Option<NonZeroUsize>,
    #[command(flatten)]
    shown: Shown,
}

/// JSON document of `calibrate`.
#[derive(Serialize)]
struct Calibrated {
    drive: String,
    channels: u32,
    chips_per_channel: u32,
    knobs: Vec<Found>,
    rows: Vec<Row>,
    /// Errors of values in fits that they took no part in; `None` if nothing could be left out.
    cross_validated: Option<Spread>,
    left_out: Vec<LeftOut>,
}

/// Errors of the values that one fit left out.
#[derive(Serialize)]
struct LeftOut {
    fit: String,
    values: usize,
    errors: Option<Spread>,
}

impl Calibrate {
    pub(crate) fn answer(&self) -> Answer {
        let mut files = Vec::new();
        for path in &self.files {
            files.push((path.display().to_string(), text(path)?));
        }
        let first = stack::drive::resolve(&self.from, None)?;
        let share = small(&first).capacity.0 as f64 / first.capacity.0 as f64;
        let evidence = Evidence::read(&files, share).map_err(|errors| {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            Failure::new(errors.join("; "))
        })?;
        let folds = evidence.folds();
        let fits = self.fits(&evidence, &first, &folds)?;
        let (main, others) = fits.split_first().expect("the first fit has all values");
        let main = main.as_ref().map_err(Failure::new)?;
        self.write(&main.drive)?;
        let left_out: Vec<(LeftOut, Vec<f64>)> = folds[1..]
            .iter()
            .zip(others)
            .map(|(fold, fit)| left_out(&evidence, fold, fit))
            .collect();
        let all = left_out.iter().flat_map(|(_, errors)| errors).copied();
        let calibrated = Calibrated {
            drive: self.output.display().to_string(),
            channels: main.drive.geometry.channels,
            chips_per_channel: main.drive.geometry.chips_per_channel,
            knobs: main.knobs.clone(),
            rows: self.rows(&evidence, main),
            cross_validated: Spread::of(all.collect()),
            left_out: left_out.into_iter().map(|(told, _)| told).collect(),
        };
        let shape =
            |drive: &DriveConfig| (drive.geometry.channels, drive.geometry.chips_per_channel);
        self.shown
            .answer("flashloom.calibrate/1", &calibrated, |style| {
                table(&calibrated, shape(&first), style)
            })
    }

    /// The fit of each of `folds`.
    fn fits(
        &self,
        evidence: &Evidence,
        first: &DriveConfig,
        folds: &[Fold],
    ) -> Result<Vec<Result<Fit, String>>, Failure> {
        let wanted = folds.iter().map(|fold| Wanted {
            name: fold.told(),
            told: format!("calibrate {first:?} {evidence:?} {fold:?}"),
        });
        let wanted: Vec<Wanted> = wanted.collect();
        if let Some(folder) = &self.out {
            std::fs::create_dir_all(folder)?;
        }
        let kept = Kept::new(self.out.as_deref(), false)?;
        let found = kept.found(&wanted);
        let missing = found.missing();
        let make = |turn: usize| {
            let fitted = fit(evidence, first, &folds[missing[turn]]);
            let outcome: Outcome = fitted.map(|fitted| document(&fitted));
            (turn, outcome)
        };
        let outcomes = kept.complete(&wanted, found, super::jobs(self.jobs), &make);
        let read = |outcome: Outcome| serde_json::from_value(outcome?).map_err(|e| e.to_string());
        Ok(outcomes.into_iter().map(read).collect())
    }

    fn rows(&self, evidence: &Evidence, main: &Fit) -> Vec<Row> {
        let rows = evidence.samples.iter().zip(&main.ours);
        rows.map(|(sample, ours)| Row {
            drive: self.output.display().to_string(),
            kind: format!("{} {}", sample.kind, sample.size),
            what: sample.what.clone(),
            unit: unit(&sample.what).to_owned(),
            real: sample.real,
            measured: *ours,
            error: ours.map(|ours| (ours / sample.real - 1.0) * 100.0),
            source: sample.file.clone(),
            fitted: sample.counts,
            job: sample.job.clone(),
            reason: match ours {
                Some(_) => String::new(),
                None => "the run had no such request".to_owned(),
            },
        })
        .collect()
    }

    fn write(&self, drive: &DriveConfig) -> Result<(), Failure> {
        let base = match ssd::Preset::named(&self.from) {
            Some(preset) => preset.name,
            None => "block",
        };
        let head = format!("# Fitted by flashloom calibrate, from {}\n", self.from);
        let text = settings(&head, base, drive)?;
        std::fs::write(&self.output, text).map_err(|e| Failure::at(&self.output, e))
    }
}

/// The errors of the values that `fold` left out, in words and in percent.
fn left_out(evidence: &Evidence, fold: &Fold, fit: &Result<Fit, String>) -> (LeftOut, Vec<f64>) {
    let samples = evidence.samples.iter().enumerate();
    let own = samples.filter(|(_, sample)| sample.counts && fold.leaves(sample));
    let error = |(at, sample): (usize, &stack::calibrate::Sample)| {
        let ours = fit.as_ref().ok()?.ours[at]?;
        Some((ours / sample.real - 1.0).abs() * 100.0)
    };
    let errors: Vec<f64> = own.filter_map(error).collect();
    let told = LeftOut {
        fit: fold.told(),
        values: errors.len(),
        errors: Spread::of(errors.clone()),
    };
    (told, errors)
}

/// The settings before and after, and how well the values determine them.
fn of_knobs(calibrated: &Calibrated, before: (u32, u32), style: Style) -> String {
    let knob = |knob: &Found| {
        vec![
            format!("{} ({})", knob.name, knob.unit),
            number(knob.before),
            number(knob.value),
            format!("{} to {}", number(knob.low), number(knob.high)),
            if knob.known {
                "by the values"
            } else {
                "hardly"
            }
            .to_owned(),
        ]
    };
    let whole = |name: &str, before: u32, after: u32| {
        let (before, after) = (before.to_string(), after.to_string());
        vec![
            name.to_owned(),
            before,
            after,
            String::new(),
            "by trial".to_owned(),
        ]
    };
    let mut knobs: Vec<_> = calibrated.knobs.iter().map(knob).collect();
    knobs.push(whole("geometry.channels", before.0, calibrated.channels));
    let chips = calibrated.chips_per_channel;
    knobs.push(whole("geometry.chips_per_channel", before.1, chips));
    let columns = [
        ("setting", Side::Left),
        ("before", Side::Right),
        ("fitted", Side::Right),
        ("between", Side::Left),
        ("determined", Side::Left),
    ];
    listing(&columns, &knobs, style) + "\n"
}

/// The knobs, the values and the errors of the cross-validation.
fn table(calibrated: &Calibrated, before: (u32, u32), style: Style) -> String {
    let row = |row: &Row| {
        let error = row.error.map(|error| format!("{error:+.0} %"));
        vec![
            row.job.clone(),
            row.kind.clone(),
            format!("{} ({})", row.what, row.unit),
            number(row.real),
            row.measured.map_or_else(|| "–".to_owned(), number),
            error.unwrap_or_else(|| row.reason.clone()),
            if row.fitted { "" } else { "not fitted" }.to_owned(),
        ]
    };
    let columns = [
        ("job", Side::Left),
        ("kind", Side::Left),
        ("value", Side::Left),
        ("real", Side::Right),
        ("ours", Side::Right),
        ("error", Side::Right),
        ("", Side::Left),
    ];
    let rows: Vec<_> = calibrated.rows.iter().map(row).collect();
    let text = of_knobs(calibrated, before, style) + &listing(&columns, &rows, style) + "\n";
    text + &crosses(calibrated, style) + &format!("\nwrote the drive to {}\n", calibrated.drive)
}

/// The errors of the values that were left out.
fn crosses(calibrated: &Calibrated, style: Style) -> String {
    let Some(total) = calibrated.cross_validated else {
        return "Not cross-validated: all values are of one order of requests and one block size, so \
                that nothing can be left out.\n"
            .to_owned();
    };
    let row = |left: &LeftOut| {
        let (median, p90) = (
            percent(left.errors, |s| s.median),
            percent(left.errors, |s| s.p90),
        );
        vec![left.fit.clone(), left.values.to_string(), median, p90]
    };
    let columns = [
        ("fit", Side::Left),
        ("values", Side::Right),
        ("median error", Side::Right),
        ("90th percentile", Side::Right),
    ];
    let rows: Vec<_> = calibrated.left_out.iter().map(row).collect();
    let total = format!(
        "\nErrors of values that took no part in the fit: median {:.0} %, 90th percentile {:.0} %.\n",
        total.median, total.p90
    );
    listing(&columns, &rows, style) + &total
}
