//! The zones in the firmware's memory, and the steps on them that take no time.
//!
//! Invariants, checked by [`Table::check`]: the counts of open and active zones match the states
//! and are within the limits. The data of a zone before `settled` units are on flash, and later
//! data are in its ring. `filled` is at most the write pointer, and ahead of `issued` by less than
//! a unit unless the zone has failed.

use super::config::{MOST_UNITS, ZoneConfig, ZoneLayout};
use super::pool::Pool;
use super::rules::{OpenRoom, Room, ZoneEvent, ZoneState, ZoneStatus, transition};
use crate::layout::NONE;
use nand::{Media, Payload, Row};
use std::collections::VecDeque;

/// A sequential zone. Lengths are in sectors of 4 KiB from its start.
#[derive(Clone, Debug)]
pub(super) struct Zone {
    pub(super) state: ZoneState,
    /// Write pointer: start of the next write.
    pub(super) wp: u32,
    /// End of the data of accepted writes that are in the buffer or on flash.
    pub(super) filled: u32,
    /// Units submitted to the flash.
    pub(super) issued: u32,
    /// Units on flash, without a gap before them.
    pub(super) settled: u32,
    /// Later units on flash: bit 0 is unit `settled`.
    pub(super) done: u64,
    /// Programs that have not completed.
    pub(super) in_flight: u32,
    /// Index of the zone's buffer in `rings`, or `NONE`.
    pub(super) ring: u32,
    /// Reads of the zone's flash that have not completed; a reset waits for them.
    pub(super) readers: u32,
    /// A reset or a finish is under way: other commands wait.
    pub(super) busy: bool,
    /// A program of the zone's backup is under way.
    pub(super) backing: bool,
    /// Old backups that are being erased.
    pub(super) leaving: u32,
    /// A protected drive has accepted a reset, which survives a power cut.
    pub(super) resetting: bool,
    /// A program of the zone has failed.
    pub(super) failed: bool,
    /// Whether the zone has a random write area.
    pub(super) window: bool,
    /// Whether blocks are assigned to the zone.
    pub(super) bound: bool,
    /// Origin of the last write, as programs record it; 0 if unknown.
    pub(super) origin: u16,
    /// Backup of the zone's last, partial unit.
    pub(super) backup: Option<Backup>,
}

/// Blocks in every plane of a die with copies of the data of a partial unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backup {
    pub(super) row: Row,
    /// Programs written to the backup.
    pub(super) used: u32,
    /// End of the zone's data in the backup's newest copy, in sectors from the zone's start.
    pub(super) until: u32,
}

impl Zone {
    pub(super) const EMPTY: Self = Self {
        state: ZoneState::Empty,
        wp: 0,
        filled: 0,
        issued: 0,
        settled: 0,
        done: 0,
        in_flight: 0,
        ring: NONE,
        readers: 0,
        busy: false,
        backing: false,
        leaving: 0,
        resetting: false,
        failed: false,
        window: false,
        bound: false,
        origin: 0,
        backup: None,
    };

    /// End of the data that are on flash.
    pub(super) fn on_flash(&self, unit: u32) -> u32 {
        (self.settled * unit).min(self.filled)
    }

    /// Whether the zone was finished without any program; `capacity` is that of a zone.
    pub(super) fn is_finished_off_flash(&self, capacity: u32) -> bool {
        self.state == ZoneState::Full && self.wp < capacity && self.issued == 0
    }

    /// Records that `unit` is on flash.
    pub(super) fn settle(&mut self, unit: u32) {
        self.done |= 1 << (unit - self.settled);
        let run = self.done.trailing_ones();
        self.settled += run;
        self.done = self.done.checked_shr(run).unwrap_or(0);
    }
}

/// The buffer of a zone: a ring of sectors. Sector `at` of the zone is at `at` modulo the ring's
/// length, and a unit never wraps.
pub(super) struct Ring {
    /// Contents of the sectors; empty if contents are not kept.
    pub(super) payload: Vec<Payload>,
    /// Cause and origin of each sector.
    pub(super) marks: Vec<(u8, u16)>,
    /// For each sector: whether a sector beyond the write pointer was written.
    pub(super) written: Vec<bool>,
}

/// All sequential zones of a drive, by index.
pub(super) struct Table {
    pub(super) zones: Vec<Zone>,
    /// Blocks by zone, piece and plane; see `Table::index`.
    pub(super) blocks: Vec<u32>,
    pub(super) pool: Pool,
    pub(super) rings: Vec<Ring>,
    free_rings: Vec<u32>,
    /// Zones that a write opened, least recently opened first.
    implicit: VecDeque<u32>,
    open: u32,
    active: u32,
    /// Random write areas in use.
    pub(super) windows: u32,
    limits: ZoneConfig,
    contents: bool,
    /// Stamp of the next program.
    pub(super) sequence: u64,
    /// Scratch space for the words of the program being submitted.
    pub(super) words: Vec<u32>,
}

impl Table {
    pub(super) fn new(layout: &ZoneLayout, limits: ZoneConfig, pool: Pool, contents: bool) -> Self {
        let zones = layout.sequential() as usize;
        let blocks = zones * (layout.pieces() * layout.geometry.planes) as usize;
        Self {
            zones: vec![Zone::EMPTY; zones],
            blocks: vec![NONE; blocks],
            pool,
            rings: Vec::new(),
            free_rings: Vec::new(),
            implicit: VecDeque::new(),
            open: 0,
            active: 0,
            windows: 0,
            limits,
            contents,
            sequence: 1,
            words: Vec::with_capacity(layout.unit as usize),
        }
    }

    /// Resources left of the limits.
    pub(super) fn room(&self) -> Room {
        let below = |count: u32, limit: u32| limit == 0 || count < limit;
        let open = if below(self.open, self.limits.max_open) {
            OpenRoom::Free
        } else if self.implicit.is_empty() {
            OpenRoom::None
        } else {
            OpenRoom::ByEviction
        };
        Room {
            active: below(self.active, self.limits.max_active),
            open,
        }
    }

    /// Applies `event` to a zone; closes another zone first if the step needs that. Returns whether
    /// it did.
    pub(super) fn step(&mut self, zone: u32, event: ZoneEvent) -> Result<bool, ZoneStatus> {
        let state = self.zones[zone as usize].state;
        let step = transition(state, event, self.room())?;
        if step.evict {
            let victim = self.implicit.front().copied();
            let victim = victim.expect("the room said that there is one");
            self.step(victim, ZoneEvent::Evicted)?;
        }
        self.enter(zone, step.to);
        Ok(step.evict)
    }

    /// Sets the state of a zone, and updates the counters that depend on it.
    pub(super) fn enter(&mut self, zone: u32, to: ZoneState) {
        let from = std::mem::replace(&mut self.zones[zone as usize].state, to);
        if from == to {
            return;
        }
        self.open = self.open + u32::from(to.is_open()) - u32::from(from.is_open());
        self.active = self.active + u32::from(to.is_active()) - u32::from(from.is_active());
        if to == ZoneState::Empty {
            self.zones[zone as usize].origin = 0;
        }
        if from == ZoneState::ImplicitlyOpen {
            self.implicit.retain(|&other| other != zone);
        }
        if to == ZoneState::ImplicitlyOpen {
            self.implicit.push_back(zone);
        }
        if !to.is_active() && std::mem::take(&mut self.zones[zone as usize].window) {
            self.windows -= 1;
        }
    }

    /// The ring of a zone; attaches a free one if the zone has none.
    pub(super) fn attach_ring(&mut self, layout: &ZoneLayout, zone: u32) -> &mut Ring {
        let entry = &mut self.zones[zone as usize];
        if entry.ring == NONE {
            entry.ring = self.free_rings.pop().unwrap_or_else(|| {
                let len = layout.ring as usize;
                self.rings.push(Ring {
                    payload: vec![Payload::Zero; if self.contents { len } else { 0 }],
                    marks: vec![(0, 0); len],
                    written: vec![false; if layout.window > 0 { len } else { 0 }],
                });
                self.rings.len() as u32 - 1
            });
        }
        &mut self.rings[entry.ring as usize]
    }

    /// Releases the ring of a zone if all its data are on flash and no more can come.
    pub(super) fn release_ring(&mut self, layout: &ZoneLayout, zone: u32) {
        let entry = &mut self.zones[zone as usize];
        let rest = entry.filled > entry.on_flash(layout.unit) || entry.filled < entry.wp;
        if entry.ring == NONE || entry.state.is_active() || rest {
            return;
        }
        let ring = std::mem::replace(&mut entry.ring, NONE);
        let slot = &mut self.rings[ring as usize];
        slot.payload.fill(Payload::Zero);
        slot.written.fill(false);
        self.free_rings.push(ring);
    }

    /// Index in `blocks` of plane 0 of a piece.
    fn index(layout: &ZoneLayout, zone: u32, piece: u32) -> usize {
        ((zone * layout.pieces() + piece) * layout.geometry.planes) as usize
    }

    /// Page `page` of a piece of a zone, in every plane.
    #[inline]
    pub(super) fn row(&self, layout: &ZoneLayout, zone: u32, piece: u32, page: u32) -> Row {
        let planes = layout.geometry.planes as usize;
        let index = Self::index(layout, zone, piece);
        let mut row = Row {
            die: layout.die(zone + layout.conventional, piece),
            page,
            blocks: [0; nand::MAX_PLANES],
            planes: ((1_u32 << planes) - 1) as u8,
        };
        row.blocks[..planes].copy_from_slice(&self.blocks[index..index + planes]);
        row
    }

    /// Assigns the blocks of `row` to a piece of a zone.
    pub(super) fn set_piece(&mut self, layout: &ZoneLayout, zone: u32, piece: u32, row: &Row) {
        let planes = layout.geometry.planes as usize;
        let index = Self::index(layout, zone, piece);
        self.blocks[index..index + planes].copy_from_slice(&row.blocks[..planes]);
    }

    /// Whether blocks are assigned to a piece of a zone.
    pub(super) fn has_piece(&self, layout: &ZoneLayout, zone: u32, piece: u32) -> bool {
        self.blocks[Self::index(layout, zone, piece)] != NONE
    }

    /// Assigns erased blocks to all pieces of a zone that have none.
    pub(super) fn bind(&mut self, layout: &ZoneLayout, media: &Media, zone: u32) {
        for piece in 0..layout.pieces() {
            if self.has_piece(layout, zone, piece) {
                continue;
            }
            let die = layout.die(zone + layout.conventional, piece);
            let row = self.pool.take(layout, media, die);
            let row = row.expect("a plane has blocks for every zone of its group");
            self.set_piece(layout, zone, piece, &row);
        }
        self.zones[zone as usize].bound = true;
    }

    /// Takes all blocks from a zone; returns one row for each piece that had blocks, in order.
    pub(super) fn unbind(&mut self, layout: &ZoneLayout, zone: u32) -> Vec<Row> {
        let pieces = (0..layout.pieces()).filter(|&piece| self.has_piece(layout, zone, piece));
        let rows = pieces
            .map(|piece| self.row(layout, zone, piece, 0))
            .collect();
        let first = Self::index(layout, zone, 0);
        let last = Self::index(layout, zone + 1, 0);
        self.blocks[first..last].fill(NONE);
        self.zones[zone as usize].bound = false;
        rows
    }

    /// Zones of `group` that are not offline.
    fn alive(&self, layout: &ZoneLayout, group: u32) -> impl Iterator<Item = u32> + use<'_> {
        let groups = layout.groups as usize;
        let zones = (0..self.zones.len()).skip(group as usize).step_by(groups);
        let alive = move |zone: &usize| self.zones[*zone].state != ZoneState::Offline;
        zones.filter(alive).map(|zone| zone as u32)
    }

    /// A zone of `group` for which no blocks are left: `first` if it has none assigned, otherwise
    /// the last such zone. `None` if there are blocks for all zones.
    pub(super) fn zone_without_blocks(
        &self,
        layout: &ZoneLayout,
        group: u32,
        first: u32,
    ) -> Option<u32> {
        let dies = group * layout.width..(group + 1) * layout.width;
        let good = self.pool.fewest_good(layout, dies);
        if self.alive(layout, group).count() as u32 * layout.depth <= good {
            return None;
        }
        let unbound = |&zone: &u32| !self.zones[zone as usize].bound;
        let is_first = self
            .alive(layout, group)
            .filter(unbound)
            .find(|&z| z == first);
        is_first.or_else(|| self.alive(layout, group).filter(unbound).last())
    }

    /// Blocks that a backup may take on `die`: those that no zone will need.
    pub(super) fn surplus(&self, layout: &ZoneLayout, die: u32) -> u32 {
        let unbound = |&zone: &u32| !self.zones[zone as usize].bound;
        let waiting = self.alive(layout, die / layout.width).filter(unbound);
        let needed = waiting.count() as u32 * layout.depth;
        self.pool.free_of(layout, die).saturating_sub(needed)
    }

    /// Numbers of open zones and of active zones.
    pub(super) fn counts(&self) -> (u32, u32) {
        (self.open, self.active)
    }

    /// Panics if an invariant does not hold.
    pub(super) fn check(&self, layout: &ZoneLayout) {
        let count = |is: fn(ZoneState) -> bool| {
            let zones = self.zones.iter();
            zones.filter(|zone| is(zone.state)).count() as u32
        };
        let counted = (count(ZoneState::is_open), count(ZoneState::is_active));
        assert_eq!((self.open, self.active), counted, "open and active zones");
        for (limit, is) in [
            (self.limits.max_open, self.open),
            (self.limits.max_active, self.active),
        ] {
            assert!(limit == 0 || is <= limit, "{is} of {limit} zones");
        }
        let windows = self.zones.iter().filter(|zone| zone.window).count();
        assert_eq!(self.windows as usize, windows, "random write areas");
        for (number, zone) in self.zones.iter().enumerate() {
            let sound = zone.wp <= layout.capacity
                && zone.filled <= zone.wp
                && zone.settled <= zone.issued
                && zone.issued - zone.settled <= MOST_UNITS
                && zone.on_flash(layout.unit) + layout.ring >= zone.filled;
            assert!(sound, "zone {number}: {zone:?}");
            let pieces = (0..layout.pieces()).filter(|&p| self.has_piece(layout, number as u32, p));
            // A failed zone keeps the pieces that it had at power-on, and gets no more.
            let some = zone.failed && zone.bound;
            let want = if zone.bound { layout.pieces() } else { 0 };
            let count = pieces.count() as u32;
            assert!(count == want || some, "blocks of zone {number}");
        }
        let held = self.blocks.iter().filter(|&&block| block != NONE).count();
        let backups = self
            .zones
            .iter()
            .filter(|zone| zone.backup.is_some())
            .count();
        let held = held + backups * layout.geometry.planes as usize;
        assert!(
            self.pool.free() + held <= self.pool.good() + self.bad_but_held(),
            "more blocks are free and held than there are"
        );
    }

    /// Upper bound of the blocks of failed zones: they are bad, and still read.
    fn bad_but_held(&self) -> usize {
        let failed = self
            .zones
            .iter()
            .filter(|zone| zone.failed || zone.state == ZoneState::ReadOnly);
        failed.count() * self.blocks.len() / self.zones.len().max(1)
    }
}
