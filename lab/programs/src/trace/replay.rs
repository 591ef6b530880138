//! Recorded threads as a program.
//!
//! Invariants: the pages that any thread touches lie side by side in the program's
//! memory, in the order of their recorded addresses, so that a machine's tables are as
//! large as what was touched; they are found by reading every file once before any
//! program starts. A file that gives something else when it is read again ends the run:
//! as many lines or records are asked for, on pages that are known.
//!
//! All threads meet where measuring begins, so that the measured part is the same
//! instructions on every machine, however unevenly the threads have come there.

use super::{Format, Reader, TraceError};
use crate::mem::{PAGE, Space};
use memsys::{Op, Program};
use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use units::Bytes;

/// Operations that one call hands out at least, if there are so many.
const BATCH: usize = 512;

/// Most pages of a trace: 256 GiB. What a file makes this process hold is bounded by it.
const PAGES_MAX: usize = 1 << 26;

/// Entries of the table of pages found lately.
const LATELY: usize = 1024;

/// Description of the expected contents, for error messages.
const ACCESSES: &str = "accesses to memory";

type Open = Box<dyn Fn() -> std::io::Result<Box<dyn Read + Send>> + Send + Sync>;

/// One thread's trace: what can be opened several times.
pub struct File {
    name: String,
    format: Option<Format>,
    open: Open,
}

impl File {
    /// The file at `path`.
    #[must_use]
    pub fn at(path: &Path, format: Option<Format>) -> Self {
        let name = path.display().to_string();
        let path = path.to_owned();
        let open = move || -> std::io::Result<Box<dyn Read + Send>> {
            Ok(Box::new(std::fs::File::open(&path)?))
        };
        Self::new(&name, format, open)
    }

    /// A trace called `name` whose bytes `open` yields; it may be opened several times.
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

/// Threads that were recorded: their files, and what a first reading of them found.
pub struct Recording {
    files: Vec<File>,
    found: Vec<Found>,
    /// The pages that any touches, in order; a page's place is its number.
    pages: Arc<Vec<u64>>,
}

/// Threads that were recorded, as they run once more.
pub struct Replay {
    threads: Vec<Thread>,
    pages: Pages,
    failure: Option<TraceError>,
}

struct Thread {
    name: String,
    reader: Option<Reader>,
    /// What is about to be given out. Nobody else sees it while instructions in a row become
    /// one: what was given out may have been executed.
    taken: Vec<Op>,
    /// Accesses after which measuring begins, unless the trace says it itself.
    begin: Option<u64>,
    /// Whether a meeting has to be added where measuring begins.
    meets: bool,
    done: u64,
    /// Lines or records of the first reading.
    places: u64,
}

impl Thread {
    /// Takes what comes next, up to a meeting; whether there is more.
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
            // The end takes a step of its own.
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

    /// Lets all threads meet behind a beginning that was taken last, if the trace does not.
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
    /// Reads the traces of some threads.
    ///
    /// # Errors
    /// The first that reading meets, or that there is nothing to replay.
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

    /// Bytes of the pages that it touches.
    #[must_use]
    pub fn touched(&self) -> Bytes {
        Bytes(self.pages.len() as u64 * PAGE)
    }

    /// The threads from their beginning. Where a trace does not say when measuring begins,
    /// it does after `warm` hundredths of its accesses.
    ///
    /// # Errors
    /// If a file cannot be opened any more.
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
    /// Whether a meeting follows where measuring begins.
    meets: bool,
    /// Steps of the reader, the last of which met the end.
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

/// The pages that a first reading meets.
#[derive(Default)]
struct Seen {
    pages: BTreeSet<u64>,
    /// Recently seen pages, by their low bits.
    lately: Vec<u64>,
}

impl Seen {
    /// Notes a page; whether there was room.
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

/// Mapping of recorded pages to places in the program's memory.
struct Pages {
    sorted: Arc<Vec<u64>>,
    /// Pages found lately and their places, by the low bits.
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

    /// The same for all of `ops`; whether all are known.
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
