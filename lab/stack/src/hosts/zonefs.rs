//! zonefs as the host of a stack.

use super::{Host, Made, Promises, Said};
use crate::attached::Attached;
use crate::files::FILE_SYSTEM;
use crate::image::DriveImage;
use host::Image;
use sim::Sim;
use vfs::{AnyBody, Timestamp};
use zonefs::{Options, Superblock, ZoneFs};

/// zonefs, whose files are `seq/0` and so on.
#[derive(Clone)]
pub struct Zonefs;

fn no_zones() -> String {
    "zonefs needs a zoned drive, such as the preset zns".to_owned()
}

impl Host for Zonefs {
    /// A file is as long as the written part of its zone, and contains nothing else.
    fn promises(&self) -> Promises {
        Promises::LAZY
    }

    async fn format(&self, _: &Sim, device: &Attached, _: Timestamp) -> Made<()> {
        let zones = device.zone_disk().ok_or_else(no_zones)?;
        let made = zonefs::mkfs(&zones, &Superblock::default(), FILE_SYSTEM).await;
        made.map_err(|error| error.to_string())
    }

    async fn mount(&self, sim: &Sim, device: &Attached, _: Timestamp) -> Made<AnyBody> {
        let options = Options {
            origin: FILE_SYSTEM,
            ..Options::default()
        };
        let zones = device.zone_disk().ok_or_else(no_zones)?;
        let mounted = ZoneFs::mount(sim, &zones, options).await;
        mounted
            .map(AnyBody::from)
            .map_err(|error| error.to_string())
    }

    /// The medium holds only a superblock.
    fn check(&self, image: &DriveImage<'_>) -> Vec<String> {
        let mut block = [0; zonefs::BLOCK];
        if !image.read(0, &mut block) {
            return vec!["the superblock cannot be read".to_owned()];
        }
        let superblock = Superblock::decode(&block);
        superblock
            .err()
            .map(|e| e.to_string())
            .into_iter()
            .collect()
    }

    /// Outside checkers need the device file of a zoned drive.
    fn has_outside(&self) -> bool {
        false
    }

    fn ask_outside(&self, _: &DriveImage<'_>, _: bool) -> Said {
        Ok(None)
    }
}
