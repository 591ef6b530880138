//! The two zones of checkpoints: a checkpoint is appended to one of them and ends with its
//! footer, so that the write pointer leads to it.
//!
//! Invariants: a checkpoint lies in one zone; a zone is reset only once a newer checkpoint
//! is durable in the other one, so there is always a whole one. Once one of them has failed,
//! the other one is filled to its end, and that is the last checkpoint.
//= dissertation 4.4

use crate::format::{Footer, PER_DIRECTORY, Sums, ZONES_MAX, ZoneAt, encode_directory};
use crate::layout::{CHECKPOINTS, Layout};
use crate::log::{Log, errno, extent, payload};
use crate::map::Map;
use host::{BlockPort, Purpose, Who, ZonedPort};
use lfs::Block;
use nand::Payload;
use ssd::Content;
use std::cell::Cell;
use units::{NoSpace, Origin, Placement};
use vfs::Result;

/// Where the next checkpoint goes.
pub(crate) struct Checkpoints {
    layout: Layout,
    origin: Origin,
    turn: Cell<usize>,
    written: Cell<[u32; 2]>,
}

/// What ends a checkpoint whose pack has so many blocks.
pub(crate) fn footer(map: &Map, version: u64, pack: usize) -> Footer {
    let mut zones: Vec<ZoneAt> = map.zones.iter().map(|zone| zone.at).collect();
    zones.resize(ZONES_MAX, ZoneAt::default());
    Footer {
        version,
        pack: pack as u32,
        directory: map.pages().len().div_ceil(PER_DIRECTORY) as u32,
        epoch: map.epoch,
        zones,
    }
}

/// The blocks that end a checkpoint, whose pack has so many blocks.
fn tail(map: &Map, version: u64, pack: usize, sums: Sums) -> Vec<Box<Block>> {
    let mut blocks = encode_directory(map.pages(), sums);
    blocks.push(footer(map, version, pack).encode(sums));
    blocks
}

impl Checkpoints {
    /// After the last checkpoint, which is in the zone of this number, 0 or 1, of which
    /// so many blocks are written.
    pub(crate) const fn new(
        layout: Layout,
        origin: Origin,
        turn: usize,
        written: [u32; 2],
    ) -> Self {
        Self {
            layout,
            origin,
            turn: Cell::new(turn),
            written: Cell::new(written),
        }
    }

    /// Appends a checkpoint and makes it durable, with all that was written before.
    pub(crate) async fn append<Z: ZonedPort>(
        &self,
        log: &Log<Z>,
        version: u64,
        pack: Vec<Box<Block>>,
    ) -> Result<()> {
        let (linear, count) = (log.linear(), pack.len());
        let tail = tail(&log.map(), version, count, log.sums());
        let blocks: Vec<Payload> = pack.into_iter().chain(tail).map(payload).collect();
        let len = blocks.len() as u32;
        if len > self.layout.zone_blocks {
            let all = self.layout.zone_blocks.into();
            let why = NoSpace::new("blocks of a zone of checkpoints", len.into(), all, all);
            return Err(log.refuse(why));
        }
        let (old, mut written) = (self.turn.get(), self.written.get());
        let lost = |turn: usize| log.is_lost(CHECKPOINTS[turn]);
        let fits = written[old] + len <= self.layout.zone_blocks && !lost(old);
        let turn = if fits { old } else { 1 - old };
        if !fits && written[turn] > 0 {
            // The last one is in the other zone.
            self.reset(log, turn).await?;
            written[turn] = 0;
        }
        // It may have failed by its reset.
        if lost(turn) {
            let failed = u64::from(lost(old)) + 1;
            let why = NoSpace::new("zones of checkpoints", 1, 0, 2);
            let why = why.held("zones that have failed", failed);
            return Err(log.refuse(why.rest("the last checkpoints")));
        }
        linear.flush().await.map_err(errno)?;
        let addr = self.layout.blocks(CHECKPOINTS[turn]).start + written[turn];
        let who = Who {
            origin: self.origin,
            purpose: Purpose::Journal,
        };
        let content = Content::Sectors(&blocks);
        let write = linear.write(extent(addr, blocks.len()), content, Placement(0), who, true);
        write.await.map_err(errno)?;
        written[turn] += len;
        if !fits {
            self.reset(log, old).await?;
            written[old] = 0;
        }
        self.turn.set(turn);
        self.written.set(written);
        log.count(|metrics| {
            metrics.checkpoints += 1;
            metrics.checkpoint_blocks += u64::from(len);
            metrics.switches += u64::from(!fits);
        });
        Ok(())
    }

    /// Empties a zone; one that has failed stays as it is, with older checkpoints.
    async fn reset<Z: ZonedPort>(&self, log: &Log<Z>, turn: usize) -> Result<()> {
        let zone = self.layout.blocks(CHECKPOINTS[turn]);
        let trim = log.linear().trim(extent(zone.start, zone.len()));
        trim.await.map_err(errno)
    }
}
