//! Death rates of the data of each handle, by which collection divides the spare space.
//!
//! A *pool* is the data that collection keeps together: the data of one handle where relocation
//! keeps handles apart; otherwise the new data of one handle, or the relocated data of the cold or of
//! the hot handles.
//! A paged map is a pool of its own. Death counts are kept in memory only: after power-on all pools
//! count as equally hot until the first deaths.

use crate::config::{DriveConfig, SpareSplit};
use crate::frontier::Kind;
use crate::layout::Layout;
use crate::line::LineState;
use crate::policy::{self, PoolView};
use crate::state::State;

/// Pages that the host overwrote or deallocated, counted by the frontier that had written them. All
/// counts are halved together whenever a quarter of the drive's pages has died.
#[derive(Debug)]
pub(crate) struct Deaths {
    by_frontier: Vec<u64>,
    total: u64,
    most: u64,
}

impl Deaths {
    pub(crate) fn new(layout: &Layout, frontiers: usize) -> Self {
        Self {
            by_frontier: vec![0; frontiers],
            total: 0,
            most: u64::from(layout.host_pages / 4).max(1),
        }
    }

    #[inline]
    pub(crate) fn count(&mut self, frontier: u16) {
        self.by_frontier[usize::from(frontier)] += 1;
        self.total += 1;
    }

    /// Halves all counts until their total is below the limit.
    fn fade(&mut self) {
        while self.total >= self.most {
            for deaths in &mut self.by_frontier {
                *deaths /= 2;
            }
            self.total /= 2;
        }
    }
}

/// Sums over the lines of a pool, and its victim so far.
#[derive(Clone, Copy, Default)]
struct Pool {
    valid: u64,
    died: u64,
    victim: Option<crate::LineView>,
    is_used: bool,
}

impl State {
    /// The pools of `group` that have a victim. `None` unless the spare space follows demand and at
    /// least two handles hold lines.
    pub(crate) fn demand(
        &mut self,
        layout: &Layout,
        config: &DriveConfig,
        group: u32,
    ) -> Option<Vec<PoolView>> {
        if config.placement.spare == SpareSplit::Pooled {
            return None;
        }
        self.deaths.fade();
        let mut pools = self.pools(layout, config, group)?;
        for view in self.candidates(layout, group) {
            let frontier = self.lines.lines[view.line as usize].frontier;
            if let Some(pool) = self.pool(layout, config, frontier) {
                let best = &mut pools[pool].victim;
                let both = best.iter().copied().chain([view]);
                if policy::victim(config.collection.victim, both) == Some(view.line) {
                    *best = Some(view);
                }
            }
        }
        let view = |pool: Pool| {
            let (valid, died) = (pool.valid, pool.died);
            let seen = |victim| PoolView {
                valid,
                died,
                victim,
            };
            pool.victim.map(seen)
        };
        Some(pools.into_iter().filter_map(view).collect())
    }

    /// The pools of `group`, without victims; `None` unless at least two handles hold lines.
    fn pools(&self, layout: &Layout, config: &DriveConfig, group: u32) -> Option<Vec<Pool>> {
        let handles = layout.handles as usize;
        let mut pools = vec![Pool::default(); handles + layout.movers(config) as usize + 1];
        for line in self.lines_of(layout, group) {
            let pool = self.pool(layout, config, line.frontier);
            if let Some(pool) = pool.filter(|_| line.state != LineState::Free) {
                pools[pool].valid += u64::from(line.valid);
                pools[pool].is_used = true;
            }
        }
        let used = pools[..handles].iter().filter(|pool| pool.is_used).count();
        if used < 2 {
            return None;
        }
        for (frontier, &died) in self.deaths.by_frontier.iter().enumerate() {
            if self.frontiers[frontier].group == group
                && let Some(pool) = self.pool(layout, config, frontier as u16)
            {
                pools[pool].died += died;
            }
        }
        Some(pools)
    }

    /// Index among the frontiers for relocated data of that which takes the data of `line`, where
    /// relocation does not keep handles apart. Data that were relocated before stay where they are.
    pub(crate) fn mover(&self, layout: &Layout, config: &DriveConfig, line: u32) -> u32 {
        let frontier = self.lines.lines[line as usize].frontier;
        let handle = match self.frontiers[usize::from(frontier)].kind {
            Kind::Moved(mover) => return mover,
            Kind::Host(handle) if layout.movers(config) > 1 => handle as usize,
            _ => return 0,
        };
        let Some(pools) = self.pools(layout, config, layout.group(line)) else {
            return 0;
        };
        let (_map, data) = pools.split_last().expect("the last is that of the map");
        let died = data.iter().map(|pool| pool.died).sum();
        let all = (died, data.iter().map(|pool| pool.valid).sum());
        let own = &pools[handle];
        u32::from(policy::is_hot((own.died, own.valid), all))
    }

    /// Index of the pool that a frontier writes to; `None` for the journal.
    fn pool(&self, layout: &Layout, config: &DriveConfig, frontier: u16) -> Option<usize> {
        let isolated = config.placement.persistently_isolated;
        let handles = layout.handles as usize;
        match self.frontiers[usize::from(frontier)].kind {
            Kind::Host(handle) => Some(handle as usize),
            Kind::Moved(handle) if isolated => Some(handle as usize),
            Kind::Moved(mover) => Some(handles + mover as usize),
            Kind::Map | Kind::MovedMap => Some(handles + layout.movers(config) as usize),
            Kind::Journal => None,
        }
    }
}
