//! The options of one fio job.
//!
//! Every option is honoured, accepted because it changes nothing on a simulated drive, or refused.

use super::names::{self, Effect};
use super::value::{
    Each, Sizes, flag, number, one_size, part, set_each, size_range, size_split, time, time_range,
    within,
};
use super::words::{
    ALIGN, Access, COUNT, DEPTH, DISTRIBUTION, Distribution, FLAG, NUMBER, PART, PERCENT, RANGE,
    RW, SIZE, SIZES, SPLIT, TIME, access, distribution, engine, names_of,
};
use crate::describe::unit::{OPS_MAX, percent};
use crate::generate::Part;
use units::{Bytes, Ns};

/// Options of one job.
#[derive(Clone, Debug)]
pub(super) struct Options {
    /// Value of `name`, if it is set.
    pub(super) name: Option<String>,
    pub(super) files: Files,
    pub(super) access: Access,
    pub(super) sizes: Each<Sizes>,
    pub(super) align: Each<Option<u64>>,
    pub(super) amount: Amount,
    /// Hundredths of the requests that are reads, in a job of reads and writes.
    pub(super) read_percent: u64,
    pub(super) distribution: Each<Distribution>,
    /// Hundredths of the requests that a random order places; the others follow the request before.
    pub(super) random_percent: Each<u64>,
    pub(super) norandommap: bool,
    pub(super) same_order: bool,
    pub(super) seed: u64,
    pub(super) iodepth: u32,
    /// Requests in flight at which a full queue is filled again; 0 for `iodepth`.
    pub(super) low: u32,
    /// Completions that a full queue waits for at once.
    pub(super) batch: u32,
    /// Whether the job says that it uses the page cache.
    pub(super) is_buffered: bool,
    pub(super) has_sync_engine: bool,
    pub(super) numjobs: u32,
    pub(super) pace: Pace,
    pub(super) durable: Durable,
    pub(super) verify: Verify,
    pub(super) handles: Handles,
    pub(super) appends: bool,
    /// Share of the job in the requests of all jobs that have one; 0 for no share.
    pub(super) flow: u64,
    pub(super) stonewall: bool,
    pub(super) wait_for: Option<String>,
    pub(super) new_group: bool,
    pub(super) group_reporting: bool,
    pub(super) exitall: bool,
    pub(super) exit: Exit,
}

/// Files of a job.
#[derive(Clone, Debug, Default)]
pub(super) struct Files {
    /// Value of `filename`, as names of files.
    pub(super) names: Vec<String>,
    pub(super) directory: String,
    /// Value of `filename_format`; empty if it is not set.
    pub(super) format: String,
    pub(super) count: Option<u32>,
    /// Bytes of each file, if `filesize` is set.
    pub(super) size: Option<u64>,
    pub(super) service: Service,
}

/// Order in which a job uses its files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Service {
    /// A request to each file in turn.
    #[default]
    Turns,
    Random,
}

/// Amount of a job.
#[derive(Clone, Debug)]
pub(super) struct Amount {
    pub(super) size: Part,
    pub(super) io_size: Option<Part>,
    pub(super) number_ios: u64,
    pub(super) offset: Part,
    pub(super) increment: Part,
    pub(super) loops: u64,
    pub(super) runtime: Option<Ns>,
    pub(super) time_based: bool,
}

/// Times of a job.
#[derive(Clone, Debug, Default)]
pub(super) struct Pace {
    pub(super) bytes: Each<u64>,
    pub(super) ios: Each<u64>,
    pub(super) poisson: bool,
    /// Whether requests in flight do not delay a request that is due.
    pub(super) offload: bool,
    pub(super) think: Ns,
    pub(super) think_blocks: u64,
    pub(super) start: (Ns, Ns),
    pub(super) ramp: Ns,
}

/// Flushes and forced writes of a job.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Durable {
    /// Writes between two flushes; 0 for no flushes.
    pub(super) flush_every: u64,
    pub(super) flush_at_end: bool,
    pub(super) fua: bool,
}

/// Reads that check what a job has written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Verify {
    pub(super) has_method: bool,
    pub(super) is_done: bool,
    pub(super) only: bool,
}

/// Placement handles of a job's writes.
#[derive(Clone, Debug, Default)]
pub(super) struct Handles {
    pub(super) is_on: bool,
    /// Handles by number; all of the drive if empty.
    pub(super) list: Vec<u16>,
    pub(super) is_random: bool,
    /// Handle that `write_hint` stands for.
    pub(super) hint: u16,
}

/// Jobs that end when a job with `exitall` ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Exit {
    #[default]
    Group,
    Phase,
    All,
}

impl Default for Options {
    /// The defaults that fio has.
    fn default() -> Self {
        let whole = Part::Percent(100);
        Self {
            name: None,
            files: Files::default(),
            access: access("read").expect("it is one of the words"),
            sizes: [const { Sizes::One(4096) }; 3],
            align: [None; 3],
            amount: Amount {
                size: whole,
                io_size: None,
                number_ios: u64::MAX,
                offset: Part::Bytes(Bytes(0)),
                increment: Part::Bytes(Bytes(0)),
                loops: 1,
                runtime: None,
                time_based: false,
            },
            read_percent: 50,
            distribution: [const { Distribution::Uniform }; 3],
            random_percent: [100; 3],
            norandommap: false,
            same_order: true,
            seed: 0,
            iodepth: 1,
            low: 0,
            batch: 1,
            is_buffered: false,
            has_sync_engine: false,
            numjobs: 1,
            pace: Pace {
                think_blocks: 1,
                ..Pace::default()
            },
            durable: Durable::default(),
            verify: Verify {
                has_method: false,
                is_done: true,
                only: false,
            },
            handles: Handles::default(),
            appends: false,
            flow: 0,
            stonewall: false,
            wait_for: None,
            new_group: false,
            group_reporting: false,
            exitall: false,
            exit: Exit::Group,
        }
    }
}

/// Outcome of setting an option.
#[derive(Debug, PartialEq)]
pub(super) enum Set {
    Honoured,
    Ignored,
}

/// Result of a group of options: whether it has the option, or the expected text.
type Known = Result<bool, String>;

impl Options {
    /// Sets one option. The error is the expected text.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<Set, String> {
        let is_ignored = matches!(names::effect(name), Effect::Ignored);
        if value.contains('$') && name != "filename_format" && !is_ignored {
            return Err("a value in place of a variable".to_owned());
        }
        if let "direct" | "buffered" = name {
            self.is_buffered = read(flag(value), FLAG)? == (name == "buffered");
            return Ok(Set::Ignored);
        }
        let known = self.place(name, value)?
            || self.size(name, value)?
            || self.amount(name, value)?
            || self.order(name, value)?
            || self.pace(name, value)?
            || self.effects(name, value)?
            || self.handles(name, value)?
            || self.group(name, value)?;
        if known {
            return Ok(Set::Honoured);
        }
        match names::effect(name) {
            Effect::Ignored => Ok(Set::Ignored),
            Effect::Only(default, _) if value == default => Ok(Set::Ignored),
            Effect::Only(default, reason) => Err(format!("{name}={default} ({reason})")),
            Effect::Refused(reason) => Err(format!("a job without {name} ({reason})")),
            Effect::Unknown(hint) => Err(format!("an option of fio{hint}")),
        }
    }

    fn place(&mut self, name: &str, value: &str) -> Known {
        let files = &mut self.files;
        match name {
            "name" => self.name = Some(value.to_owned()),
            "filename" => files.names = names_of(value)?,
            "directory" => files.directory = format!("{value}/"),
            "filename_format" => value.clone_into(&mut files.format),
            "unique_filename" => drop(read(flag(value), FLAG)?),
            "nrfiles" | "nr_files" => files.count = Some(small(value)?),
            "filesize" => files.size = Some(read(number(value).filter(|&n| n > 0), SIZE)?),
            "file_service_type" => {
                let word = value.split(':').next().unwrap_or_default();
                files.service = choice(
                    word,
                    &[("roundrobin", Service::Turns), ("random", Service::Random)],
                )?;
            }
            "ioengine" => self.has_sync_engine = engine(value)?,
            "flow" => self.flow = read(within(value, 1, 1_000_000), "a weight of at least 1")?,
            "iodepth" => self.iodepth = read(within(value, 1, 65_535), DEPTH)? as u32,
            "iodepth_low" => self.low = read(within(value, 0, 65_535), DEPTH)? as u32,
            "iodepth_batch_complete" | "iodepth_batch_complete_min" => {
                self.batch = read(within(value, 0, 65_535), DEPTH)? as u32;
            }
            "numjobs" => self.numjobs = small(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn size(&mut self, name: &str, value: &str) -> Known {
        match name {
            "bs" | "blocksize" => read(set_each(&mut self.sizes, value, one_size), SIZES)?,
            "bsrange" | "blocksize_range" => {
                read(set_each(&mut self.sizes, value, size_range), RANGE)?;
            }
            "bssplit" => read(set_each(&mut self.sizes, value, size_split), SPLIT)?,
            "ba" | "blockalign" => {
                let one = |text: &str| {
                    let bytes = number(text).filter(|&n| n > 0 && n.is_multiple_of(512));
                    bytes.map(Some)
                };
                read(set_each(&mut self.align, value, one), ALIGN)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn amount(&mut self, name: &str, value: &str) -> Known {
        let amount = &mut self.amount;
        match name {
            "size" => amount.size = read(part(value).filter(|&p| p != NOTHING), PART)?,
            "io_size" | "io_limit" => {
                amount.io_size = Some(read(part(value).filter(|&p| p != NOTHING), PART)?);
            }
            "fill_device" | "fill_fs" => {
                if read(flag(value), FLAG)? {
                    amount.size = Part::Percent(100);
                }
            }
            "number_ios" => amount.number_ios = read(within(value, 1, OPS_MAX), COUNT)?,
            "offset" | "fileoffset" => amount.offset = read(part(value), PART)?,
            "offset_increment" => amount.increment = read(part(value), PART)?,
            "loops" => amount.loops = read(within(value, 1, OPS_MAX), COUNT)?,
            "runtime" | "timeout" => {
                let span = read(time(value, Ns::secs(1)), TIME)?;
                amount.runtime = (span > Ns::ZERO).then_some(span);
            }
            "time_based" => amount.time_based = read(flag(value), FLAG)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn order(&mut self, name: &str, value: &str) -> Known {
        match name {
            "rw" | "readwrite" => {
                let identical = self.access.identical;
                self.access = Access {
                    identical,
                    ..read(access(value), RW)?
                };
            }
            "rw_sequencer" => {
                self.access.identical =
                    choice(value, &[("sequential", false), ("identical", true)])?;
            }
            "rwmixread" => self.read_percent = read(percent(value), PERCENT)?,
            "rwmixwrite" => self.read_percent = 100 - read(percent(value), PERCENT)?,
            "random_distribution" => self.distribution = read(distribution(value), DISTRIBUTION)?,
            "random_generator" => {
                choice(
                    value,
                    &[("tausworthe", ()), ("tausworthe64", ()), ("lfsr", ())],
                )?;
            }
            "norandommap" => self.norandommap = read(flag(value), FLAG)?,
            "percentage_random" => {
                read(set_each(&mut self.random_percent, value, percent), PERCENT)?;
            }
            "percentage_sequential" => {
                let rest = |text: &str| percent(text).map(|p| 100 - p);
                read(set_each(&mut self.random_percent, value, rest), PERCENT)?;
            }
            "randseed" => self.seed = read(number(value), NUMBER)?,
            "randrepeat" | "allrandrepeat" => self.same_order = read(flag(value), FLAG)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn pace(&mut self, name: &str, value: &str) -> Known {
        let pace = &mut self.pace;
        match name {
            "rate" => {
                let one = |text: &str| within(text, 1, 1 << 50);
                read(
                    set_each(&mut pace.bytes, value, one),
                    "bytes per second such as 20m",
                )?;
            }
            "rate_iops" => {
                let one = |text: &str| within(text, 1, 1_000_000_000);
                read(
                    set_each(&mut pace.ios, value, one),
                    "requests per second such as 2000",
                )?;
            }
            "rate_process" => {
                pace.poisson = choice(value, &[("linear", false), ("poisson", true)])?;
            }
            "io_submit_mode" => {
                pace.offload = choice(value, &[("inline", false), ("offload", true)])?;
            }
            "thinktime" => pace.think = read(time(value, Ns::us(1)), TIME)?,
            // The processor is idle or spins; the drive cannot tell.
            "thinktime_spin" => drop(read(time(value, Ns::us(1)), TIME)?),
            "thinktime_blocks" => pace.think_blocks = read(within(value, 1, OPS_MAX), COUNT)?,
            "startdelay" => pace.start = read(time_range(value), TIME)?,
            "ramp_time" => pace.ramp = read(time(value, Ns::secs(1)), TIME)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn effects(&mut self, name: &str, value: &str) -> Known {
        let durable = &mut self.durable;
        match name {
            "fsync" | "fdatasync" | "write_barrier" => {
                durable.flush_every = read(number(value), NUMBER)?;
            }
            "end_fsync" | "fsync_on_close" => durable.flush_at_end = read(flag(value), FLAG)?,
            "sync" => {
                let words = [("", true), ("1", true), ("0", false), ("none", false)];
                let more = [("sync", true), ("dsync", true)];
                durable.fua = choice(value, &[words.as_slice(), &more].concat())?;
            }
            "zone_append" => self.appends = read(flag(value), FLAG)?,
            "writefua" => durable.fua = read(flag(value), FLAG)?,
            // A read is of durable data or of the buffer, which cannot be lost before it.
            "readfua" => drop(read(flag(value), FLAG)?),
            "verify" => self.verify.has_method = !["null", "none", "0"].contains(&value),
            "do_verify" => self.verify.is_done = read(flag(value), FLAG)?,
            "verify_only" => self.verify.only = read(flag(value), FLAG)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn handles(&mut self, name: &str, value: &str) -> Known {
        let handles = &mut self.handles;
        match name {
            "fdp" => handles.is_on = read(flag(value), FLAG)?,
            "dataplacement" | "data_placement" => {
                handles.is_on =
                    choice(value, &[("none", false), ("fdp", true), ("streams", true)])?;
            }
            "fdp_pli" | "plids" => {
                let one = |text: &str| within(text, 0, 65_534).map(|n| n as u16);
                let list: Option<Vec<u16>> = value.split(',').map(one).collect();
                handles.list = read(list.filter(|l| l.len() <= 128), "handles such as 0,1")?;
            }
            "fdp_pli_select" | "plid_select" => {
                handles.is_random = choice(value, &[("roundrobin", false), ("random", true)])?;
            }
            "write_hint" => {
                let words = [
                    ("none", 0),
                    ("short", 1),
                    ("medium", 2),
                    ("long", 3),
                    ("extreme", 4),
                ];
                handles.hint = choice(value, &words)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn group(&mut self, name: &str, value: &str) -> Known {
        match name {
            "stonewall" | "wait_for_previous" => self.stonewall = read(flag(value), FLAG)?,
            "wait_for" => self.wait_for = Some(value.to_owned()),
            "new_group" => self.new_group = read(flag(value), FLAG)?,
            "group_reporting" => self.group_reporting = read(flag(value), FLAG)?,
            "exitall" => self.exitall = read(flag(value), FLAG)?,
            "exit_what" => {
                self.exit = choice(
                    value,
                    &[
                        ("group", Exit::Group),
                        ("stonewall", Exit::Phase),
                        ("all", Exit::All),
                    ],
                )?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Files of all clones.
    pub(super) fn files(&self) -> usize {
        let own = self.files.count.unwrap_or(1) as usize;
        self.files.names.len().max(own) * self.numjobs as usize
    }

    /// Requests in flight: an engine of system calls that wait has one.
    pub(super) fn depth(&self) -> u32 {
        match self.has_sync_engine {
            true => 1,
            false => self.iodepth,
        }
    }

    /// Requests in flight at which a full queue is filled again, by whole batches of completions.
    pub(super) fn refill(&self) -> u32 {
        let (depth, batch) = (self.depth(), self.batch.max(1));
        let low = match self.low {
            0 => depth,
            low => low.min(depth),
        };
        let batches = (depth - low).div_ceil(batch).max(1);
        depth.saturating_sub(batches.saturating_mul(batch))
    }
}

const NOTHING: Part = Part::Bytes(Bytes(0));

fn read<T>(value: Option<T>, expected: &str) -> Result<T, String> {
    value.ok_or_else(|| expected.to_owned())
}

/// The value that `words` has for `word`.
fn choice<T: Clone>(word: &str, words: &[(&str, T)]) -> Result<T, String> {
    let found = words.iter().find(|(name, _)| *name == word);
    found.map(|(_, value)| value.clone()).ok_or_else(|| {
        let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
        format!("one of {}", names.join(", ").trim_start_matches(", "))
    })
}

fn small(value: &str) -> Result<u32, String> {
    let number = within(value, 1, 1024).map(|n| n as u32);
    read(number, "a number from 1 to 1024")
}

#[cfg(test)]
mod tests;
