//! Making, mounting and recovering; and HyFiM as a block port.

use crate::HyfimError;
use crate::queue::{Found, Queue};
use crate::record::{put_quadruples, take_changes, take_quadruples};
use host::{BlockPort, Computing, Pm, RawPort, Region, Regions, Who};
use hostftl::{FtlConfig, Home, HostFtl, PmTable, table_bytes};
use nand::UNIT;
use sim::{Semaphore, Signal, Sim};
use ssd::{Content, IoError, Sink};
use std::cell::{Ref, RefCell};
use std::rc::Rc;
use units::{Bytes, Extent, MIB, Ns, Placement};

/// Kinds of the regions of persistent memory.
const TABLE: u64 = 1;
const EXCHANGES: u64 = 2;
const CHANGES: u64 = 3;

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
}

impl HyfimConfig {
    /// HyFiM that gives `capacity`, with 1,024 spare sectors, which is a choice of ours, and
    /// journals of 64 MiB.
    #[must_use]
    pub const fn new(capacity: Bytes) -> Self {
        let ftl = FtlConfig::new(capacity);
        Self {
            ftl: FtlConfig {
                hidden: 1_024,
                ..ftl
            },
            journal: Bytes(64 * MIB),
        }
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
}

struct Inner<P> {
    sim: Sim,
    ftl: HostFtl<P>,
    exchanges: Queue,
    changes: Queue,
    /// Spare sectors that nobody has.
    spares: RefCell<Vec<u32>>,
    returned: Signal,
    /// Who changes nodes.
    turn: Semaphore,
    /// Records of nodes that need not be on flash, oldest first.
    pending: RefCell<Vec<u64>>,
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
    /// Makes persistent memory ready: an empty table and empty journals. What was there
    /// before is lost.
    ///
    /// # Errors
    /// If there is too little of it.
    pub async fn format(pm: &Pm, config: &HyfimConfig) -> Result<(), HyfimError> {
        let sectors = config.sectors().unwrap_or(u32::MAX);
        let wanted = [
            (TABLE, table_bytes(sectors)),
            (EXCHANGES, config.journal.0),
            (CHANGES, config.journal.0),
        ];
        let regions = Regions::create(pm, &wanted).await?;
        let table = PmTable::new(pm.clone(), regions.get(TABLE)?);
        table.make(sectors).await?;
        for kind in [EXCHANGES, CHANGES] {
            Queue::create(pm, regions.get(kind)?).await;
        }
        Ok(())
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
        let (exchanges, found) = Queue::open(sim, pm, region(EXCHANGES)?, OF_SECTORS).await?;
        let mut recovered = Recovered::default();
        repair(&table, &config, &found, &mut recovered).await?;
        exchanges.clear().await;
        let ftl = HostFtl::mount(sim, port, config.ftl, Home::Pm(table)).await?;
        let (changes, found) = Queue::open(sim, pm, region(CHANGES)?, OF_NODES).await?;
        let exported = (config.ftl.capacity.0 / UNIT as u64) as u32;
        let inner = Inner {
            sim: sim.clone(),
            ftl,
            exchanges,
            changes,
            spares: RefCell::new((exported..exported + config.ftl.hidden).rev().collect()),
            returned: Signal::default(),
            turn: Semaphore::new(sim, 1),
            pending: RefCell::default(),
            config,
        };
        let hyfim = Self {
            inner: Rc::new(inner),
        };
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
            self.redo(&changes).await?;
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

    /// Spare sectors that nobody has.
    #[must_use]
    pub fn spares(&self) -> usize {
        self.inner.spares.borrow().len()
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

    pub(crate) fn pending(&self) -> &RefCell<Vec<u64>> {
        &self.inner.pending
    }

    /// Sectors of 4 KiB that are not hidden.
    pub(crate) fn exported(&self) -> u32 {
        (self.inner.config.ftl.capacity.0 / UNIT as u64) as u32
    }

    /// Refuses batches that could never be exchanged.
    pub(crate) fn check_exchange(&self, sectors: usize) -> Result<(), HyfimError> {
        let has = u64::from(self.inner.config.ftl.hidden);
        if sectors as u64 > has {
            let needs = sectors as u64;
            return Err(HyfimError::Spares { needs, has });
        }
        self.inner
            .exchanges
            .check_size(put_quadruples(&[]).len() + 16 * sectors)
    }

    /// Takes spare sectors, once there are as many.
    pub(crate) async fn take_spares(&self, count: usize) -> Vec<u32> {
        loop {
            {
                let mut spares = self.inner.spares.borrow_mut();
                if spares.len() >= count {
                    let kept = spares.len() - count;
                    return spares.split_off(kept);
                }
            }
            self.inner.returned.wait(&self.inner.sim).await;
        }
    }

    pub(crate) fn give_spares(&self, spares: Vec<u32>) {
        self.inner.spares.borrow_mut().extend(spares);
        self.inner.returned.notify(&self.inner.sim);
    }

    /// Waits until the journal of nodes has room for a body, by writing back what is before.
    pub(crate) async fn make_room(&self, body: &[u8]) -> Result<(), HyfimError> {
        self.inner.changes.check_size(body.len())?;
        if !self.inner.changes.has_room(body.len()) {
            self.write_back().await?;
        }
        Ok(())
    }

    /// Panics if an invariant does not hold. To be called when nothing is under way.
    pub fn check(&self) {
        self.inner.ftl.check();
        self.inner.exchanges.check();
        self.inner.changes.check();
        let spares: Ref<'_, Vec<u32>> = self.inner.spares.borrow();
        for &spare in spares.iter() {
            assert_eq!(self.inner.ftl.place(spare), None, "spare sector {spare}");
        }
    }
}

/// Does again what records of exchanges say, and takes spare sectors back: before the mapping
/// is mounted, which finds a table without any block twice.
async fn repair(
    table: &PmTable,
    config: &HyfimConfig,
    found: &[Found],
    told: &mut Recovered,
) -> Result<(), HyfimError> {
    let exported = (config.ftl.capacity.0 / UNIT as u64) as u32;
    let all = exported + config.ftl.hidden;
    table.check(all)?;
    let mut named = Vec::new();
    for record in found {
        if !record.state.is_redone() {
            told.released += 1;
            continue;
        }
        let quadruples = take_quadruples(&record.body);
        let quadruples = quadruples.ok_or(HyfimError::Damaged(OF_SECTORS))?;
        let fits = quadruples
            .iter()
            .all(|q| q.sector < exported && (exported..all).contains(&q.spare));
        if !fits {
            return Err(HyfimError::Damaged(OF_SECTORS));
        }
        for quadruple in quadruples {
            table.put(quadruple.sector, quadruple.new);
            named.push(quadruple.sector);
        }
        told.exchanges += 1;
    }
    for spare in exported..all {
        if table.get(spare).is_some() {
            table.put(spare, None);
            named.push(spare);
        }
    }
    table.settle(named.into_iter()).await;
    Ok(())
}

impl<P: RawPort> BlockPort for HyFim<P> {
    fn capacity(&self) -> Bytes {
        self.inner.ftl.capacity()
    }

    fn handles(&self) -> u16 {
        1
    }

    async fn read(&self, extent: Extent, sink: &mut impl Sink, who: Who) -> Result<(), IoError> {
        self.inner.ftl.read(extent, sink, who).await
    }

    async fn write(
        &self,
        extent: Extent,
        content: Content<'_>,
        placement: Placement,
        who: Who,
        fua: bool,
    ) -> Result<(), IoError> {
        let write = self.inner.ftl.write(extent, content, placement, who, fua);
        write.await
    }

    async fn trim(&self, extent: Extent) -> Result<(), IoError> {
        self.inner.ftl.trim(extent).await
    }

    async fn flush(&self) -> Result<(), IoError> {
        self.write_back().await
    }

    fn compute(&self, span: Ns) -> Computing {
        self.inner.ftl.compute(span)
    }
}
