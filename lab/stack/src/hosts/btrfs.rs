//! Btrfs as the host of a stack, with or without copy-on-write of contents.

use super::memory::Persistent;
use super::{Behaviour, Host, Made, Promises, Said, Switch, directed, memory};
use crate::attached::Attached;
use crate::files::FILE_SYSTEM;
use crate::image::{DriveImage, pieces_of};
use cowfs::{MkfsOptions, MountOptions, SECTOR};
use host::{BlockPort, Image};
use sim::Sim;
use vfs::{AnyBody, Timestamp};

/// The switches of Btrfs.
pub(super) const SWITCHES: &[Switch] = &[
    directed::SWITCH,
    ("discard", "freed space is deallocated on the drive"),
    ("dup", "two copies of each node of its trees"),
    ("nosums", "contents have no checksums"),
    memory::BUFFER,
    memory::OPTANE,
    memory::SLOW,
];

/// Btrfs with its options.
#[derive(Clone)]
pub struct Btrfs {
    options: MountOptions,
    dup: bool,
    memory: Option<Persistent>,
}

impl Btrfs {
    /// Btrfs with these switches; `in_place` overwrites contents without copying them.
    pub(super) fn new(switches: &[String], behaviour: &Behaviour, in_place: bool) -> Self {
        let has = |name: &str| switches.iter().any(|switch| switch == name);
        let usual = MountOptions::default();
        Self {
            options: MountOptions {
                discard: has("discard"),
                in_place,
                sums: !has("nosums"),
                origin: FILE_SYSTEM,
                interval: behaviour.commit_interval.unwrap_or(usual.interval),
                ..usual
            },
            dup: has("dup"),
            memory: Persistent::buffering(switches),
        }
    }

    /// The mount options at the time `now`.
    pub(super) const fn mount_options(&self, now: Timestamp) -> MountOptions {
        MountOptions {
            start: now,
            ..self.options
        }
    }
}

impl Host for Btrfs {
    /// A commit is of one instant; a force is of one file.
    fn promises(&self) -> Promises {
        Promises {
            in_order: true,
            alone: true,
            ..Promises::LAZY
        }
    }

    fn memory(&self) -> Option<Persistent> {
        self.memory
    }

    async fn format(&self, _: &Sim, device: &Attached, now: Timestamp) -> Made<()> {
        let options = MkfsOptions {
            now,
            dup: self.dup,
            ..MkfsOptions::new(device.capacity().0 / SECTOR as u64)
        };
        let made = cowfs::format(&device.disk(), &options).await;
        made.map_err(|error| error.to_string())
    }

    async fn mount(&self, sim: &Sim, device: &Attached, now: Timestamp) -> Made<AnyBody> {
        let mounted = cowfs::mount(sim, &device.disk(), self.mount_options(now)).await;
        mounted
            .map(|m| m.0.into())
            .map_err(|error| error.to_string())
    }

    fn has_snapshots(&self) -> bool {
        true
    }

    async fn keep(&self, body: &AnyBody, name: &[u8], now: Timestamp) -> Made<()> {
        let snapshots = cowfs::snapshots(body).ok_or("it has no snapshots")?;
        let kept = snapshots.snapshot(name, true, now).await;
        kept.map(drop).map_err(|errno| errno.to_string())
    }

    fn check(&self, image: &DriveImage<'_>) -> Vec<String> {
        let findings = cowfs::check(image);
        findings.iter().map(ToString::to_string).collect()
    }

    /// The image after a cut is consistent as of the last commit, whatever was forced since.
    fn ask_outside(&self, image: &DriveImage<'_>, _: bool) -> Said {
        let pieces = pieces_of(image);
        let pieces = pieces.iter().map(|(at, bytes)| (*at, &bytes[..]));
        crash::btrfs_check(image.blocks() * SECTOR as u64, pieces)
    }
}
