//! Summary of a trace of file calls.

use super::super::{Call, Event, Fd, FieldSink, Name, Names, Thread};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Totals of a trace. Times are in nanoseconds, amounts in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FileSummary {
    /// Number of calls.
    pub calls: u64,
    /// Number of calls that failed.
    pub failed: u64,
    /// Nanoseconds from the start of the recording to the end of the last call.
    pub duration_ns: u64,
    /// Time in calls, summed over threads, in nanoseconds.
    pub in_calls_ns: u64,
    /// Time between calls, summed over threads, in nanoseconds.
    pub think_ns: u64,
    /// Number of processes.
    pub processes: u64,
    /// Number of threads.
    pub threads: u64,
    /// Number of distinct paths in calls.
    pub paths: u64,
    /// Opens that succeeded.
    pub opens: u64,
    /// Bytes read, including loads through mappings.
    pub read_bytes: u64,
    /// Bytes written, including stores through mappings.
    pub write_bytes: u64,
    /// Calls that make a file or a file system durable.
    pub syncs: u64,
    /// Totals of each kind of call, the most frequent first.
    pub kinds: Vec<KindSummary>,
    /// Files with the most bytes moved, in descending order, at most [`Summarizer::FILES`].
    pub files: Vec<FileUse>,
}

/// Totals of one kind of call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KindSummary {
    /// Name of the kind.
    pub call: &'static str,
    /// Number of calls.
    pub calls: u64,
    /// Number of calls that failed.
    pub failed: u64,
    /// Bytes moved by these calls.
    pub bytes: u64,
    /// Time in these calls, in nanoseconds.
    pub in_calls_ns: u64,
}

/// Totals of the file at one path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileUse {
    /// Path by which it was opened; bytes that are not UTF-8 are replaced.
    pub path: String,
    /// Number of opens.
    pub opens: u64,
    /// Bytes read from the file.
    pub read_bytes: u64,
    /// Bytes written to the file.
    pub write_bytes: u64,
    /// Number of syncs of the file.
    pub syncs: u64,
}

/// Counter of events, fed one by one.
#[derive(Default)]
pub struct Summarizer {
    sum: FileSummary,
    kinds: BTreeMap<u8, KindSummary>,
    paths: BTreeSet<Name>,
    files: BTreeMap<Name, Use>,
    slots: BTreeMap<u32, Name>,
}

#[derive(Clone, Copy, Default)]
struct Use {
    opens: u64,
    read: u64,
    written: u64,
    syncs: u64,
}

impl Summarizer {
    /// Upper bound on the files that a summary lists.
    pub const FILES: usize = 10;

    /// Counts one event.
    pub fn add(&mut self, event: &Event) {
        let call = event.step.call;
        let moved = moved(event);
        self.sum.calls += 1;
        self.sum.failed += u64::from(event.result.is_err());
        self.sum.duration_ns = self.sum.duration_ns.max(event.end().0);
        add(&mut self.sum.in_calls_ns, event.took.0);
        add(&mut self.sum.think_ns, event.step.think.0);
        add(&mut self.sum.read_bytes, moved.read);
        add(&mut self.sum.write_bytes, moved.written);
        self.sum.syncs += moved.syncs;
        self.paths.extend(path(&call));
        self.kind(event, moved);
        self.file(event, moved);
    }

    fn kind(&mut self, event: &Event, moved: Use) {
        let call = event.step.call;
        let kind = self.kinds.entry(call.number()).or_insert(KindSummary {
            call: call.name(),
            calls: 0,
            failed: 0,
            bytes: 0,
            in_calls_ns: 0,
        });
        kind.calls += 1;
        kind.failed += u64::from(event.result.is_err());
        add(&mut kind.bytes, moved.read.max(moved.written));
        add(&mut kind.in_calls_ns, event.took.0);
    }

    fn file(&mut self, event: &Event, moved: Use) {
        match event.step.call {
            Call::Open { fd, path, .. } if event.result.is_ok() => {
                self.sum.opens += 1;
                self.slots.insert(fd.0, path);
                self.files.entry(path).or_default().opens += 1;
            }
            Call::CopyRange { from, to, .. } => {
                self.count(
                    from.0,
                    Use {
                        written: 0,
                        ..moved
                    },
                );
                self.count(to.0, Use { read: 0, ..moved });
            }
            call => {
                if let Some(fd) = slot(&call) {
                    self.count(fd, moved);
                }
            }
        }
    }

    fn count(&mut self, slot: u32, moved: Use) {
        let Some(path) = self.slots.get(&slot) else {
            return;
        };
        let file = self.files.entry(*path).or_default();
        add(&mut file.read, moved.read);
        add(&mut file.written, moved.written);
        file.syncs += moved.syncs;
    }

    /// Returns the totals; `threads` and `names` are those of the trace.
    #[must_use]
    pub fn finish(mut self, threads: &[Thread], names: &Names) -> FileSummary {
        let processes: BTreeSet<_> = threads.iter().map(|thread| thread.process).collect();
        self.sum.processes = processes.len() as u64;
        self.sum.threads = threads.len() as u64;
        self.sum.paths = self.paths.len() as u64;
        self.sum.kinds = self.kinds.into_values().collect();
        self.sum
            .kinds
            .sort_by_key(|kind| std::cmp::Reverse(kind.calls));
        let mut files: Vec<_> = self.files.into_iter().collect();
        files.sort_by_key(|(_, file)| std::cmp::Reverse(file.read.saturating_add(file.written)));
        files.truncate(Self::FILES);
        let files = files.into_iter().map(|(path, file)| FileUse {
            path: String::from_utf8_lossy(names.bytes(path)).into_owned(),
            opens: file.opens,
            read_bytes: file.read,
            write_bytes: file.written,
            syncs: file.syncs,
        });
        self.sum.files = files.collect();
        self.sum
    }
}

/// Adds to a sum that saturates, whatever a hostile trace contains.
fn add(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}

/// Bytes that an event moved, and whether it made something durable.
fn moved(event: &Event) -> Use {
    let bytes = event.result.unwrap_or(0);
    let mut used = Use::default();
    match event.step.call {
        Call::Read { .. } | Call::Pread { .. } => used.read = bytes,
        Call::Write { .. } | Call::Pwrite { .. } => used.written = bytes,
        Call::Load { len, .. } => used.read = len,
        Call::Store { len, .. } => used.written = len,
        Call::CopyRange { .. } => (used.read, used.written) = (bytes, bytes),
        Call::Fsync { .. }
        | Call::Fdatasync { .. }
        | Call::SyncFs { .. }
        | Call::Sync {}
        | Call::Msync { .. }
        | Call::SyncRange { .. } => used.syncs = 1,
        _ => {}
    }
    used
}

/// Slot whose bytes `call` moves or makes durable.
fn slot(call: &Call) -> Option<u32> {
    match *call {
        Call::Read { fd, .. }
        | Call::Write { fd, .. }
        | Call::Pread { fd, .. }
        | Call::Pwrite { fd, .. }
        | Call::Load { fd, .. }
        | Call::Store { fd, .. }
        | Call::Fsync { fd }
        | Call::Fdatasync { fd }
        | Call::SyncFs { fd }
        | Call::SyncRange { fd, .. }
        | Call::Msync { fd, .. } => Some(fd.0),
        _ => None,
    }
}

/// Paths among the fields of `call`.
fn path(call: &Call) -> impl Iterator<Item = Name> + use<> {
    let mut paths = Paths::default();
    call.put(&mut paths);
    paths.found.into_iter().flatten()
}

#[derive(Default)]
struct Paths {
    found: [Option<Name>; 2],
}

impl FieldSink for Paths {
    fn fd(&mut self, _: &'static str, _: Fd) {}

    fn name(&mut self, key: &'static str, name: Name) {
        match key {
            "path" | "from" => self.found[0] = Some(name),
            "to" => self.found[1] = Some(name),
            _ => {}
        }
    }

    fn number(&mut self, _: &'static str, _: u64) {}
    fn word(&mut self, _: &'static str, _: usize, _: &'static [&'static str]) {}
    fn bits(&mut self, _: &'static str, _: u32, _: &'static [&'static str]) {}
}
