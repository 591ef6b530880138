//! Recovery of the last state: the superblock, the newest footer before a write pointer, and
//! the metadata appended since.
//!
//! # Order
//!
//! The checkpoint has the addresses of the map's pages. Metadata zones that were written or
//! opened since the checkpoint are read from there on, in the order of their epochs, and
//! each page found replaces the previous page of its part: a page is a whole state, so the
//! replay is idempotent. The paper reads only the zone that was written last, which would
//! lose blocks that cleaning relocated through the zone before it. Parts without a newer
//! page use the page that the checkpoint references.
//!
//! Invariant: recovery writes nothing, and damaged bytes cannot mislead it: every address
//! in the map lies in a metadata zone before its write pointer.

use crate::format::{
    Footer, PER_CHUNK, PER_DIRECTORY, Record, Sums, ZoneAt, blank, decode_directory, decode_page,
};
use crate::layout::{CHECKPOINTS, Layout};
use crate::map::Map;
use lfs::{Block, Found, Geometry, Pack, SuperError};
use ssd::ZoneLimits;
use vfs::{Errno, Result};

/// Blocks of one read while a grown zone is scanned.
const AT_ONCE: u32 = 256;

/// Blocks of an F2FS pack at most.
const PACK_MOST: u32 = 512;
/// Footers of a zone that are tried at most, if the checkpoints before them are damaged. A
/// power cut leaves no such footer, since a footer is written last.
const TRIES: u32 = 16;
/// Highest epoch of a valid footer; no drive lives to reach a fraction of it.
const EPOCH_MOST: u32 = u32::MAX / 2;

/// A drive that recovery reads, powered or at rest.
#[allow(async_fn_in_trait, reason = "a simulation is one thread")]
pub(crate) trait Medium {
    /// Zone count, size and capacity of the drive.
    fn limits(&self) -> ZoneLimits;

    /// Written blocks of a zone, `zone_blocks` at most; all of them for a full zone.
    fn written(&self, zone: u32, zone_blocks: u32) -> u32;

    /// Reads `count` blocks from address `addr` on.
    async fn read(&self, addr: u32, count: u32) -> Result<Vec<Box<Block>>>;
}

/// A drive without a Persimmon state that can be read.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum OpenError {
    /// Both superblocks are damaged, or none is of F2FS.
    #[error(transparent)]
    Super(#[from] SuperError),
    /// The record beside the superblock is missing, damaged, or of other zones.
    #[error("the superblock is not one of Persimmon on the zones of this drive")]
    Record,
    /// No footer in either checkpoint zone ends a whole checkpoint.
    #[error("neither zone of checkpoints has a whole one")]
    Checkpoint,
    /// A page or address of the map is damaged or missing.
    #[error("the checkpoint leads to a damaged map of the metadata")]
    Map,
    /// A read of the drive failed.
    #[error("the drive could not be read: {0}")]
    Errno(#[from] Errno),
}

/// Last state of a file system, from which a mount starts.
pub(crate) struct State {
    pub(crate) found: Found,
    pub(crate) layout: Layout,
    pub(crate) sums: Sums,
    pub(crate) map: Map,
    /// Checkpoint zone of the last checkpoint, 0 or 1.
    pub(crate) turn: usize,
    /// Written blocks of both checkpoint zones.
    pub(crate) written: [u32; 2],
    /// Encoded blocks of the F2FS pack.
    pub(crate) pack: Vec<Box<Block>>,
}

async fn one<M: Medium>(medium: &M, addr: u32) -> Result<Box<Block>> {
    let mut blocks = medium.read(addr, 1).await?;
    blocks.pop().ok_or(Errno::EIO)
}

/// A whole checkpoint, decoded from a checkpoint zone.
struct Checkpoint {
    footer: Footer,
    blocks: Vec<Box<Block>>,
    pages: Vec<u32>,
    pack: Pack,
    stamp: u64,
}

/// Finds the newest whole checkpoint of a zone. Its footer is the block before the write
/// pointer, unless a power cut interrupted a later checkpoint.
//= dissertation 4.4
async fn newest<M: Medium>(
    medium: &M,
    (start, written): (u32, u32),
    geometry: &Geometry,
    sums: Sums,
) -> Option<Checkpoint> {
    let parts = geometry.tables().len().div_ceil(PER_CHUNK);
    let directory = parts.div_ceil(PER_DIRECTORY) as u32;
    let mut tries = 0;
    for at in (0..written).rev() {
        if tries == TRIES {
            break;
        }
        // An unreadable block is no footer.
        let Ok(block) = one(medium, start + at).await else {
            continue;
        };
        let Some(footer) = Footer::decode(&block, sums) else {
            continue;
        };
        tries += 1;
        // Bound the lengths, so that a footer cannot make recovery read more than a
        // checkpoint has.
        let fits =
            footer.pack <= PACK_MOST && footer.directory == directory && footer.epoch <= EPOCH_MOST;
        let before = fits.then(|| footer.pack + footer.directory);
        let Some(first) = before.and_then(|before| at.checked_sub(before)) else {
            continue;
        };
        let Ok(mut blocks) = medium.read(start + first, at - first).await else {
            continue;
        };
        let directory = blocks.split_off(footer.pack as usize);
        let pages: Option<Vec<Vec<u32>>> = directory
            .iter()
            .map(|block| decode_directory(block, sums))
            .collect();
        let pack = Pack::decode(blocks.clone(), geometry);
        let pack = pack.filter(|(pack, _)| pack.version() == footer.version);
        if let (Some(pages), Some((pack, stamp))) = (pages, pack) {
            return Some(Checkpoint {
                footer,
                blocks,
                pages: pages.concat(),
                pack,
                stamp,
            });
        }
    }
    None
}

/// Reads the superblock, or its second copy if the first is damaged.
async fn superblock<M: Medium>(
    medium: &M,
) -> std::result::Result<(Geometry, Layout, Sums), OpenError> {
    match copy(medium, 0).await {
        Ok(first) => Ok(first),
        Err(why) => copy(medium, 1).await.map_err(|_| why),
    }
}

async fn copy<M: Medium>(
    medium: &M,
    at: u32,
) -> std::result::Result<(Geometry, Layout, Sums), OpenError> {
    let limits = medium.limits();
    let block = one(medium, at).await?;
    let geometry = Geometry::decode(&block, lfs::packing(limits).sectors() / 8)?;
    let sums = Sums::of(geometry.uuid());
    let record = Record::get(&block, sums);
    let layout = record.and_then(|record| Layout::of(record, &geometry, limits));
    Ok((geometry, layout.ok_or(OpenError::Record)?, sums))
}

/// Finds the last state of a drive; keeps at most `parts` parts of the map in memory.
pub(crate) async fn find<M: Medium>(
    medium: &M,
    parts: Option<usize>,
) -> std::result::Result<State, OpenError> {
    let (geometry, layout, sums) = superblock(medium).await?;
    let mut best: Option<(usize, Checkpoint)> = None;
    let mut written = [0; 2];
    for (turn, zone) in CHECKPOINTS.into_iter().enumerate() {
        written[turn] = medium.written(zone, layout.zone_blocks);
        let start = layout.blocks(zone).start;
        let found = newest(medium, (start, written[turn]), &geometry, sums).await;
        let Some(found) = found else { continue };
        let is_newer = best
            .as_ref()
            .is_none_or(|(_, best)| found.footer.version > best.footer.version);
        if is_newer {
            best = Some((turn, found));
        }
    }
    let (turn, checkpoint) = best.ok_or(OpenError::Checkpoint)?;
    let known = (&checkpoint.footer, &checkpoint.pages[..]);
    let mut empty = Map::new(layout, geometry.tables());
    empty.limit(parts);
    let map = map(medium, sums, empty, known).await?;
    let found = Found {
        geometry,
        pack: checkpoint.pack,
        stamp: checkpoint.stamp,
    };
    Ok(State {
        found,
        layout,
        sums,
        map,
        turn,
        written,
        pack: checkpoint.blocks,
    })
}

/// Fills an empty map from a checkpoint and the pages appended since.
pub(crate) async fn map<M: Medium>(
    medium: &M,
    sums: Sums,
    mut map: Map,
    (footer, pages): (&Footer, &[u32]),
) -> std::result::Result<Map, OpenError> {
    let layout = *map.layout();
    let parts = map.pages().len();
    if pages.len() < parts {
        return Err(OpenError::Map);
    }
    let mut grown = zones(medium, sums, &mut map, footer).await?;
    grown.sort_by_key(|grown| grown.epoch);
    for (part, &page) in (0..).zip(&pages[..parts]) {
        map.set_found(part, page);
    }
    for Grown { zone, from, .. } in grown {
        let (start, end) = (
            layout.metadata(zone).start,
            map.zones[zone as usize].at.written,
        );
        let mut at = from;
        while at < end {
            let count = (end - at).min(AT_ONCE);
            let blocks = read_all(medium, start + at, count).await;
            for (addr, block) in (start + at..).zip(blocks) {
                let page = decode_page(&block, sums);
                let page = page.filter(|(about, _)| usize::from(about.index) < parts);
                if let Some((about, entries)) = page {
                    map.set_found(u32::from(about.index), addr);
                    map.keep(u32::from(about.index), entries);
                }
            }
            at += count;
        }
    }
    for part in 0..parts as u32 {
        count(medium, sums, &mut map, part).await?;
    }
    Ok(map)
}

/// Reads blocks; an unreadable block becomes zeros, which are no valid page.
async fn read_all<M: Medium>(medium: &M, addr: u32, count: u32) -> Vec<Box<Block>> {
    if let Ok(blocks) = medium.read(addr, count).await {
        return blocks;
    }
    let mut blocks = Vec::new();
    for addr in addr..addr + count {
        blocks.push(one(medium, addr).await.unwrap_or_else(|_| blank()));
    }
    blocks
}

/// Counts the valid blocks of a part; reads its page if the part is not in memory.
async fn count<M: Medium>(
    medium: &M,
    sums: Sums,
    map: &mut Map,
    part: u32,
) -> std::result::Result<(), OpenError> {
    let addr = map.pages()[part as usize];
    if addr == 0 {
        return Ok(());
    }
    let known = map.part(part).copied();
    if let Some(entries) = known {
        return map.count(addr, &entries).ok_or(OpenError::Map);
    }
    if !map.is_written(addr) {
        return Err(OpenError::Map);
    }
    let block = one(medium, addr).await?;
    let page = decode_page(&block, sums);
    let page = page.filter(|(about, _)| u32::from(about.index) == part);
    let (_, entries) = page.ok_or(OpenError::Map)?;
    map.count(addr, &entries).ok_or(OpenError::Map)?;
    map.keep(part, entries);
    Ok(())
}

/// A metadata zone with blocks, from `from` on, that the checkpoint does not cover.
struct Grown {
    zone: u32,
    epoch: u32,
    from: u32,
}

/// Epoch nearest to `epoch` whose lower half is `low`; `None` if it overflows.
const fn since(epoch: u32, low: u16) -> Option<u32> {
    let step = low.wrapping_sub(epoch as u16).cast_signed();
    epoch.checked_add_signed(step as i32)
}

/// Restores the state of each metadata zone, whose first page has its epoch, and returns
/// the zones that have grown since the checkpoint.
async fn zones<M: Medium>(
    medium: &M,
    sums: Sums,
    map: &mut Map,
    footer: &Footer,
) -> std::result::Result<Vec<Grown>, OpenError> {
    let layout = *map.layout();
    let mut grown = Vec::new();
    map.epoch = footer.epoch;
    for zone in 0..layout.metadata_zones {
        let range = layout.metadata(zone);
        let written = medium.written(range.start / layout.zone_blocks, layout.zone_blocks);
        if written == 0 {
            continue;
        }
        let known = footer.zones[zone as usize];
        let first = one(medium, range.start).await.unwrap_or_else(|_| blank());
        let epoch = decode_page(&first, sums).map(|(about, _)| about.epoch);
        // The page has the lower half of the epoch. A power cut at the first block of a
        // zone leaves the zone without a page.
        let epoch = match epoch {
            Some(low) if known.epoch != 0 && low == known.epoch as u16 => known.epoch,
            Some(low) => since(footer.epoch, low).ok_or(OpenError::Map)?,
            None if known.epoch == 0 => 0,
            None => return Err(OpenError::Map),
        };
        let (from, is_of_use) = match epoch {
            _ if epoch == known.epoch && epoch != 0 => (known.written, true),
            _ => (0, epoch > footer.epoch),
        };
        map.zones[zone as usize].at = ZoneAt {
            // A zone without use is free; it is reset before it is written again.
            epoch: if is_of_use { epoch } else { 0 },
            written: if is_of_use { written } else { 0 },
        };
        if is_of_use && written < from {
            return Err(OpenError::Map);
        }
        if is_of_use && epoch >= map.epoch {
            (map.epoch, map.current) = (epoch, zone);
        }
        if is_of_use && written > from {
            grown.push(Grown { zone, epoch, from });
        }
    }
    Ok(grown)
}
