//! The dump that a protected drive saves as the power goes and restores at power-on, and the time
//! that power-on takes.

use crate::buffer::SlotState;
use crate::drive::Core;
use crate::frontier::{Frontier, Kind};
use crate::layout::NONE;
use crate::ledger::{Cause, ReadCause};
use crate::map::Where;
use crate::media::{Dump, SavedSlot};
use crate::state::{Incoming, State};
use nand::{Priority, UNIT};
use std::collections::BTreeMap;
use std::rc::Rc;

impl Core {
    /// The dump that the capacitors save as the power goes: the newest buffered version of each
    /// page, and deallocations that are not on flash. `None` on an unprotected drive.
    pub(crate) fn saved(&self) -> Option<Dump> {
        if let Some(dump) = &*self.dump.borrow() {
            return Some(dump.clone());
        }
        if !self.config.controller.power_loss_protection {
            return None;
        }
        let state = self.state.borrow();
        let newest = |(index, slot): &(u32, &crate::buffer::Slot)| {
            !slot.moved
                && slot.cause != Cause::Map as u8
                && state.map.get(slot.page) == Where::Buffer(*index)
        };
        let slots = state.slots.in_use().filter(newest);
        let queued: BTreeMap<u32, usize> = (0..)
            .zip(&state.frontiers)
            .flat_map(|(number, queue)| queue.pending.iter().map(move |&slot| (slot, number)))
            .collect();
        let saved = slots.map(|(index, slot)| SavedSlot {
            page: slot.page,
            tag: slot.tag,
            frontier: self.host_frontier_of(&state, queued.get(&index).copied(), slot.place),
            payload: self.slot_contents(&state, index),
        });
        Some(Dump {
            slots: saved.collect(),
            trims: self.journal.borrow().records.clone(),
        })
    }

    /// The dump's entry for `page`; `None` if its newest version is not in the buffer as new data
    /// of the host.
    pub(crate) fn saved_page(&self, page: u32) -> Option<SavedSlot> {
        let state = self.state.borrow();
        let Where::Buffer(index) = state.map.get(page) else {
            return None;
        };
        let slot = *state.slots.get(index);
        if slot.moved || slot.cause == Cause::Map as u8 {
            return None;
        }
        // A recently written slot is near the end of its queue.
        let waits = |queue: &Frontier| queue.pending.iter().rev().any(|&other| other == index);
        let queued = match slot.state {
            SlotState::Pending => state.frontiers.iter().position(waits),
            _ => None,
        };
        Some(SavedSlot {
            page,
            tag: slot.tag,
            frontier: self.host_frontier_of(&state, queued, slot.place),
            payload: self.slot_contents(&state, index),
        })
    }

    /// The frontier of the host that a slot was written through: the one where it is `queued`, or
    /// else the one of the handle that wrote the line at `place`.
    fn host_frontier_of(&self, state: &State, queued: Option<usize>, place: u32) -> u16 {
        let at = queued.or_else(|| {
            let line = (place != NONE).then(|| self.layout.line_of(place).0)?;
            Some(usize::from(state.lines.lines[line as usize].frontier))
        });
        let Some(at) = at else { return 0 };
        let Frontier { kind, group, .. } = state.frontiers[at];
        let handle = match kind {
            Kind::Host(handle) => handle,
            Kind::Moved(handle) if self.config.placement.persistently_isolated => handle,
            _ => 0,
        };
        (group * self.layout.handles + handle) as u16
    }

    /// Puts the saved versions back into the buffer, which protects them from then on.
    pub(crate) fn restore_dump(&self) {
        let Some(dump) = self.dump.borrow_mut().take() else {
            return;
        };
        for saved in dump.slots {
            let taken = self.buffer.try_take(1);
            assert!(taken, "the buffer held these pages before");
            let incoming = Incoming {
                page: saved.page,
                frontier: usize::from(saved.frontier),
                cause: Cause::Host,
                tag: saved.tag,
            };
            let mut state = self.state.borrow_mut();
            let (slot, _) = state.insert(incoming);
            for (sector, payload) in saved.payload.into_iter().enumerate() {
                state.set_payload(slot, sector, payload);
            }
        }
        for work in &self.work {
            work.notify(&self.sim);
        }
    }
}

/// Takes the time of power-on: reads the summary of each full line, and the spare area of every
/// written page of the other lines. Dies work in parallel.
pub(crate) async fn read_spares(core: &Rc<Core>) {
    let lines = 0..core.layout.lines();
    let plans: Rc<[_]> = lines.map(|line| units_to_read(core, line)).collect();
    let dies: Vec<_> = (0..core.layout.geometry.dies())
        .map(|die| {
            let (core, plans) = (Rc::clone(core), Rc::clone(&plans));
            let sim = core.sim.clone();
            sim.spawn(async move { read_die(&core, die, &plans).await })
        })
        .collect();
    for die in dies {
        die.await;
    }
}

/// Reads the units of `die` in `plans`, which has the units to read of each line.
async fn read_die(core: &Core, die: u32, plans: &[Vec<(u32, u32)>]) {
    let layout = &core.layout;
    let group = die / layout.dies_per_group;
    let first = group * layout.lines_per_group;
    for line in first..first + layout.lines_per_group {
        for &(unit, bytes) in &plans[line as usize] {
            if layout.die_in_group(unit) != die % layout.dies_per_group {
                continue;
            }
            for row in 0..layout.geometry.pages_per_program {
                let page = layout.first_row(unit) + row;
                let row = core.row(&core.state.borrow(), line, unit, page);
                core.state.borrow_mut().ledger.reads[ReadCause::Recovery as usize] +=
                    u64::from(row.planes.count_ones());
                // Pages that cannot be read count as unwritten; the read still takes its time.
                let _ = core.nand.read(row, bytes, Priority::Normal).await;
            }
        }
    }
}

/// Units of `line` that power-on reads, and the bytes that it transfers of each.
fn units_to_read(core: &Core, line: u32) -> Vec<(u32, u32)> {
    let layout = &core.layout;
    let state = core.state.borrow();
    let entry = &state.lines.lines[line as usize];
    if entry.closed == 0 {
        return Vec::new();
    }
    let spare = layout.geometry.spare_bytes * layout.geometry.planes;
    let summary = layout.line_data / layout.unit;
    let media = core.nand.media();
    let written = |unit: u32| {
        let row = core.row(&state, line, unit, 0);
        row.blocks()
            .all(|b| media.written(b) > layout.first_row(unit))
    };
    if (summary..layout.units_per_line).all(written) {
        let bytes = (layout.line_pages - layout.line_data) * layout.sectors_per_page * UNIT as u32;
        let units = layout.units_per_line - summary;
        return (summary..layout.units_per_line)
            .map(|unit| (unit, bytes / units))
            .collect();
    }
    (0..layout.units_per_line)
        .filter(|&u| written(u))
        .map(|u| (u, spare))
        .collect()
}
