//! Workloads as named on a command line, and the programs that they create.

use crate::kernel::bc::Bc;
use crate::kernel::bfs::Bfs;
use crate::kernel::dlrm::{Dlrm, LOOKUPS};
use crate::kernel::durable::{Asked, Durable};
use crate::kernel::radix::Radix;
use crate::kernel::srad::Srad;
use crate::kernel::synthetic::{Numbers, Synthetic};
use crate::kernel::tpcc::{Size, Tpcc};
use crate::kernel::ycsb::{Letter, Ycsb};
use crate::preset::{PRESETS, REPLAYED, SCALE_GIVES, TRACE, Unit, WHOLE, thousandths};
use crate::published::{SECTION, published};
use crate::section::{Extent, Section};
use crate::trace::{File, Format, Recording, TraceError, threads_of};
use crate::{Graph, Shape, Tape};
use input::named::{Given, ParamError};
use memsys::Program;
use sim::{Seed, Theta};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use units::{Bytes, GIB, MIB, did_you_mean};

/// A workload from which a program can be created.
#[derive(Clone, Debug)]
pub struct Workload {
    given: Given<Unit>,
    /// Paths of the traces; empty for a preset.
    paths: Vec<PathBuf>,
    /// Results of the first reading of the traces; unset before it.
    recording: Arc<OnceLock<Recording>>,
}

/// Largest number of instructions in a section that is recorded on a tape. A tape takes up to 32
/// bytes per instruction.
const TAPED: u64 = 8_000_000;

impl PartialEq for Workload {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name() && self.given == other.given
    }
}

/// Error for a workload that cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// No preset and no file has this name.
    #[error(
        "expected one of {known}, or a path to a trace of memory accesses, found {found:?}{hint}"
    )]
    Name {
        /// The names of all presets.
        known: String,
        /// The requested name.
        found: String,
        /// `; did you mean …`, or empty.
        hint: String,
    },
    /// The workload has no such parameter, or the parameter does not accept the value.
    #[error(transparent)]
    Param(#[from] ParamError),
    /// A trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

impl Workload {
    /// Parses `name:param=value,…`, where the name may be replaced by paths of traces joined with
    /// `+`.
    ///
    /// # Errors
    /// If there is no such workload or parameter, or if a value is not accepted.
    pub fn parse(text: &str) -> Result<Self, WorkloadError> {
        let (name, params) = split(text);
        let preset = PRESETS.iter().find(|p| p.name == name);
        let mut paths = Vec::new();
        if preset.is_none() {
            paths = name.split('+').map(PathBuf::from).collect();
            if let Some(missing) = paths.iter().find(|p| !p.exists()) {
                return Err(unknown(missing));
            }
        }
        let workload = Self {
            given: Given::parse(preset.unwrap_or(&TRACE), name, params)?,
            paths,
            recording: Arc::default(),
        };
        workload.checked()
    }

    /// Returns the workload with one parameter changed.
    ///
    /// # Errors
    /// If there is no such parameter, or if the value is not accepted.
    pub fn with(mut self, name: &str, value: &str) -> Result<Self, WorkloadError> {
        let called = self.name();
        self.given.set(&called, name, value)?;
        // A different format changes the result of reading.
        self.recording = Arc::default();
        self.checked()
    }

    /// Returns an error if the footprint is `replayed` and the paper does not give it.
    fn checked(self) -> Result<Self, WorkloadError> {
        if self.text("footprint") != REPLAYED || self.replayed().is_some() {
            return Ok(self);
        }
        let unpublished = ParamError::Value {
            called: self.name(),
            param: "footprint",
            expected: "a size, as what the paper's simulator touched of it is not published"
                .to_owned(),
            found: REPLAYED.to_owned(),
        };
        Err(unpublished.into())
    }

    /// Whether the workload has a parameter called `param`.
    #[must_use]
    pub fn has(&self, param: &str) -> bool {
        self.given.has(param)
    }

    /// Whether a value was given for `param`.
    #[must_use]
    pub fn gives(&self, param: &str) -> bool {
        self.given.gives(param)
    }

    /// The name of the preset, or the paths of the traces.
    #[must_use]
    pub fn name(&self) -> String {
        if self.paths.is_empty() {
            return self.given.name().to_owned();
        }
        let paths: Vec<String> = self.paths.iter().map(|p| p.display().to_string()).collect();
        paths.join("+")
    }

    /// Number of threads; `None` for traces, which determine it themselves.
    #[must_use]
    pub fn threads(&self) -> Option<u32> {
        self.has("threads").then(|| self.whole("threads") as u32)
    }

    /// Requested bytes of memory; `None` for traces.
    #[must_use]
    pub fn footprint(&self) -> Option<Bytes> {
        if !self.has("footprint") {
            return None;
        }
        let Some(divisor) = self.divisor() else {
            return self.text("footprint").parse().ok();
        };
        if self.text("footprint") == REPLAYED {
            let bytes = self.replayed()?.0 / divisor;
            return Some(Bytes(bytes.max(MIB)));
        }
        // A workload that is missing in the paper's table takes the middle of its footprints.
        let paper = published(self.given.name()).map_or(9 * GIB, |row| row.footprint.0);
        Some(Bytes(paper / divisor))
    }

    /// Bytes of memory that the workload uses: the requested footprint, or the pages that a trace
    /// touches.
    ///
    /// # Errors
    /// If a trace cannot be read.
    pub fn memory(&self) -> Result<Bytes, WorkloadError> {
        match self.footprint() {
            Some(asked) => Ok(asked),
            None => Ok(self.recording()?.touched()),
        }
    }

    /// Factor by which the scale divides the paper's sizes; `None` if the footprint is given in
    /// bytes or the scale is `auto`.
    #[must_use]
    pub fn divisor(&self) -> Option<u64> {
        if self.has("footprint") && ![SCALE_GIVES, REPLAYED].contains(&self.text("footprint")) {
            return None;
        }
        match self.text("scale") {
            "paper" => Some(1),
            "medium" => Some(16),
            "small" => Some(256),
            _ => None,
        }
    }

    /// Memory that the paper's simulator touched, if published.
    fn replayed(&self) -> Option<Bytes> {
        published(self.given.name())?.replayed
    }

    /// Number of measured instructions of all threads together; `None` for the whole program.
    /// Without a given value it is the paper's number, reduced in the same proportion as the
    /// footprint.
    fn section(&self) -> Option<u64> {
        let given = self.text("section");
        if given == WHOLE {
            return None;
        }
        if given != SCALE_GIVES {
            return given.parse().ok();
        }
        let paper = published(self.given.name())?.footprint.0;
        let here = match self.divisor() {
            Some(divisor) => paper / divisor,
            None => self.footprint()?.0,
        };
        let share = u128::from(SECTION) * u128::from(here) / u128::from(paper);
        Some(share as u64)
    }

    fn text(&self, name: &str) -> &str {
        self.given.text(name)
    }

    fn whole(&self, name: &str) -> u64 {
        self.given.value(name, |text| text.parse().ok())
    }

    fn thousandths(&self, name: &str) -> u64 {
        self.given.value(name, thousandths)
    }

    /// The exponent of Zipf's law; `None` if it is 0.
    fn theta(&self) -> Option<Theta> {
        let theta = self.thousandths("theta");
        (theta > 0).then_some(Theta(theta * 1000))
    }

    /// The given amount, or `otherwise` if it is 0.
    fn amount(&self, name: &str, otherwise: u64) -> u64 {
        match self.whole(name) {
            0 => otherwise.max(1),
            given => given,
        }
    }

    /// Creates the program.
    ///
    /// # Errors
    /// If a trace cannot be read.
    pub fn program(&self, seed: Seed) -> Result<Box<dyn Program>, WorkloadError> {
        let Some(footprint) = self.footprint() else {
            return self.replay();
        };
        let make = || self.kernel(footprint.0, seed);
        Ok(match self.section() {
            Some(instructions) => {
                let pieces = self.whole("pieces") as u32;
                let extent = Extent {
                    instructions,
                    pieces,
                };
                Box::new(Section::new(make, extent))
            }
            None => make(),
        })
    }

    /// The recorded program, for callers that run it several times; `None` for traces and if the
    /// section is too long to record.
    ///
    /// # Errors
    /// See [`Workload::program`].
    pub fn tape(&self, seed: Seed) -> Result<Option<Tape>, WorkloadError> {
        if self.footprint().is_none() || self.section().is_none_or(|section| section > TAPED) {
            return Ok(None);
        }
        Ok(Some(Tape::record(&mut *self.program(seed)?)))
    }

    /// The complete kernel, not restricted to a section.
    fn kernel(&self, footprint: u64, seed: Seed) -> Box<dyn Program> {
        let threads = self.whole("threads") as u32;
        Box::new(match self.given.name() {
            "bfs" => self.bfs(footprint, seed).program(threads),
            "bc" => self.bc(footprint, seed).program(threads),
            "radix" => Radix::new(Radix::keys(footprint), threads, seed).program(),
            "srad" => {
                let (rows, columns) = Srad::shape(footprint);
                let iterations = self.whole("iterations") as u32;
                Srad::new(rows, columns, iterations, seed).program(threads)
            }
            "ycsb" => {
                let letter = Letter::of(self.text("letter")).expect("was checked by its unit");
                let records = Ycsb::records(footprint);
                let ops = self.amount("ops", (8 * records).min(8_000_000));
                Ycsb::new(letter, records, ops, threads, seed).program(threads)
            }
            "tpcc" => {
                let size = Size::of(footprint);
                let customers = size.warehouses * 10 * size.customers;
                let transactions = self.amount("transactions", customers);
                Tpcc::new(size, transactions, seed).program(threads)
            }
            "dlrm" => self.dlrm(footprint, threads, seed).program(),
            "durable" => self.durable(footprint, seed).program(),
            _ => self.synthetic(footprint, seed).program(threads),
        })
    }

    fn durable(&self, footprint: u64, seed: Seed) -> Rc<Durable> {
        let lines = self.whole("lines");
        let asked = Asked {
            footprint,
            lines,
            looks: self.whole("looks"),
            transactions: self.amount("transactions", footprint / 8 / (lines * 64)),
            threads: self.whole("threads") as u32,
        };
        Durable::new(asked, seed)
    }

    /// The part of its memory that must stay on the drive, if any, as first byte and one past the
    /// last.
    #[must_use]
    pub fn pinned(&self) -> Option<(u64, u64)> {
        let footprint = self
            .footprint()
            .filter(|_| self.given.name() == "durable")?;
        Some(self.durable(footprint.0, Seed(0)).kept())
    }

    fn shape(&self) -> Shape {
        match self.text("graph") {
            "kronecker" => Shape::Kronecker,
            _ => Shape::Uniform,
        }
    }

    fn bfs(&self, footprint: u64, seed: Seed) -> std::rc::Rc<Bfs> {
        let degree = self.whole("degree");
        let vertices = Bfs::vertices(footprint, degree);
        let graph = Graph::new(self.shape(), vertices.max(1), degree, seed);
        Bfs::new(graph, self.whole("searches") as u32, seed)
    }

    fn bc(&self, footprint: u64, seed: Seed) -> std::rc::Rc<Bc> {
        let (mut degree, shape) = (self.whole("degree"), self.shape());
        let mut vertices = Bc::vertices(footprint, degree).max(1);
        if shape == Shape::Kronecker {
            vertices = 1 << vertices.ilog2();
            degree = degree.max(Bc::degree(footprint, vertices));
        }
        let graph = Graph::new(shape, vertices, degree, seed);
        Bc::new(graph, self.whole("sources") as u32, seed)
    }

    fn dlrm(&self, footprint: u64, threads: u32, seed: Seed) -> std::rc::Rc<Dlrm> {
        let rows = Dlrm::rows(footprint);
        let twice = 2 * rows / LOOKUPS as u64;
        let samples = self.amount("samples", twice.min(1_000_000));
        let batch = self.whole("batch");
        Dlrm::new(rows, samples, batch, self.theta(), threads, seed)
    }

    fn synthetic(&self, footprint: u64, seed: Seed) -> std::rc::Rc<Synthetic> {
        let pages = footprint / crate::mem::PAGE;
        let numbers = Numbers {
            pages,
            writes_ppm: self.thousandths("writes") * 10,
            misses_ppm: self.thousandths("mpki"),
            lines: self.whole("lines"),
            theta: self.theta(),
            visits: self.amount("visits", (4 * pages).min(4_000_000)),
        };
        Synthetic::new(numbers, seed)
    }

    /// The traces, which are read once for all programs created from them.
    fn recording(&self) -> Result<&Recording, WorkloadError> {
        if let Some(recording) = self.recording.get() {
            return Ok(recording);
        }
        let format: Option<Format> = self.text("format").parse().ok();
        let mut files = Vec::new();
        for path in &self.paths {
            let threads = threads_of(path)?;
            files.extend(threads.iter().map(|path| File::at(path, format)));
        }
        let read = Recording::read(files)?;
        Ok(self.recording.get_or_init(|| read))
    }

    fn replay(&self) -> Result<Box<dyn Program>, WorkloadError> {
        Ok(Box::new(self.recording()?.replay(self.whole("warm"))?))
    }
}

/// Splits `text` into name and parameters. A path may contain colons; parameters contain `=`.
fn split(text: &str) -> (&str, &str) {
    match text.rsplit_once(':') {
        Some((name, params)) if params.contains('=') || params.is_empty() => (name, params),
        _ => (text, ""),
    }
}

fn unknown(missing: &Path) -> WorkloadError {
    let found = missing.display().to_string();
    let names = PRESETS.iter().map(|p| p.name);
    WorkloadError::Name {
        known: names.clone().collect::<Vec<_>>().join(", "),
        hint: did_you_mean(&found, names),
        found,
    }
}
