//! Costs of the firmware of zones, beside those of its flash.
//!
//! Invariant: a command at rest takes the sum of its parts.

use super::Zoned;
use crate::config::{ConfigError, check_times};
use serde::{Deserialize, Serialize};
use units::Ns;

/// Costs of the firmware of a zoned drive. Each is off at 0, as all are by default.
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
    /// Time that an append occupies the processors; 0 for that of a write.
    pub append: Ns,
}

impl ZoneFirmware {
    /// Whether every cost is off.
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
            ("zones.firmware.append", self.append),
        ])
    }

    /// Time of a reset, for `data` sectors of the host in an active zone or a full one.
    pub(super) fn reset_time(&self, data: u32, ends_active: bool) -> Ns {
        let commits = 1 + u64::from(ends_active);
        Ns(self.commit.0 * commits + self.unmap_per_unit.0 * u64::from(data))
    }
}

impl Zoned {
    /// Time at which a write or an append of `sectors` that arrives now has passed the firmware.
    pub(super) fn write_passed(&self, sectors: u32, is_append: bool) -> Ns {
        let (own, limits) = (
            self.rules.firmware.append,
            self.core.config.controller.limits,
        );
        let service = match is_append && own > Ns::ZERO {
            true => own,
            false => limits.write,
        };
        self.passed(service, sectors)
    }

    /// Time at which a command that arrives now, occupies the processors for `service` and moves
    /// `sectors` has passed the firmware.
    pub(super) fn passed(&self, service: Ns, sectors: u32) -> Ns {
        let core = &self.core;
        let per_sector = self.config.controller.dram_per_unit;
        let moved = Ns(per_sector.0 * u64::from(sectors));
        core.passed(core.sim.now(), service, moved)
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
