//! What is between a file system and the drive whose power is cut.
//!
//! Invariant: an honest port is the drive itself. One that lies says that what
//! was forced is durable and leaves it in the drive's buffer, as drives that
//! answer flushes for speed do; a judge of power cuts must find that out.

use host::{BlockDevice, BlockPort, Who};
use ssd::{Content, IoError, Sink};
use units::{Bytes, Extent, Ns, Placement};

/// A drive that does as it says, or lies.
#[derive(Clone)]
pub(super) struct Port {
    pub(super) device: BlockDevice,
    pub(super) lies: bool,
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
        self.device.flush().await
    }

    fn compute(&self, span: Ns) -> Ns {
        self.device.compute(span)
    }
}
