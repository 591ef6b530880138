//! Replay of requests: workers take them from a shared stream.
//!
//! Invariants: requests are taken in the order of the stream, by one worker at a time; requests to
//! the queues of a drive are not boxed, those to zones and to layers are. A closed loop has as many
//! workers as requests in flight. In an open loop one worker waits for the next arrival; if no
//! worker is idle when it comes, another one starts, up to [`IN_FLIGHT`]. Beyond that, requests
//! wait, and their latency counts from their arrival time.

mod worker;

use crate::attached::Attached;
use crate::error::StackError;
use crate::meter::{Meter, Tally};
use crate::plan::Until;
use crate::steady::{MOST_WINDOWS, Windows};
use crate::timeline::Sampled;
use host::{BlockDevice, BlockPort, Linear, Purpose, Who, ZonedDevice, ZonedPort};
use sim::{ActorId, Seed, Sim};
use ssd::{Content, IoError, ZoneAction, ZoneState, ZoneStatus};
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use units::{Bytes, Ns, SECTOR};
use worker::{Idle, Pace, Worker};
use workload::{Op, Pacing, Request, Stream, Workload};

/// Largest number of requests of an open loop in flight, which bounds memory.
pub(crate) const IN_FLIGHT: u32 = 16_384;

/// Repetition of a workload until garbage collection is steady.
pub(crate) struct Again {
    /// The workload; `None` if it runs once.
    workload: Option<Workload>,
    offered: Bytes,
    seed: Seed,
    windows: Rc<Windows>,
    passes: Cell<u64>,
    /// Bytes that the host had written at the start of the pass.
    written: Cell<u64>,
    /// Whether the last pass has ended. A window that requests in flight close afterwards starts no
    /// further pass.
    over: Cell<bool>,
}

impl Again {
    /// Repeats `workload` on `offered` bytes under the condition `until`.
    pub(crate) fn new(
        until: Until,
        workload: &Workload,
        (offered, seed): (Bytes, Seed),
        windows: &Rc<Windows>,
    ) -> Self {
        Self {
            workload: (until == Until::Steady).then(|| workload.clone()),
            offered,
            seed,
            windows: Rc::clone(windows),
            passes: Cell::new(1),
            written: Cell::new(0),
            over: Cell::new(false),
        }
    }

    /// Replaces `stream` by that of the next pass; `None` after the last pass. Each pass has its
    /// own seed: the same requests in the same order would be sequential overwrites.
    fn begin(&self, device: &BlockDevice, stream: &mut Stream) -> Option<()> {
        let workload = self.workload.as_ref()?;
        self.windows.look(device);
        let written = self.windows.written(device);
        let is_over = self.over.get()
            || self.windows.is_steady()
            || self.windows.closed() >= MOST_WINDOWS
            // A pass without writes can never become steady.
            || written == self.written.replace(written);
        self.over.set(is_over);
        if is_over {
            return None;
        }
        let pass = self.passes.get();
        // Cannot fail: the first pass opened the same workload.
        *stream = workload.open(self.offered, self.seed.child(pass)).ok()?;
        self.passes.set(pass + 1);
        Some(())
    }

    fn told(&self) -> Option<String> {
        self.workload.as_ref()?;
        let (passes, windows) = (self.passes.get(), self.windows.closed());
        let end = match self.windows.is_steady() {
            true => "steady".to_owned(),
            false if windows >= MOST_WINDOWS => {
                format!("not steady at the bound of {MOST_WINDOWS} capacities")
            }
            false => "not steady, because a pass wrote no data".to_owned(),
        };
        Some(format!(
            "passes over the workload: {passes}, windows of the drive's capacity in writes: \
             {windows}, {end}; the numbers cover all passes"
        ))
    }
}

/// The state that all workers share.
pub(crate) struct Replay {
    sim: Sim,
    actor: ActorId,
    pace: Pace,
    device: BlockDevice,
    /// The drive's zones as one address space; `None` without zones.
    zones: Option<Linear<ZonedDevice>>,
    /// The host's mapping or the remapping layer; `None` if requests go to the drive's own queues.
    mapped: Option<Attached>,
    /// Whether requests go to the drive's own queues.
    is_queued: bool,
    start: Ns,
    pub(crate) stream: RefCell<Stream>,
    pub(crate) meter: RefCell<Meter>,
    failure: RefCell<Option<StackError>>,
    until: Option<Ns>,
    again: Again,
    /// Start of the current pass, relative to that of the run.
    pass_start: Cell<Ns>,
    /// Arrival of the last request, relative to the start of the run.
    last_arrival: Cell<Ns>,
    taken: Cell<u64>,
    idle: RefCell<Idle>,
    /// Workers by number; `None` after their end.
    staff: RefCell<Vec<Option<Worker>>>,
    /// Number of workers that have not ended.
    workers: Cell<u32>,
    started: Cell<u32>,
}

impl Replay {
    /// Starts `workload` on `device`, with the requests of `stream`.
    pub(crate) fn start(
        sim: &Sim,
        port: &Attached,
        (stream, again): (Stream, Again),
        workload: &Workload,
        meter: Meter,
    ) -> Rc<Self> {
        let device = port.device();
        let (pace, workers) = match workload.pacing {
            Pacing::Closed { depth, think } => (Pace::Closed(think), depth),
            Pacing::Open => (Pace::Open, 1),
        };
        let zones = ZonedDevice::new(device).map(|zones| Linear::new(sim, zones));
        let replay = Rc::new_cyclic(|me: &Weak<Self>| Self {
            mapped: port.is_mapped().then(|| port.clone()),
            is_queued: zones.is_none() && !port.is_mapped(),
            actor: sim.enroll(me.clone()),
            pace,
            start: sim.now(),
            sim: sim.clone(),
            device: device.clone(),
            zones,
            stream: RefCell::new(stream),
            meter: RefCell::new(meter),
            failure: RefCell::default(),
            until: workload.until,
            again,
            pass_start: Cell::default(),
            last_arrival: Cell::default(),
            idle: RefCell::default(),
            taken: Cell::new(0),
            staff: RefCell::default(),
            workers: Cell::new(0),
            started: Cell::new(0),
        });
        for _ in 0..workers {
            replay.hire();
        }
        replay
    }

    /// Virtual time since the start of the run.
    fn clock(&self) -> Ns {
        self.sim.now().since(self.start)
    }

    /// Requests without a completion yet.
    pub(crate) fn in_flight(&self) -> u64 {
        let meter = self.meter.borrow();
        self.taken.get() - meter.completed - meter.errors.values().sum::<u64>()
    }

    /// Takes the error that stopped the run; `None` without one.
    pub(crate) fn failure(&self) -> Option<StackError> {
        self.failure.take()
    }

    /// The next request, with its origin and purpose.
    fn take(&self, now: Ns) -> Option<(Request, Who)> {
        if self.failure.borrow().is_some() {
            return None;
        }
        let mut stream = self.stream.borrow_mut();
        let request = match self.next(&mut stream, now) {
            Some(Ok(request)) => request,
            Some(Err(error)) => return self.fail(error),
            None => {
                self.again.begin(&self.device, &mut stream)?;
                self.pass_start.set(now.max(self.last_arrival.get()));
                match self.next(&mut stream, now)? {
                    Ok(request) => request,
                    Err(error) => return self.fail(error),
                }
            }
        };
        self.last_arrival.set(request.at);
        self.taken.set(self.taken.get() + 1);
        if let Some(error) = self.unfit(&request).or_else(|| self.past_end(&request)) {
            return self.fail(error);
        }
        let who = Who {
            origin: request.origin,
            purpose: purpose(stream.labels().purpose(request.origin)),
        };
        Some((request, who))
    }

    /// The next request of the pass, its arrival relative to the start of the run; `None` at the
    /// end of the pass.
    fn next(&self, stream: &mut Stream, now: Ns) -> Option<Result<Request, StackError>> {
        let mut request = match stream.next()? {
            Ok(request) => request,
            Err(error) => return Some(Err(error.into())),
        };
        let start = self.pass_start.get();
        request.at += start;
        let is_late = |until: Ns| now.max(request.at).since(start) >= until;
        (!self.until.is_some_and(is_late)).then_some(Ok(request))
    }

    /// A sentence on the number of passes; `None` if the workload runs once.
    pub(crate) fn passes_sentence(&self) -> Option<String> {
        self.again.told()
    }

    fn fail<T>(&self, error: StackError) -> Option<T> {
        self.stop(error);
        None
    }

    fn unfit(&self, request: &Request) -> Option<StackError> {
        let needed = lacks(request.op, self.zones.is_some())?;
        Some(StackError::Command {
            number: self.taken.get(),
            op: request.op.name(),
            needed,
        })
    }

    fn past_end(&self, request: &Request) -> Option<StackError> {
        let capacity = match &self.mapped {
            Some(mapped) => mapped.capacity(),
            None => self.device.drive().config().capacity,
        };
        let sectors = capacity.0 / SECTOR;
        let extent = request.extent;
        let end = extent.start.0.saturating_add(u64::from(extent.sectors));
        (end > sectors).then(|| StackError::PastEnd {
            number: self.taken.get(),
            first: extent.start.0,
            last: end.saturating_sub(1),
            sectors,
            capacity,
        })
    }
}

impl Sampled for Replay {
    fn is_done(&self) -> bool {
        self.workers.get() == 0
    }

    fn stop(&self, error: StackError) {
        *self.failure.borrow_mut() = Some(error);
    }

    fn with_interval(&self, take: &mut dyn FnMut(&mut Tally)) {
        self.meter.borrow_mut().interval.iter_mut().for_each(take);
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

/// Executes an append or a zone command. It goes to the zone of this drive that contains its
/// address; the recorded drive may have had zones of another size.
async fn in_zones(zones: &Linear<ZonedDevice>, request: &Request, who: Who) -> Result<(), IoError> {
    let port = zones.port();
    let (zone, _) = zones.packing().place(request.extent.start.0);
    let action = match request.op {
        Op::Append => {
            let (sectors, content) = (request.extent.sectors, Content::Nothing);
            let appended = port.append(zone, sectors, content, who, request.fua);
            return Ok(appended.await.map(|_| ())?);
        }
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

const fn purpose(purpose: workload::Purpose) -> Purpose {
    match purpose {
        workload::Purpose::Data => Purpose::Data,
        workload::Purpose::Metadata => Purpose::Metadata,
        workload::Purpose::Journal => Purpose::Journal,
    }
}
