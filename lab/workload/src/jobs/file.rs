//! The text of a job file: sections and their options.

use super::options::{Options, Set};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use units::Bytes;

/// Bytes of a job file.
const MAX_BYTES: u64 = 1 << 20;

/// Threads of a file.
const MAX_THREADS: usize = 1024;

/// Files of all threads.
const MAX_FILES: usize = 65_536;

/// Faults that an error message lists.
const FAULTS_MAX: usize = 50;

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
    /// The file has faults.
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

/// One job, before `numjobs` clones it.
#[derive(Clone, Debug)]
pub(super) struct Section {
    pub(super) name: String,
    /// Line of the section's name.
    line: usize,
    pub(super) options: Options,
    /// Options that were set, with their lines and values.
    given: BTreeMap<String, (usize, String)>,
    /// Job that this one waits for, by its number in the file.
    pub(super) wait_for: Option<usize>,
}

impl Section {
    /// The options that were set, with their values.
    pub(super) fn given(&self) -> BTreeMap<String, String> {
        let given = self.given.iter();
        given
            .map(|(name, (_, value))| (name.clone(), value.clone()))
            .collect()
    }
}

/// Whether `path` is a job file: its name ends in `.fio`, or its first line that is no comment
/// opens a section, which never happens in a trace.
pub(crate) fn is_job(path: &str) -> bool {
    if path.ends_with(".fio") {
        return true;
    }
    let mut head = Vec::new();
    let read = File::open(path).and_then(|f| f.take(4096).read_to_end(&mut head));
    let text = String::from_utf8_lossy(&head);
    let mut lines = text.lines().map(without_comment).filter(|l| !l.is_empty());
    read.is_ok()
        && lines
            .next()
            .is_some_and(|l| l.starts_with('[') && l.ends_with(']'))
}

fn without_comment(line: &str) -> &str {
    line.split([';', '#']).next().unwrap_or_default().trim()
}

/// The jobs of the file at `path`, and notes on it.
pub(super) fn read(path: &str) -> Result<(Vec<Section>, Vec<String>), JobError> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|f| f.take(MAX_BYTES + 1).read_to_end(&mut bytes));
    let length = read.map_err(|source| JobError::Read {
        name: path.to_owned(),
        source,
    })?;
    if length as u64 > MAX_BYTES {
        let fault = Fault {
            line: 0,
            expected: format!("a job file of at most {}", Bytes(MAX_BYTES)),
            found: "a longer one".to_owned(),
        };
        return Err(JobError::Faults {
            name: path.to_owned(),
            faults: vec![fault],
        });
    }
    parse(path, &String::from_utf8_lossy(&bytes))
}

/// The jobs of `text`, called `name` in errors, and notes on it.
pub(super) fn parse(name: &str, text: &str) -> Result<(Vec<Section>, Vec<String>), JobError> {
    let mut file = Sections::default();
    let mut faults = Vec::new();
    for (line, text) in (1..).zip(text.lines().map(without_comment)) {
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
    if faults.is_empty() {
        let notes = file.notes();
        return Ok((file.jobs, notes));
    }
    Err(JobError::Faults {
        name: name.to_owned(),
        faults,
    })
}

/// Sections read so far.
#[derive(Default)]
struct Sections {
    global: Options,
    global_given: BTreeMap<String, (usize, String)>,
    jobs: Vec<Section>,
    place: Place,
    /// Names of ignored options, in the order of their first lines.
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
        if line.is_empty() {
            return Ok(());
        }
        if let Some(name) = line.strip_prefix('[') {
            return self.section(number, name.strip_suffix(']'));
        }
        if line.split_whitespace().next() == Some("include") {
            return Err("one file that holds all jobs".to_owned());
        }
        let (name, value) = line.split_once('=').unwrap_or((line, ""));
        let (name, value) = (name.trim(), value.trim());
        let (options, given) = match self.place {
            Place::Outside => return Err("a section such as [job] first".to_owned()),
            Place::Global => (&mut self.global, &mut self.global_given),
            Place::Job => {
                let job = self.jobs.last_mut().expect("its section opened it");
                (&mut job.options, &mut job.given)
            }
        };
        let set = options.set(name, value)?;
        given.insert(name.to_owned(), (number, value.to_owned()));
        if set == Set::Ignored && !self.ignored.iter().any(|known| known == name) {
            self.ignored.push(name.to_owned());
        }
        Ok(())
    }

    fn section(&mut self, line: usize, name: Option<&str>) -> Result<(), String> {
        self.place = match name {
            None => return Err("a ] that closes the section's name".to_owned()),
            Some("global") => Place::Global,
            Some(_) if self.jobs.len() == MAX_THREADS => {
                return Err(format!("at most {MAX_THREADS} jobs"));
            }
            Some(job) => {
                self.jobs.push(Section {
                    name: job.to_owned(),
                    line,
                    options: self.global.clone(),
                    given: self.global_given.clone(),
                    wait_for: None,
                });
                Place::Job
            }
        };
        Ok(())
    }

    /// Faults of the jobs taken together; those of single lines are found earlier.
    fn faults(&mut self) -> Vec<Fault> {
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
        if clones.sum::<usize>() > MAX_THREADS {
            let most = format!("at most {MAX_THREADS} jobs, counting numjobs");
            return vec![whole(most)];
        }
        let files = self.jobs.iter().map(|job| job.options.files());
        if files.sum::<usize>() > MAX_FILES {
            let most = format!("at most {MAX_FILES} files, counting those of each clone");
            return vec![whole(most)];
        }
        let mut faults = Vec::new();
        let known: Vec<String> = self.jobs.iter().map(|job| job.name.clone()).collect();
        for (index, job) in self.jobs.iter_mut().enumerate() {
            let line_of = |option: &str| job.given.get(option).map_or(job.line, |given| given.0);
            let mut fault = |option: &str, expected: &str, found: String| {
                let (line, expected) = (line_of(option), expected.to_owned());
                faults.push(Fault {
                    line,
                    expected,
                    found,
                });
            };
            if job.options.amount.time_based && job.options.amount.runtime.is_none() {
                let found = format!("[{}] without one", job.name);
                fault("time_based", "a runtime where a job is time_based", found);
            }
            let Some(wanted) = &job.options.wait_for else {
                continue;
            };
            let before = known[..index].iter().rposition(|name| name == wanted);
            if before.is_none() {
                fault(
                    "wait_for",
                    "the name of an earlier job",
                    format!("{wanted:?}"),
                );
            }
            job.wait_for = before;
        }
        for job in &mut self.jobs {
            if let Some(name) = job.options.name.take() {
                job.name = name;
            }
        }
        faults
    }

    /// Notes on options that have no effect.
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.ignored.is_empty() {
            notes.push(format!(
                "options that change nothing on a simulated drive: {}",
                self.ignored.join(", ")
            ));
        }
        if let Some(job) = self.jobs.iter().find(|job| job.options.is_buffered) {
            notes.push(format!(
                "[{}] is buffered in fio, and has no page cache here: its requests go to the drive",
                job.name
            ));
        }
        let is_shallow = |job: &&Section| job.options.iodepth > 1 && job.options.has_sync_engine;
        if let Some(job) = self.jobs.iter().find(is_shallow) {
            notes.push(format!(
                "[{}] has one request in flight, as its engine waits for each",
                job.name
            ));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> String {
        parse("a.fio", text).unwrap_err().to_string()
    }

    #[test]
    fn global_options_apply_to_the_jobs_after_them() {
        let text = "; a comment\n[global]\nioengine=libaio\ndirect=1\nfilename=/dev/x\nbs=8k # 8\n\
                    thread\n[one]\nrw=randwrite\niodepth=4\nnumjobs=2\n[two]\nstonewall\niodepth=8\n";
        let (jobs, notes) = parse("a.fio", text).unwrap();
        assert_eq!(
            (jobs.len(), jobs[0].options.depth(), jobs[1].options.depth()),
            (2, 4, 8)
        );
        assert!(jobs[1].options.stonewall && jobs[1].options.sizes == jobs[0].options.sizes);
        assert_eq!(
            notes,
            ["options that change nothing on a simulated drive: direct, thread"]
        );
    }

    #[test]
    fn engine_of_waiting_calls_has_one_request_in_flight() {
        let (jobs, notes) = parse("a", "[a]\nioengine=psync\niodepth=8\n").unwrap();
        assert_eq!(jobs[0].options.depth(), 1);
        assert_eq!(notes.len(), 1);
    }

    #[test]
    fn buffered_job_is_noted() {
        let (_, notes) = parse("a", "[a]\ndirect=0\n[b]\nbuffered=0\n").unwrap();
        assert!(notes[1].starts_with("[a] is buffered"), "{notes:?}");
        assert_eq!(notes.len(), 2);
    }

    #[test]
    fn job_file_over_the_limit_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "[a]\n;".to_owned() + &"x".repeat(1 << 20)).unwrap();
        let told = read(file.path().to_str().unwrap()).unwrap_err().to_string();
        let limit = ": expected a job file of at most 1 MiB, found a longer one";
        assert!(told.ends_with(limit), "{told}");
    }

    #[test]
    fn refused_job_error_names_all_lines() {
        assert_eq!(
            told("[a]\nflow_id=1\n"),
            "a.fio:2: expected a job without flow_id (one flow without pauses is simulated), \
             found \"flow_id=1\""
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
            told("[a]\ntime_based\n[b]\nwait_for=c\n"),
            "a.fio:2: expected a runtime where a job is time_based, found [a] without one; \
             a.fio:4: expected the name of an earlier job, found \"c\""
        );
        let all = told("[a]\nfilname=/a\nzone=zbd\nnumber_ios=18446744073709551615\nrunime=3\n");
        for part in [
            "a.fio:2",
            "did you mean filename",
            "a.fio:3",
            "a.fio:4",
            "did you mean runtime",
        ] {
            assert!(all.contains(part), "{part}: {all}");
        }
    }
}
