//! What is between a file system and the drive whose power is cut.
//!
//! Invariant: an honest port is the drive itself. One that lies says that what
//! was forced is durable and leaves it in the drive's buffer, as drives that
//! answer flushes for speed do; a judge of power cuts must find that out. By bytes it
//! answers verifications without waiting for what was posted, and commits when the next
//! store comes. What is to be published it publishes with the next state, and copies of the
//! superblock of that, which would tell of it, it does not write.

use super::zones::ZonePort;
use crate::attached::Attached;
use host::{
    BlockPort, BytePort, Computing, DrivePort, PageChange, Purpose, SwapPort, Who, ZonedDevice,
};
use nand::Payload;
use ssd::{ByteError, Content, IoError, Sink};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use units::{Bytes, Extent, Ns, Placement};

/// A drive that does as it says, or lies.
#[derive(Clone)]
pub(super) struct Port {
    pub(super) device: Attached,
    lies: bool,
    /// The transaction whose commit was answered and not done; 0 for none.
    owed: Rc<Cell<u32>>,
    /// The state that was to be published and was not.
    unpublished: Rc<RefCell<Option<State>>>,
}

/// What is published: what was staged, and changes.
type State = (Vec<u64>, Vec<PageChange>);

impl Port {
    pub(super) fn new(device: Attached, lies: bool) -> Self {
        Self {
            device,
            lies,
            owed: Rc::default(),
            unpublished: Rc::default(),
        }
    }

    async fn pay(&self) -> Result<(), ByteError> {
        match self.owed.take() {
            0 => Ok(()),
            tx => self.device.commit(tx).await,
        }
    }
}

impl BlockPort for Port {
    fn capacity(&self) -> Bytes {
        self.device.capacity()
    }

    fn handles(&self) -> u16 {
        self.device.handles()
    }

    async fn read(&self, extent: Extent, sink: &mut impl Sink, who: Who) -> Result<(), IoError> {
        self.device.read(extent, sink, who).await
    }

    async fn write(
        &self,
        extent: Extent,
        content: Content<'_>,
        placement: Placement,
        who: Who,
        fua: bool,
    ) -> Result<(), IoError> {
        let tells = who.purpose == Purpose::Superblock && self.unpublished.borrow().is_some();
        if tells {
            return Ok(());
        }
        let fua = fua && !self.lies;
        let write = self.device.write(extent, content, placement, who, fua);
        write.await
    }

    async fn trim(&self, extent: Extent) -> Result<(), IoError> {
        self.device.trim(extent).await
    }

    async fn flush(&self) -> Result<(), IoError> {
        if self.lies {
            return Ok(());
        }
        BlockPort::flush(&self.device).await
    }

    fn compute(&self, span: Ns) -> Computing {
        self.device.compute(span)
    }
}

impl BytePort for Port {
    fn has_transactions(&self) -> bool {
        self.device.has_transactions()
    }

    fn transaction_lines(&self) -> u64 {
        self.device.transaction_lines()
    }

    async fn load(&self, at: u64, out: &mut [u8], who: Who) -> Result<(), ByteError> {
        self.device.load(at, out, who).await
    }

    async fn store(&self, at: u64, bytes: &[u8], tx: u32, who: Who) -> Result<(), ByteError> {
        self.pay().await?;
        self.device.store(at, bytes, tx, who).await
    }

    async fn verify(&self) -> Result<(), ByteError> {
        if self.lies {
            return Ok(());
        }
        self.device.verify().await
    }

    async fn commit(&self, tx: u32) -> Result<(), ByteError> {
        if self.lies {
            self.owed.set(tx);
            return Ok(());
        }
        self.device.commit(tx).await
    }

    async fn recover(&self) -> Result<(), ByteError> {
        self.device.recover().await
    }
}

impl SwapPort for Port {
    async fn has_swaps(&self) -> bool {
        self.device.has_swaps().await
    }

    fn most_changes(&self) -> usize {
        self.device.most_changes()
    }

    async fn stage(&self, first: u64, all: &[Payload], who: Who) -> Result<Option<u64>, IoError> {
        self.device.stage(first, all, who).await
    }

    fn unstage(&self, number: u64) {
        self.device.unstage(number);
    }

    async fn publish(&self, staged: &[u64], changes: &[PageChange]) -> Result<(), IoError> {
        if !self.lies {
            return self.device.publish(staged, changes).await;
        }
        let now = (staged.to_vec(), changes.to_vec());
        let before = self.unpublished.borrow_mut().replace(now);
        let (staged, changes) = before.unwrap_or_default();
        self.device.publish(&staged, &changes).await
    }
}

impl DrivePort for Port {
    type Zones = ZonePort;

    fn zones(&self) -> Option<ZonePort> {
        let zones = ZonedDevice::new(self.device.device())?;
        Some(ZonePort::new(zones, self.lies))
    }
}
