//! F2FS as Linux has it: tables with two places for each block, and checkpoint packs in
//! two segments in turn, all of them written in place over a port of blocks.
//!
//! Invariants: of the two places of a block of a table, the one that the last checkpoint
//! leads to is not written; the last block of a pack is written when everything else is
//! durable, and only then does the pack count.

use crate::format::checkpoint::{self, Head};
use crate::format::superblock::{Geometry, SuperError};
use crate::format::{BLOCK, Block, SEG_BLOCKS, blank, high_bit, set_high_bit};
use crate::persist::{Found, Log, Pack, Persist, Table};
use host::{BlockPort, Purpose, Who};
use nand::Payload;
use ssd::{Content, IoError};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;
use units::{Extent, Origin, Placement, SECTOR};
use vfs::{Errno, Result};

/// Host sectors of a block.
const SECTORS: u64 = BLOCK as u64 / SECTOR;

/// Most blocks of one command: 1 MiB, as Linux sends at most to a drive that names no
/// limit of its own.
const COMMAND_BLOCKS: usize = 256;

/// Why there is no state to begin with.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum OpenError {
    /// Neither superblock can be used; this is the first one's reason.
    #[error(transparent)]
    Super(#[from] SuperError),
    /// Neither checkpoint is whole.
    #[error("neither checkpoint is whole")]
    Checkpoint,
    /// The drive failed.
    #[error("the drive failed: {0}")]
    Io(#[from] IoError),
}

/// Where the drive shall put what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Placer {
    logs: [Placement; 6],
    tables: Placement,
}

impl Placer {
    /// The table for a drive with so many handles: a handle for each log and one for the
    /// tables; with fewer than seven, nodes share that of the tables; with fewer than
    /// four, data share one too.
    pub(crate) fn for_handles(handles: u16) -> Self {
        let place = |handle: u16| Placement(handle.min(handles.saturating_sub(1)));
        let (logs, tables) = match handles {
            0 | 1 => ([0; 6], 0),
            2 | 3 => ([0, 0, 0, 1, 1, 1], 1),
            4..7 => ([1, 0, 2, 3, 3, 3], 3),
            _ => ([1, 0, 2, 3, 4, 5], 6),
        };
        Self {
            logs: logs.map(place),
            tables: place(tables),
        }
    }
}

/// The strategy.
pub struct InPlace<P> {
    port: P,
    placer: Placer,
    origin: Origin,
    geometry: Geometry,
    /// Which of the two places of each block of SIT and NAT is the newest.
    newest: RefCell<[Vec<u8>; 2]>,
    /// The same, as the last checkpoint says.
    committed: RefCell<[Vec<u8>; 2]>,
    /// The segment of the last checkpoint, 0 or 1.
    turn: Cell<u32>,
}

fn errno(error: IoError) -> Errno {
    match error {
        IoError::ReadOnly => Errno::EROFS,
        _ => Errno::EIO,
    }
}

fn extent(start: u32, blocks: usize) -> Extent {
    Extent::new(u64::from(start) * SECTORS, (blocks as u64 * SECTORS) as u32)
}

fn payload(block: Box<Block>) -> Payload {
    Payload::Bytes(Arc::from(block))
}

const fn metadata(origin: Origin, purpose: Purpose) -> Who {
    Who { origin, purpose }
}

async fn read_block<P: BlockPort>(
    port: &P,
    block: u32,
    who: Who,
) -> std::result::Result<Box<Block>, IoError> {
    let mut bytes = blank();
    let mut sink = bytes.as_mut_slice();
    port.read(extent(block, 1), &mut sink, who).await?;
    Ok(bytes)
}

/// Writes a run of blocks, in commands of a size that drives take.
async fn write_run<P: BlockPort>(
    port: &P,
    start: u32,
    blocks: &[Payload],
    placement: Placement,
    who: Who,
) -> std::result::Result<(), IoError> {
    for (index, part) in blocks.chunks(COMMAND_BLOCKS).enumerate() {
        let at = start + (index * COMMAND_BLOCKS) as u32;
        let content = Content::Sectors(part);
        let write = port.write(extent(at, part.len()), content, placement, who, false);
        write.await?;
    }
    Ok(())
}

/// Numbers that follow each other, with what they have, as runs.
pub(crate) fn runs<T>(blocks: impl IntoIterator<Item = (u32, T)>) -> Vec<(u32, Vec<T>)> {
    let mut runs: Vec<(u32, Vec<T>)> = Vec::new();
    for (at, block) in blocks {
        match runs.last_mut() {
            Some((start, run)) if *start + run.len() as u32 == at => run.push(block),
            _ => runs.push((at, vec![block])),
        }
    }
    runs
}

/// The pack in one of the segments, with the bytes of its head; none if it is not whole.
async fn read_pack<P: BlockPort>(
    port: &P,
    geometry: &Geometry,
    segment: u32,
    who: Who,
) -> std::result::Result<Option<(Pack, Box<Block>)>, IoError> {
    let start = geometry.cp + segment * SEG_BLOCKS;
    let first = read_block(port, start, who).await?;
    let Some(head) = Head::decode(&first, geometry) else {
        return Ok(None);
    };
    let last = read_block(port, start + head.pack_blocks - 1, who).await?;
    if Head::decode(&last, geometry).is_none_or(|last| last.version != head.version) {
        return Ok(None);
    }
    let mut blocks = Vec::new();
    for at in 1..head.pack_blocks - 1 {
        blocks.push(read_block(port, start + at, who).await?);
    }
    let Some(pack) = sort_pack(head, blocks) else {
        return Ok(None);
    };
    Ok(Some((pack, first)))
}

/// What the blocks between the heads are.
pub(crate) fn sort_pack(head: Head, mut blocks: Vec<Box<Block>>) -> Option<Pack> {
    let mut summaries = blocks.split_off(head.summaries_at as usize - 1);
    let mut orphans = Vec::new();
    if head.flags & checkpoint::ORPHANS != 0 {
        for block in &blocks {
            orphans.extend(checkpoint::orphans_of(block)?);
        }
    }
    let nodes = match head.flags & checkpoint::UMOUNT {
        0 => Vec::new(),
        _ => summaries.split_off(summaries.len().checked_sub(3)?),
    };
    let fits = match head.flags & checkpoint::COMPACT {
        0 => summaries.len() == 3,
        _ => (1..3).contains(&summaries.len()),
    };
    fits.then_some(Pack {
        head,
        orphans,
        data: summaries,
        nodes,
    })
}

impl<P: BlockPort> InPlace<P> {
    /// Finds the last state on `port`.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn open(
        port: P,
        placed: bool,
        origin: Origin,
    ) -> std::result::Result<(Self, Found), OpenError> {
        let blocks = port.capacity().0 / BLOCK as u64;
        let who = metadata(origin, Purpose::Superblock);
        let first = read_block(&port, 0, who).await?;
        let geometry = match Geometry::decode(&first, blocks) {
            Ok(geometry) => geometry,
            Err(error) => {
                let second = read_block(&port, 1, who).await?;
                Geometry::decode(&second, blocks).map_err(|_| error)?
            }
        };
        let mut best: Option<(u32, Pack, Box<Block>)> = None;
        for segment in 0..2 {
            let who = metadata(origin, Purpose::Journal);
            let found = read_pack(&port, &geometry, segment, who).await?;
            let newest = |pack: &Pack| {
                let best = best.as_ref();
                best.is_none_or(|(_, best, _)| pack.head.version > best.head.version)
            };
            if let Some((pack, first)) = found
                && newest(&pack)
            {
                best = Some((segment, pack, first));
            }
        }
        let (turn, pack, first) = best.ok_or(OpenError::Checkpoint)?;
        let maps = [pack.head.sit_bitmap.clone(), pack.head.nat_bitmap.clone()];
        let handles = if placed { port.handles() } else { 1 };
        let strategy = Self {
            port,
            placer: Placer::for_handles(handles),
            origin,
            geometry: geometry.clone(),
            newest: RefCell::new(maps.clone()),
            committed: RefCell::new(maps),
            turn: Cell::new(turn),
        };
        let stamp = checkpoint::stamp(&first);
        let found = Found {
            geometry,
            pack,
            stamp,
        };
        Ok((strategy, found))
    }

    /// The port.
    pub fn port(&self) -> &P {
        &self.port
    }

    /// Where a copy of a block of a table lies.
    fn place(&self, table: Table, second: bool) -> u32 {
        place(&self.geometry, table, second)
    }

    const fn who_of(&self, table: Table) -> Who {
        let purpose = match table {
            Table::Nat(_) => Purpose::Pointer,
            Table::Sit(_) => Purpose::Bitmap,
            Table::Summary(_) => Purpose::Metadata,
        };
        metadata(self.origin, purpose)
    }

    /// Writes a table's blocks where the last checkpoint does not lead.
    fn turn_over(&self, table: Table) -> u32 {
        let (map, index) = match table {
            Table::Sit(index) => (0, index as usize),
            Table::Nat(index) => (1, index as usize),
            Table::Summary(_) => return self.place(table, false),
        };
        let second = !high_bit(&self.committed.borrow()[map], index);
        set_high_bit(&mut self.newest.borrow_mut()[map], index, second);
        self.place(table, second)
    }

    async fn write_blocks(&self, blocks: Vec<(u32, Payload)>, who: Who) -> Result<()> {
        let writes = runs(blocks);
        let each = writes
            .iter()
            .map(|(at, run)| write_run(&self.port, *at, run, self.placer.tables, who));
        let done = sim::join_all(each.collect()).await;
        done.into_iter()
            .collect::<std::result::Result<(), _>>()
            .map_err(errno)
    }
}

/// Where a copy of a block of a table lies: the copies of the SIT are one area each,
/// those of the NAT segments in turn.
//= f2fs-layout 3
//= f2fs-layout 4
pub(crate) fn place(geometry: &Geometry, table: Table, second: bool) -> u32 {
    match table {
        Table::Nat(index) => {
            let pair = index / SEG_BLOCKS * 2 + u32::from(second);
            geometry.nat + pair * SEG_BLOCKS + index % SEG_BLOCKS
        }
        Table::Sit(index) => {
            let copy = geometry.sit_segments / 2 * SEG_BLOCKS;
            geometry.sit + index + if second { copy } else { 0 }
        }
        Table::Summary(segment) => geometry.ssa + segment,
    }
}

impl<P: BlockPort> Persist for InPlace<P> {
    async fn read_table(&self, table: Table) -> Result<Box<Block>> {
        let newest = |map: usize, index: u32| high_bit(&self.newest.borrow()[map], index as usize);
        let second = match table {
            Table::Sit(index) => newest(0, index),
            Table::Nat(index) => newest(1, index),
            Table::Summary(_) => false,
        };
        let at = self.place(table, second);
        let read = read_block(&self.port, at, self.who_of(table));
        read.await.map_err(errno)
    }

    async fn write_tables(&self, blocks: Vec<(Table, Box<Block>)>) -> Result<()> {
        let mut by_who: BTreeMap<Purpose, Vec<(u32, Payload)>> = BTreeMap::new();
        for (table, block) in blocks {
            let at = self.turn_over(table);
            let list = by_who.entry(self.who_of(table).purpose).or_default();
            list.push((at, payload(block)));
        }
        for (purpose, mut list) in by_who {
            list.sort_by_key(|(at, _)| *at);
            let who = metadata(self.origin, purpose);
            self.write_blocks(list, who).await?;
        }
        Ok(())
    }

    async fn commit(&self, pack: Pack) -> Result<u64> {
        let Pack {
            mut head,
            orphans,
            data,
            nodes,
        } = pack;
        let orphans = checkpoint::orphan_blocks(&orphans);
        if !orphans.is_empty() {
            head.flags |= checkpoint::ORPHANS;
        }
        head.summaries_at = 1 + orphans.len() as u32;
        let body: Vec<_> = orphans.into_iter().chain(data).chain(nodes).collect();
        head.pack_blocks = body.len() as u32 + 2;
        if head.pack_blocks > SEG_BLOCKS {
            return Err(Errno::ENOSPC);
        }
        let newest = self.newest.borrow().clone();
        [head.sit_bitmap, head.nat_bitmap] = newest.clone();
        let bytes = head.encode();
        let stamp = checkpoint::stamp(&bytes);
        let turn = 1 - self.turn.get();
        let start = self.geometry.cp + turn * SEG_BLOCKS;
        let who = metadata(self.origin, Purpose::Journal);
        let last = (start + body.len() as u32 + 1, payload(bytes.clone()));
        let first = std::iter::once(bytes).chain(body).map(payload);
        self.write_blocks((start..).zip(first).collect(), who)
            .await?;
        self.port.flush().await.map_err(errno)?;
        let content = Content::Sectors(std::slice::from_ref(&last.1));
        let write = self
            .port
            .write(extent(last.0, 1), content, self.placer.tables, who, true);
        write.await.map_err(errno)?;
        *self.committed.borrow_mut() = newest;
        self.turn.set(turn);
        Ok(stamp)
    }

    async fn read(&self, addr: u32, mut blocks: &mut [Payload], who: Who) -> Result<()> {
        let extent = extent(addr, blocks.len());
        self.port
            .read(extent, &mut blocks, who)
            .await
            .map_err(errno)
    }

    async fn write(&self, addr: u32, blocks: &[Payload], log: Log, who: Who) -> Result<()> {
        let placement = self.placer.logs[log as usize];
        let write = write_run(&self.port, addr, blocks, placement, who);
        write.await.map_err(errno)
    }

    async fn flush(&self) -> Result<()> {
        self.port.flush().await.map_err(errno)
    }

    async fn discard(&self, addr: u32, blocks: u32) -> Result<()> {
        let trim = self.port.trim(extent(addr, blocks as usize));
        trim.await.map_err(errno)
    }
}
