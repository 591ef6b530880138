//! File systems as hosts of stacks: how each is made, mounted and judged.
//!
//! Invariant: a host is the same whatever it is on: a drive, a drive with a power cut, or a drive
//! behind a mount. Differences between file systems are here; no other code selects one by name.

mod any;
mod btrfs;
mod bytefs;
mod directed;
mod ext4;
mod f2fs;
mod hyfim;
mod memory;
mod nova;
mod persimmon;
#[cfg(test)]
mod promised;
mod shimmer;
#[cfg(test)]
mod tests;
mod undo;
mod zonefs;

pub use self::zonefs::Zonefs;
pub use any::AnyHost;
pub use btrfs::Btrfs;
pub use bytefs::ByteFs;
pub use directed::Directed;
pub use ext4::Ext4;
pub use f2fs::F2fs;
pub use hyfim::Hyfim;
pub(crate) use memory::Keeps;
pub use memory::{Memory, Persistent};
pub use nova::Nova;
pub use persimmon::Persimmon;
pub use shimmer::Shimmer;
pub use undo::Undoing;

use ::bytefs::Variant;

use crate::attached::Attached;
use crate::image::{DriveImage, pieces_of};
use crate::name::StackName;
use ::crash::{OutsideError, Settles};
use host::Image;
use parakeet::rules::RuleSet;
use serde::{Deserialize, Serialize};
use sim::Sim;
use ssd::DriveConfig;
use std::sync::Arc;
use units::{Bytes, Ns};
use vfs::{AnyBody, Timestamp};

/// A switch of a host, and its help.
pub type Switch = (&'static str, &'static str);

/// Guarantees of a file system on changes, besides the durability of forced ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promises {
    /// Changes that are durable when a call returns, without a force.
    pub settles: Settles,
    /// Changes of names become durable in the order in which their calls end.
    pub in_order: bool,
    /// A force makes new files durable with their names, but not earlier changes of other names.
    pub alone: bool,
    /// Unforced contents may show the old data of their blocks.
    pub stale: bool,
    /// Contents in the middle of a force may show old data too, on a block drive.
    pub torn: bool,
}

impl Promises {
    /// The guarantees of a file system that writes contents before the metadata that refers to
    /// them, and nothing before a force.
    const LAZY: Self = Self {
        settles: Settles::Nothing,
        in_order: false,
        alone: false,
        stale: false,
        torn: false,
    };
}

/// A result, or a sentence that says why it is impossible.
pub type Made<T> = Result<T, String>;

/// Findings of an outside checker, `None` for none; or the reason why it cannot run.
pub type Said = Result<Option<String>, OutsideError>;

/// A file system that can be the host of a stack.
#[allow(async_fn_in_trait, reason = "a simulation is one thread")]
pub trait Host: Clone + Send + 'static {
    /// Guarantees on changes, besides the durability of forced ones.
    fn promises(&self) -> Promises;

    /// The persistent memory that the host needs; `None` for none.
    fn memory(&self) -> Option<Persistent> {
        None
    }

    /// Adapts a drive to the file system, on the same flash. By default the drive's memory becomes
    /// a page cache and not a log.
    fn shape(&self, drive: &mut DriveConfig) {
        fit(drive, false);
    }

    /// Whether making the file system deallocates the whole drive first.
    fn deallocates(&self) -> bool {
        true
    }

    /// Makes an empty file system with the creation time `now`.
    ///
    /// # Errors
    /// If the device cannot hold it, with a sentence that says why.
    async fn format(&self, sim: &Sim, device: &Attached, now: Timestamp) -> Made<()>;

    /// Recovers and mounts the file system at the time `now`.
    ///
    /// # Errors
    /// If it cannot be mounted, with a sentence that says why.
    async fn mount(&self, sim: &Sim, device: &Attached, now: Timestamp) -> Made<AnyBody>;

    /// Whether the file system has snapshots.
    fn has_snapshots(&self) -> bool {
        false
    }

    /// Takes a read-only snapshot of all files as the directory `_name`. No file is in use, and no
    /// cache is dirty.
    ///
    /// # Errors
    /// If it cannot be taken, with a sentence that says why.
    async fn keep(&self, _body: &AnyBody, _name: &[u8], _now: Timestamp) -> Made<()> {
        Err("it has no snapshots".to_owned())
    }

    /// Structural problems of the file system on a drive at rest.
    fn check(&self, image: &DriveImage<'_>) -> Vec<String>;

    /// Whether an outside checker knows the format.
    fn has_outside(&self) -> bool {
        true
    }

    /// The findings of an outside checker on a drive after recovery; if `recover`, on a drive after
    /// a cut, which the checker recovers first.
    ///
    /// # Errors
    /// If the checker cannot run.
    fn ask_outside(&self, image: &DriveImage<'_>, recover: bool) -> Said;
}

/// Structural problems of an image in the format of ext4.
fn check_ext4(image: &DriveImage<'_>) -> Vec<String> {
    let findings = extfs::check(image);
    findings.iter().map(ToString::to_string).collect()
}

/// The findings of `e2fsck`; if `recover`, it replays the journal first.
fn ask_e2fsck(image: &DriveImage<'_>, recover: bool) -> Said {
    let pieces = pieces_of(image);
    let pieces = pieces.iter().map(|(at, bytes)| (*at, &bytes[..]));
    ::crash::e2fsck(image.blocks() * extfs::BLOCK as u64, pieces, recover)
}

/// `drive` adapted to the file system of `stack`; `None` if that has none.
pub(crate) fn drive_for(stack: &StackName, drive: &DriveConfig) -> Option<DriveConfig> {
    let host = named(&stack.host, &stack.switches, &Behaviour::default())?;
    let mut shaped = drive.clone();
    shaped.flash.keep_contents = true;
    host.shape(&mut shaped);
    Some(shaped)
}

/// Adapts the DRAM of a drive with a byte interface to a host: a log if it `wants_log`, else a page
/// cache, of the size that the drive has for either. So hosts are compared on drives with the same
/// DRAM.
//= bytefs 5.1
pub fn fit(drive: &mut DriveConfig, wants_log: bool) {
    let Some(front) = &mut drive.front else {
        return;
    };
    let or = |first: Bytes, second: Bytes| if first.0 > 0 { first } else { second };
    let (log, cache) = (front.log.bytes, front.cache.bytes);
    (front.log.bytes, front.cache.bytes) = match wants_log {
        true => (or(log, cache), Bytes(0)),
        false => (Bytes(0), or(cache, log)),
    };
}

/// Options of the hosts in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Behaviour {
    /// Age at which changes are made durable automatically; `None` for the default of the file
    /// system in Linux.
    pub commit_interval: Option<Ns>,
    /// Shortest wait of background cleaning for the next section, for log-structured file systems;
    /// `None` for that of Linux.
    pub cleaning_interval: Option<Ns>,
    /// Whether making the file system keeps the drive's contents, like `nodiscard` of its makers:
    /// an aged drive is then full of garbage.
    pub keep: bool,
    /// Whether the files of a used stack are made, which a host that places files keeps where it
    /// keeps most; not part of a plan.
    #[serde(skip)]
    pub ages: bool,
    /// Whether a log-structured file system writes nothing at all; not part of a plan.
    #[serde(skip)]
    pub read_only: bool,
    /// Placement rules, for a host that places files and whose switches select no rules; `None` for
    /// the default rules.
    #[serde(skip)]
    pub rules: Option<Arc<RuleSet>>,
}

/// The host called `host`; `None` if there is no such file system.
#[must_use]
pub fn named(host: &str, switches: &[String], behaviour: &Behaviour) -> Option<AnyHost> {
    let by_rules = switches.iter().any(|switch| switch == directed::SWITCH.0);
    Some(match host {
        "ext4" if by_rules => Directed::new(Ext4::new(switches, behaviour), behaviour).into(),
        "ext4" => Ext4::new(switches, behaviour).into(),
        "btrfs" | "btrfs-nocow" => {
            let btrfs = Btrfs::new(switches, behaviour, host == "btrfs-nocow");
            match by_rules {
                true => Directed::new(btrfs, behaviour).into(),
                false => btrfs.into(),
            }
        }
        "bytefs" => ByteFs::new(switches, Variant::Full, behaviour).into(),
        "bytefs-log" => ByteFs::new(switches, Variant::Log, behaviour).into(),
        "bytefs-dual" => Undoing::dual(switches, behaviour).into(),
        "f2fs" if by_rules => Directed::new(F2fs::new(switches, behaviour), behaviour).into(),
        "f2fs" => F2fs::new(switches, behaviour).into(),
        "hyfim" => Hyfim::new(switches, behaviour).into(),
        "nova" => Nova.into(),
        "persimmon" if by_rules => {
            Directed::new(Persimmon::new(switches, behaviour), behaviour).into()
        }
        "persimmon" => Persimmon::new(switches, behaviour).into(),
        "pmfs" => Undoing::pmfs(switches).into(),
        "shimmer" => Shimmer::pools(switches, behaviour).into(),
        "zenfs" => Shimmer::zenfs(switches, behaviour).into(),
        "zonefs" => Zonefs.into(),
        _ => return None,
    })
}

/// The persistent memory that the host called `host` needs with these switches; `None` for none.
#[must_use]
pub fn memory(host: &str, switches: &[String]) -> Option<Persistent> {
    named(host, switches, &Behaviour::default())?.memory()
}

/// The reason why the switches of persistent memory do not apply; `None` if they do.
pub(crate) fn refused_memory(host: &str, drive: &str, switches: &[&str]) -> Option<String> {
    let has = |of: Switch| switches.contains(&of.0);
    let known = self::switches(host);
    let of_memory = [memory::BUFFER, memory::OPTANE, memory::SLOW];
    let mut asked = of_memory
        .into_iter()
        .filter(|of| has(*of) && known.contains(of));
    let asked = asked.next()?.0;
    if drive != "ocssd" {
        return Some(format!(
            "+{asked} is not available on the drive {drive}: it configures the mapping that the \
             host of an open-channel drive keeps"
        ));
    }
    let has_memory = host == "hyfim" || has(memory::BUFFER);
    (!has_memory).then(|| format!("+{asked} needs the switch +{}", memory::BUFFER.0))
}

/// The switches of the host called `host`; empty if it is unknown.
#[must_use]
pub fn switches(host: &str) -> &'static [Switch] {
    let mut hosts = HOSTS.iter();
    hosts.find(|(name, _)| *name == host).map_or(&[], |h| h.1)
}

/// All hosts, with their switches.
pub(crate) const HOSTS: &[(&str, &[Switch])] = &[
    ("raw", &[]),
    ("ext4", ext4::SWITCHES),
    ("btrfs", btrfs::SWITCHES),
    ("btrfs-nocow", btrfs::SWITCHES),
    ("bytefs", bytefs::SWITCHES),
    ("bytefs-log", bytefs::SWITCHES),
    ("bytefs-dual", undo::DUAL_SWITCHES),
    ("f2fs", f2fs::SWITCHES),
    ("hyfim", hyfim::SWITCHES),
    ("nova", &[]),
    ("persimmon", persimmon::SWITCHES),
    ("pmfs", undo::SWITCHES),
    ("shimmer", shimmer::SWITCHES),
    ("zenfs", shimmer::SWITCHES),
    ("zonefs", &[]),
];
