//! Death rates of the data of each handle, by which collection divides the spare space.
//!
//! A *pool* is the data that collection keeps together: the data of one handle where relocation
//! keeps handles apart; otherwise the new data of one handle, or the relocated data of the cold or
//! of the hot handles. A paged map is a pool of its own. Death counts are kept in memory only:
//! after power-on all pools count as equally hot until the first deaths.

use crate::config::{DriveConfig, SpareSplit};
use crate::frontier::{Frontier, Kind};
use crate::layout::{Layout, NONE};
use crate::policy::{self, LineView, PoolView};
use crate::state::State;
use crate::victims::Pool;

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

/// The pool of each frontier, counted within a group ([`NONE`] for the journal), and the number of
/// pools in each group. All data of a group are one pool unless the spare space follows demand.
pub(crate) fn pools(
    layout: &Layout,
    config: &DriveConfig,
    frontiers: &[Frontier],
) -> (Vec<u32>, u32) {
    let (is_split, isolated) = (
        config.placement.spare != SpareSplit::Pooled,
        config.placement.persistently_isolated,
    );
    let movers = layout.movers;
    let each = if is_split {
        layout.handles + movers + 1
    } else {
        1
    };
    let pool = |frontier: &Frontier| match frontier.kind {
        Kind::Journal => NONE,
        _ if !is_split => 0,
        Kind::Host(handle) => handle,
        Kind::Moved(handle) if isolated => handle,
        Kind::Moved(mover) => layout.handles + mover.min(movers - 1),
        Kind::Map | Kind::MovedMap => layout.handles + movers,
    };
    (frontiers.iter().map(pool).collect(), each)
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
        let died = self.died(layout, group)?;
        let victims = self.pool_victims(layout, group);
        let pools = self.lines.pools(group).iter().zip(died).zip(victims);
        let view = |((pool, died), victim): ((&Pool, u64), Option<LineView>)| {
            Some(PoolView {
                valid: pool.valid,
                died,
                victim: victim?,
            })
        };
        Some(pools.filter_map(view).collect())
    }

    /// Deaths of the data of each pool of `group`; `None` unless at least two handles hold lines.
    fn died(&self, layout: &Layout, group: u32) -> Option<Vec<u64>> {
        let pools = self.lines.pools(group);
        let handles = pools.iter().take(layout.handles as usize);
        if handles.filter(|pool| pool.lines > 0).count() < 2 {
            return None;
        }
        let mut died = vec![0; pools.len()];
        for (frontier, &deaths) in self.deaths.by_frontier.iter().enumerate() {
            if self.frontiers[frontier].group == group
                && let Some(pool) = self.lines.pool_of(frontier)
            {
                died[pool] += deaths;
            }
        }
        Some(died)
    }

    /// Index among the frontiers for relocated data of that which takes the data of `line`, where
    /// relocation does not keep handles apart. Data that were relocated before stay where they are.
    pub(crate) fn mover(&self, layout: &Layout, line: u32) -> u32 {
        let frontier = self.lines.lines[line as usize].frontier;
        let handle = match self.frontiers[usize::from(frontier)].kind {
            Kind::Moved(mover) => return mover.min(layout.movers - 1),
            Kind::Host(handle) if layout.movers > 1 => handle as usize,
            _ => return 0,
        };
        let group = layout.group(line);
        let Some(died) = self.died(layout, group) else {
            return 0;
        };
        let valid = self.lines.pools(group).iter().map(|pool| pool.valid);
        let pools: Vec<_> = died.into_iter().zip(valid).collect();
        let (_map, data) = pools.split_last().expect("the last is that of the map");
        let sum = |(died, valid), &(d, v): &(u64, u64)| (died + d, valid + v);
        let all = data.iter().fold((0, 0), sum);
        u32::from(policy::is_hot(pools[handle], all))
    }
}
