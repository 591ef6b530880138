//! The text of a job file for an experiment.
//!
//! Amounts are cut: the published runs take minutes to days.

use super::rows::{Document, Experiment, Job, Of, Word};
use ssd::DriveConfig;
use std::collections::BTreeMap;
use std::fmt::Write;
use units::{Bytes, GIB};

/// Requests of a job that runs alone, over all its clones.
const REQUESTS: u64 = 40_000;
/// Bytes of a job that runs alone, over all its clones.
const BYTES: u64 = 2 * GIB;
/// Requests in flight of a job whose source names no depth, as makers rate their drives: clones and
/// depth of each, for small and for large requests, and for requests in order, whose clones would
/// all begin at the first sector.
const RATED: [(u64, u64); 2] = [(4, 64), (4, 32)];
const RATED_IN_ORDER: (u64, u64) = (1, 128);
/// Bytes per second of all jobs with shares of the bytes: a rate that any drive keeps up with.
const SHARED: f64 = 200e6;
/// Capacities written under a uniform load, which an aged drive starts with, and under others.
const WINDOWS: [f64; 2] = [2.1, 4.1];

/// Zones of a region at most: a run that is cut writes two.
const REGION: u64 = 3;
/// Zones of a drive at least.
const ZONES_LEAST: u64 = 16;

/// Options that change nothing here: the engine keeps to one zone per job by itself, and has no
/// scheduler.
const WITHOUT_EFFECT: [&str; 4] = ["name", "job_max_open_zones", "ioscheduler", "share"];

/// The jobs of an experiment, for a drive that is `factor` of the real size.
pub(super) struct Text<'a> {
    pub(super) document: &'a Document,
    pub(super) experiment: &'a Experiment,
    pub(super) config: &'a DriveConfig,
    pub(super) factor: f64,
}

impl Text<'_> {
    /// Whether the experiment is about writes until collection is steady.
    pub(super) fn is_endurance(&self) -> bool {
        let wears = |what: &str| ["waf", "dwpd", "tbw"].contains(&what);
        let values = &self.experiment.values;
        self.experiment.kind == "amplification"
            || (self.experiment.kind == "datasheet" && values.iter().any(|v| wears(&v.what)))
    }

    /// The text of the job file.
    ///
    /// # Errors
    /// The reason why the jobs cannot run.
    pub(super) fn made(&self) -> Result<String, String> {
        let jobs = self.experiment.job.all();
        if jobs.is_empty() {
            return Err("the source names no job".to_owned());
        }
        if self.experiment.zones.is_some() {
            return Err("a drive without zones that is written by zones is no job of fio".into());
        }
        let mut text = String::new();
        for job in jobs {
            let name = job
                .get("name")
                .map_or_else(|| "job".into(), Word::to_string);
            let _ = writeln!(text, "[{name}]\nfilename=/dev/drive\nnorandommap=1");
            self.options(job, &mut text)?;
            self.amount(job, jobs.len() > 1, &mut text)?;
        }
        Ok(text)
    }

    fn options(&self, job: &Job, text: &mut String) -> Result<(), String> {
        if job.contains_key("do") {
            return Err("zone commands beside requests are no job of fio".to_owned());
        }
        if !job.contains_key("bs") && !job.contains_key("bsrange") {
            return Err("the source names no block size".to_owned());
        }
        let zoned = self.config.zones.is_some();
        let rw = self.rw(job);
        if zoned && rw.starts_with("rand") && rw != "randread" {
            return Err("random writes to zones are no job of the engine".to_owned());
        }
        let _ = writeln!(text, "rw={rw}");
        for (name, word) in job {
            let value = word.to_string();
            let value = match name.as_str() {
                "rw" | "norandommap" | "iodepth" => continue,
                name if WITHOUT_EFFECT.contains(&name) => continue,
                "size" | "offset" | "offset_increment" if zoned => continue,
                "size" | "offset" | "offset_increment" => self.place(&value)?,
                "rate_iops" => split_rate(job, &value)?,
                "fdp_pli" => {
                    text.push_str("dataplacement=fdp\n");
                    value
                }
                _ => value,
            };
            let _ = writeln!(text, "{name}={value}");
        }
        if zoned {
            self.region(job, text);
        }
        let (clones, depth) = self.depth(job);
        if !job.contains_key("numjobs") && clones > 1 {
            let _ = writeln!(text, "numjobs={clones}");
        }
        let _ = writeln!(text, "iodepth={depth}");
        Ok(())
    }

    /// Adds the zones of a job: regions of different offsets are beside each other.
    fn region(&self, job: &Job, text: &mut String) {
        let zone = self.config.zones.map_or(0, |zones| zones.capacity.0);
        let (offset, _, len) = self.zones_of(job);
        let before = self.regions().into_iter().filter(|(at, _)| *at < offset);
        let base: u64 = before.map(|(_, zones)| zones).sum();
        let _ = writeln!(
            text,
            "size={}\noffset={}\noffset_increment={}",
            len * zone,
            base * zone,
            len * zone
        );
    }

    /// The published offset of a job in zones, its clones, and the zones that each of them gets.
    fn zones_of(&self, job: &Job) -> (u64, u64, u64) {
        let zones = |name: &str| {
            let word = job.get(name)?.to_string();
            word.strip_suffix('z')?.parse::<u64>().ok()
        };
        let len = zones("size").unwrap_or(REGION).clamp(1, REGION);
        (zones("offset").unwrap_or(0), self.depth(job).0, len)
    }

    /// Zones at each offset of the jobs.
    fn regions(&self) -> BTreeMap<u64, u64> {
        let mut regions: BTreeMap<u64, u64> = BTreeMap::new();
        for job in self.experiment.job.all() {
            let (offset, clones, len) = self.zones_of(job);
            let zones = regions.entry(offset).or_default();
            *zones = (*zones).max(clones * len);
        }
        regions
    }

    /// The zoned drive with as many zones as the jobs use.
    pub(super) fn with_fewer_zones(&self) -> DriveConfig {
        let mut config = self.config.clone();
        let Some(zones) = config.zones else {
            return config;
        };
        let capacity = zones.capacity.0;
        let all = config.capacity.0 / capacity;
        let used: u64 = self.regions().values().sum();
        let used = used.max(ZONES_LEAST).min(all);
        let fewer = u32::try_from(all - used).unwrap_or(0);
        config.capacity = Bytes(used * capacity);
        config.geometry.blocks_per_plane -= fewer;
        config
    }

    /// Order of the requests; a mix of reads alone is a job of reads.
    fn rw(&self, job: &Job) -> String {
        let rw = job.get("rw").map_or_else(|| "read".into(), Word::to_string);
        match (rw.as_str(), job.get("rwmixread")) {
            ("randrw", Some(Word::Whole(100))) => "randread".to_owned(),
            _ => rw,
        }
    }

    /// Clones and depth of a job.
    fn depth(&self, job: &Job) -> (u64, u64) {
        let clones = clones(job);
        match job.get("iodepth") {
            _ if self.experiment.host.as_deref() == Some("psync") => (clones, 1),
            Some(Word::Whole(depth)) => (clones, *depth),
            _ if self.experiment.kind != "datasheet" => (clones, 1),
            _ if !self.rw(job).starts_with("rand") => RATED_IN_ORDER,
            _ => RATED[usize::from(block(job) > 16 << 10)],
        }
    }

    /// A size or an offset on the scaled drive.
    fn place(&self, value: &str) -> Result<String, String> {
        if value.ends_with('%') {
            return Ok(value.to_owned());
        }
        let bytes = bytes(value).ok_or_else(|| format!("the size {value:?} has no meaning"))?;
        Ok(((bytes as f64 * self.factor) as u64 / (1 << 20) * (1 << 20)).to_string())
    }

    fn amount(&self, job: &Job, several: bool, text: &mut String) -> Result<(), String> {
        let clones = self.depth(job).0;
        if self.is_endurance() {
            return self.endurance(job, several, text);
        }
        if several {
            text.push_str("runtime=1\ntime_based=1\nramp_time=100ms\n");
            return Ok(());
        }
        let depth = self.depth(job).1;
        let most = REQUESTS.min(BYTES / block(job).max(512));
        let each = (most / clones).max(64).max(4 * depth);
        let _ = writeln!(text, "number_ios={each}\nramp_time=10ms");
        Ok(())
    }

    fn endurance(&self, job: &Job, several: bool, text: &mut String) -> Result<(), String> {
        let is_uniform = !several && !job.contains_key("random_distribution");
        let windows = WINDOWS[usize::from(!is_uniform)];
        let bytes = self.config.capacity.0 as f64 * windows;
        if !several {
            let each = (bytes / self.depth(job).0 as f64) as u64 / (1 << 20) * (1 << 20);
            let _ = writeln!(text, "io_size={each}");
            return Ok(());
        }
        let Some(Word::Share(share)) = job.get("share") else {
            return Err("the source names no shares of the jobs".to_owned());
        };
        let rate = (share * SHARED) as u64;
        let seconds = (bytes / SHARED).ceil();
        let _ = writeln!(text, "rate={rate}\nruntime={seconds}\ntime_based=1");
        Ok(())
    }

    /// The direction of a value that names none.
    pub(super) fn direction(&self, of: Option<Of>) -> Option<Of> {
        of.or_else(|| {
            let jobs = self.experiment.job.all();
            let reads = jobs.iter().any(|job| self.rw(job).ends_with("read"));
            let others = jobs.iter().any(|job| !self.rw(job).ends_with("read"));
            match (reads, others) {
                (true, false) => Some(Of::Read),
                (false, true) => Some(Of::Write),
                _ => None,
            }
        })
    }

    /// A sentence on the host of the experiment that the model has not.
    pub(super) fn is_polled(&self) -> bool {
        self.experiment.host.as_deref() == Some("spdk")
    }

    /// The drive's name and the kind of the experiment.
    pub(super) fn name(&self) -> String {
        format!("{} {}", self.document.drive, self.experiment.kind)
    }
}

fn clones(job: &Job) -> u64 {
    match job.get("numjobs") {
        Some(Word::Whole(clones)) => (*clones).max(1),
        _ => 1,
    }
}

/// Bytes of a request.
fn block(job: &Job) -> u64 {
    let words = job.get("bs").or_else(|| job.get("bsrange"));
    let words = words.map(Word::to_string).unwrap_or_default();
    bytes(words.split('-').next_back().unwrap_or_default()).unwrap_or(4096)
}

/// A size in fio's notation.
fn bytes(text: &str) -> Option<u64> {
    let text = text.to_ascii_lowercase();
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let number: u64 = text[..end].parse().ok()?;
    let shift = match &text[end..] {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    number.checked_mul(1 << shift)
}

/// Rates of reads and writes of a job whose rate counts both.
fn split_rate(job: &Job, value: &str) -> Result<String, String> {
    let share = |name: &str| match job.get(name) {
        Some(Word::Whole(percent)) => Some((*percent).min(100)),
        _ => None,
    };
    let reads = share("rwmixread").or_else(|| share("rwmixwrite").map(|writes| 100 - writes));
    let (Some(reads), Ok(rate)) = (reads, value.parse::<u64>()) else {
        return Ok(value.to_owned());
    };
    let rates = [reads, 100 - reads].map(|percent| rate * percent / 100);
    match rates.contains(&0) {
        true => Err(format!("a rate of {value} is too low to be divided")),
        false => Ok(format!("{},{}", rates[0], rates[1])),
    }
}
