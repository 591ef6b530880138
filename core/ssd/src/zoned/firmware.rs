//! Costs and limits of the firmware of zones, beside those of its flash.
//!
//! Invariants: a command at rest takes the sum of its parts. The processor serves writes and
//! appends in order of arrival; programs leave the buffers in the order in which they are issued.

use super::Zoned;
use crate::config::{ConfigError, LEAST_RATE, check_times};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use units::Ns;

/// Costs and limits of the firmware of a zoned drive. Each is off at 0, as all are by default.
///
/// The mechanisms follow from measurements of a ZN540 (`nvmebenchmarks`). The time of a finish is
/// linear in the part of the zone that is left, at the drive's write bandwidth: it programs that
/// part. The time of a reset is linear in the data of the host, not in the padding of a finish, and
/// an almost empty zone takes less time than an erase: it unmaps, and erases later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ZoneFirmware {
    /// Time of an explicit open, beside that of a command.
    pub open: Ns,
    /// Time of a close, beside that of a command.
    pub close: Ns,
    /// Time that the first write of an empty zone adds.
    pub first_write: Ns,
    /// Time to record the state of a zone on flash. A reset does so, a finish of a zone with data,
    /// and before a reset also the end of the data of an active zone.
    pub commit: Ns,
    /// Time of a reset to unmap 4 KiB of the host. The blocks of a protected drive are then erased
    /// after the reset has completed, as far as they were programmed; 0 for a reset that ends with
    /// the erases of all its blocks.
    pub unmap_per_unit: Ns,
    /// Whether a finish programs padding into the rest of a zone that has data. A finish of an
    /// empty zone then takes no flash on a protected drive.
    pub padding: bool,
    /// Time that a write occupies the processor, for which commands queue.
    pub write: Ns,
    /// Time that an append occupies the processor.
    pub append: Ns,
    /// Bytes per second at which programs leave the buffers of all zones; 0 for no limit.
    pub drain_bytes_per_s: u64,
}

impl ZoneFirmware {
    /// Whether every cost and limit is off.
    pub(super) fn is_off(&self) -> bool {
        *self == Self::default()
    }

    /// Rejects times and rates that are out of range.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        check_times([
            ("zones.firmware.open", self.open),
            ("zones.firmware.close", self.close),
            ("zones.firmware.first_write", self.first_write),
            ("zones.firmware.commit", self.commit),
            ("zones.firmware.unmap_per_unit", self.unmap_per_unit),
            ("zones.firmware.write", self.write),
            ("zones.firmware.append", self.append),
        ])?;
        if (1..LEAST_RATE).contains(&self.drain_bytes_per_s) {
            let expected = format!("0 or at least {LEAST_RATE}");
            let knob = "zones.firmware.drain_bytes_per_s";
            let rate = self.drain_bytes_per_s;
            return Err(ConfigError::range(knob, rate, expected));
        }
        Ok(())
    }

    /// Time of a reset, for `data` sectors of the host in an active zone or a full one.
    pub(super) fn reset_time(&self, data: u32, ends_active: bool) -> Ns {
        let commits = 1 + u64::from(ends_active);
        Ns(self.commit.0 * commits + self.unmap_per_unit.0 * u64::from(data))
    }
}

/// Times until which the processor and the way from the buffers to the flash are taken.
#[derive(Default)]
pub(super) struct Busy {
    processor: Cell<Ns>,
    drain: Cell<Ns>,
}

/// Takes the next turn of `span` at or after `now`, and returns its begin.
fn turn(free: &Cell<Ns>, now: Ns, span: Ns) -> Ns {
    let begin = free.get().max(now);
    free.set(begin + span);
    begin
}

impl Zoned {
    /// Time from now on of a write or an append that moves `sectors`: the wait for the processor,
    /// its time or that of a command, whichever is longer, and the move through DRAM.
    pub(super) fn write_time(&self, sectors: u32, is_append: bool) -> Ns {
        let firmware = &self.rules.firmware;
        let service = if is_append {
            firmware.append
        } else {
            firmware.write
        };
        let rest = self.command_time(sectors);
        if service == Ns::ZERO {
            return rest;
        }
        let now = self.core.sim.now();
        let wait = turn(&self.busy.processor, now, service).since(now);
        let longer = service.0.saturating_sub(self.config.controller.command.0);
        Ns(wait.0 + longer + rest.0)
    }

    /// Begin of the next program that leaves the buffers: now, if their way to the flash is free.
    pub(super) fn drain_turn(&self) -> Ns {
        turn(&self.busy.drain, self.core.sim.now(), self.drain_span)
    }

    /// Whether the blocks of a reset zone are erased after the reset has completed.
    pub(super) fn erases_later(&self) -> bool {
        self.rules.firmware.unmap_per_unit > Ns::ZERO
            && self.config.controller.power_loss_protection
    }

    /// Sleeps for a cost of the firmware, if there is one.
    pub(super) async fn charge(&self, cost: Ns) {
        if cost > Ns::ZERO {
            self.core.sim.sleep(cost).await;
        }
    }
}
