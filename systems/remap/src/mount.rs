//! Format, mount and close of a layer.
//!
//! Invariants: a fresh layer reads as zeros. Recovery overwrites nothing that the last checkpoint
//! leads to before its own checkpoint is complete, so it can be repeated after a cut. Pairs of the
//! open transaction at a power cut are lost unless their transaction is whole in the log.

use crate::batch::Batch;
use crate::config::{FormatOptions, Options};
use crate::format::{
    Block, Header, NONE, PER_DIRECTORY, PER_LOG, PER_PAGE, Pair, Place, Sums, Super, blank,
    encode_directory, encode_header, encode_super, payload,
};
use crate::layout::{HEADERS, LayoutError};
use crate::metrics::Metrics;
use crate::paging::PageError;
use crate::port::{Log, Remap, Shared, State, extent};
use crate::restore::{self, OpenError, Replay, Replayed};
use crate::salvage::Lost;
use crate::space::Space;
use crate::tables::Tables;
use host::{BlockPort, Purpose, Who};
use nand::{Payload, UNIT};
use sim::{Semaphore, Signal, Sim};
use ssd::{Content, IoError};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use units::{Bytes, Ns, Placement, Refusals};

/// Units of one read during recovery: 1 MiB.
pub(crate) const READ: u32 = 256;
/// Units of one deallocation during a format: 1 GiB.
const DISCARD: u32 = 1 << 18;
/// Pairs of the log that are sorted and applied as one group: 512 KiB of memory.
const REPLAY: usize = 1 << 16;
/// Capacity of the open transaction, in multiples of `commit_pairs`.
const OPEN: usize = 4;

/// Reasons why a format fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The layer cannot be laid out on the medium.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The medium failed during the format.
    #[error("the medium below failed: {0}")]
    Io(#[from] IoError),
}

/// Capacity that a layer on a medium of `capacity` offers to the host.
///
/// # Errors
/// If the layer cannot be laid out there.
pub fn offered(capacity: Bytes, options: &FormatOptions) -> Result<Bytes, LayoutError> {
    let layout = Super::plan(capacity, options)?;
    Ok(Bytes(u64::from(layout.logical) * UNIT as u64))
}

/// Formats `port` with an empty layer, all of which reads as zeros.
///
/// # Errors
/// If the layer cannot be laid out there, or the medium fails.
pub async fn format<P: BlockPort>(port: &P, options: &FormatOptions) -> Result<(), FormatError> {
    let layout = Super::plan(port.capacity(), options)?;
    let sums = Sums::of(&layout.uuid);
    let who = Who {
        purpose: Purpose::Metadata,
        ..Who::default()
    };
    let write = async |unit: u32, block: Box<Block>| {
        let block = [payload(block)];
        let content = Content::Sectors(&block);
        port.write(extent(unit, 1), content, Placement(0), who, false)
            .await
    };
    // Blocks of an older layer's log must not pass for blocks of this one.
    let mut at = layout.log;
    while at < layout.tables {
        let units = READ.min(layout.tables - at);
        let zeros = port.write(
            extent(at, units),
            Content::Nothing,
            Placement(0),
            who,
            false,
        );
        zeros.await?;
        at += units;
    }
    // Deallocates tables and data of an older layer.
    let mut at = if options.discard {
        layout.tables
    } else {
        layout.units
    };
    while at < layout.units {
        let units = DISCARD.min(layout.units - at);
        port.trim(extent(at, units)).await?;
        at += units;
    }
    let header = Header {
        sequence: 1,
        next_tx: 1,
        log_at: 0,
        entries: 0,
    };
    let places = vec![Place::Absent; layout.pages as usize];
    for (index, places) in (0..).zip(places.chunks(PER_DIRECTORY)) {
        let block = encode_directory(places, header.sequence, index, sums);
        write(layout.directory_at(header.sequence) + index, block).await?;
    }
    write(HEADERS[0], blank()).await?;
    write(HEADERS[1], encode_header(&header, sums)).await?;
    port.flush().await?;
    // The layer exists once its superblock does.
    for unit in [0, 1] {
        write(unit, encode_super(&layout)).await?;
    }
    port.flush().await?;
    Ok(())
}

/// Recovers and opens the layer on `port`: loads the last checkpoint, replays the log, and writes a
/// new checkpoint.
//= remap 3.5
///
/// # Errors
/// Names the damage and what remains readable.
pub async fn open<P: BlockPort>(
    sim: &Sim,
    port: &P,
    options: Options,
) -> Result<Remap<P>, OpenError> {
    let begun = sim.now();
    let units = port.capacity().0 / UNIT as u64;
    if units < u64::from(HEADERS[1]) + 1 {
        return Err(OpenError::NoSuperblock);
    }
    let heads = read_blocks(port, 0, 4).await?;
    let layout = restore::superblock([heads[0], heads[1]], units)?;
    let sums = Sums::of(&layout.uuid);
    let header = restore::header([heads[2], heads[3]], sums)?;
    let at = layout.directory_at(header.sequence);
    let blocks = read_blocks(port, at, layout.directory_units).await?;
    let places = restore::directory(&layout, header.sequence, sums, |unit| {
        blocks.get((unit - at) as usize).copied().flatten()
    })?;
    let state = state(&layout, &options, &header, places);
    let shared = shared(sim, port, options, layout, state);
    shared.load_all().await?;
    let replayed = shared.replay(&header).await?;
    shared.state.borrow_mut().space.open(options.trim.is_some());
    match shared.checkpoint().await {
        // A read-only medium leaves the layer readable.
        Err(IoError::ReadOnly) => drop(shared.fail(IoError::ReadOnly)),
        done => done?,
    }
    shared.state.borrow_mut().metrics = Metrics {
        recovery: sim.now().since(begun),
        replayed: u64::from(replayed.transactions),
        ..Metrics::default()
    };
    Ok(Remap {
        shared: Rc::new(shared),
    })
}

/// Reads `units` blocks from `unit` on; `None` for a block that cannot be read.
pub(crate) async fn read_blocks<P: BlockPort>(
    port: &P,
    unit: u32,
    units: u32,
) -> Result<Vec<Option<Block>>, OpenError> {
    let mut blocks = Vec::with_capacity(units as usize);
    let mut payloads = vec![Payload::Zero; READ as usize];
    let who = Who {
        purpose: Purpose::Metadata,
        ..Who::default()
    };
    for at in (unit..unit + units).step_by(READ as usize) {
        let count = READ.min(unit + units - at);
        let mut part = &mut payloads[..count as usize];
        match port.read(extent(at, count), &mut part, who).await {
            Ok(()) => {}
            Err(IoError::Media(_)) => {
                // Retry one by one, so that only the unreadable block is lost.
                for unit in 0..count {
                    let mut own = &mut part[unit as usize..=unit as usize];
                    match port.read(extent(at + unit, 1), &mut own, who).await {
                        Ok(()) => {}
                        Err(IoError::Media(_)) => own[0] = Payload::Lost,
                        Err(error) => return Err(error.into()),
                    }
                }
            }
            Err(error) => return Err(error.into()),
        }
        blocks.extend(payloads[..count as usize].iter().map(|payload| {
            let mut block = [0; UNIT];
            payload.copy_to(0, &mut block).then_some(block)
        }));
    }
    Ok(blocks)
}

pub(crate) fn state(
    layout: &Super,
    options: &Options,
    header: &Header,
    places: Vec<Place>,
) -> State {
    let full = (options.commit_pairs as usize).max(1) * OPEN;
    let blocks = (layout.log_units as usize / 8).clamp(1, usize::from(u16::MAX));
    let most = full.min(blocks * PER_LOG);
    State {
        open: Batch::new(most),
        closing: Batch::new(most),
        tables: Tables::new(layout, options.variant, places),
        space: Space::new(layout.data_units),
        log: Log {
            head: header.log_at,
            used: 0,
            next_tx: header.next_tx,
            sequence: header.sequence,
        },
        metrics: Metrics::default(),
        refusals: Refusals::default(),
        asked: Ns::ZERO,
        since: Ns::ZERO,
        number: 0,
        lost: Lost::default(),
    }
}

pub(crate) fn shared<P: BlockPort>(
    sim: &Sim,
    port: &P,
    options: Options,
    layout: Super,
    state: State,
) -> Shared<P> {
    let most = state.open.most() as u32;
    Shared {
        sim: sim.clone(),
        port: port.clone(),
        options: Options {
            commit_pairs: options.commit_pairs.clamp(1, most),
            ..options
        },
        sums: Sums::of(&layout.uuid),
        layout,
        state: RefCell::new(state),
        commits: Semaphore::new(sim, 1),
        paging: Semaphore::new(sim, 1),
        cleaning: Semaphore::new(sim, 1),
        partial: Semaphore::new(sim, 1),
        room: Signal::default(),
        timer: Cell::new(false),
        cleaner: Cell::new(false),
        failed: Cell::new(None),
        background: Cell::new(None),
        closed: Cell::new(false),
    }
}

impl<P: BlockPort> Shared<P> {
    /// Loads all tables as of the checkpoint, and records their pairs on the physical side.
    async fn load_all(&self) -> Result<(), OpenError> {
        for part in 0..self.layout.partitions() {
            if self.state.borrow().tables.places(part).is_empty() {
                continue;
            }
            let pages = self.read_pages(part).await.map_err(|error| match error {
                PageError::Damaged { page, unit } => restore::damaged(&self.layout, page, unit),
                PageError::Io(error) => error.into(),
            })?;
            let entries = self.fill(part, &pages)?;
            self.think(self.options.insert, entries).await;
            match self.shrink().await {
                // Tables cannot be written back, so memory exceeds its limit.
                Err(IoError::ReadOnly) => {}
                done => done?,
            }
        }
        Ok(())
    }

    /// Loads one table and records its pairs; returns the number of its entries.
    fn fill(&self, part: u32, pages: &[(u32, [u32; PER_PAGE])]) -> Result<u64, OpenError> {
        let state = &mut *self.state.borrow_mut();
        state.tables.fill(part, pages);
        let mut count = 0;
        for (page, entries) in pages {
            let pairs = self.layout.addresses(*page).zip(entries);
            for (orig, &trans) in pairs.filter(|(_, trans)| **trans != NONE) {
                restore::found(&self.layout, &mut state.space, Pair { orig, trans })?;
                count += 1;
            }
        }
        state.tables.count(count);
        Ok(count)
    }

    /// Replays the log behind the checkpoint, a group of pairs at a time.
    async fn replay(&self, header: &Header) -> Result<Replayed, OpenError> {
        let mut replay = Replay::new(&self.layout, header, self.sums);
        let mut pairs = Vec::new();
        while let Some(at) = replay.next() {
            let count = READ.min(self.layout.log_units - at);
            for block in read_blocks(&self.port, self.layout.log + at, count).await? {
                if replay.next().is_none() {
                    break;
                }
                replay.push(block.as_ref(), &mut |more| {
                    for pair in more {
                        restore::check_pair(&self.layout, *pair)?;
                    }
                    pairs.extend_from_slice(more);
                    Ok(())
                })?;
            }
            if pairs.len() >= REPLAY {
                self.apply_replayed(&mut pairs).await?;
            }
        }
        self.apply_replayed(&mut pairs).await?;
        let replayed = replay.finish();
        let state = &mut *self.state.borrow_mut();
        (state.log.head, state.log.next_tx) = (replayed.head, replayed.next_tx);
        Ok(replayed)
    }

    /// Applies pairs of whole transactions, table by table. A unit may be superseded and reused
    /// within the group, so all superseded units are released before any new one is recorded.
    async fn apply_replayed(&self, pairs: &mut Vec<Pair>) -> Result<(), OpenError> {
        // Keep the newest pair of each address.
        pairs.reverse();
        pairs.sort_by_key(|pair| pair.orig);
        pairs.dedup_by_key(|pair| pair.orig);
        for pair in pairs.iter() {
            let part = self.state.borrow().tables.partition_of(pair.orig);
            while !self.state.borrow().tables.is_in_memory(part) {
                match self.load(part).await {
                    // The table is loaded; other tables could not be dropped.
                    Err(IoError::ReadOnly) if self.failed.get().is_some() => {}
                    done => done?,
                }
            }
            let state = &mut *self.state.borrow_mut();
            if let Some(old) = state.tables.set(pair.orig, pair.trans) {
                state.space.lose(old);
            }
        }
        self.think(self.options.insert, pairs.len() as u64).await;
        let space = &mut self.state.borrow_mut().space;
        for pair in pairs.drain(..).filter(|pair| pair.trans != NONE) {
            restore::found(&self.layout, space, pair)?;
        }
        Ok(())
    }
}

impl<P: BlockPort> Remap<P> {
    /// Commits, writes a checkpoint, and stops all background work.
    ///
    /// # Errors
    /// If the medium fails; the layer is then no longer clean on the medium.
    pub async fn close(&self) -> Result<(), IoError> {
        let shared = &self.shared;
        shared.closed.set(true);
        let _cleaning = shared.cleaning.acquire(1).await;
        shared.commit().await?;
        let _turn = shared.commits.acquire(1).await;
        if shared.state.borrow().log.used > 0 {
            let done = shared.checkpoint().await;
            done.map_err(|error| shared.fail(error))?;
        }
        Ok(())
    }
}
