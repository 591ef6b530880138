//! The device's DRAM: one channel that all transfers in front of the flash use.
//!
//! # Invariants
//!
//! - Each transfer occupies the channel for its bytes, in order of arrival; transfers never
//!   overlap.
//! - The first byte takes [`DramConfig::latency`], once for each access. That latency overlaps with
//!   the transfers of other accesses.

use super::{DramConfig, Front};
use crate::drive::Core;
use crate::wlog::LINE;
use nand::UNIT;
use sim::{Sim, Timeline};
use units::Ns;

/// The DRAM's channel and its parameters.
pub(super) struct Dram {
    config: DramConfig,
    channel: Timeline,
}

impl Dram {
    pub(super) fn new(config: DramConfig) -> Self {
        Self {
            config,
            channel: Timeline::default(),
        }
    }

    /// Waits until `bytes` already at hand have been transferred.
    async fn move_bytes(&self, sim: &Sim, bytes: u64) {
        let span = Ns::transfer(bytes, self.config.bytes_per_s);
        self.channel.serve(sim, span).await;
    }

    /// Accesses `bytes`: waits for the latency, with `before` added to it, and the transfer.
    async fn access(&self, sim: &Sim, before: Ns, bytes: u64) {
        let span = Ns::transfer(bytes, self.config.bytes_per_s);
        let latency = before + self.config.latency;
        self.channel.serve_then(sim, span, latency).await;
    }
}

impl Core {
    /// Time to look up `pages` pages, in log and cache concurrently if the front has both.
    //= skybyte 3.2
    pub(super) fn lookups(front: &Front, pages: u32) -> Ns {
        let log = front.log.as_ref().map(|_| front.config.log.lookup);
        let cache = front.cache.as_ref().map(|_| front.config.cache.lookup);
        let each = log.unwrap_or(Ns::ZERO).max(cache.unwrap_or(Ns::ZERO));
        Ns(each.0 * u64::from(pages))
    }

    /// Looks up `pages` pages, then accesses `bytes`.
    pub(super) async fn reach(&self, front: &Front, pages: u32, bytes: u64) {
        let before = Self::lookups(front, pages);
        front.dram.access(&self.sim, before, bytes).await;
    }

    /// Time from the last byte of a store to `pages` pages until its response. Later stores do not
    /// wait for it.
    pub(super) fn answer(front: &Front, pages: u32) -> Ns {
        Self::lookups(front, pages) + front.config.dram.latency
    }

    /// Transfers `bytes` already at hand.
    pub(super) async fn move_bytes(&self, front: &Front, bytes: u64) {
        front.dram.move_bytes(&self.sim, bytes).await;
    }

    /// Transfers pages of 4 KiB already at hand, such as those from flash. Other transfers may run
    /// between pages.
    pub(super) async fn move_pages(&self, front: &Front, pages: u32) {
        for _ in 0..pages {
            self.move_bytes(front, UNIT as u64).await;
        }
    }

    /// Looks up `pages`, then copies `lines` lines within the DRAM.
    pub(super) async fn copy_lines(&self, front: &Front, pages: u32, lines: u64) {
        self.reach(front, pages, 2 * lines * LINE as u64).await;
    }

    /// Takes the time of a block command of `pages` pages, which occupies the processors for
    /// `service`: firmware, look-ups, and its data through the DRAM. With an idle DRAM this equals
    /// the time of any drive, unless the DRAM is slower.
    pub(crate) async fn enter_block(&self, front: &Front, service: Ns, pages: u32) {
        let now = self.sim.now();
        let passed = self.passed(now, service, Self::lookups(front, pages));
        self.sim.sleep_until(passed).await;
        let at_rest = self.sim.now() + self.dram_time(pages);
        self.move_pages(front, pages).await;
        self.sim.sleep_until(at_rest).await;
    }
}
