//! The zone map: write pointers, states and live blocks of all zones.
//!
//! Invariants: a data zone changes its state only in [`Zones::set`], which keeps the counts of open
//! and active zones right. The write pointer counts blocks whose commands were issued. Live blocks
//! are mapped by a file.

use crate::config::{BLOCK, LOG_ZONES, Limits, Placement, ZoneReport};
use units::NoSpace;

/// State of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// No block is written.
    Empty,
    /// The zone can be written, and the device keeps buffers for it.
    Open,
    /// The zone is partly written, and must be opened to be written.
    Closed,
    /// The zone cannot be written until it is reset.
    Full,
    /// A write to the zone has failed; its data can still be read.
    Failed,
}

impl State {
    fn may_become(self, next: Self) -> bool {
        use State::{Closed, Empty, Failed, Full, Open};
        matches!(
            (self, next),
            (Empty | Closed, Open)
                | (Open, Closed)
                | (Open | Closed, Full)
                | (Open | Closed | Full, Empty)
                | (_, Failed)
        )
    }

    pub(crate) fn is_active(self) -> bool {
        matches!(self, Self::Open | Self::Closed)
    }
}

/// A row of the map. The dissertation's row of 128 bits has capacity, write offset and the number
/// of invalid blocks; here that is the difference of `written` and `live`.
//= dissertation 5.3.1
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Zone {
    pub(crate) capacity: u32,
    pub(crate) written: u32,
    pub(crate) live: u32,
    pub(crate) state: State,
    /// Placement that the zone is filled for; `None` if it is empty or the log's.
    pub(crate) placement: Option<Placement>,
    /// Batch of the log that must be durable before the zone may be reset.
    pub(crate) barrier: u64,
    /// Number of reads, mappings and copies in progress.
    pub(crate) readers: u32,
    /// Whether a command is in progress.
    pub(crate) busy: bool,
    /// Whether that command closes the zone.
    pub(crate) closing: bool,
    /// Whether the zone is reserved for relocated data, until the relocation ends.
    pub(crate) kept: bool,
    /// Value of the map's counter at the zone's last write.
    pub(crate) used: u64,
}

impl Zone {
    pub(crate) fn room(&self) -> u32 {
        match self.state {
            State::Full | State::Failed => 0,
            _ => self.capacity - self.written,
        }
    }

    pub(crate) fn invalid(&self) -> u32 {
        self.written - self.live
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.live == 0
            && self.written > 0
            && !self.busy
            && self.readers == 0
            && self.state != State::Failed
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Zones {
    rows: Vec<Zone>,
    pub(crate) limits: Limits,
    pub(crate) open: u32,
    pub(crate) active: u32,
    pub(crate) free: u32,
    uses: u64,
}

fn row(report: &ZoneReport) -> Zone {
    let blocks = |bytes: u64| u32::try_from(bytes / BLOCK).unwrap_or(u32::MAX);
    let capacity = blocks(report.capacity);
    // A partly written block counts as written, since it cannot be used.
    let written = blocks(report.written.saturating_add(BLOCK - 1)).min(capacity);
    let state = match written {
        0 => State::Empty,
        _ if written == capacity => State::Full,
        _ => State::Closed,
    };
    Zone {
        capacity,
        written,
        live: 0,
        state,
        placement: None,
        barrier: 0,
        readers: 0,
        busy: false,
        kept: false,
        closing: false,
        used: 0,
    }
}

impl Zones {
    /// A map of zones as reported; `limits` are those for data zones.
    pub(crate) fn new(reports: &[ZoneReport], limits: Limits) -> Self {
        let rows: Vec<_> = reports.iter().map(row).collect();
        let data = rows.iter().skip(LOG_ZONES as usize);
        let count = |is: fn(&Zone) -> bool| data.clone().filter(|zone| is(zone)).count() as u32;
        Self {
            limits,
            open: 0,
            active: count(|zone| zone.state.is_active()),
            free: count(|zone| zone.state == State::Empty),
            rows,
            uses: 0,
        }
    }

    pub(crate) fn get(&self, zone: u32) -> &Zone {
        &self.rows[zone as usize]
    }

    pub(crate) fn get_mut(&mut self, zone: u32) -> &mut Zone {
        &mut self.rows[zone as usize]
    }

    pub(crate) fn find(&self, zone: u32) -> Option<&Zone> {
        self.rows.get(zone as usize)
    }

    /// The zones for data, with their numbers.
    pub(crate) fn data(&self) -> impl Iterator<Item = (u32, &Zone)> + Clone {
        let numbered = self.rows.iter().enumerate().skip(LOG_ZONES as usize);
        numbered.map(|(number, zone)| (number as u32, zone))
    }

    /// Changes the state of a zone, and the counts.
    pub(crate) fn set(&mut self, zone: u32, next: State) {
        let row = &mut self.rows[zone as usize];
        let was = row.state;
        if was == next {
            return;
        }
        assert!(was.may_become(next), "zone {zone}: {was:?} to {next:?}");
        row.state = next;
        match next {
            State::Empty => (row.written, row.placement, row.barrier) = (0, None, 0),
            State::Full => row.written = row.capacity,
            _ => {}
        }
        if zone >= LOG_ZONES {
            let change = |count: &mut u32, was: bool, is: bool| {
                *count = *count + u32::from(is) - u32::from(was);
            };
            change(&mut self.open, was == State::Open, next == State::Open);
            change(&mut self.active, was.is_active(), next.is_active());
            change(&mut self.free, was == State::Empty, next == State::Empty);
        }
    }

    /// Reserves `blocks` at the write pointer of an open zone; returns the first.
    pub(crate) fn take(&mut self, zone: u32, blocks: u32) -> u32 {
        self.uses += 1;
        let row = &mut self.rows[zone as usize];
        let at = row.written;
        row.written += blocks;
        row.used = self.uses;
        assert!(row.written <= row.capacity && row.state == State::Open);
        at
    }

    /// Marks a zone busy: a command to it is issued.
    pub(crate) fn begin(&mut self, zone: u32) {
        let row = &mut self.rows[zone as usize];
        assert!(!row.busy, "zone {zone} has a command already");
        row.busy = true;
    }

    /// Handles the end of a command. A zone becomes full only when its last block is written: until
    /// then the device counts it as open.
    pub(crate) fn end(&mut self, zone: u32) {
        let row = &mut self.rows[zone as usize];
        row.busy = false;
        if row.state.is_active() && row.written == row.capacity {
            self.set(zone, State::Full);
        }
    }

    /// Ends the reservation of zones for relocated data.
    pub(crate) fn keep_none(&mut self) {
        self.rows.iter_mut().for_each(|zone| zone.kept = false);
    }

    /// Whether a command in progress will make an active zone full or closed.
    pub(crate) fn is_leaving(&self) -> bool {
        let leaves = |zone: &Zone| zone.busy && (zone.room() == 0 || zone.closing);
        self.data()
            .any(|(_, zone)| zone.state.is_active() && leaves(zone))
    }

    /// Number of blocks that can be written, without `reserve` zones: those of dead zones, and with
    /// relocation all invalid blocks, are included.
    pub(crate) fn room(&self, relocate: bool, reserve: u64) -> u64 {
        let mut room = 0;
        let mut largest = 0;
        for (_, zone) in self.data().filter(|(_, zone)| zone.state != State::Failed) {
            let within = if !zone.busy && (relocate || zone.live == 0) {
                zone.capacity - zone.live
            } else {
                zone.room()
            };
            room += u64::from(within);
            largest = largest.max(u64::from(zone.capacity));
        }
        room.saturating_sub(reserve * largest)
    }

    /// Explains why `asked` blocks are refused, while `room` are free beside the `promised` ones.
    pub(crate) fn refuse(&self, asked: u64, room: u64, promised: u64) -> NoSpace {
        let data = || self.data().map(|(_, zone)| zone);
        let total: u64 = data().map(|zone| u64::from(zone.capacity)).sum();
        let failed = data().filter(|zone| zone.state == State::Failed);
        let failed: u64 = failed
            .map(|zone| u64::from(zone.capacity - zone.live))
            .sum();
        let mut why = NoSpace::new("blocks of zones", asked, room, total);
        let mut pools: Vec<_> = data().filter_map(|zone| zone.placement).collect();
        pools.sort_unstable();
        pools.dedup();
        for pool in pools {
            let of = data().filter(|zone| zone.placement == Some(pool));
            let live: u64 = of.map(|zone| u64::from(zone.live)).sum();
            let Placement { stream, group } = pool;
            why = why.held(format!("files of stream {stream}, group {group}"), live);
        }
        why.held("what is written and still in memory", promised)
            .held("zones that failed", failed)
            .rest("what is no longer needed in zones that are, and reserves")
    }

    /// # Panics
    /// If a count is wrong.
    pub(crate) fn check(&self) {
        let count =
            |is: fn(State) -> bool| self.data().filter(|(_, zone)| is(zone.state)).count() as u32;
        assert_eq!(self.open, count(|state| state == State::Open));
        assert_eq!(self.active, count(State::is_active));
        assert_eq!(self.free, count(|state| state == State::Empty));
        assert!(self.open <= self.limits.open, "too many zones are open");
        for (number, zone) in self.rows.iter().enumerate() {
            assert!(
                zone.live <= zone.written && zone.written <= zone.capacity,
                "zone {number}"
            );
            assert_eq!(
                zone.state == State::Empty,
                zone.written == 0,
                "zone {number}"
            );
        }
    }
}
