//! Opening, closing, finishing and resetting zones.
//!
//! A reset or a finish waits until the zone is quiet: the data of every accepted write are in the
//! buffer, and no program, backup or read is under way. Commands that arrive meanwhile wait for its
//! end, and see the zone in its new state.

use super::config::MOST_UNITS;
use super::rules::{OpenRoom, Room, ZoneEvent, ZoneState, ZoneStatus, transition};
use super::table::Zone;
use super::write::word;
use super::{ZoneAction, Zoned, Zones};
use nand::{BlockState, Row};
use std::rc::Rc;

const ROOMY: Room = Room {
    active: true,
    open: OpenRoom::Free,
};

impl Zones {
    /// Performs `action` on `zone`.
    ///
    /// # Errors
    /// The status for a step that the zone cannot take, for an exhausted limit, for a zone without
    /// write pointer, and for flash that fails.
    //= zns 3.4.3
    pub async fn manage(&self, zone: u32, action: ZoneAction) -> Result<(), ZoneStatus> {
        let inner = &self.inner;
        let index = inner.sequential(zone)?;
        inner.idle(index).await;
        inner.core.sim.sleep(inner.config.controller.command).await;
        inner.act(index, action).await
    }

    /// Performs `action` on every zone that it applies to: opens closed zones, closes open ones,
    /// finishes active ones, resets active and full ones, takes read-only ones offline.
    ///
    /// # Errors
    /// Those of the first zone that fails.
    //= zns 3.4.3
    pub async fn manage_all(&self, action: ZoneAction) -> Result<(), ZoneStatus> {
        let inner = &self.inner;
        let wanted = |state: ZoneState| match action {
            ZoneAction::Open => state == ZoneState::Closed,
            ZoneAction::OpenRandom => false,
            ZoneAction::Close => state.is_open(),
            ZoneAction::Finish => state.is_active(),
            ZoneAction::Reset => state.is_active() || state == ZoneState::Full,
            ZoneAction::Offline => state == ZoneState::ReadOnly,
        };
        if action == ZoneAction::OpenRandom {
            return Err(ZoneStatus::InvalidField);
        }
        inner.core.sim.sleep(inner.config.controller.command).await;
        for zone in 0..inner.layout.sequential() {
            if wanted(inner.table.borrow().zones[zone as usize].state) {
                inner.act(zone, action).await?;
            }
        }
        Ok(())
    }
}

impl Zoned {
    async fn act(self: &Rc<Self>, zone: u32, action: ZoneAction) -> Result<(), ZoneStatus> {
        match action {
            ZoneAction::Open => {
                self.noted(zone, 0, self.step(zone, ZoneEvent::Open))?;
                self.charge(self.rules.firmware.open).await;
                Ok(())
            }
            ZoneAction::OpenRandom => self.noted(zone, 0, self.open_random(zone)),
            ZoneAction::Close => {
                self.step(zone, ZoneEvent::Close)?;
                self.charge(self.rules.firmware.close).await;
                Ok(())
            }
            ZoneAction::Finish => Box::pin(self.finish(zone)).await,
            ZoneAction::Reset => Box::pin(self.reset(zone)).await,
            ZoneAction::Offline => Box::pin(self.give_up(zone)).await,
        }
    }

    fn step(&self, zone: u32, event: ZoneEvent) -> Result<(), ZoneStatus> {
        let evicted = self.table.borrow_mut().step(zone, event)?;
        self.core.state.borrow_mut().ledger.zones.evictions += u64::from(evicted);
        Ok(())
    }

    /// Starts a command that needs a quiet zone, and marks the zone busy. Returns false if the zone
    /// is in state `done` already.
    async fn begin(
        &self,
        zone: u32,
        event: ZoneEvent,
        done: ZoneState,
    ) -> Result<bool, ZoneStatus> {
        loop {
            self.idle(zone).await;
            let mut table = self.table.borrow_mut();
            let entry = &mut table.zones[zone as usize];
            if entry.busy {
                continue;
            }
            transition(entry.state, event, ROOMY)?;
            if entry.state == done {
                // A full zone may still have programs under way, which do not matter here.
                return Ok(false);
            }
            entry.busy = true;
            break;
        }
        let quiet = |entry: &Zone| {
            let filled = entry.filled == entry.wp || entry.failed;
            let programs = entry.in_flight == 0 && !entry.backing;
            filled && programs && entry.readers == 0 && entry.leaving == 0
        };
        while !quiet(&self.table.borrow().zones[zone as usize]) {
            self.signals[zone as usize].wait(&self.core.sim).await;
        }
        let state = self.table.borrow().zones[zone as usize].state;
        if let Err(status) = transition(state, event, ROOMY) {
            self.end(zone);
            return Err(status);
        }
        Ok(true)
    }

    fn end(&self, zone: u32) {
        self.table.borrow_mut().zones[zone as usize].busy = false;
        self.wake(zone);
    }

    /// Writes the remaining data with the mark of a finished zone, in place of the next unit; then,
    /// where the firmware does so, padding up to the end of the zone, and the zone's state.
    async fn finish(self: &Rc<Self>, zone: u32) -> Result<(), ZoneStatus> {
        if !self.begin(zone, ZoneEvent::Finish, ZoneState::Full).await? {
            return Ok(());
        }
        let (filled, issued) = {
            let table = self.table.borrow();
            let entry = &table.zones[zone as usize];
            (entry.filled, entry.issued)
        };
        let firmware = self.rules.firmware;
        let protected = self.config.controller.power_loss_protection;
        // The capacitors keep the state of a zone of which nothing is on flash.
        if filled > 0 || !firmware.padding || !protected {
            self.issue(zone, filled - issued * self.layout.unit, word::FINISH);
            self.programs_end(zone).await;
        }
        if filled > 0 {
            if firmware.padding {
                self.pad(zone).await;
            }
            self.charge(firmware.commit).await;
        }
        let failed = self.table.borrow().zones[zone as usize].failed;
        let result = if failed {
            Err(ZoneStatus::WriteFault)
        } else {
            let mut table = self.table.borrow_mut();
            let step = table.step(zone, ZoneEvent::Finish);
            table.release_ring(&self.layout, zone);
            let rest = self.unneeded_backup(&mut table, zone);
            drop(table);
            if let Some(row) = rest {
                self.give_back(zone, row);
            }
            self.core.state.borrow_mut().ledger.zones.finishes += 1;
            step.map(drop)
        };
        self.end(zone);
        result
    }

    /// Waits until no program of a zone is under way.
    async fn programs_end(&self, zone: u32) {
        while self.table.borrow().zones[zone as usize].in_flight > 0 {
            self.signals[zone as usize].wait(&self.core.sim).await;
        }
    }

    /// Programs padding into the units after the mark of a finish, which is on flash.
    async fn pad(self: &Rc<Self>, zone: u32) {
        loop {
            let (units, has_room) = {
                let table = self.table.borrow();
                let entry = &table.zones[zone as usize];
                let units = if entry.failed { 0 } else { self.layout.units };
                (
                    units.saturating_sub(entry.issued),
                    entry.issued - entry.settled < MOST_UNITS,
                )
            };
            if units == 0 {
                break;
            }
            if has_room {
                self.issue(zone, 0, word::FINISH);
            } else {
                self.signals[zone as usize].wait(&self.core.sim).await;
            }
        }
        self.programs_end(zone).await;
    }

    /// Erases the blocks of a zone. The durable point is the acceptance on a protected drive; else
    /// the mark in the backup if there is one, and the erase of the first unit if not.
    async fn reset(self: &Rc<Self>, zone: u32) -> Result<(), ZoneStatus> {
        if !self.begin(zone, ZoneEvent::Reset, ZoneState::Empty).await? {
            self.charge(self.rules.firmware.reset_time(0, false)).await;
            return Ok(());
        }
        let protected = self.config.controller.power_loss_protection;
        let (backed, time) = {
            let table = self.table.borrow();
            let entry = &table.zones[zone as usize];
            let ends_active = entry.state.is_active() && entry.settled > 0;
            (
                entry.backup.is_some(),
                self.rules.firmware.reset_time(entry.filled, ends_active),
            )
        };
        if protected {
            self.table.borrow_mut().zones[zone as usize].resetting = true;
        } else if backed && let Err(status) = self.mark_reset(zone).await {
            self.end(zone);
            return Err(status);
        }
        self.charge(time).await;
        self.forget_ahead(zone);
        let mut rows = self.table.borrow_mut().unbind(&self.layout, zone);
        if self.erases_later() {
            self.become_empty(zone);
            let zoned = Rc::clone(self);
            self.core
                .sim
                .spawn_detached(async move { zoned.erase_later(zone, rows).await });
            return Ok(());
        }
        let mut erased = Vec::with_capacity(rows.len() + 1);
        if !protected && !backed && !rows.is_empty() {
            // The first unit lies on the first piece.
            let first = rows.remove(0);
            erased.push(first);
            // A block that fails to erase is bad, and is left out below.
            let _ = self.core.nand.erase(first).await;
        }
        self.erase_all(&rows).await;
        erased.extend(rows);
        let backup = self.table.borrow_mut().zones[zone as usize].backup.take();
        if let Some(backup) = backup {
            let _ = self.core.nand.erase(backup.row).await;
            erased.push(backup.row);
        }
        self.become_empty(zone);
        self.give_blocks_back(zone, &erased);
        self.end(zone);
        Ok(())
    }

    /// Erases those rows of a zone that has been reset which were programmed. The zone takes no
    /// command before the end.
    async fn erase_later(self: &Rc<Self>, zone: u32, rows: Vec<Row>) {
        let programmed = |row: &&Row| {
            let media = self.core.nand.media();
            row.blocks()
                .any(|block| media.state(block) != BlockState::Erased)
        };
        let programmed: Vec<Row> = rows.iter().filter(programmed).copied().collect();
        self.erase_all(&programmed).await;
        self.give_blocks_back(zone, &rows);
        self.end(zone);
    }

    /// Erases rows of blocks, on all dies in parallel.
    async fn erase_all(self: &Rc<Self>, rows: &[Row]) {
        let erases: Vec<_> = rows
            .iter()
            .map(|&row| {
                let zoned = Rc::clone(self);
                let erase = async move { zoned.core.nand.erase(row).await };
                self.core.sim.spawn(erase)
            })
            .collect();
        for erase in erases {
            // A block that fails to erase is bad, and does not return to the pool.
            let _ = erase.await;
        }
    }

    fn become_empty(&self, zone: u32) {
        let mut table = self.table.borrow_mut();
        let reset = table.step(zone, ZoneEvent::Reset);
        reset.expect("nothing else happens to a busy zone");
        let entry = &mut table.zones[zone as usize];
        (
            entry.wp,
            entry.filled,
            entry.issued,
            entry.settled,
            entry.done,
        ) = (0, 0, 0, 0, 0);
        table.release_ring(&self.layout, zone);
        self.core.state.borrow_mut().ledger.zones.resets += 1;
    }

    /// Returns erased blocks of a zone that has been reset to the pool.
    fn give_blocks_back(&self, zone: u32, erased: &[Row]) {
        let mut table = self.table.borrow_mut();
        for &row in erased {
            table.pool.put(&self.layout, &self.core.nand.media(), row);
        }
        table.zones[zone as usize].resetting = false;
        let mut condemned = 0;
        for &row in erased {
            let group = row.die / self.layout.width;
            while let Some(lost) = table.zone_without_blocks(&self.layout, group, zone) {
                table.enter(lost, ZoneState::Offline);
                condemned += 1;
            }
        }
        self.core.state.borrow_mut().ledger.zones.lost += condemned;
    }

    /// Takes a read-only zone offline; its good blocks return to the pool.
    async fn give_up(self: &Rc<Self>, zone: u32) -> Result<(), ZoneStatus> {
        let event = ZoneEvent::SetOffline;
        if !self.begin(zone, event, ZoneState::Offline).await? {
            return Ok(());
        }
        let rows = self.table.borrow_mut().unbind(&self.layout, zone);
        let backup = self.table.borrow_mut().zones[zone as usize].backup.take();
        let rows: Vec<Row> = rows.into_iter().chain(backup.map(|b| b.row)).collect();
        let step = self.table.borrow_mut().step(zone, event);
        self.erase_all(&rows).await;
        let mut table = self.table.borrow_mut();
        for row in rows {
            table.pool.put(&self.layout, &self.core.nand.media(), row);
        }
        let entry = &mut table.zones[zone as usize];
        (
            entry.wp,
            entry.filled,
            entry.issued,
            entry.settled,
            entry.done,
        ) = (0, 0, 0, 0, 0);
        table.release_ring(&self.layout, zone);
        drop(table);
        self.end(zone);
        step.map(drop)
    }
}
