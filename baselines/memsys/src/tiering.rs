//! How pages move between the device and the host: the choices, and what each costs.
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

/// Who decides which pages the host's DRAM holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tiering {
    /// Nobody: pages stay where they are.
    #[default]
    None,
    /// The device tells which pages are worth it.
    Hinted(Moves),
    /// The kernel samples accesses (TPP).
    Sampled(Moves, Sampling),
    /// No page moves: the host's DRAM is a cache of pages in hardware, and who misses
    /// it yields to another thread (AstriFlash).
    Cached(PageCache),
}

/// How a page that goes back is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Demote {
    /// By the lines that differ, to where it came from.
    #[default]
    DirtyLines,
    /// By all its lines, to a page of the device that is allocated anew.
    WholePage,
}

/// What moving costs, and how much may be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Moves {
    /// Host memory for moved pages.
    pub limit: Bytes,
    /// Pages on their way at once: entries of the promotion look-aside buffer.
    pub entries: u64,
    /// Pages that wait for an entry; more are passed over.
    pub queue: u64,
    /// Core time of the interrupt and its handler.
    pub handler: Ns,
    /// Core time of a shootdown for the core that asks for it.
    pub shootdown: Ns,
    /// The same for every other core.
    pub interrupted: Ns,
    /// Core time of the command by which the device drops the chunks of a huge page; a small
    /// one is dropped by the acknowledgement alone.
    pub command: Ns,
    /// How a page goes back.
    pub demote: Demote,
    /// Pages that go back together where room is wanted, for one shootdown; at most half of
    /// those that the host may hold.
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

/// How the kernel samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sampling {
    /// Time between samples.
    pub period: Ns,
    /// Pages of a sample, in order of their addresses.
    pub pages: u64,
    /// What an access to a sampled page costs its thread.
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
    /// What it holds.
    pub size: Bytes,
    /// Pages of a set; at most 64.
    pub ways: u64,
    /// Pages on their way at once, to the cache or from it; who misses beyond that waits.
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
    /// The costs of moves, where pages move.
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

/// What the host sees when the device calls a page hot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Pages that the host's memory for moved pages holds.
    pub held: u64,
    /// Pages that it can hold.
    pub limit: u64,
    /// How often the page was offered since it last came back, this time included.
    pub offers: u32,
}

/// Whether the host takes a page that the device offers.
pub trait Promote {
    /// True to move it.
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
