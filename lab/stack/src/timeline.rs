//! The timeline of a run.
//!
//! Invariants: samples are one interval apart, which may double from time to time, and the last one
//! ends with the last request; their operations add up to those of the run. Sampling reads
//! counters, and changes nothing of the run but its number of events.

use crate::error::StackError;
use crate::fill;
use crate::meter::Tally;
use crate::plan::Sampling;
use host::BlockDevice;
use report::record::Sample;
use sim::Sim;
use ssd::Cause;
use std::cell::RefCell;
use std::rc::Rc;
use units::Ns;

/// Largest number of samples, which bounds memory.
const MOST_SAMPLES: usize = 100_000;

/// Counters at the previous sample.
#[derive(Default)]
struct Before {
    at: Ns,
    read: u64,
    written: u64,
    programmed: [u64; Cause::ALL.len()],
}

/// The samples taken so far.
#[derive(Default)]
pub(crate) struct Timeline {
    samples: Vec<Sample>,
    before: Before,
}

type Shared = Rc<RefCell<Timeline>>;

/// A run with a timeline.
pub(crate) trait Sampled {
    /// Whether the last request has completed.
    fn is_done(&self) -> bool;

    /// Stops the run with `error`.
    fn stop(&self, error: StackError);

    /// Calls `take` with the latencies since the previous sample, if they are tallied.
    fn with_interval(&self, take: &mut dyn FnMut(&mut Tally));
}

/// Starts sampling; `None` if `sampling` is `None`. Times are relative to `origin`, counters to
/// their present values.
pub(crate) fn start(
    sim: &Sim,
    sampling: Option<Sampling>,
    device: &BlockDevice,
    run: &Rc<impl Sampled + 'static>,
    origin: Ns,
) -> Option<Shared> {
    let Sampling {
        mut interval,
        doubles_after,
    } = sampling?;
    let timeline = Shared::default();
    timeline.borrow_mut().begin(device);
    let (clock, taken) = (sim.clone(), Rc::clone(&timeline));
    let (device, run) = (device.clone(), Rc::clone(run));
    sim.spawn_observer(async move {
        loop {
            clock.sleep(interval).await;
            // If nothing else is scheduled the drive is stuck, and sampling must not hide it.
            if run.is_done() || clock.next_time().is_none() {
                return;
            }
            let mut timeline = taken.borrow_mut();
            if timeline.samples.len() == MOST_SAMPLES {
                return run.stop(StackError::Samples { most: MOST_SAMPLES });
            }
            timeline.take(clock.now().since(origin), &device, &*run);
            let taken = timeline.samples.len() as u32;
            if doubles_after.is_some_and(|n| taken.is_multiple_of(n)) {
                interval = interval + interval;
            }
        }
    });
    Some(timeline)
}

/// All samples, the last one up to `now`.
pub(crate) fn finish(
    timeline: &Option<Shared>,
    now: Ns,
    device: &BlockDevice,
    run: &impl Sampled,
) -> Vec<Sample> {
    let Some(timeline) = timeline else {
        return Vec::new();
    };
    let mut timeline = timeline.borrow_mut();
    if now > timeline.before.at {
        timeline.take(now, device, run);
    }
    std::mem::take(&mut timeline.samples)
}

impl Timeline {
    fn begin(&mut self, device: &BlockDevice) {
        let (ledger, traffic) = (device.drive().ledger(), device.ledger());
        let page = device.drive().layout().page_bytes();
        self.before = Before {
            at: Ns::ZERO,
            read: traffic.read_bytes(),
            written: traffic.write_bytes(),
            programmed: Cause::ALL.map(|cause| ledger.by_cause(cause) * page),
        };
    }

    fn take(&mut self, now: Ns, device: &BlockDevice, run: &impl Sampled) {
        let mut latency = None;
        run.with_interval(&mut |interval| {
            latency = Some(latencies(interval));
            interval.clear();
        });
        let Some(latency) = latency else {
            return;
        };
        let (ledger, traffic) = (device.drive().ledger(), device.ledger());
        let page = device.drive().layout().page_bytes();
        let programmed = Cause::ALL.map(|cause| ledger.by_cause(cause) * page);
        let (read, written) = (traffic.read_bytes(), traffic.write_bytes());
        let before = std::mem::replace(
            &mut self.before,
            Before {
                at: now,
                read,
                written,
                programmed,
            },
        );
        let sample = Sample {
            at_ns: now.0,
            host_write_bytes: written - before.written,
            host_read_bytes: read - before.read,
            free_lines: u64::from(device.drive().free_lines()),
            ..latency
        };
        self.samples
            .push(with_programs(sample, programmed, before.programmed));
    }
}

fn latencies(interval: &Tally) -> Sample {
    Sample {
        ops: interval.count(),
        max_latency_ns: interval.max(),
        p50_latency_ns: interval.quantile(0.5),
        ..Sample::default()
    }
}

fn with_programs(
    mut sample: Sample,
    now: [u64; Cause::ALL.len()],
    before: [u64; Cause::ALL.len()],
) -> Sample {
    let deltas = now.iter().zip(before).map(|(now, before)| now - before);
    let total: u64 = deltas.clone().sum();
    let named = Cause::ALL.iter().map(|cause| cause.name().to_owned());
    sample.programmed_bytes = named.zip(deltas).filter(|(_, bytes)| *bytes > 0).collect();
    sample.waf = fill::ratio(total, sample.host_write_bytes);
    sample
}
