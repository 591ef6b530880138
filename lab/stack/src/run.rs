//! One run: a drive is prepared, a host attached, a workload driven to its end.
//!
//! Invariants: a run is a function of its plan; whatever a plan says, it ends
//! with a record or with an error. Counters are read after the buffer has been
//! written out, so that all that was written is also counted at the flash; times
//! and busy shares end with the last request.

use crate::drive::checked;
use crate::error::StackError;
use crate::fill;
use crate::meter::Meter;
use crate::placement;
use crate::plan::{Plan, Progress};
use crate::replay::{IN_FLIGHT, Replay};
use crate::timeline;
use host::{BlockDevice, Busy};
use report::record::{Run, Sample};
use sim::{Kernel, Seed};
use ssd::{ConfigError, Drive, DriveMedia, Interface};
use std::cell::Cell;
use std::rc::Rc;
use units::Ns;
use workload::{Pacing, Workload};

/// Events between two calls for progress.
const EVENTS: u64 = 1 << 16;

/// Longest run: a year of virtual time.
const LONGEST: Ns = Ns::secs(365 * 86_400);

/// What is left when the last request has been answered.
pub(crate) struct Outcome {
    pub(crate) plan: Plan,
    pub(crate) workload: String,
    /// What of its description means nothing here.
    pub(crate) notes: Vec<String>,
    pub(crate) replay: Rc<Replay>,
    pub(crate) device: BlockDevice,
    pub(crate) samples: Vec<Sample>,
    /// Mean erases of a block before the first request.
    pub(crate) erases_before: f64,
    /// Busy time of all dies and of all channels up to the last request.
    pub(crate) flash_busy: (Ns, Ns),
    pub(crate) host_busy: Busy,
    /// Time that the host's data waited for free lines, up to the last request.
    pub(crate) stall: Ns,
    pub(crate) events: u64,
}

/// Runs `plan`, and tells `progress` from time to time how far it has come. The
/// wall time and the memory of the record are left at 0: the caller measures
/// them.
///
/// # Errors
/// If the plan cannot be built, if the workload cannot be read, or if a request
/// does not fit the drive.
pub fn run(plan: &Plan, progress: &mut dyn FnMut(Progress)) -> Result<Run, StackError> {
    check(plan)?;
    let media = plan.precondition.media(&plan.drive, Seed(plan.seed));
    let media = media.map_err(|source| refused(plan, source))?;
    Ok(run_on(plan, media, progress)?.0)
}

/// Runs `plan` on a drive that holds `media`, whatever past the plan gives it,
/// and hands back what it holds afterwards.
///
/// # Errors
/// As [`run()`].
pub fn run_on(
    plan: &Plan,
    media: DriveMedia,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Run, DriveMedia), StackError> {
    check(plan)?;
    let handles = match plan.drive.interface {
        Interface::Block => 1,
        _ => {
            u32::from(plan.drive.placement.handles) * u32::from(plan.drive.placement.reclaim_groups)
        }
    };
    let workload = placement::parse(&plan.workload, handles)?;
    check_depth(&workload)?;
    let stream = workload.open(plan.drive.capacity, Seed(plan.seed))?;
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let device = attach(plan, media, &kernel)?;
    let erases_before = fill::mean(&device.drive().wear().0);
    let meter = Meter::new(plan.sample.is_some());
    let replay = Replay::start(&sim, &device, &workload, stream, meter);
    let samples = timeline::start(&sim, plan.sample, &device, &replay);
    drive_to_end(&kernel, &replay, progress)?;
    let outcome = Outcome {
        plan: plan.clone(),
        workload: workload.text,
        notes: workload.notes,
        samples: timeline::finish(&samples, &sim, &device, &replay),
        erases_before,
        flash_busy: device.drive().flash_busy(),
        host_busy: device.busy(),
        stall: Ns(device.drive().ledger().stall_ns),
        events: sim.events(),
        replay,
        device,
    };
    let left = write_out(&kernel, outcome.device.drive());
    Ok((fill::record(&outcome), left))
}

fn check(plan: &Plan) -> Result<(), StackError> {
    let (name, interface) = (&plan.drive.name, fill::interface(plan.drive.interface));
    if interface != plan.stack.drive {
        return Err(StackError::Stack {
            stack: plan.stack.to_string(),
            reason: format!("the drive {name} has the interface {interface:?}"),
        });
    }
    if plan.sample.is_some_and(|s| s.interval == Ns::ZERO) {
        return Err(StackError::Interval);
    }
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

fn attach(plan: &Plan, media: DriveMedia, kernel: &Kernel) -> Result<BlockDevice, StackError> {
    let sim = kernel.sim();
    let drive = Drive::ready(&sim, &plan.drive, media, Seed(plan.seed));
    let drive = drive.map_err(|source| refused(plan, source))?;
    Ok(BlockDevice::new(&sim, plan.host, drive)?)
}

fn refused(plan: &Plan, source: ConfigError) -> StackError {
    StackError::Config {
        drive: plan.drive.name.clone(),
        source,
    }
}

fn drive_to_end(
    kernel: &Kernel,
    replay: &Replay,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), StackError> {
    let sim = kernel.sim();
    let mut next = EVENTS;
    while !replay.is_done() {
        if !kernel.step() {
            return Err(StackError::Stuck {
                in_flight: replay.in_flight(),
            });
        }
        if sim.now() > LONGEST {
            let ops = replay.meter.borrow().completed;
            return Err(StackError::TooLong { ops });
        }
        if sim.events() >= next {
            next += EVENTS;
            progress(Progress {
                ops: replay.meter.borrow().completed,
                sim_time: sim.now(),
            });
        }
    }
    replay.failure().map_or(Ok(()), Err)
}

/// Lets the drive write out what it has acknowledged, and powers it off.
fn write_out(kernel: &Kernel, drive: &Drive) -> DriveMedia {
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
            // Out of spare blocks: what it could not write out is saved.
            return drive.at_power_cut();
        }
    }
}
