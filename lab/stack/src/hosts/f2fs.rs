//! F2FS as the host of a stack.

use super::{Behaviour, Host, Switch};
use crate::files::FILE_SYSTEM;
use crate::image::{DriveImage, pieces};
use crash::OutsideError;
use host::BytePort;
use lfs::{BLOCK, InPlace, LfsFs, MkfsOptions, MountOptions};
use sim::Sim;
use ssd::Drive;
use vfs::Timestamp;

/// The switches of F2FS.
pub(super) const SWITCHES: &[Switch] = &[
    (
        "discard",
        "sections that become free are deallocated on the drive",
    ),
    (
        "lfs",
        "logs go on in free sections only, and never fill gaps",
    ),
];

/// F2FS with these options.
#[derive(Clone)]
pub struct F2fs {
    options: MountOptions,
}

impl F2fs {
    pub(super) fn new(switches: &[String], behaviour: Behaviour) -> Self {
        let has = |name: &str| switches.iter().any(|switch| switch == name);
        let options = MountOptions {
            discard: has("discard"),
            placed: true,
            fills: !has("lfs"),
            origin: FILE_SYSTEM,
            ..MountOptions::default()
        };
        let interval = behaviour.commit_interval.unwrap_or(options.interval);
        let options = MountOptions {
            interval,
            ..options
        };
        Self { options }
    }
}

impl Host for F2fs {
    type Body<P: BytePort> = LfsFs<InPlace<P>>;

    /// A checkpoint is of one instant.
    fn has_one_order(&self) -> bool {
        true
    }

    fn forces_alone(&self) -> bool {
        true
    }

    /// Blocks are written before anything leads to them.
    fn shows_stale(&self) -> bool {
        false
    }

    async fn format<P: BytePort>(&self, device: &P, now: Timestamp) -> Result<(), String> {
        let options = MkfsOptions {
            now,
            ..MkfsOptions::new(device.capacity().0 / BLOCK as u64)
        };
        let made = lfs::format(device, &options).await;
        made.map_err(|error| error.to_string())
    }

    async fn mount<P: BytePort>(
        &self,
        sim: &Sim,
        device: &P,
        _: Timestamp,
    ) -> Result<Self::Body<P>, String> {
        let mounted = lfs::mount(sim, device, self.options).await;
        mounted.map(|m| m.0).map_err(|error| error.to_string())
    }

    fn check(&self, drive: &Drive) -> Vec<String> {
        let findings = lfs::check(&DriveImage(drive));
        findings.iter().map(ToString::to_string).collect()
    }

    /// What a cut leaves is sound as of the last checkpoint, whatever was forced since.
    fn ask_outside(&self, drive: &Drive, recover: bool) -> Result<Option<String>, OutsideError> {
        let pieces = pieces(drive);
        let pieces = pieces.iter().map(|(at, bytes)| (*at, &bytes[..]));
        crash::fsck_f2fs(drive.capacity().0, pieces, recover)
    }
}
