//! What a run has counted.
//!
//! Parts add up: the time of all cores is the slots of their instructions and what
//! they waited for, cause by cause; the time of accesses to memory is that of the
//! host's DRAM, of the link, and of the device.

use crate::dram::DramCounts;
use crate::hierarchy::CacheCounts;
use crate::latencies::Latencies;
use crate::link::LinkBytes;
use crate::tick::Tick;
use crate::window::{CAUSES, Cause};
use units::Ns;

/// Accesses to memory that data came for, and how long they took from the last cache
/// and back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accesses {
    /// How many.
    pub count: u64,
    /// Their time beyond the device: DRAM of the host, or the link.
    pub outside: Tick,
    /// Their time within the device.
    pub device: Tick,
    /// How long each took.
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
        /// What happened how often.
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
    /// Loads that retired or are under way.
    loads,
    /// Stores, in the same sense.
    stores,
    /// Loads that a store of the buffer answered.
    forwarded,
    /// Flushes of lines.
    flushes,
    /// Translations that the first TLB did not have.
    first_tlb_misses,
    /// Translations that had to be read from the tables.
    walks,
    /// And that no cache had; they are not among the misses of the last cache.
    walk_misses,
    /// Rounds in which cores were told to forget translations.
    shootdowns,
    /// Switches of threads, of all reasons.
    switches,
    /// Hints that an access takes long.
    hints,
    /// Exceptions that were taken because of them.
    long_delays,
    /// Exceptions of an access that had raised one already.
    repeated_delays,
    /// Slices of time that ended.
    preemptions,
    /// Operations that were squashed.
    squashed,
    /// Reads sent to the device for caches.
    far_reads,
    /// Reads sent to copy pages.
    copy_reads,
    /// Writes that the device accepted.
    far_writes,
    /// Writes that it refused at first.
    refused_writes,
    /// Pages that the device offered.
    offers,
    /// Offers that found no room in the queue.
    passed_over,
    /// Pages that moved to the host.
    promotions,
    /// Pages that went back.
    demotions,
    /// Lines that went back with them.
    demoted_lines,
    /// Writes that went to the host because their line had been copied.
    redirected_writes,
    /// Pages that the cache of pages had.
    page_hits,
    /// Pages that it had not.
    page_misses,
    /// Answers that came too late, for a page that had moved meanwhile.
    stale_answers,
}

/// What a run, from where measuring began, has shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Metrics {
    /// From the start of measuring to the end of the last thread.
    pub time: Ns,
    /// Instructions, of memory and not.
    pub instructions: u64,
    /// Instructions of memory.
    pub memory_instructions: u64,
    /// Time of all cores together.
    pub core_time: Tick,
    /// Slots of the instructions that touch no memory.
    pub compute: Tick,
    /// Slots of those that do.
    pub memory_slots: Tick,
    /// What cores waited for or did besides, by [`Cause`].
    pub spent: [Tick; CAUSES],
    /// Caches.
    pub caches: CacheCounts,
    /// Everything else that was counted.
    pub counts: Counts,
    /// Accesses that the host's DRAM answered.
    pub host: Accesses,
    /// Accesses that the device had at hand.
    pub device: Accesses,
    /// Accesses for which the device had to read flash.
    pub flash: Accesses,
    /// Accesses in vain: a hint was all that came, or they were squashed before their data
    /// came. If they are asked again they are among the others then.
    pub in_vain: Accesses,
    /// The link.
    pub link: LinkBytes,
    /// The host's DRAM, of all nodes.
    pub dram: DramCounts,
    /// How many pages of 4,096 bytes had so many lines asked of memory, 0 to 64.
    pub touched: Vec<u64>,
    /// Pages that the host's memory for moved pages holds at the end.
    pub held: u64,
}

impl Metrics {
    /// Time spent on `cause`, of all cores.
    #[must_use]
    pub fn spent_on(&self, cause: Cause) -> Tick {
        self.spent[cause as usize]
    }

    /// The share of the time that threads had, in which nothing but memory kept them:
    /// a cycle in which other instructions run is bounded by compute.
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

    /// Average time of an access to memory, from when it leaves the last cache: what it waited
    /// before, for a register or for [`Cause::Room`], is no part of it.
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

    /// The same with the time of accesses in vain, which those that data came for bear.
    #[must_use]
    pub fn amat_with_vain(&self) -> f64 {
        let kinds = [&self.host, &self.device, &self.flash];
        let count: u64 = kinds.iter().map(|kind| kind.count).sum();
        let vain = self.in_vain.outside + self.in_vain.device;
        self.amat() + vain.0 as f64 / Tick::PER_NS as f64 / count.max(1) as f64
    }

    /// How long accesses to memory took that data came for, from when they left the last cache.
    //= skybyte 2.3
    #[must_use]
    pub fn latencies(&self) -> Latencies {
        let far = self.device.latencies.and(&self.flash.latencies);
        self.host.latencies.and(&far)
    }

    /// Misses of the last cache in a thousand instructions.
    #[must_use]
    pub fn mpki(&self) -> f64 {
        self.caches.llc_misses as f64 * 1_000.0 / self.instructions.max(1) as f64
    }

    /// Stores among loads and stores.
    #[must_use]
    pub fn write_share(&self) -> f64 {
        let counts = &self.counts;
        counts.stores as f64 / (counts.loads + counts.stores).max(1) as f64
    }
}

/// All that is counted, at one moment.
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
    /// What came between `before` and now.
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
