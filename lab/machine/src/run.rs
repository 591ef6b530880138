//! One run.

use crate::outcome::{Outcome, outcome};
use crate::setup::Setup;
use memsys::{Far, Machine, Op, PlainDram, Program, TakeAll, TimeOnly};
use programs::WorkloadError;
use sim::{Kernel, Seed};
use skybyte::{CxlSsd, DeviceMedia, Metrics as DeviceMetrics};
use units::{Bytes, Ns};

/// A run that can not be made.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The workload.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The computer.
    #[error("machine: {0}")]
    Machine(#[from] memsys::Invalid),
    /// The drive.
    #[error("device: {0}")]
    Device(#[from] skybyte::ConfigError),
    /// The workload does not fit.
    #[error("{workload} uses {footprint}, and the drive has {capacity}")]
    Size {
        /// The workload.
        workload: String,
        /// What it needs.
        footprint: Bytes,
        /// What there is.
        capacity: Bytes,
    },
    /// The run came to no end.
    #[error(transparent)]
    Run(#[from] memsys::RunError),
}

/// Runs `setup`. `clock` tells seconds of wall time, from any beginning.
///
/// # Errors
/// If something of it can not be, in a sentence.
pub fn run(setup: &Setup, clock: &dyn Fn() -> f64) -> Result<Outcome, RunError> {
    let begin = clock();
    let program = setup.workload.program(Seed(setup.seed))?;
    let mut result = run_program(setup, program)?;
    result.wall_time_s = clock() - begin;
    Ok(result)
}

/// Runs `program`, which is the workload of `setup`; it tells no wall time.
///
/// # Errors
/// As [`run`].
pub fn run_program(setup: &Setup, program: Box<dyn Program>) -> Result<Outcome, RunError> {
    let program = Boxed(program);
    let kernel = Kernel::new();
    if setup.design.drive {
        with_drive(setup, &kernel, program)
    } else {
        let dram = PlainDram::new(&setup.machine().dram, Ns::ZERO)?;
        measure(setup, &kernel, dram, program, |_| None)
    }
}

fn with_drive(setup: &Setup, kernel: &Kernel, program: Boxed) -> Result<Outcome, RunError> {
    let (config, seed) = (setup.device(), Seed(setup.seed));
    let media = DeviceMedia::new(config, setup.past(), seed)?;
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
    program: Boxed,
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

/// A program of which only the seam is known.
struct Boxed(Box<dyn Program>);

impl Program for Boxed {
    fn threads(&self) -> u32 {
        self.0.threads()
    }

    fn footprint(&self) -> Bytes {
        self.0.footprint()
    }

    fn next(&mut self, thread: u32, ops: &mut Vec<Op>) -> bool {
        self.0.next(thread, ops)
    }
}
