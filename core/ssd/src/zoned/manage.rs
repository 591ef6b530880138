//! Opening, closing, finishing and resetting zones.
//!
//! A reset or a finish waits until the zone is quiet: the data of every accepted write are in the
//! buffer, and no program, backup or read is under way. Commands that arrive meanwhile wait for its
//! end, and see the zone in its new state.

use super::rules::{OpenRoom, Room, ZoneEvent, ZoneState, ZoneStatus, transition};
use super::table::Zone;
use super::write::word;
use super::{ZoneAction, Zoned, Zones};
use nand::Row;
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
            ZoneAction::Open => self.noted(zone, 0, self.step(zone, ZoneEvent::Open)),
            ZoneAction::OpenRandom => self.noted(zone, 0, self.open_random(zone)),
            ZoneAction::Close => self.step(zone, ZoneEvent::Close),
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

    /// Writes the remaining data with the mark of a finished zone, in place of the next unit.
    async fn finish(self: &Rc<Self>, zone: u32) -> Result<(), ZoneStatus> {
        if !self.begin(zone, ZoneEvent::Finish, ZoneState::Full).await? {
            return Ok(());
        }
        let data = {
            let table = self.table.borrow();
            let entry = &table.zones[zone as usize];
            entry.filled - entry.issued * self.layout.unit
        };
        self.issue(zone, data, word::FINISH);
        while self.table.borrow().zones[zone as usize].in_flight > 0 {
            self.signals[zone as usize].wait(&self.core.sim).await;
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

    /// Erases the blocks of a zone. The durable point is the acceptance on a protected drive; else
    /// the mark in the backup if there is one, and the erase of the first unit if not.
    async fn reset(self: &Rc<Self>, zone: u32) -> Result<(), ZoneStatus> {
        if !self.begin(zone, ZoneEvent::Reset, ZoneState::Empty).await? {
            return Ok(());
        }
        let protected = self.config.controller.power_loss_protection;
        let backed = self.table.borrow().zones[zone as usize].backup.is_some();
        if protected {
            self.table.borrow_mut().zones[zone as usize].resetting = true;
        } else if backed && let Err(status) = self.mark_reset(zone).await {
            self.end(zone);
            return Err(status);
        }
        self.forget_ahead(zone);
        let mut rows = self.table.borrow_mut().unbind(&self.layout, zone);
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
        self.make_empty(zone, &erased);
        self.end(zone);
        Ok(())
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

    fn make_empty(&self, zone: u32, erased: &[Row]) {
        let mut table = self.table.borrow_mut();
        for &row in erased {
            table.pool.put(&self.layout, &self.core.nand.media(), row);
        }
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
        entry.resetting = false;
        table.release_ring(&self.layout, zone);
        let mut condemned = 0;
        for &row in erased {
            let group = row.die / self.layout.width;
            while let Some(lost) = table.zone_without_blocks(&self.layout, group, zone) {
                table.enter(lost, ZoneState::Offline);
                condemned += 1;
            }
        }
        let ledger = &mut self.core.state.borrow_mut().ledger;
        ledger.zones.resets += 1;
        ledger.zones.lost += condemned;
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
