//! Tiering: policies that move pages between the device and the host, and their costs.
//!
//! | number | value | source |
//! | --- | --- | --- |
//! | interrupt and handler | 2 µs | a choice of ours: a switch's worth of kernel, `skybyte` Table II |
//! | shootdown | 4 µs, 1 µs where it only interrupts | a choice of ours: the range measured on Linux |
//! | command that drops chunks | 2 µs | a choice of ours: it ends with an interrupt and its handler |
//! | pages that go back at once | 32 | `SWAP_CLUSTER_MAX` of Linux, for one `try_to_unmap_flush` |
//! | PLB | 64 entries | `skybyte` 3.3 |
//! | moved pages | 2 GiB | `skybyte` Table II |
//! | sample | 65,536 pages each 100 ms | the TPP of `skybyte`'s code |
//! | fault | 1 µs | a choice of ours: a minor fault of Linux |
//! | pages that the page cache has on their way | 1,024 | registers of the last cache, `skybyte` Table II |
//! | page cache | 8 ways | the AstriFlash of `skybyte`'s code |

use crate::cache::MOST_WAYS;
use crate::config::{Invalid, LONGEST};
use serde::{Deserialize, Serialize};
use units::{Bytes, GIB, Ns};

/// Policy that decides which pages the host's DRAM holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tiering {
    /// No migration: pages stay where they are.
    #[default]
    None,
    /// The device reports hot pages, and the host moves them.
    Hinted(Moves),
    /// The kernel samples accesses (TPP).
    Sampled(Moves, Sampling),
    /// No page moves: the host's DRAM is a hardware cache of pages, and a thread that misses
    /// it yields to another one (AstriFlash).
    Cached(PageCache),
}

/// Write-back of a page that returns to the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Demote {
    /// Writes the lines that differ, to the page's original place.
    #[default]
    DirtyLines,
    /// Writes all lines, to a newly allocated page of the device.
    WholePage,
}

/// Costs and limits of page moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Moves {
    /// Host memory for moved pages, in bytes.
    pub limit: Bytes,
    /// Entries of the promotion look-aside buffer: pages in flight to the host at once.
    pub entries: u64,
    /// Hot pages that may wait for an entry; further offers are dropped.
    pub queue: u64,
    /// Core time of the interrupt and its handler.
    pub handler: Ns,
    /// Core time of a TLB shootdown on the core that initiates it.
    pub shootdown: Ns,
    /// Core time of a TLB shootdown on every other core.
    pub interrupted: Ns,
    /// Core time of the command by which the device drops the chunks of a huge page; a small
    /// one is dropped by the acknowledgement alone.
    pub command: Ns,
    /// Write-back policy of demoted pages.
    pub demote: Demote,
    /// Pages demoted together, with one shootdown, when room is needed; at most half of the
    /// host's limit.
    pub batch: u64,
}

impl Default for Moves {
    //= skybyte 3.3
    fn default() -> Self {
        Self {
            limit: Bytes(2 * GIB),
            entries: 64,
            queue: 64,
            handler: Ns::us(2),
            shootdown: Ns::us(4),
            interrupted: Ns::us(1),
            command: Ns::us(2),
            demote: Demote::DirtyLines,
            batch: 32,
        }
    }
}

/// Sampling of accesses by the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sampling {
    /// Time from one sample to the next.
    pub period: Ns,
    /// Pages of a sample, in order of their addresses.
    pub pages: u64,
    /// Core time of the fault at the first access to a sampled page.
    pub fault: Ns,
}

impl Default for Sampling {
    //= skybyte 6.8
    fn default() -> Self {
        Self {
            period: Ns::ms(100),
            pages: 65_536,
            fault: Ns::us(1),
        }
    }
}

/// The host's DRAM as a cache of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PageCache {
    /// Capacity in bytes.
    pub size: Bytes,
    /// Associativity: pages of a set, at most 64.
    pub ways: u64,
    /// Pages in flight at once, into the cache or out of it; further misses wait.
    pub misses: u64,
}

impl Default for PageCache {
    //= skybyte 6.8
    fn default() -> Self {
        Self {
            size: Bytes(2 * GIB),
            ways: 8,
            misses: 1_024,
        }
    }
}

impl PageCache {
    pub(crate) fn sets(&self) -> u64 {
        self.size.0 / 4_096 / self.ways
    }
}

impl Tiering {
    /// Costs and limits of moves; `None` where pages do not move.
    #[must_use]
    pub const fn moves(&self) -> Option<Moves> {
        match self {
            Self::Hinted(moves) | Self::Sampled(moves, _) => Some(*moves),
            Self::None | Self::Cached(_) => None,
        }
    }

    pub(crate) fn check(&self) -> Result<(), Invalid> {
        if let Some(moves) = self.moves() {
            Invalid::zero("entries of the promotion buffer", moves.entries)?;
            Invalid::zero("pages that go back at once", moves.batch)?;
            if moves.entries > 4_096 || moves.queue > 1 << 20 {
                return Err(Invalid(
                    "the promotion buffer has 4,096 entries and a queue of 1,048,576 at most"
                        .into(),
                ));
            }
        }
        if let Some(moves) = self.moves() {
            Invalid::long(&[
                ("handler", moves.handler, LONGEST),
                ("shootdown", moves.shootdown, LONGEST),
                ("interrupted", moves.interrupted, LONGEST),
                ("command", moves.command, LONGEST),
            ])?;
        }
        match self {
            Self::Sampled(_, sampling) => {
                Invalid::zero("period of samples", sampling.period.0)?;
                Invalid::long(&[
                    ("period of samples", sampling.period, Ns::secs(3_600)),
                    ("fault of a sample", sampling.fault, LONGEST),
                ])?;
                Invalid::zero("pages of a sample", sampling.pages)
            }
            Self::Cached(cache) => {
                Invalid::zero("ways of the page cache", cache.ways)?;
                Invalid::most("ways of the page cache", cache.ways, MOST_WAYS)?;
                Invalid::zero("misses of the page cache", cache.misses)?;
                Invalid::most("misses of the page cache", cache.misses, 1 << 15)?;
                Invalid::most("size of the page cache", cache.size.0, 64 * GIB)?;
                let set = cache.ways.saturating_mul(4_096);
                if !cache.size.0.is_multiple_of(set) || !cache.sets().is_power_of_two() {
                    return Err(Invalid(format!(
                        "a page cache of {} in {} ways does not make a power of two of sets",
                        cache.size, cache.ways
                    )));
                }
                Ok(())
            }
            Self::None | Self::Hinted(_) => Ok(()),
        }
    }
}

/// View of the host when the device offers a hot page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Pages that the host's memory for moved pages holds.
    pub held: u64,
    /// Capacity of that memory, in pages.
    pub limit: u64,
    /// Offers of the page since it last returned to the device, this one included.
    pub offers: u32,
}

/// Policy of the host: accepts or declines an offered page.
pub trait Promote {
    /// Returns true to move the offered page to the host.
    fn take(&mut self, offer: &Offer) -> bool;
}

/// Takes every page that is offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TakeAll;

impl Promote for TakeAll {
    fn take(&mut self, _: &Offer) -> bool {
        true
    }
}
