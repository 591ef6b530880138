//! The run over time.
//!
//! Invariants: samples are an interval apart, which may double from time to time,
//! and the last one ends with the last request; their operations add up to those
//! of the run. Sampling reads counters and changes nothing of the run but its
//! number of events.

use crate::error::StackError;
use crate::fill;
use crate::meter::Tally;
use crate::plan::Sampling;
use crate::replay::Replay;
use host::BlockDevice;
use report::record::Sample;
use sim::Sim;
use ssd::Cause;
use std::cell::RefCell;
use std::rc::Rc;
use units::Ns;

/// Most samples of a timeline, which bounds memory.
const MOST_SAMPLES: usize = 100_000;

/// Counters at the sample before.
#[derive(Default)]
struct Before {
    at: Ns,
    read: u64,
    written: u64,
    programmed: [u64; Cause::ALL.len()],
}

/// Samples as they are taken.
#[derive(Default)]
pub(crate) struct Timeline {
    samples: Vec<Sample>,
    before: Before,
}

type Shared = Rc<RefCell<Timeline>>;

/// Starts sampling, if that is asked for.
pub(crate) fn start(
    sim: &Sim,
    sampling: Option<Sampling>,
    device: &BlockDevice,
    replay: &Rc<Replay>,
) -> Option<Shared> {
    let Sampling {
        mut interval,
        doubles_after,
    } = sampling?;
    let timeline = Shared::default();
    let (clock, taken) = (sim.clone(), Rc::clone(&timeline));
    let (device, replay) = (device.clone(), Rc::clone(replay));
    sim.spawn_detached(async move {
        loop {
            clock.sleep(interval).await;
            // With nothing else scheduled the drive is stuck, and sampling must
            // not keep it from being noticed.
            if replay.is_done() || clock.next_time().is_none() {
                return;
            }
            let mut timeline = taken.borrow_mut();
            if timeline.samples.len() == MOST_SAMPLES {
                return replay.stop(StackError::Samples { most: MOST_SAMPLES });
            }
            timeline.take(clock.now(), &device, &replay);
            let taken = timeline.samples.len() as u32;
            if doubles_after.is_some_and(|n| taken.is_multiple_of(n)) {
                interval = interval + interval;
            }
        }
    });
    Some(timeline)
}

/// All samples, the last one up to now.
pub(crate) fn finish(
    timeline: &Option<Shared>,
    sim: &Sim,
    device: &BlockDevice,
    replay: &Replay,
) -> Vec<Sample> {
    let Some(timeline) = timeline else {
        return Vec::new();
    };
    let mut timeline = timeline.borrow_mut();
    if sim.now() > timeline.before.at {
        timeline.take(sim.now(), device, replay);
    }
    std::mem::take(&mut timeline.samples)
}

impl Timeline {
    fn take(&mut self, now: Ns, device: &BlockDevice, replay: &Replay) {
        let mut meter = replay.meter.borrow_mut();
        let Some(interval) = &mut meter.interval else {
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
            ..latencies(interval)
        };
        interval.clear();
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
