//! File systems over an undo journal of cache lines as hosts: PMFS and ByteFS-Dual.

use super::{Behaviour, Host, Made, Promises, Said, Switch, ask_e2fsck, check_ext4};
use crate::attached::Attached;
use crate::files::FILE_SYSTEM;
use crate::image::DriveImage;
use bytefs::dual;
use crash::Settles;
use extfs::lines::undo;
use extfs::{BLOCK, MkfsOptions, pmfs};
use host::BlockPort;
use sim::Sim;
use vfs::{AnyBody, Timestamp};

/// The switches of PMFS.
pub(super) const SWITCHES: &[Switch] = &[DISCARD];
/// The switches of ByteFS-Dual.
pub(super) const DUAL_SWITCHES: &[Switch] = &[super::bytefs::STRICT, DISCARD];

const DISCARD: Switch = ("discard", "freed blocks are deallocated on the drive");

/// Errors by which `e2fsck` refuses an image: for a foreign journal, or for a torn superblock
/// without copies.
const REFUSALS: [&str; 2] = [
    "Journal superblock has an unknown incompatible feature flag",
    "The superblock could not be read or does not describe a valid",
];

/// PMFS or ByteFS-Dual, with its options.
#[derive(Clone)]
pub enum Undoing {
    /// PMFS, whose calls are durable when they return.
    Pmfs(pmfs::Options),
    /// ByteFS-Dual, which promises as much as ByteFS.
    Dual(bytefs::Options),
}

impl Undoing {
    pub(super) fn pmfs(switches: &[String]) -> Self {
        Self::Pmfs(pmfs::Options {
            discard: discards(switches),
            origin: FILE_SYSTEM,
            ..pmfs::Options::default()
        })
    }

    pub(super) fn dual(switches: &[String], behaviour: &Behaviour) -> Self {
        Self::Dual(bytefs::Options {
            discard: discards(switches),
            placed: true,
            origin: FILE_SYSTEM,
            ..super::bytefs::promised(switches, behaviour)
        })
    }
}

fn discards(switches: &[String]) -> bool {
    switches.iter().any(|switch| switch == "discard")
}

impl Host for Undoing {
    /// Blocks are written before metadata refers to them.
    fn promises(&self) -> Promises {
        match self {
            Self::Pmfs(_) => Promises {
                settles: Settles::All,
                ..Promises::LAZY
            },
            Self::Dual(options) => super::bytefs::promises(options),
        }
    }

    async fn format(&self, _: &Sim, device: &Attached, now: Timestamp) -> Made<()> {
        format(device, now).await
    }

    async fn mount(&self, sim: &Sim, device: &Attached, start: Timestamp) -> Made<AnyBody> {
        let mounted = match *self {
            Self::Pmfs(options) => {
                pmfs::mount(sim, &device.bytes(), pmfs::Options { start, ..options }).await
            }
            Self::Dual(options) => {
                dual::mount(sim, &device.bytes(), bytefs::Options { start, ..options }).await
            }
        };
        mounted
            .map(|m| m.0.into())
            .map_err(|error| error.to_string())
    }

    fn check(&self, image: &DriveImage<'_>) -> Vec<String> {
        check_ext4(image)
    }

    fn ask_outside(&self, image: &DriveImage<'_>, recover: bool) -> Said {
        ask_outside(image, recover)
    }
}

/// Makes a file system with an undo journal.
pub(super) async fn format(device: &Attached, now: Timestamp) -> Made<()> {
    let layout = MkfsOptions {
        now,
        ..undo::mkfs_options(device.capacity().0 / BLOCK as u64)
    };
    let made = undo::format(&device.bytes(), &layout).await;
    made.map_err(|error| error.to_string())
}

/// The findings of `e2fsck`. After a cut it may refuse the image, while changes may have to be
/// undone.
pub(super) fn ask_outside(image: &DriveImage<'_>, recover: bool) -> Said {
    let refuses = |said: &String| REFUSALS.iter().any(|refusal| said.contains(refusal));
    let said = ask_e2fsck(image, false)?;
    Ok(said.filter(|said| !recover || !refuses(said)))
}
