//! Strategy of [`lfs::Persist`] on zones that are only appended to.

use crate::checkpoint::Checkpoints;
use crate::log::Log;
use crate::metrics::Metrics;
use host::{Purpose, ZoneDisk};
use lfs::{BLOCK, Block, MainZones, Pack, Persist, Table, Turns};
use std::collections::BTreeMap;
use units::NoSpace;
use vfs::{Cleaning, Result};

/// Persimmon: tables are appended to zones of metadata, checkpoints to two zones in turn.
pub struct Appended {
    pub(crate) main: MainZones,
    pub(crate) turns: Turns,
    pub(crate) log: Log,
    pub(crate) checkpoints: Checkpoints,
}

impl Appended {
    /// The zoned port that the file system is mounted on.
    pub const fn port(&self) -> &ZoneDisk {
        self.main.linear().port()
    }

    /// Counters since the mount.
    pub fn metrics(&self) -> Metrics {
        self.log.metrics()
    }
}

const fn purpose(table: Table) -> Purpose {
    match table {
        Table::Nat(_) => Purpose::Pointer,
        Table::Sit(_) => Purpose::Bitmap,
        Table::Summary(_) => Purpose::Metadata,
    }
}

impl Persist for Appended {
    type Main = MainZones;

    fn main(&self) -> &MainZones {
        &self.main
    }

    async fn read_table(&self, table: Table) -> Result<Box<Block>> {
        let block = self.turns.newest(table);
        self.log.read(block, purpose(table)).await
    }

    async fn write_tables(&self, blocks: Vec<(Table, Box<Block>)>) -> Result<()> {
        let mut by_purpose: BTreeMap<Purpose, Vec<(u32, Box<Block>)>> = BTreeMap::new();
        for (table, block) in blocks {
            let at = self.turns.turn_over(table);
            by_purpose
                .entry(purpose(table))
                .or_default()
                .push((at, block));
        }
        for (purpose, blocks) in by_purpose {
            self.log.append(blocks, purpose).await?;
        }
        Ok(())
    }

    async fn commit(&self, pack: Pack) -> Result<u64> {
        let version = pack.version();
        let (blocks, stamp) = pack.encode(&self.turns)?;
        self.checkpoints.append(&self.log, version, blocks).await?;
        self.turns.committed();
        Ok(stamp)
    }

    fn take_refusal(&self) -> Option<NoSpace> {
        self.log.take_refusal()
    }

    fn memory(&self) -> u64 {
        self.metrics().memory
    }

    fn cleaned(&self) -> Cleaning {
        let metrics = self.metrics();
        Cleaning {
            calls: metrics.zones_cleaned,
            moved_bytes: metrics.blocks_moved * BLOCK as u64,
            ..Cleaning::default()
        }
    }
}
