//! A file system whose files get lifetime hints by rules instead of those of their program, as from
//! the preload library on drives without zones.
//!
//! Invariant: files without a matching rule keep the hints of their program; nothing but hints
//! differs from the file system below.
//= dissertation 5.2

use super::{Behaviour, Host, Made, Persistent, Promises, Said, Switch, shimmer};
use crate::attached::Attached;
use crate::files::FILE_SYSTEM;
use crate::image::DriveImage;
use ::shimmer::Options;
use parakeet::rules::RuleSet;
use placed::{Chooser, Placed, Policy};
use sim::Sim;
use ssd::DriveConfig;
use std::sync::Arc;
use vfs::{AnyBody, Timestamp};

/// The switch that puts rules in charge of hints.
pub(super) const SWITCH: Switch = (
    "hints",
    "file lifetimes come from placement rules instead of the program: those of --rules, otherwise \
     RocksDB's",
);

/// A file system `H` whose files get hints by rules.
#[derive(Clone)]
pub struct Directed<H> {
    below: H,
    rules: Arc<RuleSet>,
}

impl<H> Directed<H> {
    /// Wraps `below` with the rules of `behaviour`, or else those for RocksDB.
    pub(super) fn new(below: H, behaviour: &Behaviour) -> Self {
        let usual = || Arc::new(shimmer::ready(shimmer::USUAL));
        Self {
            below,
            rules: behaviour.rules.clone().unwrap_or_else(usual),
        }
    }
}

impl<H: Host> Host for Directed<H> {
    fn promises(&self) -> Promises {
        self.below.promises()
    }

    fn memory(&self) -> Option<Persistent> {
        self.below.memory()
    }

    fn shape(&self, drive: &mut DriveConfig) {
        self.below.shape(drive);
    }

    fn deallocates(&self) -> bool {
        self.below.deallocates()
    }

    async fn format(&self, sim: &Sim, device: &Attached, now: Timestamp) -> Made<()> {
        self.below.format(sim, device, now).await
    }

    async fn mount(&self, sim: &Sim, device: &Attached, now: Timestamp) -> Made<AnyBody> {
        let below = self.below.mount(sim, device, now).await?;
        // Without handles a file gets one of the kernel's lifetime hints, which its file system
        // treats like one of a program.
        let chooser = Chooser::new(&self.rules, Policy::Lifetimes, 0);
        let how = (chooser, Options::default());
        let mounted = Placed::mount(sim, below, None, how, FILE_SYSTEM).await;
        mounted
            .map(AnyBody::from)
            .map_err(|error| error.to_string())
    }

    fn has_snapshots(&self) -> bool {
        self.below.has_snapshots()
    }

    async fn keep(&self, body: &AnyBody, name: &[u8], now: Timestamp) -> Made<()> {
        let placed: &Placed = body.own().ok_or("it has no snapshots")?;
        self.below.keep(placed.below(), name, now).await
    }

    fn check(&self, image: &DriveImage<'_>) -> Vec<String> {
        self.below.check(image)
    }

    fn has_outside(&self) -> bool {
        self.below.has_outside()
    }

    fn ask_outside(&self, image: &DriveImage<'_>, recover: bool) -> Said {
        self.below.ask_outside(image, recover)
    }
}
