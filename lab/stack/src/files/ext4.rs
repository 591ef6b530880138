//! ext4 as the host of a stack.

use super::origins::FILE_SYSTEM;
use super::run::run_files_on;
use crate::error::StackError;
use crate::name::StackName;
use crate::plan::{Plan, Progress};
use extfs::ext4::{Ext4Error, Options, format, mount};
use extfs::jbd2::{Jbd2, Mode};
use extfs::{BLOCK, ExtFs, MkfsOptions};
use host::{BlockDevice, BlockPort};
use report::record::Run;
use sim::Sim;
use ssd::DriveMedia;
use units::Ns;
use vfs::Clock;

/// The switches of ext4, and what each does.
pub(crate) const SWITCHES: &[(&str, &str)] = &[
    ("discard", "freed blocks are deallocated on the drive"),
    (
        "writeback",
        "contents are not forced before what leads to them",
    ),
    ("journal", "contents go through the journal too"),
];

/// Runs `plan` on an ext4 that is made anew on the drive.
///
/// # Errors
/// As [`run_files_on`].
pub(crate) fn run_on(
    plan: &Plan,
    media: DriveMedia,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Run, DriveMedia), StackError> {
    let options = options(&plan.stack);
    run_files_on(
        plan,
        media,
        |sim, device| make(sim, device, options),
        progress,
    )
}

fn options(stack: &StackName) -> Options {
    let has = |name: &str| stack.switches.iter().any(|switch| switch == name);
    Options {
        mode: match () {
            () if has("journal") => Mode::Journal,
            () if has("writeback") => Mode::Writeback,
            () => Mode::Ordered,
        },
        discard: has("discard"),
        placed: true,
        start: Clock::default().at(Ns::ZERO),
        origin: FILE_SYSTEM,
    }
}

async fn make(
    sim: Sim,
    device: BlockDevice,
    options: Options,
) -> Result<ExtFs<Jbd2<BlockDevice>>, Ext4Error> {
    let blocks = device.capacity().0 / BLOCK as u64;
    let layout = MkfsOptions {
        now: options.start,
        ..MkfsOptions::new(blocks)
    };
    format(&device, &layout).await?;
    let (body, _) = mount(&sim, &device, options).await?;
    Ok(body)
}
