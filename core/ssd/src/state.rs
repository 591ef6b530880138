//! The firmware's memory and the steps on it that take no time.
//!
//! Invariants, defended by [`State::check`]: a page of the map is nowhere, in one
//! slot, or on one valid flash page; the valid pages of a line are those that the
//! map, or a slot that supersedes them, points to; a slot in a frontier's queue
//! is pending or dropped.

use crate::buffer::{Slot, SlotState, Slots};
use crate::config::DriveConfig;
use crate::copies::Listeners;
use crate::demand::Deaths;
use crate::forget::Superseded;
use crate::frontier::{Frontier, Kind};
use crate::inflight::InFlight;
use crate::layout::{Layout, NONE};
use crate::ledger::{Cause, Ledger};
use crate::line::{Line, LineState, LineView, Lines};
use crate::map::{Map, Where};
use nand::Payload;
use units::Ns;

/// One program, as issued.
pub(crate) struct Issue {
    pub(crate) frontier: usize,
    pub(crate) line: u32,
    pub(crate) unit: u32,
    pub(crate) sequence: u64,
    pub(crate) slots: Vec<u32>,
}

pub(crate) struct State {
    pub(crate) map: Map,
    pub(crate) lines: Lines,
    pub(crate) slots: Slots,
    pub(crate) frontiers: Vec<Frontier>,
    pub(crate) in_flight: InFlight,
    pub(crate) deaths: Deaths,
    pub(crate) superseded: Superseded,
    /// Who is told of what is copied.
    pub(crate) listeners: Listeners,
    pub(crate) ledger: Ledger,
    /// Block of each line, die of its group and plane.
    pub(crate) blocks: Vec<u32>,
    /// Blocks that replace bad ones, by die and plane.
    pub(crate) spares: Vec<Vec<u32>>,
    /// Sequence numbers of failed programs whose next try waits for a line, by group.
    pub(crate) retries: Vec<usize>,
    /// Frontiers that wait for a free line, by group.
    pub(crate) stalled: Vec<u32>,
    /// Tasks that wait so for the host, and since when any does.
    pub(crate) stalled_hosts: u32,
    pub(crate) stalled_since: Ns,
    /// How full each group is; not kept where there is only one.
    pub(crate) loads: Vec<Load>,
    /// Most erases of any line.
    pub(crate) most_erases: u32,
}

/// How full a group was when a line of it was last opened for the host.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Load {
    /// Pages that it holds, or will when its open lines and the buffer are full.
    pub(crate) pages: u64,
    /// Whether it could not hold them all: new data go elsewhere.
    pub(crate) is_full: bool,
}

/// A new version of a page, on its way into the buffer.
#[derive(Clone, Copy)]
pub(crate) struct Incoming {
    pub(crate) page: u32,
    pub(crate) frontier: usize,
    pub(crate) cause: Cause,
    pub(crate) tag: u16,
}

impl State {
    /// Puts a new version of a page into the buffer. Gives its slot and whether
    /// the slot is a new one.
    #[inline]
    pub(crate) fn insert(&mut self, new: Incoming) -> (u32, bool) {
        let before = self.map.get(new.page);
        if let Where::Buffer(index) = before {
            let slot = self.slots.get_mut(index);
            if slot.state == SlotState::Pending {
                slot.tag = new.tag;
                self.map.touch(new.page);
                return (index, false);
            }
        }
        let (old, bare_since) = match before {
            Where::Nowhere => (NONE, self.slots.next_serial()),
            Where::Flash(place) => (place, 0),
            Where::Buffer(index) => {
                let issued = self.slots.get(index);
                (issued.place, issued.bare_since)
            }
        };
        let index = self.slots.add(Slot {
            state: SlotState::Pending,
            moved: false,
            cause: new.cause as u8,
            tag: new.tag,
            page: new.page,
            old,
            place: NONE,
            successor: NONE,
            successor_serial: 0,
            bare_since,
            serial: 0,
        });
        if let Where::Buffer(issued) = before {
            self.slots.link(issued, index);
        }
        self.lines.prefetch_valid(old);
        self.map.set(new.page, Where::Buffer(index));
        self.frontiers[new.frontier].pending.push_back(index);
        (index, true)
    }

    /// Queues a copy of the valid page at `from`.
    pub(crate) fn insert_moved(
        &mut self,
        frontier: usize,
        page: u32,
        from: u32,
        cause: Cause,
        tag: u16,
    ) -> u32 {
        let index = self.slots.add(Slot {
            state: SlotState::Pending,
            moved: true,
            cause: cause as u8,
            tag,
            page,
            old: from,
            place: NONE,
            successor: NONE,
            successor_serial: 0,
            bare_since: 0,
            serial: 0,
        });
        self.frontiers[frontier].copies.push_back(index);
        index
    }

    /// Takes back what the host deallocated: the page is nowhere, and its version
    /// on flash is invalid. True if a pending slot was dropped with it.
    pub(crate) fn forget(&mut self, layout: &Layout, page: u32) -> bool {
        let mut dropped = false;
        match self.map.get(page) {
            Where::Nowhere => return false,
            Where::Flash(place) => self.expire(layout, place),
            Where::Buffer(index) => {
                let slot = *self.slots.get(index);
                if slot.state == SlotState::Pending {
                    self.expire(layout, slot.old);
                    self.slots.get_mut(index).state = SlotState::Dropped;
                    dropped = true;
                } else {
                    self.expire(layout, slot.place);
                }
            }
        }
        self.map.set(page, Where::Nowhere);
        dropped
    }

    #[inline]
    pub(crate) fn invalidate(&mut self, layout: &Layout, place: u32) {
        if place != NONE {
            let (line, _) = layout.line_of(place);
            self.lines.clear_valid(line, place);
        }
    }

    /// The same for a page that the host has overwritten or deallocated.
    #[inline]
    fn expire(&mut self, layout: &Layout, place: u32) {
        if place != NONE {
            let (line, _) = layout.line_of(place);
            if let Some(frontier) = self.lines.clear_valid(line, place) {
                self.deaths.count(frontier);
            }
        }
    }

    /// Whether a slot still has to be written when its turn comes.
    #[inline]
    fn is_live(&self, index: u32) -> bool {
        let slot = self.slots.get(index);
        match slot.state {
            SlotState::Pending if slot.moved => self.lines.is_valid(slot.old),
            SlotState::Pending => true,
            _ => false,
        }
    }

    /// Host pages of which flash holds no version that counts, whatever stale ones
    /// lie about: those that are nowhere, and those whose only versions are still
    /// on their way. Ascending.
    pub(crate) fn without_version(&self, host_pages: u32) -> Vec<u32> {
        let is_bare = |&page: &u32| match self.map.get(page) {
            Where::Nowhere => true,
            Where::Flash(_) => false,
            Where::Buffer(index) => self.slots.get(index).bare_since != 0,
        };
        (0..host_pages).filter(is_bare).collect()
    }

    /// Takes up to `room` live slots from the queues of a frontier, copies first;
    /// dead ones on the way go to `dead`.
    pub(crate) fn gather(&mut self, frontier: usize, room: usize, dead: &mut Vec<u32>) -> Vec<u32> {
        let mut slots = Vec::with_capacity(room);
        while slots.len() < room {
            let Some(index) = self.frontiers[frontier].next_slot() else {
                break;
            };
            if self.is_live(index) {
                slots.push(index);
            } else {
                dead.push(index);
            }
        }
        slots
    }

    /// Puts slots that were gathered back where they came from.
    pub(crate) fn put_back(&mut self, frontier: usize, slots: &[u32]) {
        let queue = &mut self.frontiers[frontier];
        for &slot in slots.iter().rev() {
            if self.slots.get(slot).moved {
                queue.copies.push_front(slot);
            } else {
                queue.pending.push_front(slot);
            }
        }
    }

    /// Gives a slot its place on flash: the instant at which the versions before
    /// it are forgotten.
    #[inline]
    pub(crate) fn place_slot(&mut self, layout: &Layout, index: u32, line: u32, place: u32) {
        let slot = *self.slots.get(index);
        if slot.moved {
            self.invalidate(layout, slot.old);
        } else {
            self.expire(layout, slot.old);
        }
        self.superseded.add(slot.old, self.in_flight.next());
        self.lines.set_valid(line, place);
        if slot.moved {
            match self.map.get(slot.page) {
                // A newer version waits behind this copy and supersedes it.
                Where::Buffer(newer) if newer != index => {
                    self.slots.get_mut(newer).old = place;
                    self.slots.link(index, newer);
                }
                _ => self.map.set(slot.page, Where::Buffer(index)),
            }
        } else if slot.successor != NONE {
            // Issued again after a failure, with a newer version already there.
            self.slots.get_mut(slot.successor).old = place;
        }
        let slot = self.slots.get_mut(index);
        slot.state = SlotState::Issued;
        slot.place = place;
        slot.old = NONE;
    }

    /// The program of a slot has completed: the map points to flash, unless
    /// something newer is there, which has a version before it on flash from now on
    /// if the page was not deallocated in between.
    #[inline]
    pub(crate) fn settle_slot(&mut self, index: u32) {
        let slot = *self.slots.get(index);
        match self.map.get(slot.page) {
            Where::Buffer(newest) if newest == index => {
                self.map.set(slot.page, Where::Flash(slot.place));
            }
            Where::Buffer(newest) => {
                let newest = self.slots.get_mut(newest);
                if slot.serial >= newest.bare_since {
                    newest.bare_since = 0;
                }
            }
            _ => {}
        }
        self.slots.release(index);
    }

    /// The unit that an open line takes next, if it has one for data on a die
    /// that still works in it. Holes are filled first: the pages behind them on
    /// their die must wait for them.
    pub(crate) fn peek_unit(&self, layout: &Layout, line: u32) -> Option<u32> {
        let entry = &self.lines.lines[line as usize];
        let live = |unit: &u32| {
            entry.dead_dies.is_empty() || !entry.dead_dies.contains(&layout.die_in_group(*unit))
        };
        let holes = entry.holes.iter().rev().copied();
        holes.chain(entry.issued..layout.data_units()).find(live)
    }

    /// Takes the unit that [`State::peek_unit`] names.
    pub(crate) fn next_unit(&mut self, layout: &Layout, line: u32) -> Option<u32> {
        let unit = self.peek_unit(layout, line)?;
        let entry = &mut self.lines.lines[line as usize];
        if let Some(hole) = entry.holes.iter().position(|&hole| hole == unit) {
            entry.holes.truncate(hole);
        } else {
            entry.holes.clear();
            entry.issued = unit + 1;
        }
        Some(unit)
    }

    /// Pages that the next unit of a line takes; none if it is full.
    pub(crate) fn room(&self, layout: &Layout, line: u32) -> Option<usize> {
        let unit = self.peek_unit(layout, line)?;
        let left = layout.line_data - unit * layout.unit;
        Some(left.min(layout.unit) as usize)
    }

    /// Whether the newest version of a page waits in the buffer, where it can be
    /// replaced.
    #[inline]
    pub(crate) fn is_pending(&self, page: u32) -> bool {
        match self.map.get(page) {
            Where::Buffer(index) => self.slots.get(index).state == SlotState::Pending,
            _ => false,
        }
    }

    /// Lines of a group that may be collected.
    pub(crate) fn candidates(&self, layout: &Layout, group: u32) -> impl Iterator<Item = LineView> {
        let first = group * layout.lines_per_group;
        let now = self.in_flight.next();
        let journal = |frontier: u16| self.frontiers[usize::from(frontier)].kind == Kind::Journal;
        (first..first + layout.lines_per_group)
            .map(|line| (line, &self.lines.lines[line as usize]))
            .filter(move |(_, entry)| {
                entry.state == LineState::Closed && entry.in_flight == 0 && !journal(entry.frontier)
            })
            .map(move |(line, entry)| LineView {
                line,
                valid: entry.valid,
                pages: layout.line_data,
                age: now - entry.closed,
                erases: entry.erases,
            })
    }

    /// Programs issued since `line` was closed; 0 while it is open.
    pub(crate) fn age(&self, line: u32) -> u64 {
        let line = &self.lines.lines[line as usize];
        match line.state {
            LineState::Open => 0,
            _ => self.in_flight.next() - line.closed,
        }
    }

    /// Frontiers of a group that moved data of handles may go to, given whose
    /// lines there are, who waits for one, and `newcomer`. Who waits counts before
    /// it has a line: collection must free as many as it will be asked to leave.
    pub(crate) fn movers(
        &self,
        layout: &Layout,
        config: &DriveConfig,
        group: u32,
        newcomer: Option<Kind>,
    ) -> u32 {
        if layout.movers(config) == 1 {
            return 1;
        }
        let lines = self.lines_of(layout, group).iter();
        let used = lines.filter(|line| line.state != LineState::Free);
        let kinds = used.map(|line| self.frontiers[usize::from(line.frontier)].kind);
        let waiting = |f: &&Frontier| f.group == group && f.waits > 0;
        let waiting = self.frontiers.iter().filter(waiting).map(|f| f.kind);
        let mut active = vec![false; layout.handles as usize];
        for kind in kinds.chain(waiting).chain(newcomer) {
            if let Kind::Host(handle) | Kind::Moved(handle) = kind {
                active[handle as usize] = true;
            }
        }
        let movers = active.iter().filter(|&&is| is).count() as u32;
        movers.max(1)
    }

    /// Finds out how full a group is, at the instants at which that is bound to
    /// change: between two of them it takes no more than its open lines have room
    /// for, and what the buffer holds besides. So it never holds more than
    /// [`Layout::most_valid`] says. And some group always has room, since
    /// `Layout::new` sees to it that they hold the host's data with as much to
    /// spare in each.
    pub(crate) fn weigh(&mut self, layout: &Layout, config: &DriveConfig, group: u32) {
        if layout.groups == 1 {
            return;
        }
        let for_map = |kind| matches!(kind, Kind::Map | Kind::MovedMap);
        let data = self
            .lines_of(layout, group)
            .iter()
            .filter(|line| !for_map(self.frontiers[usize::from(line.frontier)].kind));
        let pages = |line: &Line| {
            let kind = self.frontiers[usize::from(line.frontier)].kind;
            let room = match (line.state, kind) {
                (LineState::Open, Kind::Host(_)) => layout.line_data - line.issued * layout.unit,
                _ => 0,
            };
            u64::from(line.valid + room)
        };
        let map = if group == 0 { layout.map_pages } else { 0 };
        let pages = data.map(pages).sum::<u64>() + u64::from(map + layout.buffer_pages);
        let is_full = pages > layout.most_valid(config, layout.lines_per_group);
        self.loads[group as usize] = Load { pages, is_full };
    }

    /// Lines of a group whose collection hangs on copies that do not fill a unit.
    pub(crate) fn hanging(&self, layout: &Layout, group: u32) -> u32 {
        let left_over = |f: &&Frontier| {
            let idle = f.waiting() < layout.unit as usize || f.waits > 0;
            f.group == group && idle && !f.has_copies(layout.unit)
        };
        let copies = self.frontiers.iter().filter(left_over);
        let copies = copies.flat_map(|f| f.copies.iter());
        let mut lines: Vec<u32> = copies
            .filter(|&&copy| self.is_live(copy))
            .map(|&copy| layout.line_of(self.slots.get(copy).old).0)
            .collect();
        lines.sort_unstable();
        lines.dedup();
        lines.len() as u32
    }

    pub(crate) fn lines_of(&self, layout: &Layout, group: u32) -> &[Line] {
        let first = (group * layout.lines_per_group) as usize;
        &self.lines.lines[first..first + layout.lines_per_group as usize]
    }

    /// Whether a line of a group is being erased.
    pub(crate) fn is_erasing(&self, layout: &Layout, group: u32) -> bool {
        let mut lines = self.lines_of(layout, group).iter();
        lines.any(|line| line.state == LineState::Erasing)
    }

    /// Of a group without free lines, in which nothing is programmed or erased:
    /// whether no copy can be written, and no line can become free without.
    pub(crate) fn is_lost(&self, layout: &Layout, group: u32) -> bool {
        let coming = |line: &Line| {
            line.readers > 0 || (line.state == LineState::Collecting && line.valid == 0)
        };
        let mut lines = self.lines_of(layout, group).iter();
        let copying = |f: &&Frontier| f.group == group && !f.copies.is_empty();
        let mut copying = self.frontiers.iter().filter(copying);
        copying.all(|f| f.open == NONE) && !lines.any(coming)
    }

    /// Whether nothing is being programmed or erased, and failed programs wait for
    /// lines that will not come.
    pub(crate) fn is_stuck(&self, layout: &Layout) -> bool {
        let waiting: usize = self.retries.iter().sum();
        let settled = self.in_flight.settled;
        let coming = |line: &Line| match line.state {
            LineState::Erasing => true,
            LineState::Collecting => {
                line.readers > 0 || (line.erase_after > 0 && line.erase_after <= settled)
            }
            _ => false,
        };
        let none = |group: u32| {
            self.retries[group as usize] == 0
                || (self.lines.free_count(group) == 0
                    && !self.lines_of(layout, group).iter().any(coming))
        };
        waiting > 0 && self.in_flight.unfinished() == waiting && (0..layout.groups).all(none)
    }

    /// Whether a line of a group is closed that cannot be collected yet.
    pub(crate) fn is_closing(&self, layout: &Layout, group: u32) -> bool {
        let lines = self.lines_of(layout, group).iter();
        let mut closed = lines.filter(|line| line.state == LineState::Closed);
        closed.any(|line| line.in_flight > 0)
    }

    /// Lines of a group that are being collected or erased.
    pub(crate) fn reclaiming(&self, layout: &Layout, group: u32) -> u32 {
        let busy = |state| matches!(state, LineState::Collecting | LineState::Erasing);
        let lines = self.lines_of(layout, group).iter();
        lines.filter(|line| busy(line.state)).count() as u32
    }

    /// Index of a line's block in the table of blocks.
    #[inline]
    pub(crate) fn block_index(layout: &Layout, line: u32, die_in_group: u32) -> usize {
        ((line * layout.dies_per_group + die_in_group) * layout.geometry.planes) as usize
    }

    /// The blocks of a line on one die of its group.
    #[inline]
    pub(crate) fn line_blocks(&self, layout: &Layout, line: u32, die_in_group: u32) -> &[u32] {
        let first = Self::block_index(layout, line, die_in_group);
        &self.blocks[first..first + layout.geometry.planes as usize]
    }

    /// Copies contents into a slot.
    pub(crate) fn set_payload(&mut self, index: u32, sector: usize, payload: Payload) {
        if let Some(kept) = self.slots.payload_mut(index).get_mut(sector) {
            *kept = payload;
        }
    }

    /// Bytes of host memory per mapped page that the map and the validity of
    /// flash pages take.
    pub(crate) fn memory(&self) -> usize {
        self.map.memory() + self.lines.memory() + self.blocks.len() * 4
    }

    /// Panics if an invariant does not hold.
    pub(crate) fn check(&self, layout: &Layout) {
        let mut pointed = vec![0_u32; self.lines.lines.len()];
        let issued = self.slots.in_use();
        let issued = issued.filter(|(_, slot)| slot.state == SlotState::Issued);
        let on_their_way: Vec<u32> = issued.map(|(_, slot)| slot.place).collect();
        let mut point = |place: u32, by: &str| {
            if place != NONE && self.lines.is_valid(place) {
                pointed[layout.line_of(place).0 as usize] += 1;
            } else {
                assert!(place == NONE, "{by} points to invalid flash page {place}");
            }
        };
        for page in 0..self.map.len() {
            match self.map.get(page) {
                Where::Nowhere => {}
                Where::Flash(place) => point(place, "the map"),
                Where::Buffer(index) => {
                    let slot = self.slots.get(index);
                    assert_eq!(slot.page, page, "slot {index} holds another page");
                    point(slot.old, "a pending slot");
                    point(slot.place, "an issued slot");
                    let bare = slot.old == NONE || on_their_way.contains(&slot.old);
                    assert!(bare || slot.bare_since == 0, "page {page} is on flash");
                }
            }
        }
        for (line, entry) in self.lines.lines.iter().enumerate() {
            assert_eq!(entry.valid, pointed[line], "valid pages of line {line}");
        }
    }
}
