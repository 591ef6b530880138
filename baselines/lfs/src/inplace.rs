//! F2FS as Linux has it: tables with two places for each block, and checkpoint packs in
//! two segments in turn, all of them written in place over a port of blocks.
//!
//! Invariants: of the two places of a block of a table, the one that the last checkpoint
//! leads to is not written; the last block of a pack is written when everything else is
//! durable, and only then does the pack count.

use crate::format::checkpoint::Head;
use crate::format::superblock::{Geometry, SuperError};
use crate::format::{BLOCK, Block, SEG_BLOCKS, blank};
use crate::persist::{Found, Log, MainArea, Pack, Persist, Table};
use crate::turns::Turns;
use host::{BlockPort, Disk, Purpose, Who};
use nand::Payload;
use ssd::{Content, IoError};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use units::{Extent, Origin, Placement, SECTOR};
use vfs::{Errno, Result};

/// Host sectors of a block.
const SECTORS: u64 = BLOCK as u64 / SECTOR;

/// Most blocks of one command: 1 MiB, as Linux sends at most to a drive that names no
/// limit of its own.
pub(crate) const COMMAND_BLOCKS: usize = 256;

/// Reasons for which no committed state can be opened.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum OpenError {
    /// Neither superblock can be used; this is the first one's reason.
    #[error(transparent)]
    Super(#[from] SuperError),
    /// Neither checkpoint is whole.
    #[error("neither checkpoint is whole")]
    Checkpoint,
    /// Sections of the superblock do not match the zones of the drive.
    #[error("the sections of the file system are not the zones of the drive")]
    Zones,
    /// A read of the superblock or of a checkpoint failed.
    #[error("the drive failed: {0}")]
    Io(#[from] IoError),
}

/// Placement handles of the logs and of the tables.
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

/// The strategy that writes tables and logs in place on a port of blocks.
pub struct InPlace {
    port: Disk,
    placer: Placer,
    origin: Origin,
    geometry: Geometry,
    turns: Turns,
    /// The segment of the last checkpoint, 0 or 1.
    turn: Cell<u32>,
}

pub(crate) fn errno(error: IoError) -> Errno {
    match error {
        IoError::ReadOnly => Errno::EROFS,
        _ => Errno::EIO,
    }
}

pub(crate) fn extent(start: u32, blocks: usize) -> Extent {
    Extent::new(u64::from(start) * SECTORS, (blocks as u64 * SECTORS) as u32)
}

fn payload(block: Box<Block>) -> Payload {
    Payload::Bytes(Arc::from(block))
}

const fn metadata(origin: Origin, purpose: Purpose) -> Who {
    Who { origin, purpose }
}

async fn read_block(port: &Disk, block: u32, who: Who) -> std::result::Result<Box<Block>, IoError> {
    let mut bytes = blank();
    let mut sink = bytes.as_mut_slice();
    port.read(extent(block, 1), &mut sink, who).await?;
    Ok(bytes)
}

/// Writes a run of blocks, in commands of a size that drives take.
async fn write_run(
    port: &Disk,
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

/// The pack in one of the segments; none if it is not whole.
async fn read_pack(
    port: &Disk,
    geometry: &Geometry,
    segment: u32,
    who: Who,
) -> std::result::Result<Option<(Pack, u64)>, IoError> {
    let start = geometry.cp + segment * SEG_BLOCKS;
    let first = read_block(port, start, who).await?;
    let Some(head) = Head::decode(&first, geometry) else {
        return Ok(None);
    };
    let mut blocks = vec![first];
    for at in 1..head.pack_blocks {
        blocks.push(read_block(port, start + at, who).await?);
    }
    Ok(Pack::decode(blocks, geometry))
}

impl InPlace {
    /// Finds the last state on `port`.
    ///
    /// # Errors
    /// [`OpenError`]: no superblock or no whole checkpoint, or the drive failed.
    pub(crate) async fn open(
        port: Disk,
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
        let mut best: Option<(u32, Pack, u64)> = None;
        for segment in 0..2 {
            let who = metadata(origin, Purpose::Journal);
            let found = read_pack(&port, &geometry, segment, who).await?;
            let newest = |pack: &Pack| {
                let best = best.as_ref();
                let older = vfs::mutant::is("f2fs-mount-takes-older-checkpoint");
                best.is_none_or(|(_, best, _)| (pack.head.version > best.head.version) != older)
            };
            if let Some((pack, stamp)) = found
                && newest(&pack)
            {
                best = Some((segment, pack, stamp));
            }
        }
        let (turn, pack, stamp) = best.ok_or(OpenError::Checkpoint)?;
        let handles = if placed { port.handles() } else { 1 };
        let strategy = Self {
            port,
            placer: Placer::for_handles(handles),
            origin,
            turns: Turns::new(geometry.clone(), &pack.head),
            geometry: geometry.clone(),
            turn: Cell::new(turn),
        };
        let found = Found {
            geometry,
            pack,
            stamp,
        };
        Ok((strategy, found))
    }

    /// The port of the drive that holds the file system.
    pub fn port(&self) -> &Disk {
        &self.port
    }

    const fn who_of(&self, table: Table) -> Who {
        let purpose = match table {
            Table::Nat(_) => Purpose::Pointer,
            Table::Sit(_) => Purpose::Bitmap,
            Table::Summary(_) => Purpose::Metadata,
        };
        metadata(self.origin, purpose)
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

impl Persist for InPlace {
    type Main = Self;

    fn main(&self) -> &Self {
        self
    }

    async fn read_table(&self, table: Table) -> Result<Box<Block>> {
        let at = self.turns.newest(table);
        let read = read_block(&self.port, at, self.who_of(table));
        read.await.map_err(errno)
    }

    async fn write_tables(&self, blocks: Vec<(Table, Box<Block>)>) -> Result<()> {
        let mut by_who: BTreeMap<Purpose, Vec<(u32, Payload)>> = BTreeMap::new();
        for (table, block) in blocks {
            let at = self.turns.turn_over(table);
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
        let (mut blocks, stamp) = pack.encode(&self.turns)?;
        let turn = 1 - self.turn.get();
        let start = self.geometry.cp + turn * SEG_BLOCKS;
        let who = metadata(self.origin, Purpose::Journal);
        let last = blocks.pop().map(payload);
        let last_at = start + blocks.len() as u32;
        let before = (start..).zip(blocks.into_iter().map(payload));
        self.write_blocks(before.collect(), who).await?;
        if !vfs::mutant::is("f2fs-checkpoint-without-flush") {
            self.port.flush().await.map_err(errno)?;
        }
        let content = Content::Sectors(last.as_slice());
        let write = self
            .port
            .write(extent(last_at, 1), content, self.placer.tables, who, true);
        write.await.map_err(errno)?;
        self.turns.committed();
        self.turn.set(turn);
        Ok(stamp)
    }
}

impl MainArea for InPlace {
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
