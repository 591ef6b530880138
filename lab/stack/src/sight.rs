//! Observation of a run in progress, by its driver and its observers.
//!
//! Invariant: observation changes nothing. It takes place between two events, and reads counters
//! only: the record is the same with and without it.

use crate::error::StackError;
use crate::plan::Progress;
use crate::steady::Windows;
use host::BlockDevice;
use report::record::LatencySet;
use sim::Kernel;
use std::ops::ControlFlow;
use units::Ns;

/// Number of events between two observations.
const EVENTS: u64 = 1 << 16;

/// Number of events between two checks for the end of a window, which are cheaper.
pub(crate) const WINDOW_EVENTS: u64 = 1 << 12;

/// Longest run: a year of virtual time.
pub(crate) const LONGEST: Ns = Ns::secs(365 * 86_400);

/// A run in progress, as an observer sees it.
pub(crate) trait Running {
    /// Whether the last request has completed.
    fn is_done(&self) -> bool;

    /// Number of requests completed.
    fn ops(&self) -> u64;

    /// Number of requests in flight.
    fn in_flight(&self) -> u64;

    /// Latencies of the completed requests.
    fn latencies(&self) -> LatencySet;
}

/// A view of a run between two events.
pub struct Sight<'a> {
    run: &'a dyn Running,
    device: &'a BlockDevice,
    windows: &'a Windows,
    origin: Ns,
    sim_time: Ns,
}

/// Observes a run; breaks to stop it.
pub(crate) type Seen<'a> = dyn FnMut(&Sight<'_>) -> ControlFlow<()> + 'a;

impl Sight<'_> {
    /// Progress of the run so far.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress {
            ops: self.run.ops(),
            sim_time: self.sim_time,
            windows: self.windows.closed(),
            amplification: self.windows.amplification(),
            past: None,
        }
    }

    /// Whether the last request has completed.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.run.is_done()
    }

    /// The drive, attached to its host.
    #[must_use]
    pub const fn device(&self) -> &BlockDevice {
        self.device
    }

    /// Begin of the run by the clock of the simulation.
    pub(crate) const fn origin(&self) -> Ns {
        self.origin
    }

    /// Latencies of the requests completed so far.
    #[must_use]
    pub fn latencies(&self) -> LatencySet {
        self.run.latencies()
    }
}

/// Advances time until `run` on `device`, which began at `origin`, ends or is stopped.
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
            origin,
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
    // The run has ended: the observer's wish to stop it has no effect.
    let _ = look();
    Ok(())
}
