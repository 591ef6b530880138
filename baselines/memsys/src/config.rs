//! Configuration of a computer, with the source of each default.
//!
//! | number | value | source |
//! | --- | --- | --- |
//! | cores, clock, window | 8, 4 GHz, 256 | `skybyte` Table II |
//! | width | 4 | the parameters of MacSim as `skybyte` runs it |
//! | L1, L2, L3 and their MSHRs | 32 KiB/8/8, 512 KiB/32/128, 16 MiB/16/1,024 | `skybyte` Table II |
//! | cycles of L1, L2, L3 | 3, 8, 30 | the parameters of MacSim as `skybyte` runs it |
//! | sets of L3 | hashed | Maurice et al., RAID 2015; in MacSim the end of the line's number |
//! | store buffer | 56 | Skylake, whose latencies these parameters follow |
//! | first TLB | 64 entries, 4 ways | Skylake |
//! | second TLB | 2,048 entries, 8 ways, 7 cycles | entries as `skybyte` runs MacSim; the rest Skylake |
//! | switch | 2 µs | `skybyte` Table II; 1,300 ns is what its code charges |
//! | slice of time | 100 µs | the round robin of `skybyte`'s code |
//! | host memory for moved pages | 2 GiB | `skybyte` Table II |

use crate::cache::MOST_WAYS;
use crate::dram::DramConfig;
use crate::link::LinkConfig;
use crate::tiering::Tiering;
use serde::{Deserialize, Serialize};
use units::{Bytes, GIB, KIB, MIB, Ns};

/// Longest accepted cost. Costs are paid many times, and the clock ends after days.
pub(crate) const LONGEST: Ns = Ns::ms(10);
/// Most bytes of a memory: each of its pages needs bookkeeping in the simulating machine.
pub(crate) const MOST_MEMORY: u64 = 1 << 40;

/// Rejection of an impossible value, as a sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Invalid(pub String);

impl Invalid {
    /// Rejects a zero for the quantity `name`.
    ///
    /// # Errors
    /// If `value` is zero.
    pub fn zero(name: &str, value: u64) -> Result<(), Self> {
        if value == 0 {
            return Err(Self(format!("{name} must not be zero")));
        }
        Ok(())
    }

    pub(crate) fn most(name: &str, value: u64, most: u64) -> Result<(), Self> {
        if value > most {
            return Err(Self(format!("{name} is {value} and can be {most} at most")));
        }
        Ok(())
    }

    pub(crate) fn least(name: &str, value: u64, least: u64) -> Result<(), Self> {
        if value < least {
            return Err(Self(format!(
                "{name} is {value} and must be {least} at least"
            )));
        }
        Ok(())
    }

    /// Rejects times so long that the clock could overflow.
    pub(crate) fn long(times: &[(&str, Ns, Ns)]) -> Result<(), Self> {
        match times.iter().find(|(_, time, most)| time > most) {
            Some((name, time, most)) => {
                Err(Self(format!("{name} is {time} and can be {most} at most")))
            }
            None => Ok(()),
        }
    }
}

/// Geometry and latency of one cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheConfig {
    /// Capacity in bytes.
    pub size: Bytes,
    /// Associativity: lines of a set, at most 64.
    pub ways: u64,
    /// Cycles of a lookup, on top of the lookups of the levels before it.
    pub cycles: u64,
    /// MSHRs: misses that may be outstanding.
    pub misses: u64,
}

impl CacheConfig {
    pub(crate) fn sets(&self) -> u64 {
        self.size.0 / 64 / self.ways
    }

    fn check(&self, name: &str, most: u64) -> Result<(), Invalid> {
        Invalid::zero(&format!("ways of {name}"), self.ways)?;
        Invalid::most(&format!("ways of {name}"), self.ways, MOST_WAYS)?;
        Invalid::zero(&format!("misses of {name}"), self.misses)?;
        Invalid::most(&format!("misses of {name}"), self.misses, 1 << 15)?;
        Invalid::most(&format!("cycles of {name}"), self.cycles, 1 << 16)?;
        Invalid::most(&format!("size of {name}"), self.size.0, most)?;
        if !self.size.0.is_multiple_of(self.ways.saturating_mul(64))
            || !self.sets().is_power_of_two()
        {
            return Err(Invalid(format!(
                "{name} of {} in {} ways does not make a power of two of sets",
                self.size, self.ways
            )));
        }
        Ok(())
    }
}

/// Prefetcher of the second-level cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Prefetch {
    /// No prefetching: the stride prefetcher is off in `skybyte`'s parameters.
    #[default]
    None,
    /// The line after one that missed the second level.
    NextLine,
    /// The line a stride ahead, once a page has been walked by it twice.
    Stride,
}

/// Set index of a line in the last cache. The other levels use the low bits of its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LastIndex {
    /// A hash of its number, as in processors: exclusive ors of bits of the address (Maurice
    /// et al., RAID 2015).
    #[default]
    Hashed,
    /// The low bits of its number, as in MacSim.
    Plain,
}

/// Policy for a store that misses all caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StoreMiss {
    /// Reads the line to own it, as cacheable memory over CXL.mem is written.
    #[default]
    Own,
    /// Sends the line to the device as a write at once, as `skybyte`'s code does.
    Write,
}

/// Size of the pages of the address space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PageSize {
    /// Pages of 4 KiB.
    #[default]
    Small,
    /// Huge pages of 2 MiB, made of 512 chunks.
    Huge,
}

impl PageSize {
    /// Chunks of 4,096 bytes in a page: 1 or 512.
    #[must_use]
    pub const fn chunks(self) -> u64 {
        match self {
            Self::Small => 1,
            Self::Huge => 512,
        }
    }

    /// Size of a page in bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.chunks() * 4_096
    }
}

/// Geometry of the two TLB levels of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlbConfig {
    /// Entries of the first TLB.
    pub first: u64,
    /// Associativity of the first TLB.
    pub first_ways: u64,
    /// Entries of the second TLB.
    pub second: u64,
    /// Associativity of the second TLB.
    pub second_ways: u64,
    /// Cycles of a lookup in the second TLB.
    pub second_cycles: u64,
}

impl Default for TlbConfig {
    fn default() -> Self {
        Self {
            first: 64,
            first_ways: 4,
            second: 2_048,
            second_ways: 8,
            second_cycles: 7,
        }
    }
}

/// A NUMA node with cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeConfig {
    /// Size of the node's DRAM. A run in local memory alone needs the program's footprint here.
    pub memory: Bytes,
}

/// Initial placement of the program's pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// All pages on the device, in order of their addresses.
    //= skybyte 6.1
    #[default]
    Far,
    /// All pages in the host's DRAM.
    Local,
}

/// Scheduling policy: which ready thread runs next.
//= skybyte 3.1
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The thread that has waited longest.
    RoundRobin,
    /// A random thread, drawn from the stream "scheduler".
    Random,
    /// The thread with the least core time so far.
    #[default]
    Cfs,
}

/// Scheduling of threads on cores, and the costs of switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OsConfig {
    /// Scheduling policy.
    pub policy: Policy,
    /// Time slice: a thread keeps its core this long while others wait.
    pub slice: Ns,
    /// Core time of a kernel context switch, paid when the next thread is switched in.
    pub switch: Ns,
    /// Core time of a user-level thread switch, used with hardware page caches.
    pub user_switch: Ns,
    /// Whether MSHRs are freed when their instructions are squashed.
    pub free_on_squash: bool,
    /// Delay before a retired store retries a line for which the device sent a delay hint.
    pub ask_again: Ns,
}

impl Default for OsConfig {
    fn default() -> Self {
        Self {
            policy: Policy::Cfs,
            slice: Ns::us(100),
            switch: Ns::us(2),
            // A choice of ours: registers and a stack, without the kernel.
            user_switch: Ns(200),
            free_on_squash: true,
            // A choice of ours: a quarter of the time that counts as long.
            ask_again: Ns(500),
        }
    }
}

/// A computer: cores, caches, memory, link, and operating system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Number of cores, at most 64.
    pub cores: u64,
    /// Core clock, in cycles a second.
    pub hertz: u64,
    /// Instructions that start, and that retire, in a cycle.
    pub width: u64,
    /// Size of the instruction window, from the oldest unretired to the youngest instruction.
    pub window: u64,
    /// Store buffer entries: stores that have not reached the first cache.
    pub store_buffer: u64,
    /// Data cache of a core.
    pub l1: CacheConfig,
    /// Second cache of a core; inclusive of the first.
    pub l2: CacheConfig,
    /// Last cache, shared by all cores; inclusive of the others.
    pub llc: CacheConfig,
    /// Set index of the last cache.
    pub llc_index: LastIndex,
    /// Prefetcher that fills the second cache.
    pub prefetch: Prefetch,
    /// Policy for stores that miss all caches.
    pub store_miss: StoreMiss,
    /// TLBs of each core.
    pub tlb: TlbConfig,
    /// Page size of the address space.
    pub page: PageSize,
    /// Timing of the DRAM of each node.
    pub dram: DramConfig,
    /// NUMA nodes; cores are spread evenly. The device is attached to the first node.
    pub nodes: Vec<NodeConfig>,
    /// Extra latency of a line on another node.
    pub away: Ns,
    /// Bandwidth and latency of the link to the device.
    pub link: LinkConfig,
    /// Capacity of the device.
    pub far: Bytes,
    /// Initial placement of pages.
    pub place: Place,
    /// Ranges of virtual addresses pinned to the device: first byte, and one past the last.
    pub pinned: Vec<(u64, u64)>,
    /// Most writes that the host holds after the device refused them.
    pub posted: u64,
    /// Scheduling of threads.
    pub os: OsConfig,
    /// Migration of pages between the device and the host.
    pub tiering: Tiering,
    /// Seed of every random stream of the machine.
    pub seed: u64,
}

impl Default for Config {
    //= skybyte 6.1
    fn default() -> Self {
        let cache = |size, ways, cycles, misses| CacheConfig {
            size: Bytes(size),
            ways,
            cycles,
            misses,
        };
        Self {
            cores: 8,
            hertz: 4_000_000_000,
            width: 4,
            window: 256,
            store_buffer: 56,
            l1: cache(32 * KIB, 8, 3, 8),
            l2: cache(512 * KIB, 32, 8, 128),
            llc: cache(16 * MIB, 16, 30, 1_024),
            llc_index: LastIndex::Hashed,
            prefetch: Prefetch::None,
            store_miss: StoreMiss::Own,
            tlb: TlbConfig::default(),
            page: PageSize::Small,
            dram: DramConfig::DDR5_4800,
            nodes: vec![NodeConfig {
                memory: Bytes(16 * GIB),
            }],
            // `skybyte` 4: less than 100 ns between sockets.
            away: Ns(100),
            link: LinkConfig::default(),
            far: Bytes(128 * GIB),
            place: Place::Far,
            pinned: Vec::new(),
            // A choice of ours: a page of lines.
            posted: 64,
            os: OsConfig::default(),
            tiering: Tiering::None,
            seed: 1,
        }
    }
}

impl Config {
    /// Checks that every value is in range and that the parts fit together.
    ///
    /// # Errors
    /// Names the first impossible value, in a sentence.
    pub fn check(&self) -> Result<(), Invalid> {
        for (name, value, most) in [
            ("cores", self.cores, 64),
            ("hertz", self.hertz, 100_000_000_000),
            ("width", self.width, 64),
            ("window", self.window, 4_096),
            ("store_buffer", self.store_buffer, 4_096),
            ("posted", self.posted, 1 << 20),
            ("nodes", self.nodes.len() as u64, 15),
        ] {
            Invalid::zero(name, value)?;
            Invalid::most(name, value, most)?;
        }
        Invalid::least("hertz", self.hertz, 1_000_000)?;
        // Each core has its own L1 and L2.
        self.l1.check("l1", 16 * MIB)?;
        self.l2.check("l2", 16 * MIB)?;
        self.llc.check("llc", GIB)?;
        self.check_tlb()?;
        self.dram.check()?;
        self.link.check()?;
        self.tiering.check()?;
        self.check_limit()?;
        Invalid::zero("slice", self.os.slice.0)?;
        Invalid::zero("ask_again", self.os.ask_again.0)?;
        Invalid::long(&[
            ("away", self.away, LONGEST),
            ("switch", self.os.switch, LONGEST),
            ("user_switch", self.os.user_switch, LONGEST),
            ("ask_again", self.os.ask_again, LONGEST),
            ("slice", self.os.slice, Ns::secs(3_600)),
        ])?;
        for memory in self.nodes.iter().map(|node| node.memory) {
            Invalid::most("bytes of a memory", memory.0, MOST_MEMORY)?;
        }
        let nodes = self.nodes.iter().map(|node| node.memory.0);
        Invalid::most("bytes of all nodes", nodes.sum(), MOST_MEMORY)?;
        Invalid::most("bytes of the device", self.far.0, MOST_MEMORY)?;
        match self.pinned.iter().find(|range| range.0 >= range.1) {
            Some(range) => Err(Invalid(format!("the pinned range {range:?} is empty"))),
            None => Ok(()),
        }
    }

    /// Checks that the host has room for at least one page if pages are to move.
    fn check_limit(&self) -> Result<(), Invalid> {
        let page = Bytes(self.page.bytes());
        match self.tiering.moves() {
            Some(moves) if moves.limit < page => Err(Invalid(format!(
                "the limit of moved pages is {} and must be a page, {page}, at least",
                moves.limit
            ))),
            _ => Ok(()),
        }
    }

    fn check_tlb(&self) -> Result<(), Invalid> {
        let tlb = &self.tlb;
        Invalid::most("cycles of the second TLB", tlb.second_cycles, 1 << 16)?;
        for (name, entries, ways) in [
            ("first", tlb.first, tlb.first_ways),
            ("second", tlb.second, tlb.second_ways),
        ] {
            Invalid::zero(&format!("ways of the {name} TLB"), ways)?;
            Invalid::most(&format!("entries of the {name} TLB"), entries, 1 << 18)?;
            if !entries.is_multiple_of(ways) || !(entries / ways).is_power_of_two() {
                return Err(Invalid(format!(
                    "a {name} TLB of {entries} entries in {ways} ways does not make a power of \
                     two of sets"
                )));
            }
        }
        Ok(())
    }
}
