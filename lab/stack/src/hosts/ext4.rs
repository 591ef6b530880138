//! ext4 as the host of a stack.

use super::{Behaviour, Host, Made, Promises, Said, Switch, ask_e2fsck, check_ext4, directed};
use crate::attached::Attached;
use crate::files::FILE_SYSTEM;
use crate::image::DriveImage;
use extfs::ext4::{self, Options};
use extfs::jbd2::Mode;
use extfs::{BLOCK, MkfsOptions};
use host::{BlockPort, Disk};
use sim::Sim;
use vfs::{AnyBody, Timestamp};

/// The switches of ext4, with their help.
pub(super) const SWITCHES: &[Switch] = &[
    directed::SWITCH,
    ("discard", "freed blocks are deallocated on the drive"),
    (
        "writeback",
        "contents are not flushed before the metadata that refer to them (data=writeback)",
    ),
    ("journal", "contents are journaled as well (data=journal)"),
];

/// ext4 with its options.
#[derive(Clone)]
pub struct Ext4 {
    options: Options,
    /// Bytes of the file system for each inode.
    per_inode: u64,
}

impl Ext4 {
    pub(super) fn new(switches: &[String], behaviour: &Behaviour) -> Self {
        let has = |name: &str| switches.iter().any(|switch| switch == name);
        let usual = Options::default();
        let options = Options {
            mode: match () {
                () if has("journal") => Mode::Journal,
                () if has("writeback") => Mode::Writeback,
                () => Mode::Ordered,
            },
            discard: has("discard"),
            placed: true,
            origin: FILE_SYSTEM,
            commit_interval: behaviour.commit_interval.unwrap_or(usual.commit_interval),
            ..usual
        };
        Self {
            options,
            per_inode: MkfsOptions::new(0).bytes_per_inode,
        }
    }

    /// The file system with an inode for each `bytes`.
    pub(super) const fn with_inode_for_each(self, bytes: u64) -> Self {
        Self {
            per_inode: bytes,
            ..self
        }
    }

    /// Makes the file system on any block port.
    pub(super) async fn format_on(&self, port: &Disk, now: Timestamp) -> Made<()> {
        let layout = MkfsOptions {
            now,
            bytes_per_inode: self.per_inode,
            ..MkfsOptions::new(port.capacity().0 / BLOCK as u64)
        };
        let made = ext4::format(port, &layout).await;
        made.map_err(|error| error.to_string())
    }

    /// Mounts the file system on any block port.
    pub(super) async fn mount_on(&self, sim: &Sim, port: &Disk, now: Timestamp) -> Made<AnyBody> {
        let options = Options {
            start: now,
            ..self.options
        };
        let mounted = ext4::mount(sim, port, options).await;
        mounted
            .map(|m| m.0.into())
            .map_err(|error| error.to_string())
    }
}

impl Host for Ext4 {
    fn promises(&self) -> Promises {
        Promises {
            in_order: true,
            stale: self.options.mode == Mode::Writeback,
            ..Promises::LAZY
        }
    }

    async fn format(&self, _: &Sim, device: &Attached, now: Timestamp) -> Made<()> {
        self.format_on(&device.disk(), now).await
    }

    async fn mount(&self, sim: &Sim, device: &Attached, now: Timestamp) -> Made<AnyBody> {
        self.mount_on(sim, &device.disk(), now).await
    }

    fn check(&self, image: &DriveImage<'_>) -> Vec<String> {
        check_ext4(image)
    }

    fn ask_outside(&self, image: &DriveImage<'_>, recover: bool) -> Said {
        ask_e2fsck(image, recover)
    }
}
