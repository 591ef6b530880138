//! HyFiM as the host of a stack: Btrfs whose overwrites and nodes go through a mapping in
//! persistent memory.

use super::{Behaviour, Btrfs, Host, Made, Promises, Said, Switch, btrfs};
use crate::attached::Attached;
use crate::image::DriveImage;
use cowfs::CowFs;
use host::{PmConfig, PmMedia, SwapPort};
use hostftl::FtlConfig;
use hyfim::{HyfimConfig, Intra};
use sim::Sim;
use ssd::DriveConfig;
use units::{Bytes, KIB, Ns};
use vfs::Timestamp;

/// The switches of HyFiM: those of Btrfs but for the hints that no mapping takes, and of its
/// memory.
pub(super) const SWITCHES: &[Switch] = &[
    btrfs::SWITCHES[1],
    btrfs::SWITCHES[2],
    btrfs::SWITCHES[3],
    (
        "optane",
        "its memory takes 300 ns to load and 100 ns to flush, not none as in its paper",
    ),
    (
        "slow",
        "its memory takes 20 us to flush a line, so that a cut can meet cleaning meanwhile",
    ),
    (
        "lean",
        "journals of 64 KiB and 128 spare sectors, so that a cut can meet either full",
    ),
];

/// What a flush takes of memory as slow as no part is: publications take as long then as
/// cleaning does.
const SLOW_FLUSH: Ns = Ns::us(20);

/// Memory that survives power cuts, as a host wants it.
#[derive(Clone, Copy, Debug)]
pub struct Persistent {
    /// How long it takes.
    pub pm: PmConfig,
    lean: bool,
}

impl Persistent {
    /// What is kept there for a drive.
    pub(crate) const fn hyfim(&self, drive: &DriveConfig) -> HyfimConfig {
        let config = HyfimConfig::new(FtlConfig::of(drive));
        if !self.lean {
            return config;
        }
        HyfimConfig {
            ftl: FtlConfig {
                hidden: 128,
                ..config.ftl
            },
            journal: Bytes(64 * KIB),
        }
    }
}

/// What memory that survives power cuts holds.
#[derive(Clone, Debug, Default)]
pub enum Memory {
    /// Nothing yet.
    #[default]
    Blank,
    /// What was left.
    Left(PmMedia),
}

impl Memory {
    /// That of a host without any.
    pub(crate) const NONE: (Option<Persistent>, Self) = (None, Self::Blank);
}

/// HyFiM with these options.
#[derive(Clone)]
pub struct Hyfim {
    btrfs: Btrfs,
    memory: Persistent,
}

impl Hyfim {
    /// The file system.
    pub(super) fn new(switches: &[String], behaviour: &Behaviour) -> Self {
        let has = |name: &str| switches.iter().any(|switch| switch == name);
        let mut pm = PmConfig::default();
        if has("optane") {
            pm = pm.optane();
        }
        if has("slow") {
            pm.flush = SLOW_FLUSH;
        }
        Self {
            btrfs: Btrfs::new(switches, behaviour, false),
            memory: Persistent {
                pm,
                lean: has("lean"),
            },
        }
    }
}

impl Host for Hyfim {
    type Body = CowFs<Intra<Attached>>;

    /// A force publishes all that has changed, as of one instant.
    fn promises(&self) -> Promises {
        Promises {
            alone: false,
            ..self.btrfs.promises()
        }
    }

    fn memory(&self) -> Option<Persistent> {
        Some(self.memory)
    }

    async fn format(&self, sim: &Sim, device: &Attached, now: Timestamp) -> Made<()> {
        self.btrfs.format(sim, device, now).await
    }

    async fn mount(&self, sim: &Sim, device: &Attached, now: Timestamp) -> Made<Self::Body> {
        if !device.has_swaps().await {
            return Err("the mapping and its memory could not be mounted".to_owned());
        }
        let options = self.btrfs.mount_options(now);
        let mounted = cowfs::mount_with(sim, Intra::new(device.clone()), options).await;
        mounted.map(|m| m.0).map_err(|error| error.to_string())
    }

    fn has_snapshots(&self) -> bool {
        true
    }

    async fn keep(&self, body: &Self::Body, name: &[u8], now: Timestamp) -> Made<()> {
        let kept = body.snapshot(name, true, now).await;
        kept.map(drop).map_err(|errno| errno.to_string())
    }

    fn check(&self, image: &DriveImage<'_>) -> Vec<String> {
        self.btrfs.check(image)
    }

    fn ask_outside(&self, image: &DriveImage<'_>, recover: bool) -> Said {
        self.btrfs.ask_outside(image, recover)
    }
}
