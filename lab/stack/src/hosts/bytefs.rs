//! ByteFS as the host of a stack.

use super::{Host, Made, Promises, Said, Switch, ask_e2fsck, check_ext4};
use crate::attached::Attached;
use crate::files::FILE_SYSTEM;
use crate::image::DriveImage;
use bytefs::{ByteFs as Strategy, Data, Options, Variant, mkfs_options};
use crash::Settles;
use extfs::{BLOCK, ExtFs, MkfsOptions};
use host::BlockPort;
use sim::Sim;
use vfs::Timestamp;

/// The switches of ByteFS.
pub(super) const SWITCHES: &[Switch] = &[
    ("discard", "freed blocks are deallocated on the drive"),
    (
        "journal",
        "contents are as atomic as metadata, large ones by way of a journal of blocks",
    ),
];

/// ByteFS with these options.
#[derive(Clone)]
pub struct ByteFs {
    options: Options,
}

impl ByteFs {
    pub(super) fn new(switches: &[String], variant: Variant) -> Self {
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
            ..Options::default()
        };
        Self { options }
    }
}

impl Host for ByteFs {
    type Body = ExtFs<Strategy<Attached>>;

    fn wants_log(&self) -> bool {
        true
    }

    /// Calls wait for their commit; pages of contents are written back later.
    fn promises(&self) -> Promises {
        Promises {
            settles: Settles::Names,
            ..Promises::LAZY
        }
    }

    async fn format(&self, _: &Sim, device: &Attached, now: Timestamp) -> Made<()> {
        let blocks = device.capacity().0 / BLOCK as u64;
        let journals = self.options.data == Data::Journal;
        let journal_blocks = MkfsOptions::new(blocks).journal_blocks;
        let layout = MkfsOptions {
            now,
            journal_blocks: journal_blocks.filter(|_| journals),
            ..mkfs_options(blocks)
        };
        let made = bytefs::format(device, &layout).await;
        made.map_err(|error| error.to_string())
    }

    async fn mount(&self, sim: &Sim, device: &Attached, now: Timestamp) -> Made<Self::Body> {
        let options = Options {
            start: now,
            ..self.options
        };
        let mounted = bytefs::mount(sim, device, options).await;
        mounted.map(|m| m.0).map_err(|error| error.to_string())
    }

    fn check(&self, image: &DriveImage<'_>) -> Vec<String> {
        check_ext4(image)
    }

    /// What a cut leaves is, once the drive has power, an image without uncommitted
    /// lines: others need no more than their own rules for unlinked inodes.
    fn ask_outside(&self, image: &DriveImage<'_>, recover: bool) -> Said {
        ask_e2fsck(image, recover)
    }
}
