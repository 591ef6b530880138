//! fio job files.
//!
//! A section is a job; `[global]` sets the defaults of the jobs after it. Jobs run side by side
//! until one of them sets `stonewall`. All jobs address the one drive and share one queue, so a
//! file whose jobs would need more than that is refused (see [`super::side_by_side`]). An error
//! lists all faults of the file at once.

use super::options::{Options, Set};
use super::side_by_side;
use super::{Pacing, Part};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use units::Ns;

/// Bytes of a job file that are read.
const MAX_BYTES: u64 = 1 << 20;

/// Jobs of a file, clones counted.
const MAX_JOBS: usize = 1024;

/// Faults that an error message lists.
const FAULTS_MAX: usize = 12;

/// Fault of a job file, at one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Line, from 1; 0 for the file as a whole.
    pub line: usize,
    /// Expected text, as a phrase of the error message.
    pub expected: String,
    /// Text of the line, quoted, or a description; empty if there is nothing to show.
    pub found: String,
}

/// Reason for which a job file is refused.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The operating system could not open or read the file.
    #[error("{name} cannot be read: {source}")]
    Read {
        /// Path of the file.
        name: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file has faults: options that cannot be honoured, or jobs that cannot share a queue.
    #[error("{}", Told(name, faults))]
    Faults {
        /// Path of the file.
        name: String,
        /// All faults, sorted by line.
        faults: Vec<Fault>,
    },
}

/// Display of the faults of a file, as one sentence.
struct Told<'a>(&'a str, &'a [Fault]);

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(name, faults) = self;
        for (index, fault) in faults.iter().take(FAULTS_MAX).enumerate() {
            let between = if index > 0 { "; " } else { "" };
            write!(f, "{between}{name}")?;
            if fault.line > 0 {
                write!(f, ":{}", fault.line)?;
            }
            write!(f, ": expected {}", fault.expected)?;
            if !fault.found.is_empty() {
                write!(f, ", found {}", fault.found)?;
            }
        }
        match faults.len().saturating_sub(FAULTS_MAX) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

/// Phases and pacing that a job file describes.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) phases: Vec<Vec<Part>>,
    pub(super) pacing: Pacing,
    pub(super) until: Option<Ns>,
    pub(super) notes: Vec<String>,
}

/// Whether `path` is a job file: its name ends in `.fio`, or its first line that is no comment
/// opens a section, which never happens in a trace.
pub(super) fn is_job(path: &str) -> bool {
    if path.ends_with(".fio") {
        return true;
    }
    let mut head = Vec::new();
    let read = File::open(path).and_then(|f| f.take(4096).read_to_end(&mut head));
    let text = String::from_utf8_lossy(&head);
    let mut lines = text.lines().map(str::trim).filter(|l| !is_comment(l));
    read.is_ok()
        && lines
            .next()
            .is_some_and(|l| l.starts_with('[') && l.ends_with(']'))
}

fn is_comment(line: &str) -> bool {
    line.is_empty() || line.starts_with([';', '#'])
}

impl Job {
    pub(super) fn read(path: &str) -> Result<Self, JobError> {
        let mut bytes = Vec::new();
        let read = File::open(path).and_then(|f| f.take(MAX_BYTES).read_to_end(&mut bytes));
        read.map_err(|source| JobError::Read {
            name: path.to_owned(),
            source,
        })?;
        Self::parse(path, &String::from_utf8_lossy(&bytes))
    }

    /// Reads `text`, called `name` in errors.
    pub(super) fn parse(name: &str, text: &str) -> Result<Self, JobError> {
        let mut file = Sections::default();
        let mut faults = Vec::new();
        for (line, text) in (1..).zip(text.lines().map(str::trim)) {
            if let Err(expected) = file.line(line, text) {
                let found: String = text.chars().take(60).collect();
                faults.push(Fault {
                    line,
                    expected,
                    found: format!("{found:?}"),
                });
            }
        }
        if faults.is_empty() || !file.jobs.is_empty() {
            faults.extend(file.faults());
        }
        faults.sort_by_key(|fault| fault.line);
        match faults.is_empty() {
            true => Ok(file.job()),
            false => Err(JobError::Faults {
                name: name.to_owned(),
                faults,
            }),
        }
    }
}

/// One job section, before `numjobs` clones it.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) name: String,
    /// Line of the section's name.
    pub(super) line: usize,
    pub(super) options: Options,
    /// Lines of the options that were set.
    lines: BTreeMap<String, usize>,
}

impl Section {
    /// Line of the first of `options` that is set, or else the line of the job's name.
    pub(super) fn line_of(&self, options: &[&str]) -> usize {
        let set = options.iter().find_map(|option| self.lines.get(*option));
        set.copied().unwrap_or(self.line)
    }

    /// Requests that the job and all its clones keep in flight.
    pub(super) fn in_flight(&self) -> u32 {
        self.options.iodepth * self.options.numjobs
    }
}

/// Sections read so far.
#[derive(Default)]
struct Sections {
    global: Options,
    global_lines: BTreeMap<String, usize>,
    jobs: Vec<Section>,
    place: Place,
    ignored: Vec<String>,
}

/// Section that the next line belongs to.
#[derive(Clone, Copy, Default)]
enum Place {
    #[default]
    Outside,
    Global,
    Job,
}

impl Sections {
    fn line(&mut self, number: usize, line: &str) -> Result<(), String> {
        if is_comment(line) {
            return Ok(());
        }
        if let Some(name) = line.strip_prefix('[') {
            return self.section(number, name.strip_suffix(']'));
        }
        if line.starts_with("include") {
            return Err("one file that holds all jobs".to_owned());
        }
        let (name, value) = line.split_once('=').unwrap_or((line, ""));
        let (name, value) = (name.trim(), value.trim());
        let (options, lines) = match self.place {
            Place::Outside => return Err("a section such as [job] first".to_owned()),
            Place::Global => (&mut self.global, &mut self.global_lines),
            Place::Job => {
                let job = self.jobs.last_mut().expect("its section opened it");
                (&mut job.options, &mut job.lines)
            }
        };
        let set = options.set(name, value)?;
        lines.insert(name.to_owned(), number);
        if matches!(set, Set::Ignored) {
            self.ignore(name);
        }
        Ok(())
    }

    fn section(&mut self, line: usize, name: Option<&str>) -> Result<(), String> {
        self.place = match name {
            None => return Err("a ] that closes the section's name".to_owned()),
            Some("global") => Place::Global,
            Some(_) if self.jobs.len() == MAX_JOBS => {
                return Err(format!("at most {MAX_JOBS} jobs"));
            }
            Some(job) => {
                self.jobs.push(Section {
                    name: job.to_owned(),
                    line,
                    options: self.global.clone(),
                    lines: self.global_lines.clone(),
                });
                Place::Job
            }
        };
        Ok(())
    }

    fn ignore(&mut self, name: &str) {
        let note = format!("{name} changes nothing on a simulated drive");
        if !self.ignored.contains(&note) {
            self.ignored.push(note);
        }
    }

    /// Faults of the jobs taken together; those of single lines are found earlier.
    fn faults(&self) -> Vec<Fault> {
        let whole = |expected: String| Fault {
            line: 0,
            expected,
            found: String::new(),
        };
        if self.jobs.is_empty() {
            let job = "at least one job, a section such as [job]";
            return vec![whole(job.to_owned())];
        }
        let clones = self.jobs.iter().map(|job| job.options.numjobs as usize);
        if clones.sum::<usize>() > MAX_JOBS {
            return vec![whole(format!("at most {MAX_JOBS} jobs, counting numjobs"))];
        }
        side_by_side::faults(&self.phases())
    }

    /// Jobs in groups that run side by side; a job with `stonewall` begins the next group.
    fn phases(&self) -> Vec<&[Section]> {
        let begins =
            |(index, job): (usize, &Section)| (index > 0 && job.options.stonewall).then_some(index);
        let begins = self.jobs.iter().enumerate().filter_map(begins);
        let mut phases = Vec::new();
        let mut first = 0;
        for end in begins.chain([self.jobs.len()]) {
            phases.push(&self.jobs[first..end]);
            first = end;
        }
        phases
    }

    /// The job of a file without faults.
    fn job(self) -> Job {
        let mut index = 0;
        let mut clones = |job: &Section| {
            let clones = (0..job.options.numjobs).map(|_| {
                index += 1;
                part(&job.name, &job.options, index)
            });
            clones.collect::<Vec<_>>()
        };
        let phases = self.phases();
        let first = &phases[0][0].options;
        let (rate, think, until) = (first.rate, first.think, first.runtime);
        let depth = phases[0].iter().map(Section::in_flight).sum();
        let phases = phases
            .iter()
            .map(|phase| phase.iter().flat_map(&mut clones).collect());
        Job {
            phases: phases.collect(),
            pacing: match rate {
                0 => Pacing::Closed { depth, think },
                _ => Pacing::Open,
            },
            until,
            notes: self.ignored,
        }
    }
}

fn part(name: &str, options: &Options, index: u64) -> Part {
    Part::Synthetic {
        synthetic: options.synthetic(name),
        depth: options.iodepth,
        // Clones differ by their index in the file, which stays below 2^20.
        salt: options.seed.wrapping_mul(1 << 20).wrapping_add(index),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> String {
        Job::parse("a.fio", text).unwrap_err().to_string()
    }

    #[test]
    fn global_options_apply_to_the_jobs_after_them() {
        let text = "; a comment\n[global]\nioengine=libaio\ndirect=1\nfilename=/dev/x\nbs=8k\n\
                    [one]\nrw=randwrite\niodepth=4\nnumjobs=2\n[two]\nstonewall\niodepth=8\n";
        let job = Job::parse("a.fio", text).unwrap();
        let sizes: Vec<usize> = job.phases.iter().map(Vec::len).collect();
        assert_eq!(sizes, [2, 1]);
        let closed = Pacing::Closed {
            depth: 8,
            think: Ns::ZERO,
        };
        assert_eq!(job.pacing, closed);
        assert_eq!(
            job.notes,
            [
                "ioengine changes nothing on a simulated drive",
                "direct changes nothing on a simulated drive",
                "filename changes nothing on a simulated drive"
            ]
        );
    }

    #[test]
    fn error_of_a_refused_job_names_file_and_line() {
        assert_eq!(
            told("[a]\nzonemode=zbd\n"),
            "a.fio:2: expected an option of fio that flashloom supports, \
             found \"zonemode=zbd\""
        );
        assert_eq!(
            told("[a]\ninclude b.fio\n"),
            "a.fio:2: expected one file that holds all jobs, found \"include b.fio\""
        );
        assert_eq!(
            told("bs=4k"),
            "a.fio:1: expected a section such as [job] first, found \"bs=4k\""
        );
        assert_eq!(
            told("[a"),
            "a.fio:1: expected a ] that closes the section's name, found \"[a\""
        );
        assert_eq!(
            told("[global]\n"),
            "a.fio: expected at least one job, a section such as [job]"
        );
        assert_eq!(
            told("[a]\ntime_based\n"),
            "a.fio:2: expected a runtime where a job is time_based, found [a] without one"
        );
        assert_eq!(
            told("[global]\nfilename=d\n[a]\nrate_iops=5\n[b]\n"),
            "a.fio:5: expected rate_iops in all jobs or in none, found [b] without it"
        );
        assert_eq!(
            told("[a]\nfilename=/a:/b\nzonemode=zbd\nnumber_ios=18446744073709551615\n"),
            "a.fio:2: expected one file or device, on which all jobs are, found \
             \"filename=/a:/b\"; a.fio:3: expected an option of fio that flashloom \
             supports, found \"zonemode=zbd\"; a.fio:4: expected a number from 1 to 100000000000 \
             (the largest takes more than a day to simulate), \
             found \"number_ios=18446744073709551615\""
        );
    }
}
