//! Any swap port as one type.

use super::{BlockCalls, Disk, disk};
use crate::cores::Computing;
use crate::ledger::Who;
use crate::{BlockDevice, BlockPort, PageChange, SwapPort};
use nand::Payload;
use sim::Boxed;
use ssd::{Content, IoError, Sink};
use std::rc::Rc;
use units::{Bytes, Extent, Ns, Placement};

disk! {
    /// A swap port of any kind. Clones share the device.
    SwapDisk: SwapPort, SwapCalls
}

impl SwapDisk {
    /// Its blocks, through the block port.
    #[must_use]
    pub fn blocks(&self) -> Disk {
        match self {
            Self::Drive(drive) => Disk::Drive(drive.clone()),
            Self::Layer(port) => Disk::Layer(Rc::<dyn SwapCalls>::clone(port)),
        }
    }
}

/// The functions of a [`SwapPort`], boxed, for [`SwapDisk`]. Every swap port has them.
pub trait SwapCalls: BlockCalls {
    /// Forwards to the port's [`SwapPort::has_swaps`].
    fn has_swaps(&self) -> Boxed<'_, bool>;

    /// Forwards to the port's [`SwapPort::most_changes`].
    fn most_changes(&self) -> usize;

    /// Forwards to the port's [`SwapPort::stage`].
    fn stage<'a>(
        &'a self,
        first: u64,
        contents: &'a [Payload],
        who: Who,
    ) -> Boxed<'a, Result<Option<u64>, IoError>>;

    /// Forwards to the port's [`SwapPort::unstage`].
    fn unstage(&self, number: u64);

    /// Forwards to the port's [`SwapPort::publish`].
    fn publish<'a>(
        &'a self,
        staged: &'a [u64],
        changes: &'a [PageChange],
    ) -> Boxed<'a, Result<(), IoError>>;
}

impl<P: SwapPort> SwapCalls for P {
    fn has_swaps(&self) -> Boxed<'_, bool> {
        Box::pin(SwapPort::has_swaps(self))
    }

    fn most_changes(&self) -> usize {
        SwapPort::most_changes(self)
    }

    fn stage<'a>(
        &'a self,
        first: u64,
        contents: &'a [Payload],
        who: Who,
    ) -> Boxed<'a, Result<Option<u64>, IoError>> {
        Box::pin(SwapPort::stage(self, first, contents, who))
    }

    fn unstage(&self, number: u64) {
        SwapPort::unstage(self, number);
    }

    fn publish<'a>(
        &'a self,
        staged: &'a [u64],
        changes: &'a [PageChange],
    ) -> Boxed<'a, Result<(), IoError>> {
        Box::pin(SwapPort::publish(self, staged, changes))
    }
}

/// An emulated drive has no swaps: for it the functions that need them are never called.
impl SwapPort for SwapDisk {
    async fn has_swaps(&self) -> bool {
        match self {
            Self::Drive(_) => false,
            Self::Layer(port) => SwapCalls::has_swaps(&**port).await,
        }
    }

    fn most_changes(&self) -> usize {
        match self {
            Self::Drive(drive) => SwapPort::most_changes(drive),
            Self::Layer(port) => SwapCalls::most_changes(&**port),
        }
    }

    async fn stage(&self, first: u64, all: &[Payload], who: Who) -> Result<Option<u64>, IoError> {
        match self {
            Self::Drive(drive) => SwapPort::stage(drive, first, all, who).await,
            Self::Layer(port) => SwapCalls::stage(&**port, first, all, who).await,
        }
    }

    fn unstage(&self, number: u64) {
        if let Self::Layer(port) = self {
            SwapCalls::unstage(&**port, number);
        }
    }

    async fn publish(&self, staged: &[u64], changes: &[PageChange]) -> Result<(), IoError> {
        match self {
            Self::Drive(drive) => SwapPort::publish(drive, staged, changes).await,
            Self::Layer(port) => SwapCalls::publish(&**port, staged, changes).await,
        }
    }
}
