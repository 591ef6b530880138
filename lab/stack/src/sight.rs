//! A run on its way, for who carries it on and for who looks.
//!
//! Invariant: looking changes nothing. A run is looked at between two events, and who looks
//! reads counters: with and without, the record is the same.

use crate::error::StackError;
use crate::plan::Progress;
use crate::steady::Windows;
use host::BlockDevice;
use report::record::LatencySet;
use sim::Kernel;
use std::ops::ControlFlow;
use units::Ns;

/// Events between two looks.
const EVENTS: u64 = 1 << 16;

/// Events between two looks at whether a window has ended, which are cheaper.
const WINDOW_EVENTS: u64 = 1 << 12;

/// Longest run: a year of virtual time.
const LONGEST: Ns = Ns::secs(365 * 86_400);

/// A run that has begun.
pub(crate) trait Running {
    /// Whether it has come to its end.
    fn is_done(&self) -> bool;

    /// Requests that have been answered.
    fn ops(&self) -> u64;

    /// Requests that have not been answered.
    fn in_flight(&self) -> u64;

    /// Latencies of what has been answered.
    fn latencies(&self) -> LatencySet;
}

/// A run between two events.
pub struct Sight<'a> {
    run: &'a dyn Running,
    device: &'a BlockDevice,
    windows: &'a Windows,
    sim_time: Ns,
}

/// Looks at a run, and says whether it goes on.
pub(crate) type Seen<'a> = dyn FnMut(&Sight<'_>) -> ControlFlow<()> + 'a;

impl Sight<'_> {
    /// How far it has come.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress {
            ops: self.run.ops(),
            sim_time: self.sim_time,
            windows: self.windows.closed(),
            amplification: self.windows.amplification(),
        }
    }

    /// Whether its last request was answered.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.run.is_done()
    }

    /// The drive, as its host has it.
    #[must_use]
    pub const fn device(&self) -> &BlockDevice {
        self.device
    }

    /// Latencies of the requests that were answered so far.
    #[must_use]
    pub fn latencies(&self) -> LatencySet {
        self.run.latencies()
    }
}

/// Lets time pass until `run` on `device`, which began at `origin`, has come to its end, or
/// is stopped.
pub(crate) fn drive_to_end(
    kernel: &Kernel,
    (run, device, windows): (&impl Running, &BlockDevice, &Windows),
    origin: Ns,
    seen: &mut Seen<'_>,
) -> Result<(), StackError> {
    let sim = kernel.sim();
    let mut look = || {
        seen(&Sight {
            run,
            device,
            windows,
            sim_time: sim.now().since(origin),
        })
    };
    let (mut next, mut next_window) = (sim.events(), sim.events());
    while !run.is_done() {
        if sim.events() >= next {
            next += EVENTS;
            if look().is_break() {
                return Err(StackError::Stopped { ops: run.ops() });
            }
        }
        if sim.events() >= next_window {
            next_window += WINDOW_EVENTS;
            windows.look(device);
        }
        if !kernel.step() {
            return Err(StackError::Stuck {
                in_flight: run.in_flight(),
            });
        }
        if sim.now().since(origin) > LONGEST {
            return Err(StackError::TooLong { ops: run.ops() });
        }
    }
    windows.look(device);
    // It has ended: nobody can stop it any more.
    let _ = look();
    Ok(())
}
