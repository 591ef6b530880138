//! Traces: recorded files of block requests, read as a stream.
//!
//! Invariants: a reader holds one line or record at a time and a bounded number of requests,
//! whatever the file contains; times of the requests start at 0 and never go back. Requests that
//! are slightly out of order are sorted by time and counted in [`Notes`]: blktrace merges per-CPU
//! buffers no better, and some traces are written when requests complete. Requests further out of
//! order are refused.

mod blktrace;
mod detect;
mod devices;
mod event;
mod fio;
mod format;
mod options;
mod order;
mod rwbs;
mod summary;
mod text;
mod volumes;
mod write;

pub use devices::{BadDevices, Devices};
pub use format::{Format, UnknownFormat};
pub use input::TraceError;
pub use options::{Action, Notes, Options};
pub use summary::{OriginSummary, SizeBucket, Summarizer, Summary};
pub use write::{WriteError, Written, write};

use crate::request::{Labels, Op, Purpose, Request};
use blktrace::Blktrace;
use detect::{Flaw, Undecided, detect};
use devices::Layout;
use event::{Event, Kind, Line, Parser};
use input::{Expected, Fault, Input, excerpt, expected};
use order::Window;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use units::{Extent, MIB, Ns, Placement, SECTOR};

/// Upper bound on the length of a line, in bytes without its end.
pub const MAX_LINE: usize = 64 * 1024;

/// Upper bound on the sectors of one read or write: 256 MiB. The kernel's largest request is 64
/// times smaller; the bound limits the damage of a hostile trace.
pub const MAX_SECTORS: u64 = 256 * MIB / SECTOR;

/// Upper bound on an address, in sectors: 2^54, which is 8 EiB.
pub const MAX_ADDRESS: u64 = 1 << 54;

/// Upper bound on an address within one device, in sectors: 16 PiB.
const RECORDED_MAX: u64 = 1 << 45;

/// Reader of a trace: an iterator over its requests, sorted by time.
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

/// Whole contents of a trace, in memory.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Requests, sorted by time.
    pub requests: Vec<Request>,
    /// Names of the origins that requests carry.
    pub labels: Labels,
    /// Deviations from the file: requests sorted, widened or left out.
    pub notes: Notes,
}

impl Trace {
    /// Opens a file, plain or compressed by gzip or zstd. Without `format`, the format is detected
    /// from the contents.
    ///
    /// # Errors
    /// If the file cannot be read or its format cannot be determined.
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

    /// Reads a trace from `reader`; `name` is its name in errors.
    ///
    /// # Errors
    /// If the beginning cannot be read or the format cannot be determined.
    pub fn from_reader(
        name: &str,
        reader: impl Read + Send + 'static,
        format: Option<Format>,
        options: Options,
    ) -> Result<Self, TraceError> {
        let opened = input::open(reader);
        let opened = opened.map_err(TraceError::unreadable(name, "the beginning"))?;
        let found = || detect(&opened.head).map_err(|undecided| refuse(name, undecided));
        let format = format.map_or_else(found, Ok)?;
        let action = match format {
            Format::Blktrace => options.action.in_trace(blktrace::letters(&opened.head)),
            Format::Blkparse => {
                let head = String::from_utf8_lossy(&opened.head);
                options.action.in_trace(text::letters(&head))
            }
            _ => options.action,
        };
        Ok(Self {
            name: name.to_owned(),
            format,
            input: opened.input,
            decoder: decoder(format, action),
            line: Vec::new(),
            lines: 0,
            reader: Reader::new(options.devices, format),
            ended: false,
        })
    }

    /// Format of the trace, given or detected.
    #[must_use]
    pub const fn format(&self) -> Format {
        self.format
    }

    /// Names of the origins that requests carry, as far as the trace has been read.
    #[must_use]
    pub const fn labels(&self) -> &Labels {
        &self.reader.labels
    }

    /// Deviations from the file, as far as the trace has been read.
    #[must_use]
    pub const fn notes(&self) -> &Notes {
        &self.reader.notes
    }

    /// Reads the whole trace into memory.
    ///
    /// # Errors
    /// The first error of reading.
    pub fn load(mut self) -> Result<Loaded, TraceError> {
        let requests = self.by_ref().collect::<Result<_, _>>()?;
        Ok(Loaded {
            requests,
            labels: self.reader.labels,
            notes: self.reader.notes,
        })
    }

    /// Reads one line or record; `false` at the end.
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
        // The line may hold any bytes, as process names do.
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
        Format::Alibaba => Box::new(volumes::Alibaba),
        Format::Tencent => Box::new(volumes::Tencent),
        Format::Spc => Box::new(volumes::Spc),
        Format::Blktrace => return Decoder::Binary(Blktrace::new(action)),
    })
}

/// Error for contents `name` whose format was not given and cannot be determined.
fn refuse(name: &str, undecided: Undecided) -> TraceError {
    let name = name.to_owned();
    match undecided {
        Undecided::Doubtful(format, flaw) => TraceError::Line {
            name,
            line: flaw.line,
            expected: format!(
                "{}, as the format {format} has them (--format {format} reads them so all the same)",
                flaw.expected
            ),
            found: flaw.found,
        },
        Undecided::Several(formats) => {
            let names: Vec<&str> = formats.iter().map(|format| format.name()).collect();
            let reason = format!(
                "expected contents of one format, found such as fit {}; --format says which it is",
                names.join(" and ")
            );
            TraceError::Format { name, reason }
        }
        Undecided::None(nearest, first) => {
            let list = Format::list();
            let mut reason = format!("expected a trace in one of the formats {list}, found ");
            reason += &match nearest.as_slice() {
                [] if !first.is_empty() && !first.contains(char::is_control) => {
                    format!("none of them in {:?}", excerpt(&first))
                }
                [] => "none of them".to_owned(),
                nearest => {
                    let reasons: Vec<String> = nearest.iter().map(unfit).collect();
                    format!("none of them: {}", reasons.join("; "))
                }
            };
            reason += "; if it is one of these, name its format with --format";
            TraceError::Format { name, reason }
        }
    }
}

fn unfit((format, flaw): &(Format, Flaw)) -> String {
    let Flaw {
        line,
        expected,
        found,
    } = flaw;
    format!("{format} expects {expected} in line {line}, which is {found:?}")
}

impl Iterator for Trace {
    type Item = Result<Request, TraceError>;

    /// The next request by time. An error ends the trace.
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(request) = self.reader.window.pop(self.ended) {
                return Some(Ok(request));
            }
            if self.ended {
                return None;
            }
            match self.step() {
                Ok(more) => self.ended = !more,
                Err(e) => {
                    self.ended = true;
                    self.reader.window = Window::default();
                    return Some(Err(e));
                }
            }
        }
    }
}

/// Converts events into requests: places devices, interns origins, sorts and counts.
struct Reader {
    layout: Layout,
    labels: Labels,
    notes: Notes,
    window: Window,
}

impl Reader {
    fn new(devices: Devices, format: Format) -> Self {
        let layout = Layout::new(devices, format);
        Self {
            notes: Notes {
                shares_addresses: layout.is_shared(),
                packed: layout.is_packed(),
                ..Notes::default()
            },
            layout,
            labels: Labels::default(),
            window: Window::default(),
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
        let Some(((start, sectors), rest)) = self.layout.place(event)? else {
            self.notes.other_devices += 1;
            return Ok(());
        };
        self.notes.devices = self.layout.devices();
        let Kind::Data(op) = event.kind else {
            let flush = self.request(event, Op::Flush, Extent::default());
            return self.put(flush);
        };
        if event.sectors == 0 && !op.manages_zones() {
            self.notes.skipped += 1;
            return Ok(());
        }
        self.notes.widened += u64::from(event.widened);
        let data = self.request(event, op, extent(op, start, sectors)?);
        if event.preflush {
            self.put(Request {
                op: Op::Flush,
                extent: Extent::default(),
                fua: false,
                ..data
            })?;
        }
        self.put(data)?;
        if let Some((start, sectors)) = rest {
            let extent = extent(op, start, sectors)?;
            self.put(Request { extent, ..data })?;
        }
        Ok(())
    }

    fn request(&mut self, event: &Event<'_>, op: Op, extent: Extent) -> Request {
        let purpose = Purpose::of(event.name, event.metadata);
        Request {
            at: Ns(event.at),
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

    /// Puts a request into the sorting window and counts it if it was out of order.
    fn put(&mut self, request: Request) -> Result<(), Expected> {
        let back = self.window.push(request)?;
        self.notes.clock_went_back += u64::from(back > Ns::ZERO);
        self.notes.clock_went_back_ns = self.notes.clock_went_back_ns.max(back.0);
        Ok(())
    }
}

fn extent(op: Op, start: u64, sectors: u64) -> Result<Extent, Expected> {
    let most = match op {
        Op::Trim | Op::Zeroes => u64::from(u32::MAX),
        _ if op.manages_zones() => u64::from(u32::MAX),
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
