//! Requests on their way: workers that take them from the shared stream.
//!
//! Invariants: requests are taken in the order of the stream, by one worker at a
//! time; no request is boxed, but for those to zones. In a closed loop there are as many workers as
//! requests in flight. In an open loop one worker waits for the next arrival,
//! and another one is started if none is idle when it comes, up to
//! [`IN_FLIGHT`]; beyond that requests wait, and their latency counts from the
//! time at which they should have come.

use crate::attached::Attached;
use crate::error::StackError;
use crate::meter::{Meter, Tally};
use crate::plan::Until;
use crate::steady::{MOST_WINDOWS, Windows};
use crate::timeline::Sampled;
use host::{BlockDevice, BlockPort, Linear, Purpose, QueuePair, Who, ZonedDevice, ZonedPort};
use sim::{Seed, Semaphore, Sim};
use ssd::{Content, IoError, ZoneAction, ZoneState, ZoneStatus};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use units::{Bytes, Ns, SECTOR};
use workload::{Op, Pacing, Request, Stream, Workload};

/// Most requests of an open loop in flight, which bounds memory.
pub(crate) const IN_FLIGHT: u32 = 16_384;

/// Repeats a workload until garbage collection is steady, or not at all.
pub(crate) struct Again {
    /// The workload; none if it runs once.
    workload: Option<Workload>,
    offered: Bytes,
    seed: Seed,
    windows: Rc<Windows>,
    passes: Cell<u64>,
    /// Bytes that the host had written when the pass began.
    written: Cell<u64>,
    /// Whether the last pass has ended. A window that requests in flight close afterwards
    /// begins no further pass.
    over: Cell<bool>,
}

impl Again {
    /// Repeats `workload` on the bytes `offered` as `until` says.
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

    /// Puts the next pass in the place of `stream`; none if there is none. Each pass has a seed
    /// of its own: the same requests in the same order would be overwrites in order.
    fn begin(&self, device: &BlockDevice, stream: &mut Stream) -> Option<()> {
        let workload = self.workload.as_ref()?;
        self.windows.look(device);
        let written = self.windows.written(device);
        let is_over = self.over.get()
            || self.windows.is_steady()
            || self.windows.closed() >= MOST_WINDOWS
            // A pass without writes will never be steady.
            || written == self.written.replace(written);
        self.over.set(is_over);
        if is_over {
            return None;
        }
        let pass = self.passes.get();
        // The workload was opened before, for the first pass.
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
            false => "not steady, as a pass wrote nothing".to_owned(),
        };
        Some(format!(
            "passes over the workload: {passes}, windows of the drive's capacity in writes: \
             {windows}, {end}; all passes are in the numbers"
        ))
    }
}

/// What all workers share.
pub(crate) struct Replay {
    sim: Sim,
    device: BlockDevice,
    /// The drive's zones, if it has any, as one address space.
    zones: Option<Linear<ZonedDevice>>,
    /// What maps the drive or remaps it, if its host does.
    mapped: Option<Attached>,
    start: Ns,
    pub(crate) stream: RefCell<Stream>,
    pub(crate) meter: RefCell<Meter>,
    failure: RefCell<Option<StackError>>,
    until: Option<Ns>,
    again: Again,
    /// When the current pass over the workload began, counted from the start.
    pass_start: Cell<Ns>,
    /// Arrival of the last request, counted from the start.
    last_arrival: Cell<Ns>,
    /// Whoever holds it takes the next request.
    lead: Semaphore,
    taken: Cell<u64>,
    /// Workers that have not ended.
    workers: Cell<u32>,
    started: Cell<u32>,
}

impl Replay {
    /// Starts `workload`, whose requests `stream` gives, on `device`.
    pub(crate) fn start(
        sim: &Sim,
        port: &Attached,
        (stream, again): (Stream, Again),
        workload: &Workload,
        meter: Meter,
    ) -> Rc<Self> {
        let device = port.device();
        let replay = Rc::new(Self {
            mapped: port.is_mapped().then(|| port.clone()),
            start: sim.now(),
            sim: sim.clone(),
            device: device.clone(),
            zones: ZonedDevice::new(device).map(|zones| Linear::new(sim, zones)),
            stream: RefCell::new(stream),
            meter: RefCell::new(meter),
            failure: RefCell::default(),
            until: workload.until,
            again,
            pass_start: Cell::default(),
            last_arrival: Cell::default(),
            lead: Semaphore::new(sim, 1),
            taken: Cell::new(0),
            workers: Cell::new(0),
            started: Cell::new(0),
        });
        match workload.pacing {
            Pacing::Closed { depth, think } => {
                for _ in 0..depth {
                    let queue = replay.hire();
                    sim.spawn_detached(Rc::clone(&replay).closed(queue, think));
                }
            }
            Pacing::Open => replay.start_open(),
        }
        replay
    }

    fn start_open(self: &Rc<Self>) {
        let queue = self.hire();
        self.sim.spawn_detached(Rc::clone(self).open(queue));
    }

    fn hire(&self) -> QueuePair {
        let index = self.started.get();
        self.started.set(index + 1);
        self.workers.set(self.workers.get() + 1);
        self.device.queue(index as usize)
    }

    fn leave(&self) {
        self.workers.set(self.workers.get() - 1);
    }

    /// Time since the start.
    fn clock(&self) -> Ns {
        self.sim.now().since(self.start)
    }

    /// Requests that have not been answered.
    pub(crate) fn in_flight(&self) -> u64 {
        let meter = self.meter.borrow();
        self.taken.get() - meter.completed - meter.errors.values().sum::<u64>()
    }

    /// Why the run had to stop, if it had to.
    pub(crate) fn failure(&self) -> Option<StackError> {
        self.failure.take()
    }

    async fn closed(self: Rc<Self>, queue: QueuePair, think: Ns) {
        while let Some((request, who)) = self.take(self.clock()) {
            self.serve(&queue, &request, who, self.clock()).await;
            if think > Ns::ZERO {
                self.sim.sleep(think).await;
            }
        }
        self.leave();
    }

    async fn open(self: Rc<Self>, queue: QueuePair) {
        loop {
            self.lead.take(1).await;
            let Some((request, who)) = self.take(Ns::ZERO) else {
                self.lead.put(1);
                break;
            };
            self.sim.sleep_until(self.start + request.at).await;
            let idle = self.lead.is_contended();
            self.lead.put(1);
            if !idle && self.workers.get() < IN_FLIGHT {
                self.start_open();
            }
            self.serve(&queue, &request, who, request.at).await;
        }
        self.leave();
    }

    /// The next request, and for whom it is.
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

    /// The next request of the pass, with its arrival counted from the start; none at the end
    /// of the pass.
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

    /// How often the workload was repeated, in a sentence, if it may be.
    pub(crate) fn told_of_passes(&self) -> Option<String> {
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

    async fn serve(&self, queue: &QueuePair, request: &Request, who: Who, arrival: Ns) {
        let result = match &self.zones {
            // Boxed, so that the future of a request stays small.
            Some(zones) if request.op.needs_zones() => {
                Box::pin(in_zones(zones, request, who)).await
            }
            Some(zones) => Box::pin(execute_on(zones, request, who)).await,
            None => match &self.mapped {
                Some(mapped) => Box::pin(execute_on(mapped, request, who)).await,
                None => execute(queue, request, who).await,
            },
        };
        let now = self.clock();
        let mut meter = self.meter.borrow_mut();
        meter.add(request.op, now.since(arrival), now, result);
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

/// What a drive with zones or without them would need for requests that it has no command
/// for; none for others.
pub(crate) const fn lacks(op: Op, has_zones: bool) -> Option<&'static str> {
    match op {
        _ if op.needs_zones() && !has_zones => {
            Some("a drive with zones is expected, such as that of raw@zns")
        }
        Op::Zeroes if has_zones => Some(
            "a drive without zones is expected, such as that of raw@block, because zones are filled \
             by writes and appends alone",
        ),
        _ => None,
    }
}

async fn execute(queue: &QueuePair, request: &Request, who: Who) -> Result<(), IoError> {
    let extent = request.extent;
    match request.op {
        Op::Read => queue.read(extent, &mut (), who).await,
        Op::Write => {
            let content = Content::Nothing;
            let (placement, fua) = (request.placement, request.fua);
            queue.write(extent, content, placement, who, fua).await
        }
        Op::Trim | Op::Zeroes => queue.trim(extent).await,
        Op::Flush => queue.flush().await,
        _ => Err(ZoneStatus::InvalidZoneOperation.into()),
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

/// An append or a command of zones. It goes to the zone of this drive in which its address
/// lies; zones of the drive that was recorded may have been of another size.
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
