//! File systems as hosts of stacks: how each is made, mounted and judged.
//!
//! Invariant: a host is the same whatever it is on: a drive, a drive whose power is
//! cut, or a drive behind a mount. What differs between file systems is here; nobody
//! else asks for one by name.

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
mod shimmer;
#[cfg(test)]
mod tests;
mod undo;
mod zonefs;

pub use self::zonefs::Zonefs;
pub use any::{AnyBody, AnyHost};
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
use vfs::{Body, Timestamp};

/// A switch of a host, and what it does.
pub type Switch = (&'static str, &'static str);

/// What holds of the changes of a file system besides that what was forced is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promises {
    /// What a call has made durable when it returns, without being forced.
    pub settles: Settles,
    /// Changes of names become durable in the order in which the calls end.
    pub in_order: bool,
    /// New files are forced with their names by themselves, and names that changed before
    /// are not.
    pub alone: bool,
    /// Contents that were not forced may show what was there before.
    pub stale: bool,
    /// So may those that are being forced, on a drive of blocks.
    pub torn: bool,
}

impl Promises {
    /// Those of a file system that writes contents before what leads to them, and nothing
    /// before it is forced.
    const LAZY: Self = Self {
        settles: Settles::Nothing,
        in_order: false,
        alone: false,
        stale: false,
        torn: false,
    };
}

/// What was made, or a sentence that says why it cannot be.
pub type Made<T> = Result<T, String>;

/// What somebody else's checker says, if anything; or why it cannot be asked.
pub type Said = Result<Option<String>, OutsideError>;

/// A file system that can be the host of a stack.
#[allow(async_fn_in_trait, reason = "a simulation is one thread")]
pub trait Host: Clone + Send + 'static {
    /// It, mounted.
    type Body: Body;

    /// What holds of its changes besides that what was forced is durable.
    fn promises(&self) -> Promises;

    /// Memory that survives power cuts, if it wants its machine to have any.
    fn memory(&self) -> Option<Persistent> {
        None
    }

    /// Gives a drive the form that it is made for, on the same flash: if it says no more, memory
    /// that is a page cache and not a log.
    fn shape(&self, drive: &mut DriveConfig) {
        fit(drive, false);
    }

    /// Whether whoever makes it deallocates all of the drive first.
    fn deallocates(&self) -> bool {
        true
    }

    /// Makes an empty file system that says it was made at `now`.
    ///
    /// # Errors
    /// A sentence that says what cannot be.
    async fn format(&self, sim: &Sim, device: &Attached, now: Timestamp) -> Made<()>;

    /// Recovers and mounts it, when it is `now`.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    async fn mount(&self, sim: &Sim, device: &Attached, now: Timestamp) -> Made<Self::Body>;

    /// Whether it has snapshots.
    fn has_snapshots(&self) -> bool {
        false
    }

    /// Keeps all files as they are now as a directory of this name that nothing can be
    /// changed in. No file is in use, and nothing dirty is in a cache.
    ///
    /// # Errors
    /// A sentence that says what cannot be.
    async fn keep(&self, _body: &Self::Body, _name: &[u8], _now: Timestamp) -> Made<()> {
        Err("it has no snapshots".to_owned())
    }

    /// What is wrong with the structure on a drive at rest.
    fn check(&self, image: &DriveImage<'_>) -> Vec<String>;

    /// Whether anybody else's checker knows the format.
    fn has_outside(&self) -> bool {
        true
    }

    /// What somebody else's checker says of what is on a drive: after recovery, or if
    /// `recover` of what a cut left, once that checker has recovered it.
    ///
    /// # Errors
    /// If that checker cannot be asked.
    fn ask_outside(&self, image: &DriveImage<'_>, recover: bool) -> Said;
}

/// What is wrong with a structure in the format of ext4.
fn check_ext4(image: &DriveImage<'_>) -> Vec<String> {
    let findings = extfs::check(image);
    findings.iter().map(ToString::to_string).collect()
}

/// What `e2fsck` says of it; if `recover`, once it has replayed the journal.
fn ask_e2fsck(image: &DriveImage<'_>, recover: bool) -> Said {
    let pieces = pieces_of(image);
    let pieces = pieces.iter().map(|(at, bytes)| (*at, &bytes[..]));
    ::crash::e2fsck(image.blocks() * extfs::BLOCK as u64, pieces, recover)
}

/// `drive` as the file system of `stack` needs it; none if that is no file system.
pub(crate) fn drive_for(stack: &StackName, drive: &DriveConfig) -> Option<DriveConfig> {
    let host = named(&stack.host, &stack.switches, &Behaviour::default())?;
    let mut shaped = drive.clone();
    shaped.flash.keep_contents = true;
    host.shape(&mut shaped);
    Some(shaped)
}

/// Gives the DRAM of a drive that is read and written by bytes the form that a host is
/// made for: a log if it `wants_log`, else a page cache, of the size that the drive has
/// for either. So hosts are compared on drives with the same DRAM.
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

/// How hosts are to behave in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Behaviour {
    /// Age at which what has changed is made durable of its own accord; none for that of
    /// the file system in Linux.
    pub commit_interval: Option<Ns>,
    /// How long cleaning in the background waits at least for the next section, of a file
    /// system that is laid out as a log; none for that of Linux.
    pub cleaning_interval: Option<Ns>,
    /// Whether what the drive holds stays when the file system is made, as with `nodiscard`
    /// of its makers: an aged drive is full then of what nobody reads any more.
    pub keep: bool,
    /// Whether a file system that is laid out as a log writes nothing at all; no part of a
    /// plan.
    #[serde(skip)]
    pub read_only: bool,
    /// Which files are placed where, on a host that places files and whose switches name no
    /// rules; none for the usual ones.
    #[serde(skip)]
    pub rules: Option<Arc<RuleSet>>,
}

/// The host of this name; none if there is no such file system.
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
        "bytefs" => ByteFs::new(switches, Variant::Full).into(),
        "bytefs-log" => ByteFs::new(switches, Variant::Log).into(),
        "bytefs-dual" => Undoing::dual(switches).into(),
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

/// Memory that survives power cuts, as the host of this name wants it with these switches, if it
/// does.
#[must_use]
pub fn memory(host: &str, switches: &[String]) -> Option<Persistent> {
    named(host, switches, &Behaviour::default())?.memory()
}

/// Why memory that survives power cuts cannot be had by these switches, if it cannot.
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
            "+{asked} makes no sense on a {drive} drive: it is of a mapping that the host holds"
        ));
    }
    let has_memory = host == "hyfim" || has(memory::BUFFER);
    (!has_memory).then(|| format!("+{asked} makes no sense without +{}", memory::BUFFER.0))
}

/// The switches of the host of this name.
#[must_use]
pub fn switches(host: &str) -> &'static [Switch] {
    let mut hosts = HOSTS.iter();
    hosts.find(|(name, _)| *name == host).map_or(&[], |h| h.1)
}

/// Hosts that are built, and their switches with what each does.
pub(crate) const HOSTS: &[(&str, &[Switch])] = &[
    ("raw", &[]),
    ("ext4", ext4::SWITCHES),
    ("btrfs", btrfs::SWITCHES),
    ("btrfs-nocow", btrfs::SWITCHES),
    ("bytefs", bytefs::SWITCHES),
    ("bytefs-log", bytefs::SWITCHES),
    ("bytefs-dual", undo::SWITCHES),
    ("f2fs", f2fs::SWITCHES),
    ("hyfim", hyfim::SWITCHES),
    ("nova", &[]),
    ("persimmon", persimmon::SWITCHES),
    ("pmfs", undo::SWITCHES),
    ("shimmer", shimmer::SWITCHES),
    ("zenfs", shimmer::SWITCHES),
    ("zonefs", &[]),
];
