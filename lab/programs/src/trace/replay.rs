//! Replays recorded threads as a program.
//!
//! Invariants: the pages touched by any thread are consecutive in the program's memory, in the
//! order of their recorded addresses, so that the tables of a machine are proportional to the
//! touched memory. The pages are found by reading every file once before the program starts. If a
//! file has different contents when it is read again, the run fails: the number of lines or records
//! must be the same, and all pages must be known.
//!
//! All threads wait at a barrier where measurement begins, so that the measured part has the same
//! instructions on every machine, even if the threads arrive there at different times.

use super::{Format, Reader, TraceError};
use crate::mem::{PAGE, Space};
use memsys::{Op, Program};
use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use units::Bytes;

/// Smallest number of operations appended by one call, if that many remain before a barrier.
const BATCH: usize = 512;

/// Largest number of pages in a trace: 256 GiB. This bounds the memory that a file can make this
/// process use.
const PAGES_MAX: usize = 1 << 26;

/// Number of entries in the table of recently found pages.
const LATELY: usize = 1024;

/// The expected contents, for error messages.
const ACCESSES: &str = "accesses to memory";

type Open = Box<dyn Fn() -> std::io::Result<Box<dyn Read + Send>> + Send + Sync>;

/// Trace of one thread, which can be opened several times.
pub struct File {
    name: String,
    format: Option<Format>,
    open: Open,
}

impl File {
    /// The trace file at `path`.
    #[must_use]
    pub fn at(path: &Path, format: Option<Format>) -> Self {
        let name = path.display().to_string();
        let path = path.to_owned();
        let open = move || -> std::io::Result<Box<dyn Read + Send>> {
            Ok(Box::new(std::fs::File::open(&path)?))
        };
        Self::new(&name, format, open)
    }

    /// A trace called `name` that reads its bytes from `open`, which may be called several times.
    pub fn new(
        name: &str,
        format: Option<Format>,
        open: impl Fn() -> std::io::Result<Box<dyn Read + Send>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.to_owned(),
            format,
            open: Box::new(open),
        }
    }

    fn reader(&self) -> Result<Reader, TraceError> {
        let input = (self.open)().map_err(TraceError::unreadable(&self.name, "the file"))?;
        Reader::new(&self.name, input, self.format)
    }
}

/// Recorded threads: their files, and the results of the first reading.
pub struct Recording {
    files: Vec<File>,
    found: Vec<Found>,
    /// Pages touched by any thread, in order. The place of a page is its index.
    pages: Arc<Vec<u64>>,
}

/// A replay of recorded threads.
pub struct Replay {
    threads: Vec<Thread>,
    pages: Pages,
    failure: Option<TraceError>,
}

struct Thread {
    name: String,
    reader: Option<Reader>,
    /// Operations about to be appended. They are kept apart from the caller's operations because a
    /// later step may extend the last one, and the caller may already have executed what it was
    /// given.
    taken: Vec<Op>,
    /// Number of accesses after which measurement begins, unless the trace states it.
    begin: Option<u64>,
    /// Whether a barrier has to be added where measurement begins.
    meets: bool,
    done: u64,
    /// Number of lines or records in the first reading.
    places: u64,
}

impl Thread {
    /// Takes the next operations, up to a barrier; returns whether there are more.
    fn take(&mut self) -> Result<bool, TraceError> {
        self.taken.clear();
        while self.taken.len() < BATCH && self.taken.last() != Some(&Op::Meet) {
            if self.begin.is_some_and(|begin| self.done >= begin) {
                self.begin = None;
                self.taken.push(Op::Begin);
                self.add_meeting();
                continue;
            }
            let Some(reader) = &mut self.reader else {
                return Ok(false);
            };
            let before = self.taken.len();
            let more = reader.step(&mut self.taken)?;
            // Reaching the end takes a step of its own.
            if more == (reader.place >= self.places) {
                return Err(changed(&self.name));
            }
            if !more {
                self.reader = None;
                return Ok(false);
            }
            let taken = &self.taken[before..];
            self.done += taken.iter().filter(|op| is_access(op)).count() as u64;
            self.add_meeting();
        }
        Ok(true)
    }

    /// Adds a barrier after an [`Op::Begin`] that was just taken, if the trace has none there.
    fn add_meeting(&mut self) {
        if self.meets && self.taken.last() == Some(&Op::Begin) {
            self.meets = false;
            self.taken.push(Op::Meet);
        }
    }
}

fn unfit(name: &str, expected: &str, found: &str) -> TraceError {
    TraceError::Unfit {
        name: name.to_owned(),
        expected: expected.to_owned(),
        found: found.to_owned(),
    }
}

fn changed(name: &str) -> TraceError {
    let again = "what was read of it first";
    unfit(name, again, "something else: it has changed meanwhile")
}

impl Recording {
    /// Reads the traces of all threads.
    ///
    /// # Errors
    /// If a trace cannot be read, or if there are no accesses to replay.
    pub fn read(files: Vec<File>) -> Result<Self, TraceError> {
        let mut seen = Seen::default();
        let mut found = Vec::new();
        for file in &files {
            found.push(scan(file, &mut seen)?);
        }
        let accesses: u64 = found.iter().map(|found| found.accesses).sum();
        if let (0, Some(file)) = (accesses, files.first()) {
            return Err(unfit(&file.name, ACCESSES, "none in any thread"));
        }
        let pages = Arc::new(seen.pages.into_iter().collect());
        Ok(Self {
            files,
            found,
            pages,
        })
    }

    /// Total bytes of the touched pages.
    #[must_use]
    pub fn touched(&self) -> Bytes {
        Bytes(self.pages.len() as u64 * PAGE)
    }

    /// Starts a replay of all threads. If a trace does not state where measurement begins, it
    /// begins after `warm` percent of its accesses.
    ///
    /// # Errors
    /// If a file can no longer be opened.
    pub fn replay(&self, warm: u64) -> Result<Replay, TraceError> {
        let mut threads = Vec::new();
        for (file, found) in self.files.iter().zip(&self.found) {
            threads.push(Thread {
                name: file.name.clone(),
                reader: Some(file.reader()?),
                taken: Vec::new(),
                begin: (!found.begins).then_some(found.accesses * warm / 100),
                meets: self.files.len() > 1 && !found.meets,
                done: 0,
                places: found.places,
            });
        }
        Ok(Replay {
            threads,
            pages: Pages {
                sorted: Arc::clone(&self.pages),
                lately: vec![(u64::MAX, 0); LATELY],
            },
            failure: None,
        })
    }
}

impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.files.iter().map(|file| &file.name);
        f.debug_list().entries(names).finish()
    }
}

const fn is_access(op: &Op) -> bool {
    matches!(op, Op::Load { .. } | Op::Store { .. })
}

/// Results of the first reading of a trace.
#[derive(Default)]
struct Found {
    accesses: u64,
    begins: bool,
    /// Whether a barrier follows the beginning of measurement.
    meets: bool,
    /// Number of steps of the reader, including the last one, which reached the end.
    places: u64,
}

fn scan(file: &File, seen: &mut Seen) -> Result<Found, TraceError> {
    let mut reader = file.reader()?;
    let (mut found, mut ops) = (Found::default(), Vec::new());
    let (mut nothing, mut last) = (true, None);
    while reader.step(&mut ops)? {
        for op in ops.drain(..) {
            nothing = false;
            found.accesses += u64::from(is_access(&op));
            found.begins |= op == Op::Begin;
            found.meets |= last.replace(op) == Some(Op::Begin) && op == Op::Meet;
            if let Op::Load { at, .. } | Op::Store { at, .. } | Op::Flush { at } = op
                && !seen.note(at / PAGE)
            {
                return Err(TraceError::Record {
                    name: file.name.clone(),
                    place: format!("record {}", reader.place),
                    expected: format!("at most {PAGES_MAX} pages of 4 KiB in all"),
                });
            }
        }
    }
    if nothing {
        return Err(unfit(&file.name, ACCESSES, "nothing"));
    }
    found.places = reader.place;
    Ok(found)
}

/// The pages found in the first reading.
#[derive(Default)]
struct Seen {
    pages: BTreeSet<u64>,
    /// Recently seen pages, indexed by their low bits.
    lately: Vec<u64>,
}

impl Seen {
    /// Records a page; returns whether the number of pages is within the limit.
    fn note(&mut self, page: u64) -> bool {
        self.lately.resize(LATELY, u64::MAX);
        let slot = &mut self.lately[page as usize % LATELY];
        if *slot != page {
            *slot = page;
            self.pages.insert(page);
        }
        self.pages.len() <= PAGES_MAX
    }
}

/// Maps recorded pages to places in the program's memory.
struct Pages {
    sorted: Arc<Vec<u64>>,
    /// Recently found pages and their places, indexed by the low bits of the page.
    lately: Vec<(u64, u64)>,
}

impl Pages {
    /// Address in the program's memory of a recorded address; `None` if its page is unknown.
    fn place(&mut self, at: u64) -> Option<u64> {
        let page = at / PAGE;
        let slot = &mut self.lately[page as usize % LATELY];
        if slot.0 != page {
            *slot = (page, self.sorted.binary_search(&page).ok()? as u64);
        }
        Some(Space::BASE + slot.1 * PAGE + at % PAGE)
    }

    /// Maps the addresses of all `ops`; returns whether all pages are known.
    fn place_all(&mut self, ops: &mut [Op]) -> bool {
        for op in ops {
            if let Op::Load { at, .. } | Op::Store { at, .. } | Op::Flush { at } = op {
                match self.place(*at) {
                    Some(place) => *at = place,
                    None => return false,
                }
            }
        }
        true
    }
}

impl Program for Replay {
    fn threads(&self) -> u32 {
        self.threads.len() as u32
    }

    fn footprint(&self) -> Bytes {
        // An access that starts in the last page may end in the next.
        Bytes(Space::BASE + (self.pages.sorted.len() as u64 + 1) * PAGE)
    }

    fn next(&mut self, thread: u32, ops: &mut Vec<Op>) -> bool {
        let thread = &mut self.threads[thread as usize];
        let taken = match thread.take() {
            Ok(_) if !self.pages.place_all(&mut thread.taken) => Err(changed(&thread.name)),
            taken => taken,
        };
        match taken {
            Ok(more) => {
                ops.extend_from_slice(&thread.taken);
                more || !thread.taken.is_empty()
            }
            Err(error) => {
                thread.reader = None;
                self.failure.get_or_insert(error);
                false
            }
        }
    }

    fn failure(&self) -> Option<String> {
        self.failure.as_ref().map(ToString::to_string)
    }
}
