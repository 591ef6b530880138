//! A file system on a drive whose power is cut: how it is powered, and what recovers.
//!
//! Invariant: equal remains of a power cut recover to equal states.

use super::prepare::{Rest, now};
use crate::attached::Attached;
use crate::files::ready;
use crate::hosts::{AnyHost, Host, Memory};
use crate::plan::Plan;
use crash::{Fault, Recovering, Shown};
use host::{BlockDevice, Posted};
use sim::{Kernel, Rng, Seed, Sim};
use ssd::{Drive, DriveConfig, DriveMedia};
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use vfs::{Body, CacheConfig};

/// Remains of a power cut: the drive's contents, the in-flight cache lines that arrived, and the
/// persistent memory.
#[derive(Clone, PartialEq)]
pub(super) struct Left {
    pub(super) media: DriveMedia,
    pub(super) memory: Memory,
    pub(super) arrived: Vec<Posted>,
    /// Whether the medium has failed a read of metadata before the cut.
    pub(super) lost_metadata: bool,
    /// Whether a mapping that was mounted before the cut may lack versions.
    pub(super) unread: bool,
}

impl Left {
    pub(super) fn of(sim: &Sim, port: &Attached) -> Self {
        let device = port.device();
        let mut rng = Seed(sim.events()).stream("arriving");
        Self {
            arrived: device.arriving(&mut rng),
            memory: port.memory_at_power_cut(&mut rng),
            media: device.drive().at_power_cut(),
            lost_metadata: port.losses().metadata() > 0,
            unread: port.has_unread(),
        }
    }
}

/// Whether the flash of `drive` is one that loses data or runs out of good blocks. Without that no
/// finding is the medium's.
pub(super) const fn can_fail(drive: &DriveConfig) -> bool {
    let faults = drive.faults;
    let rates = faults.factory_bad_blocks as u64
        + faults.program_failures as u64
        + faults.erase_failures as u64
        + faults.read_retries as u64;
    rates > 0 || faults.wear_out
}

/// A file system, its drive and its page cache.
#[derive(Clone)]
pub(super) struct Setup {
    pub(super) host: AnyHost,
    pub(super) plan: Plan,
    pub(super) cache: CacheConfig,
    /// Choices of a volatile cache in front of the drive; none without one.
    pub(super) disorder: Option<Rng>,
}

impl Setup {
    /// The drive with the contents `media`, at rest until now.
    pub(super) fn ready(&self, kernel: &Kernel, media: &DriveMedia) -> Drive {
        let seed = Seed(self.plan.seed);
        let drive = Drive::ready(&kernel.sim(), &self.plan.drive, media.clone(), seed);
        let drive = drive.expect("the configuration was built before");
        drive.follow(self.plan.policies.clone());
        drive
    }

    /// The host's port of `drive`.
    pub(super) fn attach(&self, sim: &Sim, drive: &Drive, memory: Memory, lies: bool) -> Attached {
        let device = BlockDevice::new(sim, self.plan.host, drive.clone());
        let device = device.expect("the host was built before");
        let memory = (self.host.memory(), memory);
        let port = Attached::of(sim, &device, &self.plan.stack, memory);
        port.expect("there was place for it before").lying(lies)
    }

    /// Powers the drive on from the remains of a cut, and recovers.
    pub(super) fn power_on(&self, kernel: &Kernel, left: Left) -> Recovery {
        let recovery = Recovery {
            sim: kernel.sim(),
            left: left.clone(),
            device: Rc::default(),
            shown: Rc::default(),
            checked: OnceCell::new(),
        };
        let (sim, config, host_config) = (kernel.sim(), self.plan.drive.clone(), self.plan.host);
        let (host, seed) = (self.host.clone(), Seed(self.plan.seed));
        let (stack, policies) = (self.plan.stack.clone(), self.plan.policies.clone());
        let (powered, shown) = (Rc::clone(&recovery.device), Rc::clone(&recovery.shown));
        let disorder = self.disorder.clone();
        let fails = can_fail(&self.plan.drive);
        kernel.sim().spawn_detached(async move {
            let drive = Drive::power_on(&sim, &config, left.media, seed).await;
            let drive = drive.expect("the configuration was built before");
            drive.follow(policies);
            let before = Rest(drive.at_power_cut(), left.memory.clone());
            let device = BlockDevice::after_cut(&sim, host_config, drive, left.arrived);
            let device = device.expect("the host was built before");
            let memory = (host.memory(), left.memory);
            let device = Attached::of(&sim, &device, &stack, memory);
            let device = device.expect("there was place for it before");
            let device = device.reordering(&sim, disorder);
            *powered.borrow_mut() = Some((device.clone(), before));
            let outcome = recover(host, (sim, device), fails).await;
            *shown.borrow_mut() = Some(outcome);
        });
        recovery
    }
}

/// A recovery after a power cut.
pub(super) struct Recovery {
    sim: Sim,
    pub(super) left: Left,
    /// The drive, once its firmware has recovered, and its contents at that time.
    pub(super) device: Rc<RefCell<Option<(Attached, Rest)>>>,
    pub(super) shown: Rc<RefCell<Option<Result<Shown, String>>>>,
    /// Structural problems of the recovered file system, once they were looked for.
    pub(super) checked: OnceCell<Vec<(Fault, String)>>,
}

/// States of the drive and of all that is above it that a power cut could hit now.
pub(super) fn met(port: &Attached) -> Vec<&'static str> {
    let device = port.device();
    let log = device.drive().log_state().unwrap_or_default();
    let layer = port.layer().map(remap::Remap::metrics).unwrap_or_default();
    let all = [
        (
            "a drive that has become read-only",
            device.drive().is_read_only(),
        ),
        ("stores on their way", device.has_posted()),
        ("lines of open transactions", log.open_lines > 0),
        ("commits in the log", log.commits > 0),
        ("a cleaning under way", log.is_cleaned),
        ("a store that waits for a full log", log.stores_wait),
        ("a commit that waits for a full log", log.commits_wait),
        ("a recovery of the log under way", log.is_unrecovered),
        ("stores to persistent memory", port.has_unflushed()),
        (
            "a layer that has cleaned",
            layer.passes + layer.foreground_passes > 0,
        ),
        ("a layer with a checkpoint", layer.checkpoints > 0),
        ("a layer that dropped tables", layer.tables_dropped > 0),
    ];
    let all = all.into_iter().chain(port.meets());
    let met = all.filter(|(_, is_met)| *is_met);
    met.map(|(what, _)| what).collect()
}

/// Recovers the drive, mounts the file system, reads all files, and unmounts.
/// On a drive that `fails` pages of contents may be missing.
async fn recover(
    host: AnyHost,
    (sim, device): (Sim, Attached),
    fails: bool,
) -> Result<Shown, String> {
    if let Err(error) = ready(&device, None).await {
        device.losses().found(device.is_failing());
        return Err(error);
    }
    let body = host.mount(&sim, &device, now()).await?;
    let shown = match fails {
        true => Shown::read_despite(&body, &|| device.losses().contents()).await,
        false => Shown::read(&body).await,
    };
    let shown = shown.map_err(|e| e.to_string())?;
    body.unmount().await.map_err(|e| e.to_string())?;
    device.empty_cache().await.map_err(|e| e.to_string())?;
    Ok(shown)
}

impl Recovering for Recovery {
    type Left = Left;

    fn is_done(&self) -> bool {
        self.shown.borrow().is_some()
    }

    fn meets(&self) -> Vec<&'static str> {
        let device = self.device.borrow();
        device.iter().flat_map(|(device, _)| met(device)).collect()
    }

    fn cut(&self) -> Left {
        match &*self.device.borrow() {
            // Before its firmware is up, the drive writes nothing.
            None => self.left.clone(),
            Some((device, _)) => {
                let mut left = Left::of(&self.sim, device);
                left.lost_metadata |= self.left.lost_metadata;
                left.unread |= self.left.unread;
                left
            }
        }
    }
}
