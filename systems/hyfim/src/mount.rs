//! Configuration, creation, mount and recovery.

use crate::HyfimError;
use crate::overlay::Overlay;
use crate::queue::{Found, Queue, RecordState};
use crate::record::{exchange_bytes, take_changes, take_quadruples};
use host::{BlockPort, Pm, RawPort, Region, Regions};
use hostftl::{FtlConfig, FtlError, Home, HostFtl, PmBuffer, PmTable, buffer_bytes, table_bytes};
use nand::UNIT;
use sim::{Semaphore, Sim};
use std::cell::{Cell, RefCell, RefMut};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use units::{Bytes, MIB};

/// Kinds of the regions of persistent memory, stored in its region table.
const TABLE: u64 = 1;
const EXCHANGES: u64 = 2;
const CHANGES: u64 = 3;
const BUFFER: u64 = 4;

/// Names of the two journals, in errors.
const OF_SECTORS: &str = "of sectors";
const OF_NODES: &str = "of nodes";

/// Configuration of a HyFiM instance; a mount needs the values of its creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HyfimConfig {
    /// Configuration of the mapping. Its hidden sectors serve as spare sectors.
    pub ftl: FtlConfig,
    /// Size of each of the two journals: 64 MiB, our choice within the room that the table of the
    /// paper's drive leaves in 1 GiB of persistent memory.
    pub journal: Bytes,
    /// Whether the write buffer of the mapping is in persistent memory, too. The paper does not
    /// say; a drive of its kind has the buffer in volatile memory.
    //= hyfim 4
    pub lasting: bool,
}

impl HyfimConfig {
    /// HyFiM over a mapping, with one spare sector for every 64 sectors (at least 1,024, at most
    /// 65,536) and journals of 64 MiB: our choices.
    #[must_use]
    pub const fn new(ftl: FtlConfig) -> Self {
        let wanted = ftl.capacity.0 / UNIT as u64 / 64;
        let hidden = if wanted < 1_024 {
            1_024
        } else if wanted > 65_536 {
            65_536
        } else {
            wanted as u32
        };
        Self {
            ftl: FtlConfig { hidden, ..ftl },
            journal: Bytes(64 * MIB),
            lasting: false,
        }
    }

    /// Persistent memory that this configuration needs, in pages of 4 KiB.
    #[must_use]
    pub fn memory(&self) -> Bytes {
        let wanted = self.regions(self.sectors().unwrap_or(u32::MAX));
        let pages = wanted.iter().map(|(_, bytes)| bytes.div_ceil(UNIT as u64));
        Bytes((1 + pages.sum::<u64>()) * UNIT as u64)
    }

    /// Kind and size in bytes of each region, for `sectors` table entries.
    fn regions(&self, sectors: u32) -> Vec<(u64, u64)> {
        let mut wanted = vec![
            (TABLE, table_bytes(sectors)),
            (EXCHANGES, self.journal.0),
            (CHANGES, self.journal.0),
        ];
        if self.lasting {
            wanted.push((BUFFER, buffer_bytes(self.ftl.buffer)));
        }
        wanted
    }

    /// The write buffer in persistent memory; `None` if the buffer is volatile.
    fn buffer(&self, pm: &Pm, regions: &Regions) -> Result<Option<PmBuffer>, HyfimError> {
        if !self.lasting {
            return match regions.get(BUFFER) {
                Err(_) => Ok(None),
                // The mount would lose the data in the buffer.
                Ok(_) => Err(FtlError::Buffer("it was not asked for".to_owned()).into()),
            };
        }
        let region = regions.get(BUFFER)?;
        Ok(Some(PmBuffer::new(pm.clone(), region, &self.ftl)))
    }

    fn sectors(&self) -> Option<u32> {
        let exported = u32::try_from(self.ftl.capacity.0 / UNIT as u64).ok()?;
        exported.checked_add(self.ftl.hidden)
    }
}

/// Result of the recovery of a mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Records of exchanges that were redone.
    pub exchanges: u64,
    /// Records of node changes that were redone.
    pub changes: u64,
    /// Records of either journal that were dropped: not yet checkpointing, or done before.
    pub released: u64,
    /// Sectors of nodes that redo could not read: their nodes are damaged, and fail their
    /// checksums.
    pub lost: u64,
}

impl Recovered {
    /// One line for the user; `None` if no record was found.
    #[must_use]
    pub fn told(&self) -> Option<String> {
        if *self == Self::default() {
            return None;
        }
        let mut told = format!(
            "did again what {} records of exchanges and {} of changes say, and let go of {}",
            self.exchanges, self.changes, self.released
        );
        if self.lost > 0 {
            let lost = self.lost;
            told += &format!("; {lost} sectors of nodes could not be read, and are damaged");
        }
        Some(told)
    }
}

/// Counters since the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HyfimStats {
    /// Publications that have become durable.
    pub published: u64,
    /// Sectors written to spare sectors.
    pub staged: u64,
    /// Sectors exchanged with spare sectors.
    pub exchanged: u64,
    /// Batches not staged because too few spare sectors were free.
    pub refused: u64,
    /// Bytes of node changes written to the journal.
    pub journaled_bytes: u64,
    /// Nodes written back in place.
    pub written_back: u64,
    /// Publications that waited for room in the journal of nodes.
    pub waits: u64,
}

struct Inner<P> {
    sim: Sim,
    ftl: HostFtl<P>,
    exchanges: Queue,
    changes: Queue,
    overlay: RefCell<Overlay>,
    /// Serializes publications: one at a time holds it from its first record to its exchange.
    turn: Semaphore,
    /// Serializes write-backs of nodes.
    writing: Semaphore,
    leaving: Cell<bool>,
    /// Positions of the records whose nodes are not known to be on flash, oldest first.
    pending: RefCell<VecDeque<u64>>,
    stats: Cell<HyfimStats>,
    /// Whether a publication waits for room in the journal of nodes; see [`HyFim::is_waiting`].
    waiting: Cell<bool>,
    /// Whether a batch was not staged for lack of spare sectors since the last publication.
    short: Cell<bool>,
    config: HyfimConfig,
}

/// A mounted HyFiM; clones share it.
pub struct HyFim<P> {
    inner: Rc<Inner<P>>,
}

impl<P> Clone for HyFim<P> {
    fn clone(&self) -> Self {
        Self {
            inner: Rc::clone(&self.inner),
        }
    }
}

impl<P: RawPort> HyFim<P> {
    /// Takes over a drive, with its previous mapping if it has one, and initializes persistent
    /// memory: table and journals are new, and earlier contents of the memory are lost. Meant for a
    /// format, never for finding a file system. Until this returns the drive is as it was, and a
    /// cut leaves the memory blank.
    ///
    /// # Errors
    /// If persistent memory is too small, or the drive fails.
    pub async fn adopt(
        sim: &Sim,
        port: P,
        pm: &Pm,
        config: HyfimConfig,
    ) -> Result<Self, HyfimError> {
        let sectors = config.sectors().unwrap_or(u32::MAX);
        let wanted = config.regions(sectors);
        Regions::create(pm, &wanted, async |regions| {
            let table = PmTable::new(pm.clone(), regions.get(TABLE)?);
            table.make(sectors).await?;
            for kind in [EXCHANGES, CHANGES] {
                Queue::create(pm, regions.get(kind)?).await;
            }
            let (exchanges, _) = Queue::open(sim, pm, regions.get(EXCHANGES)?, OF_SECTORS).await?;
            let (changes, _) = Queue::open(sim, pm, regions.get(CHANGES)?, OF_NODES).await?;
            check_sizes(&exchanges, &changes, &config)?;
            let buffer = config.buffer(pm, regions)?;
            if let Some(buffer) = &buffer {
                buffer.make(&port.geometry()).await?;
            }
            // Once its regions exist, the memory must hold the whole mapping: the table would be
            // reported as damaged otherwise.
            let home = Home::Moving(table);
            let ftl = HostFtl::mount_with(sim, port, config.ftl, home, buffer).await?;
            Self::of(sim, ftl, (exchanges, changes), config)
        })
        .await
    }

    /// Assembles the instance from its opened parts.
    fn of(
        sim: &Sim,
        ftl: HostFtl<P>,
        (exchanges, changes): (Queue, Queue),
        config: HyfimConfig,
    ) -> Result<Self, HyfimError> {
        check_sizes(&exchanges, &changes, &config)?;
        let exported = (config.ftl.capacity.0 / UNIT as u64) as u32;
        let inner = Inner {
            sim: sim.clone(),
            ftl,
            exchanges,
            changes,
            overlay: RefCell::new(Overlay::new(exported..exported + config.ftl.hidden)),
            turn: Semaphore::new(sim, 1),
            writing: Semaphore::new(sim, 1),
            leaving: Cell::default(),
            stats: Cell::default(),
            waiting: Cell::default(),
            short: Cell::default(),
            pending: RefCell::default(),
            config,
        };
        Ok(Self {
            inner: Rc::new(inner),
        })
    }

    /// Recovers and mounts a drive with its persistent memory.
    ///
    /// # Errors
    /// If either is damaged or does not match the other, or the drive fails. An inconsistent record
    /// is not redone in part.
    //= hyfim 3.4
    pub async fn mount(
        sim: &Sim,
        port: P,
        pm: &Pm,
        config: HyfimConfig,
    ) -> Result<(Self, Recovered), HyfimError> {
        let regions = Regions::open(pm).await?;
        let table = PmTable::new(pm.clone(), regions.get(TABLE)?);
        let region = |kind| -> Result<Region, HyfimError> { Ok(regions.get(kind)?) };
        let (exchanges, swaps) = Queue::open(sim, pm, region(EXCHANGES)?, OF_SECTORS).await?;
        let (changes, found) = Queue::open(sim, pm, region(CHANGES)?, OF_NODES).await?;
        let redone = found.iter().filter(|record| record.state.is_redone());
        let partners: BTreeSet<u64> = redone.map(|record| record.position).collect();
        let mut recovered = Recovered::default();
        let geometry = port.geometry();
        table.check(spans(&config).1)?;
        table.check_drive(&geometry)?;
        let buffer = config.buffer(pm, &regions)?;
        if let Some(buffer) = &buffer {
            buffer.check(&geometry).await?;
        }
        let kept = Kept {
            table: &table,
            buffer: buffer.as_ref(),
            blocks: geometry.all_chunks().saturating_mul(geometry.blocks),
            config: &config,
        };
        let redone = kept.exchanges_of((&swaps, &partners), &mut recovered)?;
        kept.repair(&redone).await?;
        exchanges.clear().await;
        let home = Home::Pm(table);
        let ftl = HostFtl::mount_with(sim, port, config.ftl, home, buffer).await?;
        let hyfim = Self::of(sim, ftl, (exchanges, changes), config)?;
        hyfim.redo_all(&found, &mut recovered).await?;
        Ok((hyfim, recovered))
    }

    /// Redoes the records of nodes in order, and clears the journal once the nodes are on flash. A
    /// cut before that leaves the records, and the next mount redoes all.
    async fn redo_all(&self, found: &[Found], told: &mut Recovered) -> Result<(), HyfimError> {
        for record in found {
            if !record.state.is_redone() {
                told.released += 1;
                continue;
            }
            let changes = take_changes(&record.body).ok_or(HyfimError::Damaged(OF_NODES))?;
            told.lost += self.redo(&changes).await?;
            told.changes += 1;
        }
        self.inner.ftl.flush().await?;
        self.inner.changes.clear().await;
        Ok(())
    }

    /// The mapping below, for its statistics and its sectors.
    #[must_use]
    pub fn ftl(&self) -> &HostFtl<P> {
        &self.inner.ftl
    }

    /// Whether either journal has a record in `state`; tests place their cuts by it.
    #[must_use]
    pub fn has_record(&self, state: RecordState) -> bool {
        self.inner.exchanges.has(state) || self.inner.changes.has(state)
    }

    /// Number of free spare sectors.
    #[must_use]
    pub fn spares(&self) -> usize {
        self.inner.overlay.borrow().free().len()
    }

    /// Counters since the mount.
    #[must_use]
    pub fn stats(&self) -> HyfimStats {
        self.inner.stats.get()
    }

    /// Whether a publication waits now for room in the journal of nodes.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.inner.waiting.get()
    }

    /// Whether a batch was copied for lack of spare sectors since the last publication.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.inner.short.get()
    }

    pub(crate) fn waiting(&self) -> &Cell<bool> {
        &self.inner.waiting
    }

    pub(crate) fn short(&self) -> &Cell<bool> {
        &self.inner.short
    }

    pub(crate) fn tally(&self, count: impl FnOnce(&mut HyfimStats)) {
        let mut stats = self.inner.stats.get();
        count(&mut stats);
        self.inner.stats.set(stats);
    }

    pub(crate) fn sim(&self) -> &Sim {
        &self.inner.sim
    }

    pub(crate) fn overlay_mut(&self) -> RefMut<'_, Overlay> {
        self.inner.overlay.borrow_mut()
    }

    pub(crate) fn writing(&self) -> &Semaphore {
        &self.inner.writing
    }

    /// Whether a write-back runs because the journal is half full.
    pub(crate) fn leaving(&self) -> &Cell<bool> {
        &self.inner.leaving
    }

    /// Nodes of 16 KiB that one record can hold beside a superblock, even if they change as a
    /// whole.
    pub(crate) fn most_nodes(&self) -> usize {
        let room = self.inner.changes.most().saturating_sub(UNIT + 128);
        room / (4 * UNIT + 128)
    }

    pub(crate) fn exchanges(&self) -> &Queue {
        &self.inner.exchanges
    }

    pub(crate) fn changes(&self) -> &Queue {
        &self.inner.changes
    }

    pub(crate) fn turn(&self) -> &Semaphore {
        &self.inner.turn
    }

    pub(crate) fn pending(&self) -> &RefCell<VecDeque<u64>> {
        &self.inner.pending
    }

    /// Number of exported sectors, 4 KiB each; the spare ones follow.
    pub(crate) fn exported(&self) -> u32 {
        (self.inner.config.ftl.capacity.0 / UNIT as u64) as u32
    }

    /// Panics if an invariant does not hold. Call it when no request is in flight.
    pub fn check(&self) {
        self.inner.ftl.check();
        self.inner.exchanges.check();
        self.inner.changes.check();
        for &spare in self.inner.overlay.borrow().free() {
            assert_eq!(self.inner.ftl.place(spare), None, "spare sector {spare}");
        }
    }
}

/// Parts of the mapping in persistent memory, before the mapping is mounted.
struct Kept<'a> {
    table: &'a PmTable,
    buffer: Option<&'a PmBuffer>,
    /// Blocks of the drive; places from here on are slots of the buffer.
    blocks: u32,
    config: &'a HyfimConfig,
}

/// New places by sector: a block, a buffer slot behind the blocks, or `None`.
type Places = BTreeMap<u32, Option<u32>>;

impl Kept<'_> {
    /// Final places of all sectors whose records are redone; the last record of a sector wins. A
    /// record is redone if its state is checkpointing, or its partner is redone. Fails if a block
    /// does not exist, would get two owners, or a slot holds another sector.
    fn exchanges_of(
        &self,
        (found, partners): (&[Found], &BTreeSet<u64>),
        told: &mut Recovered,
    ) -> Result<Places, HyfimError> {
        let (exported, all) = spans(self.config);
        let slots = self.buffer.map_or(0, PmBuffer::slots);
        let end = u64::from(self.blocks) + u64::from(slots);
        let mut places = Places::new();
        for record in found {
            if record.state < RecordState::Committed || record.state == RecordState::Checkpointed {
                told.released += 1;
                continue;
            }
            let body = take_quadruples(&record.body);
            let (partner, quadruples) = body.ok_or(HyfimError::Damaged(OF_SECTORS))?;
            let follows = partner.is_some_and(|partner| partners.contains(&partner));
            if !record.state.is_redone() && !follows {
                told.released += 1;
                continue;
            }
            let fits = quadruples.iter().all(|q| {
                let is_there = q.new.is_none_or(|place| u64::from(place) < end);
                q.sector < exported && (exported..all).contains(&q.spare) && is_there
            });
            if !fits {
                return Err(HyfimError::Damaged(OF_SECTORS));
            }
            places.extend(quadruples.iter().map(|q| (q.sector, q.new)));
            told.exchanges += 1;
        }
        self.check(&places)?;
        Ok(places)
    }

    /// Splits `places` into owners by buffer slot, and table entries.
    fn split(&self, places: &Places) -> (BTreeMap<u32, u32>, Places) {
        let (mut slots, mut entries) = (BTreeMap::new(), Places::new());
        for (&sector, &place) in places {
            match place.and_then(|place| place.checked_sub(self.blocks)) {
                Some(slot) => drop(slots.insert(slot, sector)),
                None => drop(entries.insert(sector, place)),
            }
        }
        (slots, entries)
    }

    /// Rejects places with two owners, and buffer slots that hold other data.
    fn check(&self, places: &Places) -> Result<(), HyfimError> {
        let (exported, _) = spans(self.config);
        let (slots, entries) = self.split(places);
        let mut taken = BTreeSet::new();
        let twice = places.values().flatten().any(|&place| !taken.insert(place));
        let others = (0..if entries.is_empty() { 0 } else { exported })
            .filter(|sector| !entries.contains_key(sector))
            .filter_map(|sector| self.table.get(sector));
        let is_taken = others.into_iter().any(|block| taken.contains(&block));
        let fits = match self.buffer {
            Some(buffer) => buffer.fits(&slots)?,
            None => true,
        };
        if twice || is_taken || !fits {
            return Err(HyfimError::Damaged(OF_SECTORS));
        }
        Ok(())
    }

    /// Applies `places` to buffer and table and unmaps all spare sectors. Runs before the mapping
    /// is mounted, which requires a table without duplicate blocks.
    async fn repair(&self, places: &Places) -> Result<(), HyfimError> {
        let (exported, all) = spans(self.config);
        let (slots, mut entries) = self.split(places);
        if let Some(buffer) = self.buffer {
            let is_elsewhere = |sector| entries.contains_key(&sector);
            buffer.redo(&slots, is_elsewhere).await?;
        }
        let held = (exported..all).filter(|&spare| self.table.get(spare).is_some());
        entries.extend(held.map(|spare| (spare, None)));
        for (&sector, &place) in &entries {
            self.table.put(sector, place);
        }
        self.table.settle(entries.into_keys()).await;
        Ok(())
    }
}

/// Number of exported sectors, and of all sectors including the spare ones.
const fn spans(config: &HyfimConfig) -> (u32, u32) {
    let exported = (config.ftl.capacity.0 / UNIT as u64) as u32;
    (exported, exported + config.ftl.hidden)
}

/// Rejects journals too small for the largest record of one publication.
fn check_sizes(exchanges: &Queue, changes: &Queue, config: &HyfimConfig) -> Result<(), HyfimError> {
    changes.check_size(UNIT + 128)?;
    exchanges.check_size(exchange_bytes(config.ftl.hidden as usize))
}
