//! Persimmon as the host of a stack.

use super::{Behaviour, Host, Made, Promises, Said, Switch, directed, f2fs};
use crate::attached::Attached;
use crate::image::{DriveImage, pieces_of};
use host::Image;
use lfs::BLOCK;
use persimmon::{MkfsOptions, Options, Pages, Shown};
use sim::Sim;
use units::Bytes;
use vfs::{AnyBody, Timestamp};

/// The switches of Persimmon, with their help.
pub(super) const SWITCHES: &[Switch] = &[
    directed::SWITCH,
    (
        "paired",
        "a page of the metadata map after each block of metadata, instead of after each batch",
    ),
    (
        "lean",
        "at most 64 KiB of the metadata map in memory; the rest is read on demand",
    ),
];

/// Memory for the mapping of metadata under the lean switch.
const LEAN: Bytes = Bytes(64 * units::KIB);

/// Persimmon with its options.
#[derive(Clone)]
pub struct Persimmon {
    options: Options,
}

impl Persimmon {
    pub(super) fn new(switches: &[String], behaviour: &Behaviour) -> Self {
        let has = |name: &str| switches.iter().any(|switch| switch == name);
        let options = Options {
            pages: if has("paired") {
                Pages::Paired
            } else {
                Pages::Batched
            },
            memory: has("lean").then_some(LEAN),
            body: f2fs::body(&[], behaviour),
            ..Options::default()
        };
        Self { options }
    }
}

fn no_zones() -> String {
    "Persimmon needs a zoned drive, such as the preset zns".to_owned()
}

impl Host for Persimmon {
    fn promises(&self) -> Promises {
        f2fs::PROMISES
    }

    async fn format(&self, sim: &Sim, device: &Attached, now: Timestamp) -> Made<()> {
        let zones = device.zone_disk().ok_or_else(no_zones)?;
        let options = MkfsOptions {
            now,
            ..MkfsOptions::default()
        };
        let made = persimmon::format(sim, &zones, &options).await;
        made.map_err(|error| error.to_string())
    }

    async fn mount(&self, sim: &Sim, device: &Attached, _: Timestamp) -> Made<AnyBody> {
        let zones = device.zone_disk().ok_or_else(no_zones)?;
        let mounted = persimmon::mount(sim, &zones, self.options).await;
        mounted
            .map(|m| ::persimmon::into_any(m.0))
            .map_err(|error| error.to_string())
    }

    fn check(&self, image: &DriveImage<'_>) -> Vec<String> {
        persimmon::check(image)
    }

    /// The checker sees an image with everything at its place in F2FS.
    fn ask_outside(&self, image: &DriveImage<'_>, recover: bool) -> Said {
        let shown = match Shown::new(image) {
            Ok(shown) => shown,
            Err(error) => return Ok(Some(error.to_string())),
        };
        let pieces = pieces_of(&shown);
        let pieces = pieces.iter().map(|(at, bytes)| (*at, &bytes[..]));
        crash::fsck_f2fs(image.blocks() * BLOCK as u64, pieces, recover)
    }
}
