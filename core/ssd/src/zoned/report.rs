//! Zone reports for the host: limits, descriptors, and the zones that use up the limits.

use super::config::ZoneLayout;
use super::rules::{ZoneState, ZoneStatus};
use super::{Zoned, Zones};
use nand::{Payload, UNIT};
use serde::Serialize;
use units::{Bytes, Lba, Ns, SECTOR};

/// Writing rule of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ZoneKind {
    /// Writable at any address; the zone has no write pointer.
    Conventional,
    /// Writable at its write pointer only.
    Sequential,
}

/// The descriptor of a zone. Addresses and lengths are in sectors of 512 bytes.
//= zns 3.4.2
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneInfo {
    /// Number of the zone, conventional ones included.
    pub zone: u32,
    /// Writing rule of the zone.
    pub kind: ZoneKind,
    /// State of the zone; always empty, and without meaning, for a conventional zone.
    pub state: ZoneState,
    /// First address of the zone.
    pub start: Lba,
    /// Sectors to the start of the next zone.
    pub size: u64,
    /// Sectors that can be written.
    pub capacity: u64,
    /// Address of the next write. `None` where the specification defines no valid pointer: full,
    /// read-only, offline and conventional zones.
    pub write_pointer: Option<Lba>,
    /// Whether the zone has a random write area.
    pub random_write_area: bool,
}

impl ZoneInfo {
    /// Sectors between start and write pointer; the whole capacity of a full zone.
    #[must_use]
    pub fn written(&self) -> u64 {
        match self.write_pointer {
            Some(wp) => wp.0 - self.start.0,
            None if self.state == ZoneState::Full => self.capacity,
            None => 0,
        }
    }

    /// Sectors from the start on that may have data. For a read-only zone this is the whole
    /// capacity, because its write pointer is no longer known.
    #[must_use]
    pub fn readable(&self) -> u64 {
        match self.state {
            ZoneState::ReadOnly => self.capacity,
            _ => self.written(),
        }
    }
}

/// Sizes and limits of the zones of a drive. Lengths are in sectors of 512 bytes.
//= zns 4.1.5
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneLimits {
    /// Zones of the drive, conventional ones included.
    pub zones: u32,
    /// Conventional zones, which come first.
    pub conventional: u32,
    /// Sectors from the start of a zone to the start of the next.
    pub size: u64,
    /// Sectors that can be written to a zone.
    pub capacity: u64,
    /// Sectors of a logical block: reads and writes cover whole blocks.
    pub block: u64,
    /// Largest number of open zones; 0 for no limit.
    pub max_open: u32,
    /// Largest number of active zones; 0 for no limit.
    pub max_active: u32,
    /// Largest append in sectors; 0 for no limit.
    pub append: u64,
    /// Sectors of a random write area; 0 if there is none.
    pub random_write_area: u64,
    /// Sectors by which the write pointer moves in a zone with such an area.
    pub random_write_step: u64,
    /// Largest number of zones with such an area.
    pub random_write_zones: u32,
}

impl ZoneLimits {
    /// Limits of a drive without zones: nothing is limited, and lengths are one sector.
    pub const NONE: Self = Self {
        zones: 0,
        conventional: 0,
        size: 1,
        capacity: 1,
        block: 1,
        max_open: 0,
        max_active: 0,
        append: 0,
        random_write_area: 0,
        random_write_step: 0,
        random_write_zones: 0,
    };
}

/// Zones of a drive by state: shows which zones use up a limit after a refusal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZoneUse {
    /// Zones that a write opened, and that the controller may close.
    pub implicitly_open: Vec<u32>,
    /// Zones that the host opened.
    pub explicitly_open: Vec<u32>,
    /// Closed zones: active, and not open.
    pub closed: Vec<u32>,
    /// Zones that can only be read.
    pub read_only: Vec<u32>,
    /// Zones whose flash is lost.
    pub offline: Vec<u32>,
    /// Number of empty zones.
    pub empty: u32,
    /// Number of full zones.
    pub full: u32,
}

impl ZoneUse {
    /// Adds a zone to its state; conventional zones are ignored.
    pub fn add(&mut self, zone: &ZoneInfo) {
        if zone.kind == ZoneKind::Conventional {
            return;
        }
        match zone.state {
            ZoneState::Empty => self.empty += 1,
            ZoneState::Full => self.full += 1,
            ZoneState::ImplicitlyOpen => self.implicitly_open.push(zone.zone),
            ZoneState::ExplicitlyOpen => self.explicitly_open.push(zone.zone),
            ZoneState::Closed => self.closed.push(zone.zone),
            ZoneState::ReadOnly => self.read_only.push(zone.zone),
            ZoneState::Offline => self.offline.push(zone.zone),
        }
    }

    /// Zones that count against the limit that `status` reports; empty for any other status.
    #[must_use]
    pub fn holders(&self, status: ZoneStatus) -> Vec<u32> {
        let open = [&self.implicitly_open, &self.explicitly_open];
        let mut zones: Vec<u32> = match status {
            ZoneStatus::TooManyOpenZones => self.explicitly_open.clone(),
            ZoneStatus::TooManyActiveZones => open
                .into_iter()
                .chain([&self.closed])
                .flatten()
                .copied()
                .collect(),
            _ => Vec::new(),
        };
        zones.sort_unstable();
        zones
    }
}

/// Bytes that a report transfers for each descriptor.
const DESCRIPTOR: u32 = 64;

impl Zones {
    /// Sizes and limits of the zones.
    #[must_use]
    pub fn limits(&self) -> ZoneLimits {
        let (layout, rules) = (&self.inner.layout, &self.inner.rules);
        let sectors = |bytes: Bytes| bytes.0 / SECTOR;
        ZoneLimits {
            zones: layout.zones,
            conventional: layout.conventional,
            size: sectors(rules.size),
            capacity: sectors(rules.capacity),
            block: UNIT as u64 / SECTOR,
            max_open: rules.max_open,
            max_active: rules.max_active,
            append: sectors(rules.append_limit),
            random_write_area: sectors(rules.random_write_area),
            random_write_step: sectors(rules.random_write_step),
            random_write_zones: rules.random_write_zones,
        }
    }

    /// Resolved sizes of the zones.
    #[must_use]
    pub fn layout(&self) -> &ZoneLayout {
        &self.inner.layout
    }

    /// Descriptors of up to `count` zones from `first` on, as far as zones exist.
    ///
    /// # Errors
    /// If there is no zone `first`.
    //= zns 3.4.2
    pub async fn report(&self, first: u32, count: u32) -> Result<Vec<ZoneInfo>, ZoneStatus> {
        let zones = self.inner.layout.zones;
        if first >= zones {
            return Err(ZoneStatus::LbaOutOfRange);
        }
        let count = count.min(zones - first);
        let sectors = count.saturating_mul(DESCRIPTOR).div_ceil(UNIT as u32);
        let passed = self.inner.passed(Ns::ZERO, sectors);
        self.inner.core.sim.sleep_until(passed).await;
        Ok((first..first + count)
            .filter_map(|zone| self.info(zone))
            .collect())
    }

    /// The descriptor of one zone without a command; `None` if there is no such zone. For test
    /// oracles, and for hosts that cache descriptors.
    #[must_use]
    pub fn info(&self, zone: u32) -> Option<ZoneInfo> {
        self.inner.info(zone)
    }

    /// All sequential zones by state.
    #[must_use]
    pub fn in_use(&self) -> ZoneUse {
        let zones = (0..self.inner.layout.zones).filter_map(|zone| self.info(zone));
        let mut all = ZoneUse::default();
        zones.for_each(|zone| all.add(&zone));
        all
    }

    /// Numbers of open zones and of active zones.
    #[must_use]
    pub fn counts(&self) -> (u32, u32) {
        self.inner.table.borrow().counts()
    }

    /// Highest erase count among the blocks of `zone`; `None` if it has no blocks at the moment.
    #[must_use]
    pub fn wear(&self, zone: u32) -> Option<u32> {
        let inner = &self.inner;
        let index = inner.sequential(zone).ok()?;
        let table = inner.table.borrow();
        let media = inner.core.nand.media();
        let pieces =
            (0..inner.layout.pieces()).filter(|&p| table.has_piece(&inner.layout, index, p));
        let rows = pieces.map(|piece| table.row(&inner.layout, index, piece, 0));
        rows.flat_map(|row| row.blocks())
            .map(|block| media.erases(block))
            .max()
    }
}

impl Zones {
    /// Contents of sector `number` of 4 KiB; `None` outside sequential zones.
    pub(crate) fn peek(&self, number: u32) -> Option<Payload> {
        let inner = &self.inner;
        let zone = number / inner.layout.size;
        let index = inner.sequential(zone).ok()?;
        let at = number % inner.layout.size;
        let within = at < inner.layout.capacity;
        Some(if within {
            inner.sector(index, at)
        } else {
            Payload::Zero
        })
    }

    /// Whether sector `number` of 4 KiB has data; `None` outside sequential zones.
    pub(crate) fn is_written(&self, number: u32) -> Option<bool> {
        let inner = &self.inner;
        let zone = inner.sequential(number / inner.layout.size).ok()?;
        let at = number % inner.layout.size;
        let table = inner.table.borrow();
        Some(at < inner.committed_end(&table, zone))
    }
}

impl Zoned {
    pub(super) fn info(&self, zone: u32) -> Option<ZoneInfo> {
        if zone >= self.layout.zones {
            return None;
        }
        let rules = &self.rules;
        let mut info = ZoneInfo {
            zone,
            kind: ZoneKind::Conventional,
            state: ZoneState::Empty,
            start: self.lba(zone, 0),
            size: rules.size.0 / SECTOR,
            capacity: rules.size.0 / SECTOR,
            write_pointer: None,
            random_write_area: false,
        };
        let Ok(index) = self.sequential(zone) else {
            return Some(info);
        };
        let table = self.table.borrow();
        let entry = &table.zones[index as usize];
        let ends = [ZoneState::Full, ZoneState::ReadOnly, ZoneState::Offline];
        let has_pointer = !ends.contains(&entry.state);
        info.kind = ZoneKind::Sequential;
        info.state = entry.state;
        info.capacity = rules.capacity.0 / SECTOR;
        info.write_pointer = has_pointer.then(|| self.lba(zone, entry.wp));
        info.random_write_area = entry.window;
        Some(info)
    }
}
