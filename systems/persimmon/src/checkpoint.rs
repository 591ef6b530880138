//! The two checkpoint zones: each checkpoint is appended to one of the zones and ends with
//! its footer, so a mount finds the newest checkpoint just before the write pointer.
//!
//! Invariants: a checkpoint lies in one zone; a zone is reset only once a newer checkpoint
//! is durable in the other zone, so a whole checkpoint always exists. After one zone has
//! failed, the other zone is filled to its end; no further checkpoint is possible then.
//= dissertation 4.4

use crate::format::{Footer, PER_DIRECTORY, Sums, ZONES_MAX, ZoneAt, encode_directory};
use crate::layout::{CHECKPOINTS, Layout};
use crate::log::{Log, errno, extent, payload};
use crate::map::Map;
use host::{BlockPort, Purpose, Who};
use lfs::Block;
use nand::Payload;
use ssd::Content;
use std::cell::Cell;
use units::{NoSpace, Origin, Placement};
use vfs::Result;

/// Appends checkpoints: `turn` indexes [`CHECKPOINTS`] and names the zone of the last
/// checkpoint, `written` counts the blocks before each zone's write pointer.
pub(crate) struct Checkpoints {
    layout: Layout,
    origin: Origin,
    turn: Cell<usize>,
    written: Cell<[u32; 2]>,
}

/// Builds the footer of a checkpoint whose F2FS pack has `pack` blocks.
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

/// Encodes the blocks behind a pack of `pack` blocks: the page directory, then the footer.
fn tail(map: &Map, version: u64, pack: usize, sums: Sums) -> Vec<Box<Block>> {
    let mut blocks = encode_directory(map.pages(), sums);
    blocks.push(footer(map, version, pack).encode(sums));
    blocks
}

impl Checkpoints {
    /// Continues behind the last checkpoint, which is in checkpoint zone `turn` (0 or 1);
    /// `written` has the written blocks of both zones.
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

    /// Appends a checkpoint and makes it durable: a flush before the write makes everything
    /// written earlier durable, and the write itself is forced.
    pub(crate) async fn append(
        &self,
        log: &Log,
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
            // The last checkpoint is in the other zone.
            self.reset(log, turn).await?;
            written[turn] = 0;
        }
        // The reset itself may have failed the zone.
        if lost(turn) {
            let failed = u64::from(lost(old)) + 1;
            let why = NoSpace::new("zones of checkpoints", 1, 0, 2);
            let why = why.held("zones that have failed", failed);
            return Err(log.refuse(why.rest("the last checkpoints")));
        }
        if !vfs::mutant::is("persimmon-checkpoint-without-flush") {
            linear.flush().await.map_err(errno)?;
        }
        let addr = self.layout.blocks(CHECKPOINTS[turn]).start + written[turn];
        let who = Who {
            origin: self.origin,
            purpose: Purpose::Journal,
        };
        let content = Content::Sectors(&blocks);
        let fua = !vfs::mutant::is("persimmon-checkpoint-not-forced");
        let write = linear.write(extent(addr, blocks.len()), content, Placement(0), who, fua);
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

    /// Resets a checkpoint zone; a failed zone keeps its (older) checkpoints.
    async fn reset(&self, log: &Log, turn: usize) -> Result<()> {
        let zone = self.layout.blocks(CHECKPOINTS[turn]);
        let trim = log.linear().trim(extent(zone.start, zone.len()));
        trim.await.map_err(errno)
    }
}
