//! Recorded threads as a program.
//!
//! Invariants: the pages that any thread touches lie side by side in the program's
//! memory, in the order of their recorded addresses, so that a machine's tables are as
//! large as what was touched; they are found by reading every file once before the
//! program starts, and the second reading gives the same.

use super::{Format, Reader, TraceError};
use crate::mem::{PAGE, Space};
use memsys::{Op, Program};
use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use units::Bytes;

/// Operations that one call hands out at least, if there are so many.
const BATCH: usize = 512;

/// Most pages of a trace: 256 GiB. What a file makes this process hold is bounded by it.
const PAGES_MAX: usize = 1 << 26;

/// Entries of the table of pages found lately.
const LATELY: usize = 1024;

type Open = Box<dyn Fn() -> std::io::Result<Box<dyn Read + Send>>>;

/// One thread's trace: what can be opened twice.
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

    /// What `open` opens, called `name`.
    pub fn new(
        name: &str,
        format: Option<Format>,
        open: impl Fn() -> std::io::Result<Box<dyn Read + Send>> + 'static,
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

/// The files of the threads that MacSim's `trace.txt` lists, or `None` if `text` is no
/// such list: version, number of threads, and for each its number and where it starts.
#[must_use]
pub fn listed(path: &Path, text: &str) -> Option<Vec<PathBuf>> {
    let mut words = text.split_whitespace();
    if words.next()? != "x86" {
        return None;
    }
    let mut words = words.peekable();
    // The version may stand beside the name of the instruction set.
    words.next_if(|word| word.contains('.'));
    let count: usize = words.next()?.parse().ok()?;
    let stem = path.file_stem()?.to_str()?;
    let mut files = Vec::new();
    for _ in 0..count {
        let thread: u32 = words.next()?.parse().ok()?;
        words.next()?;
        files.push(path.with_file_name(format!("{stem}_{thread}.raw")));
    }
    Some(files)
}

/// Threads that were recorded.
pub struct Replay {
    threads: Vec<Thread>,
    pages: Pages,
    failure: Option<TraceError>,
}

struct Thread {
    reader: Option<Reader>,
    /// What is about to be given out. Nobody else sees it while instructions in a row become
    /// one: what was given out may have been executed.
    taken: Vec<Op>,
    /// Accesses after which measuring begins, unless the trace says it itself.
    begin: Option<u64>,
    done: u64,
}

impl Thread {
    /// Takes what comes next, up to a meeting; whether there is more.
    fn take(&mut self) -> Result<bool, TraceError> {
        self.taken.clear();
        let Some(reader) = &mut self.reader else {
            return Ok(false);
        };
        while self.taken.len() < BATCH && self.taken.last() != Some(&Op::Meet) {
            if self.begin.is_some_and(|begin| self.done >= begin) {
                self.begin = None;
                self.taken.push(Op::Begin);
            }
            let before = self.taken.len();
            if !reader.step(&mut self.taken)? {
                self.reader = None;
                return Ok(false);
            }
            let taken = &self.taken[before..];
            self.done += taken.iter().filter(|op| is_access(op)).count() as u64;
        }
        Ok(true)
    }
}

impl Replay {
    /// Opens the traces of some threads and reads them once. Where a trace does not say
    /// when measuring begins, it does after `warm` hundredths of its accesses.
    ///
    /// # Errors
    /// The first that reading meets.
    pub fn open(files: &[File], warm: u64) -> Result<Self, TraceError> {
        let mut pages = Pages::default();
        let mut threads = Vec::new();
        for file in files {
            let found = scan(file, &mut pages)?;
            threads.push(Thread {
                reader: Some(file.reader()?),
                taken: Vec::new(),
                begin: (!found.begins).then_some(found.accesses * warm / 100),
                done: 0,
            });
        }
        pages.settle();
        Ok(Self {
            threads,
            pages,
            failure: None,
        })
    }

    /// What ended a thread that was not at its end. Files that change between the two
    /// readings are the only cause.
    #[must_use]
    pub const fn failure(&self) -> Option<&TraceError> {
        self.failure.as_ref()
    }
}

const fn is_access(op: &Op) -> bool {
    matches!(op, Op::Load { .. } | Op::Store { .. })
}

/// What a first reading finds.
#[derive(Default)]
struct Found {
    accesses: u64,
    begins: bool,
}

fn scan(file: &File, pages: &mut Pages) -> Result<Found, TraceError> {
    let mut reader = file.reader()?;
    let (mut found, mut ops) = (Found::default(), Vec::new());
    while reader.step(&mut ops)? {
        for op in ops.drain(..) {
            found.accesses += u64::from(is_access(&op));
            found.begins |= op == Op::Begin;
            if let Op::Load { at, .. } | Op::Store { at, .. } | Op::Flush { at } = op
                && !pages.note(at / PAGE)
            {
                return Err(TraceError::Record {
                    name: file.name.clone(),
                    place: format!("record {}", reader.place),
                    expected: format!("at most {PAGES_MAX} pages of 4 KiB in all"),
                });
            }
        }
    }
    Ok(found)
}

/// The pages of a trace.
#[derive(Default)]
struct Pages {
    seen: BTreeSet<u64>,
    /// In order; a page's place is its number.
    sorted: Vec<u64>,
    /// Pages found lately and their places, by the low bits.
    lately: Vec<(u64, u64)>,
}

impl Pages {
    /// Notes a page; whether there was room.
    fn note(&mut self, page: u64) -> bool {
        self.lately.resize(LATELY, (u64::MAX, 0));
        let slot = &mut self.lately[page as usize % LATELY];
        if slot.0 != page {
            slot.0 = page;
            self.seen.insert(page);
        }
        self.seen.len() <= PAGES_MAX
    }

    fn settle(&mut self) {
        self.sorted = std::mem::take(&mut self.seen).into_iter().collect();
        self.lately = vec![(u64::MAX, 0); LATELY];
    }

    /// Where a recorded address lies in the program's memory.
    fn place(&mut self, at: u64) -> u64 {
        let page = at / PAGE;
        let slot = &mut self.lately[page as usize % LATELY];
        if slot.0 != page {
            // A page that the first reading did not meet is of a file that changed
            // meanwhile; it is taken for its neighbour.
            let found = self.sorted.binary_search(&page).unwrap_or_else(|near| near);
            *slot = (page, found.min(self.sorted.len().saturating_sub(1)) as u64);
        }
        Space::BASE + slot.1 * PAGE + at % PAGE
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
        let more = thread.take().unwrap_or_else(|error| {
            self.failure.get_or_insert(error);
            thread.reader = None;
            false
        });
        for op in &mut thread.taken {
            if let Op::Load { at, .. } | Op::Store { at, .. } | Op::Flush { at } = op {
                *at = self.pages.place(*at);
            }
        }
        ops.extend_from_slice(&thread.taken);
        more || !thread.taken.is_empty()
    }
}
