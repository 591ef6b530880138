//! Recovery from a power cut after the last call.
//!
//! Invariant: time and traffic are those from power-on until the file system is mounted. Loading
//! the drive's DRAM is excluded, as the model keeps it by a battery.

use super::run::{ready, refused, wait};
use crate::attached::Attached;
use crate::error::StackError;
use crate::hosts::{AnyHost, Host};
use crate::plan::Plan;
use host::BlockDevice;
use report::record::Recovery;
use sim::{Kernel, Seed};
use ssd::{Drive, DriveMedia};
use units::Ns;
use vfs::Clock;

/// Cuts the power of the drive behind `port`, and recovers it as `host`. Also returns the counters
/// of the layer that was mounted on the way, and the drive's contents.
//= bytefs 5.5
pub(super) fn cut_and_recover(
    host: AnyHost,
    plan: &Plan,
    port: &Attached,
) -> Result<(Recovery, remap::Metrics, DriveMedia), StackError> {
    let seed = Seed(plan.seed);
    let device = port.device();
    let arrived = device.arriving(&mut seed.stream("arriving"));
    let media = device.drive().at_power_cut();
    let memory = port.memory_at_power_cut(&mut seed.stream("memory"));
    let kernel = Kernel::new();
    let (sim, config, host_config) = (kernel.sim(), plan.drive.clone(), plan.host);
    let (stack, named) = (plan.stack.to_string(), plan.stack.clone());
    let policies = plan.policies.clone();
    wait(&kernel, async move {
        let at = |problem: &dyn std::fmt::Display| refused(&stack, &problem);
        let drive = Drive::power_on(&sim, &config, media, seed).await;
        let drive = drive.map_err(|e| at(&e))?;
        drive.follow(policies);
        let powered = sim.now();
        let device = BlockDevice::after_cut(&sim, host_config, drive, arrived)?;
        let now = Clock::default().at(Ns::ZERO);
        let memory = (host.memory(), memory);
        let port = Attached::of(&sim, &device, &named, memory)?;
        ready(&port, None).await.map_err(|e| at(&e))?;
        let body = host.mount(&sim, &port, now).await;
        let body = body.map_err(|e| at(&e))?;
        let (mounted, ledger) = (sim.now(), device.drive().ledger());
        drop(body);
        let recovery = Recovery {
            time_ns: mounted.0,
            power_on_ns: powered.0,
            read_pages: ledger.reads.iter().sum(),
            program_pages: ledger.programmed_pages(),
        };
        let layer = port.layer().map(remap::Remap::metrics);
        let left = device.drive().at_power_cut();
        Ok((recovery, layer.unwrap_or_default(), left))
    })?
}
