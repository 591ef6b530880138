//! A file system on a drive under a workload, as a subject of the explorer of power cuts.
//!
//! Invariant: each start begins with the same media and the same history of the tree on it, so two
//! runs of one subject are equal.

use super::again::use_again;
use super::prepare::{Rest, kept, now, prepare, refused, start};
use super::setup::{Left, Recovery, Setup, can_fail, met};
use super::{Cuts, cache, disorder};
use crate::attached::Attached;
use crate::error::StackError;
use crate::files::{Drive as Threads, Origins, ready};
use crate::hosts::{AnyHost, Host};
use crate::image::DriveImage;
use crate::layer::Kind;
use crash::{Chronicle, Cut, Fault, Scribe, Subject, Verdict, Witness};
use host::Pm;
use sim::{Kernel, Seed, Sim};
use ssd::{Drive, DriveConfig};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use vfs::{CacheConfig, Clock, Compute, Vfs};
use workload::files::{FileWorkload, Source as Calls};

/// Prefix of the paths of files in the snapshot.
const KEPT_AT: &[u8] = b"/kept/";

/// A file system under a file workload.
pub(super) struct Files {
    setup: Setup,
    outside: u64,
    lies: bool,
    skips_fences: bool,
    workload: FileWorkload,
    /// Contents of the drive, with the tree of the workload.
    media: Rest,
    /// History of the tree on the drive.
    past: Chronicle,
    failure: RefCell<Option<StackError>>,
}

/// A run up to its power cut.
pub(super) struct Live {
    sim: Sim,
    device: Attached,
    chronicle: Rc<RefCell<Chronicle>>,
    done: Rc<Cell<bool>>,
}

/// Counts all findings so far for the medium of `drive`, if that can fail.
fn excuse(drive: &DriveConfig, verdict: &mut Verdict) {
    if can_fail(drive) {
        let faults = verdict.faults.iter_mut();
        faults.for_each(|(fault, _)| *fault = Fault::Media);
    }
}

impl Files {
    pub(super) fn new(host: AnyHost, cuts: &Cuts) -> Result<Self, StackError> {
        let mut plan = cuts.plan.clone();
        plan.drive.flash.keep_contents = true;
        host.shape(&mut plan.drive);
        if cuts.snapshot && !host.has_snapshots() {
            let problem = "expected a host that has snapshots: btrfs, btrfs-nocow or hyfim";
            return Err(refused(&plan, problem));
        }
        let workload = FileWorkload::parse(&plan.workload)?;
        let start = start(cuts, &plan)?;
        let cache = cache(cuts.memory);
        let mut made = prepare(&host, &plan, &workload, start, cache)?;
        if cuts.snapshot {
            made = kept(&host, &plan, made.0)?;
        }
        let (media, shown) = made;
        let mut past = Chronicle::default();
        let promises = host.promises();
        past.set_stale(promises.stale);
        past.set_in_order(promises.in_order);
        past.set_alone(promises.alone);
        past.set_torn(promises.torn && plan.drive.zones.is_none());
        past.adopt(&shown);
        Ok(Self {
            setup: Setup {
                host,
                plan,
                cache,
                disorder: disorder(cuts),
            },
            outside: cuts.outside,
            lies: cuts.lies,
            skips_fences: cuts.skips_fences,
            workload,
            media,
            past,
            failure: RefCell::default(),
        })
    }

    /// Runs another workload that begins with the tree of the present one.
    pub(super) fn set_workload(&mut self, workload: FileWorkload) {
        self.workload = workload;
    }

    /// Takes the error that makes the exploration worthless; `None` without one.
    pub(super) fn failure(&self) -> Option<StackError> {
        self.failure.take()
    }

    fn fail(&self, problem: impl std::fmt::Display) {
        let failure = refused(&self.setup.plan, problem);
        self.failure.borrow_mut().get_or_insert(failure);
    }

    /// The image of `drive` that a file system sees.
    fn image<'a>(&self, drive: &'a Drive) -> Result<DriveImage<'a>, String> {
        match Kind::of(&self.setup.plan.stack) {
            None => Ok(DriveImage::new(drive)),
            Some(_) => DriveImage::through_layer(drive).map_err(|error| error.to_string()),
        }
    }

    /// The structural problems of the file system on a drive at rest. They count for the medium if
    /// the check met a block that the medium has lost.
    fn check(&self, drive: &Drive, when: &str) -> Vec<(Fault, String)> {
        let (findings, lost) = match self.image(drive) {
            Ok(image) => (self.setup.host.check(&image), image.has_met_lost()),
            Err(error) => (vec![error], drive.flash_counters().uncorrectable > 0),
        };
        let fault = self.fault(lost);
        let findings = findings.into_iter();
        findings
            .map(|what| (fault, format!("{when}{what}")))
            .collect()
    }

    /// The kind of a finding, which the medium explains if it `lost` something.
    fn fault(&self, lost: bool) -> Fault {
        match lost && can_fail(&self.setup.plan.drive) {
            true => Fault::Media,
            false => Fault::Corrupt,
        }
    }

    /// Uses the recovered file system again, and adds the problems found to `verdict`.
    fn use_again(&self, recovered: Rest, verdict: &mut Verdict) {
        let kernel = Kernel::new();
        let drive = self.setup.ready(&kernel, &recovered.0);
        let (host, sim, cache) = (self.setup.host.clone(), kernel.sim(), self.setup.cache);
        let device = self.setup.attach(&sim, &drive, recovered.1, false);
        let used = device.clone();
        let wrong = kernel.block_on(async move {
            let mounted = match ready(&device, None).await {
                Ok(()) => host.mount(&sim, &device, now()).await,
                Err(error) => Err(error),
            };
            let body = match mounted {
                Ok(body) => body,
                Err(error) => return vec![format!("the second mount fails: {error}")],
            };
            let vfs = Vfs::mount(&sim, body, cache, Clock::default(), Compute::free());
            let mut wrong = use_again(&vfs, KEPT_AT).await;
            let left = vfs.unmount().await.err();
            let fails = |errno| format!("after recovery, the file system fails with {errno}");
            wrong.extend(left.map(fails));
            let closed = device.close().await.err();
            wrong.extend(closed.map(|error| format!("after recovery, the drive reports {error}")));
            wrong
        });
        let losses = used.losses();
        let fault = self.fault(explains_all(&used) || losses.contents() > 0);
        let wrong = wrong.into_iter().map(|what| (fault, what));
        verdict.faults.extend(wrong);
        if explains_all(&used) {
            return;
        }
        let when = "after writes to the recovered file system: ";
        verdict.faults.extend(self.check(&drive, when));
    }

    /// Runs the outside checker on the images before and after recovery.
    fn ask_outside(&self, recovered: &Drive, before: Rest, verdict: &mut Verdict) {
        let kernel = Kernel::new();
        let memory = before.1;
        let before = self.setup.ready(&kernel, &before.0);
        let port = self.setup.attach(&kernel.sim(), &before, memory, false);
        // The host's mapping shows the remains of the cut only once it is mounted.
        let mapped = port.clone();
        let opened = kernel.block_on(async move { mapped.open().await });
        if let Err(error) = opened {
            self.fail(error);
        }
        verdict.outside = true;
        let asked = [
            (recovered, false, "after recovery"),
            (&before, true, "before recovery"),
        ];
        for (drive, recover, when) in asked {
            let (said, lost) = match self.image(drive) {
                Ok(image) => (
                    self.setup.host.ask_outside(&image, recover),
                    image.has_met_lost(),
                ),
                Err(error) => (Ok(Some(error)), drive.flash_counters().uncorrectable > 0),
            };
            match said {
                Ok(None) => {}
                Ok(Some(said)) => {
                    let what = format!("the external checker reports {when}: {said}");
                    let lost = lost || (recover && port.has_unread());
                    verdict.faults.push((self.fault(lost), what));
                }
                Err(error) => self.fail(error),
            }
        }
    }
}

/// Mounts the file system, and runs the workload on it.
async fn work(
    host: AnyHost,
    (sim, device): (Sim, Attached),
    cache: CacheConfig,
    source: Box<dyn Calls>,
    chronicle: Rc<RefCell<Chronicle>>,
) -> Result<(), String> {
    let settles = host.promises().settles;
    let body = host.mount(&sim, &device, now()).await?;
    let body = Witness::new(body, Rc::clone(&chronicle), settles);
    let compute = Compute::of(device.device());
    let vfs = Vfs::mount(&sim, body, cache, Clock::default(), compute);
    vfs.observe(Rc::new(Scribe::new(chronicle)));
    let threads = Threads::start(&sim, &vfs, source, Origins::default(), false);
    threads.finish().await;
    Ok(())
}

impl Subject for Files {
    type Live = Live;
    type Left = Left;
    type Recovering = Recovery;

    fn start(&self, kernel: &Kernel) -> Live {
        let Rest(media, memory) = &self.media;
        let drive = self.setup.ready(kernel, media);
        let port = self
            .setup
            .attach(&kernel.sim(), &drive, memory.clone(), self.lies);
        let port = port.reordering(&kernel.sim(), self.setup.disorder.clone());
        let skipping = port.memory().filter(|_| self.skips_fences);
        skipping.into_iter().for_each(Pm::skip_fences);
        let live = Live {
            sim: kernel.sim(),
            device: port.clone(),
            chronicle: Rc::new(RefCell::new(self.past.clone())),
            done: Rc::default(),
        };
        let source = match self.workload.open(Seed(self.setup.plan.seed)) {
            Ok(source) => source,
            Err(error) => {
                self.fail(error);
                live.done.set(true);
                return live;
            }
        };
        let on = (kernel.sim(), port);
        let (host, done, cache) = (
            self.setup.host.clone(),
            Rc::clone(&live.done),
            self.setup.cache,
        );
        let chronicle = Rc::clone(&live.chronicle);
        kernel.sim().spawn_detached(async move {
            // The first cut finds a failed mount.
            let _ = work(host, on, cache, source, chronicle).await;
            done.set(true);
        });
        live
    }

    fn is_done(&self, live: &Live) -> bool {
        live.done.get()
    }

    fn failed(&self, live: &Live) -> u64 {
        live.chronicle.borrow().failed()
    }

    fn memory(&self, live: &Live) -> u64 {
        live.chronicle.borrow().memory()
    }

    fn cut(&self, live: &Live) -> Left {
        Left::of(&live.sim, &live.device)
    }

    fn meets(&self, live: &Live) -> Vec<&'static str> {
        met(&live.device)
    }

    fn power_on(&self, kernel: &Kernel, left: Left) -> Recovery {
        self.setup.power_on(kernel, left)
    }

    fn judge(&self, live: &Live, recovered: &Recovery, cut: Cut) -> Verdict {
        let mut verdict = Verdict::default();
        let corrupt = |what: String| (Fault::Corrupt, what);
        match &*recovered.shown.borrow() {
            Some(Ok(shown)) => {
                verdict.faults = live.chronicle.borrow().judge(shown);
                verdict.state = Some(shown.digest());
            }
            Some(Err(error)) => verdict.faults.push(corrupt(format!("recovery: {error}"))),
            None => verdict
                .faults
                .push(corrupt("recovery did not end".to_owned())),
        }
        let powered = recovered.device.borrow();
        let Some((device, before)) = &*powered else {
            return verdict;
        };
        let drive = device.device().drive();
        let checked = recovered.checked.get_or_init(|| self.check(drive, ""));
        verdict.faults.extend_from_slice(checked);
        if recovered.left.lost_metadata || recovered.left.unread {
            excuse(&self.setup.plan.drive, &mut verdict);
        }
        if self.outside > 0 && cut.event.is_multiple_of(self.outside) {
            if self.setup.host.has_outside() {
                self.ask_outside(drive, before.clone(), &mut verdict);
            }
            let mut rng = Seed(cut.event).stream("memory");
            let memory = device.memory_at_power_cut(&mut rng);
            self.use_again(Rest(drive.at_power_cut(), memory), &mut verdict);
        }
        if explains_all(device) {
            excuse(&self.setup.plan.drive, &mut verdict);
        }
        verdict
    }
}

/// Whether the medium has failed a read of metadata, or a write, of a recovery.
fn explains_all(device: &Attached) -> bool {
    device.losses().metadata() > 0 || device.losses().writes() > 0 || device.has_unread()
}
