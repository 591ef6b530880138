//! Workloads of files described by text: a preset with parameters, a path to a filebench script or
//! to a trace of file calls, or several of these side by side.
//!
//! Invariant: a [`FileWorkload`] that [`FileWorkload::parse`] returns is either opened or refused
//! with a reason.

use super::ace::Ace;
use super::ageing::Ageing;
use super::anything::Anything;
use super::beside::{self, Beside};
use super::cachebench::CacheBench;
use super::flow::{Flow, OpKind, Program, script};
use super::iozone::{Durable, IoZone};
use super::personality::{self, Calls, Settings};
use super::presets::{CALLS, FILE_PRESETS, SCRIPT};
use super::replay::{self, Replay};
use super::source::Source;
use super::streams::Streams;
use super::tpcc::{self, Tpcc};
use super::trace::FileTrace;
use super::ycsb::bench::Benchmarks;
use super::ycsb::{self, Ycsb};
use crate::describe::spec::Spec;
use crate::describe::unit::{length, lengths, percent, size, speed, theta, time};
use crate::describe::{PRESETS, WorkloadError, existing, unknown};
use crate::generate::Theta;
use input::named::ParamError;
use sim::Seed;
use units::Hint;
use units::Ns;

/// Workload of file calls, ready to be opened.
#[derive(Clone, Debug)]
pub struct FileWorkload {
    /// Text that it was parsed from.
    pub text: String,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Ace(Ace),
    Ageing(Ageing),
    Anything(Anything),
    Beside(Vec<beside::Described>),
    Cache(CacheBench),
    IoZone(IoZone),
    Program(Program),
    Streams(Streams),
    Tpcc(Tpcc),
    Ycsb(Ycsb),
    Trace(String, replay::Options),
}

/// Whether `text` can only be a workload of files: names that also belong to a preset of blocks do
/// not count.
#[must_use]
pub fn asks_for_files(text: &str) -> bool {
    if beside::parts(text).is_some() {
        return true;
    }
    let name = text.split(':').next().unwrap_or_default();
    let path = existing(text).map_or(name, |(path, _)| path);
    let preset = PRESETS.iter().any(|p| p.name == name);
    let file = || script::is_script(path) || FileTrace::is_at(path);
    !preset && (FILE_PRESETS.iter().any(|p| p.name == name) || file())
}

impl FileWorkload {
    /// Parses a workload: `varmail:files=1000,threads=4`, `ycsb-a:engine=btree`,
    /// `mail.f:ops=10000`, `build.flt:think=no`. The name of a preset wins over a file of that
    /// name. Several workloads side by side are `db=ycsb-a & varmail:threads=4`.
    ///
    /// # Errors
    /// One sentence with the expected text and a suggestion, if a known name is similar.
    pub fn parse(text: &str) -> Result<Self, WorkloadError> {
        if let Some(parts) = beside::parts(text) {
            let kind = Kind::Beside(beside::parse(text, &parts)?);
            let text = text.to_owned();
            return Ok(Self { text, kind });
        }
        let (name, params) = text.split_once(':').unwrap_or((text, ""));
        let kind = match FILE_PRESETS.iter().find(|p| p.name == name) {
            Some(preset) => preset_kind(&Spec::parse(preset, name, params)?)?,
            None => Self::at_path(text, name)?,
        };
        // Further faults of a program are found when it is opened and its threads are counted.
        let text = text.to_owned();
        Ok(Self { text, kind })
    }

    fn at_path(text: &str, name: &str) -> Result<Kind, WorkloadError> {
        let blocks = PRESETS.iter().any(|p| p.name == name);
        let Some((path, params)) = existing(text).filter(|_| !blocks) else {
            return Err(match blocks {
                true => WorkloadError::NeedsBlocks {
                    name: name.to_owned(),
                },
                false => unknown(name),
            });
        };
        if FileTrace::is_at(path) {
            let spec = Spec::parse(&CALLS, path, params)?;
            let options = replay::Options {
                pace: pace(&spec),
                order_data: spec.text("order") == "data",
                hints: spec.text("hints") == "yes",
                ops: limit(spec.number("ops")),
            };
            return Ok(Kind::Trace(path.to_owned(), options));
        }
        if !script::is_script(path) {
            return Err(WorkloadError::NeedsBlocks {
                name: path.to_owned(),
            });
        }
        Self::script(path, params).map(Kind::Program)
    }

    fn script(path: &str, params: &str) -> Result<Program, WorkloadError> {
        let spec = Spec::parse(&SCRIPT, path, params)?;
        let mut program = script::read(path)?;
        if let Some(ops) = limit(spec.number("ops")) {
            program.ops = ops;
        }
        if let Some(until) = until(&spec) {
            program.until = Some(until);
        }
        Ok(program)
    }

    /// Opens the source of the workload's calls; its random choices follow `seed`.
    ///
    /// # Errors
    /// If the parameters are inconsistent, or the recording cannot be read.
    pub fn open(&self, seed: Seed) -> Result<Box<dyn Source>, WorkloadError> {
        match &self.kind {
            Kind::Ace(ace) => ace.open().map_err(|problem| self.refused(problem)),
            Kind::Ageing(ageing) => Ok(Box::new(ageing.open(seed))),
            Kind::Anything(anything) => Ok(anything.open(seed)),
            Kind::Beside(members) => Ok(Box::new(Beside::open(members, seed)?)),
            Kind::Cache(cache) => cache.open(seed).map_err(|problem| self.refused(problem)),
            Kind::IoZone(iozone) => Ok(iozone.open(seed)),
            Kind::Program(program) => {
                let flow = Flow::new(program.clone(), seed);
                let flow = flow.map_err(|problem| self.refused(problem))?;
                Ok(Box::new(flow))
            }
            Kind::Trace(path, options) => {
                let trace = FileTrace::open(path)?;
                Ok(Box::new(Replay::new(trace, *options)))
            }
            Kind::Streams(streams) => Ok(streams.open()),
            Kind::Tpcc(tpcc) => tpcc.open(seed).map_err(|problem| self.refused(problem)),
            Kind::Ycsb(ycsb) => ycsb.open(seed).map_err(|problem| self.refused(problem)),
        }
    }

    /// The workloads of a corpus, in groups that begin with one tree; none if this workload
    /// is no corpus. A power-cut exploration runs each of them by itself.
    #[must_use]
    pub fn corpus(&self) -> Option<Vec<Vec<Self>>> {
        let Kind::Ace(ace) = &self.kind else {
            return None;
        };
        let one = |ace: Ace| Self {
            text: format!("ace:seq={},nth={}", ace.seq, ace.nth),
            kind: Kind::Ace(ace),
        };
        let groups = ace.groups()?.into_iter();
        let groups = groups.map(|group| group.into_iter().map(one).collect());
        Some(groups.collect())
    }

    /// Whether it is a recording whose threads pause as they did.
    #[must_use]
    pub fn keeps_pauses(&self) -> bool {
        matches!(&self.kind, Kind::Trace(_, options) if options.pace == replay::Pace::Think)
    }

    /// Number of calls, if the parameters bound it and no time limit applies.
    #[must_use]
    pub fn calls(&self) -> Option<u64> {
        let (ops, until) = match &self.kind {
            Kind::Anything(anything) => (anything.ops, anything.until),
            Kind::Program(program) => (program.ops, program.until),
            _ => return None,
        };
        (ops < u64::MAX && until.is_none()).then_some(ops)
    }

    fn refused(&self, problem: String) -> WorkloadError {
        WorkloadError::Files {
            workload: self.text.clone(),
            problem,
        }
    }
}

/// Translates the parameters of a preset into a workload.
fn preset_kind(spec: &Spec) -> Result<Kind, WorkloadError> {
    if let Some(mix) = ycsb::Mix::named(spec.name()) {
        return Ok(Kind::Ycsb(ycsb_of(spec, mix)));
    }
    if spec.name() == "db-bench" {
        return Ok(Kind::Ycsb(db_bench_of(spec)));
    }
    if spec.name() == "streams" {
        return Ok(Kind::Streams(streams_of(spec)));
    }
    if spec.name() == "iozone" {
        return Ok(Kind::IoZone(iozone_of(spec)));
    }
    if spec.name() == "cachebench" {
        return Ok(Kind::Cache(cachebench_of(spec)));
    }
    if spec.name() == "tpcc" {
        return Ok(Kind::Tpcc(tpcc_of(spec)));
    }
    if spec.name() == "ace" {
        return Ok(Kind::Ace(Ace {
            seq: spec.text("seq").parse().unwrap_or(2),
            every: spec.number("every"),
            from: spec.number("from"),
            nth: spec.number("nth"),
            one: None,
        }));
    }
    if spec.name() == "ageing" {
        return Ok(Kind::Ageing(Ageing {
            size: spec.value("size", length),
            churn: Some(spec.number("churn")),
        }));
    }
    if spec.name() == "anything" {
        return Ok(Kind::Anything(anything_of(spec)));
    }
    let settings = settings(spec)?;
    let s = &settings;
    Ok(Kind::Program(match spec.name() {
        "varmail" => personality::varmail(s),
        "fileserver" => personality::fileserver(s),
        "webproxy" => personality::webproxy(s),
        "webserver" => personality::webserver(s),
        "oltp" => personality::oltp(s),
        "create" => personality::create(s),
        "delete" => personality::delete(s),
        "mkdir" => personality::mkdir(s),
        "rmdir" => personality::rmdir(s),
        _ => accesses(spec, s),
    }))
}

fn settings(spec: &Spec) -> Result<Settings, WorkloadError> {
    let number = |name: &str| spec.has(name).then(|| spec.number(name));
    let bytes = |name: &str| spec.has(name).then(|| spec.value(name, length));
    let dirwidth = spec.number("dirwidth");
    if dirwidth == 1 || dirwidth > 1 << 32 {
        return Err(ParamError::Value {
            called: spec.name().to_owned(),
            param: "dirwidth",
            expected: "0 or a number from 2 to 4294967296".to_owned(),
            found: dirwidth.to_string(),
        }
        .into());
    }
    let fsync = match spec.name() {
        "create" => u64::from(spec.text("fsync") == "yes"),
        _ => number("fsync").unwrap_or(0),
    };
    Ok(Settings {
        files: number("files").unwrap_or(1) as u32,
        threads: spec.number("threads") as u32,
        writers: number("writers").unwrap_or(0) as u32,
        size: bytes("size").unwrap_or(0),
        dirwidth,
        iosize: bytes("append").or(bytes("iosize")).unwrap_or(0),
        fsync,
        ops: spec.number("ops"),
        until: until(spec),
    })
}

fn accesses(spec: &Spec, settings: &Settings) -> Program {
    let name = spec.name();
    let kind = match name {
        "append" => OpKind::AppendFile,
        "randread" => OpKind::Read,
        _ => OpKind::Write,
    };
    let access = Calls {
        kind,
        read: match name {
            "randrw" => spec.value("read", percent),
            _ => 0,
        },
        random: name.starts_with("rand") || spec.has("order") && spec.text("order") == "random",
        direct: spec.text("direct") == "yes",
    };
    personality::accesses(settings, access, &spec.value("bs", lengths))
}

fn ycsb_of(spec: &Spec, mix: ycsb::Mix) -> Ycsb {
    Ycsb {
        mix,
        engine: match spec.text("engine") {
            "btree" => ycsb::Engine::BTree {
                cache: spec.value("cache", length),
                checkpoint: spec.value("checkpoint", length),
            },
            _ => lsm_of(spec),
        },
        records: spec.number("records"),
        value: spec.value("value", length),
        threads: spec.number("threads") as u32,
        ops: spec.number("ops"),
        until: until(spec),
        theta: spec.value("theta", theta),
        sync: spec.text("sync") == "yes",
    }
}

fn lsm_of(spec: &Spec) -> ycsb::Engine {
    ycsb::Engine::Lsm {
        memtable: spec.value("memtable", length),
        table: spec.value("table", length),
        base: spec.value("base", length),
        multiplier: spec.number("multiplier"),
        lifetimes: match spec.text("lifetimes") {
            "tuned" => ycsb::Lifetimes::Tuned,
            "none" => ycsb::Lifetimes::Unsaid,
            _ => ycsb::Lifetimes::Native,
        },
        keep: (spec.text("compaction") == "fifo").then(|| spec.value("keep", length)),
    }
}

fn db_bench_of(spec: &Spec) -> Ycsb {
    Ycsb {
        mix: ycsb::Mix::Bench(spec.value("benchmarks", Benchmarks::parse)),
        engine: lsm_of(spec),
        records: spec.number("records"),
        value: spec.value("value", length),
        threads: spec.number("threads") as u32,
        ops: u64::MAX,
        until: until(spec),
        // No request of `db_bench` is drawn by Zipf's law.
        theta: Theta(1),
        sync: spec.text("sync") == "yes",
    }
}

fn streams_of(spec: &Spec) -> Streams {
    Streams {
        files: spec.number("files") as u32,
        size: spec.value("size", length),
        chunk: spec.value("bs", length),
        direct: spec.text("direct") == "yes",
        life: match spec.text("hint") {
            "short" => Hint::Short,
            "medium" => Hint::Medium,
            "long" => Hint::Long,
            "extreme" => Hint::Extreme,
            _ => Hint::None,
        },
    }
}

fn iozone_of(spec: &Spec) -> IoZone {
    let (bytes, record) = (spec.value("size", length), spec.value("bs", length));
    let whole = bytes.div_ceil(record) * record;
    IoZone {
        size: bytes,
        make: spec.value("make", length),
        record,
        random: spec.text("order") == "random",
        durable: match spec.text("sync") {
            "each" => Durable::Each,
            "end" => Durable::End,
            _ => Durable::No,
        },
        total: limit(spec.value("total", size).0).unwrap_or(whole),
    }
}

fn tpcc_of(spec: &Spec) -> Tpcc {
    Tpcc {
        warehouses: spec.number("warehouses") as u32,
        scale: spec.number("scale"),
        threads: spec.number("threads") as u32,
        cache: spec.value("cache", length),
        log: spec.value("log", length),
        doublewrite: spec.text("doublewrite") == "yes",
        direct: spec.text("flush") == "direct",
        commit: match spec.text("commit") {
            "0" => tpcc::Commit::Later,
            "2" => tpcc::Commit::Written,
            _ => tpcc::Commit::Durable,
        },
        binlog: spec.text("binlog") == "yes",
        io: spec.number("io"),
        ops: spec.number("ops"),
        until: until(spec),
    }
}

fn cachebench_of(spec: &Spec) -> CacheBench {
    let (yes, bytes) = (
        |name| spec.text(name) == "yes",
        |name| spec.value(name, length),
    );
    CacheBench {
        keys: spec.number("keys"),
        theta: spec.value("theta", theta),
        key_sizes: spec.value("key", lengths),
        key_weights: spec.value("key-weights", lengths),
        value_sizes: spec.value("value", lengths),
        value_weights: spec.value("value-weights", lengths),
        gets: spec.value("get", percent),
        sets: spec.value("set", percent),
        lookaside: yes("lookaside"),
        memory: bytes("memory"),
        flash: bytes("flash"),
        small: spec.value("small", percent),
        small_max: bytes("small-max"),
        region: bytes("region"),
        clean: spec.number("clean"),
        lru: spec.text("evict") == "lru",
        admit: spec.value("admit", percent),
        parcels: bytes("parcels"),
        allocate: yes("allocate"),
        threads: spec.number("threads") as u32,
        writers: spec.number("writers") as u32,
        ops: spec.number("ops"),
        until: until(spec),
    }
}

fn anything_of(spec: &Spec) -> Anything {
    Anything {
        files: spec.number("files") as u32,
        threads: spec.number("threads") as u32,
        size: spec.value("size", length),
        room: spec.value("room", size).0,
        ops: spec.number("ops"),
        until: until(spec),
    }
}

/// The pace of a recording's calls.
fn pace(spec: &Spec) -> replay::Pace {
    match (spec.value("speed", speed), spec.text("think")) {
        (0, "yes") => replay::Pace::Think,
        (0, _) => replay::Pace::Peak,
        (speed, _) => replay::Pace::Arrivals(speed),
    }
}

fn limit(ops: u64) -> Option<u64> {
    (ops > 0).then_some(ops)
}

fn until(spec: &Spec) -> Option<Ns> {
    Some(spec.value("time", time)).filter(|time| *time > Ns::ZERO)
}
