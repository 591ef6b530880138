//! A drive below all layers: the drive itself, or the host's mapping of it.
//!
//! Invariants: a drive has one mapping, which all clones share. The first command mounts it, and
//! pays for that, so attaching a drive needs no wait. Memory that survives power cuts belongs to
//! the host, and is kept along with the drive. Only blank memory is formatted for a drive; memory
//! with contents is mounted, or rejected: to format it would lose its data.

use crate::hosts::{Keeps, Memory, Persistent};
use crate::volatile::Volatile;
use host::{
    BlockDevice, BlockPort, Computing, PageChange, Pm, PmMedia, RawDevice, RawPort, Regions,
    SwapPort, Who,
};
use hostftl::{FtlConfig, Home, HostFtl, PmBuffer, buffer_bytes};
use hyfim::{HyFim, HyfimError, HyfimStats, RecordState, Recovered};
use nand::Payload;
use sim::{Rng, Semaphore, Sim};
use ssd::{Content, IoError, Sink};
use std::cell::{Cell, OnceCell};
use std::pin::Pin;
use std::rc::Rc;
use units::{Bytes, Extent, Ns, Placement, Refusals};

/// A drive behind a host, with the host's mapping if it has one.
#[derive(Clone)]
pub struct Below {
    device: BlockDevice,
    mapped: Option<Rc<Mapped>>,
    /// A cache in front of a drive that the host does not map.
    cache: Option<Rc<Volatile>>,
}

/// A host's mapping of an open-channel drive.
enum Mapping {
    /// A mapping with its table in DRAM.
    Plain(HostFtl<RawDevice>),
    /// A mapping with its table and journals in memory that survives power cuts.
    Swapping(HyFim<RawDevice>),
}

impl Mapping {
    fn ftl(&self) -> &HostFtl<RawDevice> {
        match self {
            Self::Plain(ftl) => ftl,
            Self::Swapping(hyfim) => hyfim.ftl(),
        }
    }
}

/// Host memory that survives power cuts.
struct Lasting {
    pm: Pm,
    keeps: Keeps,
    /// Whether the memory was blank at power-on, so that its regions must be created.
    is_new: bool,
}

struct Mapped {
    sim: Sim,
    /// Serializes mounts: its holder mounts the mapping.
    turn: Semaphore,
    raw: RawDevice,
    memory: Option<Lasting>,
    mapping: OnceCell<Result<Mapping, HyfimError>>,
    /// Whether a mount is in progress.
    mounting: Cell<bool>,
    /// Counts of the recovery, once the mount has ended.
    recovered: Cell<Recovered>,
}

impl Mapped {
    /// The mapping, mounted if necessary, for a command.
    async fn command(&self) -> Result<&Mapping, IoError> {
        self.mapping().await.map_err(|error| match error {
            HyfimError::Io(error) => error,
            _ => IoError::ReadOnly,
        })
    }

    async fn mapping(&self) -> Result<&Mapping, HyfimError> {
        if self.mapping.get().is_none() {
            let _turn = self.turn.acquire(1).await;
            if self.mapping.get().is_none() {
                self.mounting.set(true);
                let mounted = self.mount().await;
                self.mounting.set(false);
                let _ = self.mapping.set(mounted);
            }
        }
        match self.mapping.get() {
            Some(Ok(mapping)) => Ok(mapping),
            Some(Err(error)) => Err(error.clone()),
            None => Err(IoError::ReadOnly.into()),
        }
    }

    async fn mount(&self) -> Result<Mapping, HyfimError> {
        let drive = self.raw.device().drive().clone();
        let raw = self.raw.clone();
        let mapping = match &self.memory {
            None => {
                let config = FtlConfig::of(drive.config());
                let ftl = HostFtl::mount(&self.sim, raw, config, Home::Dram);
                Mapping::Plain(ftl.await?)
            }
            Some(lasting) => self.mount_lasting(raw, lasting).await?,
        };
        if let Some(chunks) = drive.chunks() {
            chunks.show(mapping.ftl().viewer());
        }
        Ok(mapping)
    }

    /// Mounts a mapping with a part in memory that survives power cuts.
    async fn mount_lasting(
        &self,
        raw: RawDevice,
        lasting: &Lasting,
    ) -> Result<Mapping, HyfimError> {
        let Lasting { pm, is_new, .. } = lasting;
        match lasting.keeps {
            Keeps::Buffer(config) => {
                let buffer = buffer(pm, &config, &raw, *is_new).await?;
                let home = Home::Dram;
                let ftl = HostFtl::mount_with(&self.sim, raw, config, home, Some(buffer));
                Ok(Mapping::Plain(ftl.await?))
            }
            Keeps::Swaps(config) if *is_new => {
                let taken = HyFim::adopt(&self.sim, raw, pm, config);
                Ok(Mapping::Swapping(taken.await?))
            }
            Keeps::Swaps(config) => {
                let mounted = HyFim::mount(&self.sim, raw, pm, config).await;
                let (hyfim, recovered) = mounted?;
                self.recovered.set(recovered);
                Ok(Mapping::Swapping(hyfim))
            }
        }
    }
}

/// Kind number of the region of a write buffer, if persistent memory holds nothing else.
const BUFFER: u64 = 4;

/// The persistent write buffer of a mapping whose table is in DRAM.
async fn buffer(
    pm: &Pm,
    config: &FtlConfig,
    raw: &RawDevice,
    is_new: bool,
) -> Result<PmBuffer, HyfimError> {
    let of = |regions: &Regions| -> Result<PmBuffer, HyfimError> {
        Ok(PmBuffer::new(pm.clone(), regions.get(BUFFER)?, config))
    };
    if !is_new {
        return of(&Regions::open(pm).await?);
    }
    let wanted = [(BUFFER, buffer_bytes(config.buffer))];
    Regions::create(pm, &wanted, async |regions| {
        let buffer = of(regions)?;
        buffer.make(&raw.geometry()).await?;
        Ok(buffer)
    })
    .await
}

impl Keeps {
    /// Size of the persistent memory that the structures take.
    pub(crate) fn memory(&self) -> Bytes {
        match self {
            Self::Swaps(config) => config.memory(),
            Self::Buffer(config) => {
                let pages = buffer_bytes(config.buffer).div_ceil(PAGE);
                Bytes((1 + pages) * PAGE)
            }
        }
    }
}

/// Granularity of regions in persistent memory, in bytes.
const PAGE: u64 = 4096;

/// Boxes the future of a command, so that its caller stays small whatever the mapping needs.
pub(crate) fn apart<'a, T>(
    command: impl Future<Output = T> + 'a,
) -> Pin<Box<dyn Future<Output = T> + 'a>> {
    Box::pin(command)
}

impl Mapped {
    async fn read(&self, extent: Extent, sink: &mut impl Sink, who: Who) -> Result<(), IoError> {
        match self.command().await? {
            Mapping::Plain(port) => port.read(extent, sink, who).await,
            Mapping::Swapping(port) => port.read(extent, sink, who).await,
        }
    }

    async fn write(
        &self,
        extent: Extent,
        content: Content<'_>,
        who: Who,
        fua: bool,
    ) -> Result<(), IoError> {
        let all = Placement(0);
        match self.command().await? {
            Mapping::Plain(port) => port.write(extent, content, all, who, fua).await,
            Mapping::Swapping(port) => port.write(extent, content, all, who, fua).await,
        }
    }

    async fn trim(&self, extent: Extent) -> Result<(), IoError> {
        match self.command().await? {
            Mapping::Plain(port) => port.trim(extent).await,
            Mapping::Swapping(port) => port.trim(extent).await,
        }
    }

    async fn flush(&self) -> Result<(), IoError> {
        match self.command().await? {
            Mapping::Plain(port) => port.flush().await,
            Mapping::Swapping(port) => port.flush().await,
        }
    }
}

impl Below {
    /// The drive behind `device`, which no other mapping may use. `wanted` is the host's memory
    /// that survives power cuts, and `memory` its contents.
    pub(crate) fn new(
        sim: &Sim,
        device: &BlockDevice,
        (wanted, memory): (Option<Persistent>, Memory),
    ) -> Self {
        let lasting = |wanted: Persistent| {
            let keeps = wanted.keeps(device.drive().config());
            let (media, is_new) = match memory {
                // If the regions need more, their creation fails with an error.
                Memory::Blank => (PmMedia::new(keeps.memory().min(wanted.pm.bytes)), true),
                Memory::Left(media) => (media, false),
            };
            let pm = Pm::new(sim, wanted.pm, media, Some(device));
            Lasting { pm, keeps, is_new }
        };
        let mapped = RawDevice::new(device).map(|raw| Mapped {
            sim: sim.clone(),
            turn: Semaphore::new(sim, 1),
            raw,
            memory: wanted.map(lasting),
            mapping: OnceCell::new(),
            mounting: Cell::default(),
            recovered: Cell::default(),
        });
        Self {
            device: device.clone(),
            mapped: mapped.map(Rc::new),
            cache: None,
        }
    }

    /// The same drive behind a volatile cache that `rng` empties in any order.
    pub(crate) fn behind_cache(self, sim: &Sim, rng: Rng) -> Self {
        let cache = Some(Rc::new(Volatile::new(sim, rng)));
        Self { cache, ..self }
    }

    /// Writes to the drive what its cache holds.
    pub(crate) async fn empty_cache(&self) -> Result<(), IoError> {
        match &self.cache {
            Some(cache) => apart(cache.empty(&self.device)).await,
            None => Ok(()),
        }
    }

    /// Writes to the drive what its cache holds of `extent`.
    async fn settle(&self, extent: Extent) -> Result<(), IoError> {
        match &self.cache {
            Some(cache) => apart(cache.settle(&self.device, extent)).await,
            None => Ok(()),
        }
    }

    /// The drive and its queue pairs.
    pub(crate) const fn device(&self) -> &BlockDevice {
        &self.device
    }

    /// Whether the host maps the drive.
    pub(crate) const fn is_mapped(&self) -> bool {
        self.mapped.is_some()
    }

    fn mounted(&self) -> Option<&Mapping> {
        self.mapped.as_ref()?.mapping.get()?.as_ref().ok()
    }

    fn swapping(&self) -> Option<&HyFim<RawDevice>> {
        match self.mounted()? {
            Mapping::Swapping(hyfim) => Some(hyfim),
            Mapping::Plain(_) => None,
        }
    }

    /// Lines that the host's mapping has cleaned.
    pub(crate) fn lines_cleaned(&self) -> u64 {
        let ftl = self.mounted().map(Mapping::ftl);
        ftl.map_or(0, |ftl| ftl.stats().cleaned)
    }

    /// Whether the mount of the host's mapping could not read metadata of blocks, so that it may
    /// lack the newest versions of their sectors, or nodes that its journal changes.
    pub(crate) fn has_unread(&self) -> bool {
        let ftl = self.mounted().map(Mapping::ftl);
        ftl.is_some_and(|ftl| ftl.stats().unreadable > 0) || self.recovered().lost > 0
    }

    /// Counts of the recovery of a page-exchanging mapping at its mount.
    pub(crate) fn recovered(&self) -> Recovered {
        let mapped = self.mapped.as_ref();
        mapped.map_or_else(Recovered::default, |mapped| mapped.recovered.get())
    }

    /// Counters of a page-exchanging mapping; `None` for other mappings.
    pub(crate) fn swap_stats(&self) -> Option<HyfimStats> {
        self.swapping().map(HyFim::stats)
    }

    /// Limits that the host's mapping has hit.
    pub(crate) fn refusals(&self) -> Refusals {
        let ftl = self.mounted().map(Mapping::ftl);
        ftl.map(HostFtl::refusals).unwrap_or_default()
    }

    /// States of the host's mapping that a power cut could hit, by name, and whether each holds
    /// now.
    pub(crate) fn meets(&self) -> [(&'static str, bool); 11] {
        let ftl = self.mounted().map(Mapping::ftl);
        let of_ftl = |is: fn(&HostFtl<RawDevice>) -> bool| ftl.is_some_and(is);
        let hyfim = self.swapping();
        let record = |state| hyfim.is_some_and(|hyfim| hyfim.has_record(state));
        let mounting = |mapped: &Rc<Mapped>| mapped.mounting.get();
        [
            (
                "a publication that waits for a full journal",
                hyfim.is_some_and(HyFim::is_waiting),
            ),
            (
                "copies for lack of spare sectors",
                hyfim.is_some_and(HyFim::is_short),
            ),
            (
                "a line of the host's mapping being cleaned",
                of_ftl(HostFtl::is_cleaning),
            ),
            (
                "cleaning of a line with a sector that a journal names",
                of_ftl(HostFtl::is_cleaning_pinned),
            ),
            (
                "entries of the host's mapping on their way to memory",
                of_ftl(HostFtl::is_settling),
            ),
            (
                "sectors in a write buffer that lasts",
                of_ftl(HostFtl::is_holding),
            ),
            (
                "a write that waits for a full buffer",
                of_ftl(HostFtl::is_full),
            ),
            (
                "a record of a journal being written",
                record(RecordState::Committing),
            ),
            ("a committed record", record(RecordState::Committed)),
            ("a record to be redone", record(RecordState::Checkpointing)),
            (
                "a mapping being recovered",
                self.mapped.as_ref().is_some_and(mounting),
            ),
        ]
    }

    /// The host's memory that survives power cuts; `None` if it has none.
    pub(crate) fn memory(&self) -> Option<&Pm> {
        let lasting = self.mapped.as_ref()?.memory.as_ref();
        lasting.map(|lasting| &lasting.pm)
    }

    /// Whether stores to memory that survives power cuts are still unflushed.
    pub(crate) fn has_unflushed(&self) -> bool {
        self.memory().is_some_and(Pm::has_unflushed)
    }

    /// Contents of the host's persistent memory after a power cut: `rng` chooses which unflushed
    /// stores survive.
    pub(crate) fn memory_at_power_cut(&self, rng: &mut Rng) -> Memory {
        match self.memory() {
            Some(pm) => Memory::Left(pm.at_power_cut(rng)),
            None => Memory::Blank,
        }
    }

    /// Mounts the host's mapping, if there is one.
    ///
    /// # Errors
    /// If the mapping cannot be mounted.
    pub(crate) async fn open(&self) -> Result<(), HyfimError> {
        if let Some(mapped) = &self.mapped {
            mapped.mapping().await?;
        }
        Ok(())
    }
}

impl BlockPort for Below {
    fn capacity(&self) -> Bytes {
        self.device.capacity()
    }

    fn handles(&self) -> u16 {
        match self.mapped {
            Some(_) => 1,
            None => self.device.handles(),
        }
    }

    async fn read(&self, extent: Extent, sink: &mut impl Sink, who: Who) -> Result<(), IoError> {
        match &self.mapped {
            Some(mapped) => apart(mapped.read(extent, sink, who)).await,
            None => {
                self.settle(extent).await?;
                self.device.read(extent, sink, who).await
            }
        }
    }

    async fn write(
        &self,
        extent: Extent,
        content: Content<'_>,
        placement: Placement,
        who: Who,
        fua: bool,
    ) -> Result<(), IoError> {
        match &self.mapped {
            Some(mapped) => apart(mapped.write(extent, content, who, fua)).await,
            None => match &self.cache {
                Some(cache) => {
                    let how = (placement, who, fua);
                    apart(cache.write(&self.device, extent, content, how)).await
                }
                None => {
                    let write = self.device.write(extent, content, placement, who, fua);
                    write.await
                }
            },
        }
    }

    async fn trim(&self, extent: Extent) -> Result<(), IoError> {
        match &self.mapped {
            Some(mapped) => apart(mapped.trim(extent)).await,
            None => {
                self.settle(extent).await?;
                self.device.trim(extent).await
            }
        }
    }

    async fn flush(&self) -> Result<(), IoError> {
        match &self.mapped {
            Some(mapped) => apart(mapped.flush()).await,
            None => {
                self.empty_cache().await?;
                BlockPort::flush(&self.device).await
            }
        }
    }

    fn compute(&self, span: Ns) -> Computing {
        self.device.compute(span)
    }
}

impl SwapPort for Below {
    async fn has_swaps(&self) -> bool {
        apart(self.open()).await.is_ok() && self.swapping().is_some()
    }

    fn most_changes(&self) -> usize {
        self.swapping().map_or(0, SwapPort::most_changes)
    }

    async fn stage(&self, first: u64, all: &[Payload], who: Who) -> Result<Option<u64>, IoError> {
        match self.swapping() {
            Some(hyfim) => apart(hyfim.stage(first, all, who)).await,
            None => Ok(None),
        }
    }

    fn unstage(&self, number: u64) {
        if let Some(hyfim) = self.swapping() {
            hyfim.unstage(number);
        }
    }

    async fn publish(&self, staged: &[u64], changes: &[PageChange]) -> Result<(), IoError> {
        let hyfim = self.swapping().ok_or(IoError::ReadOnly)?;
        apart(hyfim.publish(staged, changes)).await
    }
}
