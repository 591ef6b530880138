//! A run of a file workload: prepare a drive, make and mount a file system, make the workload's
//! tree, then execute its calls.
//!
//! Invariants: those of any run. Besides, work before the first call is neither timed nor counted;
//! pages that are dirty after the last call are written back and counted, so that every write shows
//! at the drive.

use super::drive::Drive;
use super::origins::Origins;
use super::recovery::cut_and_recover;
use super::remount::remount;
use super::room::Room;
use super::told::{self, Counted};
use super::tree::make_tree;
use crate::attached::Attached;
use crate::error::StackError;
use crate::fill;
use crate::hosts::{self, AnyHost, Host};
use crate::layer;
use crate::meter::Tally;
use crate::plan::{Ending, Plan};
use crate::run::{Before, Served, attach, check, close, outcome, refusals, write_out};
use crate::sight::{Running, Seen, drive_to_end};
use crate::steady::Windows;
use crate::timeline::{self, Sampled};
use crate::used::Rest;
use host::BlockDevice;
use report::record::{App, LatencySet, Run};
use sim::{Kernel, Seed, Sim};
use ssd::DriveMedia;
use std::cell::RefCell;
use std::fmt::Display;
use std::future::Future;
use std::rc::Rc;
use units::Ns;
use vfs::{AnyBody, Body, CacheStats, Clock, Compute, Errno, ExtentCounts, Vfs};
use workload::files::{FileWorkload, Source};

/// Runs `plan` with the file system of its stack from the contents `rest`, and returns those of the
/// drive afterwards.
///
/// # Errors
/// As [`crate::run()`], and if the file system has no room for the workload.
pub(crate) fn run_on(
    plan: &Plan,
    rest: Rest,
    seen: &mut Seen<'_>,
) -> Result<(Run, DriveMedia), StackError> {
    check(plan)?;
    let named = hosts::named(&plan.stack.host, &plan.stack.switches, &plan.behaviour);
    let none = || refused(&plan.stack.to_string(), &"there is no such file system");
    run_host((named.ok_or_else(none)?, plan), rest, seen)
}

fn run_host(
    (host, plan): (AnyHost, &Plan),
    rest: Rest,
    seen: &mut Seen<'_>,
) -> Result<(Run, DriveMedia), StackError> {
    let workload = FileWorkload::parse(&plan.workload)?;
    let source = (workload.open(Seed(plan.seed))?, Origins::default());
    let (kernel, again) = (Kernel::new(), host.clone());
    let sim = kernel.sim();
    let device = attach(plan, rest.media, &kernel)?;
    let port = Attached::of(&sim, &device, &plan.stack, (host.memory(), rest.memory))?;
    let how = How::on(rest.used.is_some(), plan.behaviour.keep);
    let mounted = mount(host, sim.clone(), port.clone(), how);
    let (vfs, source, origins) = prepare(&kernel, plan, &device, mounted, source)?;
    let (before, origin, cached) = (Before::now(&port), sim.now(), vfs.stats());
    let was = before.remap;
    let (counted, windows) = (Counted::of(vfs.body(), &port), Windows::new(&device));
    let drive = Drive::start(&sim, &vfs, source, origins, plan.sample.is_some());
    let samples = timeline::start(&sim, plan.sample, &device, &drive, origin);
    drive_to_end(&kernel, (&*drive, &device, &windows), origin, seen)?;
    let failure = drive.failure().map(|error| explained(error, &vfs));
    failure.map_or(Ok(()), Err)?;
    let samples = timeline::finish(&samples, sim.now().since(origin), &device, &*drive);
    let served = served(&drive, &vfs.stats(), &cached);
    let at = (before, &device, samples, sim.events());
    let mut outcome = outcome(plan, workload.text, drive.notes(), served, at, &windows);
    outcome.refusals = refusals(&vfs.body().refusals(), &port, origin);
    outcome.file_system = Some(told::file_system((vfs.body(), &port), counted, None));
    outcome.remap = port.layer().map(|layer| layer::told(layer, &was));
    outcome.look_at_mapping(&port);
    if plan.ending == Ending::PowerCut {
        let (recovery, mounted, left) = cut_and_recover(again, plan, &port)?;
        outcome.recovery = Some(recovery);
        let layer = outcome.remap.iter_mut();
        layer.for_each(|remap| layer::mounted(remap, &mounted));
        return Ok((fill::record(&outcome), left));
    }
    let remount = match plan.ending {
        Ending::Remount => Some(remount(&kernel, plan, &vfs, (again, &port))?),
        _ => {
            unmount(&kernel, plan, (&vfs, &port))?;
            None
        }
    };
    outcome.remap = port.layer().map(|layer| layer::told(layer, &was));
    if let (Some((_, mounted)), Some(remap)) = (&remount, &mut outcome.remap) {
        layer::mounted(remap, mounted);
    }
    outcome.remount = remount.map(|(remount, _)| remount);
    outcome.look_at_mapping(&port);
    let extents = count_extents(&kernel, plan, &vfs)?;
    outcome.file_system = Some(told::file_system((vfs.body(), &port), counted, extents));
    outcome.refusals = refusals(&vfs.body().refusals(), &port, origin);
    if let Some(app) = &mut outcome.served.app {
        // Like the traffic, it includes pages that were dirty after the last call.
        app.written_back_pages = vfs.stats().written_back - cached.written_back;
    }
    let left = write_out(&kernel, device.drive());
    Ok((fill::record(&outcome), left))
}

/// `error`, with the limit that was hit if space ran out.
fn explained<B: Body>(error: StackError, vfs: &Vfs<B>) -> StackError {
    match (error, vfs.body().refusals().last()) {
        (StackError::Calls(text), Some(why)) if text.contains(Errno::ENOSPC.name()) => {
            StackError::Calls(format!("{text}; {why}"))
        }
        (error, _) => error,
    }
}

/// Opens the mapping and layer below a file system. `deallocates` formats the layer first, if set,
/// and says whether that deallocates the drive.
pub(crate) async fn ready(device: &Attached, deallocates: Option<bool>) -> Result<(), String> {
    if let Some(deallocates) = deallocates {
        let made = device.format(deallocates).await;
        made.map_err(|error| error.to_string())?;
    }
    device.open().await.map_err(|error| error.to_string())
}

/// The file system that a run starts with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    /// A new one; if `keep`, the drive's contents are not deallocated.
    Make { keep: bool },
    /// The one on the drive.
    Mount,
}

impl How {
    /// The file system on a used stack, or else a new one.
    pub(crate) const fn on(is_used: bool, keep: bool) -> Self {
        match is_used {
            true => Self::Mount,
            false => Self::Make { keep },
        }
    }
}

/// Mounts a file system on `device`, and makes it before that if `how` says so.
pub(crate) async fn mount(
    host: AnyHost,
    sim: Sim,
    device: Attached,
    how: How,
) -> Result<AnyBody, String> {
    let now = Clock::default().at(Ns::ZERO);
    match how {
        How::Make { keep } => {
            device.keep(keep);
            ready(&device, Some(host.deallocates())).await?;
            host.format(&sim, &device, now).await?;
            device.keep(false);
        }
        How::Mount => ready(&device, None).await?,
    }
    host.mount(&sim, &device, now).await
}

/// A mounted file system with the tree of a source, the source, and the origins of its files.
type Prepared<B, S> = (Vfs<B>, S, Origins);

/// Mounts the file system, and makes the tree of `source`, whose files have origins of `origins`.
pub(crate) fn prepare<B: Body, S: Source + 'static>(
    kernel: &Kernel,
    plan: &Plan,
    device: &BlockDevice,
    mounted: impl Future<Output = Result<B, impl Display + 'static>> + 'static,
    (source, mut origins): (S, Origins),
) -> Result<Prepared<B, S>, StackError> {
    let (sim, device, stack) = (kernel.sim(), device.clone(), plan.stack.to_string());
    let (config, room) = (plan.page_cache, Room::of(plan));
    wait(kernel, async move {
        let body = mounted.await.map_err(|e| refused(&stack, &e))?;
        room.check(&body.stat(), source.setup())?;
        let compute = Compute::of(&device);
        let vfs = Vfs::mount(&sim, body, config, Clock::default(), compute);
        make_tree(&vfs, source.setup(), source.names(), &mut origins).await?;
        Ok((vfs, source, origins))
    })?
}

pub(crate) fn refused(stack: &str, problem: &impl Display) -> StackError {
    StackError::Mount {
        stack: stack.to_owned(),
        problem: problem.to_string(),
    }
}

/// Unmounts cleanly, with all data durable, and closes the layer below.
pub(crate) fn unmount<B: Body>(
    kernel: &Kernel,
    plan: &Plan,
    (vfs, port): (&Vfs<B>, &Attached),
) -> Result<(), StackError> {
    let vfs = vfs.clone();
    let left = wait(kernel, async move { vfs.unmount().await })?;
    left.map_err(|errno| refused(&plan.stack.to_string(), &errno))?;
    if !port.has_layer() {
        return Ok(());
    }
    let closed = close(kernel, port)?;
    closed.map_err(|error| refused(&plan.stack.to_string(), &error))
}

/// Counts the pieces of the drive that hold files. Their index is in memory, or is read again: a
/// body keeps no counter.
fn count_extents<B: Body>(
    kernel: &Kernel,
    plan: &Plan,
    vfs: &Vfs<B>,
) -> Result<Option<ExtentCounts>, StackError> {
    let vfs = vfs.clone();
    let counted = wait(kernel, async move { vfs.body().count_extents().await })?;
    counted.map_err(|errno| refused(&plan.stack.to_string(), &errno))
}

/// Advances time until `future` is ready.
pub(crate) fn wait<T: 'static>(
    kernel: &Kernel,
    future: impl Future<Output = T> + 'static,
) -> Result<T, StackError> {
    let slot = Rc::new(RefCell::new(None));
    let filled = Rc::clone(&slot);
    kernel.sim().spawn_detached(async move {
        let result = future.await;
        *filled.borrow_mut() = Some(result);
    });
    loop {
        if let Some(result) = slot.borrow_mut().take() {
            return Ok(result);
        }
        if !kernel.step() {
            return Err(StackError::Stuck { in_flight: 1 });
        }
    }
}

fn served<B: Body, S: Source + 'static>(
    drive: &Drive<B, S>,
    now: &CacheStats,
    before: &CacheStats,
) -> Served {
    let meter = drive.meter();
    let mismatches = meter.mismatches.iter();
    Served {
        ops: meter.completed,
        errors: meter.reasons(),
        latency: meter.latencies(),
        span: meter.last,
        labels: drive.labels(),
        operations: meter.operations(),
        jobs: (Vec::new(), Vec::new()),
        app: Some(App {
            read_bytes: meter.read,
            write_bytes: meter.written,
            cache_hits: now.hits - before.hits,
            cache_misses: now.misses - before.misses,
            read_ahead_pages: now.read_ahead - before.read_ahead,
            written_back_pages: now.written_back - before.written_back,
            evicted_pages: now.evicted - before.evicted,
            throttled_ns: now.throttled_time.since(before.throttled_time).0,
            mismatches: mismatches.map(|(m, &n)| (m.name(), n)).collect(),
        }),
    }
}

impl<B: Body, S: Source + 'static> Running for Drive<B, S> {
    fn is_done(&self) -> bool {
        Self::is_done(self)
    }

    fn ops(&self) -> u64 {
        self.meter().completed
    }

    fn in_flight(&self) -> u64 {
        Self::in_flight(self)
    }

    fn latencies(&self) -> LatencySet {
        self.meter().latencies()
    }
}

impl<B: Body, S: Source + 'static> Sampled for Drive<B, S> {
    fn is_done(&self) -> bool {
        Self::is_done(self)
    }

    fn stop(&self, error: StackError) {
        Self::stop(self, error);
    }

    fn with_interval(&self, take: &mut dyn FnMut(&mut Tally)) {
        self.meter_mut().interval.iter_mut().for_each(take);
    }
}
