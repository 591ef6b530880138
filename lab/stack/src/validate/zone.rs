//! Times of single commands to zones.

use super::measure::Measured;
use super::rows::{Action, ZoneCommand};
use crate::error::StackError;
use crate::files::wait;
use host::{BlockDevice, HostConfig, Who, ZonedDevice, ZonedPort};
use sim::{Kernel, Seed, Sim};
use ssd::{Content, Drive, DriveConfig, Precondition, ZoneAction, ZoneStatus};
use units::{Extent, Ns, SECTOR};

/// Zones that get the command, one after the other.
const ZONES: u32 = 4;
/// Sectors of a write before the command: 128 KiB.
const STEP: u64 = 256;

/// Executes `command` on zones of a drive and measures its times.
pub(super) fn command(
    config: &DriveConfig,
    host: HostConfig,
    command: &ZoneCommand,
) -> Result<Measured, StackError> {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let refused = |source| StackError::Config {
        drive: config.name.clone(),
        source,
    };
    let media = Precondition::Fresh
        .media(config, Seed(1))
        .map_err(refused)?;
    let drive = Drive::ready(&sim, config, media, Seed(1)).map_err(refused)?;
    let device = BlockDevice::new(&sim, host, drive)?;
    let Some(port) = ZonedDevice::new(&device) else {
        return Err(StackError::Jobs(
            "zones, which the drive has not".to_owned(),
        ));
    };
    let command = command.clone();
    let times = wait(&kernel, async move {
        let mut times = Vec::new();
        for zone in 0..ZONES.min(port.limits().zones) {
            times.push(timed(&sim, &port, zone, &command).await?);
        }
        Ok::<_, ZoneStatus>(times)
    })?;
    let mut times: Vec<Ns> =
        times.map_err(|status| StackError::Jobs(format!("the command ({status})")))?;
    times.sort_unstable();
    let sum: u64 = times.iter().map(|time| time.0).sum();
    let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)].0 as f64;
    let mut measured = Measured::default();
    let known = [
        ("mean", sum as f64 / times.len() as f64),
        ("p50", at(50)),
        ("p99", at(99)),
    ];
    let known = known.map(|(name, ns)| (name.to_owned(), ns));
    measured.all.extend(known);
    Ok(measured)
}

/// Prepares `zone` and returns the time of the command to it.
async fn timed(
    sim: &Sim,
    port: &ZonedDevice,
    zone: u32,
    command: &ZoneCommand,
) -> Result<Ns, ZoneStatus> {
    let (limits, who) = (port.limits(), Who::default());
    let start = u64::from(zone) * limits.size;
    let is_first = matches!(command.action, Action::FirstWrite | Action::FirstAppend);
    if is_first || command.action == Action::Close {
        port.manage(zone, ZoneAction::Open).await?;
    }
    let blocks = (command.blocks * 8).min(limits.capacity);
    let mut at = 0;
    while at < blocks && !is_first {
        let count = STEP.min(blocks - at);
        let extent = Extent::new(start + at, count as u32);
        port.write(extent, Content::Nothing, who, false).await?;
        at += count;
    }
    if command.finished {
        port.manage(zone, ZoneAction::Finish).await?;
    }
    let begun = sim.now();
    let unit = (4096 / SECTOR) as u32;
    match command.action {
        Action::Open => port.manage(zone, ZoneAction::Open).await?,
        Action::Close => port.manage(zone, ZoneAction::Close).await?,
        Action::Finish => port.manage(zone, ZoneAction::Finish).await?,
        Action::Reset => port.manage(zone, ZoneAction::Reset).await?,
        Action::FirstWrite => {
            let extent = Extent::new(start, unit);
            port.write(extent, Content::Nothing, who, false).await?;
        }
        Action::FirstAppend => {
            let appended = port.append(zone, unit, Content::Nothing, who, false);
            appended.await?;
        }
    }
    let time = sim.now().since(begun);
    if matches!(command.action, Action::Open | Action::Close) || is_first {
        port.manage(zone, ZoneAction::Reset).await?;
    }
    Ok(time)
}
