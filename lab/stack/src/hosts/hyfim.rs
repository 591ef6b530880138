//! HyFiM as the host of a stack: Btrfs whose overwrites and nodes go through a mapping in
//! persistent memory.

use super::memory::Persistent;
use super::{Behaviour, Btrfs, Host, Made, Promises, Said, Switch, btrfs, memory};
use crate::attached::Attached;
use crate::image::DriveImage;
use host::SwapPort;
use sim::Sim;
use vfs::{AnyBody, Timestamp};

/// The switches of HyFiM: those of Btrfs without the hints, which no mapping uses, and those of its
/// memory.
pub(super) const SWITCHES: &[Switch] = &[
    btrfs::SWITCHES[1],
    btrfs::SWITCHES[2],
    btrfs::SWITCHES[3],
    memory::BUFFER,
    memory::OPTANE,
    memory::SLOW,
    (
        "lean",
        "journals of 64 KiB and 128 spare sectors, so that power cuts can hit either of them full",
    ),
];

/// HyFiM with its options.
#[derive(Clone)]
pub struct Hyfim {
    btrfs: Btrfs,
    memory: Persistent,
}

impl Hyfim {
    /// HyFiM with these switches and this behaviour.
    pub(super) fn new(switches: &[String], behaviour: &Behaviour) -> Self {
        Self {
            btrfs: Btrfs::new(switches, behaviour, false),
            memory: Persistent::swapping(switches),
        }
    }
}

impl Host for Hyfim {
    /// A force publishes all changes, as of one instant.
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

    async fn mount(&self, sim: &Sim, device: &Attached, now: Timestamp) -> Made<AnyBody> {
        if !device.has_swaps().await {
            return Err("the mapping and its memory could not be mounted".to_owned());
        }
        let options = self.btrfs.mount_options(now);
        let mounted = ::hyfim::mount_files(sim, &device.swaps(), options).await;
        mounted
            .map(|m| ::hyfim::into_any(m.0))
            .map_err(|error| error.to_string())
    }

    fn has_snapshots(&self) -> bool {
        true
    }

    async fn keep(&self, body: &AnyBody, name: &[u8], now: Timestamp) -> Made<()> {
        let snapshots = ::hyfim::snapshots(body).ok_or("it has no snapshots")?;
        let kept = snapshots.snapshot(name, true, now).await;
        kept.map(drop).map_err(|errno| errno.to_string())
    }

    fn check(&self, image: &DriveImage<'_>) -> Vec<String> {
        self.btrfs.check(image)
    }

    fn ask_outside(&self, image: &DriveImage<'_>, recover: bool) -> Said {
        self.btrfs.ask_outside(image, recover)
    }
}
