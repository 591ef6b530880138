//! Making, mounting and recovering.

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

/// Kinds of the regions of persistent memory.
const TABLE: u64 = 1;
const EXCHANGES: u64 = 2;
const CHANGES: u64 = 3;
const BUFFER: u64 = 4;

/// Names of the journals.
const OF_SECTORS: &str = "of sectors";
const OF_NODES: &str = "of nodes";

/// How HyFiM is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HyfimConfig {
    /// The mapping. Its hidden sectors are the spare ones.
    pub ftl: FtlConfig,
    /// Bytes of each of the two journals: what is left of 1 GiB of persistent memory beside
    /// the table of the paper's drive, and a choice of ours within that.
    pub journal: Bytes,
    /// Whether the write buffer of the mapping is in persistent memory, too. The paper does
    /// not say, and a drive of its kind has it in memory that the power takes.
    //= hyfim 4
    pub lasting: bool,
}

impl HyfimConfig {
    /// HyFiM over a mapping, with a spare sector for every 64, 1,024 at least and 65,536 at
    /// most, and journals of 64 MiB: choices of ours.
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

    /// Persistent memory that it takes.
    #[must_use]
    pub fn memory(&self) -> Bytes {
        let wanted = self.regions(self.sectors().unwrap_or(u32::MAX));
        let pages = wanted.iter().map(|(_, bytes)| bytes.div_ceil(UNIT as u64));
        Bytes((1 + pages.sum::<u64>()) * UNIT as u64)
    }

    /// The kinds of its regions, and the bytes of each.
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

    /// The write buffer, if that is in persistent memory.
    fn buffer(&self, pm: &Pm, regions: &Regions) -> Result<Option<PmBuffer>, HyfimError> {
        if !self.lasting {
            return match regions.get(BUFFER) {
                Err(_) => Ok(None),
                // What it holds would be lost.
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

/// What recovery has found and done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Records of exchanges that were done again.
    pub exchanges: u64,
    /// Records of changes that were done again.
    pub changes: u64,
    /// Records of either that were released.
    pub released: u64,
    /// Sectors of nodes that could not be read to change them: their nodes are damaged, and
    /// say so by their sums.
    pub lost: u64,
}

impl Recovered {
    /// What there is to say of it; nothing if no record was found.
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

/// What was done since the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HyfimStats {
    /// Publications.
    pub published: u64,
    /// Sectors that were staged.
    pub staged: u64,
    /// Sectors that were exchanged.
    pub exchanged: u64,
    /// Times that there were too few spare sectors.
    pub refused: u64,
    /// Bytes of changes of nodes in the journal.
    pub journaled_bytes: u64,
    /// Nodes that were written in their places.
    pub written_back: u64,
    /// Times that a publication waited for room in the journal of nodes.
    pub waits: u64,
}

struct Inner<P> {
    sim: Sim,
    ftl: HostFtl<P>,
    exchanges: Queue,
    changes: Queue,
    overlay: RefCell<Overlay>,
    /// Who publishes.
    turn: Semaphore,
    /// Who writes nodes back.
    writing: Semaphore,
    leaving: Cell<bool>,
    /// Records of nodes that need not be on flash, oldest first.
    pending: RefCell<VecDeque<u64>>,
    stats: Cell<HyfimStats>,
    /// Whether a publication waits for room in the journal of nodes.
    waiting: Cell<bool>,
    /// Whether a batch was refused for lack of spare sectors since the last publication.
    short: Cell<bool>,
    config: HyfimConfig,
}

/// HyFiM, mounted.
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
    /// Mounts a drive whose mapping was elsewhere so far, if it had any, with persistent
    /// memory that is made ready: an empty table and empty journals, and what was there before
    /// is lost. So this is for whoever makes a file system, and for nobody who finds one. Until
    /// this returns the drive is as it was, and what a cut leaves in memory counts as blank.
    ///
    /// # Errors
    /// If there is too little memory, or the drive refuses something.
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
            // Regions that are there have the mapping of the drive, as a whole: a table that
            // says nothing of one is damaged.
            let home = Home::Moving(table);
            let ftl = HostFtl::mount_with(sim, port, config.ftl, home, buffer).await?;
            Self::of(sim, ftl, (exchanges, changes), config)
        })
        .await
    }

    /// It, of its parts.
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

    /// Recovers and mounts what a drive and persistent memory hold.
    ///
    /// # Errors
    /// If they make no sense, or the drive refuses something. Nothing of a record that makes
    /// no sense is done.
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

    /// Does again what records of nodes say, in order, and forgets them once that is on
    /// flash. Until then a cut leaves them as they are, and all is done anew.
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

    /// The mapping.
    #[must_use]
    pub fn ftl(&self) -> &HostFtl<P> {
        &self.inner.ftl
    }

    /// Whether a record of a journal is in this state.
    #[must_use]
    pub fn has_record(&self, state: RecordState) -> bool {
        self.inner.exchanges.has(state) || self.inner.changes.has(state)
    }

    /// Spare sectors that nobody has.
    #[must_use]
    pub fn spares(&self) -> usize {
        self.inner.overlay.borrow().free().len()
    }

    /// What was done since the mount.
    #[must_use]
    pub fn stats(&self) -> HyfimStats {
        self.inner.stats.get()
    }

    /// Whether a publication waits for room in the journal of nodes.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.inner.waiting.get()
    }

    /// Whether what is to be published next has copies for lack of spare sectors.
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

    /// Whether nodes are being written back because the journal is half full.
    pub(crate) fn leaving(&self) -> &Cell<bool> {
        &self.inner.leaving
    }

    /// Nodes of 16 KiB whose changes the journal can hold in one record, besides a
    /// superblock, whatever they are.
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

    /// Sectors of 4 KiB that are not hidden.
    pub(crate) fn exported(&self) -> u32 {
        (self.inner.config.ftl.capacity.0 / UNIT as u64) as u32
    }

    /// Panics if an invariant does not hold. To be called when nothing is under way.
    pub fn check(&self) {
        self.inner.ftl.check();
        self.inner.exchanges.check();
        self.inner.changes.check();
        for &spare in self.inner.overlay.borrow().free() {
            assert_eq!(self.inner.ftl.place(spare), None, "spare sector {spare}");
        }
    }
}

/// What is kept of a mapping, before that is mounted.
struct Kept<'a> {
    table: &'a PmTable,
    buffer: Option<&'a PmBuffer>,
    /// Blocks of the drive, behind which the slots of the buffer are.
    blocks: u32,
    config: &'a HyfimConfig,
}

/// Places of sectors.
type Places = BTreeMap<u32, Option<u32>>;

impl Kept<'_> {
    /// What records of exchanges make the places of sectors, if they are done again: of each
    /// that is, the last. A record that is a part of changes that are done again is done with
    /// them. It makes no sense if a block does not exist, if two sectors would have it, or if a
    /// slot has something else.
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

    /// Which of these places are slots, by slot, and the others.
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

    /// Refuses places that two sectors would have, and slots that have something else.
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

    /// Has sectors be there, and takes spare sectors back: before the mapping is mounted, which
    /// finds a table without any block twice.
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

/// Sectors that are not hidden, and all of them.
const fn spans(config: &HyfimConfig) -> (u32, u32) {
    let exported = (config.ftl.capacity.0 / UNIT as u64) as u32;
    (exported, exported + config.ftl.hidden)
}

/// Refuses journals that could not say what one publication may bring.
fn check_sizes(exchanges: &Queue, changes: &Queue, config: &HyfimConfig) -> Result<(), HyfimError> {
    changes.check_size(UNIT + 128)?;
    exchanges.check_size(exchange_bytes(config.ftl.hidden as usize))
}
