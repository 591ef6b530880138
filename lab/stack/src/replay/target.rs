//! The place that the requests of a run go to: the queues of a drive, its zones, or a mapping above
//! it.

use crate::attached::Attached;
use crate::error::StackError;
use host::{BlockDevice, BlockPort, Linear, Purpose, QueuePair, Who, ZonedDevice, ZonedPort};
use sim::{Boxed, Sim};
use ssd::{Command, Content, IoError, ZoneAction, ZoneState, ZoneStatus};
use std::cell::Cell;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use units::SECTOR;
use workload::{Op, Request};

/// Drive of a run with the layers above it.
pub(crate) struct Target {
    pub(super) device: BlockDevice,
    /// The drive's zones as one address space; `None` without zones.
    zones: Option<Linear<ZonedDevice>>,
    /// The host's mapping or the remapping layer; `None` if requests go to the drive's own queues.
    mapped: Option<Attached>,
    /// Whether requests go to the drive's own queues.
    is_queued: bool,
}

/// Request at the queues of the drive, in zones, or above a mapping.
pub(crate) enum Service {
    Queued,
    Elsewhere(Boxed<'static, Result<(), IoError>>),
}

impl Service {
    /// Advances the request `queued` of `queue`, or this one, and returns its result at its end.
    #[inline]
    pub(crate) fn advance(
        &mut self,
        queue: &QueuePair,
        queued: &mut host::Request,
    ) -> Poll<Result<(), IoError>> {
        match self {
            Self::Queued => queue.advance(queued),
            Self::Elsewhere(request) => {
                let mut context = Context::from_waker(Waker::noop());
                request.as_mut().poll(&mut context)
            }
        }
    }
}

impl Target {
    pub(crate) fn new(sim: &Sim, port: &Attached) -> Self {
        let device = port.device();
        let zones = ZonedDevice::new(device).map(|zones| Linear::new(sim, zones));
        Self {
            mapped: port.is_mapped().then(|| port.clone()),
            is_queued: zones.is_none() && !port.is_mapped(),
            device: device.clone(),
            zones,
        }
    }

    /// Begins `request`; `queued` becomes the request if it goes to a queue.
    #[inline]
    pub(crate) fn begin(&self, request: &Request, who: Who, queued: &mut host::Request) -> Service {
        match command(request, who) {
            Some(command) if self.is_queued => {
                queued.renew(command, who);
                Service::Queued
            }
            _ => {
                let elsewhere = elsewhere(self.zones.clone(), self.mapped.clone(), *request, who);
                Service::Elsewhere(Box::pin(elsewhere))
            }
        }
    }

    /// Begins an append, which sets `place` to its first sector.
    pub(crate) fn append(
        &self,
        request: Request,
        who: Who,
        place: &Rc<Cell<Option<u64>>>,
    ) -> Service {
        let (zones, place) = (self.zones.clone(), Rc::clone(place));
        Service::Elsewhere(Box::pin(async move {
            let zones = zones.as_ref().ok_or(ZoneStatus::InvalidZoneOperation)?;
            place.set(Some(append(zones, &request, who).await?));
            Ok(())
        }))
    }

    /// Error of the `number`-th request if the drive has no command for it, or no such sectors.
    pub(super) fn check(&self, request: &Request, number: u64) -> Option<StackError> {
        self.unfit(request, number)
            .or_else(|| self.past_end(request, number))
    }

    fn unfit(&self, request: &Request, number: u64) -> Option<StackError> {
        let needed = lacks(request.op, self.zones.is_some())?;
        Some(StackError::Command {
            number,
            op: request.op.name(),
            needed,
        })
    }

    fn past_end(&self, request: &Request, number: u64) -> Option<StackError> {
        let capacity = match &self.mapped {
            Some(mapped) => mapped.capacity(),
            None => self.device.drive().config().capacity,
        };
        let sectors = capacity.0 / SECTOR;
        let extent = request.extent;
        let end = extent.start.0.saturating_add(u64::from(extent.sectors));
        (end > sectors).then(|| StackError::PastEnd {
            number,
            first: extent.start.0,
            last: end.saturating_sub(1),
            sectors,
            capacity,
        })
    }
}

/// The kind of drive that a request would need; `None` if the drive, with zones or without, has a
/// command for it.
pub(crate) const fn lacks(op: Op, has_zones: bool) -> Option<&'static str> {
    match op {
        _ if op.needs_zones() && !has_zones => {
            Some("expected a drive with zones, such as that of raw@zns")
        }
        Op::Zeroes if has_zones => Some(
            "expected a drive without zones, such as that of raw@block, because zones are filled \
             by writes and appends only",
        ),
        _ => None,
    }
}

/// Executes a request in zones or above a mapping.
async fn elsewhere(
    zones: Option<Linear<ZonedDevice>>,
    mapped: Option<Attached>,
    request: Request,
    who: Who,
) -> Result<(), IoError> {
    match (&zones, &mapped) {
        (Some(zones), _) if request.op.needs_zones() => in_zones(zones, &request, who).await,
        (Some(zones), _) => execute_on(zones, &request, who).await,
        (None, Some(mapped)) => execute_on(mapped, &request, who).await,
        (None, None) => Err(ZoneStatus::InvalidZoneOperation.into()),
    }
}

async fn execute_on(port: &impl BlockPort, request: &Request, who: Who) -> Result<(), IoError> {
    let extent = request.extent;
    match request.op {
        Op::Read => port.read(extent, &mut (), who).await,
        Op::Write => {
            let (content, placement) = (Content::Nothing, request.placement);
            port.write(extent, content, placement, who, request.fua)
                .await
        }
        Op::Trim | Op::Zeroes => port.trim(extent).await,
        Op::Flush => port.flush().await,
        _ => Err(ZoneStatus::InvalidZoneOperation.into()),
    }
}

/// Executes an append, and returns its first sector.
async fn append(zones: &Linear<ZonedDevice>, request: &Request, who: Who) -> Result<u64, IoError> {
    let (zone, _) = zones.packing().place(request.extent.start.0);
    let (sectors, content) = (request.extent.sectors, Content::Nothing);
    let appended = zones
        .port()
        .append(zone, sectors, content, who, request.fua);
    Ok(zones.packing().sector(appended.await?.0))
}

/// Executes an append or a zone command. It goes to the zone of this drive that contains its
/// address; the recorded drive may have had zones of another size.
async fn in_zones(zones: &Linear<ZonedDevice>, request: &Request, who: Who) -> Result<(), IoError> {
    let port = zones.port();
    let (zone, _) = zones.packing().place(request.extent.start.0);
    let action = match request.op {
        Op::Append => return append(zones, request, who).await.map(|_| ()),
        Op::ZoneResetAll => {
            for zone in port.limits().conventional..port.limits().zones {
                let state = port
                    .zone(zone)
                    .map_or(ZoneState::Offline, |info| info.state);
                if state != ZoneState::Empty && !state.is_lost() {
                    port.manage(zone, ZoneAction::Reset).await?;
                }
            }
            return Ok(());
        }
        Op::ZoneOpen => ZoneAction::Open,
        Op::ZoneClose => ZoneAction::Close,
        Op::ZoneFinish => ZoneAction::Finish,
        _ => ZoneAction::Reset,
    };
    Ok(port.manage(zone, action).await?)
}

/// The command of a request at the queues of a drive; `None` for a command to zones.
fn command(request: &Request, who: Who) -> Option<Command> {
    let extent = request.extent;
    match request.op {
        Op::Read => Some(Command::Read(extent)),
        Op::Write => {
            let (placement, fua) = (request.placement, request.fua);
            Some(Command::Write(extent, placement, who.origin, fua))
        }
        Op::Trim | Op::Zeroes => Some(Command::Trim(extent)),
        Op::Flush => Some(Command::Flush),
        _ => None,
    }
}

/// Purpose of an origin's data at the host.
pub(super) const fn purpose(purpose: workload::Purpose) -> Purpose {
    match purpose {
        workload::Purpose::Data => Purpose::Data,
        workload::Purpose::Metadata => Purpose::Metadata,
        workload::Purpose::Journal => Purpose::Journal,
    }
}
