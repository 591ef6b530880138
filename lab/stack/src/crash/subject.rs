//! A file system on a drive, under a workload, as the explorer wants it.
//!
//! Invariant: each start begins with the same media and the same history of the
//! tree on it, so two runs of one subject are the same run.

use super::again::use_again;
use super::port::Port;
use super::{Cuts, cache};
use crate::error::StackError;
use crate::files::{Drive as Threads, Origins, make_tree};
use crate::plan::Plan;
use crash::{
    Chronicle, Cut, Fault, OutsideError, Recovering, Scribe, Shown, Subject, Verdict, Witness,
};
use host::BlockDevice;
use sim::{Kernel, Seed, Sim};
use ssd::{Drive, DriveMedia};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use vfs::{Body, CacheConfig, Clock, Compute, Vfs};
use workload::files::{FileWorkload, Source};

/// A file system whose power can be cut.
#[allow(async_fn_in_trait, reason = "a simulation is one thread")]
pub(super) trait Host: 'static {
    type Body: Body;

    /// Whether contents that were not forced may show what was there before.
    fn shows_stale(&self) -> bool;

    /// Makes an empty file system.
    async fn format(&self, device: Port) -> Result<(), String>;

    /// Recovers and mounts it.
    async fn mount(&self, sim: Sim, device: Port) -> Result<Self::Body, String>;

    /// What is wrong with the structure on a drive at rest.
    fn check(&self, drive: &Drive) -> Vec<String>;

    /// What somebody else's checker says of it; if it was not recovered, after
    /// that checker has recovered it.
    fn ask_outside(&self, drive: &Drive, recover: bool) -> Result<Option<String>, OutsideError>;
}

/// A file system under a workload.
pub(super) struct Files<H> {
    host: Rc<H>,
    plan: Plan,
    outside: u64,
    cache: CacheConfig,
    lies: bool,
    workload: FileWorkload,
    /// The drive with the tree that the workload needs.
    media: DriveMedia,
    /// What is on it.
    past: Chronicle,
    failure: RefCell<Option<StackError>>,
}

/// A run.
pub(super) struct Live {
    drive: Drive,
    chronicle: Rc<RefCell<Chronicle>>,
    done: Rc<Cell<bool>>,
}

/// A recovery.
pub(super) struct Recovery {
    left: DriveMedia,
    /// The drive, once the firmware has recovered, and what it held then.
    drive: Rc<RefCell<Option<(Drive, DriveMedia)>>>,
    shown: Rc<RefCell<Option<Result<Shown, String>>>>,
}

impl<H: Host> Files<H> {
    pub(super) fn new(host: H, cuts: &Cuts) -> Result<Self, StackError> {
        let mut plan = cuts.plan.clone();
        plan.drive.flash.keep_contents = true;
        let host = Rc::new(host);
        let workload = FileWorkload::parse(&plan.workload)?;
        let media = plan.precondition.media(&plan.drive, Seed(plan.seed));
        let media = media.map_err(|source| StackError::Config {
            drive: plan.drive.name.clone(),
            source,
        })?;
        let cache = cache(cuts.memory);
        let (media, shown) = prepare(&host, &plan, &workload, media, cache)?;
        let mut past = Chronicle::default();
        past.set_stale(host.shows_stale());
        past.adopt(&shown);
        Ok(Self {
            host,
            plan,
            outside: cuts.outside,
            cache,
            lies: cuts.lies,
            workload,
            media,
            past,
            failure: RefCell::default(),
        })
    }

    /// Why the exploration is worth nothing, if it is not.
    pub(super) fn failure(&self) -> Option<StackError> {
        self.failure.take()
    }

    fn fail(&self, problem: impl std::fmt::Display) {
        let failure = refused(&self.plan, problem);
        self.failure.borrow_mut().get_or_insert(failure);
    }

    fn ready(&self, kernel: &Kernel, media: DriveMedia) -> Drive {
        let seed = Seed(self.plan.seed);
        let drive = Drive::ready(&kernel.sim(), &self.plan.drive, media, seed);
        drive.expect("the configuration was built before")
    }

    fn attach(&self, sim: &Sim, drive: &Drive, lies: bool) -> Port {
        let device = BlockDevice::new(sim, self.plan.host, drive.clone());
        let device = device.expect("the host was built before");
        Port { device, lies }
    }

    /// Uses what has recovered again, and looks at what that leaves.
    fn use_again(&self, recovered: DriveMedia, verdict: &mut Verdict) {
        let kernel = Kernel::new();
        let drive = self.ready(&kernel, recovered);
        let (host, sim, cache) = (Rc::clone(&self.host), kernel.sim(), self.cache);
        let device = self.attach(&sim, &drive, false);
        let wrong = kernel.block_on(async move {
            let body = match host.mount(sim.clone(), device).await {
                Ok(body) => body,
                Err(error) => return vec![format!("it does not mount again: {error}")],
            };
            let vfs = Vfs::mount(&sim, body, cache, Clock::default(), Compute::free());
            let mut wrong = use_again(&vfs).await;
            let left = vfs.unmount().await.err();
            wrong.extend(left.map(|errno| format!("in use again, it ends with {errno}")));
            wrong
        });
        let findings = self.host.check(&drive).into_iter();
        let findings = findings.map(|finding| format!("after it was used again: {finding}"));
        let corrupt = wrong.into_iter().chain(findings);
        let corrupt = corrupt.map(|what| (Fault::Corrupt, what));
        verdict.faults.extend(corrupt);
    }

    /// Lets the outside checker look, at the image before recovery and after.
    fn ask_outside(&self, recovered: &Drive, before: DriveMedia, verdict: &mut Verdict) {
        let kernel = Kernel::new();
        let before = self.ready(&kernel, before);
        verdict.outside = true;
        let asked = [
            (recovered, false, "after recovery"),
            (&before, true, "of what the cut left"),
        ];
        for (drive, recover, when) in asked {
            match self.host.ask_outside(drive, recover) {
                Ok(None) => {}
                Ok(Some(said)) => {
                    let what = format!("an outside checker says {when}: {said}");
                    verdict.faults.push((Fault::Corrupt, what));
                }
                Err(error) => self.fail(error),
            }
        }
    }
}

fn refused(plan: &Plan, problem: impl std::fmt::Display) -> StackError {
    StackError::Mount {
        stack: plan.stack.to_string(),
        problem: problem.to_string(),
    }
}

/// Makes the file system and the tree; gives the drive and what is on it.
fn prepare<H: Host>(
    host: &Rc<H>,
    plan: &Plan,
    workload: &FileWorkload,
    media: DriveMedia,
    cache: CacheConfig,
) -> Result<(DriveMedia, Shown), StackError> {
    let kernel = Kernel::new();
    let device = crate::run::attach(plan, media, &kernel)?;
    let drive = device.drive().clone();
    let lies = false;
    let device = Port { device, lies };
    let source = workload.open(Seed(plan.seed))?;
    let (host, sim, plan) = (Rc::clone(host), kernel.sim(), plan.clone());
    kernel.block_on(async move {
        let at = |problem: String| refused(&plan, problem);
        host.format(device.clone()).await.map_err(at)?;
        let body = host.mount(sim.clone(), device.clone()).await.map_err(at)?;
        let vfs = Vfs::mount(&sim, body, cache, Clock::default(), Compute::free());
        let mut origins = Origins::default();
        make_tree(&vfs, source.setup(), source.names(), &mut origins).await?;
        let shown = Shown::read(vfs.body()).await;
        let shown = shown.map_err(|errno| at(errno.to_string()))?;
        let left = vfs.unmount().await;
        left.map_err(|errno| at(errno.to_string()))?;
        Ok((drive.shutdown().await, shown))
    })
}

/// Mounts the file system and runs the workload on it.
async fn work<H: Host>(
    host: Rc<H>,
    (sim, device): (Sim, Port),
    cache: CacheConfig,
    source: Box<dyn Source>,
    chronicle: Rc<RefCell<Chronicle>>,
) -> Result<(), String> {
    let body = host.mount(sim.clone(), device.clone()).await?;
    let body = Witness::new(body, Rc::clone(&chronicle));
    let compute = Compute::of(&device.device);
    let vfs = Vfs::mount(&sim, body, cache, Clock::default(), compute);
    vfs.observe(Rc::new(Scribe::new(chronicle)));
    let threads = Threads::start(&sim, &vfs, source, Origins::default(), false);
    threads.finish().await;
    Ok(())
}

/// Powers on, recovers, mounts, reads all there is and unmounts.
async fn recover<H: Host>(host: Rc<H>, sim: Sim, device: Port) -> Result<Shown, String> {
    let body = host.mount(sim, device.clone()).await?;
    let shown = Shown::read(&body).await.map_err(|e| e.to_string())?;
    body.unmount().await.map_err(|e| e.to_string())?;
    Ok(shown)
}

impl<H: Host> Subject for Files<H> {
    type Live = Live;
    type Left = DriveMedia;
    type Recovering = Recovery;

    fn start(&self, kernel: &Kernel) -> Live {
        let drive = self.ready(kernel, self.media.clone());
        let live = Live {
            drive: drive.clone(),
            chronicle: Rc::new(RefCell::new(self.past.clone())),
            done: Rc::default(),
        };
        let source = match self.workload.open(Seed(self.plan.seed)) {
            Ok(source) => source,
            Err(error) => {
                self.fail(error);
                live.done.set(true);
                return live;
            }
        };
        let on = (kernel.sim(), self.attach(&kernel.sim(), &drive, self.lies));
        let (host, done, cache) = (Rc::clone(&self.host), Rc::clone(&live.done), self.cache);
        let chronicle = Rc::clone(&live.chronicle);
        kernel.sim().spawn_detached(async move {
            // What did not mount is found by the first cut.
            let _ = work(host, on, cache, source, chronicle).await;
            done.set(true);
        });
        live
    }

    fn is_done(&self, live: &Live) -> bool {
        live.done.get()
    }

    fn cut(&self, live: &Live) -> DriveMedia {
        live.drive.at_power_cut()
    }

    fn power_on(&self, kernel: &Kernel, left: DriveMedia) -> Recovery {
        let recovery = Recovery {
            left: left.clone(),
            drive: Rc::default(),
            shown: Rc::default(),
        };
        let (sim, config, host_config) = (kernel.sim(), self.plan.drive.clone(), self.plan.host);
        let (host, seed) = (Rc::clone(&self.host), Seed(self.plan.seed));
        let (powered, shown) = (Rc::clone(&recovery.drive), Rc::clone(&recovery.shown));
        kernel.sim().spawn_detached(async move {
            let drive = Drive::power_on(&sim, &config, left, seed).await;
            let drive = drive.expect("the configuration was built before");
            let device = BlockDevice::new(&sim, host_config, drive.clone());
            let device = device.expect("the host was built before");
            let lies = false;
            let device = Port { device, lies };
            *powered.borrow_mut() = Some((drive.clone(), drive.at_power_cut()));
            let outcome = recover(host, sim, device).await;
            *shown.borrow_mut() = Some(outcome);
        });
        recovery
    }

    fn judge(&self, live: &Live, recovered: Recovery, cut: Cut) -> Verdict {
        let mut verdict = Verdict::default();
        let corrupt = |what: String| (Fault::Corrupt, what);
        match recovered.shown.take() {
            Some(Ok(shown)) => verdict.faults = live.chronicle.borrow().judge(&shown),
            Some(Err(error)) => verdict.faults.push(corrupt(format!("recovery: {error}"))),
            None => verdict
                .faults
                .push(corrupt("recovery did not end".to_owned())),
        }
        let Some((drive, before)) = recovered.drive.take() else {
            return verdict;
        };
        let findings = self.host.check(&drive).into_iter().map(corrupt);
        verdict.faults.extend(findings);
        if self.outside > 0 && cut.event.is_multiple_of(self.outside) {
            self.ask_outside(&drive, before, &mut verdict);
            self.use_again(drive.at_power_cut(), &mut verdict);
        }
        verdict
    }
}

impl Recovering for Recovery {
    type Left = DriveMedia;

    fn is_done(&self) -> bool {
        self.shown.borrow().is_some()
    }

    fn cut(&self) -> DriveMedia {
        match &*self.drive.borrow() {
            // The firmware writes nothing before it is up.
            None => self.left.clone(),
            Some((drive, _)) => drive.at_power_cut(),
        }
    }
}
