//! NOVA as the host of a stack.

use super::{Host, Made, Promises, Said};
use crate::attached::Attached;
use crate::files::FILE_SYSTEM;
use crate::image::DriveImage;
use crash::Settles;
use novafs::{MkfsOptions, MountOptions, NovaFs, check, mkfs};
use sim::Sim;
use vfs::{AnyBody, Timestamp};

/// NOVA, with as many cores as its `mkfs` has by default.
#[derive(Clone)]
pub struct Nova;

impl Host for Nova {
    fn promises(&self) -> Promises {
        Promises {
            settles: Settles::All,
            ..Promises::LAZY
        }
    }

    /// A mount with `init` makes NOVA, and deallocates nothing.
    fn deallocates(&self) -> bool {
        false
    }

    async fn format(&self, _: &Sim, device: &Attached, now: Timestamp) -> Made<()> {
        let options = MkfsOptions {
            now,
            origin: FILE_SYSTEM,
            ..MkfsOptions::default()
        };
        let made = mkfs(&device.bytes(), &options).await;
        made.map_err(|error| error.to_string())
    }

    async fn mount(&self, sim: &Sim, device: &Attached, _: Timestamp) -> Made<AnyBody> {
        let options = MountOptions {
            origin: FILE_SYSTEM,
        };
        let mounted = NovaFs::mount(sim, &device.bytes(), options).await;
        mounted
            .map(AnyBody::from)
            .map_err(|error| error.to_string())
    }

    fn check(&self, image: &DriveImage<'_>) -> Vec<String> {
        let findings = check(image);
        findings.iter().map(ToString::to_string).collect()
    }

    /// The format is our own: no outside checker knows it.
    fn has_outside(&self) -> bool {
        false
    }

    fn ask_outside(&self, _: &DriveImage<'_>, _: bool) -> Said {
        Ok(None)
    }
}
