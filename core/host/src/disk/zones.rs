//! Any zoned port as one type.

use crate::cores::Computing;
use crate::ledger::Who;
use crate::{ZonedDevice, ZonedPort};
use sim::Boxed;
use ssd::{Content, Sink, ZoneAction, ZoneInfo, ZoneLimits, ZoneStatus, ZoneUse};
use std::any::Any;
use std::rc::Rc;
use units::{Extent, Lba, Ns, Refusals};

/// A zoned port of any kind. Clones share the device.
#[derive(Clone)]
pub enum ZoneDisk {
    /// An emulated drive, called directly.
    Drive(ZonedDevice),
    /// A port of another kind.
    Layer(Rc<dyn ZoneCalls>),
}

/// The functions of a [`ZonedPort`], boxed, for [`ZoneDisk`]. Every zoned port has them.
pub trait ZoneCalls {
    /// Forwards to the port's [`ZonedPort::limits`].
    fn limits(&self) -> ZoneLimits;

    /// Forwards to the port's [`ZonedPort::zone`].
    fn zone(&self, zone: u32) -> Option<ZoneInfo>;

    /// Forwards to the port's [`ZonedPort::in_use`].
    fn in_use(&self) -> ZoneUse;

    /// Forwards to the port's [`ZonedPort::refusals`].
    fn refusals(&self) -> Refusals;

    /// Forwards to the port's [`ZonedPort::compute`].
    fn compute(&self, span: Ns) -> Computing;

    /// Forwards to the port's [`ZonedPort::read`].
    fn read<'a>(
        &'a self,
        extent: Extent,
        sink: &'a mut dyn Sink,
        who: Who,
    ) -> Boxed<'a, Result<(), ZoneStatus>>;

    /// Forwards to the port's [`ZonedPort::report`].
    fn report(&self, first: u32, count: u32) -> Boxed<'_, Result<Vec<ZoneInfo>, ZoneStatus>>;

    /// Forwards to the port's [`ZonedPort::write`].
    fn write<'a>(
        &'a self,
        extent: Extent,
        content: Content<'a>,
        who: Who,
        fua: bool,
    ) -> Boxed<'a, Result<(), ZoneStatus>>;

    /// Forwards to the port's [`ZonedPort::append`].
    fn append<'a>(
        &'a self,
        zone: u32,
        sectors: u32,
        content: Content<'a>,
        who: Who,
        fua: bool,
    ) -> Boxed<'a, Result<Lba, ZoneStatus>>;

    /// Forwards to the port's [`ZonedPort::copy`].
    fn copy<'a>(&'a self, sources: &'a [Extent], to: Lba) -> Boxed<'a, Result<(), ZoneStatus>>;

    /// Forwards to the port's [`ZonedPort::manage`].
    fn manage(&self, zone: u32, action: ZoneAction) -> Boxed<'_, Result<(), ZoneStatus>>;

    /// Forwards to the port's [`ZonedPort::commit`].
    fn commit(&self, end: Lba) -> Boxed<'_, Result<(), ZoneStatus>>;

    /// Forwards to the port's [`ZonedPort::flush`].
    fn flush(&self) -> Boxed<'_, Result<(), ZoneStatus>>;
}

impl<P: ZonedPort> ZoneCalls for P {
    fn limits(&self) -> ZoneLimits {
        ZonedPort::limits(self)
    }

    fn zone(&self, zone: u32) -> Option<ZoneInfo> {
        ZonedPort::zone(self, zone)
    }

    fn in_use(&self) -> ZoneUse {
        ZonedPort::in_use(self)
    }

    fn refusals(&self) -> Refusals {
        ZonedPort::refusals(self)
    }

    fn compute(&self, span: Ns) -> Computing {
        ZonedPort::compute(self, span)
    }

    fn read<'a>(
        &'a self,
        extent: Extent,
        mut sink: &'a mut dyn Sink,
        who: Who,
    ) -> Boxed<'a, Result<(), ZoneStatus>> {
        Box::pin(async move { ZonedPort::read(self, extent, &mut sink, who).await })
    }

    fn report(&self, first: u32, count: u32) -> Boxed<'_, Result<Vec<ZoneInfo>, ZoneStatus>> {
        Box::pin(ZonedPort::report(self, first, count))
    }

    fn write<'a>(
        &'a self,
        extent: Extent,
        content: Content<'a>,
        who: Who,
        fua: bool,
    ) -> Boxed<'a, Result<(), ZoneStatus>> {
        Box::pin(ZonedPort::write(self, extent, content, who, fua))
    }

    fn append<'a>(
        &'a self,
        zone: u32,
        sectors: u32,
        content: Content<'a>,
        who: Who,
        fua: bool,
    ) -> Boxed<'a, Result<Lba, ZoneStatus>> {
        Box::pin(ZonedPort::append(self, zone, sectors, content, who, fua))
    }

    fn copy<'a>(&'a self, sources: &'a [Extent], to: Lba) -> Boxed<'a, Result<(), ZoneStatus>> {
        Box::pin(ZonedPort::copy(self, sources, to))
    }

    fn manage(&self, zone: u32, action: ZoneAction) -> Boxed<'_, Result<(), ZoneStatus>> {
        Box::pin(ZonedPort::manage(self, zone, action))
    }

    fn commit(&self, end: Lba) -> Boxed<'_, Result<(), ZoneStatus>> {
        Box::pin(ZonedPort::commit(self, end))
    }

    fn flush(&self) -> Boxed<'_, Result<(), ZoneStatus>> {
        Box::pin(ZonedPort::flush(self))
    }
}

impl<P: ZonedPort> From<&P> for ZoneDisk {
    fn from(port: &P) -> Self {
        let port: &dyn Any = port;
        if let Some(disk) = port.downcast_ref::<Self>() {
            return disk.clone();
        }
        if let Some(drive) = port.downcast_ref::<ZonedDevice>() {
            return Self::Drive(drive.clone());
        }
        let port = port.downcast_ref::<P>().expect("its own type");
        Self::Layer(Rc::new(port.clone()))
    }
}

impl ZonedPort for ZoneDisk {
    fn limits(&self) -> ZoneLimits {
        match self {
            Self::Drive(drive) => ZonedPort::limits(drive),
            Self::Layer(port) => ZoneCalls::limits(&**port),
        }
    }

    fn zone(&self, zone: u32) -> Option<ZoneInfo> {
        match self {
            Self::Drive(drive) => ZonedPort::zone(drive, zone),
            Self::Layer(port) => ZoneCalls::zone(&**port, zone),
        }
    }

    fn in_use(&self) -> ZoneUse {
        match self {
            Self::Drive(drive) => ZonedPort::in_use(drive),
            Self::Layer(port) => ZoneCalls::in_use(&**port),
        }
    }

    fn refusals(&self) -> Refusals {
        match self {
            Self::Drive(drive) => ZonedPort::refusals(drive),
            Self::Layer(port) => ZoneCalls::refusals(&**port),
        }
    }

    fn compute(&self, span: Ns) -> Computing {
        match self {
            Self::Drive(drive) => ZonedPort::compute(drive, span),
            Self::Layer(port) => ZoneCalls::compute(&**port, span),
        }
    }

    async fn read(&self, extent: Extent, sink: &mut impl Sink, who: Who) -> Result<(), ZoneStatus> {
        match self {
            Self::Drive(drive) => ZonedPort::read(drive, extent, sink, who).await,
            Self::Layer(port) => ZoneCalls::read(&**port, extent, sink, who).await,
        }
    }

    async fn report(&self, first: u32, count: u32) -> Result<Vec<ZoneInfo>, ZoneStatus> {
        match self {
            Self::Drive(drive) => ZonedPort::report(drive, first, count).await,
            Self::Layer(port) => ZoneCalls::report(&**port, first, count).await,
        }
    }

    async fn write(
        &self,
        extent: Extent,
        content: Content<'_>,
        who: Who,
        fua: bool,
    ) -> Result<(), ZoneStatus> {
        match self {
            Self::Drive(drive) => ZonedPort::write(drive, extent, content, who, fua).await,
            Self::Layer(port) => ZoneCalls::write(&**port, extent, content, who, fua).await,
        }
    }

    async fn append(
        &self,
        zone: u32,
        sectors: u32,
        content: Content<'_>,
        who: Who,
        fua: bool,
    ) -> Result<Lba, ZoneStatus> {
        match self {
            Self::Drive(drive) => ZonedPort::append(drive, zone, sectors, content, who, fua).await,
            Self::Layer(port) => ZoneCalls::append(&**port, zone, sectors, content, who, fua).await,
        }
    }

    async fn copy(&self, sources: &[Extent], to: Lba) -> Result<(), ZoneStatus> {
        match self {
            Self::Drive(drive) => ZonedPort::copy(drive, sources, to).await,
            Self::Layer(port) => ZoneCalls::copy(&**port, sources, to).await,
        }
    }

    async fn manage(&self, zone: u32, action: ZoneAction) -> Result<(), ZoneStatus> {
        match self {
            Self::Drive(drive) => ZonedPort::manage(drive, zone, action).await,
            Self::Layer(port) => ZoneCalls::manage(&**port, zone, action).await,
        }
    }

    async fn commit(&self, end: Lba) -> Result<(), ZoneStatus> {
        match self {
            Self::Drive(drive) => ZonedPort::commit(drive, end).await,
            Self::Layer(port) => ZoneCalls::commit(&**port, end).await,
        }
    }

    async fn flush(&self) -> Result<(), ZoneStatus> {
        match self {
            Self::Drive(drive) => ZonedPort::flush(drive).await,
            Self::Layer(port) => ZoneCalls::flush(&**port).await,
        }
    }
}
