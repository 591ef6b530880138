//! The metrics of a run: declared once, read by the tables, the pages and the differences.
//!
//! Invariant: a metric's path is the JSON pointer of the same value in the record's document, so
//! that every shown number can be checked against the document.

use crate::human;
use crate::record::{Extents, Front, LogFacts, Remapped, Run, SwapFacts, TreeFacts};

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
    /// Label of its row, a few words.
    pub label: &'static str,
    /// Unit of the value.
    pub unit: Unit,
    /// Direction in which it improves.
    pub better: Better,
    /// The views that show it.
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
const STEADY: [&str; 6] = [
    "/latency_ns/p99_9",
    "/latency_ns/p99_99",
    "/waf/device",
    "/gc/moved_bytes",
    "/wear/life_host_bytes",
    "/wear/life_years",
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
use Unit::{Bytes, Count, Factor, Ns, Seconds, Years};
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
    ]},
    Group { of: Of::All, title: "Latency", metrics: &[
        metric(("/latency_ns/mean", "mean"), Ns, Less, Compared, |r| Real(r.latency_ns.all.mean),
            "Arithmetic mean over all requests."),
        metric(("/latency_ns/p50", "p50"), Ns, Less, Compared, |r| N(r.latency_ns.all.p50),
            "Half of the requests took no longer."),
        metric(("/latency_ns/p99", "p99"), Ns, Less, Headline, |r| N(r.latency_ns.all.p99),
            "One request in a hundred took longer."),
        metric(("/latency_ns/p99_9", "p99.9"), Ns, Less, Compared, |r| N(r.latency_ns.all.p99_9),
            "One request in a thousand took longer."),
        metric(("/latency_ns/p99_99", "p99.99"), Ns, Less, Compared, |r| N(r.latency_ns.all.p99_99),
            "One request in ten thousand took longer."),
        metric(("/latency_ns/max", "max"), Ns, Less, Detail, |r| N(r.latency_ns.all.max),
            "The slowest request."),
    ]},
    Group { of: Of::All, title: "Host interface", metrics: &[
        metric(("/host/read_bytes", "host reads"), Bytes, Neither, Compared, |r| N(r.host.read_bytes),
            "Bytes that the host read from the drive."),
        metric(("/host/write_bytes", "host writes"), Bytes, Less, Compared, |r| N(r.host.write_bytes),
            "Bytes that the host wrote to the drive."),
        metric(("/host/byte_read_bytes", "read by bytes"), Bytes, Neither, Detail, |r| N(r.host.byte_read_bytes),
            "Of those read, bytes that came line by line."),
        metric(("/host/byte_write_bytes", "written by bytes"), Bytes, Neither, Detail, |r| N(r.host.byte_write_bytes),
            "Of those written, bytes that went line by line."),
        metric(("/host/trim_bytes", "host trims"), Bytes, Neither, Detail, |r| N(r.host.trim_bytes),
            "Bytes that the host deallocated."),
        metric(("/host/flushes", "flushes"), Count, Neither, Detail, |r| N(r.host.flushes),
            "Flush commands."),
    ]},
    Group { of: Of::Files, title: "Host writes by purpose", metrics: &[
        metric(("/host/by_purpose/data/write/total", "data"), Bytes, Neither, Compared, |r| written(r, "data"),
            "Contents of files."),
        metric(("/host/by_purpose/journal/write/total", "journal"), Bytes, Less, Compared, |r| written(r, "journal"),
            "The journal of the file system."),
        metric(("/host/by_purpose/superblock/write/total", "superblock"), Bytes, Less, Detail, |r| written(r, "superblock"),
            "The superblock, and what says how much of a group of blocks is free."),
        metric(("/host/by_purpose/inode/write/total", "inodes"), Bytes, Less, Compared, |r| written(r, "inode"),
            "Inodes, in their place."),
        metric(("/host/by_purpose/directory/write/total", "directories"), Bytes, Less, Compared, |r| written(r, "directory"),
            "Entries of directories and their indexes, in their place."),
        metric(("/host/by_purpose/bitmap/write/total", "bitmaps"), Bytes, Less, Compared, |r| written(r, "bitmap"),
            "What says which blocks and inodes are free, in its place."),
        metric(("/host/by_purpose/pointer/write/total", "extents"), Bytes, Less, Compared, |r| written(r, "pointer"),
            "What leads from a file to its blocks outside the inode, in its place."),
    ]},
    Group { of: Of::Bytes, title: "Memory of the drive", metrics: &[
        metric(("/front/load_hits", "lines loaded"), Count, Neither, Detail, |r| front(r, |f| f.load_hits),
            "Lines of 64 bytes that were loaded from log, cache or write buffer, or that were never written."),
        metric(("/front/load_misses", "… from flash"), Count, Less, Compared, |r| front(r, |f| f.load_misses),
            "Lines of 64 bytes for which the flash was read."),
        metric(("/front/stored_lines", "lines stored"), Count, Neither, Detail, |r| front(r, |f| f.stored_lines),
            "Lines of 64 bytes that the host stored."),
        metric(("/front/commits", "commits"), Count, Neither, Detail, |r| front(r, |f| f.commits),
            "Transactions that the firmware committed."),
        metric(("/front/cleanings", "cleanings"), Count, Neither, Detail, |r| front(r, |f| f.cleanings),
            "Times that the log was cleaned."),
        metric(("/front/cleaned_pages", "pages cleaned"), Count, Less, Compared, |r| front(r, |f| f.cleaned_pages),
            "Pages of 4 KiB that cleaning the log wrote."),
        metric(("/front/migrated_lines", "lines moved"), Count, Less, Detail, |r| front(r, |f| f.migrated_lines),
            "Lines that cleaning moved within the log, as they had not committed."),
        metric(("/front/fetched_pages", "pages fetched"), Count, Less, Detail, |r| front(r, |f| f.fetched_pages),
            "Pages of 4 KiB that came into the drive's cache from flash."),
        metric(("/front/evicted_pages", "pages evicted"), Count, Less, Compared, |r| front(r, |f| f.evicted_pages),
            "Pages of 4 KiB that the drive's cache wrote back."),
        metric(("/front/stall_ns", "waits for the log"), Ns, Less, Compared, |r| front(r, |f| f.stall_ns),
            "Virtual time for which stores and commits waited for room in the log, summed."),
    ]},
    Group { of: Of::Log, title: "Cleaning by the file system", metrics: &[
        metric(("/file_system/log/foreground/calls", "cleaned in foreground"), Count, Less, Compared, |r| log(r, |l| l.foreground.calls),
            "Sections that the file system emptied while a change waited for it."),
        metric(("/file_system/log/foreground/moved_bytes", "… moved"), Bytes, Less, Compared, |r| log(r, |l| l.foreground.moved_bytes),
            "Bytes that were moved out of those sections."),
        metric(("/file_system/log/background/calls", "… in background"), Count, Less, Compared, |r| log(r, |l| l.background.calls),
            "Sections that it emptied while nobody changed anything."),
        metric(("/file_system/log/background/moved_bytes", "… moved"), Bytes, Less, Compared, |r| log(r, |l| l.background.moved_bytes),
            "Bytes that were moved out of those sections."),
        metric(("/file_system/log/metadata/calls", "… zones of tables"), Count, Less, Detail, |r| log(r, |l| l.metadata.calls),
            "Zones with tables that it emptied."),
        metric(("/file_system/log/metadata/moved_bytes", "… moved"), Bytes, Less, Detail, |r| log(r, |l| l.metadata.moved_bytes),
            "Bytes that were moved out of those zones."),
        metric(("/file_system/log/checkpoints", "checkpoints"), Count, Less, Detail, |r| log(r, |l| l.checkpoints),
            "Checkpoints that it wrote."),
        metric(("/file_system/log/memory_bytes", "tables in memory"), Bytes, Less, Detail, |r| log(r, |l| l.memory_bytes),
            "Its tables in memory at the end."),
        metric(("/file_system/extents/pieces", "pieces of files"), Count, Less, Compared, |r| extents(r, |e| e.pieces),
            "Pieces of the drive that its files lie in at the end, as the file system keeps them."),
        metric(("/file_system/extents/total", "… as extents"), Count, Less, Compared, |r| extents(r, |e| e.total),
            "The same as filefrag counts them: two that follow each other are one."),
        metric(("/file_system/extents/most", "… of one file"), Count, Less, Detail, |r| extents(r, |e| e.most),
            "Those of the file that has the most."),
        metric(("/file_system/trees/written/all", "nodes written"), Count, Less, Compared, |r| trees(r, |t| t.written.all),
            "Nodes of trees that it wrote to new places, of 16 KiB."),
        metric(("/file_system/trees/handed/all", "nodes by journal"), Count, Less, Compared, |r| trees(r, |t| t.handed.all),
            "Nodes of which a publication had what is changed in their place, once for each."),
        metric(("/file_system/trees/journaled_bytes", "… bytes of changes"), Bytes, Less, Compared, |r| trees(r, |t| t.journaled_bytes),
            "Bytes of changes of nodes that went to the journal in persistent memory."),
        metric(("/file_system/trees/written_back", "… nodes written back"), Count, Less, Compared, |r| trees(r, |t| t.written_back),
            "Nodes that were written in their places."),
        metric(("/file_system/swaps/exchanged", "sectors exchanged"), Count, Neither, Detail, |r| swaps(r, |s| s.exchanged),
            "Sectors of 4 KiB that took the place of what was there, inside the mapping."),
        metric(("/file_system/swaps/refused", "… refused"), Count, Less, Detail, |r| swaps(r, |s| s.refused),
            "Batches that were copied for lack of spare sectors."),
        metric(("/file_system/trees/written/logs", "… of logs"), Count, Less, Detail, |r| trees(r, |t| t.written.logs),
            "Those of what was forced since a commit."),
        metric(("/file_system/trees/written/files", "… of files"), Count, Less, Detail, |r| trees(r, |t| t.written.files),
            "Those of files and directories."),
        metric(("/file_system/trees/written/extents", "… of extents"), Count, Less, Detail, |r| trees(r, |t| t.written.extents),
            "Those of extents and who refers to them."),
        metric(("/file_system/trees/written/checksums", "… of checksums"), Count, Less, Detail, |r| trees(r, |t| t.written.checksums),
            "Those of sums of contents."),
        metric(("/file_system/trees/copied/all", "nodes copied"), Count, Less, Detail, |r| trees(r, |t| t.copied.all),
            "Nodes of trees that it copied to change them."),
        metric(("/file_system/trees/changed/all", "nodes changed in place"), Count, Less, Detail, |r| trees(r, |t| t.changed.all),
            "Nodes of trees that it changed in their place."),
        metric(("/file_system/trees/commits", "commits"), Count, Less, Detail, |r| trees(r, |t| t.commits),
            "Commits of its trees."),
        metric(("/file_system/trees/logged_forces", "forces by log"), Count, Neither, Detail, |r| trees(r, |t| t.logged_forces),
            "Forces that a log was enough for."),
        metric(("/file_system/trees/files_levels", "levels of the tree of files"), Count, Less, Detail, |r| trees(r, |t| t.files_levels),
            "Levels of the tree of files at the end."),
    ]},
    Group { of: Of::Remap, title: "Remapping", metrics: &[
        metric(("/remap/remapped_sectors", "sectors remapped"), Count, Neither, Compared, |r| remapped(r, |m| N(m.remapped_sectors)),
            "Sectors of 512 bytes that writes were given new addresses for."),
        metric(("/remap/log_bytes", "log"), Bytes, Less, Compared, |r| remapped(r, |m| N(m.log_bytes)),
            "Bytes of the log of the layer."),
        metric(("/remap/log_blocks_per_2mib", "… blocks per 2 MiB"), Factor, Less, Compared, |r| remapped(r, |m| Real(m.log_blocks_per_2mib)),
            "Blocks of 4 KiB of the log for each 2 MiB that were written."),
        metric(("/remap/paged_bytes", "tables written"), Bytes, Less, Compared, |r| remapped(r, |m| N(m.paged_bytes)),
            "Bytes of tables that were written, by checkpoints and to save memory."),
        metric(("/remap/tables_dropped", "tables dropped"), Count, Less, Compared, |r| remapped(r, |m| N(m.tables_dropped)),
            "Tables that were dropped from memory."),
        metric(("/remap/tables_read", "tables read"), Count, Less, Detail, |r| remapped(r, |m| N(m.tables_read)),
            "Tables that were read back."),
        metric(("/remap/checkpoints", "checkpoints"), Count, Less, Detail, |r| remapped(r, |m| N(m.checkpoints)),
            "Checkpoints of the layer."),
        metric(("/remap/moved_bytes", "moved by cleaning"), Bytes, Less, Compared, |r| remapped(r, |m| N(m.moved_bytes)),
            "Bytes that cleaning moved to make runs to append to."),
        metric(("/remap/foreground_passes", "… passes waited for"), Count, Less, Compared, |r| remapped(r, |m| N(m.foreground_passes)),
            "Passes of cleaning that a write waited for."),
        metric(("/remap/background_passes", "… passes at rest"), Count, Neither, Detail, |r| remapped(r, |m| N(m.background_passes)),
            "Passes of cleaning while nobody asked for anything."),
        metric(("/remap/trimmed_bytes", "trimmed"), Bytes, Neither, Detail, |r| remapped(r, |m| N(m.trimmed_bytes)),
            "Bytes that the layer deallocated on the drive."),
        metric(("/remap/read_splits", "reads split"), Count, Less, Detail, |r| remapped(r, |m| N(m.read_splits)),
            "Commands beyond one for each read."),
        metric(("/remap/write_splits", "writes split"), Count, Less, Detail, |r| remapped(r, |m| N(m.write_splits)),
            "Commands beyond one for each write."),
        metric(("/remap/mapped_bytes", "data mapped"), Bytes, Neither, Detail, |r| remapped(r, |m| N(m.mapped_bytes)),
            "Bytes of the host that lead anywhere at the end."),
        metric(("/remap/table_bytes", "tables in memory"), Bytes, Less, Compared, |r| remapped(r, |m| N(m.table_bytes)),
            "Memory of the tables at the end, as they are kept."),
        metric(("/remap/tree_bytes", "… as trees"), Bytes, Less, Detail, |r| remapped(r, |m| N(m.tree_bytes)),
            "The same tables, were they kept as ordered trees."),
        metric(("/remap/compact_bytes", "… as rows"), Bytes, Less, Detail, |r| remapped(r, |m| N(m.compact_bytes)),
            "The same tables, were they kept as compact rows."),
        metric(("/remap/physical_bytes", "physical side in memory"), Bytes, Less, Detail, |r| remapped(r, |m| N(m.physical_bytes)),
            "Memory of what leads from the drive back to the host's addresses."),
        metric(("/remap/recovery_ns", "last mount"), Ns, Less, Detail, |r| remapped(r, |m| N(m.recovery_ns)),
            "Virtual time that the last mount of the layer took."),
        metric(("/remap/background_errors", "background errors"), Count, Less, Detail, |r| remapped(r, |m| N(m.background_errors)),
            "Errors of work that nobody waited for."),
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
            "Bytes written to the drive over bytes that the application wrote."),
        metric(("/waf/device", "WAF device"), Factor, Less, Headline, |r| Real(r.waf.device),
            "Bytes programmed over bytes written to the drive."),
        metric(("/gc/moved_bytes", "moved by GC"), Bytes, Less, Compared, |r| N(r.gc.moved_bytes),
            "Valid data that garbage collection copied."),
        metric(("/gc/lines", "lines reclaimed"), Count, Neither, Detail, |r| N(r.gc.lines),
            "Lines that garbage collection reclaimed."),
        metric(("/gc/foreground_lines", "… in foreground"), Count, Less, Detail, |r| N(r.gc.foreground_lines),
            "Of those, lines reclaimed while a host write waited."),
        metric(("/gc/stall_ns", "stalled on GC"), Ns, Less, Detail, |r| N(r.gc.stall_ns),
            "Virtual time during which data of the host waited for free lines."),
    ]},
    Group { of: Of::All, title: "Wear", metrics: &[
        metric(("/wear/life_host_bytes", "rated writes"), Bytes, More, Headline,
            |r| r.wear.life_host_bytes.map_or(Value::Absent, N),
            "Bytes that the host can write, at this WAF, until the rated cycles are used up."),
        metric(("/wear/life_years", "drive life"), Years, More, Compared,
            |r| r.wear.life_years.map_or(Value::Absent, Real),
            "Years until the rated cycles are used up at this run's rate of programs."),
        metric(("/wear/mean_erases", "mean erases"), Factor, Less, Detail, |r| Real(r.wear.mean_erases),
            "Mean erases of a block over its life so far."),
        metric(("/wear/max_erases", "most erases"), Count, Less, Detail, |r| N(r.wear.max_erases),
            "Most erases of a block."),
        metric(("/wear/bad_blocks", "bad blocks"), Count, Less, Detail, |r| N(r.wear.bad_blocks),
            "Blocks out of service."),
    ]},
    Group { of: Of::All, title: "Cost of the run", metrics: &[
        metric(("/sim_time_ns", "simulated time"), Ns, Neither, Compared, |r| N(r.sim_time_ns),
            "Virtual time from the first request to the last completion."),
        metric(("/events", "events"), Count, Neither, Detail, |r| N(r.events),
            "Events that the kernel ran."),
        metric(("/wall_time_s", "wall time"), Seconds, Neither, Compared, |r| Real(r.wall_time_s),
            "Time that the simulation took. Differs from run to run."),
        metric(("/peak_rss_bytes", "peak memory"), Bytes, Neither, Detail, |r| N(r.peak_rss_bytes),
            "Peak resident memory of the process. Differs from run to run."),
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
