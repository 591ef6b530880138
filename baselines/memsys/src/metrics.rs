//! Counters and times of a run.
//!
//! Invariants: the time of all cores is the sum of their instructions' slots and of their
//! waits by cause; the time of memory accesses is the sum of the times in the host's DRAM,
//! on the link, and in the device.

use crate::dram::DramCounts;
use crate::hierarchy::CacheCounts;
use crate::latencies::Latencies;
use crate::link::LinkBytes;
use crate::tick::Tick;
use crate::window::{CAUSES, Cause};
use units::Ns;

/// Completed memory accesses of one kind, with their times from the last cache and back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accesses {
    /// Number of accesses.
    pub count: u64,
    /// Summed time outside the device: in the host's DRAM, or on the link.
    pub outside: Tick,
    /// Summed time within the device.
    pub device: Tick,
    /// Histogram of the total latency of each access.
    pub latencies: Latencies,
}

impl Accesses {
    pub(crate) fn add(&mut self, outside: Tick, device: Tick) {
        self.count += 1;
        self.outside += outside;
        self.device += device;
        self.latencies.add(outside + device);
    }

    fn since(&self, before: &Self) -> Self {
        Self {
            count: self.count - before.count,
            outside: self.outside - before.outside,
            device: self.device - before.device,
            latencies: self.latencies.since(&before.latencies),
        }
    }
}

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Event counts of a machine.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counts {
            fn since(&self, before: &Self) -> Self {
                Self { $($name: self.$name - before.$name,)* }
            }
        }
    };
}

counts! {
    /// Loads, retired or in flight.
    loads,
    /// Stores, retired or in flight.
    stores,
    /// Loads forwarded from an older store in the store buffer.
    forwarded,
    /// Line flushes ([`crate::Op::Flush`]).
    flushes,
    /// Translations that missed the first TLB.
    first_tlb_misses,
    /// Page walks: translations that missed both TLBs.
    walks,
    /// Page walks whose table line missed all caches; not counted as last-cache misses.
    walk_misses,
    /// TLB shootdowns, each of which may cover several pages.
    shootdowns,
    /// Context switches, for any reason.
    switches,
    /// Delay hints received from the device.
    hints,
    /// Long-delay exceptions taken because of a hint.
    long_delays,
    /// Long-delay exceptions of an access that had already raised one.
    repeated_delays,
    /// Preemptions at the end of a time slice.
    preemptions,
    /// Memory operations squashed before they retired.
    squashed,
    /// Reads sent to the device to fill caches.
    far_reads,
    /// Reads sent to the device to copy pages to the host.
    copy_reads,
    /// Line writes that the device accepted.
    far_writes,
    /// Line writes that the device refused at first.
    refused_writes,
    /// Hot pages that the device offered to the host.
    offers,
    /// Offers dropped because the promotion queue was full.
    passed_over,
    /// Pages moved from the device to the host.
    promotions,
    /// Pages moved back from the host to the device.
    demotions,
    /// Lines written to the device by demotions.
    demoted_lines,
    /// Writes redirected to the host because their line was already copied there.
    redirected_writes,
    /// Hits of the hardware page cache.
    page_hits,
    /// Misses of the hardware page cache.
    page_misses,
    /// Answers of the device for a page that had moved meanwhile.
    stale_answers,
}

/// Results of a run, from the start of measuring ([`crate::Op::Begin`]).
#[derive(Clone, Debug, PartialEq)]
pub struct Metrics {
    /// From the start of measuring to the end of the last thread.
    pub time: Ns,
    /// Retired instructions, memory or not.
    pub instructions: u64,
    /// Loads and stores among the instructions.
    pub memory_instructions: u64,
    /// Time of all cores, summed.
    pub core_time: Tick,
    /// Issue slots of instructions that touch no memory.
    pub compute: Tick,
    /// Issue slots of memory instructions.
    pub memory_slots: Tick,
    /// Core time beyond issue slots, by [`Cause`].
    pub spent: [Tick; CAUSES],
    /// Hits and misses of the three cache levels.
    pub caches: CacheCounts,
    /// All other event counts.
    pub counts: Counts,
    /// Accesses served by the host's DRAM.
    pub host: Accesses,
    /// Accesses served by the device without reading flash.
    pub device: Accesses,
    /// Accesses for which the device read flash.
    pub flash: Accesses,
    /// Accesses in vain: answered by a hint only, or squashed before their data arrived. A
    /// retry that completes counts among the others.
    pub in_vain: Accesses,
    /// Bytes carried by the link, by direction.
    pub link: LinkBytes,
    /// Row hits and conflicts of the host's DRAM, over all nodes.
    pub dram: DramCounts,
    /// Histogram of pages of 4,096 bytes by their lines requested from memory, 0 to 64.
    pub touched: Vec<u64>,
    /// Moved pages in the host's memory at the end.
    pub held: u64,
}

impl Metrics {
    /// Core time spent on `cause`, summed over all cores.
    #[must_use]
    pub fn spent_on(&self, cause: Cause) -> Tick {
        self.spent[cause as usize]
    }

    /// Share of the threads' time in which only memory stalled them; a cycle in which other
    /// instructions run counts as bound by compute.
    //= skybyte 2.3
    #[must_use]
    pub fn memory_bound(&self) -> f64 {
        let memory = [
            Cause::Cache,
            Cause::Host,
            Cause::Device,
            Cause::Flash,
            Cause::Stores,
            Cause::Room,
            Cause::Order,
        ];
        let waited: u64 = memory.iter().map(|&cause| self.spent_on(cause).0).sum();
        let bound = waited + self.memory_slots.0;
        bound as f64 / (bound + self.compute.0).max(1) as f64
    }

    /// Average latency of a memory access, from the instant it leaves the last cache. Earlier
    /// waits for an MSHR or for [`Cause::Room`] are not included.
    //= skybyte 6.4
    #[must_use]
    pub fn amat(&self) -> f64 {
        let kinds = [&self.host, &self.device, &self.flash];
        let count: u64 = kinds.iter().map(|kind| kind.count).sum();
        let time: u64 = kinds
            .iter()
            .map(|kind| kind.outside.0 + kind.device.0)
            .sum();
        time as f64 / Tick::PER_NS as f64 / count.max(1) as f64
    }

    /// [`Metrics::amat`] plus the time of accesses in vain, spread over the completed accesses.
    #[must_use]
    pub fn amat_with_vain(&self) -> f64 {
        let kinds = [&self.host, &self.device, &self.flash];
        let count: u64 = kinds.iter().map(|kind| kind.count).sum();
        let vain = self.in_vain.outside + self.in_vain.device;
        self.amat() + vain.0 as f64 / Tick::PER_NS as f64 / count.max(1) as f64
    }

    /// Latencies of completed memory accesses, from the instant they left the last cache.
    //= skybyte 2.3
    #[must_use]
    pub fn latencies(&self) -> Latencies {
        let far = self.device.latencies.and(&self.flash.latencies);
        self.host.latencies.and(&far)
    }

    /// Last-cache misses per thousand instructions.
    #[must_use]
    pub fn mpki(&self) -> f64 {
        self.caches.llc_misses as f64 * 1_000.0 / self.instructions.max(1) as f64
    }

    /// Share of stores among loads and stores, 0 to 1.
    #[must_use]
    pub fn write_share(&self) -> f64 {
        let counts = &self.counts;
        counts.stores as f64 / (counts.loads + counts.stores).max(1) as f64
    }
}

/// Totals of all counters at one instant, to subtract from later ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) at: Tick,
    pub(crate) instructions: u64,
    pub(crate) memory: u64,
    pub(crate) core_time: Tick,
    pub(crate) slots: Tick,
    pub(crate) memory_slots: Tick,
    pub(crate) spent: [Tick; CAUSES],
    pub(crate) caches: CacheCounts,
    pub(crate) counts: Counts,
    pub(crate) host: Accesses,
    pub(crate) device: Accesses,
    pub(crate) flash: Accesses,
    pub(crate) in_vain: Accesses,
    pub(crate) link: LinkBytes,
    pub(crate) dram: DramCounts,
}

impl Totals {
    /// The metrics between the totals `before` and these.
    pub(crate) fn since(&self, before: &Self, touched: &[u64; 65], held: u64) -> Metrics {
        let (caches, past) = (&self.caches, &before.caches);
        let memory_slots = self.memory_slots - before.memory_slots;
        Metrics {
            time: (self.at - before.at).ns_up(),
            instructions: self.instructions - before.instructions,
            memory_instructions: self.memory - before.memory,
            core_time: self.core_time - before.core_time,
            compute: self.slots - before.slots - memory_slots,
            memory_slots,
            spent: std::array::from_fn(|cause| self.spent[cause] - before.spent[cause]),
            caches: CacheCounts {
                l1_hits: caches.l1_hits - past.l1_hits,
                l2_hits: caches.l2_hits - past.l2_hits,
                llc_hits: caches.llc_hits - past.llc_hits,
                llc_misses: caches.llc_misses - past.llc_misses,
                llc_store_misses: caches.llc_store_misses - past.llc_store_misses,
                written_back: caches.written_back - past.written_back,
                fetched_ahead: caches.fetched_ahead - past.fetched_ahead,
                fetched_ahead_used: caches.fetched_ahead_used - past.fetched_ahead_used,
            },
            counts: self.counts.since(&before.counts),
            host: self.host.since(&before.host),
            device: self.device.since(&before.device),
            flash: self.flash.since(&before.flash),
            in_vain: self.in_vain.since(&before.in_vain),
            link: LinkBytes {
                down: self.link.down - before.link.down,
                up: self.link.up - before.link.up,
            },
            dram: DramCounts {
                hits: self.dram.hits - before.dram.hits,
                closed: self.dram.closed - before.dram.closed,
                conflicts: self.dram.conflicts - before.dram.conflicts,
            },
            touched: touched.to_vec(),
            held,
        }
    }
}
