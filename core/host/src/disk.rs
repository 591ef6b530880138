//! Any port as one type, for file systems: each is compiled once, in its own crate, and not anew
//! for each kind of port.
//!
//! Invariant: commands of an emulated drive are called directly, without an allocation. Those of
//! any other port are boxed.

mod bytes;
mod swaps;
mod zones;

pub use bytes::{ByteCalls, ByteDisk};
pub use swaps::{SwapCalls, SwapDisk};
pub use zones::{ZoneCalls, ZoneDisk};

use crate::cores::Computing;
use crate::ledger::Who;
use crate::{BlockDevice, BlockPort};
use sim::Boxed;
use ssd::{Content, IoError, Sink};
use units::{Bytes, Extent, Ns, Placement};

/// Declares the type for ports of one trait.
macro_rules! disk {
    ($(#[$doc:meta])* $name:ident: $port:ident, $calls:ident) => {
        $(#[$doc])*
        #[derive(Clone)]
        pub enum $name {
            /// An emulated drive, called directly.
            Drive(BlockDevice),
            /// A port of another kind, such as a remapping layer.
            Layer(std::rc::Rc<dyn $calls>),
        }

        impl<P: $port> From<&P> for $name {
            fn from(port: &P) -> Self {
                let port: &dyn std::any::Any = port;
                if let Some(disk) = port.downcast_ref::<Self>() {
                    return disk.clone();
                }
                if let Some(drive) = port.downcast_ref::<BlockDevice>() {
                    return Self::Drive(drive.clone());
                }
                let port = port.downcast_ref::<P>().expect("its own type");
                Self::Layer(std::rc::Rc::new(port.clone()))
            }
        }

        impl BlockPort for $name {
            fn capacity(&self) -> Bytes {
                match self {
                    Self::Drive(drive) => BlockPort::capacity(drive),
                    Self::Layer(port) => BlockCalls::capacity(&**port),
                }
            }

            fn handles(&self) -> u16 {
                match self {
                    Self::Drive(drive) => BlockPort::handles(drive),
                    Self::Layer(port) => BlockCalls::handles(&**port),
                }
            }

            async fn read(
                &self,
                extent: Extent,
                sink: &mut impl Sink,
                who: Who,
            ) -> Result<(), IoError> {
                match self {
                    Self::Drive(drive) => BlockPort::read(drive, extent, sink, who).await,
                    Self::Layer(port) => BlockCalls::read(&**port, extent, sink, who).await,
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
                match self {
                    Self::Drive(drive) => {
                        BlockPort::write(drive, extent, content, placement, who, fua).await
                    }
                    Self::Layer(port) => BlockCalls::write(&**port, extent, content, placement, who, fua).await,
                }
            }

            async fn trim(&self, extent: Extent) -> Result<(), IoError> {
                match self {
                    Self::Drive(drive) => BlockPort::trim(drive, extent).await,
                    Self::Layer(port) => BlockCalls::trim(&**port, extent).await,
                }
            }

            async fn flush(&self) -> Result<(), IoError> {
                match self {
                    Self::Drive(drive) => BlockPort::flush(drive).await,
                    Self::Layer(port) => BlockCalls::flush(&**port).await,
                }
            }

            fn compute(&self, span: Ns) -> Computing {
                match self {
                    Self::Drive(drive) => BlockPort::compute(drive, span),
                    Self::Layer(port) => BlockCalls::compute(&**port, span),
                }
            }
        }
    };
}

use disk;

disk! {
    /// A block port of any kind. Clones share the device.
    Disk: BlockPort, BlockCalls
}

/// The commands of a [`BlockPort`], boxed, for [`Disk`]. Every block port has them.
pub trait BlockCalls {
    /// Forwards to the port's [`BlockPort::capacity`].
    fn capacity(&self) -> Bytes;

    /// Forwards to the port's [`BlockPort::handles`].
    fn handles(&self) -> u16;

    /// Forwards to the port's [`BlockPort::read`].
    fn read<'a>(
        &'a self,
        extent: Extent,
        sink: &'a mut dyn Sink,
        who: Who,
    ) -> Boxed<'a, Result<(), IoError>>;

    /// Forwards to the port's [`BlockPort::write`].
    fn write<'a>(
        &'a self,
        extent: Extent,
        content: Content<'a>,
        placement: Placement,
        who: Who,
        fua: bool,
    ) -> Boxed<'a, Result<(), IoError>>;

    /// Forwards to the port's [`BlockPort::trim`].
    fn trim(&self, extent: Extent) -> Boxed<'_, Result<(), IoError>>;

    /// Forwards to the port's [`BlockPort::flush`].
    fn flush(&self) -> Boxed<'_, Result<(), IoError>>;

    /// Forwards to the port's [`BlockPort::compute`].
    fn compute(&self, span: Ns) -> Computing;
}

impl<P: BlockPort> BlockCalls for P {
    fn capacity(&self) -> Bytes {
        BlockPort::capacity(self)
    }

    fn handles(&self) -> u16 {
        BlockPort::handles(self)
    }

    fn read<'a>(
        &'a self,
        extent: Extent,
        mut sink: &'a mut dyn Sink,
        who: Who,
    ) -> Boxed<'a, Result<(), IoError>> {
        Box::pin(async move { BlockPort::read(self, extent, &mut sink, who).await })
    }

    fn write<'a>(
        &'a self,
        extent: Extent,
        content: Content<'a>,
        placement: Placement,
        who: Who,
        fua: bool,
    ) -> Boxed<'a, Result<(), IoError>> {
        Box::pin(BlockPort::write(self, extent, content, placement, who, fua))
    }

    fn trim(&self, extent: Extent) -> Boxed<'_, Result<(), IoError>> {
        Box::pin(BlockPort::trim(self, extent))
    }

    fn flush(&self) -> Boxed<'_, Result<(), IoError>> {
        Box::pin(BlockPort::flush(self))
    }

    fn compute(&self, span: Ns) -> Computing {
        BlockPort::compute(self, span)
    }
}
