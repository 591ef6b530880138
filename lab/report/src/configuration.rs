//! Differences between the configurations of compared runs, the interface of their drives aside.
//!
//! A record has the configuration of its drive and host, field by field. [`FIELDS`] gives each
//! field its name and unit. A field missing from the table is still compared, under its key: no
//! difference is left out.

use crate::human;
use crate::record::Run;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The value of a configuration field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Setting {
    /// A setting that is on or off.
    Flag(bool),
    /// A number, in the unit of the field.
    Number(u64),
    /// A word or a sentence, printed as it is.
    Text(String),
}

/// Fields by key, such as `drive.controller.command`.
pub type Configuration = BTreeMap<String, Setting>;

/// The unit of a numeric field; decides how it is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A size, printed in KiB, MiB or GiB.
    Bytes,
    /// A time in nanoseconds.
    Nanoseconds,
    /// A rate in bytes per second.
    Rate,
    /// A count of the things that the field's name names; also the unit of fields that are not
    /// numbers.
    None,
}

/// The part that a field plays when runs are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The field is compared between all runs.
    Compared,
    /// The field belongs to a part that not every drive has; it is compared between those that have
    /// it.
    OfPart,
    /// The field follows from the interface, or names the drive: never compared.
    Interface,
    /// Another field, with this key, expresses it in words that hold for every interface.
    Told(&'static str),
}

/// The declaration of a configuration field.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Key of the field in a [`Configuration`].
    pub key: &'static str,
    /// Name for readers, in tables and sentences.
    pub name: &'static str,
    /// Unit of the field's numeric values.
    pub unit: Unit,
    /// Runs between which the field is compared, if any.
    pub role: Role,
}

/// Key of the drive's DRAM that keeps its contents without power.
pub const DRAM_KEPT: &str = "dram-kept";
/// Key of what the battery of a byte-addressable drive is worth, in words.
pub const BATTERY: &str = "battery";
/// Key of all the drive's DRAM.
pub const DRAM: &str = "dram";
/// Key of the place of the write buffer, and whether a power cut loses it.
pub const WRITE_BUFFER: &str = "write-buffer";
/// Key of the place of the mapping from logical addresses to flash.
pub const MAP: &str = "map";
/// Key of the size of the host's persistent memory.
pub const HOST_MEMORY: &str = "host-memory";
/// Key of the access times of the host's persistent memory.
pub const HOST_MEMORY_TIMES: &str = "host-memory-times";
/// Key of the size to which a forced write is padded.
pub const PADDING: &str = "force-padding";
/// Key that says whether making the file system deallocates the whole drive.
pub const MKFS: &str = "mkfs";

const fn field(key: &'static str, name: &'static str, unit: Unit) -> Field {
    let role = Role::Compared;
    Field {
        key,
        name,
        unit,
        role,
    }
}

const fn of_part(key: &'static str, name: &'static str, unit: Unit) -> Field {
    Field {
        role: Role::OfPart,
        ..field(key, name, unit)
    }
}

const fn interface(key: &'static str) -> Field {
    Field {
        role: Role::Interface,
        ..field(key, key, Unit::None)
    }
}

const fn told(key: &'static str, by: &'static str) -> Field {
    Field {
        role: Role::Told(by),
        ..field(key, key, Unit::None)
    }
}

/// All fields, in the order in which differences are listed.
pub const FIELDS: &[Field] = &{
    use Unit::{Bytes, Nanoseconds as Ns, None, Rate};
    [
        field(DRAM_KEPT, "drive DRAM on battery or capacitors", Bytes),
        field(DRAM, "drive DRAM", Bytes),
        field(WRITE_BUFFER, "write buffer", None),
        field(MAP, "map from addresses to flash", None),
        field(HOST_MEMORY, "persistent memory of the host", Bytes),
        of_part(HOST_MEMORY_TIMES, "times of that memory", None),
        field(PADDING, "padding of synced writes", Bytes),
        of_part(MKFS, "mkfs deallocates the drive", None),
        field("drive.capacity", "capacity", Bytes),
        field("drive.flash.part", "flash", None),
        field("drive.flash.timing.read", "time of a page read", Ns),
        field("drive.flash.timing.program", "time of a program", Ns),
        field("drive.flash.timing.erase", "time of an erase", Ns),
        field("drive.flash.timing.command", "time of a flash command", Ns),
        field(
            "drive.flash.timing.bus_bytes_per_s",
            "rate of a channel",
            Rate,
        ),
        field(
            "drive.flash.timing.suspend",
            "time to suspend a program",
            Ns,
        ),
        field("drive.flash.endurance", "rated cycles", None),
        field("drive.flash.reads_first", "reads go first at a die", None),
        field(
            "drive.flash.bypass_limit",
            "reads before a program that waits",
            None,
        ),
        field(
            "drive.flash.suspend_limit",
            "suspensions of a program",
            None,
        ),
        field(
            "drive.flash.page_registers",
            "page registers serve reads",
            None,
        ),
        field("drive.flash.keep_contents", "contents are kept", None),
        field("drive.geometry.channels", "channels", None),
        field(
            "drive.geometry.chips_per_channel",
            "chips of a channel",
            None,
        ),
        field("drive.geometry.dies_per_chip", "dies of a chip", None),
        field("drive.geometry.planes", "planes of a die", None),
        field("drive.geometry.blocks_per_plane", "blocks of a plane", None),
        field("drive.geometry.pages_per_block", "pages of a block", None),
        field("drive.geometry.page_bytes", "flash page", Bytes),
        field("drive.geometry.spare_bytes", "spare area of a page", Bytes),
        field(
            "drive.geometry.pages_per_program",
            "pages of a program",
            None,
        ),
        interface("drive.geometry.spare_words"),
        field("drive.controller.command", "firmware time of a command", Ns),
        field(
            "drive.controller.dram_per_unit",
            "time of 4 KiB in drive DRAM",
            Ns,
        ),
        told("drive.controller.write_buffer", WRITE_BUFFER),
        told("drive.controller.power_loss_protection", WRITE_BUFFER),
        field("drive.controller.read_ahead", "DRAM for read-ahead", Bytes),
        field(
            "drive.controller.read_streams",
            "streams that are read ahead",
            None,
        ),
        of_part(
            "drive.controller.limits.read",
            "firmware's processors for a read",
            Ns,
        ),
        of_part(
            "drive.controller.limits.write",
            "firmware's processors for a write",
            Ns,
        ),
        of_part(
            "drive.controller.limits.program_bytes_per_s",
            "rate of all programs together",
            Rate,
        ),
        told("drive.mapping.unit", MAP),
        told("drive.mapping.cache", MAP),
        told("drive.mapping.cache_holds", MAP),
        field(
            "drive.collection.victim",
            "choice of garbage collection",
            None,
        ),
        field(
            "drive.collection.separate",
            "moved data have superblocks of their own",
            None,
        ),
        field(
            "drive.collection.reserve_lines",
            "superblocks kept for collection",
            None,
        ),
        field(
            "drive.collection.background_lines",
            "free superblocks that collection keeps",
            None,
        ),
        field(
            "drive.collection.batch_lines",
            "superblocks of a batch of collection",
            None,
        ),
        field("drive.collection.paced", "collection paces the host", None),
        field(
            "drive.collection.reads_per_die",
            "reads of collection at a die",
            None,
        ),
        field("drive.wear.dynamic", "dynamic wear levelling", None),
        field(
            "drive.wear.static_threshold",
            "threshold of static wear levelling",
            None,
        ),
        field("drive.wear.spare_blocks", "spare blocks of a plane", None),
        field(
            "drive.faults.factory_bad_blocks",
            "bad blocks in a million",
            None,
        ),
        field(
            "drive.faults.program_failures",
            "failed programs in a million",
            None,
        ),
        field(
            "drive.faults.erase_failures",
            "failed erases in a million",
            None,
        ),
        field(
            "drive.faults.read_retries",
            "read retries in a million",
            None,
        ),
        field("drive.faults.read_passes", "passes of a read", None),
        field("drive.faults.wear_out", "blocks wear out", None),
        told(BATTERY, DRAM_KEPT),
        told("drive.front.battery", DRAM_KEPT),
        told("drive.front.log.bytes", DRAM_KEPT),
        told("drive.front.log.commits", DRAM_KEPT),
        told("drive.front.cache.bytes", DRAM_KEPT),
        of_part(
            "drive.front.dram.latency",
            "latency of drive DRAM by bytes",
            Ns,
        ),
        of_part(
            "drive.front.dram.bytes_per_s",
            "rate of drive DRAM by bytes",
            Rate,
        ),
        of_part(
            "drive.front.log.clean_percent",
            "fill at which the log is cleaned, %",
            None,
        ),
        of_part("drive.front.log.lookup", "look-up in the log", Ns),
        of_part(
            "drive.front.log.pages_in_work",
            "pages that log cleaning has in work",
            None,
        ),
        of_part(
            "drive.front.cache.lookup",
            "look-up in the page cache of the drive",
            Ns,
        ),
        told("drive.zones.buffer", WRITE_BUFFER),
        of_part("drive.zones.size", "addresses of a zone", Bytes),
        of_part("drive.zones.capacity", "zone capacity", Bytes),
        of_part("drive.zones.dies", "dies of a zone", None),
        of_part("drive.zones.max_open", "open zones", None),
        of_part("drive.zones.max_active", "active zones", None),
        of_part("drive.zones.append_limit", "largest zone append", Bytes),
        of_part("drive.zones.conventional", "conventional zones", None),
        of_part("drive.zones.read_across", "reads across zones", None),
        of_part(
            "drive.zones.read_unwritten",
            "reads of unwritten blocks",
            None,
        ),
        of_part("drive.zones.random_write_area", "random write area", Bytes),
        of_part(
            "drive.zones.random_write_step",
            "step of the random write area",
            Bytes,
        ),
        of_part(
            "drive.zones.random_write_zones",
            "zones with a random write area",
            None,
        ),
        of_part("drive.zones.firmware.open", "firmware time to open", Ns),
        of_part("drive.zones.firmware.close", "firmware time to close", Ns),
        of_part(
            "drive.zones.firmware.first_write",
            "firmware time of the first write of a zone",
            Ns,
        ),
        of_part(
            "drive.zones.firmware.commit",
            "time to record the state of a zone",
            Ns,
        ),
        of_part(
            "drive.zones.firmware.unmap_per_unit",
            "time of a reset to unmap 4 KiB",
            Ns,
        ),
        of_part(
            "drive.zones.firmware.padding",
            "finish programs the rest of the zone",
            None,
        ),
        of_part(
            "drive.zones.firmware.append",
            "firmware's processor for an append",
            Ns,
        ),
        of_part(
            "drive.raw.cached",
            "blocks between a write and its read",
            None,
        ),
        of_part(
            "drive.raw.read_unwritten",
            "reads of unwritten blocks",
            None,
        ),
        interface("drive.name"),
        interface("drive.interface"),
        interface("drive.placement.handles"),
        interface("drive.placement.reclaim_groups"),
        interface("drive.placement.spare"),
        interface("drive.placement.persistently_isolated"),
        field("host.link.generation", "generation of PCI Express", None),
        field("host.link.lanes", "lanes", None),
        field("host.link.max_payload", "payload of a packet", Bytes),
        field("host.link.round_trip", "round trip of the link", Ns),
        field("host.cpu.cores", "cores", None),
        field("host.cpu.completion", "completions are noticed by", None),
        field("host.cpu.submit", "core time to submit", Ns),
        field("host.cpu.interrupt_delay", "delay of an interrupt", Ns),
        field("host.cpu.interrupt", "core time of an interrupt", Ns),
        field("host.cpu.poll_submit", "core time to submit, polled", Ns),
        field("host.cpu.poll_delay", "delay of a poll", Ns),
        field("host.cpu.poll", "core time to complete, polled", Ns),
        field("host.queues.pairs", "queue pairs", None),
        field("host.queues.depth", "depth of a queue", None),
        field("host.bytes.load", "core time of a load of a line", Ns),
        field("host.bytes.store", "core time of a store of a line", Ns),
        field("host.bytes.posted", "posted lines", None),
        field("page_cache.memory", "page cache", Bytes),
        field(
            "page_cache.dirty_background_ratio",
            "dirty % at which write-back starts",
            None,
        ),
        field(
            "page_cache.dirty_ratio",
            "dirty % at which writers wait",
            None,
        ),
        field(
            "page_cache.writeback_interval",
            "interval of write-back",
            Ns,
        ),
        field(
            "page_cache.expire",
            "age at which files are written back",
            Ns,
        ),
        field("page_cache.read_ahead", "read-ahead", Bytes),
        field("page_cache.batch", "pages of a batch of write-back", None),
        field("page_cache.writers", "files written back at once", None),
        field("page_cache.inodes", "inodes in memory", None),
        field("page_cache.names", "directory entries in memory", None),
        field("page_cache.atime", "access times", None),
        field("page_cache.diratime", "access times of directories", None),
        field("page_cache.costs.call", "core time of a call", Ns),
        field("page_cache.costs.page", "core time of a page", Ns),
        field("page_cache.costs.name", "core time of a name", Ns),
        field(
            "page_cache.costs.change",
            "core time of a change of a name",
            Ns,
        ),
        field("file_system.commit_interval", "commit interval", Ns),
        field("file_system.cleaning_interval", "interval of cleaning", Ns),
        told("file_system.keep", MKFS),
    ]
};

/// A field that differs between runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// Key of the field in [`Configuration`].
    pub field: String,
    /// Name of the field for readers; its key if it is undeclared.
    pub name: String,
    /// The different values, with the stacks that have each.
    pub values: Vec<Held>,
}

/// A value of a field, and the stacks that have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The value; `None` where the field is not set.
    pub value: Option<Setting>,
    /// The value as text, with its unit.
    pub told: String,
    /// The stacks with this value, each with the label that tells runs of a plan file apart.
    pub stacks: Vec<String>,
}

/// The differences between the configurations of `runs`, their interface aside. Records without a
/// configuration (older ones) are left out.
#[must_use]
pub fn differences(runs: &[Run]) -> Vec<Difference> {
    let runs: Vec<&Run> = runs
        .iter()
        .filter(|r| !r.configuration.is_empty())
        .collect();
    let undeclared = runs.iter().flat_map(|run| run.configuration.keys());
    let mut undeclared: Vec<&str> = undeclared
        .map(String::as_str)
        .filter(|key| FIELDS.iter().all(|field| field.key != *key))
        .collect();
    undeclared.sort_unstable();
    undeclared.dedup();
    let undeclared = undeclared
        .into_iter()
        .map(|key| (key, key, Unit::None, false));
    let declared = FIELDS.iter().filter_map(|field| match field.role {
        Role::Compared => Some((field.key, field.name, field.unit, false)),
        Role::OfPart => Some((field.key, field.name, field.unit, true)),
        Role::Interface | Role::Told(_) => None,
    });
    let fields = declared.chain(undeclared);
    fields
        .filter_map(|field| difference(field, &runs))
        .collect()
}

fn difference(
    (key, name, unit, of_part): (&str, &str, Unit, bool),
    runs: &[&Run],
) -> Option<Difference> {
    let values = held((key, unit, of_part), runs);
    (values.len() > 1).then(|| Difference {
        field: key.to_owned(),
        name: name.to_owned(),
        values,
    })
}

/// The DRAM that the batteries of byte-addressable drives keep, with the stacks of each, as one line;
/// `None` if no stack has such a drive.
#[must_use]
pub fn batteries(runs: &[Run]) -> Option<String> {
    let runs: Vec<&Run> = runs.iter().collect();
    let values = held((BATTERY, Unit::None, true), &runs);
    let differing = Difference {
        field: BATTERY.to_owned(),
        name: "battery keeps".to_owned(),
        values,
    };
    (!differing.values.is_empty()).then(|| differing.line())
}

/// The values of a field, with the stacks of each.
fn held((key, unit, of_part): (&str, Unit, bool), runs: &[&Run]) -> Vec<Held> {
    let mut values: Vec<Held> = Vec::new();
    for run in runs {
        let value = run.configuration.get(key);
        if of_part && value.is_none() {
            continue;
        }
        let stack = match run.label.as_str() {
            "" => run.stack.clone(),
            label => format!("{} {label}", run.stack),
        };
        match values.iter_mut().find(|held| held.value.as_ref() == value) {
            Some(held) if held.stacks.contains(&stack) => {}
            Some(held) => held.stacks.push(stack),
            None => values.push(Held {
                value: value.cloned(),
                told: tell(value, unit),
                stacks: vec![stack],
            }),
        }
    }
    // Different numbers that round to one text are printed in full.
    let alike = |held: &Held| {
        values
            .iter()
            .filter(|other| other.told == held.told)
            .count()
            > 1
    };
    if values.iter().any(alike) {
        for held in &mut values {
            if let Some(Setting::Number(number)) = held.value {
                held.told = number.to_string();
            }
        }
    }
    values
}

fn tell(value: Option<&Setting>, unit: Unit) -> String {
    match (value, unit) {
        (None, _) => "not set".to_owned(),
        (Some(Setting::Flag(true)), _) => "yes".to_owned(),
        (Some(Setting::Flag(false)), _) => "no".to_owned(),
        (Some(Setting::Text(text)), _) => text.clone(),
        (Some(Setting::Number(0)), Unit::Bytes) => "none".to_owned(),
        (Some(Setting::Number(n)), Unit::Bytes) => human::bytes(*n as f64),
        (Some(Setting::Number(n)), Unit::Nanoseconds) => human::time(*n as f64),
        (Some(Setting::Number(n)), Unit::Rate) => format!("{}/s", human::bytes(*n as f64)),
        (Some(Setting::Number(n)), Unit::None) => human::count(*n as f64),
    }
}

impl Difference {
    /// The difference as one line: the name, then each value with its stacks.
    #[must_use]
    pub fn line(&self) -> String {
        let held = |held: &Held| format!("{} ({})", held.told, held.stacks.join(", "));
        let values: Vec<String> = self.values.iter().map(held).collect();
        format!("{}: {}", self.name, values.join("; "))
    }
}
