//! Unmount of a file system after the last call, and a new mount.
//!
//! Invariant: all changes are durable before, so that times and traffic are those of a clean
//! unmount and of a mount.

use super::run::{ready, refused, unmount, wait};
use crate::attached::Attached;
use crate::error::StackError;
use crate::hosts::{AnyHost, Host};
use crate::plan::Plan;
use report::record::Remount;
use sim::Kernel;
use units::Ns;
use vfs::{AnyBody, Clock, Vfs};

/// Makes `vfs` durable, unmounts it from the drive behind `port` and mounts it again as `host`. Also
/// returns the counters of the layer that was mounted with it.
//= dissertation 4.6.5
pub(super) fn remount(
    kernel: &Kernel,
    plan: &Plan,
    vfs: &Vfs<AnyBody>,
    (host, port): (AnyHost, &Attached),
) -> Result<(Remount, remap::Metrics), StackError> {
    let (sim, stack) = (kernel.sim(), plan.stack.to_string());
    let live = vfs.clone();
    let synced = wait(kernel, async move { live.sync().await })?;
    synced.map_err(|errno| refused(&stack, &errno))?;
    let device = port.device();
    let (start, before) = (sim.now(), device.ledger());
    unmount(kernel, plan, (vfs, port))?;
    let (left, between) = (sim.now(), device.ledger());
    let (clock, port) = (sim.clone(), port.again());
    let mounted = wait(kernel, async move {
        let now = Clock::default().at(Ns::ZERO);
        ready(&port, None).await?;
        let body = host.mount(&clock, &port, now).await?;
        let at = clock.now();
        drop(body);
        let layer = port.layer().map(remap::Remap::metrics);
        port.close().await.map_err(|error| error.to_string())?;
        Ok::<_, String>((at, layer.unwrap_or_default()))
    })?;
    let (mounted, layer) = mounted.map_err(|problem| refused(&stack, &problem))?;
    let remount = Remount {
        unmount_ns: left.since(start).0,
        unmount_write_bytes: between.since(&before).write_bytes(),
        mount_ns: mounted.since(left).0,
        mount_read_bytes: device.ledger().since(&between).read_bytes(),
    };
    Ok((remount, layer))
}
