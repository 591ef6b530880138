//! A drive as a file system is given it: itself or the mapping that its host holds, and
//! above that, if its stack says so, a layer that remaps addresses.
//!
//! Invariants: clones share one mapping and one layer. Each is opened by the first command,
//! and what that takes is part of that command; so whoever attaches a drive need not wait.
//! Whoever wants to know why one cannot be opened opens it first.

use crate::below::{Below, apart};
use crate::error::StackError;
use crate::hosts::{Memory, Persistent};
use crate::layer::{Kind, Layer};
use crate::lies::Lies;
use crate::name::StackName;
use crate::zones::ZonePort;
use host::{
    BlockDevice, BlockPort, BytePort, Computing, DrivePort, PageChange, Pm, SwapPort, Who,
    ZonedDevice,
};
use hyfim::{HyfimError, HyfimStats, Recovered};
use nand::Payload;
use remap::{FormatError, OpenError, Remap};
use sim::{Rng, Sim};
use ssd::{ByteError, Content, IoError, Sink};
use std::cell::Cell;
use std::rc::Rc;
use units::{Bytes, Extent, Ns, Placement, Refusals};

/// A drive behind a host, with what maps it and what remaps it.
#[derive(Clone)]
pub struct Attached {
    below: Below,
    layer: Option<Rc<Layer>>,
    /// Whether discards are not passed on.
    keeps: Rc<Cell<bool>>,
    /// What it owes, if it lies about what was forced.
    lies: Option<Rc<Lies>>,
}

/// Why what is above a drive cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttachError {
    /// The drive failed.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The mapping that its host holds cannot be mounted.
    #[error(transparent)]
    Mapping(#[from] HyfimError),
    /// The layer cannot be made.
    #[error("the remapping layer: {0}")]
    Format(#[from] FormatError),
    /// It cannot be opened.
    #[error("the remapping layer: {0}")]
    Open(#[from] OpenError),
}

impl Attached {
    /// The drive behind `device`, which nobody else maps, with the layer that `stack` has; its
    /// host has such memory that survives power cuts, which holds this.
    ///
    /// # Errors
    /// If the drive has no place for the layer.
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
        })
    }

    /// The drive behind `device`, which nobody else maps, without a layer.
    #[must_use]
    pub fn bare(sim: &Sim, device: &BlockDevice, memory: (Option<Persistent>, Memory)) -> Self {
        Self {
            below: Below::new(sim, device, memory),
            layer: None,
            keeps: Rc::default(),
            lies: None,
        }
    }

    /// Memory of its host that survives power cuts, under power; none if it has none.
    #[must_use]
    pub fn memory(&self) -> Option<&Pm> {
        self.below.memory()
    }

    /// The same drive, with its layer as it is after a mount that is still to come.
    #[must_use]
    pub fn again(&self) -> Self {
        Self {
            below: self.below.clone(),
            layer: self.layer.as_ref().map(|layer| Rc::new(layer.again())),
            keeps: Rc::clone(&self.keeps),
            lies: self.lies.clone(),
        }
    }

    /// The drive with its queues.
    #[must_use]
    pub const fn device(&self) -> &BlockDevice {
        self.below.device()
    }

    /// Whether commands take another way than to the drive's own blocks.
    #[must_use]
    pub const fn is_mapped(&self) -> bool {
        self.below.is_mapped() || self.layer.is_some()
    }

    /// Lines that a mapping that its host holds has cleaned.
    pub(crate) fn lines_cleaned(&self) -> u64 {
        self.below.lines_cleaned()
    }

    /// What a mapping that exchanges pages found and did when it was mounted.
    #[must_use]
    pub fn recovered(&self) -> Recovered {
        self.below.recovered()
    }

    /// What a mapping that exchanges pages has counted.
    pub(crate) fn swap_stats(&self) -> Option<HyfimStats> {
        self.below.swap_stats()
    }

    /// Limits that a mapping that its host holds has met.
    pub(crate) fn mapping_refusals(&self) -> Refusals {
        self.below.refusals()
    }

    /// What a power cut meets in a mapping that its host holds.
    pub(crate) fn meets(&self) -> impl Iterator<Item = (&'static str, bool)> {
        self.below.meets().into_iter()
    }

    /// Whether stores to memory that survives power cuts may be lost now.
    pub(crate) fn has_unflushed(&self) -> bool {
        self.below.has_unflushed()
    }

    /// What a power cut leaves in memory that survives it: any part of what was not flushed,
    /// by `rng`.
    pub(crate) fn memory_at_power_cut(&self, rng: &mut Rng) -> Memory {
        self.below.memory_at_power_cut(rng)
    }

    /// The same drive; from now on it lies about what was forced if `lies`.
    pub(crate) fn lying(self, lies: bool) -> Self {
        let lies = lies.then(Rc::default);
        Self { lies, ..self }
    }

    /// From now on what the drive holds is kept, whatever is discarded, or no more.
    pub(crate) fn keep(&self, keeps: bool) {
        self.keeps.set(keeps);
    }

    /// Whether there is a layer.
    pub(crate) const fn has_layer(&self) -> bool {
        self.layer.is_some()
    }

    /// The layer, if there is one and it is open.
    #[must_use]
    pub fn layer(&self) -> Option<&Remap<Below>> {
        self.layer.as_ref()?.opened()
    }

    /// Makes its layer anew, if it has one; `deallocates` what is below it, as makers of
    /// file systems do.
    ///
    /// # Errors
    /// If that cannot be.
    pub async fn format(&self, deallocates: bool) -> Result<(), AttachError> {
        match &self.layer {
            Some(layer) => {
                let deallocates = deallocates && !self.keeps.get();
                layer.format(&self.below, deallocates).await
            }
            None => Ok(()),
        }
    }

    /// Mounts its mapping and opens its layer, if there are any.
    ///
    /// # Errors
    /// If that cannot be.
    pub async fn open(&self) -> Result<(), AttachError> {
        self.below.open().await?;
        if let Some(layer) = &self.layer {
            layer.port(&self.below).await?;
        }
        Ok(())
    }

    /// Makes all durable, and lets nothing happen of its own accord any more.
    ///
    /// # Errors
    /// Why it could not be made durable.
    pub async fn close(&self) -> Result<(), IoError> {
        match self.layer() {
            Some(layer) => layer.close().await,
            None if self.below.is_mapped() => self.below.flush().await,
            None => Ok(()),
        }
    }
}

impl Layer {
    /// The open layer, for a command.
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
        match &self.layer {
            Some(layer) => {
                let port = layer.command(&self.below).await?;
                apart(port.read(extent, sink, who)).await
            }
            None => self.below.read(extent, sink, who).await,
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
        let lies = self.lies.as_ref();
        if lies.is_some_and(|lies| lies.would_tell(who)) {
            return Ok(());
        }
        let fua = fua && lies.is_none();
        match &self.layer {
            Some(layer) => {
                let port = layer.command(&self.below).await?;
                apart(port.write(extent, content, placement, who, fua)).await
            }
            None => {
                let write = self.below.write(extent, content, placement, who, fua);
                write.await
            }
        }
    }

    async fn trim(&self, extent: Extent) -> Result<(), IoError> {
        match &self.layer {
            _ if self.keeps.get() => Ok(()),
            Some(layer) => apart(layer.command(&self.below).await?.trim(extent)).await,
            None => self.below.trim(extent).await,
        }
    }

    async fn flush(&self) -> Result<(), IoError> {
        match &self.layer {
            _ if self.lies.is_some() => Ok(()),
            Some(layer) => apart(layer.command(&self.below).await?.flush()).await,
            None => self.below.flush().await,
        }
    }
}

/// By bytes a layer is gone past; so no stack has one where a host does.
impl BytePort for Attached {
    host::pass_bytes!([|own| own.device()] has_transactions, transaction_lines, load, recover);

    async fn store(&self, at: u64, bytes: &[u8], tx: u32, who: Who) -> Result<(), ByteError> {
        if let Some(owed) = self.lies.as_ref().and_then(|lies| lies.pay()) {
            self.device().commit(owed).await?;
        }
        self.device().store(at, bytes, tx, who).await
    }

    async fn verify(&self) -> Result<(), ByteError> {
        match &self.lies {
            Some(_) => Ok(()),
            None => self.device().verify().await,
        }
    }

    async fn commit(&self, tx: u32) -> Result<(), ByteError> {
        match &self.lies {
            Some(lies) => {
                lies.owe(tx);
                Ok(())
            }
            None => self.device().commit(tx).await,
        }
    }
}

/// A layer swaps nothing; so no stack has one where its host wants that.
impl SwapPort for Attached {
    host::pass_swaps!([|own| &own.below] most_changes, stage, unstage);

    async fn has_swaps(&self) -> bool {
        self.layer.is_none() && self.below.has_swaps().await
    }

    async fn publish(&self, staged: &[u64], changes: &[PageChange]) -> Result<(), IoError> {
        match &self.lies {
            Some(lies) => {
                let (staged, changes) = lies.late(staged, changes);
                self.below.publish(&staged, &changes).await
            }
            None => self.below.publish(staged, changes).await,
        }
    }
}

impl DrivePort for Attached {
    type Zones = ZonePort;

    fn zones(&self) -> Option<ZonePort> {
        let zones = ZonedDevice::new(self.device())?;
        Some(ZonePort::new(zones, self.lies.is_some()))
    }
}
