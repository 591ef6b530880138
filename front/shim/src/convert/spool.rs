//! The records of a spool, merged over all threads in the order of time.
//!
//! A record's time is the start of its call, except for calls that return a descriptor or an
//! address: their time is the end of the call, as the number may still have been in use when the
//! call started.
//!
//! A log holds the records of a signal handler before the record of the call that the handler
//! interrupted, although that call started earlier. The handler's records are held back until that
//! record is read, up to a limit.

use super::ConvertError;
use crate::wire::{Chunk, Head, Info, Op, Record};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Maximum number of records held back: a program that jumps out of its handlers leaves interrupted
/// calls that never get a record.
const HELD: usize = 1 << 16;

/// A record that owns its strings.
#[derive(Clone, Debug)]
pub(super) struct Said {
    pub(super) head: Head,
    pub(super) infos: [Option<Info>; 2],
    pub(super) s1: Vec<u8>,
    pub(super) s2: Vec<u8>,
    /// Process ID of the caller.
    pub(super) pid: u32,
    /// Thread ID of the caller.
    pub(super) tid: u32,
}

impl Said {
    /// The time by which records are ordered, in ns of the monotonic clock.
    fn time(&self) -> u64 {
        match self.head.op {
            Op::Open | Op::Dup | Op::Map | Op::Remap => self.head.end,
            _ => self.head.start,
        }
    }
}

/// The log of a thread: a sequence of chunks, of which one is in memory.
struct Log {
    pid: u32,
    tid: u32,
    chunks: Vec<PathBuf>,
    bytes: Vec<u8>,
    at: usize,
    /// Time of the last record taken, in ns; later records are queued no earlier than this.
    last: u64,
    /// Records that are held back, by time and position in the log.
    held: BTreeMap<(u64, u64), Said>,
    /// Records that were held back so far; the next position.
    count: u64,
    /// Whether the held records wait for the record of a call that they interrupted.
    waits: bool,
}

impl Log {
    /// The next record of this log in the order of time.
    fn next(&mut self) -> Result<Option<Said>, ConvertError> {
        while self.held.is_empty() || (self.waits && self.held.len() < HELD) {
            let Some(said) = self.read()? else { break };
            self.waits = said.head.within > 0;
            if !self.waits && self.held.is_empty() {
                return Ok(Some(said));
            }
            self.count += 1;
            self.held.insert((said.time(), self.count), said);
        }
        Ok(self.held.pop_first().map(|(_, said)| said))
    }

    /// The next complete record; skips unfinished ones, and loads the next chunk at the end of one.
    fn read(&mut self) -> Result<Option<Said>, ConvertError> {
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            if let Some((record, size)) = Record::read(rest) {
                self.at += size;
                if record.head.op != Op::Nothing {
                    return Ok(Some(self.own(&record)));
                }
            } else if let Some(path) = self.chunks.pop() {
                self.bytes.clear();
                fs::File::open(path)?.read_to_end(&mut self.bytes)?;
                self.at = Chunk::SIZE;
            } else {
                return Ok(None);
            }
        }
    }

    fn own(&self, record: &Record<'_>) -> Said {
        Said {
            head: record.head,
            infos: record.infos,
            s1: record.s1.to_vec(),
            s2: record.s2.to_vec(),
            pid: self.pid,
            tid: self.tid,
        }
    }
}

/// The records of all logs, merged.
pub(super) struct Merged {
    logs: Vec<Log>,
    /// The next record of each log; `None` once a log is exhausted.
    ready: Vec<Option<Said>>,
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    /// Number of logs of each process that are not exhausted.
    left: BTreeMap<u32, usize>,
}

impl Merged {
    /// Opens every log in the folders `spool`.
    pub(super) fn open(spool: &[&Path]) -> Result<Self, ConvertError> {
        let mut chunks = BTreeMap::new();
        let folders: Result<Vec<_>, _> = spool.iter().map(fs::read_dir).collect();
        for entry in folders?.into_iter().flatten() {
            let path = entry?.path();
            if let Some(chunk) = head(&path)? {
                let log = (chunk.image, chunk.pid, chunk.tid);
                chunks
                    .entry(log)
                    .or_insert_with(Vec::new)
                    .push((chunk.index, path));
            }
        }
        let mut merged = Self {
            logs: Vec::new(),
            ready: Vec::new(),
            heap: BinaryHeap::new(),
            left: BTreeMap::new(),
        };
        for ((_, pid, tid), mut found) in chunks {
            // The next chunk is the last of the vector.
            found.sort_unstable_by_key(|(index, _)| Reverse(*index));
            merged.add(pid, tid, found.into_iter().map(|(_, path)| path).collect())?;
        }
        if merged.logs.is_empty() {
            return Err(ConvertError::Nothing);
        }
        Ok(merged)
    }

    fn add(&mut self, pid: u32, tid: u32, chunks: Vec<PathBuf>) -> Result<(), ConvertError> {
        let index = self.logs.len();
        self.logs.push(Log {
            pid,
            tid,
            chunks,
            bytes: Vec::new(),
            at: 0,
            last: 0,
            held: BTreeMap::new(),
            count: 0,
            waits: false,
        });
        self.ready.push(None);
        *self.left.entry(pid).or_insert(0) += 1;
        self.fill(index)
    }

    fn fill(&mut self, index: usize) -> Result<(), ConvertError> {
        let log = &mut self.logs[index];
        match log.next()? {
            Some(said) => {
                log.last = log.last.max(said.time());
                self.heap.push(Reverse((log.last, index)));
                self.ready[index] = Some(said);
            }
            None => *self.left.entry(log.pid).or_insert(1) -= 1,
        }
        Ok(())
    }

    /// The next record, and whether it is the last of its process.
    pub(super) fn next(&mut self) -> Result<Option<(Said, bool)>, ConvertError> {
        let Some(Reverse((_, index))) = self.heap.pop() else {
            return Ok(None);
        };
        let said = self.ready[index].take();
        self.fill(index)?;
        Ok(said.map(|said| {
            let last = self.left.get(&said.pid) == Some(&0);
            (said, last)
        }))
    }
}

fn head(path: &Path) -> Result<Option<Chunk>, ConvertError> {
    let mut bytes = Vec::new();
    let mut file = fs::File::open(path)?;
    file.by_ref()
        .take(Chunk::SIZE as u64)
        .read_to_end(&mut bytes)?;
    Ok(Chunk::read(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    /// Writes a chunk of records, each given by operation, start, end, and the number of calls it
    /// interrupted.
    fn log(spool: &TempDir, tid: u32, index: u32, records: &[(Op, u64, u64, u32)]) {
        let chunk = Chunk {
            pid: 1,
            tid,
            image: 2,
            index,
        };
        let mut bytes = chunk.bytes().to_vec();
        for &(op, start, end, within) in records {
            let mut head = Head::on(op, 5);
            (head.start, head.end, head.within) = (start, end, within);
            bytes.extend(head.bytes(op));
        }
        let name = format!("{tid}.{index}");
        fs::write(spool.path().join(name), bytes).unwrap();
    }

    fn order(spool: &TempDir) -> Vec<(u32, Op, u64)> {
        let mut merged = Merged::open(&[spool.path()]).unwrap();
        let next = || merged.next().unwrap();
        std::iter::from_fn(next)
            .map(|(said, _)| (said.tid, said.head.op, said.head.start))
            .collect()
    }

    #[test]
    fn interrupted_call_is_ordered_before_the_records_of_its_handler() {
        let spool = TempDir::new().unwrap();
        // Another thread was given descriptor 5 while `close` of it was still running.
        log(
            &spool,
            1,
            0,
            &[(Op::Write, 10, 11, 1), (Op::Close, 5, 12, 0)],
        );
        log(&spool, 2, 1, &[(Op::Open, 6, 7, 0)]);
        let expected = [(1, Op::Close, 5), (2, Op::Open, 6), (1, Op::Write, 10)];
        assert_eq!(order(&spool), expected);
    }

    #[test]
    fn nested_handlers_are_ordered_by_start_time() {
        let spool = TempDir::new().unwrap();
        let nested = [
            (Op::Fsync, 1, 2, 0),
            (Op::Read, 30, 31, 2),
            (Op::Write, 20, 40, 1),
            (Op::Seek, 50, 51, 1),
            (Op::Close, 10, 60, 0),
            (Op::Fsync, 70, 71, 0),
        ];
        log(&spool, 1, 0, &nested[..2]);
        log(&spool, 1, 3, &nested[2..]);
        let times: Vec<_> = order(&spool).iter().map(|record| record.2).collect();
        assert_eq!(times, [1, 10, 20, 30, 50, 70]);
    }

    #[test]
    fn records_of_interrupted_calls_without_an_end_are_released_at_the_limit() {
        let spool = TempDir::new().unwrap();
        let alone: Vec<_> = (1..=HELD as u64 + 10)
            .map(|at| (Op::Fsync, at, at, 1))
            .collect();
        log(&spool, 1, 0, &alone);
        let times: Vec<_> = order(&spool).iter().map(|record| record.2).collect();
        assert!(times.iter().copied().eq(1..=HELD as u64 + 10));
    }
}
