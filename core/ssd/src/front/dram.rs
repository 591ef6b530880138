//! The device's DRAM: one channel that everything in front of the flash goes through.
//!
//! # Invariants
//!
//! - What is moved occupies the channel for its bytes, in the order in which it came;
//!   nobody has the channel while somebody else's bytes move.
//! - Until the first byte comes it takes [`DramConfig::latency`], once for each access
//!   and while the bytes of others move.

use super::{DramConfig, Front};
use crate::drive::Core;
use crate::wlog::LINE;
use nand::UNIT;
use sim::{Sim, Timeline};
use units::Ns;

/// The channel.
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

    /// Waits until `bytes` that are at hand have moved.
    async fn move_bytes(&self, sim: &Sim, bytes: u64) {
        let span = Ns::transfer(bytes, self.config.bytes_per_s);
        self.channel.serve(sim, span).await;
    }

    /// Reaches for `bytes`, which takes `before` besides, and waits until they are here.
    async fn access(&self, sim: &Sim, before: Ns, bytes: u64) {
        let span = Ns::transfer(bytes, self.config.bytes_per_s);
        let latency = before + self.config.latency;
        self.channel.serve_then(sim, span, latency).await;
    }
}

impl Core {
    /// Looking up `pages` pages, in log and cache at the same time if there are both.
    //= skybyte 3.2
    pub(super) fn lookups(front: &Front, pages: u32) -> Ns {
        let log = front.log.as_ref().map(|_| front.config.log.lookup);
        let cache = front.cache.as_ref().map(|_| front.config.cache.lookup);
        let each = log.unwrap_or(Ns::ZERO).max(cache.unwrap_or(Ns::ZERO));
        Ns(each.0 * u64::from(pages))
    }

    /// Looks `pages` pages up and reaches for `bytes`.
    pub(super) async fn reach(&self, front: &Front, pages: u32, bytes: u64) {
        let before = Self::lookups(front, pages);
        front.dram.access(&self.sim, before, bytes).await;
    }

    /// How long after its bytes a store to `pages` pages is answered. Stores that come
    /// meanwhile do not wait for it.
    pub(super) fn answer(front: &Front, pages: u32) -> Ns {
        Self::lookups(front, pages) + front.config.dram.latency
    }

    /// Moves `bytes` that are at hand.
    pub(super) async fn move_bytes(&self, front: &Front, bytes: u64) {
        front.dram.move_bytes(&self.sim, bytes).await;
    }

    /// Moves pages of 4 KiB that are at hand, as those are that the flash gives. Between
    /// them others have their turn.
    pub(super) async fn move_pages(&self, front: &Front, pages: u32) {
        for _ in 0..pages {
            self.move_bytes(front, UNIT as u64).await;
        }
    }

    /// Copies lines from one place of the DRAM to another, once `pages` are looked up.
    pub(super) async fn copy_lines(&self, front: &Front, pages: u32, lines: u64) {
        self.reach(front, pages, 2 * lines * LINE as u64).await;
    }

    /// Brings the command of a block of `pages` pages into the controller, and its data
    /// through the DRAM: at rest in the time that any drive needs, unless its DRAM needs
    /// longer.
    pub(crate) async fn enter_block(&self, front: &Front, pages: u32) {
        let firmware = self.config.controller.command + Self::lookups(front, pages);
        self.sim.sleep(firmware).await;
        let at_rest = self.sim.now() + self.dram_time(pages);
        self.move_pages(front, pages).await;
        self.sim.sleep_until(at_rest).await;
    }
}
