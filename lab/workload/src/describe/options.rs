//! The options of one fio job.
//!
//! Every option is honoured, accepted with a note because it changes nothing on a simulated drive,
//! or refused.

use super::unit::{OPS_MAX, part, percent, size, sizes, theta};
use crate::generate::{Arrivals, Limit, Order, Part, Sizes, Synthetic, Theta};
use crate::request::Op;
use units::did_you_mean;
use units::{Bytes, Ns, SECTOR};

/// Options of one job.
#[derive(Clone, Debug)]
pub(super) struct Options {
    /// Value of `filename`, if it is set.
    pub(super) file: Option<String>,
    access: Access,
    sizes: Sizes,
    pub(super) size: Part,
    io_size: Option<Bytes>,
    number_ios: u64,
    pub(super) offset: Part,
    pub(super) iodepth: u32,
    pub(super) numjobs: u32,
    read_percent: u64,
    distribution: Option<Theta>,
    repeat: bool,
    random_percent: u64,
    pub(super) rate: u64,
    poisson: bool,
    pub(super) think: Ns,
    flush_every: u64,
    pub(super) seed: u64,
    pub(super) runtime: Option<Ns>,
    pub(super) time_based: bool,
    pub(super) stonewall: bool,
}

/// The value of `rw`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Access {
    random: bool,
    mixed: bool,
    reads: bool,
    otherwise: Op,
}

impl Default for Options {
    /// fio's own defaults.
    fn default() -> Self {
        Self {
            file: None,
            access: access("read").expect("it is one of the words"),
            sizes: Sizes::one(Bytes(4096)).expect("it is a multiple of a sector"),
            size: Part::Percent(100),
            io_size: None,
            number_ios: u64::MAX,
            offset: Part::Bytes(Bytes(0)),
            iodepth: 1,
            numjobs: 1,
            read_percent: 50,
            distribution: None,
            repeat: false,
            random_percent: 100,
            rate: 0,
            poisson: false,
            think: Ns::ZERO,
            flush_every: 0,
            seed: 0,
            runtime: None,
            time_based: false,
            stonewall: false,
        }
    }
}

/// Options that are honoured, from which misspelled ones get a suggestion.
const HONOURED: [&str; 27] = [
    "rw",
    "readwrite",
    "bs",
    "blocksize",
    "bssplit",
    "size",
    "io_size",
    "number_ios",
    "offset",
    "iodepth",
    "numjobs",
    "rwmixread",
    "rwmixwrite",
    "random_distribution",
    "norandommap",
    "percentage_random",
    "rate_iops",
    "rate_process",
    "thinktime",
    "fsync",
    "fdatasync",
    "randseed",
    "runtime",
    "timeout",
    "time_based",
    "stonewall",
    "wait_for_previous",
];

/// Options that change nothing on a simulated drive.
const IGNORED: [&str; 44] = [
    "name",
    "description",
    "ioengine",
    "direct",
    "filename",
    "filename_format",
    "directory",
    "group_reporting",
    "thread",
    "invalidate",
    "fallocate",
    "randrepeat",
    "allrandrepeat",
    "refill_buffers",
    "scramble_buffers",
    "gtod_reduce",
    "clocksource",
    "cpus_allowed",
    "cpus_allowed_policy",
    "numa_cpu_nodes",
    "numa_mem_policy",
    "nice",
    "prio",
    "prioclass",
    "iodepth_batch",
    "iodepth_batch_submit",
    "iodepth_batch_complete",
    "iodepth_batch_complete_min",
    "iodepth_batch_complete_max",
    "iodepth_low",
    "sqthread_poll",
    "hipri",
    "fixedbufs",
    "registerfiles",
    "create_on_open",
    "create_serialize",
    "overwrite",
    "unlink",
    "eta",
    "log_avg_msec",
    "write_bw_log",
    "write_lat_log",
    "write_iops_log",
    "exitall",
];

/// Outcome of setting an option.
pub(super) enum Set {
    Honoured,
    Ignored,
}

impl Options {
    /// Sets one option. The error is the expected text.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<Set, String> {
        if name == "filename" {
            self.file = Some(file(value)?);
        }
        if IGNORED.contains(&name) {
            return Ok(Set::Ignored);
        }
        let known = self.place(name, value)?
            || self.amount(name, value)?
            || self.order(name, value)?
            || self.pace(name, value)?;
        if known {
            return Ok(Set::Honoured);
        }
        let hint = did_you_mean(name, HONOURED);
        Err(format!("an option of fio that flashloom supports{hint}"))
    }

    fn place(&mut self, name: &str, value: &str) -> Result<bool, String> {
        match name {
            "rw" | "readwrite" => self.access = read(access(value), RW)?,
            "bs" | "blocksize" | "bssplit" => self.sizes = read(sizes(&binary(value)), SIZES)?,
            "size" => self.size = read(part(&binary(value)), PART)?,
            "offset" => self.offset = read(part(&binary(value)), PART)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn amount(&mut self, name: &str, value: &str) -> Result<bool, String> {
        match name {
            "io_size" => {
                let bytes = size(&binary(value)).filter(|b| b.0 / SECTOR <= OPS_MAX);
                self.io_size = Some(read(bytes, "a size up to 44 TiB such as 1g")?);
            }
            "number_ios" => self.number_ios = count(value)?,
            "iodepth" => self.iodepth = small(value)?,
            "numjobs" => self.numjobs = small(value)?,
            "fsync" | "fdatasync" => self.flush_every = read(value.parse().ok(), NUMBER)?,
            "runtime" | "timeout" => self.runtime = Some(read(span(value, "s"), TIME)?),
            "time_based" => self.time_based = flag(value)?,
            "stonewall" | "wait_for_previous" => self.stonewall = flag(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn order(&mut self, name: &str, value: &str) -> Result<bool, String> {
        match name {
            "rwmixread" => self.read_percent = read(percent(value), PERCENT)?,
            "rwmixwrite" => self.read_percent = 100 - read(percent(value), PERCENT)?,
            "random_distribution" => {
                self.distribution = read(distribution(value), "random or zipf:0.99")?;
            }
            "norandommap" => self.repeat = flag(value)?,
            "percentage_random" => self.random_percent = read(percent(value), PERCENT)?,
            "randseed" => self.seed = read(value.parse().ok(), NUMBER)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn pace(&mut self, name: &str, value: &str) -> Result<bool, String> {
        match name {
            "rate_iops" => self.rate = read(rate(value), "requests per second such as 20k")?,
            "rate_process" => self.poisson = read(process(value), "linear or poisson")?,
            "thinktime" => self.think = read(span(value, "us"), TIME)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The generator of this job, whose requests have the origin `label`.
    pub(super) fn synthetic(&self, label: &str) -> Synthetic {
        Synthetic {
            label: label.to_owned(),
            order: self.in_order(),
            random_percent: self.random_percent,
            read_percent: match self.access {
                Access { mixed: true, .. } => self.read_percent,
                Access { reads: true, .. } => 100,
                _ => 0,
            },
            otherwise: self.access.otherwise,
            sizes: self.sizes.clone(),
            offset: self.offset,
            span: self.size,
            limit: self.limit(),
            flush_every: self.flush_every,
            arrivals: self.arrivals(),
        }
    }

    fn in_order(&self) -> Order {
        match self.distribution {
            _ if !self.access.random => Order::Sequential,
            Some(theta) => Order::Zipf(theta),
            None if self.repeat => Order::Uniform,
            None => Order::Permuted,
        }
    }

    fn limit(&self) -> Limit {
        match self.time_based {
            true => Limit::NONE,
            false => Limit {
                ops: self.number_ios,
                bytes: self.io_size.map_or(self.size, Part::Bytes),
            },
        }
    }

    /// Names of the options in which this job differs from `other` and that would set the two apart
    /// in pace.
    pub(super) fn differences(&self, other: &Self) -> Vec<&'static str> {
        let amount = |of: &Self| (of.size, of.io_size, of.number_ios);
        let order = |of: &Self| (of.in_order(), of.random_percent);
        let access = |of: &Self| (of.access, of.access.mixed.then_some(of.read_percent));
        let all = [
            ("iodepth", self.iodepth != other.iodepth),
            ("rw", access(self) != access(other)),
            ("bs", self.sizes != other.sizes),
            ("size", amount(self) != amount(other)),
            ("order", order(self) != order(other)),
            ("fsync", self.flush_every != other.flush_every),
            ("time_based", self.time_based != other.time_based),
        ];
        let differing = all.into_iter().filter(|(_, differs)| *differs);
        differing.map(|(name, _)| name).collect()
    }

    const fn arrivals(&self) -> Arrivals {
        let per_second = self.rate;
        match (per_second, self.poisson) {
            (0, _) => Arrivals::Closed,
            (_, true) => Arrivals::Poisson { per_second },
            (_, false) => Arrivals::Fixed { per_second },
        }
    }
}

const RW: &str = "read, write, randread, randwrite, rw, randrw, trim or randtrim";
const SIZES: &str = "multiples of 512 up to 256m, alike for reads and writes, \
                     such as 4k or 4k/60:64k/40";
const PART: &str = "a size such as 1g or a percentage such as 50%";
const PERCENT: &str = "a percentage from 0 to 100";
const NUMBER: &str = "a whole number";
const COUNT: &str =
    "a number from 1 to 100000000000 (the largest takes more than a day to simulate)";
const TIME: &str = "a time such as 10, 500us or 30s";

fn read<T>(value: Option<T>, what: &str) -> Result<T, String> {
    value.ok_or_else(|| what.to_owned())
}

fn access(word: &str) -> Option<Access> {
    let (random, kind) = match word.strip_prefix("rand") {
        Some(kind) => (true, kind),
        None => (false, word),
    };
    let mixed = kind == "rw" || word == "readwrite";
    let otherwise = if kind == "trim" { Op::Trim } else { Op::Write };
    let known = mixed || ["read", "write", "trim"].contains(&kind);
    known.then_some(Access {
        random,
        mixed,
        reads: kind == "read",
        otherwise,
    })
}

/// `value` without the letters `b` and `ib` of its sizes: fio reads every suffix as binary.
fn binary(value: &str) -> String {
    let lower = value.to_ascii_lowercase();
    lower.replace("ib", "").replace('b', "")
}

/// The name of one file; fio takes an unescaped colon as the separator of several files, which are
/// refused.
fn file(value: &str) -> Result<String, String> {
    let several = value.replace("\\:", "").contains(':');
    let one = (!several).then(|| value.to_owned());
    read(one, "one file or device, on which all jobs are")
}

fn count(value: &str) -> Result<u64, String> {
    let number = value.parse().ok().filter(|n| (1..=OPS_MAX).contains(n));
    read(number, COUNT)
}

fn small(value: &str) -> Result<u32, String> {
    let number = value.parse().ok().filter(|n| (1..=1024).contains(n));
    read(number, "a number from 1 to 1024")
}

/// Reads a flag; an empty value sets it.
fn flag(value: &str) -> Result<bool, String> {
    match value {
        "" | "1" => Ok(true),
        "0" => Ok(false),
        _ => Err("0 or 1".to_owned()),
    }
}

/// Reads a time; a bare number is in `unit`s.
fn span(value: &str, unit: &str) -> Option<Ns> {
    let bare = value.bytes().all(|b| b.is_ascii_digit());
    let text = if bare {
        format!("{value}{unit}")
    } else {
        value.to_owned()
    };
    text.parse().ok()
}

fn rate(value: &str) -> Option<u64> {
    let (digits, scale) = match value.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1_000),
        None => (value, 1),
    };
    let rate = digits.parse::<u64>().ok()?.checked_mul(scale)?;
    (1..=1_000_000_000).contains(&rate).then_some(rate)
}

fn process(value: &str) -> Option<bool> {
    match value {
        "linear" => Some(false),
        "poisson" => Some(true),
        _ => None,
    }
}

/// Reads `random_distribution`: `Some(None)` for uniform, `Some(Some(theta))` for Zipf.
fn distribution(value: &str) -> Option<Option<Theta>> {
    match value.split_once(':') {
        None if value == "random" => Some(None),
        Some(("zipf", exponent)) => theta(exponent).map(Some),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_fio_reads_them() {
        let mut options = Options::default();
        for (name, value) in [
            ("rw", "randrw"),
            ("rwmixwrite", "30"),
            ("bs", "8KiB"),
            ("size", "1GB"),
            ("io_size", "16m"),
            ("rate_iops", "2k"),
            ("rate_process", "poisson"),
            ("thinktime", "5"),
            ("random_distribution", "zipf:1.2"),
            ("fsync", "32"),
        ] {
            assert!(
                matches!(options.set(name, value), Ok(Set::Honoured)),
                "{name}"
            );
        }
        let made = options.synthetic("j");
        assert_eq!(made.read_percent, 70);
        assert_eq!(made.sizes, Sizes::one(Bytes(8192)).unwrap());
        assert_eq!(made.span, Part::Bytes(Bytes(1 << 30)));
        assert_eq!(made.limit.bytes, Part::Bytes(Bytes(16 << 20)));
        assert_eq!(made.arrivals, Arrivals::Poisson { per_second: 2_000 });
        assert_eq!(made.order, Order::Zipf(Theta(1_200_000)));
        assert_eq!((options.think, made.flush_every), (Ns::us(5), 32));
    }

    #[test]
    fn options_are_honoured_ignored_or_refused() {
        let mut options = Options::default();
        assert!(matches!(options.set("direct", "1"), Ok(Set::Ignored)));
        let told = options.set("iodeph", "3").err().unwrap();
        assert_eq!(
            told,
            "an option of fio that flashloom supports; did you mean iodepth"
        );
        assert_eq!(options.set("rw", "randtrimwrite").err().unwrap(), RW);
        assert_eq!(options.set("bs", "4k,8k").err().unwrap(), SIZES);
    }

    #[test]
    fn every_suggested_option_is_honoured() {
        for name in HONOURED {
            let unknown = |told: String| told.starts_with("an option");
            let set = Options::default().set(name, "?");
            assert!(!set.is_ok_and(|s| matches!(s, Set::Ignored)), "{name}");
            let refused = Options::default().set(name, "?").err();
            assert!(!refused.is_some_and(unknown), "{name}");
        }
    }
}
