//! Shimmer as the host of a stack, and `ZenFS`, which places by lifetimes and moves nothing: on
//! zones, placed files beside ext4 on conventional zones; on block drives, ext4 whose files get
//! hints.

use super::{Behaviour, Ext4, Host, Made, Promises, Said, Switch, ask_e2fsck, check_ext4};
use crate::attached::Attached;
use crate::files::FILE_SYSTEM;
use crate::image::DriveImage;
use ::shimmer::Options;
use host::{BlockPort, Disk, ZonedPort};
use parakeet::rules::{RuleSet, sets};
use placed::{Chooser, Ordinary, Placed, Policy};
use sim::Sim;
use ssd::{DriveConfig, ZoneLimits};
use std::sync::Arc;
use units::{Bytes, MIB, SECTOR};
use vfs::{AnyBody, Timestamp};

/// The switches of both: the rules for placed files, and the size of the conventional part.
pub(super) const SWITCHES: &[Switch] = &[
    (
        "rocksdb",
        "files are placed by the rules for RocksDB; the default",
    ),
    (
        "rocksdb-tuned",
        "by the rules for RocksDB with the tuned map of levels",
    ),
    ("cachelib", "by the rules for CacheLib's cache in files"),
    ("kafka", "by the rules for logs as Kafka keeps them"),
    ("postgresql", "by the rules for PostgreSQL"),
    ("shimmer", "by the extensions that the dissertation places"),
    ("sqlite", "by the rules for SQLite"),
    ("wiredtiger", "by the rules for WiredTiger"),
    (
        "half",
        "half of the zones are conventional, for programs that overwrite most of their data",
    ),
];

/// The rules of a stack without a switch for rules.
pub(super) const USUAL: &str = "rocksdb";
/// The rules for the files of a used stack, whatever their names: all of them are placed, since
/// conventional zones are too few for any others.
const ALL_FILES: &str = "name = \"used\"\n\n[[stream]]\nname = \"files\"\n\n[[rule]]\npath = \"*\"\n\
                         stream = \"files\"\n";
/// One in this many bytes is in conventional zones: 4 GB of 512 GB.
//= dissertation 7
const SHARE: u64 = 128;
/// Smallest size of the conventional part, our choice: ext4 with its journal, and the files that
/// programs keep beside their logs.
const LEAST: u64 = 48 * MIB;
/// Bytes of ext4 for each inode if the stack is to be used, the fewest that ext4 takes: the files of
/// a used stack have inodes there, and contents elsewhere.
const PER_INODE: u64 = 1024;
/// Identifier of the volume; a drive has only one.
const VOLUME: u64 = 1;

/// Shimmer or `ZenFS`, with its options.
#[derive(Clone)]
pub struct Shimmer {
    ext4: Ext4,
    rules: Arc<RuleSet>,
    policy: Policy,
    options: Options,
    half: bool,
}

/// The shipped rules called `name`.
pub(super) fn ready(name: &str) -> RuleSet {
    let text = sets::text(name).expect("a switch is the name of a set");
    RuleSet::read(name, text).expect("the sets that come along are read by tests")
}

impl Shimmer {
    fn new(switches: &[String], behaviour: &Behaviour, policy: Policy, options: Options) -> Self {
        let is_set = |name: &&String| sets::text(name).is_some();
        let named = switches.iter().find(is_set);
        let given = behaviour.rules.clone().filter(|_| named.is_none());
        let usual = || Arc::new(ready(named.map_or(USUAL, |name| name)));
        let rules = match behaviour.ages {
            true => Arc::new(RuleSet::read("used", ALL_FILES).expect("a test reads it")),
            false => given.unwrap_or_else(usual),
        };
        Self {
            ext4: match behaviour.ages {
                true => Ext4::new(&[], behaviour).with_inode_for_each(PER_INODE),
                false => Ext4::new(&[], behaviour),
            },
            rules,
            policy,
            options,
            half: switches.iter().any(|switch| switch == "half"),
        }
    }

    /// Shimmer: pools of zones for streams, with data moved where necessary.
    pub(super) fn pools(switches: &[String], behaviour: &Behaviour) -> Self {
        Self::new(switches, behaviour, Policy::Pools, Options::default())
    }

    /// `ZenFS`: zones by lifetimes, without moves.
    pub(super) fn zenfs(switches: &[String], behaviour: &Behaviour) -> Self {
        Self::new(switches, behaviour, Policy::Lifetimes, Options::zenfs())
    }

    /// The options with extents no larger than a zone.
    fn options(&self, limits: &ZoneLimits) -> Options {
        let zone = (limits.capacity * SECTOR).max(::shimmer::BLOCK);
        let whole = 1 << zone.ilog2();
        Options {
            extent: self.options.extent.min(Bytes(whole)),
            ..self.options
        }
    }
}

fn no_conventional() -> String {
    "placed files need a drive with some conventional zones, for the files that are not \
     placed"
        .to_owned()
}

impl Host for Shimmer {
    /// Names are those of ext4; contents are durable before the metadata that refers to them.
    fn promises(&self) -> Promises {
        self.ext4.promises()
    }

    /// Files that are not placed are written in place: some zones become conventional.
    //= dissertation 7
    fn shape(&self, drive: &mut DriveConfig) {
        let Some(zones) = drive.zones.filter(|zones| zones.conventional == 0) else {
            return;
        };
        let bytes = match self.half {
            true => drive.capacity.0 / 2,
            false => (drive.capacity.0 / SHARE).max(LEAST),
        };
        let wanted = bytes.div_ceil(zones.size.0.max(1)) as u32;
        // A drive too small for them is rejected when the volume is made.
        if let Ok(shaped) = drive.with_conventional(wanted) {
            *drive = shaped;
        }
    }

    async fn format(&self, sim: &Sim, device: &Attached, now: Timestamp) -> Made<()> {
        if let Some(zones) = device.zone_disk() {
            let limits = zones.limits();
            if limits.conventional == 0 {
                return Err(no_conventional());
            }
            let cleared = host::Linear::new(sim, zones.clone()).clear().await;
            cleared.map_err(|error| error.to_string())?;
            let made = placed::format(&zones, self.options(&limits), VOLUME).await;
            made.map_err(|error| error.to_string())?;
        }
        let ordinary = Disk::from(&Ordinary::of(sim, device.disk(), device.zone_disk()));
        self.ext4.format_on(&ordinary, now).await
    }

    async fn mount(&self, sim: &Sim, device: &Attached, now: Timestamp) -> Made<AnyBody> {
        let ordinary = Disk::from(&Ordinary::of(sim, device.disk(), device.zone_disk()));
        let below = self.ext4.mount_on(sim, &ordinary, now).await?;
        let zones = device.zone_disk();
        let limits = zones.as_ref().map_or(ZoneLimits::NONE, ZonedPort::limits);
        let chooser = Chooser::new(&self.rules, self.policy, limits.max_open);
        let chooser = chooser.with_handles(device.handles());
        let how = (chooser, self.options(&limits));
        let mounted = Placed::mount(sim, below, zones, how, FILE_SYSTEM).await;
        mounted
            .map(AnyBody::from)
            .map_err(|error| error.to_string())
    }

    fn check(&self, image: &DriveImage<'_>) -> Vec<String> {
        let mut findings = check_ext4(image);
        if let Some((limits, reports)) = image.zones_at_rest() {
            let options = self.options(&limits);
            findings.extend(placed::check(image, &limits, &reports, options));
        }
        findings
    }

    fn ask_outside(&self, image: &DriveImage<'_>, recover: bool) -> Said {
        ask_e2fsck(image, recover)
    }
}
