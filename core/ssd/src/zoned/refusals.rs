//! Limits that rejected commands, and the zones that use them up.
//!
//! Invariant: only limits are noted. A command that an idle drive would reject too, such as a write
//! that is not at the write pointer, is not.

use super::rules::{ZoneState, ZoneStatus};
use super::table::Zone;
use super::{Zoned, Zones};
use nand::UNIT;
use units::{NoSpace, Origin, Refusals};

const OPEN: &str = "open zones";
const ACTIVE: &str = "active zones";
const AREAS: &str = "random write areas";
const BYTES: &str = "bytes of a zone";

impl Zones {
    /// Limits that rejected commands since power-on, with the zones that used them up.
    #[must_use]
    pub fn refusals(&self) -> Refusals {
        self.inner.refusals.borrow().clone()
    }
}

impl Zoned {
    /// Returns `done`, the result of a command on `zone` for `sectors` of 4 KiB. If a limit
    /// rejected the command, notes that limit.
    pub(super) fn noted<T>(
        &self,
        zone: u32,
        sectors: u32,
        done: Result<T, ZoneStatus>,
    ) -> Result<T, ZoneStatus> {
        let Err(status) = &done else { return done };
        let (limit, why): (_, &dyn Fn() -> NoSpace) = match status {
            ZoneStatus::TooManyOpenZones => (OPEN, &|| {
                let holds = |zone: &Zone| zone.state == ZoneState::ExplicitlyOpen;
                self.held(OPEN, self.rules.max_open, holds)
            }),
            ZoneStatus::TooManyActiveZones => (ACTIVE, &|| {
                let holds = |zone: &Zone| zone.state.is_active();
                self.held(ACTIVE, self.rules.max_active, holds)
            }),
            ZoneStatus::NoRandomWriteArea => (AREAS, &|| {
                let holds = |zone: &Zone| zone.window;
                self.held(AREAS, self.rules.random_write_zones, holds)
            }),
            ZoneStatus::ZoneIsFull | ZoneStatus::ZoneBoundary => {
                (BYTES, &|| self.written_of(zone, sectors))
            }
            _ => return done,
        };
        let now = self.core.sim.now();
        self.refusals.borrow_mut().note(now, limit, why);
        done
    }

    /// The refusal of one more unit of `limit`; each zone that satisfies `holds` uses one.
    fn held(&self, limit: &'static str, most: u32, holds: impl Fn(&Zone) -> bool) -> NoSpace {
        let table = self.table.borrow();
        let holders = (self.layout.conventional..).zip(&table.zones);
        let holders: Vec<_> = holders.filter(|(_, zone)| holds(zone)).collect();
        let free = u64::from(most).saturating_sub(holders.len() as u64);
        let none = NoSpace::new(limit, 1, free, most.into());
        holders.into_iter().fold(none, |why, (number, zone)| {
            let who = format!("zone {number}, {}", zone.state.name());
            why.held_for(who, Origin(zone.origin), 1)
        })
    }

    /// The refusal of a write of `sectors` to a zone without room for them.
    fn written_of(&self, zone: u32, sectors: u32) -> NoSpace {
        let bytes = |sectors: u32| u64::from(sectors) * UNIT as u64;
        let table = self.table.borrow();
        let entry = &table.zones[zone as usize];
        let (number, all) = (zone + self.layout.conventional, self.layout.capacity);
        let free = match entry.state {
            ZoneState::Full => 0,
            _ => all - entry.wp,
        };
        NoSpace::new(BYTES, bytes(sectors), bytes(free), bytes(all))
            .held_for(
                format!("data in zone {number}"),
                Origin(entry.origin),
                bytes(entry.wp),
            )
            .rest(format!("the finish of zone {number}"))
    }
}
