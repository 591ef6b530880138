//! A drive as a file system sees it: the drive itself or its host's mapping, and above that a
//! remapping layer if the stack has one.
//!
//! Invariants: clones share one mapping and one layer. The first command opens each, and pays for
//! that, so attaching a drive needs no wait. A caller that needs the error of a failed open calls
//! [`Attached::open`] first.

use crate::below::{Below, apart};
use crate::error::StackError;
use crate::hosts::{Memory, Persistent};
use crate::layer::{Kind, Layer};
use crate::lies::Lies;
use crate::losses::Losses;
use crate::name::StackName;
use crate::zones::ZonePort;
use host::{
    BlockDevice, BlockPort, ByteDisk, BytePort, Computing, Disk, DrivePort, PageChange, Pm,
    SwapDisk, SwapPort, Who, ZoneDisk, ZonedDevice,
};
use hyfim::{HyfimError, HyfimStats, Recovered};
use nand::Payload;
use remap::{FormatError, OpenError, Remap};
use sim::{Rng, Sim};
use ssd::{ByteError, Content, IoError, Sink};
use std::cell::Cell;
use std::rc::Rc;
use units::{Bytes, Extent, Ns, Placement, Refusals};

/// A drive behind a host, with its mapping and its remapping layer.
#[derive(Clone)]
pub struct Attached {
    below: Below,
    layer: Option<Rc<Layer>>,
    /// Whether discards are ignored.
    keeps: Rc<Cell<bool>>,
    /// Postponed work of a drive that acknowledges flushes without performing them.
    lies: Option<Rc<Lies>>,
    losses: Rc<Losses>,
    /// Begun and ended flushes, and ended writes with FUA.
    flushes: Rc<Cell<u64>>,
}

/// The reason why the mapping or the layer above a drive cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttachError {
    /// The drive failed a command.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The host's mapping of the drive cannot be mounted.
    #[error(transparent)]
    Mapping(#[from] HyfimError),
    /// The remapping layer cannot be formatted.
    #[error("remapping layer: {0}")]
    Format(#[from] FormatError),
    /// The remapping layer cannot be opened.
    #[error("remapping layer: {0}")]
    Open(#[from] OpenError),
}

impl Attached {
    /// Attaches the drive behind `device`, which no other mapping may use, with the layer of
    /// `stack`. `memory` describes the host's memory that survives power cuts, and its contents.
    ///
    /// # Errors
    /// If the drive has no space for the layer.
    pub fn of(
        sim: &Sim,
        device: &BlockDevice,
        stack: &StackName,
        memory: (Option<Persistent>, Memory),
    ) -> Result<Self, StackError> {
        let below = Below::new(sim, device, memory);
        let layer = match Kind::of(stack) {
            None => None,
            Some(kind) => Some(Rc::new(Layer::new(sim, &below, kind, stack)?)),
        };
        Ok(Self {
            below,
            layer,
            keeps: Rc::default(),
            lies: None,
            losses: Rc::default(),
            flushes: Rc::default(),
        })
    }

    /// Attaches the drive behind `device`, which no other mapping may use, without a layer;
    /// `memory` as in [`Attached::of`].
    #[must_use]
    pub fn bare(sim: &Sim, device: &BlockDevice, memory: (Option<Persistent>, Memory)) -> Self {
        Self {
            below: Below::new(sim, device, memory),
            layer: None,
            keeps: Rc::default(),
            lies: None,
            losses: Rc::default(),
            flushes: Rc::default(),
        }
    }

    /// Its block port, as file systems take it.
    #[must_use]
    pub fn disk(&self) -> Disk {
        Disk::from(self)
    }

    /// Its byte port, as file systems take it.
    #[must_use]
    pub fn bytes(&self) -> ByteDisk {
        ByteDisk::from(self)
    }

    /// Its port with swaps of pages.
    #[must_use]
    pub fn swaps(&self) -> SwapDisk {
        SwapDisk::from(self)
    }

    /// The zoned port of the drive; None if it has no zones.
    #[must_use]
    pub fn zone_disk(&self) -> Option<ZoneDisk> {
        self.zones().as_ref().map(ZoneDisk::from)
    }

    /// The host's memory that survives power cuts, powered; `None` if it has none.
    #[must_use]
    pub fn memory(&self) -> Option<&Pm> {
        self.below.memory()
    }

    /// The same drive with an unopened copy of its layer, as before a mount.
    #[must_use]
    pub fn again(&self) -> Self {
        Self {
            below: self.below.clone(),
            layer: self.layer.as_ref().map(|layer| Rc::new(layer.again())),
            keeps: Rc::clone(&self.keeps),
            lies: self.lies.clone(),
            losses: Rc::clone(&self.losses),
            flushes: Rc::clone(&self.flushes),
        }
    }

    /// Failures of the medium that commands from here have met.
    pub(crate) fn losses(&self) -> &Losses {
        &self.losses
    }

    /// Number of instants so far at which a flush began or ended, or a write with FUA ended.
    pub(crate) fn flushes(&self) -> u64 {
        self.flushes.get()
    }

    fn mark(&self) {
        self.flushes.set(self.flushes.get() + 1);
    }

    /// The drive and its queue pairs.
    #[must_use]
    pub const fn device(&self) -> &BlockDevice {
        self.below.device()
    }

    /// Whether commands pass a mapping of the host or a layer.
    #[must_use]
    pub const fn is_mapped(&self) -> bool {
        self.below.is_mapped() || self.layer.is_some()
    }

    /// Lines that the host's mapping has cleaned.
    pub(crate) fn lines_cleaned(&self) -> u64 {
        self.below.lines_cleaned()
    }

    /// Counts of the recovery of a page-exchanging mapping at its mount.
    #[must_use]
    pub fn recovered(&self) -> Recovered {
        self.below.recovered()
    }

    /// Counters of a page-exchanging mapping; `None` for other mappings.
    pub(crate) fn swap_stats(&self) -> Option<HyfimStats> {
        self.below.swap_stats()
    }

    /// Limits that the host's mapping has hit.
    pub(crate) fn mapping_refusals(&self) -> Refusals {
        self.below.refusals()
    }

    /// States of the host's mapping that a power cut could hit, by name, and whether each holds
    /// now.
    pub(crate) fn meets(&self) -> impl Iterator<Item = (&'static str, bool)> {
        self.below.meets().into_iter()
    }

    /// Whether stores to memory that survives power cuts are still unflushed.
    pub(crate) fn has_unflushed(&self) -> bool {
        self.below.has_unflushed()
    }

    /// Contents of the host's persistent memory after a power cut: `rng` chooses which unflushed
    /// stores survive.
    pub(crate) fn memory_at_power_cut(&self, rng: &mut Rng) -> Memory {
        self.below.memory_at_power_cut(rng)
    }

    /// The same drive; if `lies`, it acknowledges flushes and commits from now on without
    /// performing them.
    pub(crate) fn lying(self, lies: bool) -> Self {
        let lies = lies.then(Rc::default);
        Self { lies, ..self }
    }

    /// The same drive; with `rng`, behind a volatile cache that is emptied in any order.
    pub(crate) fn reordering(self, sim: &Sim, rng: Option<Rng>) -> Self {
        match rng {
            Some(rng) => Self {
                below: self.below.behind_cache(sim, rng),
                ..self
            },
            None => self,
        }
    }

    /// Writes to the drive what a cache in front of it holds, before a check reads the drive itself.
    pub(crate) async fn empty_cache(&self) -> Result<(), IoError> {
        self.below.empty_cache().await
    }

    /// Sets whether discards are ignored from now on.
    pub(crate) fn keep(&self, keeps: bool) {
        self.keeps.set(keeps);
    }

    /// Whether the stack has a remapping layer.
    pub(crate) const fn has_layer(&self) -> bool {
        self.layer.is_some()
    }

    /// The remapping layer; `None` if there is none or it is not open.
    #[must_use]
    pub fn layer(&self) -> Option<&Remap<Below>> {
        self.layer.as_ref()?.opened()
    }

    /// Formats the remapping layer, if there is one; `deallocates` the drive below it first, as
    /// makers of file systems do.
    ///
    /// # Errors
    /// If the layer cannot be formatted.
    pub async fn format(&self, deallocates: bool) -> Result<(), AttachError> {
        match &self.layer {
            Some(layer) => {
                let deallocates = deallocates && !self.keeps.get();
                layer.format(&self.below, deallocates).await
            }
            None => Ok(()),
        }
    }

    /// Mounts the host's mapping and opens the remapping layer, if they exist.
    ///
    /// # Errors
    /// If one of them cannot be opened.
    pub async fn open(&self) -> Result<(), AttachError> {
        self.below.open().await?;
        if let Some(layer) = &self.layer {
            layer.port(&self.below).await?;
        }
        Ok(())
    }

    /// Whether the host's mapping may lack versions, because its mount could not read all blocks.
    pub(crate) fn has_unread(&self) -> bool {
        self.below.has_unread()
    }

    /// Whether the flash failed a read of the powered drive, or has no place for writes any more.
    pub(crate) fn is_failing(&self) -> bool {
        let drive = self.device().drive();
        drive.flash_counters().uncorrectable > 0 || drive.is_read_only()
    }

    /// Makes all writes durable, and stops background work of the layer.
    ///
    /// # Errors
    /// If a write could not be made durable.
    pub async fn close(&self) -> Result<(), IoError> {
        match self.layer() {
            Some(layer) => layer.close().await,
            None if self.below.is_mapped() => self.below.flush().await,
            None => Ok(()),
        }
    }
}

impl Layer {
    /// The layer, opened if necessary, for a command.
    async fn command(&self, below: &Below) -> Result<&Remap<Below>, IoError> {
        match Box::pin(self.port(below)).await {
            Ok(port) => Ok(port),
            Err(AttachError::Io(error)) => Err(error),
            Err(_) => Err(IoError::ReadOnly),
        }
    }
}

impl BlockPort for Attached {
    host::pass_block!([|own| &own.below] handles, compute);

    fn capacity(&self) -> Bytes {
        match &self.layer {
            Some(layer) => layer.offered(),
            None => self.below.capacity(),
        }
    }

    async fn read(&self, extent: Extent, sink: &mut impl Sink, who: Who) -> Result<(), IoError> {
        let read = match &self.layer {
            Some(layer) => match layer.command(&self.below).await {
                Ok(port) => apart(port.read(extent, sink, who)).await,
                Err(error) => return self.losses.note_other(Err(error)),
            },
            None => self.below.read(extent, sink, who).await,
        };
        self.losses.note(read, who)
    }

    async fn write(
        &self,
        extent: Extent,
        content: Content<'_>,
        placement: Placement,
        who: Who,
        fua: bool,
    ) -> Result<(), IoError> {
        let lies = self.lies.as_ref();
        if lies.is_some_and(|lies| lies.refers_to_unpublished(who)) {
            return Ok(());
        }
        let fua = fua && lies.is_none();
        let written = match &self.layer {
            Some(layer) => match layer.command(&self.below).await {
                Ok(port) => apart(port.write(extent, content, placement, who, fua)).await,
                Err(error) => Err(error),
            },
            None => {
                let write = self.below.write(extent, content, placement, who, fua);
                write.await
            }
        };
        if fua {
            self.mark();
        }
        self.losses.note_other(written)
    }

    async fn trim(&self, extent: Extent) -> Result<(), IoError> {
        let trimmed = match &self.layer {
            _ if self.keeps.get() => Ok(()),
            Some(layer) => match layer.command(&self.below).await {
                Ok(port) => apart(port.trim(extent)).await,
                Err(error) => Err(error),
            },
            None => self.below.trim(extent).await,
        };
        self.losses.note_other(trimmed)
    }

    async fn flush(&self) -> Result<(), IoError> {
        self.mark();
        let flushed = match &self.layer {
            _ if self.lies.is_some() => Ok(()),
            Some(layer) => match layer.command(&self.below).await {
                Ok(port) => apart(port.flush()).await,
                Err(error) => Err(error),
            },
            None => self.below.flush().await,
        };
        self.mark();
        self.losses.note_other(flushed)
    }
}

/// The byte interface bypasses the layer; so a stack whose host uses it has none.
impl BytePort for Attached {
    host::pass_bytes!([|own| own.device()] has_transactions, transaction_lines);

    async fn load(&self, at: u64, out: &mut [u8], who: Who) -> Result<(), ByteError> {
        self.losses
            .note(self.device().load(at, out, who).await, who)
    }

    async fn recover(&self) -> Result<(), ByteError> {
        self.losses.note_other(self.device().recover().await)
    }

    async fn store(&self, at: u64, bytes: &[u8], tx: u32, who: Who) -> Result<(), ByteError> {
        if let Some(owed) = self.lies.as_ref().and_then(|lies| lies.pay()) {
            self.device().commit(owed).await?;
        }
        let stored = self.device().store(at, bytes, tx, who).await;
        self.losses.note_other(stored)
    }

    async fn verify(&self) -> Result<(), ByteError> {
        match &self.lies {
            Some(_) => Ok(()),
            None => self.losses.note_other(self.device().verify().await),
        }
    }

    async fn commit(&self, tx: u32) -> Result<(), ByteError> {
        match &self.lies {
            Some(lies) => {
                lies.owe(tx);
                Ok(())
            }
            None => self.losses.note_other(self.device().commit(tx).await),
        }
    }
}

/// A layer cannot exchange pages; so a stack whose host needs that has none.
impl SwapPort for Attached {
    host::pass_swaps!([|own| &own.below] most_changes, unstage);

    async fn stage(&self, first: u64, all: &[Payload], who: Who) -> Result<Option<u64>, IoError> {
        self.losses
            .note_other(self.below.stage(first, all, who).await)
    }

    async fn has_swaps(&self) -> bool {
        self.layer.is_none() && self.below.has_swaps().await
    }

    async fn publish(&self, staged: &[u64], changes: &[PageChange]) -> Result<(), IoError> {
        let published = match &self.lies {
            Some(lies) => {
                let (staged, changes) = lies.late(staged, changes);
                self.below.publish(&staged, &changes).await
            }
            None => self.below.publish(staged, changes).await,
        };
        self.losses.note_other(published)
    }
}

impl DrivePort for Attached {
    type Zones = ZonePort;

    fn zones(&self) -> Option<ZonePort> {
        let zones = ZonedDevice::new(self.device())?;
        Some(ZonePort::new(
            zones,
            self.lies.is_some(),
            Rc::clone(&self.losses),
            Rc::clone(&self.flushes),
        ))
    }
}
