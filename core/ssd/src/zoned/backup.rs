//! Flushes, and the backups that flushes need on a drive without protection.
//!
//! Invariant: a backup has all data of its zone from some place that is on flash up to `until`. It
//! is erased with the zone, or once all its data are on flash themselves and the zone is full. An
//! older backup is erased only after a newer one is on flash.

use super::rules::ZoneStatus;
use super::table::{Backup, Table};
use super::write::word;
use super::{Zoned, Zones};
use nand::{NandError, Row};
use std::rc::Rc;

impl Zones {
    /// Makes every acknowledged write durable.
    ///
    /// # Errors
    /// [`ZoneStatus::WriteFault`] if a failed zone has data that are not on flash, or if the
    /// conventional zones are out of spare blocks.
    pub async fn flush(&self) -> Result<(), ZoneStatus> {
        let inner = &self.inner;
        inner.core.state.borrow_mut().ledger.flushes += 1;
        let command = inner.config.controller.command;
        inner.core.sim.sleep(command).await;
        inner.flush().await
    }
}

impl Zoned {
    pub(crate) async fn flush(self: &Rc<Self>) -> Result<(), ZoneStatus> {
        let waiting: Vec<u32> = {
            let table = self.table.borrow();
            let zones = (0..).zip(&table.zones);
            let unsafe_yet =
                zones.filter(|(_, zone)| zone.filled > zone.on_flash(self.layout.unit));
            unsafe_yet.map(|(number, _)| number).collect()
        };
        let forced: Vec<_> = waiting
            .into_iter()
            .map(|zone| {
                let zoned = Rc::clone(self);
                self.core.sim.spawn(async move { zoned.force(zone).await })
            })
            .collect();
        let conventional = self.core.flush().await;
        let mut result = conventional.map_err(|_| ZoneStatus::WriteFault);
        for forced in forced {
            result = result.and(forced.await);
        }
        result
    }

    /// Makes everything durable that can be, and waits until no program is under way.
    pub(crate) async fn write_out(self: &Rc<Self>) -> Result<(), ZoneStatus> {
        let result = self.flush().await;
        for zone in 0..self.layout.sequential() {
            while self.table.borrow().zones[zone as usize].in_flight > 0 {
                self.signals[zone as usize].wait(&self.core.sim).await;
            }
        }
        result
    }

    /// Makes the buffered data of a zone durable; nothing to do on a protected drive.
    pub(super) async fn force(self: &Rc<Self>, zone: u32) -> Result<(), ZoneStatus> {
        if self.config.controller.power_loss_protection {
            return Ok(());
        }
        let target = self.table.borrow().zones[zone as usize].filled;
        loop {
            let (ready, failed) = {
                let table = self.table.borrow();
                let entry = &table.zones[zone as usize];
                let on_flash = entry.on_flash(self.layout.unit);
                let backed = entry.backup.filter(|backup| backup.until > on_flash);
                // A reset lowers the target: there is less to keep.
                if on_flash.max(backed.map_or(0, |b| b.until)) >= target.min(entry.filled) {
                    return Ok(());
                }
                let whole = entry.issued * self.layout.unit;
                let ready = on_flash >= whole && !entry.busy && !entry.backing;
                (ready, entry.failed)
            };
            if failed {
                return Err(ZoneStatus::WriteFault);
            }
            if ready {
                self.back_up(zone, false).await?;
            } else {
                self.signals[zone as usize].wait(&self.core.sim).await;
            }
        }
    }

    /// Writes a mark to the backup of a zone: the zone is reset.
    pub(super) async fn mark_reset(self: &Rc<Self>, zone: u32) -> Result<(), ZoneStatus> {
        self.back_up(zone, true).await
    }

    /// Programs a backup of a zone's buffered data, or the mark of a reset; retries elsewhere if
    /// the program fails.
    async fn back_up(self: &Rc<Self>, zone: u32, reset: bool) -> Result<(), ZoneStatus> {
        self.table.borrow_mut().zones[zone as usize].backing = true;
        let (mut spent, mut failed) = (Vec::new(), Vec::new());
        let result = loop {
            let (backup, until, ticket) = {
                let mut table = self.table.borrow_mut();
                let Some(backup) = self.room_for_backup(&mut table, zone, &mut spent) else {
                    break Err(ZoneStatus::WriteFault);
                };
                // Before a retry more data may have come than one program takes.
                let entry = &table.zones[zone as usize];
                let unit = self.layout.unit;
                let until = entry.filled.min(entry.on_flash(unit) + unit);
                let end = (!reset).then_some(until);
                let ticket = self.submit_backup(&mut table, zone, &backup, end);
                (backup, until, ticket)
            };
            let outcome = self.core.nand.finish_program(ticket).await;
            let mut table = self.table.borrow_mut();
            let entry = &mut table.zones[zone as usize];
            if outcome == Err(NandError::ProgramFailed) {
                // Older copies in the failed backup count until a newer one is on flash elsewhere.
                failed.push(backup.row);
                entry.backup = Some(Backup {
                    used: self.layout.programs,
                    ..backup
                });
                continue;
            }
            entry.backup = Some(Backup {
                used: backup.used + 1,
                until,
                ..backup
            });
            break Ok(());
        };
        let mut table = self.table.borrow_mut();
        table.zones[zone as usize].backing = false;
        spent.extend(self.unneeded_backup(&mut table, zone));
        drop(table);
        for row in spent {
            if failed.contains(&row) {
                row.blocks().for_each(|block| self.core.nand.retire(block));
            }
            self.give_back(zone, row);
        }
        self.wake(zone);
        result
    }

    /// The backup of a zone with room for another program. If the old one is full or missing, takes
    /// a new one and adds the old to `spent`. `None` if no die has a block to spare.
    fn room_for_backup(
        &self,
        table: &mut Table,
        zone: u32,
        spent: &mut Vec<Row>,
    ) -> Option<Backup> {
        let old = table.zones[zone as usize].backup;
        if let Some(backup) = old.filter(|backup| backup.used < self.layout.programs) {
            return Some(backup);
        }
        let dies = 0..self.layout.geometry.dies();
        let surplus = dies.map(|die| (table.surplus(&self.layout, die), die));
        let most = surplus.max_by_key(|&(surplus, die)| (surplus, std::cmp::Reverse(die)));
        let (_, die) = most.filter(|&(surplus, _)| surplus > 0)?;
        let row = table
            .pool
            .take(&self.layout, &self.core.nand.media(), die)?;
        spent.extend(old.map(|old| old.row));
        Some(Backup {
            row,
            used: 0,
            until: 0,
        })
    }

    /// Submits the program of a backup with the buffered data up to `end`; without `end` it is the
    /// mark of a reset.
    fn submit_backup(
        &self,
        table: &mut Table,
        zone: u32,
        backup: &Backup,
        end: Option<u32>,
    ) -> nand::Ticket {
        let page = backup.used * self.layout.geometry.pages_per_program;
        let row = Row { page, ..backup.row };
        let label = word::backup_label(zone + self.layout.conventional);
        let entry = &table.zones[zone as usize];
        let from = entry.on_flash(self.layout.unit);
        let (data, rest) = match end {
            None => (0, word::RESET),
            Some(end) => (end - from, word::PADDING),
        };
        self.submit(table, (zone, row, label), (from, data), rest)
    }

    /// Takes the backup from a zone whose data are all on flash and will not grow.
    pub(super) fn unneeded_backup(&self, table: &mut Table, zone: u32) -> Option<Row> {
        let entry = &mut table.zones[zone as usize];
        let all = entry.filled == entry.on_flash(self.layout.unit) && entry.filled == entry.wp;
        if !all || entry.backing || entry.busy || entry.state.is_active() {
            return None;
        }
        entry.backup.take().map(|backup| backup.row)
    }

    /// Erases an old backup of a zone in the background. Only a reset waits for it: leftovers of
    /// the backup must not count as data afterwards.
    pub(super) fn give_back(self: &Rc<Self>, zone: u32, row: Row) {
        self.table.borrow_mut().zones[zone as usize].leaving += 1;
        let zoned = Rc::clone(self);
        self.core.sim.spawn_detached(async move {
            // Blocks that fail to erase are bad, and do not return to the pool.
            let _ = zoned.core.nand.erase(row).await;
            let mut table = zoned.table.borrow_mut();
            table.pool.put(&zoned.layout, &zoned.core.nand.media(), row);
            table.zones[zone as usize].leaving -= 1;
            drop(table);
            zoned.wake(zone);
        });
    }
}
