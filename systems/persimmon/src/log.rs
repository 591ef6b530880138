//! Log of metadata: blocks are appended to one metadata zone, with the chunk pages that map
//! them, and cleaning empties zones with few valid blocks.
//!
//! # Order
//!
//! A block lies before the page that maps it, in the same zone, so recovery that finds the
//! page finds the block: a power cut between the two leaves the older version valid. The
//! first block of a zone is a page, which records the zone's epoch. That page references the
//! previous zone, so the previous zone is flushed first. Relocated blocks are durable before
//! their old zone is reset.
//!
//! Invariant: one caller at a time writes.

use crate::config::{Options, Pages};
use crate::format::{Entries, PER_CHUNK, Sums, blank, decode_page, encode_page};
use crate::layout::{Layout, METADATA};
use crate::map::{Map, no_zone, of_no_use, victim};
use crate::metrics::Metrics;
use host::{BlockPort, Linear, Purpose, Who, ZoneDisk, ZonedPort};
use lfs::{BLOCK, Block};
use nand::Payload;
use ssd::{Content, IoError, ZoneAction};
use std::cell::{Cell, RefCell};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use units::{Extent, NoSpace, Origin, Placement, SECTOR};
use vfs::{Errno, Result};

/// Blocks of one batch at most, pages included: a command of 1 MiB.
const BATCH: usize = 256;

pub(crate) fn errno(error: IoError) -> Errno {
    match error {
        IoError::ReadOnly => Errno::EROFS,
        _ => Errno::EIO,
    }
}

/// Converts `blocks` blocks from block address `addr` on to sectors.
pub(crate) fn extent(addr: u32, blocks: usize) -> Extent {
    let sectors = BLOCK as u64 / SECTOR;
    Extent::new(u64::from(addr) * sectors, (blocks as u64 * sectors) as u32)
}

pub(crate) fn payload(block: Box<Block>) -> Payload {
    Payload::Bytes(Arc::from(block))
}

/// Reads `count` blocks from address `addr` on in one command.
pub(crate) async fn read_blocks(
    linear: &Linear<ZoneDisk>,
    addr: u32,
    count: usize,
    who: Who,
) -> Result<Vec<Payload>> {
    let mut payloads = vec![Payload::Zero; count];
    let mut sink = payloads.as_mut_slice();
    let read = linear.read(extent(addr, count), &mut sink, who);
    read.await.map_err(errno)?;
    Ok(payloads)
}

/// Metadata blocks with their indices in the map, sorted by index.
type Blocks = Vec<(u32, Payload)>;

/// Addresses of a part before a change and after it.
type Change = (Box<Entries>, Box<Entries>);

/// One block of a batch that is written contiguously.
enum Slot {
    /// A metadata block and its index in the map.
    Block(u32, Payload),
    /// The page of a part, which includes the changes of the slots before it.
    Page(u32),
}

/// Metadata zones of a mounted file system.
pub(crate) struct Log {
    linear: Linear<ZoneDisk>,
    layout: Layout,
    options: Options,
    sums: Sums,
    origin: Origin,
    map: RefCell<Map>,
    metrics: Cell<Metrics>,
    /// The limit behind the last `ENOSPC`, until [`Log::take_refusal`] reports it.
    refused: RefCell<Option<NoSpace>>,
}

impl Log {
    pub(crate) fn new(
        linear: Linear<ZoneDisk>,
        (layout, sums): (Layout, Sums),
        options: Options,
        mut map: Map,
    ) -> Self {
        map.limit(options.parts());
        Self {
            linear,
            layout,
            sums,
            origin: options.body.origin,
            options,
            map: RefCell::new(map),
            metrics: Cell::default(),
            refused: RefCell::default(),
        }
    }

    pub(crate) const fn linear(&self) -> &Linear<ZoneDisk> {
        &self.linear
    }

    pub(crate) const fn sums(&self) -> Sums {
        self.sums
    }

    pub(crate) fn map(&self) -> std::cell::Ref<'_, Map> {
        self.map.borrow()
    }

    pub(crate) fn metrics(&self) -> Metrics {
        Metrics {
            memory: self.map.borrow().memory() as u64,
            ..self.metrics.get()
        }
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut Metrics)) {
        let mut metrics = self.metrics.get();
        change(&mut metrics);
        self.metrics.set(metrics);
    }

    const fn who(&self, purpose: Purpose) -> Who {
        Who {
            origin: self.origin,
            purpose,
        }
    }

    /// Addresses of a part, from memory or from its page; `EUCLEAN` if the page is damaged.
    async fn part(&self, part: u32) -> Result<Box<Entries>> {
        let known = self.map.borrow_mut().part(part).copied();
        if let Some(entries) = known {
            return Ok(Box::new(entries));
        }
        let addr = self.map.borrow().pages()[part as usize];
        let entries = if addr == 0 {
            Box::new([0; PER_CHUNK])
        } else {
            self.count(|metrics| metrics.pages_read += 1);
            let read = read_blocks(&self.linear, addr, 1, self.who(Purpose::Metadata));
            let payloads = read.await?;
            let mut bytes = blank();
            let known = payloads[0].copy_to(0, &mut bytes[..]);
            let page = decode_page(&bytes, self.sums).filter(|_| known);
            let page = page.filter(|(about, _)| u32::from(about.index) == part);
            page.ok_or(Errno::EUCLEAN)?.1
        };
        self.map.borrow_mut().keep(part, entries.clone());
        Ok(entries)
    }

    /// Reads a block of F2FS; zeros if it was never written.
    pub(crate) async fn read(&self, block: u32, purpose: Purpose) -> Result<Box<Block>> {
        let index = self.map.borrow().index(block).ok_or(Errno::EIO)?;
        let entries = self.part(Map::part_of(index)).await?;
        let addr = entries[index as usize % PER_CHUNK];
        let mut bytes = blank();
        if addr != 0 {
            let read = read_blocks(&self.linear, addr, 1, self.who(purpose)).await?;
            if !read[0].copy_to(0, &mut bytes[..]) {
                return Err(Errno::EIO);
            }
        }
        Ok(bytes)
    }

    /// Appends blocks, given with their virtual F2FS addresses, and their chunk pages; cleans
    /// zones as needed. Does not flush.
    pub(crate) async fn append(
        &self,
        blocks: Vec<(u32, Box<Block>)>,
        purpose: Purpose,
    ) -> Result<()> {
        let mut waiting = Blocks::new();
        for (block, bytes) in blocks {
            let index = self.map.borrow().index(block).ok_or(Errno::EIO)?;
            waiting.push((index, payload(bytes)));
        }
        waiting.sort_by_key(|(index, _)| *index);
        self.count(|metrics| metrics.blocks += waiting.len() as u64);
        let (mut waiting, mut parts) = (waiting.into_iter().peekable(), BTreeSet::new());
        while waiting.peek().is_some() {
            self.ensure_zone().await?;
            self.clean_zones().await?;
            // Cleaning may have filled the current zone.
            self.ensure_zone().await?;
            let pages = self.options.pages;
            let slots = self.next_slots(&mut waiting, &mut parts, pages);
            self.write(slots, purpose).await?;
        }
        Ok(())
    }

    /// Opens a new zone if the current zone lacks room for a block and its page. In a fresh
    /// zone a leading page fits too.
    async fn ensure_zone(&self) -> Result<()> {
        self.look_for_lost();
        let room = self.map.borrow().room();
        if room >= 2 {
            return Ok(());
        }
        if room > 0 {
            let zone = METADATA + self.map.borrow().current;
            let finish = self.linear.port().manage(zone, ZoneAction::Finish);
            finish.await.map_err(|status| errno(status.into()))?;
        } else {
            // The first page of the next zone references this zone, whose end may not be
            // durable yet.
            self.linear.flush().await.map_err(errno)?;
        }
        loop {
            let (opened, of_no_use) = {
                let mut map = self.map.borrow_mut();
                (map.open(), of_no_use(&map.zones, map.current))
            };
            match (opened, of_no_use) {
                (Some(()), _) => return Ok(()),
                // A reset needs no room.
                (None, Some(zone)) => self.reset(zone).await?,
                (None, None) => return Err(self.refuse(no_zone(&self.map.borrow()))),
            }
        }
    }

    /// Records the exhausted limit for [`Self::take_refusal`] and returns `ENOSPC`.
    pub(crate) fn refuse(&self, why: NoSpace) -> Errno {
        self.refused.replace(Some(why));
        Errno::ENOSPC
    }

    /// Takes the limit of the last `ENOSPC` that was not reported yet.
    pub(crate) fn take_refusal(&self) -> Option<NoSpace> {
        self.refused.take()
    }

    /// Whether drive zone `zone` is read-only or offline.
    pub(crate) fn is_lost(&self, zone: u32) -> bool {
        let info = self.linear.port().zone(zone);
        info.is_some_and(|info| info.state.is_lost())
    }

    /// Updates which metadata zones are read-only or offline.
    fn look_for_lost(&self) {
        for zone in 0..self.layout.metadata_zones {
            let lost = self.is_lost(METADATA + zone);
            self.map.borrow_mut().zones[zone as usize].lost = lost;
        }
    }

    /// Takes as many blocks as fit the current zone with their pages, and then pages of
    /// `parts` while room is left.
    fn next_slots(
        &self,
        waiting: &mut std::iter::Peekable<impl Iterator<Item = (u32, Payload)>>,
        parts: &mut BTreeSet<u32>,
        pages: Pages,
    ) -> Vec<Slot> {
        let map = self.map.borrow();
        let room = (map.room() as usize).min(BATCH);
        let mut slots = Vec::new();
        if map.room() == self.layout.zone_blocks {
            let first = waiting.peek().map(|(index, _)| Map::part_of(*index));
            slots.extend(first.or(parts.first().copied()).map(Slot::Page));
        }
        let mut due = BTreeSet::new();
        while let Some((index, _)) = waiting.peek() {
            let part = Map::part_of(*index);
            let new = usize::from(pages == Pages::Paired || !due.contains(&part));
            if slots.len() + due.len() + 1 + new > room {
                break;
            }
            let Some((index, block)) = waiting.next() else {
                break;
            };
            slots.push(Slot::Block(index, block));
            if pages == Pages::Paired {
                slots.push(Slot::Page(part));
            } else {
                due.insert(part);
            }
            parts.remove(&part);
        }
        slots.extend(due.into_iter().map(Slot::Page));
        while slots.len() < room
            && let Some(part) = parts.pop_first()
        {
            slots.push(Slot::Page(part));
        }
        slots
    }

    /// Loads the parts that the slots touch; "before" and "after" are equal at first.
    async fn parts_of(&self, slots: &[Slot]) -> Result<BTreeMap<u32, Change>> {
        let mut parts = BTreeMap::new();
        for slot in slots {
            let part = match slot {
                Slot::Block(index, _) => Map::part_of(*index),
                Slot::Page(part) => *part,
            };
            if let Entry::Vacant(vacant) = parts.entry(part) {
                let entries = self.part(part).await?;
                vacant.insert((entries.clone(), entries));
            }
        }
        Ok(parts)
    }

    /// Writes slots to the current zone in one command, then updates the map.
    async fn write(&self, slots: Vec<Slot>, purpose: Purpose) -> Result<()> {
        let mut parts = self.parts_of(&slots).await?;
        let (current, written) = {
            let map = self.map.borrow();
            (map.current, map.zones[map.current as usize].at.written)
        };
        let start = self.layout.metadata(current).start + written;
        let (mut payloads, mut pages) = (Vec::new(), BTreeMap::new());
        let mut old = BTreeMap::new();
        for (addr, slot) in (start..).zip(slots) {
            match slot {
                Slot::Block(index, block) => {
                    let part = Map::part_of(index);
                    let entries = parts.get_mut(&part).map(|(_, after)| after);
                    let entries = entries.ok_or(Errno::EIO)?;
                    let entry = &mut entries[index as usize % PER_CHUNK];
                    old.insert(part, std::mem::replace(entry, addr));
                    payloads.push(block);
                }
                Slot::Page(part) => {
                    let about = self
                        .map
                        .borrow()
                        .about(part, old.remove(&part).unwrap_or(0));
                    let entries = parts.get(&part).map(|(_, after)| after);
                    let entries = entries.ok_or(Errno::EIO)?;
                    payloads.push(payload(encode_page(entries, &about, self.sums)));
                    pages.insert(part, addr);
                }
            }
        }
        let count = payloads.len();
        self.count(|metrics| metrics.written += count as u64);
        let (content, place) = (Content::Sectors(&payloads), Placement(0));
        let write = self.linear.write(
            extent(start, count),
            content,
            place,
            self.who(purpose),
            false,
        );
        write.await.map_err(errno)?;
        let mut map = self.map.borrow_mut();
        map.zones[current as usize].at.written += count as u32;
        for (part, (before, after)) in parts {
            if let Some(&page) = pages.get(&part) {
                map.set_part(part, &before, after, page);
            }
        }
        Ok(())
    }

    /// Cleans zones while fewer than [`Options::clean_at`] are free.
    //= dissertation 4.3.3
    async fn clean_zones(&self) -> Result<()> {
        // Each zone once at most: relocation may consume all the room that it gains.
        for _ in 0..self.layout.metadata_zones {
            let victim = {
                let map = self.map.borrow();
                let enough = map.free_zones() >= self.options.clean_at;
                victim(&map.zones, map.current).filter(|_| !enough)
            };
            let Some(victim) = victim else { break };
            self.empty(victim).await?;
        }
        Ok(())
    }

    /// Relocates a zone's valid blocks and pages, a batch at a time, and resets the zone.
    async fn empty(&self, zone: u32) -> Result<()> {
        let range = self.layout.metadata(zone);
        let all = self.map.borrow().pages().len() as u32;
        let (mut moved, mut parts) = (Blocks::new(), BTreeSet::new());
        self.count(|metrics| metrics.zones_cleaned += 1);
        for part in 0..all {
            let entries = self.part(part).await?;
            let first = part * PER_CHUNK as u32;
            let here = (first..).zip(entries.iter().copied());
            let here: Vec<(u32, u32)> = here.filter(|(_, addr)| range.contains(addr)).collect();
            for batch in here.chunks(BATCH) {
                moved.extend(self.read_batch(batch).await?);
                if moved.len() >= BATCH {
                    self.write_moved(&mut moved, &mut parts).await?;
                }
            }
            // Pages of relocated blocks were rewritten along with the blocks.
            if range.contains(&self.map.borrow().pages()[part as usize]) {
                parts.insert(part);
            }
        }
        while !moved.is_empty() || !parts.is_empty() {
            self.write_moved(&mut moved, &mut parts).await?;
        }
        self.reset(zone).await
    }

    /// Flushes, so that all relocated blocks are durable, and resets a zone without valid
    /// blocks. A zone that fails at the reset keeps its contents and does not become free.
    async fn reset(&self, zone: u32) -> Result<()> {
        let range = self.layout.metadata(zone);
        self.linear.flush().await.map_err(errno)?;
        let trim = self.linear.trim(extent(range.start, range.len()));
        trim.await.map_err(errno)?;
        self.look_for_lost();
        let mut map = self.map.borrow_mut();
        if !map.zones[zone as usize].lost {
            map.release(zone);
        }
        Ok(())
    }

    /// Reads blocks, given as (index, address): one command for each contiguous run, all
    /// commands concurrently. The result is sorted by index.
    async fn read_batch(&self, batch: &[(u32, u32)]) -> Result<Blocks> {
        let mut by_addr = batch.to_vec();
        by_addr.sort_by_key(|(_, addr)| *addr);
        let runs = by_addr.chunk_by(|one, next| one.1 + 1 == next.1);
        let who = self.who(Purpose::Metadata);
        let reads = runs
            .clone()
            .map(|run| read_blocks(&self.linear, run[0].1, run.len(), who));
        let mut blocks = Blocks::new();
        for (run, read) in runs.zip(sim::join_all(reads.collect()).await) {
            blocks.extend(run.iter().map(|(index, _)| *index).zip(read?));
        }
        blocks.sort_by_key(|(index, _)| *index);
        self.count(|metrics| metrics.blocks_moved += blocks.len() as u64);
        Ok(blocks)
    }

    /// Appends relocated blocks, and pages of `parts` where room is left beside the blocks.
    async fn write_moved(&self, moved: &mut Blocks, parts: &mut BTreeSet<u32>) -> Result<()> {
        let mut waiting = std::mem::take(moved).into_iter().peekable();
        loop {
            self.ensure_zone().await?;
            let slots = self.next_slots(&mut waiting, parts, Pages::Batched);
            self.write(slots, Purpose::Metadata).await?;
            if waiting.peek().is_none() {
                return Ok(());
            }
        }
    }
}
