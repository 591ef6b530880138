//! Execution of one setup.

use crate::outcome::{Outcome, outcome};
use crate::setup::Setup;
use memsys::{Far, Machine, Op, PlainDram, Program, TakeAll, TimeOnly};
use programs::WorkloadError;
use sim::{Kernel, Seed};
use skybyte::{CxlSsd, DeviceMedia, Metrics as DeviceMetrics};
use std::cell::Cell;
use std::ops::ControlFlow;
use units::{Bytes, Ns};

/// Error of a run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The workload is refused.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The configuration of the computer is invalid.
    #[error("machine: {0}")]
    Machine(#[from] memsys::Invalid),
    /// The configuration of the drive is invalid.
    #[error("device: {0}")]
    Device(#[from] skybyte::ConfigError),
    /// The workload does not fit the drive.
    #[error("{workload} uses {footprint}, and the drive has {capacity}")]
    Size {
        /// Name of the workload.
        workload: String,
        /// Bytes that the workload uses.
        footprint: Bytes,
        /// Bytes that the drive has.
        capacity: Bytes,
    },
    /// The drive shrinks with the workload, and its DRAM would be too small.
    #[error(
        "{workload}: expected a footprint of {least} at least on {design}, whose drive's DRAM \
         shrinks with it, found {found}"
    )]
    Footprint {
        /// Name of the workload.
        workload: String,
        /// Name of the design.
        design: &'static str,
        /// Smallest footprint that is accepted.
        least: Bytes,
        /// Footprint as it was given.
        found: Bytes,
    },
    /// The computer found no end, or the program failed.
    #[error(transparent)]
    Run(#[from] memsys::RunError),
    /// The witness stopped the run.
    #[error("stopped before its end")]
    Stopped,
}

/// Observer of runs; it cannot change an outcome except by stopping the run.
#[derive(Clone, Copy)]
pub struct Witness<'a> {
    /// Returns wall time in seconds, from any origin.
    pub clock: &'a (dyn Fn() -> f64 + Sync),
    /// Receives the number of further instructions, [`Witness::STEP`] or a few more at a time;
    /// `Break` stops the run.
    pub heard: &'a (dyn Fn(u64) -> ControlFlow<()> + Sync),
}

impl Witness<'static> {
    /// Observer without a clock that never stops a run.
    pub const NOBODY: Self = Self {
        clock: &|| 0.0,
        heard: &|_| ControlFlow::Continue(()),
    };
}

impl Witness<'_> {
    /// Instructions between two calls of `heard`.
    pub const STEP: u64 = 1 << 20;
}

/// Runs `setup` under `witness`.
///
/// # Errors
/// If the workload, the computer or the drive is refused, or if the run fails or is stopped.
pub fn run(setup: &Setup, witness: Witness) -> Result<Outcome, RunError> {
    let begin = (witness.clock)();
    let program = setup.workload.program(Seed(setup.seed))?;
    let outcome = run_program(setup, program, witness)?;
    let wall_time_s = (witness.clock)() - begin;
    Ok(Outcome {
        wall_time_s,
        ..outcome
    })
}

/// Runs `program`, which is the workload of `setup`; the wall time excludes making the program.
///
/// # Errors
/// As [`run`].
pub fn run_program(
    setup: &Setup,
    program: Box<dyn Program>,
    witness: Witness,
) -> Result<Outcome, RunError> {
    let begin = (witness.clock)();
    let stopped = Cell::new(false);
    let program = Watched {
        program,
        heard: witness.heard,
        unsaid: 0,
        stopped: &stopped,
    };
    let outcome = run_watched(setup, program);
    if stopped.get() {
        return Err(RunError::Stopped);
    }
    let outcome = outcome?;
    let wall_time_s = (witness.clock)() - begin;
    Ok(Outcome {
        wall_time_s,
        ..outcome
    })
}

fn run_watched(setup: &Setup, program: Watched) -> Result<Outcome, RunError> {
    let kernel = Kernel::new();
    if setup.design.drive {
        with_drive(setup, &kernel, program)
    } else {
        let dram = PlainDram::new(&setup.machine().dram, Ns::ZERO)?;
        measure(setup, &kernel, dram, program, |_| None)
    }
}

fn with_drive(setup: &Setup, kernel: &Kernel, program: Watched) -> Result<Outcome, RunError> {
    if let Some(least) = setup.least_footprint() {
        return Err(RunError::Footprint {
            workload: setup.workload.name(),
            design: setup.design.name,
            least,
            found: setup.workload.footprint().unwrap_or_default(),
        });
    }
    let (config, seed) = (setup.device(), Seed(setup.seed));
    let media = DeviceMedia::new(config, setup.precondition(), seed)?;
    let device = CxlSsd::ready(&kernel.sim(), config, media, seed)?;
    let (footprint, capacity) = (program.footprint(), device.capacity());
    if footprint > capacity {
        return Err(RunError::Size {
            workload: setup.workload.name(),
            footprint,
            capacity,
        });
    }
    measure(setup, kernel, device, program, |device| {
        Some((device.metrics_before(), device.metrics()))
    })
}

fn measure<F: Far>(
    setup: &Setup,
    kernel: &Kernel,
    far: F,
    program: Watched,
    drive: impl Fn(&F) -> Option<(DeviceMetrics, DeviceMetrics)>,
) -> Result<Outcome, RunError> {
    let (threads, footprint) = (program.threads(), program.footprint());
    let machine = Machine::new(setup.machine(), kernel, far, program, TimeOnly, TakeAll);
    let mut machine = machine?;
    let metrics = machine.run()?;
    Ok(outcome(
        setup,
        (threads, footprint),
        &metrics,
        drive(machine.far()).as_ref(),
    ))
}

/// Program under observation, and the instructions it has executed.
struct Watched<'a> {
    program: Box<dyn Program>,
    heard: &'a (dyn Fn(u64) -> ControlFlow<()> + Sync),
    /// Instructions not yet reported.
    unsaid: u64,
    /// Whether the witness has stopped the run.
    stopped: &'a Cell<bool>,
}

impl Program for Watched<'_> {
    fn threads(&self) -> u32 {
        self.program.threads()
    }

    fn footprint(&self) -> Bytes {
        self.program.footprint()
    }

    fn next(&mut self, thread: u32, ops: &mut Vec<Op>) -> bool {
        let before = ops.len();
        let more = self.program.next(thread, ops);
        self.unsaid += ops[before..].iter().map(Op::instructions).sum::<u64>();
        if self.unsaid >= Witness::STEP {
            let goes_on = (self.heard)(std::mem::take(&mut self.unsaid));
            self.stopped.set(goes_on.is_break());
        }
        more && !self.stopped.get()
    }

    fn failure(&self) -> Option<String> {
        let stopped = || self.stopped.get().then(|| RunError::Stopped.to_string());
        self.program.failure().or_else(stopped)
    }
}
