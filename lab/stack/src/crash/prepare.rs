//! State of a drive before the run that is cut: file system, tree of the workload, snapshot.
//!
//! Invariant: free blocks hold stale data, so a file that refers to a block before it was written
//! is recognized.

use super::Cuts;
use crate::attached::Attached;
use crate::error::StackError;
use crate::files::{How, Origins, make_tree, mount, ready};
use crate::hosts::{AnyHost, Host, Memory};
use crate::plan::Plan;
use crate::used::{self, Rest as Start};
use crash::Shown;
use sim::{Kernel, Seed};
use ssd::DriveMedia;
use std::ops::ControlFlow;
use units::Ns;
use vfs::{
    Access, Body, CacheConfig, Clock, Compute, Errno, OpenFlags, Process, Source, Timestamp, Vfs,
};
use workload::files::FileWorkload;

/// Directory of the snapshot.
const KEPT: &[u8] = b"kept";
/// Pattern of stale blocks that are free at the start of a run, and bytes of them.
const LEFT_OVER: u64 = 0xb10c_5eed_0f0e_0d0c;
const LEFT_OVER_BYTES: u64 = 16 << 20;

/// A drive at rest, and the persistent memory of its host.
#[derive(Clone)]
pub(super) struct Rest(pub(super) DriveMedia, pub(super) Memory);

/// The time that the clock shows at each power-on.
pub(super) fn now() -> Timestamp {
    Clock::default().at(Ns::ZERO)
}

/// The contents that `cuts` begin with, for their `plan` with its drive in the host's shape.
pub(super) fn start(cuts: &Cuts, plan: &Plan) -> Result<Start, StackError> {
    if let Some(rest) = &cuts.rest {
        return Ok(rest.clone());
    }
    let media = plan.precondition.media(&plan.drive, Seed(plan.seed));
    let media = media.map_err(|source| StackError::Config {
        drive: plan.drive.name.clone(),
        source,
    })?;
    match plan.used {
        None => Ok(Start::new(media)),
        Some(used) => used::make(plan, used, media, &mut |_| ControlFlow::Continue(())),
    }
}

pub(super) fn refused(plan: &Plan, problem: impl std::fmt::Display) -> StackError {
    StackError::Mount {
        stack: plan.stack.to_string(),
        problem: problem.to_string(),
    }
}

/// Makes the file system, or mounts the used one, and makes the tree; returns the drive's contents
/// and those of the tree.
pub(super) fn prepare(
    host: &AnyHost,
    plan: &Plan,
    workload: &FileWorkload,
    start: Start,
    cache: CacheConfig,
) -> Result<(Rest, Shown), StackError> {
    let kernel = Kernel::new();
    let device = crate::run::attach(plan, start.media, &kernel)?;
    let drive = device.drive().clone();
    let memory = (host.memory(), start.memory);
    let port = Attached::of(&kernel.sim(), &device, &plan.stack, memory)?;
    let device = port.clone();
    let source = workload.open(Seed(plan.seed))?;
    let how = How::on(start.used.is_some(), false);
    let (host, sim, plan) = (host.clone(), kernel.sim(), plan.clone());
    kernel.block_on(async move {
        let at = |problem: String| refused(&plan, problem);
        let body = mount(host, sim.clone(), device.clone(), how)
            .await
            .map_err(at)?;
        let vfs = Vfs::mount(&sim, body, cache, Clock::default(), Compute::free());
        let mut origins = Origins::default();
        make_tree(&vfs, source.setup(), source.names(), &mut origins).await?;
        let soiled = soil(&vfs).await;
        soiled.map_err(|errno| at(errno.to_string()))?;
        let shown = Shown::read(vfs.body()).await;
        let shown = shown.map_err(|errno| at(errno.to_string()))?;
        let left = vfs.unmount().await;
        left.map_err(|errno| at(errno.to_string()))?;
        let closed = device.close().await;
        closed.map_err(|error| at(error.to_string()))?;
        let media = drive.shutdown().await;
        let memory = port.memory_at_power_cut(&mut Seed(0).stream("rest"));
        Ok((Rest(media, memory), shown))
    })
}

/// Takes a snapshot of all files; returns the drive's contents and those of the tree.
pub(super) fn kept(host: &AnyHost, plan: &Plan, rest: Rest) -> Result<(Rest, Shown), StackError> {
    let kernel = Kernel::new();
    let device = crate::run::attach(plan, rest.0, &kernel)?;
    let drive = device.drive().clone();
    let memory = (host.memory(), rest.1);
    let port = Attached::of(&kernel.sim(), &device, &plan.stack, memory)?;
    let (host, sim) = (host.clone(), kernel.sim());
    let done = kernel.block_on(async move {
        ready(&port, None).await?;
        let body = host.mount(&sim, &port, now()).await?;
        host.keep(&body, KEPT, now()).await?;
        let shown = Shown::read(&body).await.map_err(|e| e.to_string())?;
        body.unmount().await.map_err(|e| e.to_string())?;
        port.close().await.map_err(|e| e.to_string())?;
        let media = drive.shutdown().await;
        let memory = port.memory_at_power_cut(&mut Seed(0).stream("rest"));
        Ok((Rest(media, memory), shown))
    });
    done.map_err(|problem: String| refused(plan, problem))
}

/// Leaves stale data where the next files will be, so that the judges recognize a file that refers
/// to a block before it was written.
async fn soil<B: Body>(vfs: &Vfs<B>) -> vfs::Result<()> {
    let process = Process::new(vfs, Access::root());
    let name = b"/left over";
    let fd = process.open(name, OpenFlags::CREAT, 0o600).await?;
    let (pattern, len) = (LEFT_OVER, 1 << 20);
    for _ in 0..LEFT_OVER_BYTES / len {
        match process.write(fd, Source::Fill { pattern, len }).await {
            Err(Errno::ENOSPC) => break,
            written => drop(written?),
        }
    }
    process.fsync(fd).await?;
    process.close(fd).await?;
    process.unlink(name).await?;
    vfs.sync().await?;
    vfs.drop_caches().await
}
