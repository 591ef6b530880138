//! Estimated latency of a flash read from the queues ahead of it: the drive's side of the
//! coordinated context switch.
//!
//! Pure functions from a view of the queues to a time.

use crate::config::{HintConfig, Queue};
use nand::Timing;
use ssd::FlashLoad;
use units::Ns;

/// Expected latency of a flash read that is about to be queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// Time until the page has arrived.
    pub time: Ns,
    /// Whether garbage collection blocks the page: the read is long whatever its time.
    pub blocked: bool,
}

/// Algorithm 1. [`Queue::Channel`] sums all operations queued on the page's channel, one
/// after the other. [`Queue::Die`] sums those on its die and the transfers that wait for the
/// bus, as dies work in parallel. With read priority a read waits only for the operation in
/// service; neither form models that, so both are upper bounds then.
//= skybyte 3.1
#[must_use]
pub fn estimate(load: &FlashLoad, timing: &Timing, page_bytes: u64, queue: Queue) -> Estimate {
    let sum = |reads: u32, programs: u32, erases: u32| {
        let all = [
            (timing.read, reads),
            (timing.program, programs),
            (timing.erase, erases),
        ];
        let times = all.map(|(each, count)| each.0.saturating_mul(u64::from(count)));
        Ns(times.into_iter().fold(0, u64::saturating_add))
    };
    let time = match queue {
        Queue::Channel => {
            let waits = load.channel;
            sum(waits.reads + 1, waits.programs, waits.erases)
        }
        Queue::Die => {
            let (die, bus) = (load.die, load.channel);
            let transfer = timing.command + Ns::transfer(page_bytes, timing.bus_bytes_per_s);
            let transfers = u64::from(bus.reads + 1);
            sum(die.reads + 1, die.programs, die.erases) + Ns(transfer.0 * transfers)
        }
    };
    Estimate {
        time,
        blocked: load.collecting,
    }
}

/// Whether the drive sends a delay hint: hints are enabled, and the read is blocked by
/// garbage collection or takes longer than the threshold (strictly).
//= skybyte 3.1
#[must_use]
pub fn is_long(estimate: Estimate, hints: &HintConfig) -> bool {
    hints.enabled && (estimate.blocked || estimate.time > hints.threshold)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nand::{Load, Part};
    use proptest::prelude::*;

    fn timing() -> Timing {
        Part::named("z-nand").unwrap().timing
    }

    proptest! {
        #[test]
        fn the_channel_serves_one_after_the_other(
            reads in 0_u32..100, programs in 0_u32..100, erases in 0_u32..9,
        ) {
            let channel = Load { reads, programs, erases };
            let load = FlashLoad { die: Load::default(), channel, collecting: false };
            let estimate = estimate(&load, &timing(), 4096, Queue::Channel);
            // 3, 100 and 1,000 µs of `skybyte` Table II.
            let us = 3 * (reads + 1) + 100 * programs + 1000 * erases;
            prop_assert_eq!(estimate.time, Ns::us(u64::from(us)));
        }
    }

    #[test]
    fn more_than_the_threshold_is_long_and_garbage_collection_always_is() {
        let hints = HintConfig {
            threshold: Ns::us(3),
            ..HintConfig::default()
        };
        let of = |time: Ns, blocked: bool| is_long(Estimate { time, blocked }, &hints);
        assert!(!of(Ns::us(3), false));
        assert!(of(Ns(3_001), false));
        assert!(of(Ns(0), true));
        let off = HintConfig {
            enabled: false,
            ..hints
        };
        assert!(!is_long(
            Estimate {
                time: Ns::ms(9),
                blocked: true
            },
            &off
        ));
    }

    #[test]
    fn dies_work_side_by_side_and_share_the_bus() {
        let waits = Load {
            reads: 2,
            programs: 1,
            erases: 0,
        };
        let load = FlashLoad {
            die: Load::default(),
            channel: waits,
            collecting: false,
        };
        let timing = timing();
        let bus = timing.command.0 + Ns::transfer(4096, timing.bus_bytes_per_s).0;
        let estimate = estimate(&load, &timing, 4096, Queue::Die);
        assert_eq!(estimate.time, Ns(3_000 + 3 * bus));
    }
}
