//! Small drives, and a model of the promises of a drive.

use nand::{Geometry, Payload};
use sim::{Kernel, Seed, Sim};
use ssd::{Content, Drive, DriveConfig, DriveMedia, Interface, Preset, image};
use std::cell::RefCell;
use std::rc::Rc;
use units::{Bytes, Extent, Origin, Placement};

/// A drive of 24 lines of 64 pages, so that all states occur within a few thousand events.
pub(crate) fn tiny(protected: bool) -> DriveConfig {
    let mut config = (Preset::named("block").expect("a preset").config)();
    config.geometry = Geometry {
        channels: 2,
        chips_per_channel: 1,
        dies_per_chip: 1,
        planes: 2,
        blocks_per_plane: 26,
        pages_per_block: 8,
        page_bytes: 8192,
        spare_bytes: 64,
        pages_per_program: 1,
        spare_words: 1,
    };
    config.flash.part = "z-nand".to_owned();
    config.flash.keep_contents = true;
    config.flash.suspend_limit = 2;
    config.capacity = Bytes(1000 * 4096);
    config.controller.write_buffer = Bytes(24 * 4096);
    config.controller.power_loss_protection = protected;
    config.wear.spare_blocks = 2;
    config
}

/// The flash of [`tiny`] with handles and reclaim groups.
pub(crate) fn tiny_fdp(protected: bool) -> DriveConfig {
    let mut config = tiny(protected);
    config.interface = Interface::Fdp;
    config.placement.handles = 2;
    config.placement.reclaim_groups = 2;
    config.placement.persistently_isolated = true;
    config.placement.spare = ssd::SpareSplit::ByDemand;
    // Two groups of one die, with lines of half the size.
    config.geometry.blocks_per_plane = 32;
    config.capacity = Bytes(700 * 4096);
    config
}

/// [`tiny_fdp()`] as one group that separates relocated data into hot and cold, not by handle.
pub(crate) fn tiny_mixed(protected: bool) -> DriveConfig {
    let mut config = tiny_fdp(protected);
    config.placement.persistently_isolated = false;
    config.placement.reclaim_groups = 1;
    config
}

/// Versions of one page, in order. Version 0 is "never written".
#[derive(Clone, Debug)]
struct History {
    /// Whether version v holds data; version 0 and deallocations do not.
    holds: Vec<bool>,
    /// Newest version whose acknowledgement has arrived.
    acknowledged: usize,
    /// Newest version that must survive.
    promised: usize,
}

/// Contents that a drive may return after a power cut. Each page is written by one worker only, so
/// its versions are in order.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pages: Vec<History>,
    protected: bool,
}

impl Model {
    pub(crate) fn new(config: &DriveConfig) -> Self {
        let history = History {
            holds: vec![false],
            acknowledged: 0,
            promised: 0,
        };
        Self {
            pages: vec![history; (config.capacity.0 / 4096) as usize],
            protected: config.controller.power_loss_protection,
        }
    }

    /// Adds a new version of `page`, and returns its number.
    fn ask(&mut self, page: usize, data: bool) -> usize {
        self.pages[page].holds.push(data);
        self.pages[page].holds.len() - 1
    }

    fn acknowledge(&mut self, page: usize, version: usize, durable: bool) {
        let history = &mut self.pages[page];
        history.acknowledged = version;
        if durable || self.protected {
            history.promised = version;
        }
    }

    fn acknowledged(&self) -> Vec<usize> {
        self.pages.iter().map(|page| page.acknowledged).collect()
    }

    /// Records a flush: the versions in `before`, acknowledged when it was sent, must survive from
    /// now on.
    fn flushed(&mut self, before: &[usize]) {
        for (page, &version) in self.pages.iter_mut().zip(before) {
            page.promised = page.promised.max(version);
        }
    }

    /// Panics unless every page of `drive` reads as an allowed version.
    pub(crate) fn check(&self, drive: &Drive, context: &str) {
        for (page, history) in self.pages.iter().enumerate() {
            let read = drive.peek(page as u32);
            let newest = history.holds.len() - 1;
            match read.as_deref() {
                None | Some([Payload::Zero]) => {
                    let empty = (history.promised..=newest).any(|v| !history.holds[v]);
                    assert!(empty, "{context}: page {page} is lost; {history:?}");
                }
                Some([Payload::Fill(tag)]) => {
                    let version = (*tag & 0xffff_ffff) as usize;
                    assert_eq!(tag >> 32, page as u64, "{context}: another page's data");
                    assert!(
                        (history.promised..=newest).contains(&version) && history.holds[version],
                        "{context}: page {page} reads as version {version}; {history:?}"
                    );
                }
                other => panic!("{context}: page {page} reads as {other:?}"),
            }
        }
    }
}

/// Parameters of the random workload.
#[derive(Clone, Copy)]
pub(crate) struct Mix {
    pub(crate) workers: usize,
    pub(crate) ops: usize,
    /// Number of pages that the workload uses, from the first.
    pub(crate) span: usize,
    pub(crate) trims_percent: u64,
    pub(crate) flushes_percent: u64,
    pub(crate) placements: u64,
}

/// Starts random writes, deallocations and flushes, and records them in `model`.
pub(crate) fn start(sim: &Sim, drive: &Drive, model: &Rc<RefCell<Model>>, mix: Mix, seed: u64) {
    for worker in 0..mix.workers {
        let (drive, model) = (drive.clone(), Rc::clone(model));
        let mut rng = Seed(seed).stream(&format!("worker {worker}"));
        sim.spawn_detached(async move {
            for _ in 0..mix.ops {
                let draw = rng.below(100);
                let slot = rng.below((mix.span / mix.workers) as u64) as usize;
                let page = slot * mix.workers + worker;
                if draw < mix.trims_percent {
                    trim(&drive, &model, page).await;
                } else if draw < mix.trims_percent + mix.flushes_percent {
                    let before = model.borrow().acknowledged();
                    drive.flush().await.expect("no block fails");
                    model.borrow_mut().flushed(&before);
                } else {
                    let placement = Placement(rng.below(mix.placements) as u16);
                    write(&drive, &model, page, placement).await;
                }
            }
        });
    }
}

async fn write(drive: &Drive, model: &Rc<RefCell<Model>>, page: usize, placement: Placement) {
    let version = model.borrow_mut().ask(page, true);
    let tag = (page as u64) << 32 | version as u64;
    let extent = Extent::new(page as u64 * 8, 8);
    drive
        .write(extent, Content::Fill(tag), placement, Origin(0), false)
        .await
        .expect("the drive has room");
    model.borrow_mut().acknowledge(page, version, false);
}

async fn trim(drive: &Drive, model: &Rc<RefCell<Model>>, page: usize) {
    let version = model.borrow_mut().ask(page, false);
    let extent = Extent::new(page as u64 * 8, 8);
    drive.trim(extent).await.expect("the drive has room");
    model.borrow_mut().acknowledge(page, version, true);
}

/// Powers `media` on and returns the drive with its kernel, once recovery is complete.
pub(crate) fn recover(config: &DriveConfig, media: DriveMedia) -> (Kernel, Drive) {
    let kernel = Kernel::new();
    let (sim, config) = (kernel.sim(), config.clone());
    let drive = kernel.block_on(async move {
        Drive::power_on(&sim, &config, media, Seed(9))
            .await
            .expect("the configuration is good")
    });
    (kernel, drive)
}

/// `media` after a round trip through a drive file: no block refers to the past any more.
pub(crate) fn stored(config: &DriveConfig, media: &DriveMedia) -> DriveMedia {
    let mut file = Vec::new();
    image::write(config, media, &mut file).expect("a vector takes all");
    let (_, media) = image::read(&mut file.as_slice()).expect("it was just written");
    media
}
