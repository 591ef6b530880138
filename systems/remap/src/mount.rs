//! Making a layer, opening it, and closing it.
//!
//! Invariants: a medium that was formatted reads as zeros; recovery changes nothing that
//! the last checkpoint leads to before its own is there, so that it can be begun again; what is
//! open when the power goes is found by whoever opens next.

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

/// Units that are read at a time.
pub(crate) const READ: u32 = 256;
/// Units that are deallocated at a time: 1 GiB.
const DISCARD: u32 = 1 << 18;
/// Pairs of the log that are applied at a time, in the order of their tables: 512 KiB.
const REPLAY: usize = 1 << 16;
/// Transactions that are full by themselves and may be open at once.
const OPEN: usize = 4;

/// Why a layer cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// There is no place for it.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The medium failed.
    #[error("the medium below failed: {0}")]
    Io(#[from] IoError),
}

/// What a layer on a medium of `capacity` offers.
///
/// # Errors
/// If there is no place for it.
pub fn offered(capacity: Bytes, options: &FormatOptions) -> Result<Bytes, LayoutError> {
    let layout = Super::plan(capacity, options)?;
    Ok(Bytes(u64::from(layout.logical) * UNIT as u64))
}

/// Makes a layer on `port` in which nothing was written.
///
/// # Errors
/// If there is no place for it, or the medium fails.
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
    // A log of an older layer is not to be taken for one of this.
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
    // What an older layer had of tables and data.
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
    // The layer is there once its superblock is.
    for unit in [0, 1] {
        write(unit, encode_super(&layout)).await?;
    }
    port.flush().await?;
    Ok(())
}

/// Recovers and opens the layer on `port`.
//= remap 3.5
///
/// # Errors
/// What is damaged, and what can still be read.
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
        // What is there can be read.
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

/// Blocks of the medium; none for one that cannot be read.
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
                // One by one, so that no other is lost with it.
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
    /// Fills the tables one by one, as of the checkpoint, and the physical side with them.
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
                // Then it takes more memory.
                Err(IoError::ReadOnly) => {}
                done => done?,
            }
        }
        Ok(())
    }

    /// Fills one table; says how many entries it has.
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

    /// Applies what the log adds, a part of it at a time.
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

    /// Applies pairs of whole transactions, table by table. Units may be used again among
    /// them, so what they supersede is let go of before anything is found.
    async fn apply_replayed(&self, pairs: &mut Vec<Pair>) -> Result<(), OpenError> {
        // The newest of each address.
        pairs.reverse();
        pairs.sort_by_key(|pair| pair.orig);
        pairs.dedup_by_key(|pair| pair.orig);
        for pair in pairs.iter() {
            let part = self.state.borrow().tables.partition_of(pair.orig);
            while !self.state.borrow().tables.is_in_memory(part) {
                match self.load(part).await {
                    // It is in memory, and others stay there.
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
    /// Makes all durable, writes a checkpoint, and does nothing of its own accord any more.
    ///
    /// # Errors
    /// Why it could not be made durable.
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
