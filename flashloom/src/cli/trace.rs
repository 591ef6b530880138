//! `trace`: summaries and conversion of traces.

use super::Answer;
use super::accesses;
use super::calls;
use super::failure::Failure;
use super::file::{beside, check_other};
use super::output::{Shown, note};
use clap::{Args, Subcommand};
use flate2::write::GzEncoder;
use report::table::{Side, facts, listing};
use report::{Style, human};
use serde::Serialize;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use units::Ns;
use workload::files::trace::{FileTrace, Form};
use workload::shipped::Asked;
use workload::trace::{
    Columns, Devices, Format, Notes, Options, Summarizer, Summary, Trace, write,
};
use workload::{Labels, Request};

/// Inspect or convert traces of block requests, file calls and memory accesses
#[derive(Subcommand)]
pub(crate) enum Command {
    Info(Info),
    Head(Head),
    Convert(Convert),
}

impl Command {
    pub(crate) fn run(&self) -> Answer {
        match self {
            Self::Info(info) => info.run(),
            Self::Head(head) => head.run(),
            Self::Convert(convert) => convert.run(),
        }
    }
}

/// Options that name a trace.
#[derive(Args)]
struct Input {
    /// Trace, plain or compressed by gzip, zstd or xz, or the name of a shipped one
    #[arg(value_name = "TRACE")]
    path: PathBuf,
    // Its help is made of the list of formats.
    #[arg(long, help = format_help())]
    format: Option<Format>,
    /// Mapping of the trace's devices to one drive: together (all keep their addresses and
    /// overlap), packed (only the regions that they use, one after the other), tenants (packed, and
    /// each device is the origin of its requests), apart:64GiB (one after the other, at this
    /// distance), or a number (3 or 8,0) to keep one device alone; auto is packed for formats with
    /// many volumes, such as alibaba, and together for others
    #[arg(long, default_value = "auto")]
    devices: Devices,
    // Its help is made of the list of columns.
    #[arg(long, value_name = "LIST", help = columns_help())]
    columns: Option<Columns>,
}

/// Help of `--columns`, with the names of all columns.
pub(super) fn columns_help() -> String {
    format!(
        "Meanings of the columns of a table in no known format, from the left, such as \
         time_us,op,offset_bytes,size_bytes,volume. One time, operation, offset and size, among: {} \
         (- has no meaning)",
        Columns::names()
    )
}

fn format_help() -> String {
    let list = Format::list();
    format!(
        "Format, if the contents are ambiguous: {list}; traces of file calls and of memory \
         accesses are always detected"
    )
}

impl Input {
    /// The trace's file; a shipped trace is in a temporary one, which exists as long as the result.
    fn asked(&self) -> Result<Asked, Failure> {
        Ok(Asked::new(&self.path.to_string_lossy())?)
    }

    /// Whether an option states that the trace holds block requests.
    fn is_told(&self) -> bool {
        self.format.is_some() || self.columns.is_some()
    }

    /// The calls of the trace; `None` unless it is a trace of file calls.
    fn calls(&self) -> Result<Option<FileTrace>, Failure> {
        let asked = self.asked()?;
        if self.is_told() || !FileTrace::is_at(&asked.text) {
            return Ok(None);
        }
        Ok(Some(FileTrace::open(&asked.text)?))
    }

    /// Whether its contents identify it as a trace of memory accesses.
    fn holds_accesses(&self) -> bool {
        !self.is_told() && accesses::told(&self.path)
    }

    /// The block requests of the trace.
    fn open(&self) -> Result<Trace, Failure> {
        if self.holds_accesses() {
            let reason = "a trace of memory accesses has no requests to print; see flashloom trace \
                info";
            return Err(Failure::at(&self.path, reason));
        }
        let options = Options {
            devices: self.devices,
            columns: self.columns,
            ..Options::default()
        };
        let asked = self.asked()?;
        Ok(Trace::open(Path::new(&asked.text), self.format, options)?)
    }
}

/// Summarise a trace: requests, sizes, footprint, origins
#[derive(Args)]
pub(crate) struct Info {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    shown: Shown,
}

/// JSON document of `trace info`.
#[derive(Serialize)]
struct Facts {
    file: String,
    format: &'static str,
    #[serde(flatten)]
    summary: Summary,
    notes: Notes,
}

impl Info {
    fn run(&self) -> Answer {
        if let Some(trace) = self.input.calls()? {
            return calls::info(trace, &self.input.path, self.shown);
        }
        if self.input.holds_accesses() {
            return accesses::info(&self.input.path, self.shown);
        }
        let mut trace = self.input.open()?;
        let mut counter = Summarizer::default();
        for request in &mut trace {
            counter.add(&request?);
        }
        let found = Facts {
            file: self.input.path.display().to_string(),
            format: trace.format().name(),
            summary: counter.finish(trace.labels()),
            notes: *trace.notes(),
        };
        let text = |style: Style| summary_page(&found, style);
        self.shown.answer("flashloom.trace-info/1", &found, text)
    }
}

fn summary_page(found: &Facts, style: Style) -> String {
    let mut out = facts(overview(found), style);
    if !found.summary.sizes.is_empty() {
        out += &format!("\n{}", sizes(&found.summary, style));
    }
    if !found.summary.origins.is_empty() {
        out += &format!("\n{}", origins(&found.summary, style));
    }
    for sentence in found.notes.sentences() {
        out += &format!("\n{sentence}");
    }
    out.trim_end().to_owned() + "\n"
}

fn overview(found: &Facts) -> Vec<(&'static str, String)> {
    let s = &found.summary;
    let moved = |n: u64, bytes: u64, sequential: u64| {
        let share = human::share(sequential as f64 / n.max(1) as f64);
        format!(
            "{}, {}, {share} sequential",
            human::count(n as f64),
            human::bytes(bytes as f64)
        )
    };
    let at_least = if s.footprint_exact { "" } else { "at least " };
    let counted =
        |n: u64, bytes: u64| format!("{}, {}", human::count(n as f64), human::bytes(bytes as f64));
    let mut rows = vec![
        ("file", found.file.clone()),
        ("format", found.format.to_owned()),
        ("requests", human::count(s.requests as f64)),
        ("duration", human::time(s.duration_ns as f64)),
        ("reads", moved(s.reads, s.read_bytes, s.sequential_reads)),
        (
            "writes",
            moved(s.writes, s.write_bytes, s.sequential_writes),
        ),
        ("FUA writes", human::count(s.fua_writes as f64)),
        ("trims", counted(s.trims, s.trim_bytes)),
        ("flushes", human::count(s.flushes as f64)),
    ];
    let of_zones = [
        (s.appends, "appends", counted(s.appends, s.append_bytes)),
        (
            s.zeroes,
            "writes of zeroes",
            counted(s.zeroes, s.zeroes_bytes),
        ),
        (
            s.zone_commands,
            "zone commands",
            human::count(s.zone_commands as f64),
        ),
    ];
    let met = of_zones.into_iter().filter(|(count, ..)| *count > 0);
    rows.extend(met.map(|(_, name, told)| (name, told)));
    rows.extend([
        (
            "footprint",
            format!("{at_least}{}", human::bytes(s.footprint_bytes as f64)),
        ),
        (
            "written",
            format!(
                "{at_least}{} of it, each 4 KiB {} times",
                human::bytes(s.write_footprint_bytes as f64),
                human::factor(s.overwrite_factor)
            ),
        ),
        ("needs a drive of", human::bytes(s.span_bytes as f64)),
    ]);
    rows
}

fn sizes(summary: &Summary, style: Style) -> String {
    let row = |bucket: &workload::trace::SizeBucket| {
        let counts = [bucket.reads, bucket.writes].map(|n| human::count(n as f64));
        let mut row = vec![human::bytes(bucket.up_to_bytes as f64)];
        row.extend(counts);
        row
    };
    let rows: Vec<_> = summary.sizes.iter().map(row).collect();
    let columns = ["size up to", "reads", "writes"].map(|title| (title, Side::Right));
    listing(&columns, &rows, style)
}

fn origins(summary: &Summary, style: Style) -> String {
    let row = |origin: &workload::trace::OriginSummary| {
        vec![
            origin.name.clone(),
            format!("{:?}", origin.purpose).to_lowercase(),
            human::count(origin.requests as f64),
            human::bytes(origin.read_bytes as f64),
            human::bytes(origin.write_bytes as f64),
        ]
    };
    let rows: Vec<_> = summary.origins.iter().map(row).collect();
    let columns = [
        ("asked by", Side::Left),
        ("for", Side::Left),
        ("requests", Side::Right),
        ("read", Side::Right),
        ("written", Side::Right),
    ];
    listing(&columns, &rows, style)
}

/// Print the first requests of a trace
#[derive(Args)]
pub(crate) struct Head {
    #[command(flatten)]
    input: Input,
    /// Number of requests
    #[arg(short = 'n', long = "lines", default_value_t = 10, value_name = "N")]
    count: usize,
    #[command(flatten)]
    shown: Shown,
}

/// Request in the JSON document of `trace head`.
#[derive(Serialize)]
struct Line {
    at_ns: u64,
    op: &'static str,
    sector: u64,
    sectors: u32,
    fua: bool,
    origin: String,
}

/// JSON document of `trace head`.
#[derive(Serialize)]
struct Lines {
    format: &'static str,
    requests: Vec<Line>,
}

impl Head {
    fn run(&self) -> Answer {
        if let Some(trace) = self.input.calls()? {
            return calls::head(trace, self.count, self.shown);
        }
        let mut trace = self.input.open()?;
        let requests: Result<Vec<_>, _> = trace.by_ref().take(self.count).collect();
        trace.notes().sentences().iter().for_each(|said| note(said));
        let line = |request: &Request| line(request, trace.labels());
        let lines = Lines {
            format: trace.format().name(),
            requests: requests?.iter().map(line).collect(),
        };
        let text = |style: Style| head_table(&lines, style);
        self.shown.answer("flashloom.trace-head/1", &lines, text)
    }
}

fn line(request: &Request, labels: &Labels) -> Line {
    Line {
        at_ns: request.at.0,
        op: request.op.name(),
        sector: request.extent.start.0,
        sectors: request.extent.sectors,
        fua: request.fua,
        origin: labels.name(request.origin).to_owned(),
    }
}

fn head_table(lines: &Lines, style: Style) -> String {
    let row = |line: &Line| {
        let forced = if line.fua { ", FUA" } else { "" };
        vec![
            Ns(line.at_ns).to_string(),
            format!("{}{forced}", line.op),
            line.sector.to_string(),
            human::bytes(f64::from(line.sectors) * units::SECTOR as f64),
            line.origin.clone(),
        ]
    };
    let rows: Vec<_> = lines.requests.iter().map(row).collect();
    let columns = [
        ("at", Side::Right),
        ("request", Side::Left),
        ("sector", Side::Right),
        ("size", Side::Right),
        ("asked by", Side::Left),
    ];
    listing(&columns, &rows, style)
}

/// Convert a trace to another format
#[derive(Args)]
pub(crate) struct Convert {
    #[command(flatten)]
    input: Input,
    /// Output path; names ending in .gz or .zst are compressed
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Output format: csv, msr, mqsim, fio, blkparse or flb (binary, with every field); flt or
    /// flt-text for file calls [default: flb or flt]
    #[arg(long, value_name = "FORMAT")]
    to: Option<To>,
    /// Replace all names by numbers: those of processes, hosts, volumes, directories and files.
    /// Requests, calls, sizes and times stay, and so do the depth of directories, the lengths of
    /// names and which files share a suffix
    #[arg(long)]
    anonymous: bool,
    #[command(flatten)]
    shown: Shown,
}

/// JSON document of `trace convert`.
#[derive(Serialize)]
struct Converted {
    from: &'static str,
    to: &'static str,
    file: String,
    requests: u64,
    left_out: u64,
}

/// Output format of `trace convert`.
#[derive(Clone, Copy)]
enum To {
    Blocks(Format),
    Calls(Form),
}

impl FromStr for To {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(form) = text.parse() {
            return Ok(Self::Calls(form));
        }
        let format = text
            .parse()
            .ok()
            .filter(|format: &Format| format.is_written());
        format.map(Self::Blocks).ok_or_else(|| {
            let formats = Format::ALL.into_iter().filter(|format| format.is_written());
            let names: Vec<_> = formats.map(Format::name).collect();
            let names = names.join(", ");
            format!("expected an output format ({names}, flt or flt-text)")
        })
    }
}

impl To {
    const fn name(self) -> &'static str {
        match self {
            Self::Blocks(format) => format.name(),
            Self::Calls(form) => form.name(),
        }
    }
}

impl Convert {
    fn run(&self) -> Answer {
        check_other(&self.out, [self.input.path.as_path()])?;
        let calls = self.input.calls()?;
        let usual = match calls {
            Some(_) => To::Calls(Form::Flt),
            None => To::Blocks(Format::Flb),
        };
        let to = self.to.unwrap_or(usual);
        match (to, calls) {
            (To::Blocks(format), None) => self.blocks(format),
            (To::Calls(form), Some(trace)) => {
                calls::convert(trace, (form, &self.out), self.anonymous, self.shown)
            }
            (To::Blocks(_), Some(_)) => {
                Err(self.mismatch(to, "file calls, which flt and flt-text hold"))
            }
            (To::Calls(_), None) => Err(self.mismatch(to, "no file calls")),
        }
    }

    fn mismatch(&self, to: To, holds: &str) -> Failure {
        let to = to.name();
        Failure::at(
            &self.input.path,
            format!("the trace holds {holds}; it cannot be converted to {to}"),
        )
    }

    fn blocks(&self, to: Format) -> Answer {
        let trace = self.input.open()?;
        let from = trace.format().name();
        let mut loaded = trace.load()?;
        if self.anonymous {
            loaded.labels = loaded.labels.anonymous();
        }
        let mut file = beside(&self.out)?;
        let mut sink = Sink::new(&self.out, BufWriter::new(&mut file))?;
        let written = write(to, &loaded.labels, loaded.requests, sink.as_write())?;
        sink.finish()?;
        file.finish()?;
        loaded.notes.sentences().iter().for_each(|said| note(said));
        let done = Converted {
            from,
            to: to.name(),
            file: self.out.display().to_string(),
            requests: written.requests,
            left_out: written.left_out,
        };
        let text = |_| told(&done);
        self.shown.answer("flashloom.trace-convert/1", &done, text)
    }
}

fn told(done: &Converted) -> String {
    let count = human::count(done.requests as f64);
    let mut out = format!(
        "{}: {count} requests in {} (from {})\n",
        done.file, done.to, done.from
    );
    if done.left_out > 0 {
        let left_out = human::count(done.left_out as f64);
        out += &format!(
            "{left_out} requests were left out: the format {} cannot represent them\n",
            done.to
        );
    }
    out
}

/// Writer to a file, compressed according to the file's name.
enum Sink<W: Write> {
    Plain(W),
    Gzip(GzEncoder<W>),
    Zstd(zstd::Encoder<'static, W>),
}

impl<W: Write> Sink<W> {
    fn new(path: &Path, out: W) -> io::Result<Self> {
        Ok(match path.extension().and_then(|e| e.to_str()) {
            Some("gz") => Self::Gzip(GzEncoder::new(out, flate2::Compression::default())),
            Some("zst") => Self::Zstd(zstd::Encoder::new(out, 0)?),
            _ => Self::Plain(out),
        })
    }

    fn as_write(&mut self) -> &mut dyn Write {
        match self {
            Self::Plain(out) => out,
            Self::Gzip(out) => out,
            Self::Zstd(out) => out,
        }
    }

    fn finish(self) -> io::Result<()> {
        let mut out = match self {
            Self::Plain(out) => out,
            Self::Gzip(out) => out.finish()?,
            Self::Zstd(out) => out.finish()?,
        };
        out.flush()
    }
}
