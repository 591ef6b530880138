//! Measured values of a drive, with the jobs that gave them.
//!
//! Invariants: every sample belongs to one job of one run; reading is total, and a fault names its
//! file and what was expected there.

use super::datasheet;
use crate::validate::{Measured, TAIL, Task, read_fio};
use ssd::DriveConfig;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Requests of a job on the model, by its measured rate: our choice.
const REQUESTS: f64 = 4_000.0;
/// Requests of a job on the model, for each that is in flight: fewer make rates come in steps.
const TURNS: f64 = 64.0;
/// Bytes that a job writes before it is measured, by its measured rate, so that the write buffer
/// is full: the largest one.
const BEFORE: f64 = 128e6;
/// Least and largest span of a job on the model, in µs.
const SPAN: (f64, f64) = (2_000.0, 2_000_000.0);
/// Samples that are read at most.
const MOST: usize = 4_096;

/// A file that holds no measurements, or a faulty one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EvidenceError(String);

/// A measured value of one job.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Name of the file.
    pub file: String,
    /// Name of the job, or the line of a datasheet.
    pub job: String,
    /// Order of the job's requests, such as `randread`.
    pub kind: String,
    /// Block size of the job.
    pub size: String,
    /// The quantity with its direction, such as `read iops`.
    pub what: String,
    /// The value: IOPS, MB/s or ns.
    pub real: f64,
    /// Whether a fit uses the value. Tails need longer runs than a fit can make, and a bandwidth
    /// beside a rate of requests says nothing more.
    pub counts: bool,
    run: usize,
    number: usize,
}

/// Samples that a fit leaves out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fold {
    /// No sample: all values are fitted.
    Nothing,
    /// Samples of one order of requests, such as `randread`.
    Kind(String),
    /// Samples of one block size, such as `4k`.
    Size(String),
}

impl Fold {
    /// Whether the fit leaves `sample` out.
    #[must_use]
    pub fn leaves(&self, sample: &Sample) -> bool {
        match self {
            Self::Nothing => false,
            Self::Kind(kind) => sample.kind == *kind,
            Self::Size(size) => sample.size == *size,
        }
    }

    /// The samples that are left out, in words.
    #[must_use]
    pub fn told(&self) -> String {
        match self {
            Self::Nothing => "all values".to_owned(),
            Self::Kind(kind) => format!("without {kind}"),
            Self::Size(size) => format!("without blocks of {size}"),
        }
    }
}

/// Measured values of one drive.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Texts of the jobs that run at the same time.
    runs: Vec<String>,
    /// The values, in the order of the files.
    pub samples: Vec<Sample>,
}

impl Evidence {
    /// Reads files by name and text: fio's JSON output, or lines of a datasheet. The model's drive
    /// has `share` of the real one's capacity, and its jobs of writes run for as much of their time,
    /// so that they get as far into the drive's spare space.
    ///
    /// # Errors
    /// The faults of all files.
    pub fn read(files: &[(String, String)], share: f64) -> Result<Self, Vec<EvidenceError>> {
        let (mut evidence, mut errors) = (Self::default(), Vec::new());
        for (file, text) in files {
            let known = errors.len();
            match text.contains('{') {
                true => evidence.add_fio(file, text, share, &mut errors),
                false => evidence.add_lines(file, text, &mut errors),
            }
            if errors.len() == known && !evidence.samples.iter().any(|s| s.file == *file) {
                let expected = "fio's JSON output, or lines such as \"random read 4k: 1000 kIOPS\"";
                errors.push(EvidenceError(format!("{file}: expected {expected}")));
            }
        }
        if evidence.samples.len() > MOST {
            let found = evidence.samples.len();
            let told = format!("expected at most {MOST} values, found {found}");
            errors.push(EvidenceError(told));
        }
        match errors.is_empty() {
            true => Ok(evidence),
            false => Err(errors),
        }
    }

    fn add_fio(&mut self, file: &str, text: &str, share: f64, errors: &mut Vec<EvidenceError>) {
        let given = match read_fio(file, text) {
            Ok(given) => given,
            Err(error) => return errors.push(EvidenceError(error.to_string())),
        };
        let sections: Vec<&str> = given.text.split_terminator(TAIL).collect();
        let jobs = sections.iter().zip(&given.jobs).zip(&given.values);
        let mut all = String::new();
        for (number, ((section, job), values)) in jobs.enumerate() {
            self.add(file, job, (section, values), number);
            let (before, during) = given.spans[number];
            all += &timed(section, values, (before * share, during * share));
        }
        self.runs.push(all);
    }

    fn add_lines(&mut self, file: &str, text: &str, errors: &mut Vec<EvidenceError>) {
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match datasheet::read(line) {
                Ok(read) => {
                    let section = format!("[line]\nfilename=/dev/drive\n{}", read.options);
                    let job = line.split(':').next().unwrap_or(line);
                    self.add(file, job, (&section, &read.values), 0);
                    self.runs.push(timed(&section, &read.values, (0.0, 0.0)));
                }
                Err(expected) => {
                    let told = format!("{file}:{}: expected {expected}", number + 1);
                    errors.push(EvidenceError(told));
                }
            }
        }
    }

    fn add(
        &mut self,
        file: &str,
        job: &str,
        (section, values): (&str, &BTreeMap<String, f64>),
        number: usize,
    ) {
        let kind = option(section, &["rw", "readwrite"]).unwrap_or("read");
        let size = option(section, &["bs", "blocksize", "bsrange", "bssplit"]).unwrap_or("4k");
        for (what, real) in values {
            let of = |quantity: &str| what.ends_with(quantity);
            let has_rate = values.contains_key(&what.replace("bandwidth", "iops"));
            self.samples.push(Sample {
                file: file.to_owned(),
                job: job.to_owned(),
                kind: kind.to_owned(),
                size: size.to_owned(),
                what: what.clone(),
                real: *real,
                counts: !(of("p99.9") || of("bandwidth") && has_rate),
                run: self.runs.len(),
                number,
            });
        }
    }

    /// The fits of a cross-validation: all values first, then without each order of requests and
    /// without each block size, where there are several.
    #[must_use]
    pub fn folds(&self) -> Vec<Fold> {
        let kinds: BTreeSet<&str> = self.samples.iter().map(|s| s.kind.as_str()).collect();
        let sizes: BTreeSet<&str> = self.samples.iter().map(|s| s.size.as_str()).collect();
        let mut folds = vec![Fold::Nothing];
        if kinds.len() > 1 {
            folds.extend(kinds.into_iter().map(|kind| Fold::Kind(kind.to_owned())));
        }
        if sizes.len() > 1 {
            folds.extend(sizes.into_iter().map(|size| Fold::Size(size.to_owned())));
        }
        folds
    }

    /// The values of `drive` for the samples that are `wanted`; `None` for others, and if the jobs
    /// cannot run.
    #[must_use]
    pub fn measured(&self, drive: &DriveConfig, wanted: &[bool]) -> Vec<Option<f64>> {
        let mut found = vec![None; self.samples.len()];
        for (run, text) in self.runs.iter().enumerate() {
            let of_run = |at: &usize| self.samples[*at].run == run && wanted[*at];
            let own: Vec<usize> = (0..self.samples.len()).filter(of_run).collect();
            if own.is_empty() {
                continue;
            }
            let Ok(measured) = ran(drive, text) else {
                continue;
            };
            for at in own {
                let sample = &self.samples[at];
                let job = measured.jobs.get(sample.number);
                found[at] = job.and_then(|job| job.get(&sample.what)).copied();
            }
        }
        found
    }

    /// The reason why the jobs cannot run on `drive`; `None` if all can.
    #[must_use]
    pub fn refused(&self, drive: &DriveConfig) -> Option<String> {
        self.runs.iter().enumerate().find_map(|(run, text)| {
            let error = ran(drive, text).err()?;
            let sample = self.samples.iter().find(|sample| sample.run == run)?;
            Some(format!("{}: {error}", sample.file))
        })
    }
}

/// The quantities of the jobs `text` on `drive`.
fn ran(drive: &DriveConfig, text: &str) -> Result<Measured, String> {
    Task::of_jobs("", drive.clone(), text.to_owned())?.run()
}

/// The value of the last of `names` in the section of a job.
fn option<'a>(section: &'a str, names: &[&str]) -> Option<&'a str> {
    let pairs = section.lines().filter_map(|line| line.split_once('='));
    let mut own = pairs.filter(|(name, _)| names.contains(name));
    own.next_back().map(|(_, value)| value)
}

/// The section of a job with its times on the model: those that follow from the measured `values`,
/// and for writes at least `seconds`.
fn timed(section: &str, values: &BTreeMap<String, f64>, seconds: (f64, f64)) -> String {
    let sum = |what: &str| -> f64 {
        let own = values.iter().filter(|(name, _)| name.ends_with(what));
        own.map(|(_, value)| value).sum()
    };
    let rate = match (sum("iops"), sum(" mean"), sum("bandwidth")) {
        (iops, ..) if iops > 0.0 => iops,
        (_, mean, _) if mean > 0.0 => 1e9 / mean,
        (.., bandwidth) => (bandwidth * 1e6 / 131_072.0).max(1.0),
    };
    let number = |name: &str| option(section, &[name]).and_then(|text| text.parse().ok());
    let in_flight: f64 = number("iodepth").unwrap_or(1.0) * number("numjobs").unwrap_or(1.0);
    let requests = REQUESTS.max(TURNS * in_flight);
    let writes = values.keys().any(|name| name.starts_with("write"));
    let least = if writes { seconds } else { (0.0, 0.0) };
    let filled = match values.get("write bandwidth") {
        Some(mb_per_s) => BEFORE / mb_per_s,
        None if writes => SPAN.1 / 10.0,
        None => SPAN.0,
    };
    let within = |us: f64| us.clamp(SPAN.0, SPAN.1) as u64;
    let before = within(filled.max(least.0 * 1e6));
    let span = within((requests / rate).max(least.1) * 1e6);
    let mut text = section.to_owned();
    let _ = writeln!(text, "runtime={span}us\ntime_based=1\nramp_time={before}us");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIO: &str = r#"{"global options": {"bs": "4k"}, "jobs": [
        {"jobname": "r", "job options": {"rw": "randread"}, "read": {"iops": 5000.0}},
        {"jobname": "w", "job options": {"rw": "write", "bs": "64k"}, "write": {"iops": 900.0}}]}"#;

    fn read(files: &[(&str, &str)]) -> Result<Evidence, Vec<EvidenceError>> {
        let owned = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
        Evidence::read(&files.iter().map(owned).collect::<Vec<_>>(), 0.01)
    }

    #[test]
    fn files_become_samples_and_folds() {
        let evidence = read(&[("a", FIO), ("b", "# mine\nrandom read 4k: 9 kIOPS\n")]).unwrap();
        let told = evidence.samples.iter();
        let told: Vec<String> = told
            .map(|s| format!("{} {} {}", s.kind, s.size, s.what))
            .collect();
        assert_eq!(
            told,
            [
                "randread 4k read iops",
                "write 64k write iops",
                "randread 4k read iops"
            ]
        );
        let folds = evidence.folds();
        assert_eq!(folds.len(), 5);
        assert!(folds[1].leaves(&evidence.samples[0]) && !folds[1].leaves(&evidence.samples[1]));
        assert!(
            evidence.runs[0].contains("runtime=800000us"),
            "{}",
            evidence.runs[0]
        );
    }

    #[test]
    fn faults_of_all_files_are_told() {
        let errors = read(&[("a", "{}"), ("b", "x\n\ny: 1 IOPS"), ("c", "")]).unwrap_err();
        let told: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(told.len(), 4, "{told:?}");
        assert!(told[1].starts_with("b:1: expected") && told[2].starts_with("b:3: expected"));
        assert!(told[3].starts_with("c: expected fio's JSON output"));
    }
}
