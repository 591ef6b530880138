//! A block device: a drive behind queues, link and cores.
//!
//! Invariant: a command waits for its queue, then for each resource at the moment
//! the command arrives there; the host adds no other time.

use crate::byte_device::Posting;
use crate::config::{HostConfig, HostError};
use crate::cores::{Computing, Core};
use crate::ledger::{Ledger, Who};
use crate::link::{Direction, Wire};
use crate::trace::{Traces, Tracing};
use sim::{Semaphore, Sim, Timeline};
use ssd::{Command, Content, Drive, IoError, Sink};
use std::cell::RefCell;
use std::rc::Rc;
use units::{Extent, Ns, Placement};

/// Bytes of a submission queue entry.
//= nvme-2.0 3.3.3.1
const SUBMISSION: u64 = 64;
/// Bytes of a completion queue entry.
//= nvme-2.0 3.3.3.2
const COMPLETION: u64 = 16;
/// Bytes of the descriptor of one range to deallocate; the drive fetches it like data.
pub(crate) const RANGE: u64 = 16;

/// The host's part of the latency of a command on an idle machine, by step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// A core builds the command and rings the doorbell.
    pub submit: Ns,
    /// The doorbell arrives and the controller fetches the command.
    pub fetch: Ns,
    /// The drive fetches the data of a write.
    pub data_to_drive: Ns,
    /// The data of a read and the completion occupy the link.
    pub data_to_host: Ns,
    /// The completion arrives and is noticed.
    pub notice: Ns,
    /// A core takes the completion in.
    pub complete: Ns,
}

impl Parts {
    /// Sum of all parts.
    #[must_use]
    pub fn sum(self) -> Ns {
        let before = self.submit + self.fetch + self.data_to_drive;
        before + self.data_to_host + self.notice + self.complete
    }
}

/// Times of the steps of commands, which the configuration determines.
pub(crate) struct Times {
    pub(crate) submission: Ns,
    pub(crate) fetch: Ns,
    pub(crate) round_trip: Ns,
    /// Time that a completion occupies the link.
    pub(crate) completion: Ns,
    pub(crate) notice: Ns,
    pub(crate) complete: Ns,
    pub(crate) wire: Wire,
}

impl Times {
    fn new(config: &HostConfig) -> Self {
        let Parts {
            submit,
            fetch,
            data_to_host,
            notice,
            complete,
            ..
        } = config.parts(0, 0);
        Self {
            submission: submit,
            fetch,
            round_trip: config.link.round_trip,
            completion: data_to_host,
            notice,
            complete,
            wire: Wire::new(&config.link),
        }
    }
}

/// Busy time of the host's resources so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Busy {
    /// Busy time of the link in the direction of the drive.
    pub to_drive: Ns,
    /// Busy time of the link in the direction of the host.
    pub to_host: Ns,
    /// Busy time of each core.
    pub cores: Vec<Ns>,
}

pub(crate) struct Shared {
    pub(crate) sim: Sim,
    pub(crate) config: HostConfig,
    pub(crate) drive: Drive,
    pub(crate) cores: Vec<Rc<Core>>,
    pub(crate) times: Times,
    pub(crate) queues: Vec<Semaphore>,
    pub(crate) to_drive: Timeline,
    pub(crate) to_host: Timeline,
    pub(crate) ledger: RefCell<Ledger>,
    pub(crate) posting: Posting,
    pub(crate) traces: Traces,
}

/// A drive attached to a host, as the host's block layer sees it. Clones share the drive.
#[derive(Clone)]
pub struct BlockDevice {
    pub(crate) shared: Rc<Shared>,
}

/// One queue pair of a [`BlockDevice`], and the core that serves it.
#[derive(Clone)]
pub struct QueuePair {
    pub(crate) shared: Rc<Shared>,
    pub(crate) queue: usize,
    pub(crate) core: usize,
}

impl BlockDevice {
    /// Attaches `drive` to a host.
    ///
    /// # Errors
    /// If a number of `config` is out of range.
    pub fn new(sim: &Sim, config: HostConfig, drive: Drive) -> Result<Self, HostError> {
        Self::with_posting(sim, config, drive, Posting::default())
    }

    /// Attaches another drive to the host of this one: it has queues and a link of its own, and
    /// shares the cores.
    #[must_use]
    pub fn beside(&self, drive: Drive) -> Self {
        let Shared {
            sim, config, cores, ..
        } = &*self.shared;
        Self::on_cores(sim, *config, cores.clone(), (drive, Posting::default()))
    }

    pub(crate) fn with_posting(
        sim: &Sim,
        config: HostConfig,
        drive: Drive,
        posting: Posting,
    ) -> Result<Self, HostError> {
        let config = config.checked()?;
        let cores = 0..config.cpu.cores;
        let cores = cores.map(|_| Rc::new(Core::new(sim))).collect();
        Ok(Self::on_cores(sim, config, cores, (drive, posting)))
    }

    /// A drive on a link of its own, whose commands run on `cores`. The configuration is checked.
    fn on_cores(
        sim: &Sim,
        config: HostConfig,
        cores: Vec<Rc<Core>>,
        (drive, posting): (Drive, Posting),
    ) -> Self {
        let depth = config.queues.depth as usize;
        let queues = (0..config.queues.pairs).map(|_| Semaphore::new(sim, depth));
        let shared = Shared {
            sim: sim.clone(),
            cores,
            queues: queues.collect(),
            to_drive: Timeline::default(),
            to_host: Timeline::default(),
            ledger: RefCell::default(),
            posting,
            traces: Traces::default(),
            times: Times::new(&config),
            config,
            drive,
        };
        Self {
            shared: Rc::new(shared),
        }
    }

    /// Queue pair `index`, modulo the number of pairs.
    #[must_use]
    pub fn queue(&self, index: usize) -> QueuePair {
        let queue = index % self.shared.queues.len();
        QueuePair {
            core: queue % self.shared.cores.len(),
            shared: Rc::clone(&self.shared),
            queue,
        }
    }

    /// The number of the current task.
    pub(crate) fn current(&self) -> usize {
        self.shared.sim.current().index()
    }

    /// Requests `span` of processor time of core `index`, modulo the number of cores.
    pub fn occupy(&self, index: usize, span: Ns) -> Computing {
        let cores = &self.shared.cores;
        Computing::on(&cores[index % cores.len()], span)
    }

    /// The drive behind the queues and the link.
    #[must_use]
    pub fn drive(&self) -> &Drive {
        &self.shared.drive
    }

    /// The configuration of the host.
    #[must_use]
    pub fn config(&self) -> &HostConfig {
        &self.shared.config
    }

    /// A copy of the ledger: traffic of all successful commands so far.
    #[must_use]
    pub fn ledger(&self) -> Ledger {
        self.shared.ledger.borrow().clone()
    }

    /// Busy time so far, including reservations ahead.
    #[must_use]
    pub fn busy(&self) -> Busy {
        let shared = &self.shared;
        Busy {
            to_drive: shared.to_drive.meter().busy(),
            to_host: shared.to_host.meter().busy(),
            cores: shared.cores.iter().map(|core| core.busy()).collect(),
        }
    }
}

impl HostConfig {
    /// The host's part of the idle latency of a command that moves `to_drive` bytes to
    /// the drive and `to_host` bytes to the host.
    #[must_use]
    pub fn parts(&self, to_drive: u64, to_host: u64) -> Parts {
        let link = self.link;
        let (delay, complete) = self.cpu.reception();
        let data_to_drive = match to_drive {
            0 => Ns::ZERO,
            bytes => link.transfer(bytes, Direction::ToDrive) + link.round_trip,
        };
        Parts {
            submit: self.cpu.submission(),
            fetch: self.fetch(),
            data_to_drive,
            data_to_host: link.transfer(to_host, Direction::ToHost)
                + link.transfer(COMPLETION, Direction::ToHost),
            notice: link.one_way() + delay,
            complete,
        }
    }

    /// Time from the doorbell until the controller has fetched the command.
    fn fetch(&self) -> Ns {
        let entry = self.link.transfer(SUBMISSION, Direction::ToDrive);
        self.link.one_way() + self.link.round_trip + entry
    }
}

impl QueuePair {
    /// Reads `extent` into `sink`.
    ///
    /// # Errors
    /// The error of the drive.
    pub async fn read(
        &self,
        extent: Extent,
        sink: &mut impl Sink,
        who: Who,
    ) -> Result<(), IoError> {
        let tracing = self.arrive(("read", extent, who), 0).await;
        let result = self.shared.drive.read(extent, sink).await;
        let bytes = if result.is_ok() { extent.bytes() } else { 0 };
        self.leave(tracing, bytes, result.is_ok()).await;
        self.booked(result, Command::Read(extent), who)
    }

    /// Writes `content` to `extent`. The write is durable as the drive promises, or on
    /// completion with `fua`.
    ///
    /// # Errors
    /// The error of the drive.
    pub async fn write(
        &self,
        extent: Extent,
        content: Content<'_>,
        placement: Placement,
        who: Who,
        fua: bool,
    ) -> Result<(), IoError> {
        let tracing = self.arrive(("write", extent, who), extent.bytes()).await;
        let drive = &self.shared.drive;
        let result = drive
            .write(extent, content, placement, who.origin, fua)
            .await;
        self.leave(tracing, 0, result.is_ok()).await;
        let command = Command::Write(extent, placement, who.origin, fua);
        self.booked(result, command, who)
    }

    /// Deallocates `extent`.
    ///
    /// # Errors
    /// The error of the drive.
    pub async fn trim(&self, extent: Extent) -> Result<(), IoError> {
        let named = ("trim", extent, Who::default());
        let tracing = self.arrive(named, RANGE).await;
        let result = self.shared.drive.trim(extent).await;
        self.leave(tracing, 0, result.is_ok()).await;
        self.booked(result, Command::Trim(extent), Who::default())
    }

    /// Makes every completed write durable.
    ///
    /// # Errors
    /// The error of the drive.
    pub async fn flush(&self) -> Result<(), IoError> {
        let tracing = self.arrive(control("flush"), 0).await;
        let result = self.shared.drive.flush().await;
        self.leave(tracing, 0, result.is_ok()).await;
        self.booked(result, Command::Flush, Who::default())
    }

    /// Submits a command, which its name, extent and tag tell a trace, with `bytes` of data, up to
    /// its arrival at the drive.
    pub(crate) async fn arrive(
        &self,
        (name, extent, who): (&'static str, Extent, Who),
        bytes: u64,
    ) -> Tracing {
        let mut tracing = self.trace(name, extent, who);
        self.submit(bytes).await;
        tracing.arrive(self.shared.sim.now());
        tracing
    }

    /// Completes a command that the drive has executed, and brings `bytes` of data to the program.
    pub(crate) async fn leave(&self, mut tracing: Tracing, bytes: u64, is_ok: bool) {
        tracing.execute(&self.shared);
        self.complete(bytes).await;
        tracing.end(&self.shared, is_ok);
    }

    fn booked(
        &self,
        result: Result<(), IoError>,
        command: Command,
        who: Who,
    ) -> Result<(), IoError> {
        if result.is_ok() {
            self.count(command, who);
        }
        result
    }
}

/// Name, extent and tag of a command without data of its own.
pub(crate) fn control(name: &'static str) -> (&'static str, Extent, Who) {
    (name, Extent::default(), Who::default())
}
