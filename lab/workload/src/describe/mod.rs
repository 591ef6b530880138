//! Workloads described by text: a preset with parameters, or a path to a trace or a fio job with
//! parameters.
//!
//! Invariant: a [`Workload`] that [`Workload::parse`] returns can be opened on any drive that is
//! large enough. Values are checked in one place, by the units of the parameter table.

mod fitted;
mod recorded;
pub(crate) mod spec;
mod stream;
pub(crate) mod table;
pub(crate) mod unit;

pub use stream::Stream;
pub use table::{JOB, PRESETS, Param, Preset, TRACE};
pub use unit::Unit;

use crate::classify::Placing;
use crate::files::FILE_PRESETS;
use crate::files::flow::script::ScriptError;
use crate::generate::{Logs, NoRoom, Synthetic};
use crate::jobs::{self, JobError, Jobs};
use crate::shipped;
use crate::trace::TraceError;
use input::named::ParamError;
use recorded::Recorded;
use spec::Spec;
use std::path::{Path, PathBuf};
use units::Ns;
use units::did_you_mean;

/// Pacing of the requests of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pacing {
    /// The next request is issued when fewer than `depth` are in flight, and `think` after the
    /// completion that made room. The times of requests are ignored.
    Closed {
        /// Requests in flight.
        depth: u32,
        /// Pause after each completion.
        think: Ns,
    },
    /// Each request is issued at its time, whether or not earlier ones have completed.
    Open,
    /// Each thread of a job file sets the times of its requests.
    Threads,
}

/// A workload, ready to be opened on a drive.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The text it was parsed from.
    pub text: String,
    /// Pacing of the requests.
    pub pacing: Pacing,
    /// Options that were accepted but change nothing on a simulated drive, one sentence each.
    pub notes: Vec<String>,
    placing: Placing,
    source: Source,
}

/// Source of a workload's requests.
#[derive(Clone, Debug)]
enum Source {
    Synthetic(Synthetic),
    Logs(Logs),
    Jobs(Jobs),
    Trace(Recorded),
}

/// Error of parsing a workload or of opening it on a drive.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// No preset and no file has that name.
    #[error(
        "expected the name of a workload or a path to a trace, a recording, a fio job or a \
         filebench script, found {name:?}{hint}"
    )]
    Unknown {
        /// Name as it was given.
        name: String,
        /// Hint: that the path is a directory or missing, or `; did you mean …`; may be empty.
        hint: String,
    },
    /// The workload has no such parameter, or the parameter no such value.
    #[error(transparent)]
    Param(#[from] ParamError),
    /// The workload makes file calls, and the stack takes block requests only.
    #[error(
        "{name} is a file workload: expected a file system before the drive, such as ext4@block, \
         or a block workload, such as randwrite"
    )]
    NeedsFiles {
        /// Name of the workload.
        name: String,
    },
    /// The workload makes block requests, and the stack has a file system, which takes file calls
    /// only.
    #[error(
        "{name} is a block workload: expected the host raw before the drive, such as raw@block, or \
         a file workload, such as varmail"
    )]
    NeedsBlocks {
        /// Name of the workload.
        name: String,
    },
    /// The filebench script is refused.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// A workload of files is refused with these parameters.
    #[error("{workload}: {problem}")]
    Files {
        /// Name of the workload.
        workload: String,
        /// Problem, as the end of a sentence.
        problem: String,
    },
    /// The fio job is refused.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The trace is refused.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The drive is too small.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
}

impl Workload {
    /// Reads a workload: `randwrite:bs=4k,ops=1000`, `a.csv.zst:depth=8`,
    /// `b.fio`. A name of a preset wins over a file of that name. A text of several lines that
    /// opens a section is itself the contents of a job file.
    ///
    /// # Errors
    /// One sentence with the expected text and a suggestion, if a known name is similar.
    pub fn parse(text: &str) -> Result<Self, WorkloadError> {
        let (name, params) = text.split_once(':').unwrap_or((text, ""));
        if let Some(preset) = PRESETS.iter().find(|p| p.name == name) {
            return Ok(Self::preset(text, &Spec::parse(preset, name, params)?));
        }
        if text.starts_with('[') && text.contains('\n') {
            let spec = Spec::parse(&JOB, "job", "")?;
            return Ok(Self::job(text, Jobs::parse(text)?, &spec));
        }
        if crate::files::asks_for_files(text) {
            return Err(WorkloadError::NeedsFiles {
                name: name.to_owned(),
            });
        }
        let Some((path, params)) = existing(text) else {
            return Err(unknown(name));
        };
        if jobs::is_job(path) {
            let spec = Spec::parse(&JOB, path, params)?;
            Ok(Self::job(text, Jobs::read(path)?, &spec))
        } else {
            Ok(Self::trace(text, path, &Spec::parse(&TRACE, path, params)?))
        }
    }

    /// Whether a parameter `rate` gives its requests fixed times of arrival, which it has not yet.
    #[must_use]
    pub fn takes_rate(&self) -> bool {
        let name = self.text.split(':').next().unwrap_or_default();
        let preset = PRESETS.iter().find(|preset| preset.name == name);
        let mut params = preset
            .into_iter()
            .flat_map(|p| p.own.iter().chain(p.common));
        matches!(self.pacing, Pacing::Closed { .. }) && params.any(|param| param.name == "rate")
    }

    /// Rule that sets the placement handles of this workload's requests.
    #[must_use]
    pub const fn placing(&self) -> Placing {
        self.placing
    }

    /// The jobs of a job file; `None` for another workload.
    #[must_use]
    pub const fn jobs(&self) -> Option<&Jobs> {
        match &self.source {
            Source::Jobs(jobs) => Some(jobs),
            _ => None,
        }
    }

    fn preset(text: &str, spec: &Spec) -> Self {
        Self {
            text: text.to_owned(),
            pacing: spec.pacing(),
            notes: Vec::new(),
            placing: spec.placing(),
            source: match spec.name() {
                "logs" => Source::Logs(spec.logs()),
                _ => Source::Synthetic(spec.synthetic()),
            },
        }
    }

    fn trace(text: &str, path: &str, spec: &Spec) -> Self {
        Self {
            text: text.to_owned(),
            pacing: spec.trace_pacing(),
            notes: Vec::new(),
            placing: spec.placing(),
            source: Source::Trace(Recorded {
                path: PathBuf::from(path),
                format: spec.format(),
                options: spec.trace_options(),
                fit: spec.fit(),
                speed: spec.speed(),
                repeat: spec.number("repeat"),
            }),
        }
    }

    fn job(text: &str, (jobs, notes): (Jobs, Vec<String>), spec: &Spec) -> Self {
        Self {
            text: text.to_owned(),
            pacing: Pacing::Threads,
            notes,
            placing: spec.placing(),
            source: Source::Jobs(jobs),
        }
    }
}

/// Error for `name`, which is neither the name of a workload nor a path to a file.
pub(crate) fn unknown(name: &str) -> WorkloadError {
    let path = Path::new(name);
    let hint = match path {
        path if path.is_dir() => ", which is a directory".to_owned(),
        path if path.exists() => ", which is no ordinary file".to_owned(),
        _ if name.contains('/') => ", which is not there".to_owned(),
        _ => did_you_mean(name, names()),
    };
    WorkloadError::Unknown {
        name: name.to_owned(),
        hint,
    }
}

/// Names of all workloads of blocks and of files and of all shipped recordings, for suggestions.
fn names() -> impl Iterator<Item = &'static str> {
    let presets = PRESETS.iter().chain(&FILE_PRESETS).map(|p| p.name);
    presets.chain(shipped::ALL.map(|shipped| shipped.name))
}

/// Splits `text` into a path to a file that exists and the parameters after it. A colon may be part
/// of the path, so the longest path that exists wins.
pub(crate) fn existing(text: &str) -> Option<(&str, &str)> {
    if Path::new(text).is_file() {
        return Some((text, ""));
    }
    let colons = text.rmatch_indices(':');
    let mut splits = colons.map(|(at, _)| (&text[..at], &text[at + 1..]));
    splits.find(|(path, _)| Path::new(path).is_file())
}
