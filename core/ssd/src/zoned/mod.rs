//! Zones: a drive that is written in order, zone by zone.
//!
//! # Structure
//!
//! A zone is a stripe of erase blocks over some of the dies, or all of them. Its data lie on flash
//! in the order of their addresses, so there is no map: the place of a sector follows from its
//! address. Written data wait in a buffer of the zone until they fill a *unit*, one multi-plane
//! program. A reset erases the blocks; the zone gets others, the least worn ones, when it is next
//! written. Conventional zones, where a drive has them, are the page-mapped firmware of this crate
//! on blocks of their own.
//!
//! # Promises at a power cut
//!
//! - Without power-loss protection, writes acknowledged before an acknowledged flush survive, and
//!   so do forced writes. With protection, every acknowledged write survives, in a random write
//!   area too.
//! - The write pointer is at the end of the data: beyond it no data can be read, and before it none
//!   are missing. Open zones come back closed, or empty if they had no data.
//! - A reset or a finish survives as a whole or not at all.
//!
//! # Mechanism
//!
//! - Units record their place in the zone in the spare area, so reading finds the write pointer: it
//!   is at the end of the longest run of whole units from the start of the zone, extended by the
//!   data that a backup or the capacitors have of the next unit.
//! - A partial unit cannot be programmed in its place, because the rest of it could not follow.
//!   Without protection a flush programs the data of that unit as a *backup*, in blocks that each
//!   such zone has beside its own; the newest backup counts.
//! - A torn program, or a whole one beyond it, leaves pages that cannot be programmed again.
//!   Power-on copies the pages before them to another block, and only then lets the zone be
//!   written.
//! - The firmware may add its own costs ([`ZoneFirmware`]). Padding of a finish follows the mark, so
//!   a cut between the two leaves a finished zone. A protected drive that erases after a reset has
//!   completed keeps the reset until then, and the finish of a zone that has nothing on flash.
//! - A reset erases the blocks with the first unit before any others: from then on no unit is part
//!   of a run from the start. If the zone has a backup, a mark in the backup comes first. A finish
//!   is one program, in place of the next unit.
//!
//! # Failing flash
//!
//! A zone becomes read-only when a program of it fails. Acknowledged data that are not on flash
//! stay in the buffer and can be read until the power goes, and longer only if the drive is
//! protected; flushes fail. A block that cannot be erased is replaced by a spare one; when a plane
//! has none left, a zone of its group goes offline.

mod ahead;
mod backup;
mod config;
mod copy;
mod firmware;
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
pub use firmware::ZoneFirmware;
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
use units::{Extent, Refusals, SECTOR};

/// State shared by all tasks of the zoned firmware.
pub(crate) struct Zoned {
    /// The firmware of the conventional zones, with the flash, the clock and the counters.
    core: Rc<Core>,
    pub(crate) config: DriveConfig,
    rules: ZoneConfig,
    layout: ZoneLayout,
    table: RefCell<Table>,
    /// For each sequential zone: its state changed in a way that a command may wait for.
    signals: Vec<Signal>,
    /// Limits that rejected commands.
    refusals: RefCell<Refusals>,
    /// State that recovery starts from; kept until recovery ends, so that it survives a cut.
    media: RefCell<Option<ZonesMedia>>,
}

/// The zones of a drive: the host's handle to them. Sequential zones are written only at their
/// write pointers; a rejected command returns the status that the specification names.
#[derive(Clone)]
pub struct Zones {
    pub(crate) inner: Rc<Zoned>,
}

/// Action of the host on a zone, besides reading and writing.
//= zns 3.4.3
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ZoneAction {
    /// Opens the zone explicitly: the controller does not close it to open others.
    Open,
    /// Opens an empty zone with a random write area.
    OpenRandom,
    /// Closes the zone; it stays active.
    Close,
    /// Makes the zone full.
    Finish,
    /// Makes the zone empty.
    Reset,
    /// Takes a read-only zone offline.
    Offline,
}

impl Zones {
    /// The sequential zones of `config`, beside the conventional ones in `core`; `None` without
    /// zones.
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

    /// Index of `zone` among the sequential zones.
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

    /// State that the capacitors and the list of defects keep as the power goes.
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

    /// State that the capacitors keep of one zone; `None` if it has no unsaved data and no reset.
    fn saved_zone(&self, table: &Table, number: u32) -> Option<SavedZone> {
        if !self.config.controller.power_loss_protection {
            return None;
        }
        let index = number - self.layout.conventional;
        let zone = &table.zones[index as usize];
        let from = zone.on_flash(self.layout.unit);
        let end = self.committed_end(table, index);
        let finished = zone.is_finished_off_flash(self.layout.capacity);
        if end == from && !zone.resetting && !finished {
            return None;
        }
        let mut saved = SavedZone {
            zone: number,
            from,
            sectors: end - from,
            reset: zone.resetting,
            finished: finished && !zone.resetting,
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
    /// The zones of the drive; `None` if it has none.
    #[must_use]
    pub fn zones(&self) -> Option<&Zones> {
        self.zones.as_ref()
    }

    pub(crate) fn saved_zones(&self) -> ZonesMedia {
        let zones = self.zones.as_ref();
        zones.map_or_else(ZonesMedia::default, |zones| zones.inner.saved())
    }

    /// Deallocates the part of `extent` that lies in conventional zones.
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
