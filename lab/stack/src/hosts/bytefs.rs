//! ByteFS as the host of a stack.
//!
//! Firmware without a battery has no transactions. There ByteFS is its variant ByteFS-Dual, whose
//! undo journal on the host makes changes atomic.

use super::{Behaviour, Host, Made, Promises, Said, Switch, ask_e2fsck, check_ext4, fit, undo};
use crate::attached::Attached;
use crate::files::FILE_SYSTEM;
use crate::image::DriveImage;
use bytefs::{Data, Options, Variant, dual, mkfs_options};
use crash::Settles;
use extfs::{BLOCK, MkfsOptions};
use host::{BlockPort, BytePort};
use sim::Sim;
use ssd::DriveConfig;
use ssd::front::FrontConfig;
use units::Bytes;
use vfs::{AnyBody, Timestamp};

/// The switch with which calls wait for their commit.
pub(super) const STRICT: Switch = (
    "strict",
    "each call that changes names or attributes waits for its commit, instead of the next sync",
);

/// The switches of ByteFS, with their help.
pub(super) const SWITCHES: &[Switch] = &[
    STRICT,
    ("discard", "freed blocks are deallocated on the drive"),
    (
        "journal",
        "writes of contents are as atomic as those of metadata; large ones go through a block \
         journal",
    ),
    (
        "divided",
        "an eighth of the drive's DRAM is the log and the rest a page cache, as in SkyByte",
    ),
];

/// With a divided memory, one in this many bytes of the drive's memory is its log: 64 MB of 512 MB.
//= skybyte 6.1
const LOG_SHARE: u64 = 8;

/// ByteFS with its options.
#[derive(Clone)]
pub struct ByteFs {
    options: Options,
    divided: bool,
}

impl ByteFs {
    pub(super) fn new(switches: &[String], variant: Variant, behaviour: &Behaviour) -> Self {
        let has = |name: &str| switches.iter().any(|switch| switch == name);
        let options = Options {
            variant,
            data: match has("journal") {
                true => Data::Journal,
                false => Data::Ordered,
            },
            discard: has("discard"),
            placed: true,
            origin: FILE_SYSTEM,
            ..promised(switches, behaviour)
        };
        Self {
            options,
            divided: has("divided"),
        }
    }
}

/// Options of when transactions commit.
pub(super) fn promised(switches: &[String], behaviour: &Behaviour) -> Options {
    let usual = Options::default();
    Options {
        strict: switches.iter().any(|switch| switch == STRICT.0),
        commit_interval: behaviour.commit_interval.unwrap_or(usual.commit_interval),
        ..usual
    }
}

/// The guarantees of ByteFS: changes of names become durable in order, with the call if it is
/// strict, else with a force.
pub(super) fn promises(options: &Options) -> Promises {
    Promises {
        settles: match options.strict {
            true => Settles::Names,
            false => Settles::Nothing,
        },
        in_order: !options.strict,
        ..Promises::LAZY
    }
}

/// Divides the memory of a drive, all of it log, into log and page cache.
fn divide(front: &mut FrontConfig) {
    let all = front.log.bytes.0;
    let log = (all / LOG_SHARE).next_multiple_of(BLOCK as u64);
    front.log.bytes = Bytes(log);
    front.cache.bytes = Bytes(all.saturating_sub(log));
}

impl Host for ByteFs {
    /// The DRAM has the same size, divided or not.
    fn shape(&self, drive: &mut DriveConfig) {
        fit(drive, true);
        if let Some(front) = drive.front.as_mut().filter(|_| self.divided) {
            divide(front);
        }
    }

    fn promises(&self) -> Promises {
        promises(&self.options)
    }

    async fn format(&self, _: &Sim, device: &Attached, now: Timestamp) -> Made<()> {
        let blocks = device.capacity().0 / BLOCK as u64;
        let journals = self.options.data == Data::Journal;
        if !device.bytes().has_transactions() {
            return match journals {
                true => Err(
                    "+journal needs transactions, and firmware without a battery has none"
                        .to_owned(),
                ),
                false => undo::format(device, now).await,
            };
        }
        let journal_blocks = MkfsOptions::new(blocks).journal_blocks;
        let layout = MkfsOptions {
            now,
            journal_blocks: journal_blocks.filter(|_| journals),
            ..mkfs_options(blocks)
        };
        let made = bytefs::format(&device.bytes(), &layout).await;
        made.map_err(|error| error.to_string())
    }

    async fn mount(&self, sim: &Sim, device: &Attached, now: Timestamp) -> Made<AnyBody> {
        let options = Options {
            start: now,
            ..self.options
        };
        if !device.bytes().has_transactions() {
            let mounted = dual::mount(sim, &device.bytes(), options).await;
            return mounted
                .map(|m| m.0.into())
                .map_err(|error| error.to_string());
        }
        let mounted = bytefs::mount(sim, &device.bytes(), options).await;
        mounted
            .map(|m| ::bytefs::into_any(m.0))
            .map_err(|error| error.to_string())
    }

    fn check(&self, image: &DriveImage<'_>) -> Vec<String> {
        check_ext4(image)
    }

    /// Once the drive has power after a cut, the image has no uncommitted lines: an outside checker
    /// needs no more than its own rules for unlinked inodes.
    fn ask_outside(&self, image: &DriveImage<'_>, recover: bool) -> Said {
        match image.has_transactions() {
            true => ask_e2fsck(image, recover),
            false => undo::ask_outside(image, recover),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ssd::Preset;

    #[test]
    fn divided_memory_keeps_its_total_size() {
        let shaped = |switches: &[&str]| {
            let switches: Vec<String> = switches.iter().map(|s| (*s).to_owned()).collect();
            let mut drive = (Preset::named("byte").unwrap().config)();
            ByteFs::new(&switches, Variant::Full, &Behaviour::default()).shape(&mut drive);
            ssd::Layout::new(&drive).expect("it can be built");
            let front = drive.front.unwrap();
            (front.log.bytes.0, front.cache.bytes.0)
        };
        let (all, none) = shaped(&[]);
        assert_eq!(none, 0);
        assert_eq!(shaped(&["divided"]), (all / 8, all - all / 8));
    }
}
