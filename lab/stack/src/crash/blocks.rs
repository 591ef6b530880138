//! Block requests on a drive, or on a layer above it, as a subject of the explorer of power cuts.
//!
//! Invariants: each start begins with the same media, so two runs of one subject are equal.
//! Requests are issued as soon as earlier ones complete. They are widened to whole units of 4 KiB,
//! since units are judged; overlapping ones are serialized.

use super::prepare::refused;
use super::setup::{Left, can_fail, met};
use super::{Cuts, disorder};
use crate::attached::Attached;
use crate::error::StackError;
use crate::files::ready;
use crate::hosts::Memory;
use crate::losses::is_of_medium;
use crate::plan::Plan;
use crate::replay::lacks;
use crate::run;
use crash::{Contents, Cut, Fault, Recovering, Subject, Units, Verdict};
use host::{BlockDevice, BlockPort, Who};
use nand::{Payload, UNIT};
use sim::{Kernel, Rng, Seed, Signal, Sim};
use ssd::{Content, Drive, DriveMedia, IoError};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use units::{Extent, Placement, SECTOR};
use workload::{Op, Pacing, Request, Stream, Workload};

/// Sectors of one unit.
const SECTORS: u64 = UNIT as u64 / SECTOR;
/// Units of one read: 1 MiB.
const READ: u64 = 256;
/// Requests in flight, if the workload does not set them.
const DEPTH: u32 = 8;

/// A drive under block requests.
pub(super) struct Blocks {
    plan: Plan,
    lies: bool,
    /// Choices of a volatile cache in front of the drive; none without one.
    disorder: Option<Rng>,
    workload: Workload,
    /// Contents of the preconditioned drive.
    media: DriveMedia,
    units: usize,
    failure: Rc<RefCell<Option<StackError>>>,
}

/// The state that the tasks of a run share.
struct Work {
    sim: Sim,
    port: Attached,
    stream: RefCell<Stream>,
    past: RefCell<Units>,
    /// Units of the requests in flight.
    busy: RefCell<Vec<Range<usize>>>,
    idle: Signal,
    /// Number of requests so far, and number of running tasks.
    number: Cell<u64>,
    tasks: Cell<u32>,
    /// Requests that the medium has failed, if it is one that fails.
    lost: Cell<u64>,
    fails: bool,
    /// Error that ends the exploration.
    failed: RefCell<Option<String>>,
}

/// A run; `None` if it could not start.
pub(super) struct Live(Option<Rc<Work>>);

/// The contents of each unit after a recovery.
type Shown = Result<Vec<Contents>, String>;

/// A recovery after a power cut.
pub(super) struct Recovery {
    sim: Sim,
    left: Left,
    device: Rc<RefCell<Option<Attached>>>,
    shown: Rc<RefCell<Option<Shown>>>,
}

impl Blocks {
    pub(super) fn new(cuts: &Cuts) -> Result<Self, StackError> {
        let mut plan = run::fitted(&cuts.plan).into_owned();
        plan.drive.flash.keep_contents = true;
        let workload = Workload::parse(&plan.workload)?;
        let media = plan.precondition.media(&plan.drive, Seed(plan.seed));
        let media = media.map_err(|source| StackError::Config {
            drive: plan.drive.name.clone(),
            source,
        })?;
        let kernel = Kernel::new();
        let device = run::attach(&plan, media, &kernel)?;
        let port = Attached::of(&kernel.sim(), &device, &plan.stack, Memory::NONE)?;
        workload.open(port.capacity(), Seed(plan.seed))?;
        run::open(&kernel, &plan, &port)?;
        let closed = run::close(&kernel, &port)?;
        closed.map_err(|error| refused(&plan, error))?;
        Ok(Self {
            units: (port.capacity().0 / UNIT as u64) as usize,
            media: run::write_out(&kernel, device.drive()),
            lies: cuts.lies,
            disorder: disorder(cuts),
            workload,
            plan,
            failure: Rc::default(),
        })
    }

    /// Takes the error that makes the exploration worthless; `None` without one.
    pub(super) fn failure(&self) -> Option<StackError> {
        self.failure.take()
    }

    fn fail(&self, problem: impl std::fmt::Display) {
        let failure = refused(&self.plan, problem);
        self.failure.borrow_mut().get_or_insert(failure);
    }

    fn work(&self, kernel: &Kernel) -> Result<Rc<Work>, StackError> {
        let device = run::attach(&self.plan, self.media.clone(), kernel)?;
        let sim = kernel.sim();
        let port = Attached::of(&sim, &device, &self.plan.stack, Memory::NONE)?;
        let stream = self.workload.open(port.capacity(), Seed(self.plan.seed))?;
        Ok(Rc::new(Work {
            sim: sim.clone(),
            port: port
                .lying(self.lies)
                .reordering(&sim, self.disorder.clone()),
            stream: RefCell::new(stream),
            past: RefCell::new(Units::new(self.units)),
            busy: RefCell::default(),
            idle: Signal::default(),
            number: Cell::new(0),
            tasks: Cell::new(0),
            lost: Cell::new(0),
            fails: can_fail(&self.plan.drive),
            failed: RefCell::default(),
        }))
    }
}

/// The units that `extent` touches.
const fn units(extent: Extent) -> Range<usize> {
    let (start, end) = (extent.start.0, extent.start.0 + extent.sectors as u64);
    (start / SECTORS) as usize..end.div_ceil(SECTORS) as usize
}

impl Work {
    /// Waits until no request in flight overlaps `wanted`, and claims it.
    async fn enter(&self, wanted: &Range<usize>) {
        let overlaps = |busy: &Range<usize>| busy.start < wanted.end && wanted.start < busy.end;
        while self.busy.borrow().iter().any(overlaps) {
            self.idle.wait(&self.sim).await;
        }
        self.busy.borrow_mut().push(wanted.clone());
    }

    fn leave(&self, taken: &Range<usize>) {
        self.busy.borrow_mut().retain(|busy| busy != taken);
        self.idle.notify(&self.sim);
    }

    async fn task(self: Rc<Self>) {
        loop {
            let next = self.stream.borrow_mut().next();
            let Some(request) = next else {
                break;
            };
            let request = match request.map_err(StackError::from).and_then(|r| self.able(r)) {
                Ok(request) => request,
                Err(error) => {
                    let mut failed = self.failed.borrow_mut();
                    failed.get_or_insert_with(|| error.to_string());
                    break;
                }
            };
            match self.serve(&request).await {
                Ok(()) => {}
                Err(error) if self.fails && is_of_medium(error) => {
                    self.lost.set(self.lost.get() + 1);
                }
                Err(error) => {
                    let mut failed = self.failed.borrow_mut();
                    failed.get_or_insert_with(|| error.to_string());
                }
            }
        }
        self.tasks.set(self.tasks.get() - 1);
    }

    /// Rejects a `request` that the drive has no command for, or that cannot be judged.
    fn able(&self, request: Request) -> Result<Request, StackError> {
        let has_zones = self.port.device().drive().zones().is_some();
        let unjudged = || {
            let needed = "expected a run without power cuts, because units are checked by the \
                addresses of the requests";
            request.op.needs_zones().then_some(needed)
        };
        match lacks(request.op, has_zones).or_else(unjudged) {
            None => Ok(request),
            Some(needed) => Err(StackError::Command {
                number: self.number.get() + 1,
                op: request.op.name(),
                needed,
            }),
        }
    }

    async fn serve(&self, request: &Request) -> Result<(), IoError> {
        let who = Who {
            origin: request.origin,
            ..Who::default()
        };
        let wanted = units(request.extent);
        let sectors = wanted.len() as u64 * SECTORS;
        let extent = Extent::new(wanted.start as u64 * SECTORS, sectors as u32);
        let number = self.number.get() + 1;
        self.number.set(number);
        let past = &self.past;
        match request.op {
            Op::Flush => {
                let answered = past.borrow().answered();
                self.port.flush().await?;
                past.borrow_mut().flushed(&answered);
            }
            Op::Read => self.port.read(extent, &mut (), who).await?,
            _ => {
                self.enter(&wanted).await;
                let done = self.change(request, extent, (number, who)).await;
                self.leave(&wanted);
                done?;
            }
        }
        Ok(())
    }

    async fn change(
        &self,
        request: &Request,
        extent: Extent,
        (pattern, who): (u64, Who),
    ) -> Result<(), IoError> {
        let wanted = units(extent);
        if request.op != Op::Write {
            self.past.borrow_mut().begin(wanted.clone(), 0);
            self.port.trim(extent).await?;
            self.past.borrow_mut().end(wanted, false);
            return Ok(());
        }
        self.past.borrow_mut().begin(wanted.clone(), pattern);
        let content = Content::Fill(pattern);
        let write = self
            .port
            .write(extent, content, Placement(0), who, request.fua);
        write.await?;
        self.past.borrow_mut().end(wanted, request.fua);
        Ok(())
    }
}

/// Opens the recovered drive, and reads all of it. On a drive that `fails` units may be lost.
async fn recover(port: &Attached, fails: bool) -> Shown {
    ready(port, None).await?;
    if let Some(layer) = port.layer() {
        layer.check()?;
    }
    let units = port.capacity().0 / UNIT as u64;
    let mut shown = Vec::with_capacity(units as usize);
    for first in (0..units).step_by(READ as usize) {
        let count = READ.min(units - first);
        match read(port, first, count).await {
            Ok(contents) => shown.extend(contents),
            Err(error) if fails && is_of_medium(error) => {
                for unit in first..first + count {
                    let one = read(port, unit, 1).await;
                    shown.push(one.map_or(Contents::Lost, |contents| contents[0]));
                }
            }
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(shown)
}

/// Reads `count` units from `first` on.
async fn read(port: &Attached, first: u64, count: u64) -> Result<Vec<Contents>, IoError> {
    let mut payloads = vec![Payload::Zero; count as usize];
    let extent = Extent::new(first * SECTORS, (count * SECTORS) as u32);
    let mut sink = payloads.as_mut_slice();
    port.read(extent, &mut sink, Who::default()).await?;
    Ok(payloads.iter().map(contents).collect())
}

fn contents(payload: &Payload) -> Contents {
    let mut bytes = [0; UNIT];
    if !payload.copy_to(0, &mut bytes) {
        return Contents::Mixed;
    }
    let words = bytes.as_chunks().0;
    match words.iter().all(|word| *word == words[0]) {
        true => Contents::Pattern(u64::from_le_bytes(words[0])),
        false => Contents::Mixed,
    }
}

impl Subject for Blocks {
    type Live = Live;
    type Left = Left;
    type Recovering = Recovery;

    fn start(&self, kernel: &Kernel) -> Live {
        let work = match self.work(kernel) {
            Ok(work) => work,
            Err(error) => {
                self.fail(error);
                return Live(None);
            }
        };
        let depth = match self.workload.pacing {
            Pacing::Closed { depth, .. } => depth,
            Pacing::Open | Pacing::Threads => DEPTH,
        };
        work.tasks.set(depth.max(1));
        for _ in 0..work.tasks.get() {
            kernel.sim().spawn_detached(Rc::clone(&work).task());
        }
        Live(Some(work))
    }

    fn is_done(&self, live: &Live) -> bool {
        let Some(work) = &live.0 else { return true };
        if let Some(error) = work.failed.take() {
            self.fail(error);
        }
        work.tasks.get() == 0
    }

    fn failed(&self, live: &Live) -> u64 {
        live.0.as_ref().map_or(0, |work| work.lost.get())
    }

    fn memory(&self, live: &Live) -> u64 {
        let work = live.0.as_ref();
        work.map_or(0, |work| work.past.borrow().memory())
    }

    fn cut(&self, live: &Live) -> Left {
        match &live.0 {
            Some(work) => Left::of(&work.sim, &work.port),
            None => Left {
                memory: Memory::Blank,
                media: self.media.clone(),
                arrived: Vec::new(),
                lost_metadata: false,
                unread: false,
            },
        }
    }

    fn meets(&self, live: &Live) -> Vec<&'static str> {
        let work = live.0.as_ref();
        work.map_or_else(Vec::new, |work| met(&work.port))
    }

    fn power_on(&self, kernel: &Kernel, left: Left) -> Recovery {
        let recovery = Recovery {
            sim: kernel.sim(),
            left: left.clone(),
            device: Rc::default(),
            shown: Rc::default(),
        };
        let (sim, plan) = (kernel.sim(), self.plan.clone());
        let disorder = self.disorder.clone();
        let (powered, shown) = (Rc::clone(&recovery.device), Rc::clone(&recovery.shown));
        kernel.sim().spawn_detached(async move {
            let drive = Drive::power_on(&sim, &plan.drive, left.media, Seed(plan.seed)).await;
            let drive = drive.expect("the configuration was built before");
            drive.follow(plan.policies.clone());
            let device = BlockDevice::after_cut(&sim, plan.host, drive, left.arrived);
            let device = device.expect("the host was built before");
            let port = Attached::of(&sim, &device, &plan.stack, Memory::NONE);
            let port = port.expect("there was place for it before");
            let port = port.reordering(&sim, disorder);
            *powered.borrow_mut() = Some(port.clone());
            let outcome = recover(&port, can_fail(&plan.drive)).await;
            *shown.borrow_mut() = Some(outcome);
        });
        recovery
    }

    fn judge(&self, live: &Live, recovered: &Recovery, _: Cut) -> Verdict {
        let device = recovered.device.borrow();
        let device = device.as_ref();
        let lost = device.is_some_and(Attached::is_failing);
        let unread = recovered.left.unread || device.is_some_and(Attached::has_unread);
        // Units that were lost are told one by one, so a failed recovery is one of the layer.
        let fault = match lost && can_fail(&self.plan.drive) {
            true => Fault::Media,
            false => Fault::Corrupt,
        };
        let faults = match (&*recovered.shown.borrow(), &live.0) {
            (Some(Ok(shown)), Some(work)) => work.past.borrow().judge(shown),
            (Some(Err(error)), _) => vec![(fault, format!("recovery: {error}"))],
            _ => vec![(Fault::Corrupt, "recovery did not end".to_owned())],
        };
        // The mapping shows the previous version of a block that it could not read.
        let excused = |(fault, what)| match fault {
            Fault::Lost if unread && can_fail(&self.plan.drive) => (Fault::Media, what),
            fault => (fault, what),
        };
        Verdict {
            faults: faults.into_iter().map(excused).collect(),
            ..Verdict::default()
        }
    }
}

impl Recovering for Recovery {
    type Left = Left;

    fn is_done(&self) -> bool {
        self.shown.borrow().is_some()
    }

    fn meets(&self) -> Vec<&'static str> {
        let device = self.device.borrow();
        device.as_ref().map_or_else(Vec::new, met)
    }

    fn cut(&self) -> Left {
        match &*self.device.borrow() {
            // Before its firmware is up, the drive writes nothing.
            None => self.left.clone(),
            Some(device) => Left::of(&self.sim, device),
        }
    }
}
