//! Any byte port as one type.

use super::{BlockCalls, Disk, disk};
use crate::cores::Computing;
use crate::ledger::Who;
use crate::{BlockDevice, BlockPort, BytePort};
use sim::Boxed;
use ssd::{ByteError, Content, IoError, Sink};
use std::rc::Rc;
use units::{Bytes, Extent, Ns, Placement};

disk! {
    /// A byte port of any kind. Clones share the device.
    ByteDisk: BytePort, ByteCalls
}

impl ByteDisk {
    /// Its blocks, through the block port.
    #[must_use]
    pub fn blocks(&self) -> Disk {
        match self {
            Self::Drive(drive) => Disk::Drive(drive.clone()),
            Self::Layer(port) => Disk::Layer(Rc::<dyn ByteCalls>::clone(port)),
        }
    }
}

/// The functions of a [`BytePort`], boxed, for [`ByteDisk`]. Every byte port has them.
pub trait ByteCalls: BlockCalls {
    /// Forwards to the port's [`BytePort::has_transactions`].
    fn has_transactions(&self) -> bool;

    /// Forwards to the port's [`BytePort::transaction_lines`].
    fn transaction_lines(&self) -> u64;

    /// Forwards to the port's [`BytePort::load`].
    fn load<'a>(&'a self, at: u64, out: &'a mut [u8], who: Who)
    -> Boxed<'a, Result<(), ByteError>>;

    /// Forwards to the port's [`BytePort::store`].
    fn store<'a>(
        &'a self,
        at: u64,
        bytes: &'a [u8],
        tx: u32,
        who: Who,
    ) -> Boxed<'a, Result<(), ByteError>>;

    /// Forwards to the port's [`BytePort::verify`].
    fn verify(&self) -> Boxed<'_, Result<(), ByteError>>;

    /// Forwards to the port's [`BytePort::commit`].
    fn commit(&self, tx: u32) -> Boxed<'_, Result<(), ByteError>>;

    /// Forwards to the port's [`BytePort::recover`].
    fn recover(&self) -> Boxed<'_, Result<(), ByteError>>;
}

impl<P: BytePort> ByteCalls for P {
    fn has_transactions(&self) -> bool {
        BytePort::has_transactions(self)
    }

    fn transaction_lines(&self) -> u64 {
        BytePort::transaction_lines(self)
    }

    fn load<'a>(
        &'a self,
        at: u64,
        out: &'a mut [u8],
        who: Who,
    ) -> Boxed<'a, Result<(), ByteError>> {
        Box::pin(BytePort::load(self, at, out, who))
    }

    fn store<'a>(
        &'a self,
        at: u64,
        bytes: &'a [u8],
        tx: u32,
        who: Who,
    ) -> Boxed<'a, Result<(), ByteError>> {
        Box::pin(BytePort::store(self, at, bytes, tx, who))
    }

    fn verify(&self) -> Boxed<'_, Result<(), ByteError>> {
        Box::pin(BytePort::verify(self))
    }

    fn commit(&self, tx: u32) -> Boxed<'_, Result<(), ByteError>> {
        Box::pin(BytePort::commit(self, tx))
    }

    fn recover(&self) -> Boxed<'_, Result<(), ByteError>> {
        Box::pin(BytePort::recover(self))
    }
}

impl BytePort for ByteDisk {
    fn has_transactions(&self) -> bool {
        match self {
            Self::Drive(drive) => BytePort::has_transactions(drive),
            Self::Layer(port) => ByteCalls::has_transactions(&**port),
        }
    }

    fn transaction_lines(&self) -> u64 {
        match self {
            Self::Drive(drive) => BytePort::transaction_lines(drive),
            Self::Layer(port) => ByteCalls::transaction_lines(&**port),
        }
    }

    async fn load(&self, at: u64, out: &mut [u8], who: Who) -> Result<(), ByteError> {
        match self {
            Self::Drive(drive) => BytePort::load(drive, at, out, who).await,
            Self::Layer(port) => ByteCalls::load(&**port, at, out, who).await,
        }
    }

    async fn store(&self, at: u64, bytes: &[u8], tx: u32, who: Who) -> Result<(), ByteError> {
        match self {
            Self::Drive(drive) => BytePort::store(drive, at, bytes, tx, who).await,
            Self::Layer(port) => ByteCalls::store(&**port, at, bytes, tx, who).await,
        }
    }

    async fn verify(&self) -> Result<(), ByteError> {
        match self {
            Self::Drive(drive) => BytePort::verify(drive).await,
            Self::Layer(port) => ByteCalls::verify(&**port).await,
        }
    }

    async fn commit(&self, tx: u32) -> Result<(), ByteError> {
        match self {
            Self::Drive(drive) => BytePort::commit(drive, tx).await,
            Self::Layer(port) => ByteCalls::commit(&**port, tx).await,
        }
    }

    async fn recover(&self) -> Result<(), ByteError> {
        match self {
            Self::Drive(drive) => BytePort::recover(drive).await,
            Self::Layer(port) => ByteCalls::recover(&**port).await,
        }
    }
}
