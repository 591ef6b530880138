//! A drive as its host sees it below all layers: itself, or the mapping that the host holds.
//!
//! Invariants: a drive has one mapping, which all clones share. It is mounted by the first
//! command, and what that takes is part of that command; so whoever attaches a drive need
//! not wait.

use host::{BlockDevice, BlockPort, Computing, RawDevice, Who};
use hostftl::{FtlConfig, Home, HostFtl};
use sim::{Semaphore, Sim};
use ssd::{Content, IoError, Sink};
use std::cell::OnceCell;
use std::rc::Rc;
use units::{Bytes, Extent, Ns, Placement};

type Ftl = HostFtl<RawDevice>;

/// A drive behind a host, with what maps it.
#[derive(Clone)]
pub struct Below {
    device: BlockDevice,
    mapped: Option<Rc<Mapped>>,
}

struct Mapped {
    sim: Sim,
    /// Whoever mounts it.
    turn: Semaphore,
    raw: RawDevice,
    ftl: OnceCell<Result<Ftl, IoError>>,
}

impl Mapped {
    async fn ftl(&self) -> Result<&Ftl, IoError> {
        if self.ftl.get().is_none() {
            let _turn = self.turn.acquire(1).await;
            if self.ftl.get().is_none() {
                let mounted = self.mount().await;
                let _ = self.ftl.set(mounted);
            }
        }
        match self.ftl.get() {
            Some(Ok(ftl)) => Ok(ftl),
            Some(Err(error)) => Err(*error),
            None => Err(IoError::ReadOnly),
        }
    }

    async fn mount(&self) -> Result<Ftl, IoError> {
        let drive = self.raw.device().drive().clone();
        let config = FtlConfig::new(drive.config().capacity);
        let ftl = HostFtl::mount(&self.sim, self.raw.clone(), config, Home::Dram).await;
        let ftl = ftl.map_err(|_| IoError::ReadOnly)?;
        if let Some(chunks) = drive.chunks() {
            chunks.show(ftl.viewer());
        }
        Ok(ftl)
    }
}

impl Below {
    /// The drive behind `device`, which nobody else maps.
    pub(crate) fn new(sim: &Sim, device: &BlockDevice) -> Self {
        let mapped = RawDevice::new(device).map(|raw| Mapped {
            sim: sim.clone(),
            turn: Semaphore::new(sim, 1),
            raw,
            ftl: OnceCell::new(),
        });
        Self {
            device: device.clone(),
            mapped: mapped.map(Rc::new),
        }
    }

    /// The drive with its queues.
    pub(crate) const fn device(&self) -> &BlockDevice {
        &self.device
    }

    /// Whether its host maps it.
    pub(crate) const fn is_mapped(&self) -> bool {
        self.mapped.is_some()
    }

    /// Whether a mapping that its host holds is being cleaned.
    pub(crate) fn is_cleaning(&self) -> bool {
        let mapped = self.mapped.as_ref();
        let ftl = mapped.and_then(|mapped| mapped.ftl.get()?.as_ref().ok());
        ftl.is_some_and(HostFtl::is_cleaning)
    }

    /// Mounts its mapping, if there is one.
    ///
    /// # Errors
    /// If that cannot be.
    pub(crate) async fn open(&self) -> Result<(), IoError> {
        if let Some(mapped) = &self.mapped {
            mapped.ftl().await?;
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
            Some(mapped) => Box::pin(mapped.ftl()).await?.read(extent, sink, who).await,
            None => self.device.read(extent, sink, who).await,
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
            Some(mapped) => {
                let ftl = Box::pin(mapped.ftl()).await?;
                ftl.write(extent, content, placement, who, fua).await
            }
            None => {
                let write = self.device.write(extent, content, placement, who, fua);
                write.await
            }
        }
    }

    async fn trim(&self, extent: Extent) -> Result<(), IoError> {
        match &self.mapped {
            Some(mapped) => Box::pin(mapped.ftl()).await?.trim(extent).await,
            None => self.device.trim(extent).await,
        }
    }

    async fn flush(&self) -> Result<(), IoError> {
        match &self.mapped {
            Some(mapped) => Box::pin(mapped.ftl()).await?.flush().await,
            None => BlockPort::flush(&self.device).await,
        }
    }

    fn compute(&self, span: Ns) -> Computing {
        self.device.compute(span)
    }
}
