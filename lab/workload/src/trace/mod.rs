//! Traces: recorded files of block requests, read as a stream.
//!
//! Invariants: a reader holds one line, record or block at a time and a bounded number of requests,
//! whatever the file contains; times of the requests start at 0 and never go back. Requests that
//! are slightly out of order are sorted by time and counted in [`Notes`]: blktrace merges per-CPU
//! buffers no better, and some traces are written when requests complete. Requests further out of
//! order are refused.

mod blktrace;
mod bytes;
mod detect;
mod devices;
mod event;
mod fio;
mod flb;
mod format;
mod lines;
mod listed;
mod names;
mod options;
mod order;
mod origins;
mod records;
mod rwbs;
mod summary;
mod table;
mod text;
mod volumes;
mod write;

pub use devices::{BadDevices, Devices};
pub use flb::MAGIC;
pub use format::{Format, UnknownFormat};
pub use input::TraceError;
pub use options::{Action, Notes, Options};
pub use summary::{OriginSummary, SizeBucket, Summarizer, Summary};
pub use table::{BadColumns, Columns};
pub use write::{WriteError, Written, write};

use crate::request::{Labels, Op, Request};
use blktrace::Blktrace;
use detect::{Flaw, Undecided, detect};
use devices::Layout;
use event::{Event, Kind, Line, Parser};
use flb::Flb;
use input::{Expected, Fault, Input, Opened, excerpt, expected};
use lines::Lines;
use order::Window;
use origins::Origins;
use records::{Fixed, Records};
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use table::Table;
use units::{Extent, MIB, Ns, Origin, Placement, SECTOR};

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
    decoder: Decoder,
    reader: Reader,
    /// Whether requests come sorted, and so leave as they are read.
    is_sorted: bool,
    ended: bool,
}

enum Decoder {
    Text(Lines),
    Records(Box<dyn Records>, Input),
    Binary(Box<Flb>),
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
    /// Opens a file, plain or compressed by gzip, zstd or xz. Without `format`, the format is detected
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
        let format = match options.columns {
            Some(_) => Format::Table,
            None => format.map_or_else(found, Ok)?,
        };
        let action = match format {
            Format::Blktrace => options.action.in_trace(blktrace::letters(&opened.head)),
            Format::Blkparse => {
                let head = String::from_utf8_lossy(&opened.head);
                options.action.in_trace(text::letters(&head))
            }
            _ => options.action,
        };
        let decoder = decoder(name, opened, format, action, options.columns)?;
        let reader = Reader::new(options, format);
        Ok(Self {
            name: name.to_owned(),
            format,
            is_sorted: format == Format::Flb && reader.layout.is_shared(),
            decoder,
            reader,
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
        &self.reader.origins.labels
    }

    /// Deviations from the file, as far as the trace has been read.
    #[must_use]
    pub const fn notes(&self) -> &Notes {
        &self.reader.notes
    }

    /// This trace, not read yet, with the origins of `before`, which had the same contents.
    pub(crate) fn continuing(mut self, before: &Self) -> Self {
        self.reader.origins.labels = before.labels().clone();
        self
    }

    /// Reads the whole trace into memory.
    ///
    /// # Errors
    /// The first error of reading.
    pub fn load(mut self) -> Result<Loaded, TraceError> {
        let requests = self.by_ref().collect::<Result<_, _>>()?;
        Ok(Loaded {
            requests,
            labels: self.reader.origins.labels,
            notes: self.reader.notes,
        })
    }

    /// Reads one line or record; `false` at the end.
    fn step(&mut self) -> Result<bool, TraceError> {
        match &mut self.decoder {
            Decoder::Text(lines) => lines.step(&self.name, &mut self.reader),
            Decoder::Records(parser, input) => {
                let offset = parser.offset();
                let read = parser.next(&mut **input);
                let taken = read.and_then(|said| match said {
                    Some(said) => self.reader.take(&said).map(|()| true).map_err(Fault::from),
                    None => Ok(false),
                });
                taken.map_err(|fault| faulty(&self.name, offset, fault))
            }
            Decoder::Binary(flb) => {
                let read = flb.next(&mut self.reader.origins.labels);
                let taken = read.and_then(|request| match request {
                    Some(request) => self
                        .reader
                        .place(request)
                        .map(|()| true)
                        .map_err(Fault::from),
                    None => Ok(false),
                });
                taken.map_err(|fault| faulty(&self.name, flb.position(), fault))
            }
        }
    }

    /// The next request of a binary trace whose addresses stay as they are: such requests need no
    /// sorting.
    fn next_sorted(&mut self) -> Option<Result<Request, TraceError>> {
        let Decoder::Binary(flb) = &mut self.decoder else {
            unreachable!("only requests of binary traces are sorted");
        };
        while !self.ended {
            match flb.next(&mut self.reader.origins.labels) {
                Ok(Some(request)) if self.reader.keeps(&request) => return Some(Ok(request)),
                Ok(Some(_)) => {}
                Ok(None) => self.ended = true,
                Err(fault) => {
                    self.ended = true;
                    return Some(Err(faulty(&self.name, flb.position(), fault)));
                }
            }
        }
        None
    }
}

/// Error for a fault in the item or record at `offset` of the trace `name`.
fn faulty(name: &str, offset: u64, fault: Fault) -> TraceError {
    match fault {
        Fault::Expected(Expected(expected)) => TraceError::Record {
            name: name.to_owned(),
            place: format!("at byte {offset}"),
            expected,
        },
        Fault::Io(e) => TraceError::unreadable(name, format!("byte {offset}"))(e),
    }
}

/// Decoder of the contents `opened` of the trace `name`.
fn decoder(
    name: &str,
    opened: Opened,
    format: Format,
    action: Action,
    columns: Option<Columns>,
) -> Result<Decoder, TraceError> {
    let Opened { head, input } = opened;
    let parser = match columns {
        Some(columns) => Some(Box::new(Table::new(columns)) as Box<dyn Parser>),
        None => parser(format, action, &head),
    };
    Ok(match (parser, format) {
        (Some(parser), _) => Decoder::Text(Lines::new(input, parser)),
        (None, Format::Flb) => {
            let flb = Flb::new(input).map_err(|fault| faulty(name, 0, fault))?;
            Decoder::Binary(Box::new(flb))
        }
        (None, Format::Vscsi | Format::Oracle) => {
            let layout = records::Layout::of(format, &head);
            Decoder::Records(Box::new(Fixed::new(layout)), input)
        }
        (None, Format::Table) => {
            return Err(TraceError::Format {
                name: name.to_owned(),
                reason: "expected the columns of the table in --columns".to_owned(),
            });
        }
        (None, _) => Decoder::Records(Box::new(Blktrace::new(action)), input),
    })
}

/// Parser of the lines of `format`, for contents that begin with `head`; `None` if it has no lines.
fn parser(format: Format, action: Action, head: &[u8]) -> Option<Box<dyn Parser>> {
    Some(match format {
        Format::Csv => Box::new(text::Csv),
        Format::Msr => Box::new(text::Msr),
        Format::Mqsim => Box::new(text::Mqsim),
        Format::Fio => Box::<fio::Fio>::default(),
        Format::Blkparse => Box::new(text::Blkparse::new(action)),
        Format::Ftrace | Format::Perf | Format::TraceCmd => {
            Box::new(text::Ftrace::new(action, head))
        }
        Format::Biosnoop => Box::<listed::Biosnoop>::default(),
        Format::Alibaba => Box::new(volumes::Alibaba),
        Format::Tencent => Box::new(volumes::Tencent),
        Format::Spc => Box::new(volumes::Spc),
        Format::Systor => Box::new(volumes::Systor),
        Format::Fiu => Box::new(listed::Fiu),
        Format::CloudPhysics => Box::new(volumes::CloudPhysics),
        Format::DiskSim => Box::new(listed::DiskSim),
        Format::Blktrace | Format::Vscsi | Format::Oracle | Format::Flb | Format::Table => {
            return None;
        }
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
        Undecided::Objects => {
            let reason =
                "expected a trace of blocks, found objects whose sizes are no multiples of \
                512 bytes, in the format oracle (--format oracle reads them so all the same)"
                    .to_owned();
            TraceError::Format { name, reason }
        }
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
        if self.is_sorted {
            return self.next_sorted();
        }
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
    format: Format,
    layout: Layout,
    origins: Origins,
    /// Name of the device of the latest request, if devices are origins.
    tenant: Vec<u8>,
    notes: Notes,
    window: Window,
}

impl Reader {
    fn new(options: Options, format: Format) -> Self {
        let has_volumes = match options.columns {
            Some(columns) => columns.has_volumes(),
            None => format.has_volumes(),
        };
        let layout = Layout::new(options.devices, has_volumes);
        Self {
            format,
            notes: Notes {
                shares_addresses: layout.is_shared(),
                packed: layout.is_packed(),
                ..Notes::default()
            },
            layout,
            origins: Origins::default(),
            tenant: Vec::new(),
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
        let Some((start, sectors)) = self.layout.place(event)? else {
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
        extent(op, event.start, event.sectors)?;
        self.put_rest(data)
    }

    /// Puts the other parts of `request`, whose first part was placed last. A zone command has one.
    fn put_rest(&mut self, request: Request) -> Result<(), Expected> {
        if request.op.manages_zones() {
            return Ok(());
        }
        while let Some((start, sectors)) = self.layout.rest()? {
            let extent = extent(request.op, start, sectors)?;
            self.put(Request { extent, ..request })?;
        }
        Ok(())
    }

    fn request(&mut self, event: &Event<'_>, op: Op, extent: Extent) -> Request {
        let origin = match self.layout.has_tenants() {
            true => self.tenant(event),
            false => self.origins.of(event.name, event.metadata),
        };
        Request {
            at: Ns(event.at),
            op,
            extent,
            placement: Placement(0),
            origin,
            fua: event.fua,
        }
    }

    /// Origin of a request whose device is a tenant, named as its format names devices.
    fn tenant(&mut self, event: &Event<'_>) -> Origin {
        let (device, name) = (event.device, &mut self.tenant);
        name.clear();
        let written = match self.format {
            Format::Table => name.write_all(event.volume),
            Format::Fio => Ok(()),
            format if format.has_volumes() => Ok(()),
            Format::Msr => write!(name, "_{device}"),
            Format::Blktrace
            | Format::Blkparse
            | Format::Ftrace
            | Format::Perf
            | Format::TraceCmd
            | Format::Fiu => {
                write!(name, "{},{}", device >> 20, device & 0xf_ffff)
            }
            _ => write!(name, "device {device}"),
        };
        written.expect("a buffer in memory takes all");
        if name.is_empty() || self.format == Format::Msr {
            name.splice(..0, event.name.iter().copied());
        }
        self.origins.of(name, false)
    }

    /// Whether a request of a binary trace is one: others move no data, and are counted.
    fn keeps(&mut self, request: &Request) -> bool {
        let empty = request.extent.sectors == 0;
        let keeps = !empty || request.op == Op::Flush || request.op.manages_zones();
        self.notes.devices = 1;
        self.notes.skipped += u64::from(!keeps);
        keeps
    }

    /// Lays out a request of a binary trace, which is one of device 0.
    fn place(&mut self, request: Request) -> Result<(), Expected> {
        let event = Event {
            start: request.extent.start.0,
            sectors: request.extent.sectors.into(),
            ..Event::new(Kind::Data(request.op))
        };
        let Some((start, sectors)) = self.layout.place(&event)? else {
            self.notes.other_devices += 1;
            return Ok(());
        };
        if !self.keeps(&request) {
            return Ok(());
        }
        let extent = extent(request.op, start, sectors)?;
        let request = Request { extent, ..request };
        self.put(request)?;
        self.put_rest(request)
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
