//! fio job files.
//!
//! A section is a job; `[global]` sets what the jobs after it begin with.
//! Jobs run side by side until one says `stonewall`. All address the one
//! drive, whatever their files are called.

use super::options::{Options, Set};
use super::{Pacing, Part};
use std::fs::File;
use std::io::{self, Read};
use units::Ns;

/// A job file is read up to this size.
const MAX_BYTES: u64 = 1 << 20;

/// Jobs of a file, clones counted.
const MAX_JOBS: usize = 1024;

/// A job file that is refused.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The system refused to read it.
    #[error("{name} cannot be read: {source}")]
    Read {
        /// The file.
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// A line is not what it should be.
    #[error("{name}:{line}: expected {expected}, found {found:?}")]
    Line {
        /// The file.
        name: String,
        /// The line, from 1.
        line: usize,
        /// What should stand there.
        expected: String,
        /// What stands there.
        found: String,
    },
    /// Its jobs do not go together.
    #[error("{name}: expected {expected}")]
    Whole {
        /// The file.
        name: String,
        /// What should hold for all jobs.
        expected: String,
    },
}

/// What a job file asks for.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) phases: Vec<Vec<Part>>,
    pub(super) pacing: Pacing,
    pub(super) until: Option<Ns>,
    pub(super) notes: Vec<String>,
}

/// Whether `path` is a job file: by its name, or because its first line that is
/// no comment opens a section, which no trace does.
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
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            file.line(line).map_err(|expected| JobError::Line {
                name: name.to_owned(),
                line: number + 1,
                expected,
                found: line.chars().take(60).collect(),
            })?;
        }
        file.finish().map_err(|expected| JobError::Whole {
            name: name.to_owned(),
            expected,
        })
    }
}

/// The sections read so far.
#[derive(Default)]
struct Sections {
    global: Options,
    jobs: Vec<(String, Options)>,
    place: Place,
    ignored: Vec<String>,
}

/// Which section the next line belongs to.
#[derive(Clone, Copy, Default)]
enum Place {
    #[default]
    Outside,
    Global,
    Job,
}

impl Sections {
    fn line(&mut self, line: &str) -> Result<(), String> {
        if is_comment(line) {
            return Ok(());
        }
        if let Some(name) = line.strip_prefix('[') {
            return self.section(name.strip_suffix(']'));
        }
        if line.starts_with("include") {
            return Err("one file that holds all jobs".to_owned());
        }
        let (name, value) = line.split_once('=').unwrap_or((line, ""));
        let (name, value) = (name.trim(), value.trim());
        let options = match self.place {
            Place::Outside => return Err("a section such as [job] first".to_owned()),
            Place::Global => &mut self.global,
            Place::Job => &mut self.jobs.last_mut().expect("its section opened it").1,
        };
        if matches!(options.set(name, value)?, Set::Ignored) {
            self.ignore(name);
        }
        Ok(())
    }

    fn section(&mut self, name: Option<&str>) -> Result<(), String> {
        self.place = match name {
            None => return Err("a ] that closes the section's name".to_owned()),
            Some("global") => Place::Global,
            Some(_) if self.jobs.len() == MAX_JOBS => {
                return Err(format!("at most {MAX_JOBS} jobs"));
            }
            Some(job) => {
                self.jobs.push((job.to_owned(), self.global.clone()));
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

    fn finish(self) -> Result<Job, String> {
        let jobs: Vec<&Options> = self.jobs.iter().map(|j| &j.1).collect();
        let phases = self.phases()?;
        Ok(Job {
            pacing: pacing(&jobs, &phases)?,
            until: until(&jobs, phases.len())?,
            phases,
            notes: self.ignored,
        })
    }

    fn phases(&self) -> Result<Vec<Vec<Part>>, String> {
        let mut phases = vec![Vec::new()];
        let mut index = 0;
        for (name, options) in &self.jobs {
            if options.stonewall && index > 0 {
                phases.push(Vec::new());
            }
            for _ in 0..options.numjobs {
                index += 1;
                let phase = phases.last_mut().expect("there is a first one");
                phase.push(part(name, options, index));
            }
            if index > MAX_JOBS as u64 {
                return Err(format!("at most {MAX_JOBS} jobs, counting numjobs"));
            }
        }
        match index {
            0 => Err("at least one job, a section such as [job]".to_owned()),
            _ => Ok(phases),
        }
    }
}

fn part(name: &str, options: &Options, index: u64) -> Part {
    Part::Synthetic {
        synthetic: options.synthetic(name),
        depth: options.iodepth,
        // Clones differ by their place in the file, which stays below 2^20.
        salt: options.seed.wrapping_mul(1 << 20).wrapping_add(index),
    }
}

/// One pacing for all jobs: the drive has one queue here.
fn pacing(jobs: &[&Options], phases: &[Vec<Part>]) -> Result<Pacing, String> {
    if jobs.iter().all(|j| j.rate > 0) {
        return Ok(Pacing::Open);
    }
    if jobs.iter().any(|j| j.rate > 0) {
        return Err("rate_iops in all jobs or in none".to_owned());
    }
    let think = jobs[0].think;
    if jobs.iter().any(|j| j.think != think) {
        return Err("the same thinktime in all jobs".to_owned());
    }
    let depths = |phase: &Vec<Part>| phase.iter().map(depth).sum();
    let depth = phases.iter().map(depths).max().unwrap_or(1);
    Ok(Pacing::Closed { depth, think })
}

const fn depth(part: &Part) -> u32 {
    match part {
        Part::Synthetic { depth, .. } => *depth,
        Part::Logs(_) => 1,
    }
}

/// When all jobs end by the clock, if they do.
fn until(jobs: &[&Options], phases: usize) -> Result<Option<Ns>, String> {
    let runtime = jobs[0].runtime;
    match runtime {
        _ if jobs.iter().any(|j| j.runtime != runtime) => {
            Err("the same runtime in all jobs".to_owned())
        }
        Some(_) if phases > 1 => {
            Err("no runtime where jobs wait for others (stonewall)".to_owned())
        }
        None if jobs.iter().any(|j| j.time_based) => {
            Err("a runtime where a job is time_based".to_owned())
        }
        _ => Ok(runtime),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> String {
        Job::parse("a.fio", text).unwrap_err().to_string()
    }

    #[test]
    fn global_options_reach_the_jobs_after_them() {
        let text = "; a comment\n[global]\nioengine=libaio\ndirect=1\nbs=8k\n[one]\nrw=randwrite\n\
                    iodepth=4\nnumjobs=2\n[two]\nstonewall\niodepth=16\n";
        let job = Job::parse("a.fio", text).unwrap();
        let sizes: Vec<usize> = job.phases.iter().map(Vec::len).collect();
        assert_eq!(sizes, [2, 1]);
        let closed = Pacing::Closed {
            depth: 16,
            think: Ns::ZERO,
        };
        assert_eq!(job.pacing, closed);
        assert_eq!(
            job.notes,
            [
                "ioengine changes nothing on a simulated drive",
                "direct changes nothing on a simulated drive"
            ]
        );
    }

    #[test]
    fn what_is_refused_names_file_and_line() {
        assert_eq!(
            told("[a]\nzonemode=zbd\n"),
            "a.fio:2: expected an option that means something to a simulated drive, \
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
            "a.fio: expected a runtime where a job is time_based"
        );
        assert_eq!(
            told("[a]\nrate_iops=5\n[b]\n"),
            "a.fio: expected rate_iops in all jobs or in none"
        );
    }
}
