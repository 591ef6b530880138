//! A workload as it is named on a command line, and the program that it makes.

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

/// A workload of which a program can be made.
#[derive(Clone, Debug)]
pub struct Workload {
    given: Given<Unit>,
    /// Of traces, the paths.
    paths: Vec<PathBuf>,
    /// Results of the first reading of the traces; unset before it.
    recording: Arc<OnceLock<Recording>>,
}

/// Most instructions of a section of which a tape is made; it takes up to 32 bytes for each.
const TAPED: u64 = 8_000_000;

impl PartialEq for Workload {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name() && self.given == other.given
    }
}

/// A workload that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// No preset and no file has this name.
    #[error(
        "expected one of {known}, or a path to a trace of memory accesses, found {found:?}{hint}"
    )]
    Name {
        /// What there is.
        known: String,
        /// What was asked for.
        found: String,
        /// `; did you mean …`, or nothing.
        hint: String,
    },
    /// The workload has no such parameter, or the parameter no such value.
    #[error(transparent)]
    Param(#[from] ParamError),
    /// A trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

impl Workload {
    /// Reads `name:param=value,…`, or the paths of traces joined by `+` in place of the
    /// name.
    ///
    /// # Errors
    /// If there is no such workload, parameter or value.
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

    /// The same workload with one value changed.
    ///
    /// # Errors
    /// If there is no such parameter or value.
    pub fn with(mut self, name: &str, value: &str) -> Result<Self, WorkloadError> {
        let called = self.name();
        self.given.set(&called, name, value)?;
        // With another format something else is read.
        self.recording = Arc::default();
        self.checked()
    }

    /// It, if what the paper's simulator touched is known where that is asked for.
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

    /// Whether it has such a parameter.
    #[must_use]
    pub fn has(&self, param: &str) -> bool {
        self.given.has(param)
    }

    /// Whether a value was given for it.
    #[must_use]
    pub fn gives(&self, param: &str) -> bool {
        self.given.gives(param)
    }

    /// Its name, or the paths of the traces.
    #[must_use]
    pub fn name(&self) -> String {
        if self.paths.is_empty() {
            return self.given.name().to_owned();
        }
        let paths: Vec<String> = self.paths.iter().map(|p| p.display().to_string()).collect();
        paths.join("+")
    }

    /// Threads, if it is made for some number of them.
    #[must_use]
    pub fn threads(&self) -> Option<u32> {
        self.has("threads").then(|| self.whole("threads") as u32)
    }

    /// Bytes of memory that are asked for; of a trace none are.
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
        // What has no row in the paper's table takes the middle of its footprints.
        let paper = published(self.given.name()).map_or(9 * GIB, |row| row.footprint.0);
        Some(Bytes(paper / divisor))
    }

    /// Bytes of memory that it uses: what is asked for, or the pages that a trace touches.
    ///
    /// # Errors
    /// If a trace cannot be read.
    pub fn memory(&self) -> Result<Bytes, WorkloadError> {
        match self.footprint() {
            Some(asked) => Ok(asked),
            None => Ok(self.recording()?.touched()),
        }
    }

    /// Factor by which the scale divides the paper's sizes; `None` if the footprint is given
    /// in bytes.
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

    /// Memory that the paper's simulator touched, if its data say so.
    fn replayed(&self) -> Option<Bytes> {
        published(self.given.name())?.replayed
    }

    /// Instructions that are measured of all threads together, unless it is the whole
    /// program that is: as many of the paper's as the footprint has of the paper's.
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

    /// The exponent of Zipf's law, unless it is 0.
    fn theta(&self) -> Option<Theta> {
        let theta = self.thousandths("theta");
        (theta > 0).then_some(Theta(theta * 1000))
    }

    /// The amount that was given, or what the footprint asks for.
    fn amount(&self, name: &str, otherwise: u64) -> u64 {
        match self.whole(name) {
            0 => otherwise.max(1),
            given => given,
        }
    }

    /// The program.
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

    /// The program on a tape, for whoever runs it several times; none of one that is long.
    ///
    /// # Errors
    /// As [`Workload::program`].
    pub fn tape(&self, seed: Seed) -> Result<Option<Tape>, WorkloadError> {
        if self.footprint().is_none() || self.section().is_none_or(|section| section > TAPED) {
            return Ok(None);
        }
        Ok(Some(Tape::record(&mut *self.program(seed)?)))
    }

    /// The kernel from its beginning to its end.
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

    /// The bytes of its memory that have to stay on the drive, if any do: first and one past
    /// the last.
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

    /// The traces, which are read once for all programs that are made of them.
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

/// The name and the parameters. A path may hold colons; parameters hold an `=`.
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
