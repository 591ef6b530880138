//! The metrics of a run: declared once, read by the tables, the pages and the differences.
//!
//! Invariant: a metric's path is the JSON pointer of the same value in the record's document, so
//! that every shown number can be checked against the document.

use crate::human;
use crate::record::{AtLoad, Extents, Front, LogFacts, Remapped, Run, SwapFacts, TreeFacts};

/// A value as the record holds it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// An exact whole number.
    Count(u64),
    /// A floating-point number; may be NaN or infinite.
    Real(f64),
    /// The record has no such number.
    Absent,
}

impl Value {
    /// The number, if it exists and is finite.
    #[must_use]
    pub fn number(self) -> Option<f64> {
        match self {
            Self::Count(n) => Some(n as f64),
            Self::Real(x) => Some(x).filter(|x| x.is_finite()),
            Self::Absent => None,
        }
    }

    /// The number as the JSON document writes it; `null` where there is none.
    #[must_use]
    pub fn raw(self) -> String {
        match self {
            Self::Count(n) => n.to_string(),
            Self::Real(x) => serde_json::Value::from(x).to_string(),
            Self::Absent => "null".to_owned(),
        }
    }

    /// This value over `base`: 1 if both are 0, `None` if only `base` is 0 or one is absent.
    #[must_use]
    pub fn over(self, base: Self) -> Option<f64> {
        let (a, b) = (self.number()?, base.number()?);
        match (a, b) {
            (0.0, 0.0) => Some(1.0),
            (_, 0.0) => None,
            _ => Some(a / b),
        }
    }
}

/// The unit of a value; decides how it is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A count without unit.
    Count,
    /// A time in nanoseconds.
    Ns,
    /// A time in seconds.
    Seconds,
    /// A size in bytes.
    Bytes,
    /// A rate in bytes per second, printed as MB/s.
    Rate,
    /// A factor without unit.
    Factor,
    /// A share from 0 to 1, printed as a percentage.
    Share,
    /// A time in years, such as drive life.
    Years,
}

impl Unit {
    /// `value` as text for readers, with its unit.
    #[must_use]
    pub fn write(self, value: Value) -> String {
        let Some(x) = value.number() else {
            return human::NOTHING.to_owned();
        };
        match self {
            Self::Count => human::count(x),
            Self::Ns => human::time(x),
            Self::Seconds => human::time(x * 1e9),
            Self::Bytes => human::bytes(x),
            Self::Rate => human::factor(x / 1e6),
            Self::Factor => human::factor(x),
            Self::Share => human::share(x),
            Self::Years => human::years(x),
        }
    }
}

/// The direction in which a metric improves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// More is better, as for throughput.
    More,
    /// Less is better, as for latency.
    Less,
    /// A fact, neither good nor bad.
    Neither,
}

/// The views that show a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In comparisons, with its ratio even where room is short.
    Headline,
    /// In comparisons, with its ratio where there is room.
    Compared,
    /// Only in the details of one run, and in differences.
    Detail,
}

/// The declaration of one number of a run.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// JSON pointer of the value in the record's document.
    pub path: &'static str,
    /// Label of the metric's row, a few words.
    pub label: &'static str,
    /// Unit of the value.
    pub unit: Unit,
    /// Direction in which the metric improves.
    pub better: Better,
    /// Views that show the metric.
    pub place: Place,
    /// Explanation in one sentence.
    pub help: &'static str,
    /// Reads the raw value from a record; [`Metric::value`] filters values that mean nothing.
    pub get: fn(&Run) -> Value,
}

impl Metric {
    /// The run's value. A latency is absent if no request completed, where the record has 0.
    #[must_use]
    pub fn value(&self, run: &Run) -> Value {
        let is_latency = self.path.starts_with("/latency_ns/");
        match is_latency && run.latency_ns.all.count == 0 {
            true => Value::Absent,
            false => (self.get)(run),
        }
    }

    /// The run's value as text for readers, with its unit.
    #[must_use]
    pub fn write(&self, run: &Run) -> String {
        self.unit.write(self.value(run))
    }

    /// The value as tables and pages show it: with an asterisk if it depends on a steady state that
    /// the run has not reached.
    #[must_use]
    pub fn show(&self, run: &Run) -> String {
        let is_marked = run.steady == Some(false)
            && STEADY.contains(&self.path)
            && self.value(run) != Value::Absent;
        self.write(run) + if is_marked { "*" } else { "" }
    }

    /// Whether the same command and seed always give the same value: all but wall time and host
    /// memory.
    #[must_use]
    pub fn is_steady(&self) -> bool {
        !matches!(self.path, "/wall_time_s" | "/peak_rss_bytes")
    }

    /// Whether comparisons show this metric.
    #[must_use]
    pub fn is_compared(&self) -> bool {
        self.place != Place::Detail
    }
}

/// Paths of the metrics that depend on the steady state of garbage collection.
const STEADY: [&str; 11] = [
    "/latency_ns/p99_9",
    "/latency_ns/p99_99",
    "/waf/device",
    "/gc/moved_bytes",
    "/wear/life_host_bytes",
    "/wear/life_years",
    "/at_load/latency_ns/p99_9",
    "/at_load/latency_ns/p99_99",
    "/waf/total",
    "/wear/life_app_bytes",
    "/wear/dwpd",
];

/// Metrics that belong together, under a heading.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// Heading above the metrics.
    pub title: &'static str,
    /// The metrics, in the order of a table.
    pub metrics: &'static [Metric],
    /// The stacks to which the metrics apply.
    pub of: Of,
}

/// The stacks to which a group of metrics applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// Every stack, whatever its parts.
    All,
    /// Stacks with a file system.
    Files,
    /// Stacks on a drive with a byte interface.
    Bytes,
    /// Stacks with a log-structured file system.
    Log,
    /// Stacks with a layer that remaps addresses.
    Remap,
    /// Stacks that also ran at the load of a comparison.
    Load,
    /// Stacks with a mapping in the host.
    Mapped,
}

impl Group {
    /// Whether the group applies to at least one of `runs`.
    #[must_use]
    pub fn applies(&self, runs: &[&Run]) -> bool {
        runs.iter().any(|run| match self.of {
            Of::All => true,
            Of::Files => run.app.is_some(),
            Of::Bytes => run.front.is_some(),
            Of::Log => log_of(run).is_some(),
            Of::Remap => run.remap.is_some(),
            Of::Load => run.loaded().is_some(),
            Of::Mapped => run.host_memory.is_some(),
        })
    }

    /// The metrics of this group that comparisons of `runs` show.
    pub fn compared(&self, runs: &[&Run]) -> impl Iterator<Item = &'static Metric> {
        let shown = self.applies(runs);
        let metrics = self.metrics.iter();
        metrics.filter(move |metric| shown && metric.is_compared())
    }
}

/// Every metric that applies to `runs`, in the order of a table.
pub fn of(runs: &[&Run]) -> impl Iterator<Item = &'static Metric> {
    let groups: Vec<&Group> = GROUPS.iter().filter(|group| group.applies(runs)).collect();
    groups.into_iter().flat_map(|group| group.metrics)
}

/// Every metric, in the order of a table.
pub fn all() -> impl Iterator<Item = &'static Metric> {
    GROUPS.iter().flat_map(|group| group.metrics)
}

use Better::{Less, More, Neither};
use Place::{Compared, Detail, Headline};
use Unit::{Bytes, Count, Factor, Ns, Rate, Seconds, Years};
use Value::{Count as N, Real};

const fn metric(
    (path, label): (&'static str, &'static str),
    unit: Unit,
    better: Better,
    place: Place,
    get: fn(&Run) -> Value,
    help: &'static str,
) -> Metric {
    Metric {
        path,
        label,
        unit,
        better,
        place,
        help,
        get,
    }
}

/// Bytes that the host wrote for `purpose`, by byte and block accesses; absent if it wrote none.
fn written(run: &Run, purpose: &str) -> Value {
    let traffic = run.host.by_purpose.get(purpose);
    traffic.map_or(Value::Absent, |traffic| {
        N(traffic.write.byte + traffic.write.block)
    })
}

/// A counter of the drive's byte interface; absent if the drive has none.
fn front(run: &Run, count: fn(&Front) -> u64) -> Value {
    run.front
        .as_ref()
        .map_or(Value::Absent, |front| N(count(front)))
}

fn log_of(run: &Run) -> Option<&LogFacts> {
    run.file_system.as_ref()?.log.as_ref()
}

fn log(run: &Run, count: fn(&LogFacts) -> u64) -> Value {
    log_of(run).map_or(Value::Absent, |log| N(count(log)))
}

fn swaps(run: &Run, count: fn(&SwapFacts) -> u64) -> Value {
    let swaps = run.file_system.as_ref().and_then(|fs| fs.swaps.as_ref());
    swaps.map_or(Value::Absent, |swaps| N(count(swaps)))
}

fn trees(run: &Run, count: fn(&TreeFacts) -> u64) -> Value {
    let trees = run.file_system.as_ref().and_then(|fs| fs.trees.as_ref());
    trees.map_or(Value::Absent, |trees| N(count(trees)))
}

fn extents(run: &Run, count: fn(&Extents) -> u64) -> Value {
    let extents = run.file_system.as_ref().and_then(|fs| fs.extents.as_ref());
    extents.map_or(Value::Absent, |extents| N(count(extents)))
}

fn loaded(run: &Run, get: fn(&AtLoad) -> Value) -> Value {
    run.loaded().map_or(Value::Absent, get)
}

fn remapped(run: &Run, get: fn(&Remapped) -> Value) -> Value {
    run.remap.as_ref().map_or(Value::Absent, get)
}

/// All metrics, grouped under headings.
#[rustfmt::skip]
pub static GROUPS: &[Group] = &[
    Group { of: Of::All, title: "Speed", metrics: &[
        metric(("/ops_per_s", "operations/s"), Count, More, Headline, |r| Real(r.ops_per_s),
            "Requests completed per second of virtual time."),
        metric(("/ops", "operations"), Count, Neither, Detail, |r| N(r.ops),
            "Requests completed."),
        metric(("/bytes_per_s", "MB/s"), Rate, More, Compared, |r| Real(r.bytes_per_s),
            "Bytes that calls (requests on a raw stack) move per second of virtual time."),
        metric(("/cpu_ns_per_op", "CPU/op"), Ns, Less, Detail, |r| Real(r.cpu_ns_per_op),
            "Time of host processors per completed request."),
    ]},
    Group { of: Of::All, title: "Latency", metrics: &[
        metric(("/latency_ns/mean", "mean"), Ns, Less, Compared, |r| Real(r.latency_ns.all.mean),
            "Arithmetic mean over all requests."),
        metric(("/latency_ns/p50", "p50"), Ns, Less, Compared, |r| N(r.latency_ns.all.p50),
            "Median latency."),
        metric(("/latency_ns/p99", "p99"), Ns, Less, Headline, |r| N(r.latency_ns.all.p99),
            "99th percentile of latency."),
        metric(("/latency_ns/p99_9", "p99.9"), Ns, Less, Compared, |r| N(r.latency_ns.all.p99_9),
            "99.9th percentile of latency."),
        metric(("/latency_ns/p99_99", "p99.99"), Ns, Less, Compared, |r| N(r.latency_ns.all.p99_99),
            "99.99th percentile of latency."),
        metric(("/latency_ns/max", "max"), Ns, Less, Detail, |r| N(r.latency_ns.all.max),
            "Highest latency of a request."),
    ]},
    Group { of: Of::Load, title: "Latency at an even load", metrics: &[
        metric(("/at_load/ops_per_s", "operations/s"), Count, Neither, Compared, |r| loaded(r, |l| Real(l.ops_per_s)),
            "Requests completed per second of virtual time at that load."),
        metric(("/at_load/latency_ns/p50", "p50"), Ns, Less, Compared, |r| loaded(r, |l| N(l.latency_ns.all.p50)),
            "Median latency."),
        metric(("/at_load/latency_ns/p99", "p99"), Ns, Less, Headline, |r| loaded(r, |l| N(l.latency_ns.all.p99)),
            "99th percentile of latency."),
        metric(("/at_load/latency_ns/p99_9", "p99.9"), Ns, Less, Compared, |r| loaded(r, |l| N(l.latency_ns.all.p99_9)),
            "99.9th percentile of latency."),
        metric(("/at_load/latency_ns/p99_99", "p99.99"), Ns, Less, Compared, |r| loaded(r, |l| N(l.latency_ns.all.p99_99)),
            "99.99th percentile of latency."),
    ]},
    Group { of: Of::All, title: "Host interface", metrics: &[
        metric(("/host/read_bytes", "host reads"), Bytes, Neither, Compared, |r| N(r.host.read_bytes),
            "Bytes read by the host."),
        metric(("/host/write_bytes", "host writes"), Bytes, Less, Compared, |r| N(r.host.write_bytes),
            "Bytes written by the host."),
        metric(("/host/byte_read_bytes", "byte-wise reads"), Bytes, Neither, Detail, |r| N(r.host.byte_read_bytes),
            "Bytes read through the byte interface, by cache line."),
        metric(("/host/byte_write_bytes", "byte-wise writes"), Bytes, Neither, Detail, |r| N(r.host.byte_write_bytes),
            "Bytes written through the byte interface, by cache line."),
        metric(("/host/trim_bytes", "host trims"), Bytes, Neither, Detail, |r| N(r.host.trim_bytes),
            "Bytes deallocated by the host."),
        metric(("/host/flushes", "flushes"), Count, Neither, Detail, |r| N(r.host.flushes),
            "Flush commands."),
    ]},
    Group { of: Of::Files, title: "Host writes by purpose", metrics: &[
        metric(("/host/by_purpose/data/write/total", "data"), Bytes, Neither, Compared, |r| written(r, "data"),
            "File contents."),
        metric(("/host/by_purpose/journal/write/total", "journal"), Bytes, Less, Compared, |r| written(r, "journal"),
            "Journal or log of the file system."),
        metric(("/host/by_purpose/superblock/write/total", "superblock"), Bytes, Less, Detail, |r| written(r, "superblock"),
            "Superblock and group descriptors."),
        metric(("/host/by_purpose/inode/write/total", "inodes"), Bytes, Less, Compared, |r| written(r, "inode"),
            "Inode tables, written in place."),
        metric(("/host/by_purpose/directory/write/total", "directories"), Bytes, Less, Compared, |r| written(r, "directory"),
            "Directory entries and indexes, written in place."),
        metric(("/host/by_purpose/bitmap/write/total", "bitmaps"), Bytes, Less, Compared, |r| written(r, "bitmap"),
            "Block and inode bitmaps, written in place."),
        metric(("/host/by_purpose/pointer/write/total", "extents"), Bytes, Less, Compared, |r| written(r, "pointer"),
            "Extent trees and indirect blocks outside inodes, written in place."),
    ]},
    Group { of: Of::Bytes, title: "Byte interface", metrics: &[
        metric(("/front/load_hits", "loads from DRAM"), Count, Neither, Detail, |r| front(r, |f| f.load_hits),
            "64-byte cache lines loaded without a flash read: from the write log, page cache or write buffer, or never written."),
        metric(("/front/load_misses", "… from flash"), Count, Less, Compared, |r| front(r, |f| f.load_misses),
            "64-byte cache lines whose load had to read flash."),
        metric(("/front/stored_lines", "stores"), Count, Neither, Detail, |r| front(r, |f| f.stored_lines),
            "64-byte cache lines stored by the host."),
        metric(("/front/commits", "commits"), Count, Neither, Detail, |r| front(r, |f| f.commits),
            "Transactions committed by the firmware."),
        metric(("/front/cleanings", "log cleanings"), Count, Neither, Detail, |r| front(r, |f| f.cleanings),
            "Passes of log cleaning."),
        metric(("/front/cleaned_pages", "… pages written"), Count, Less, Compared, |r| front(r, |f| f.cleaned_pages),
            "4 KiB pages written by log cleaning."),
        metric(("/front/migrated_lines", "… lines relocated"), Count, Less, Detail, |r| front(r, |f| f.migrated_lines),
            "Uncommitted 64-byte cache lines that cleaning relocated within the log."),
        metric(("/front/fetched_pages", "cache fetches"), Count, Less, Detail, |r| front(r, |f| f.fetched_pages),
            "4 KiB pages loaded into the drive's cache from flash."),
        metric(("/front/evicted_pages", "cache write-back"), Count, Less, Compared, |r| front(r, |f| f.evicted_pages),
            "4 KiB pages written back by the drive's cache."),
        metric(("/front/stall_ns", "waits for the log"), Ns, Less, Compared, |r| front(r, |f| f.stall_ns),
            "Total virtual time that stores and commits waited for log space."),
    ]},
    Group { of: Of::Log, title: "Cleaning by the file system", metrics: &[
        metric(("/file_system/log/foreground/calls", "cleanings, foreground"), Count, Less, Compared, |r| log(r, |l| l.foreground.calls),
            "Sections cleaned in the foreground, while a change waited."),
        metric(("/file_system/log/foreground/moved_bytes", "… moved"), Bytes, Less, Compared, |r| log(r, |l| l.foreground.moved_bytes),
            "Bytes relocated out of those sections."),
        metric(("/file_system/log/background/calls", "cleanings, background"), Count, Less, Compared, |r| log(r, |l| l.background.calls),
            "Sections cleaned in the background."),
        metric(("/file_system/log/background/moved_bytes", "… moved"), Bytes, Less, Compared, |r| log(r, |l| l.background.moved_bytes),
            "Bytes relocated out of those sections."),
        metric(("/file_system/log/metadata/calls", "cleanings, metadata"), Count, Less, Detail, |r| log(r, |l| l.metadata.calls),
            "Zones of metadata tables cleaned."),
        metric(("/file_system/log/metadata/moved_bytes", "… moved"), Bytes, Less, Detail, |r| log(r, |l| l.metadata.moved_bytes),
            "Bytes relocated out of those zones."),
        metric(("/file_system/log/checkpoints", "checkpoints"), Count, Less, Detail, |r| log(r, |l| l.checkpoints),
            "Checkpoints written by the file system."),
        metric(("/file_system/log/memory_bytes", "tables in memory"), Bytes, Less, Detail, |r| log(r, |l| l.memory_bytes),
            "Memory of the file system's tables at the end."),
        metric(("/file_system/extents/pieces", "extents"), Count, Less, Compared, |r| extents(r, |e| e.pieces),
            "Extents of all files at the end, as the file system records them."),
        metric(("/file_system/extents/total", "… merged"), Count, Less, Compared, |r| extents(r, |e| e.total),
            "Extents of all files as filefrag counts them: adjacent extents are merged."),
        metric(("/file_system/extents/most", "… most per file"), Count, Less, Detail, |r| extents(r, |e| e.most),
            "Merged extents of the file that has the most."),
        metric(("/file_system/trees/written/all", "tree nodes written"), Count, Less, Compared, |r| trees(r, |t| t.written.all),
            "Tree nodes of 16 KiB written to new places."),
        metric(("/file_system/trees/handed/all", "nodes journaled"), Count, Less, Compared, |r| trees(r, |t| t.handed.all),
            "Tree nodes whose in-place changes were published, counted per publication."),
        metric(("/file_system/trees/journaled_bytes", "… journal bytes"), Bytes, Less, Compared, |r| trees(r, |t| t.journaled_bytes),
            "Bytes of node changes journaled in persistent memory."),
        metric(("/file_system/trees/written_back", "… nodes written back"), Count, Less, Compared, |r| trees(r, |t| t.written_back),
            "Tree nodes written back in place."),
        metric(("/file_system/swaps/exchanged", "sectors swapped"), Count, Neither, Detail, |r| swaps(r, |s| s.exchanged),
            "4 KiB sectors written to spare places that replaced the old ones by a swap in the mapping."),
        metric(("/file_system/swaps/refused", "… swaps refused"), Count, Less, Detail, |r| swaps(r, |s| s.refused),
            "Batches of sectors copied because the spare sectors ran out."),
        metric(("/file_system/trees/written/logs", "log nodes written"), Count, Less, Detail, |r| trees(r, |t| t.written.logs),
            "Nodes written of the log trees, which hold changes synced since the last commit."),
        metric(("/file_system/trees/written/files", "file nodes written"), Count, Less, Detail, |r| trees(r, |t| t.written.files),
            "Nodes written of the trees of files and directories."),
        metric(("/file_system/trees/written/extents", "extent nodes written"), Count, Less, Detail, |r| trees(r, |t| t.written.extents),
            "Nodes written of the extent tree."),
        metric(("/file_system/trees/written/checksums", "checksum nodes written"), Count, Less, Detail, |r| trees(r, |t| t.written.checksums),
            "Nodes written of the checksum tree."),
        metric(("/file_system/trees/copied/all", "nodes copied"), Count, Less, Detail, |r| trees(r, |t| t.copied.all),
            "Tree nodes copied on write."),
        metric(("/file_system/trees/changed/all", "nodes changed in place"), Count, Less, Detail, |r| trees(r, |t| t.changed.all),
            "Tree nodes changed in place."),
        metric(("/file_system/trees/commits", "commits"), Count, Less, Detail, |r| trees(r, |t| t.commits),
            "Commits of the trees."),
        metric(("/file_system/trees/logged_forces", "fsyncs by log tree"), Count, Neither, Detail, |r| trees(r, |t| t.logged_forces),
            "fsync calls that a log tree answered without a commit."),
        metric(("/file_system/trees/files_levels", "height of the tree of files"), Count, Less, Detail, |r| trees(r, |t| t.files_levels),
            "Levels of the tree of files and directories at the end."),
    ]},
    Group { of: Of::Remap, title: "Remapping", metrics: &[
        metric(("/remap/remapped_sectors", "sectors remapped"), Count, Neither, Compared, |r| remapped(r, |m| N(m.remapped_sectors)),
            "512-byte sectors remapped by writes."),
        metric(("/remap/log_bytes", "log"), Bytes, Less, Compared, |r| remapped(r, |m| N(m.log_bytes)),
            "Bytes of the layer's log."),
        metric(("/remap/log_blocks_per_2mib", "… blocks per 2 MiB"), Factor, Less, Compared, |r| remapped(r, |m| Real(m.log_blocks_per_2mib)),
            "4 KiB log blocks per 2 MiB written."),
        metric(("/remap/paged_bytes", "tables written"), Bytes, Less, Compared, |r| remapped(r, |m| N(m.paged_bytes)),
            "Bytes of mapping tables written, by checkpoints and evictions."),
        metric(("/remap/tables_dropped", "tables dropped"), Count, Less, Compared, |r| remapped(r, |m| N(m.tables_dropped)),
            "Mapping tables evicted from memory."),
        metric(("/remap/tables_read", "tables read"), Count, Less, Detail, |r| remapped(r, |m| N(m.tables_read)),
            "Mapping tables read back."),
        metric(("/remap/checkpoints", "checkpoints"), Count, Less, Detail, |r| remapped(r, |m| N(m.checkpoints)),
            "Checkpoints of the remapping layer."),
        metric(("/remap/moved_bytes", "moved by cleaning"), Bytes, Less, Compared, |r| remapped(r, |m| N(m.moved_bytes)),
            "Bytes that cleaning relocated to make free runs."),
        metric(("/remap/foreground_passes", "… foreground passes"), Count, Less, Compared, |r| remapped(r, |m| N(m.foreground_passes)),
            "Passes of foreground cleaning, with a write waiting."),
        metric(("/remap/background_passes", "… background passes"), Count, Neither, Detail, |r| remapped(r, |m| N(m.background_passes)),
            "Passes of background cleaning, while the layer was idle."),
        metric(("/remap/trimmed_bytes", "trimmed"), Bytes, Neither, Detail, |r| remapped(r, |m| N(m.trimmed_bytes)),
            "Bytes deallocated on the drive by the layer."),
        metric(("/remap/read_splits", "reads split"), Count, Less, Detail, |r| remapped(r, |m| N(m.read_splits)),
            "Extra commands of reads that the layer split."),
        metric(("/remap/write_splits", "writes split"), Count, Less, Detail, |r| remapped(r, |m| N(m.write_splits)),
            "Extra commands of writes that the layer split."),
        metric(("/remap/mapped_bytes", "data mapped"), Bytes, Neither, Detail, |r| remapped(r, |m| N(m.mapped_bytes)),
            "Host bytes mapped at the end."),
        metric(("/remap/table_bytes", "tables in memory"), Bytes, Less, Compared, |r| remapped(r, |m| N(m.table_bytes)),
            "Memory of the mapping tables at the end."),
        metric(("/remap/tree_bytes", "… as ordered trees"), Bytes, Less, Detail, |r| remapped(r, |m| N(m.tree_bytes)),
            "Memory of these tables as ordered trees."),
        metric(("/remap/compact_bytes", "… as compact rows"), Bytes, Less, Detail, |r| remapped(r, |m| N(m.compact_bytes)),
            "Memory of these tables as compact rows."),
        metric(("/remap/physical_bytes", "reverse mapping, memory"), Bytes, Less, Detail, |r| remapped(r, |m| N(m.physical_bytes)),
            "Memory of the reverse mapping, from drive to host addresses."),
        metric(("/remap/recovery_ns", "last mount"), Ns, Less, Detail, |r| remapped(r, |m| N(m.recovery_ns)),
            "Virtual time of the layer's last mount."),
        metric(("/remap/background_errors", "background errors"), Count, Less, Detail, |r| remapped(r, |m| N(m.background_errors)),
            "Errors of background work."),
    ]},
    Group { of: Of::All, title: "NAND", metrics: &[
        metric(("/nand/read_pages", "page reads"), Count, Less, Compared, |r| N(r.nand.read_pages),
            "Pages read from the NAND."),
        metric(("/nand/program_pages", "page programs"), Count, Less, Compared, |r| N(r.nand.program_pages),
            "Pages programmed."),
        metric(("/nand/erase_blocks", "block erases"), Count, Less, Compared, |r| N(r.nand.erase_blocks),
            "Blocks erased."),
    ]},
    Group { of: Of::All, title: "Write amplification", metrics: &[
        metric(("/waf/host", "WAF host"), Factor, Less, Headline, |r| Real(r.waf.host),
            "Bytes written to the drive per byte written by the application."),
        metric(("/waf/device", "WAF device"), Factor, Less, Headline, |r| Real(r.waf.device),
            "Bytes programmed per byte written to the drive."),
        metric(("/waf/total", "WAF total"), Factor, Less, Headline, |r| Real(r.waf.total),
            "Bytes programmed per byte written by the application."),
        metric(("/gc/moved_bytes", "moved by GC"), Bytes, Less, Compared, |r| N(r.gc.moved_bytes),
            "Valid data relocated by garbage collection."),
        metric(("/gc/lines", "GC superblocks"), Count, Neither, Detail, |r| N(r.gc.lines),
            "Superblocks reclaimed by garbage collection."),
        metric(("/gc/foreground_lines", "… in foreground"), Count, Less, Detail, |r| N(r.gc.foreground_lines),
            "Superblocks reclaimed while a host write waited."),
        metric(("/gc/stall_ns", "stalled on GC"), Ns, Less, Detail, |r| N(r.gc.stall_ns),
            "Virtual time that host data waited for free superblocks."),
    ]},
    Group { of: Of::All, title: "Wear", metrics: &[
        metric(("/wear/life_host_bytes", "TBW"), Bytes, More, Headline,
            |r| r.wear.life_host_bytes.map_or(Value::Absent, N),
            "Bytes the host can write at this WAF until the rated cycles are used up."),
        metric(("/wear/life_app_bytes", "TBW program"), Bytes, More, Compared,
            |r| r.wear.life_app_bytes.map_or(Value::Absent, N), "Bytes the application can write at this WAF until the rated cycles are used up."),
        metric(("/wear/dwpd", "DWPD"), Factor, More, Compared, |r| r.wear.dwpd.map_or(Value::Absent, Real),
            "Drive capacities the application can write each day for five years."),
        metric(("/wear/life_years", "drive life"), Years, More, Compared,
            |r| r.wear.life_years.map_or(Value::Absent, Real),
            "Time until the rated cycles are used up at this run's rate of programs."),
        metric(("/wear/mean_erases", "mean erases"), Factor, Less, Detail, |r| Real(r.wear.mean_erases),
            "Mean erase count of the blocks."),
        metric(("/wear/max_erases", "most erases"), Count, Less, Detail, |r| N(r.wear.max_erases),
            "Highest erase count of a block."),
        metric(("/wear/bad_blocks", "bad blocks"), Count, Less, Detail, |r| N(r.wear.bad_blocks),
            "Blocks out of service."),
    ]},
    Group { of: Of::All, title: "Memory of the drive", metrics: &[
        metric(("/drive/dram_bytes", "drive DRAM"), Bytes, Less, Detail, |r| N(r.drive.dram_bytes),
            "DRAM of the drive for mapping, buffers, log and cache."),
    ]},
    Group { of: Of::Mapped, title: "Memory of the host", metrics: &[
        metric(("/host_memory/dram_bytes", "host DRAM"), Bytes, Less, Detail,
            |r| r.host_memory.map_or(Value::Absent, |m| N(m.dram_bytes)),
            "DRAM of the host for the mapping of the drive or of a layer."),
        metric(("/host_memory/persistent_bytes", "… persistent"), Bytes, Less, Detail,
            |r| r.host_memory.map_or(Value::Absent, |m| N(m.persistent_bytes)),
            "Memory of the host that keeps its contents without power."),
    ]},
    Group { of: Of::All, title: "Cost of the run", metrics: &[
        metric(("/sim_time_ns", "simulated time"), Ns, Neither, Compared, |r| N(r.sim_time_ns),
            "Virtual time from the first request to the last completion."),
        metric(("/events", "events"), Count, Neither, Detail, |r| N(r.events),
            "Events of the simulation kernel."),
        metric(("/wall_time_s", "wall time"), Seconds, Neither, Compared, |r| Real(r.wall_time_s),
            "Wall time of the simulation; differs from run to run."),
        metric(("/peak_rss_bytes", "peak memory"), Bytes, Neither, Detail, |r| N(r.peak_rss_bytes),
            "Peak resident memory of the process; differs from run to run."),
    ]},
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_to_nothing_is_no_number() {
        assert_eq!(N(3).over(N(2)), Some(1.5));
        assert_eq!(N(0).over(N(0)), Some(1.0));
        assert_eq!(N(1).over(N(0)), None);
        assert_eq!(N(1).over(Value::Absent), None);
    }

    #[test]
    fn raw_values_are_json() {
        assert_eq!(N(u64::MAX).raw(), "18446744073709551615");
        assert_eq!(Real(1.0).raw(), "1.0");
        assert_eq!(Value::Absent.raw(), "null");
    }
}
