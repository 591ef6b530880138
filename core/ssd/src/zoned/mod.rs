//! Zones: a drive that is written in order, zone by zone.
//!
//! # The idea
//!
//! A zone is a stripe of erase blocks over some of the dies, or all of them. Its data lie
//! on flash in the order of their addresses, so there is no map: where a sector is
//! follows from its address. What is written waits in a buffer of the zone until it
//! fills a *unit*, one multi-plane program; a reset erases the blocks, and the zone gets
//! others, the least worn ones, once it is written again. Conventional zones, where a
//! drive has them, are the page-mapped firmware of this crate on blocks of their own.
//!
//! # What is promised at a power cut
//!
//! - Without power-loss protection: what was acknowledged before a flush that was
//!   acknowledged is there, and so is a write that was forced. With protection:
//!   everything acknowledged is there, in a random write area too.
//! - The write pointer is where the data end: nothing beyond it can be read, and nothing
//!   before it is missing. Open zones come back closed, or empty if nothing was written.
//! - A reset or a finish is there as a whole or not at all.
//!
//! # How that is kept
//!
//! - Units name their place in the zone in the spare area, so the write pointer is found
//!   by reading: the longest run of whole units from the start of the zone, and then what
//!   a backup or the capacitors have of the next one.
//! - A unit that is not full cannot be programmed in its place, since the rest of it
//!   could not follow. Without protection a flush programs what there is of it as a
//!   *backup* in blocks that each such zone has beside its own; the newest one counts.
//! - A torn program, or a whole one behind it, leaves pages that cannot be programmed
//!   again. Power-on copies what lies before them to another block, and only then lets
//!   the zone be written.
//! - A reset erases the blocks with the first unit before any others: from then on no
//!   unit is part of a run from the start. Where there is a backup, a mark in it comes
//!   first. A finish is one program, in the place of the next unit.
//!
//! # When flash fails
//!
//! A zone of which a program fails becomes read-only. What was acknowledged and is not on
//! flash stays in the buffer and can be read until the power goes, and then only if the
//! drive is protected; flushes fail. A block that cannot be erased is replaced by a
//! spare one; when a plane has none left, a zone of its group goes offline.

mod backup;
mod config;
mod copy;
mod manage;
mod media;
mod pool;
mod precondition;
mod read;
mod recover;
mod refusals;
mod repair;
mod report;
mod rules;
mod table;
mod window;
mod write;

pub(crate) use config::conventional;
pub use config::{Unwritten, ZoneConfig, ZoneLayout};
pub(crate) use media::{SavedZone, ZonesMedia};
pub(crate) use precondition::write_full;
pub use report::{ZoneInfo, ZoneKind, ZoneLimits, ZoneUse};
pub use rules::{OpenRoom, Room, Step, ZoneEvent, ZoneState, ZoneStatus, transition};

use crate::config::{ConfigError, DriveConfig};
use crate::drive::{Core, Drive, IoError};
use sim::Signal;
use std::cell::RefCell;
use std::rc::Rc;
use table::Table;
use units::{Extent, Ns, Refusals, SECTOR};

/// What all tasks of the zoned firmware share.
pub(crate) struct Zoned {
    /// The firmware of the conventional zones, with the flash, the clock and the counters.
    core: Rc<Core>,
    pub(crate) config: DriveConfig,
    rules: ZoneConfig,
    layout: ZoneLayout,
    table: RefCell<Table>,
    /// By zone: something has changed that a command may wait for.
    signals: Vec<Signal>,
    /// Limits that commands have met.
    refusals: RefCell<Refusals>,
    /// What recovery begins with, until it is over: survives a cut during recovery.
    media: RefCell<Option<ZonesMedia>>,
}

/// The zones of a drive, as its host holds them. Sequential zones are written at their
/// write pointers only; every refusal is the status that the specification names.
#[derive(Clone)]
pub struct Zones {
    pub(crate) inner: Rc<Zoned>,
}

/// What the host does to a zone besides reading and writing.
//= zns 3.4.3
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ZoneAction {
    /// Opens it, to keep it open until it is closed.
    Open,
    /// Opens an empty one with a random write area.
    OpenRandom,
    /// Closes it: it stays active.
    Close,
    /// Makes it full.
    Finish,
    /// Makes it empty.
    Reset,
    /// Gives a read-only one up.
    Offline,
}

impl Zones {
    /// The zones of `config`, whose conventional ones `core` has; none if it has no zones.
    pub(crate) fn new(
        core: &Rc<Core>,
        config: &DriveConfig,
        media: ZonesMedia,
    ) -> Result<Option<Self>, ConfigError> {
        let layout = ZoneLayout::new(config)?;
        Ok(layout.zip(config.zones).map(|(layout, rules)| {
            let zoned = Zoned::new(Rc::clone(core), config, rules, layout, media);
            Self {
                inner: Rc::new(zoned),
            }
        }))
    }
}

impl Zoned {
    fn new(
        core: Rc<Core>,
        config: &DriveConfig,
        rules: ZoneConfig,
        layout: ZoneLayout,
        media: ZonesMedia,
    ) -> Self {
        let pool = pool::Pool::new(&layout, config.wear.dynamic);
        let table = Table::new(&layout, rules, pool, config.flash.keep_contents);
        Self {
            signals: table.zones.iter().map(|_| Signal::default()).collect(),
            table: RefCell::new(table),
            media: RefCell::new(Some(media)),
            refusals: RefCell::default(),
            config: config.clone(),
            core,
            rules,
            layout,
        }
    }

    /// The position of `zone` among those that are written in order.
    fn sequential(&self, zone: u32) -> Result<u32, ZoneStatus> {
        if zone >= self.layout.zones {
            return Err(ZoneStatus::LbaOutOfRange);
        }
        zone.checked_sub(self.layout.conventional)
            .ok_or(ZoneStatus::InvalidField)
    }

    /// Waits until no reset or finish of a zone is under way.
    async fn idle(&self, zone: u32) {
        while self.table.borrow().zones[zone as usize].busy {
            self.signals[zone as usize].wait(&self.core.sim).await;
        }
    }

    fn wake(&self, zone: u32) {
        self.signals[zone as usize].notify(&self.core.sim);
    }

    /// Time of a command that moves `sectors` through the controller's DRAM.
    fn command_time(&self, sectors: u32) -> Ns {
        let controller = &self.config.controller;
        Ns(controller.command.0 + controller.dram_per_unit.0 * u64::from(sectors))
    }

    /// What capacitors and the list of defects keep as the power goes.
    pub(crate) fn saved(&self) -> ZonesMedia {
        if let Some(media) = &*self.media.borrow() {
            return media.clone();
        }
        let table = self.table.borrow();
        let numbers = self.layout.conventional..;
        let mut media = ZonesMedia::default();
        for (number, zone) in numbers.zip(&table.zones) {
            if matches!(zone.state, ZoneState::ReadOnly | ZoneState::Offline) {
                media.defects.push((number, zone.state));
            }
            media.saved.extend(self.saved_zone(&table, number));
        }
        media
    }

    /// What the capacitors keep of one zone.
    fn saved_zone(&self, table: &Table, number: u32) -> Option<SavedZone> {
        if !self.config.controller.power_loss_protection {
            return None;
        }
        let index = number - self.layout.conventional;
        let zone = &table.zones[index as usize];
        let from = zone.on_flash(self.layout.unit);
        let end = self.committed_end(table, index);
        if end == from && !zone.resetting {
            return None;
        }
        let mut saved = SavedZone {
            zone: number,
            from,
            sectors: end - from,
            reset: zone.resetting,
            payload: Vec::new(),
        };
        if self.config.flash.keep_contents {
            let contents = (from..end).map(|at| self.contents(table, index, at));
            saved.payload = contents.collect();
        }
        Some(saved)
    }

    /// Panics if an invariant of the firmware's memory does not hold.
    pub(crate) fn check(&self) {
        self.table.borrow().check(&self.layout);
    }
}

impl Drive {
    /// Its zones, if it has any.
    #[must_use]
    pub fn zones(&self) -> Option<&Zones> {
        self.zones.as_ref()
    }

    pub(crate) fn saved_zones(&self) -> ZonesMedia {
        let zones = self.zones.as_ref();
        zones.map_or_else(ZonesMedia::default, |zones| zones.inner.saved())
    }

    /// Deallocates what of `extent` lies in conventional zones.
    pub(crate) async fn trim_zones(&self, extent: Extent) -> Result<(), IoError> {
        let sectors = self.capacity().0 / SECTOR;
        let last = extent.start.0.saturating_add(u64::from(extent.sectors));
        if last > sectors {
            return Err(IoError::Zone(ZoneStatus::LbaOutOfRange));
        }
        let mapped = self.core.config.capacity.0 / SECTOR;
        let end = last.min(mapped);
        if extent.start.0 >= end {
            return Ok(());
        }
        let part = Extent::new(extent.start.0, (end - extent.start.0) as u32);
        self.core.trim(part).await
    }
}
