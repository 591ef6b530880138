//! Traces: files of requests that someone recorded, read as a stream.
//!
//! Invariants: a reader holds one line or record at a time, whatever the file
//! says; times of the requests start at 0 and never go back. A request whose
//! time lies before its predecessor's (per-CPU buffers are merged only nearly
//! in order) is given its predecessor's, and [`Notes`] counts it: a stream can
//! not sort. The order of the file is kept.

mod blktrace;
mod event;
mod fio;
mod format;
mod options;
mod rwbs;
mod summary;
mod text;
mod write;

pub use format::{Format, UnknownFormat};
pub use input::TraceError;
pub use options::{Action, BadDevices, Devices, Notes, Options};
pub use summary::{OriginSummary, SizeBucket, Summarizer, Summary};
pub use write::{WriteError, Written, write};

use crate::request::{Labels, Op, Purpose, Request};
use blktrace::Blktrace;
use event::{Event, Kind, Line, Parser};
use input::{Expected, Fault, Input, excerpt, expected};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use units::{Extent, MIB, Ns, Placement, SECTOR};

/// Longest line that is read, in bytes without its end.
pub const MAX_LINE: usize = 64 * 1024;

/// Most sectors of one read or write: 256 MiB. The kernel's largest request is
/// 64 times smaller; the bound keeps what a hostile trace can ask for in check.
pub const MAX_SECTORS: u64 = 256 * MIB / SECTOR;

/// Sectors that an address may reach: 2^54, which is 8 EiB.
pub const MAX_ADDRESS: u64 = 1 << 54;

/// A trace that is being read.
pub struct Trace {
    name: String,
    format: Format,
    input: Input,
    decoder: Decoder,
    line: Vec<u8>,
    lines: u64,
    reader: Reader,
    ended: bool,
}

enum Decoder {
    Text(Box<dyn Parser>),
    Binary(Blktrace),
}

/// Everything that a trace says, in memory.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// All requests, in their order.
    pub requests: Vec<Request>,
    /// Who asked.
    pub labels: Labels,
    /// What was not taken over as it stands.
    pub notes: Notes,
}

impl Trace {
    /// Opens a file, plain or compressed by gzip or zstd. Without a format the
    /// contents tell it.
    ///
    /// # Errors
    /// If the file cannot be read or its format is not known.
    pub fn open(
        path: impl AsRef<Path>,
        format: Option<Format>,
        options: Options,
    ) -> Result<Self, TraceError> {
        let name = path.as_ref().display().to_string();
        match File::open(path) {
            Ok(file) => Self::from_reader(&name, file, format, options),
            Err(e) => Err(TraceError::unreadable(&name, "the file")(e)),
        }
    }

    /// Reads from `reader`, called `name` in errors.
    ///
    /// # Errors
    /// If its beginning cannot be read or its format is not known.
    pub fn from_reader(
        name: &str,
        reader: impl Read + Send + 'static,
        format: Option<Format>,
        options: Options,
    ) -> Result<Self, TraceError> {
        let opened = input::open(reader);
        let opened = opened.map_err(TraceError::unreadable(name, "the beginning"))?;
        let Some(format) = format.or_else(|| Format::detect(&opened.head)) else {
            let reason = format!(
                "expected a trace in one of the formats {}, found none of them; \
                 name the format if it is one",
                Format::list()
            );
            let name = name.to_owned();
            return Err(TraceError::Format { name, reason });
        };
        Ok(Self {
            name: name.to_owned(),
            format,
            input: opened.input,
            decoder: decoder(format, options.action),
            line: Vec::new(),
            lines: 0,
            reader: Reader::new(options.devices),
            ended: false,
        })
    }

    /// The format that is read.
    #[must_use]
    pub const fn format(&self) -> Format {
        self.format
    }

    /// Who asked, as far as it was read.
    #[must_use]
    pub const fn labels(&self) -> &Labels {
        &self.reader.labels
    }

    /// What was not taken over as it stands, as far as it was read.
    #[must_use]
    pub const fn notes(&self) -> &Notes {
        &self.reader.notes
    }

    /// Reads all of it into memory.
    ///
    /// # Errors
    /// The first that reading meets.
    pub fn load(mut self) -> Result<Loaded, TraceError> {
        let requests = self.by_ref().collect::<Result<_, _>>()?;
        Ok(Loaded {
            requests,
            labels: self.reader.labels,
            notes: self.reader.notes,
        })
    }

    /// Reads one line or record. `false` at the end.
    fn step(&mut self) -> Result<bool, TraceError> {
        match &mut self.decoder {
            Decoder::Text(_) => self.step_line(),
            Decoder::Binary(_) => self.step_record(),
        }
    }

    fn step_line(&mut self) -> Result<bool, TraceError> {
        self.lines += 1;
        let read = input::read_line(&mut *self.input, &mut self.line, MAX_LINE);
        let place = format!("line {}", self.lines);
        if !read.map_err(TraceError::unreadable(&self.name, place))? {
            return Ok(false);
        }
        // Process names may hold any bytes.
        let text = String::from_utf8_lossy(&self.line);
        let line = text.trim();
        let Decoder::Text(parser) = &mut self.decoder else {
            unreachable!("lines are read of text only");
        };
        if line.is_empty() || line.starts_with('#') {
            return Ok(true);
        }
        let taken = parser.line(line).and_then(|said| self.reader.take(&said));
        taken.map_err(|Expected(expected)| TraceError::Line {
            name: self.name.clone(),
            line: self.lines,
            expected,
            found: excerpt(line),
        })?;
        Ok(true)
    }

    fn step_record(&mut self) -> Result<bool, TraceError> {
        let Decoder::Binary(parser) = &mut self.decoder else {
            unreachable!("records are read of binary contents only");
        };
        let offset = parser.offset;
        let read = parser.next(&mut *self.input);
        let taken = read.and_then(|said| match said {
            Some(said) => self.reader.take(&said).map(|()| true).map_err(Fault::from),
            None => Ok(false),
        });
        taken.map_err(|fault| match fault {
            Fault::Expected(Expected(expected)) => TraceError::Record {
                name: self.name.clone(),
                place: format!("at byte {offset}"),
                expected,
            },
            Fault::Io(e) => TraceError::unreadable(&self.name, format!("byte {offset}"))(e),
        })
    }
}

fn decoder(format: Format, action: Action) -> Decoder {
    Decoder::Text(match format {
        Format::Csv => Box::new(text::Csv),
        Format::Msr => Box::new(text::Msr),
        Format::Mqsim => Box::new(text::Mqsim),
        Format::Fio => Box::<fio::Fio>::default(),
        Format::Blkparse => Box::new(text::Blkparse::new(action)),
        Format::Ftrace => Box::new(text::Ftrace),
        Format::Blktrace => return Decoder::Binary(Blktrace::new(action)),
    })
}

impl Iterator for Trace {
    type Item = Result<Request, TraceError>;

    /// The next request. The first error ends the trace.
    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended {
            if let Some(request) = self.reader.ready.pop() {
                return Some(Ok(request));
            }
            match self.step() {
                Ok(more) => self.ended = !more,
                Err(e) => {
                    self.ended = true;
                    return Some(Err(e));
                }
            }
        }
        None
    }
}

/// Turns events into requests.
struct Reader {
    devices: Devices,
    seen: Vec<u64>,
    labels: Labels,
    notes: Notes,
    first: Option<u64>,
    last: u64,
    /// Requests to yield, the next one last.
    ready: Vec<Request>,
}

impl Reader {
    fn new(devices: Devices) -> Self {
        Self {
            devices,
            seen: Vec::new(),
            labels: Labels::default(),
            notes: Notes::default(),
            first: None,
            last: 0,
            ready: Vec::new(),
        }
    }

    fn take(&mut self, said: &Line<'_>) -> Result<(), Expected> {
        match said {
            Line::Event(event) => self.event(event)?,
            Line::Nothing => {}
            Line::Skipped => self.notes.skipped += 1,
            Line::Lost => self.notes.lost += 1,
        }
        Ok(())
    }

    fn event(&mut self, event: &Event<'_>) -> Result<(), Expected> {
        let Some(base) = self.devices.base(event.device, &mut self.seen)? else {
            self.notes.other_devices += 1;
            return Ok(());
        };
        let Kind::Data(op) = event.kind else {
            let flush = self.request(event, Op::Flush, Extent::default());
            self.ready.push(flush);
            return Ok(());
        };
        if event.sectors == 0 {
            self.notes.skipped += 1;
            return Ok(());
        }
        self.devices.check(event)?;
        let extent = extent(op, base.saturating_add(event.start), event.sectors)?;
        self.notes.widened += u64::from(event.widened);
        let data = self.request(event, op, extent);
        self.ready.push(data);
        if event.preflush {
            self.ready.push(Request {
                op: Op::Flush,
                extent: Extent::default(),
                fua: false,
                ..data
            });
        }
        Ok(())
    }

    fn request(&mut self, event: &Event<'_>, op: Op, extent: Extent) -> Request {
        let purpose = Purpose::of(event.name, event.metadata);
        Request {
            at: self.time(event.at),
            op,
            extent,
            placement: Placement(0),
            origin: match event.name {
                "" => self.labels.intern_as("unnamed", purpose),
                name => self.labels.intern_as(name, purpose),
            },
            fua: event.fua,
        }
    }

    fn time(&mut self, at: u64) -> Ns {
        let since = at.saturating_sub(*self.first.get_or_insert(at));
        let before = self.first.is_some_and(|first| at < first);
        self.notes.clock_went_back += u64::from(before || since < self.last);
        self.last = self.last.max(since);
        Ns(self.last)
    }
}

fn extent(op: Op, start: u64, sectors: u64) -> Result<Extent, Expected> {
    let most = match op {
        Op::Trim => u64::from(u32::MAX),
        _ => MAX_SECTORS,
    };
    if sectors > most {
        return expected(format!("a request of at most {most} sectors"));
    }
    if start
        .checked_add(sectors)
        .is_none_or(|end| end > MAX_ADDRESS)
    {
        return expected("an address below 8 EiB");
    }
    let sectors = u32::try_from(sectors).expect("bounded by the longest request");
    Ok(Extent::new(start, sectors))
}
