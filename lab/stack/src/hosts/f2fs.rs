//! F2FS as the host of a stack.

use super::{Behaviour, Host, Made, Promises, Said, Switch, directed};
use crate::attached::Attached;
use crate::files::FILE_SYSTEM;
use crate::image::{DriveImage, pieces_of};
use host::{BlockPort, Image};
use lfs::{BLOCK, MkfsOptions, MountOptions};
use sim::Sim;
use ssd::DriveConfig;
use vfs::{AnyBody, Timestamp};

/// The switches of F2FS, with their help.
pub(super) const SWITCHES: &[Switch] = &[
    directed::SWITCH,
    (
        "discard",
        "sections that become free are deallocated on the drive",
    ),
    (
        "lfs",
        "logs continue in free sections only and do not fill invalid blocks of used ones \
         (mode=lfs)",
    ),
    (
        "op10",
        "over-provisioning is 10 % plus the sections that cleaning needs, instead of the share \
         that leaves most space",
    ),
];

/// A checkpoint is of one instant; a force is of the nodes of one file. As in Linux its contents
/// are not flushed before its nodes; on zones the mount can tell which contents arrived.
pub(super) const PROMISES: Promises = Promises {
    in_order: true,
    alone: true,
    torn: true,
    ..Promises::LAZY
};

/// F2FS with its options.
#[derive(Clone)]
pub struct F2fs {
    options: MountOptions,
    /// Overprovisioning in hundredths of a percent; `None` for the default.
    overprovision: Option<u32>,
}

/// The mount options of the F2FS body that these switches select.
pub(super) fn body(switches: &[String], behaviour: &Behaviour) -> MountOptions {
    let has = |name: &str| switches.iter().any(|switch| switch == name);
    let usual = MountOptions::default();
    MountOptions {
        discard: has("discard"),
        placed: true,
        fills: !has("lfs"),
        origin: FILE_SYSTEM,
        interval: behaviour.commit_interval.unwrap_or(usual.interval),
        cleaning: behaviour.cleaning_interval.unwrap_or(usual.cleaning),
        read_only: behaviour.read_only,
    }
}

impl F2fs {
    pub(super) fn new(switches: &[String], behaviour: &Behaviour) -> Self {
        let tenth = switches.iter().any(|switch| switch == "op10");
        Self {
            options: body(switches, behaviour),
            overprovision: tenth.then_some(1_000),
        }
    }
}

impl Host for F2fs {
    fn promises(&self) -> Promises {
        PROMISES
    }

    /// F2FS writes its tables in place: some zones become conventional.
    fn shape(&self, drive: &mut DriveConfig) {
        let Some(zones) = drive.zones.filter(|zones| zones.conventional == 0) else {
            return;
        };
        let sequential = (drive.capacity.0 / zones.capacity.0.max(1)) as u32;
        let wanted = lfs::conventional_zones(zones.size, zones.capacity, sequential);
        // A drive too small for them is rejected when the file system is made.
        if let Ok(shaped) = drive.with_conventional(wanted) {
            *drive = shaped;
        }
    }

    async fn format(&self, sim: &Sim, device: &Attached, now: Timestamp) -> Made<()> {
        let options = MkfsOptions {
            now,
            overprovision: self.overprovision,
            ..MkfsOptions::new(device.capacity().0 / BLOCK as u64)
        };
        let made = lfs::format_drive(sim, &device.disk(), device.zone_disk(), &options).await;
        made.map_err(|error| error.to_string())
    }

    async fn mount(&self, sim: &Sim, device: &Attached, _: Timestamp) -> Made<AnyBody> {
        let mounted = lfs::mount_drive(sim, device.disk(), device.zone_disk(), self.options).await;
        mounted
            .map(|m| m.0.into())
            .map_err(|error| error.to_string())
    }

    fn check(&self, image: &DriveImage<'_>) -> Vec<String> {
        let findings = lfs::check(image);
        findings.iter().map(ToString::to_string).collect()
    }

    /// The image after a cut is consistent as of the last checkpoint, whatever was forced since.
    fn ask_outside(&self, image: &DriveImage<'_>, recover: bool) -> Said {
        let pieces = pieces_of(image);
        let pieces = pieces.iter().map(|(at, bytes)| (*at, &bytes[..]));
        crash::fsck_f2fs(image.blocks() * BLOCK as u64, pieces, recover)
    }
}
