//! Traces of file calls: read and written as streams, in a compact binary form
//! (`.flt`, laid out in `docs/formats/flt.md`) and as text, one call a line.
//!
//! Invariants: besides strings, threads and the setup, a reader holds one block or line at a time;
//! it never panics, never allocates by a length from the file, and names the offset or the line of
//! an error. Its events keep the invariants of [`super`]: paths are inside the root, threads are
//! known, and the slot of an open file is at most one above every slot before it, so that a table
//! of slots grows by at most one with each open.

mod binary;
mod item;
mod state;
mod summary;
mod text;

pub use binary::{MAGIC, Writer};
pub use summary::{FileSummary, FileUse, KindSummary, Summarizer};
pub use text::TextWriter;

pub use input::TraceError;

use super::{Event, Names, Setup, Thread};
use binary::Binary;
use state::State;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;
use text::Text;

/// Header of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// Directory that paths are relative to, under its name on the recording machine.
    pub root: Vec<u8>,
    /// Command that was recorded.
    pub command: Vec<u8>,
    /// Gaps of the recording, one sentence each.
    pub notes: Vec<Vec<u8>>,
}

/// Form of a trace of file calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Binary (`.flt`).
    Flt,
    /// Text, one item a line.
    Text,
}

impl Form {
    /// Form of contents that begin with `head`; `None` if they are no trace of file calls.
    #[must_use]
    pub fn detect(head: &[u8]) -> Option<Self> {
        match () {
            () if head.starts_with(&MAGIC) => Some(Self::Flt),
            () if head.starts_with(text::HEADER.as_bytes()) => Some(Self::Text),
            () => None,
        }
    }

    /// Name of the form, as the user selects it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flt => "flt",
            Self::Text => "flt-text",
        }
    }
}

impl FromStr for Form {
    type Err = UnknownForm;

    fn from_str(text: &str) -> Result<Self, UnknownForm> {
        let all = [Self::Flt, Self::Text];
        let found = all.into_iter().find(|form| form.name() == text);
        found.ok_or_else(|| UnknownForm(text.to_owned()))
    }
}

/// Error: a name that is no form.
#[derive(Debug, thiserror::Error)]
#[error("expected flt or flt-text, found {0:?}")]
pub struct UnknownForm(String);

/// Reader of a trace of file calls: an iterator over its events.
pub struct FileTrace {
    name: String,
    decoder: Decoder,
    state: State,
    /// First event, which is read ahead so that the setup is complete.
    first: Option<Event>,
    ended: bool,
}

enum Decoder {
    Binary(Binary),
    Text(Text),
}

/// Whole contents of a trace of file calls, in memory.
#[derive(Clone, Debug)]
pub struct LoadedFiles {
    /// Header of the recording.
    pub about: About,
    /// Tree that must exist before the first call.
    pub setup: Setup,
    /// Strings of setup, threads and events.
    pub names: Names,
    /// Threads, indexed by number.
    pub threads: Vec<Thread>,
    /// Events, in the order of the file.
    pub events: Vec<Event>,
}

impl FileTrace {
    /// Opens the trace at `path` and reads it up to the first event.
    ///
    /// # Errors
    /// If the file cannot be read or is no trace of file calls.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, TraceError> {
        let name = path.as_ref().display().to_string();
        match File::open(path) {
            Ok(file) => Self::from_reader(&name, file),
            Err(e) => Err(TraceError::unreadable(&name, "the file")(e)),
        }
    }

    /// Whether the file at `path`, decompressed if need be, begins like a trace of file calls.
    #[must_use]
    pub fn is_at(path: impl AsRef<Path>) -> bool {
        let open = File::open(path).and_then(input::open);
        open.is_ok_and(|opened| Form::detect(&opened.head).is_some())
    }

    /// Reads a trace from `reader` up to the first event; `name` is its name in errors.
    ///
    /// # Errors
    /// If the contents cannot be read or are no trace of file calls.
    pub fn from_reader(name: &str, reader: impl Read + Send + 'static) -> Result<Self, TraceError> {
        let opened = input::open(reader);
        let opened = opened.map_err(TraceError::unreadable(name, "the beginning"))?;
        let decoder = match Form::detect(&opened.head) {
            Some(Form::Flt) => Decoder::Binary(Binary::new(name, opened.input)?),
            Some(Form::Text) => Decoder::Text(Text::new(name, opened.input)),
            None => {
                return Err(TraceError::Record {
                    name: name.to_owned(),
                    place: "at byte 0".to_owned(),
                    expected: "a trace of file calls".to_owned(),
                });
            }
        };
        let mut trace = Self {
            name: name.to_owned(),
            decoder,
            state: State::default(),
            first: None,
            ended: false,
        };
        trace.first = trace.step()?;
        trace.ended = trace.first.is_none();
        Ok(trace)
    }

    /// Name of the trace in errors.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Form of the trace.
    #[must_use]
    pub const fn form(&self) -> Form {
        match self.decoder {
            Decoder::Binary(_) => Form::Flt,
            Decoder::Text(_) => Form::Text,
        }
    }

    /// Header of the recording.
    #[must_use]
    pub const fn about(&self) -> &About {
        &self.state.about
    }

    /// Tree that must exist before the first call.
    #[must_use]
    pub const fn setup(&self) -> &Setup {
        &self.state.setup
    }

    /// Strings of the trace, as far as it has been read.
    #[must_use]
    pub const fn names(&self) -> &Names {
        &self.state.names
    }

    /// Threads of the trace, as far as it has been read; each is known before its first event.
    #[must_use]
    pub fn threads(&self) -> &[Thread] {
        &self.state.threads
    }

    /// Reads the whole trace into memory.
    ///
    /// # Errors
    /// The first error of reading.
    pub fn load(mut self) -> Result<LoadedFiles, TraceError> {
        let events = self.by_ref().collect::<Result<_, _>>()?;
        let state = self.state;
        Ok(LoadedFiles {
            about: state.about,
            setup: state.setup,
            names: state.names,
            threads: state.threads,
            events,
        })
    }

    fn step(&mut self) -> Result<Option<Event>, TraceError> {
        match &mut self.decoder {
            Decoder::Binary(binary) => binary.next(&mut self.state),
            Decoder::Text(text) => text.next(&mut self.state),
        }
    }
}

impl Iterator for FileTrace {
    type Item = Result<Event, TraceError>;

    /// The next event. An error ends the trace.
    fn next(&mut self) -> Option<Self::Item> {
        if let Some(event) = self.first.take() {
            return Some(Ok(event));
        }
        if self.ended {
            return None;
        }
        let step = self.step();
        self.ended = !matches!(step, Ok(Some(_)));
        step.transpose()
    }
}
