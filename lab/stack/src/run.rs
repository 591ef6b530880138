//! A run: prepare a drive, attach a host, drive a workload to its end.
//!
//! Invariants: a run is a function of its plan; any plan ends with a record or with an error.
//! Counters are read after the drive has written out its buffer, so that every write is also
//! counted at the flash; times and busy shares end with the last request.

use crate::attached::{AttachError, Attached};
use crate::drive::checked;
use crate::error::StackError;
use crate::layer::{self, Kind};
use crate::meter::Meter;
use crate::name::{StackName, kind_of};
use crate::past;
use crate::placement;
use crate::plan::{Ending, Plan, Progress, Until};
use crate::replay::threads::Threads;
use crate::replay::{Again, IN_FLIGHT, Replay};
use crate::sight::{Running, Seen, Sight, drive_to_end};
use crate::steady::Windows;
use crate::timeline::{self, Sampled};
use crate::used::{self, Rest};
use crate::{files, fill, hosts};
use host::{BlockDevice, BlockPort, Busy};
use report::record::{
    App, FileSystem, JobResult, Latency, LatencySet, Recovery, Remapped, Remount, Run, Sample,
};
use sim::{Kernel, Seed};
use ssd::{ConfigError, Drive, DriveMedia, Interface, IoError, Precondition};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::rc::Rc;
use units::{Bytes, Ns, Refusals, Refused};
use workload::{Labels, Pacing, Placing, Workload, WorkloadError};

/// The requests of a run and their results.
pub(crate) struct Served {
    pub(crate) ops: u64,
    /// Number of failed requests by reason.
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) latency: LatencySet,
    /// Virtual time from the first request to the last completion.
    pub(crate) span: Ns,
    /// Names of the origins of requests.
    pub(crate) labels: Labels,
    /// Counters of programs on a file system; `None` for block requests.
    pub(crate) app: Option<App>,
    /// Latencies of operations of a storage engine, by kind.
    pub(crate) operations: BTreeMap<String, Latency>,
    /// Results of the jobs of a fio file, and of their groups.
    pub(crate) jobs: (Vec<JobResult>, Vec<JobResult>),
}

/// Counters at the time of the first request. Work of a file system before that, to make the tree
/// of a workload, is not part of the run.
#[derive(Clone, Default)]
pub(crate) struct Before {
    pub(crate) remap: remap::Metrics,
    /// Lines that the host's mapping had cleaned.
    lines_cleaned: u64,
    pub(crate) host: host::Ledger,
    pub(crate) drive: ssd::Ledger,
    pub(crate) erased_blocks: u64,
    flash_busy: (Ns, Ns),
    host_busy: Option<Busy>,
    stall: Ns,
}

impl Before {
    pub(crate) fn now(port: &Attached) -> Self {
        let device = port.device();
        let drive = device.drive();
        let ledger = drive.ledger();
        let layer = port.layer().map(remap::Remap::metrics);
        Self {
            remap: layer.unwrap_or_default(),
            lines_cleaned: port.lines_cleaned(),
            host: device.ledger(),
            erased_blocks: drive.flash_counters().erase_blocks,
            flash_busy: drive.flash_busy(),
            host_busy: Some(device.busy()),
            stall: Ns(ledger.stall_ns),
            drive: ledger,
        }
    }
}

/// The state of a run after its last completion.
pub(crate) struct Outcome {
    pub(crate) plan: Plan,
    pub(crate) workload: String,
    /// Parts of the workload's description that do not apply, one sentence each.
    pub(crate) notes: Vec<String>,
    /// The source of placement handles, if a block workload names them.
    pub(crate) placing: Option<Placing>,
    pub(crate) served: Served,
    pub(crate) device: BlockDevice,
    pub(crate) samples: Vec<Sample>,
    pub(crate) before: Before,
    /// Whether the run was steady at the last request; `None` if that does not apply.
    pub(crate) steady: Option<bool>,
    /// Windows completed by then, each of the drive's capacity in host writes.
    pub(crate) windows: u32,
    /// Busy time of all dies and of all channels up to the last request.
    pub(crate) flash_busy: (Ns, Ns),
    pub(crate) host_busy: Busy,
    /// Time for which host data waited for free lines, up to the last request.
    pub(crate) stall: Ns,
    pub(crate) events: u64,
    /// Recovery from a power cut after the last request; `None` without a cut.
    pub(crate) recovery: Option<Recovery>,
    /// Facts of the file system; `None` without one.
    pub(crate) file_system: Option<FileSystem>,
    /// Unmount and mount after the last request; `None` unless the plan ends so.
    pub(crate) remount: Option<Remount>,
    /// Limits that allocations hit; times are relative to the first request.
    pub(crate) refusals: Vec<Refused>,
    /// Counters of the remapping layer; `None` without one.
    pub(crate) remap: Option<Remapped>,
    /// Lines that the mapping of an open-channel drive has cleaned.
    pub(crate) lines_cleaned: u64,
}

impl Outcome {
    /// Updates the counters of the host's mapping.
    pub(crate) fn look_at_mapping(&mut self, port: &Attached) {
        self.lines_cleaned = port.lines_cleaned() - self.before.lines_cleaned;
    }
}

/// Limits that a file system, a layer, a mapping and the drive below them hit, in the order of
/// their first times, which are relative to `origin`.
pub(crate) fn refusals(of_body: &Refusals, port: &Attached, origin: Ns) -> Vec<Refused> {
    let zones = port.device().drive().zones();
    let of_drive = zones.map_or_else(Refusals::default, ssd::Zones::refusals);
    let layer = port.layer().map(remap::Remap::refusals).unwrap_or_default();
    let mapping = port.mapping_refusals();
    let mut met = [of_body.met(), layer.met(), mapping.met(), of_drive.met()].concat();
    for refused in &mut met {
        refused.first_at = Ns(refused.first_at.0.saturating_sub(origin.0));
    }
    met.sort_by_key(|refused| refused.first_at);
    met
}

/// Collects the counters of all resources between the first request and the last, which is now.
pub(crate) fn outcome(
    plan: &Plan,
    workload: String,
    notes: Vec<String>,
    served: Served,
    at: (Before, &BlockDevice, Vec<Sample>, u64),
    windows: &Windows,
) -> Outcome {
    let (before, device, samples, events) = at;
    let (dies, channels) = device.drive().flash_busy();
    let mut host_busy = device.busy();
    if let Some(then) = &before.host_busy {
        host_busy.to_drive = host_busy.to_drive.since(then.to_drive);
        host_busy.to_host = host_busy.to_host.since(then.to_host);
        for (now, then) in host_busy.cores.iter_mut().zip(&then.cores) {
            *now = now.since(*then);
        }
    }
    Outcome {
        plan: plan.clone(),
        workload,
        notes,
        placing: None,
        served,
        samples,
        steady: windows.verdict(device),
        windows: windows.closed(),
        flash_busy: (
            dies.since(before.flash_busy.0),
            channels.since(before.flash_busy.1),
        ),
        host_busy,
        stall: Ns(device.drive().ledger().stall_ns).since(before.stall),
        events,
        recovery: None,
        file_system: None,
        remount: None,
        refusals: Vec::new(),
        remap: None,
        lines_cleaned: 0,
        before,
        device: device.clone(),
    }
}

/// Runs `plan`, and calls `progress` from time to time. The record's wall time and memory are 0:
/// the caller measures them.
///
/// # Errors
/// If the plan cannot be built, if the workload cannot be read, or if a request does not fit the
/// drive.
pub fn run(plan: &Plan, progress: &mut dyn FnMut(Progress)) -> Result<Run, StackError> {
    run_while(plan, &mut |heard| {
        progress(heard);
        ControlFlow::Continue(())
    })
}

/// Runs `plan` as [`run()`] does, until `progress` breaks.
///
/// # Errors
/// As [`run()`], and [`StackError::Stopped`] if `progress` broke.
pub fn run_while(
    plan: &Plan,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Run, StackError> {
    let rest = used::rest(plan, progress)?;
    let heard = &mut |sight: &Sight<'_>| progress(sight.progress());
    Ok(run_on_while(plan, rest, heard)?.0)
}

/// The contents of the drive of `plan` with its precondition, before a file system is made on it.
///
/// # Errors
/// If the drive cannot be built.
pub fn media(plan: &Plan) -> Result<DriveMedia, StackError> {
    check(plan)?;
    let drive = &fitted(plan).drive;
    let media = plan.precondition.media(drive, Seed(plan.seed));
    media.map_err(|source| refused(plan, source))
}

/// Runs `plan` on a drive with the contents `media`, whatever the plan's precondition, and returns
/// the contents afterwards. Calls `seen` before the first event, from time to time, and after the
/// last request.
///
/// # Errors
/// The errors of [`run()`].
pub fn run_on(
    plan: &Plan,
    media: DriveMedia,
    seen: &mut dyn FnMut(&Sight<'_>),
) -> Result<(Run, DriveMedia), StackError> {
    run_from(plan, Rest::new(media), seen)
}

/// Runs `plan` from the contents `rest` of its stack, as [`run_on()`] does.
///
/// # Errors
/// The errors of [`run()`].
pub fn run_from(
    plan: &Plan,
    rest: Rest,
    seen: &mut dyn FnMut(&Sight<'_>),
) -> Result<(Run, DriveMedia), StackError> {
    let heard = &mut |sight: &Sight<'_>| {
        seen(sight);
        ControlFlow::Continue(())
    };
    run_on_while(plan, rest, heard)
}

fn run_on_while(
    plan: &Plan,
    rest: Rest,
    seen: &mut Seen<'_>,
) -> Result<(Run, DriveMedia), StackError> {
    check(plan)?;
    let plan = &*fitted(plan);
    if plan.stack.host == "raw" {
        return run_blocks_on(plan, rest.media, seen);
    }
    let used = rest.used;
    let (mut run, left) = files::run_on(plan, rest, seen)?;
    run.used = used;
    run.cautions = report::caution::of(&run);
    Ok((run, left))
}

/// `plan` with its drive adapted to the file system: the drive keeps data, since a file system
/// reads its own structures back, and its DRAM has the form that the file system needs.
pub(crate) fn fitted(plan: &Plan) -> Cow<'_, Plan> {
    let has_layer = Kind::of(&plan.stack).is_some();
    let drive = hosts::drive_for(&plan.stack, &plan.drive);
    let Some(mut drive) = drive.or_else(|| has_layer.then(|| plan.drive.clone())) else {
        return Cow::Borrowed(plan);
    };
    // A layer reads its tables back.
    drive.flash.keep_contents |= has_layer;
    let mut plan = plan.clone();
    plan.drive = drive;
    Cow::Owned(plan)
}

fn run_blocks_on(
    plan: &Plan,
    media: DriveMedia,
    seen: &mut Seen<'_>,
) -> Result<(Run, DriveMedia), StackError> {
    let handles = match plan.drive.interface {
        Interface::Block | Interface::Zoned | Interface::OpenChannel => 1,
        _ => {
            u32::from(plan.drive.placement.handles) * u32::from(plan.drive.placement.reclaim_groups)
        }
    };
    let workload = placement::parse(&plan.workload, handles)?;
    check_depth(&workload)?;
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let device = attach(plan, media, &kernel)?;
    let port = Attached::of(&sim, &device, &plan.stack, hosts::Memory::NONE)?;
    // The capacity offered to requests: zones have less room for sequential ones than the drive
    // has.
    let offered = match port.has_layer() {
        true => port.capacity(),
        false => plan.drive.capacity,
    };
    let seed = Seed(plan.seed);
    let windows = Rc::new(Windows::new(&device));
    let again = Again::new(plan.until, seed, &windows);
    let meter = Meter::new(plan.sample.is_some());
    let begun = Begun {
        kernel: &kernel,
        plan,
        port: &port,
        windows: &windows,
    };
    let Some(jobs) = workload.jobs() else {
        let stream = workload.open(offered, seed)?;
        open(&kernel, plan, &port)?;
        let start = || {
            let workload = (&workload, offered);
            Ok(Replay::start(&sim, &port, (stream, again), workload, meter))
        };
        return begun.finish(&workload, start, seen);
    };
    let zone = plan.drive.zones.map_or(Bytes(0), |zones| zones.capacity);
    let jobs = &jobs.in_zones(zone);
    let handles = u16::try_from(handles).unwrap_or(u16::MAX);
    let opened = jobs.open(offered, handles, seed);
    let mut opened = opened.map_err(WorkloadError::from)?;
    open(&kernel, plan, &port)?;
    let notes = std::mem::take(&mut opened.notes);
    let mut told = workload.clone();
    told.notes.extend(notes);
    let start = || {
        let jobs = (jobs.clone(), offered, handles);
        Threads::start(&sim, &port, jobs, opened, (&workload, again), meter)
    };
    begun.finish(&told, start, seen)
}

/// A run of block requests on a drive that is ready.
struct Begun<'a> {
    kernel: &'a Kernel,
    plan: &'a Plan,
    port: &'a Attached,
    windows: &'a Windows,
}

/// A source of block requests under way.
trait Requests: Running + Sampled {
    /// Takes the error that stopped the run; `None` without one.
    fn failure(&self) -> Option<StackError>;

    /// Deviations from the workload, one sentence each.
    fn notes(&self) -> Vec<String>;

    /// The requests and their results.
    fn served(&self) -> Served;
}

impl Begun<'_> {
    /// Runs the requests that `start` starts to their end.
    fn finish<R: Requests + 'static>(
        self,
        workload: &Workload,
        start: impl FnOnce() -> Result<Rc<R>, StackError>,
        seen: &mut Seen<'_>,
    ) -> Result<(Run, DriveMedia), StackError> {
        let Self {
            kernel,
            plan,
            port,
            windows,
        } = self;
        let (sim, device) = (kernel.sim(), port.device());
        let (before, origin) = (Before::now(port), sim.now());
        let run = start()?;
        let samples = timeline::start(&sim, plan.sample, device, &run, origin);
        drive_to_end(kernel, (&*run, device, windows), origin, seen)?;
        run.failure().map_or(Ok(()), Err)?;
        let samples = timeline::finish(&samples, sim.now().since(origin), device, &*run);
        let mut notes = workload.notes.clone();
        notes.extend(run.notes());
        let at = (before, device, samples, sim.events());
        let text = workload.text.clone();
        let mut outcome = outcome(plan, text, notes, run.served(), at, windows);
        outcome.placing = Some(workload.placing());
        concluded(kernel, port, outcome, origin)
    }
}

/// Writes out all buffers after the last request of a run that began at `origin`, and returns the
/// record of `outcome` and the contents of the drive.
pub(crate) fn concluded(
    kernel: &Kernel,
    port: &Attached,
    mut outcome: Outcome,
    origin: Ns,
) -> Result<(Run, DriveMedia), StackError> {
    // A failure to write back shows in the requests that failed.
    let _ = close(kernel, port)?;
    outcome.refusals = refusals(&Refusals::default(), port, origin);
    let was = outcome.before.remap;
    outcome.remap = port.layer().map(|layer| layer::told(layer, &was));
    outcome.look_at_mapping(port);
    let left = write_out(kernel, outcome.device.drive());
    Ok((fill::record(&outcome), left))
}

impl Requests for Replay {
    fn failure(&self) -> Option<StackError> {
        Self::failure(self)
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.stream.borrow().notes().sentences();
        notes.extend(self.passes_sentence());
        notes
    }

    fn served(&self) -> Served {
        served(&self.meter.borrow(), self.stream.borrow().labels())
    }
}

impl Requests for Threads {
    fn failure(&self) -> Option<StackError> {
        Self::failure(self)
    }

    fn notes(&self) -> Vec<String> {
        self.passes_sentence().into_iter().collect()
    }

    fn served(&self) -> Served {
        self.read(|meter, labels, results| Served {
            jobs: (results.jobs(), results.groups()),
            ..served(meter, labels)
        })
    }
}

/// Mounts the host's mapping of a drive, and formats and preconditions the layer above it, before
/// the clock of a run starts.
pub(crate) fn open(kernel: &Kernel, plan: &Plan, port: &Attached) -> Result<(), StackError> {
    if !port.is_mapped() {
        return Ok(());
    }
    let (port, past, seed) = (port.clone(), plan.precondition, Seed(plan.seed));
    let opened = files::wait(kernel, async move {
        // A drive with a precondition keeps its contents.
        port.format(past == Precondition::Fresh).await?;
        port.open().await?;
        if port.has_layer() {
            layer::fill(&port, past, seed).await?;
        }
        if let Some(layer) = port.layer() {
            layer.forget_refusals();
        }
        Ok(())
    })?;
    opened.map_err(|source| attach_failed(&plan.stack, source))
}

pub(crate) fn attach_failed(stack: &StackName, source: AttachError) -> StackError {
    StackError::Attach {
        stack: stack.to_string(),
        source,
    }
}

/// Writes back the data that a mapping or a layer buffers.
pub(crate) fn close(kernel: &Kernel, port: &Attached) -> Result<Result<(), IoError>, StackError> {
    let port = port.clone();
    files::wait(kernel, async move { port.close().await })
}

/// Results of block requests.
pub(crate) fn served(meter: &Meter, labels: &Labels) -> Served {
    let errors = meter.errors.iter();
    Served {
        ops: meter.completed,
        errors: errors
            .map(|(reason, &n)| ((*reason).to_owned(), n))
            .collect(),
        latency: meter.latencies(),
        span: meter.last,
        labels: labels.clone(),
        app: None,
        operations: BTreeMap::new(),
        jobs: (Vec::new(), Vec::new()),
    }
}

pub(crate) fn check(plan: &Plan) -> Result<(), StackError> {
    let (name, interface) = (&plan.drive.name, fill::interface(&plan.drive));
    if interface != kind_of(&plan.stack.drive) {
        return Err(StackError::Stack {
            stack: plan.stack.to_string(),
            reason: format!("the drive {name} has the interface {interface:?}"),
        });
    }
    if plan.ending != Ending::Unmount && plan.stack.host == "raw" {
        return Err(StackError::Stack {
            stack: plan.stack.to_string(),
            reason: "expected a stack with a file system, which recovers and mounts".to_owned(),
        });
    }
    past::check(plan)?;
    if plan.until == Until::Steady && plan.stack.host != "raw" {
        return Err(StackError::Stack {
            stack: plan.stack.to_string(),
            reason: "--until steady needs a stack with the host raw, because the files of a file \
                workload exist after its first pass; use a workload that writes more instead"
                .to_owned(),
        });
    }
    if plan.sample.is_some_and(|s| s.interval == Ns::ZERO) {
        return Err(StackError::Interval);
    }
    plan.page_cache.checked()?;
    checked(name, plan.drive.clone())?;
    Ok(())
}

fn check_depth(workload: &Workload) -> Result<(), StackError> {
    match workload.pacing {
        Pacing::Closed { depth, .. } if !(1..=4 * IN_FLIGHT).contains(&depth) => {
            Err(StackError::Depth {
                depth,
                most: 4 * IN_FLIGHT,
            })
        }
        _ => Ok(()),
    }
}

pub(crate) fn attach(
    plan: &Plan,
    media: DriveMedia,
    kernel: &Kernel,
) -> Result<BlockDevice, StackError> {
    let drive = powered(plan, media, kernel)?;
    Ok(BlockDevice::new(&kernel.sim(), plan.host, drive)?)
}

/// The drive of `plan` under power, with the contents `media` and the plan's policies.
pub(crate) fn powered(
    plan: &Plan,
    media: DriveMedia,
    kernel: &Kernel,
) -> Result<Drive, StackError> {
    let drive = Drive::ready(&kernel.sim(), &plan.drive, media, Seed(plan.seed));
    let drive = drive.map_err(|source| refused(plan, source))?;
    drive.follow(plan.policies.clone());
    Ok(drive)
}

fn refused(plan: &Plan, source: ConfigError) -> StackError {
    StackError::Config {
        drive: plan.drive.name.clone(),
        source,
    }
}

/// Lets the drive write out its buffers, and powers it off.
pub(crate) fn write_out(kernel: &Kernel, drive: &Drive) -> DriveMedia {
    let left = Rc::new(Cell::new(None));
    let (device, done) = (drive.clone(), Rc::clone(&left));
    kernel.sim().spawn_detached(async move {
        done.set(Some(device.shutdown().await));
    });
    loop {
        if let Some(media) = left.take() {
            return media;
        }
        if !kernel.step() {
            // The drive has no spare blocks left: buffered data is part of its contents.
            return drive.at_power_cut();
        }
    }
}
