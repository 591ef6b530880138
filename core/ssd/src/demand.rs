//! Death rates of the data of each handle, by which collection divides the spare space.
//!
//! A *pool* is the data that collection keeps together: the data of one handle where relocation
//! keeps handles apart; otherwise the new data of one handle, or the relocated data of all handles.
//! A paged map is a pool of its own. Death counts are kept in memory only: after power-on all pools
//! count as equally hot until the first deaths.

use crate::config::{DriveConfig, SpareSplit};
use crate::frontier::{Frontier, Kind};
use crate::layout::{Layout, NONE};
use crate::policy::{LineView, PoolView};
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
    let each = if is_split { layout.handles + 2 } else { 1 };
    let pool = |frontier: &Frontier| match frontier.kind {
        Kind::Journal => NONE,
        _ if !is_split => 0,
        Kind::Host(handle) => handle,
        Kind::Moved(handle) if isolated => handle,
        Kind::Moved(_) => layout.handles,
        Kind::Map | Kind::MovedMap => layout.handles + 1,
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
        let victims = self.pool_victims(layout, group);
        let pools = pools.iter().zip(died).zip(victims);
        let view = |((pool, died), victim): ((&Pool, u64), Option<LineView>)| {
            Some(PoolView {
                valid: pool.valid,
                died,
                victim: victim?,
            })
        };
        Some(pools.filter_map(view).collect())
    }
}
