//! A workload by text: a preset with parameters, or a path to a trace or a
//! fio job, with parameters for those.
//!
//! Invariant: what [`Workload::parse`] accepts can be opened on any drive that
//! is large enough; text is checked in one place, by the table's units.

mod job;
mod options;
mod side_by_side;
pub(crate) mod spec;
mod stream;
pub(crate) mod table;
pub(crate) mod unit;

pub use job::{Fault, JobError};
pub use stream::Stream;
pub use table::{JOB, PRESETS, Param, Preset, TRACE};
pub use unit::Unit;

use crate::classify::Placing;
use crate::files::FILE_PRESETS;
use crate::files::flow::script::ScriptError;
use crate::generate::{Logs, NoRoom, Synthetic};
use crate::shipped;
use crate::trace::{Format, Options, TraceError};
use input::named::ParamError;
use job::Job;
use spec::Spec;
use std::path::{Path, PathBuf};
use units::Ns;
use units::did_you_mean;

/// How requests are let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pacing {
    /// The next one when fewer than `depth` are in flight, and `think` after
    /// the completion that made room. Times of requests mean nothing.
    Closed {
        /// Requests in flight.
        depth: u32,
        /// Pause after each completion.
        think: Ns,
    },
    /// Each at its time, whether or not others have completed.
    Open,
}

/// A workload, ready to be opened on a drive.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The text it was parsed from.
    pub text: String,
    /// How its requests are let go.
    pub pacing: Pacing,
    /// Virtual time after which no more requests are let go.
    pub until: Option<Ns>,
    /// What was accepted but changes nothing here, in sentences.
    pub notes: Vec<String>,
    placing: Placing,
    source: Source,
}

/// Where the requests of a workload come from.
#[derive(Clone, Debug)]
enum Source {
    Phases(Vec<Vec<Part>>),
    Trace {
        path: PathBuf,
        format: Option<Format>,
        options: Options,
        /// Fold what lies past the end of the drive back onto it.
        wrap: bool,
    },
}

/// What runs side by side with others.
#[derive(Clone, Debug)]
enum Part {
    Synthetic {
        synthetic: Synthetic,
        /// Its share of the turns in a closed loop.
        depth: u32,
        /// Sets it apart from others of the same seed.
        salt: u64,
    },
    Logs(Logs),
}

/// A workload that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// No preset and no file has that name.
    #[error(
        "expected the name of a workload or a path to a trace, a recording, a fio job or a \
         filebench script, found {name:?}{hint}"
    )]
    Unknown {
        /// The name as given.
        name: String,
        /// What is at that path, or `; did you mean …`, or nothing.
        hint: String,
    },
    /// The workload has no such parameter, or the parameter no such value.
    #[error(transparent)]
    Param(#[from] ParamError),
    /// It asks for files, of which a stack for blocks has none.
    #[error(
        "{name} asks for files: expected a file system before the drive such as ext4@block, or a \
         workload of blocks such as randwrite"
    )]
    NeedsFiles {
        /// The workload.
        name: String,
    },
    /// It asks for blocks, which a file system does not let go through.
    #[error(
        "{name} asks for blocks: expected the drive alone such as raw@block, or a workload of \
         files such as varmail"
    )]
    NeedsBlocks {
        /// The workload.
        name: String,
    },
    /// The filebench script is refused.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// The workload cannot be had with these parameters.
    #[error("{workload}: {problem}")]
    Files {
        /// The workload.
        workload: String,
        /// What is wrong with it.
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
    /// `b.fio`. A name of a preset wins over a file of that name.
    ///
    /// # Errors
    /// One sentence that says what was expected, and what is near it.
    pub fn parse(text: &str) -> Result<Self, WorkloadError> {
        let (name, params) = text.split_once(':').unwrap_or((text, ""));
        if let Some(preset) = PRESETS.iter().find(|p| p.name == name) {
            return Self::preset(text, &Spec::parse(preset, name, params)?);
        }
        if crate::files::asks_for_files(text) {
            return Err(WorkloadError::NeedsFiles {
                name: name.to_owned(),
            });
        }
        let Some((path, params)) = existing(text) else {
            return Err(unknown(name));
        };
        if job::is_job(path) {
            Self::job(text, path, &Spec::parse(&JOB, path, params)?)
        } else {
            Ok(Self::trace(text, path, &Spec::parse(&TRACE, path, params)?))
        }
    }

    /// The source of the placement handles of its writes.
    #[must_use]
    pub const fn placing(&self) -> Placing {
        self.placing
    }

    fn preset(text: &str, spec: &Spec) -> Result<Self, WorkloadError> {
        let part = match spec.name() {
            "logs" => Part::Logs(spec.logs()),
            _ => Part::Synthetic {
                synthetic: spec.synthetic(),
                depth: 1,
                salt: 0,
            },
        };
        Ok(Self {
            text: text.to_owned(),
            pacing: spec.pacing(),
            until: None,
            notes: Vec::new(),
            placing: spec.placing(),
            source: Source::Phases(vec![vec![part]]),
        })
    }

    fn trace(text: &str, path: &str, spec: &Spec) -> Self {
        Self {
            text: text.to_owned(),
            pacing: spec.trace_pacing(),
            until: None,
            notes: Vec::new(),
            placing: spec.placing(),
            source: Source::Trace {
                path: PathBuf::from(path),
                format: spec.format(),
                options: spec.trace_options(),
                wrap: spec.wraps(),
            },
        }
    }

    fn job(text: &str, path: &str, spec: &Spec) -> Result<Self, WorkloadError> {
        let job = Job::read(path)?;
        Ok(Self {
            text: text.to_owned(),
            pacing: job.pacing,
            until: job.until,
            notes: job.notes,
            placing: spec.placing(),
            source: Source::Phases(job.phases),
        })
    }
}

/// What is said of `name`, which is neither that of a workload nor that of a file.
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

/// Whatever a workload of blocks or of files can be called.
fn names() -> impl Iterator<Item = &'static str> {
    let presets = PRESETS.iter().chain(&FILE_PRESETS).map(|p| p.name);
    presets.chain(shipped::ALL.map(|shipped| shipped.name))
}

/// The path that `text` names and the parameters after it. A colon may be part
/// of the path, so the longest path that exists wins.
pub(crate) fn existing(text: &str) -> Option<(&str, &str)> {
    if Path::new(text).is_file() {
        return Some((text, ""));
    }
    let colons = text.rmatch_indices(':');
    let mut splits = colons.map(|(at, _)| (&text[..at], &text[at + 1..]));
    splits.find(|(path, _)| Path::new(path).is_file())
}
