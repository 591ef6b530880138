//! The firmware's memory, and the steps on it that take no time.
//!
//! Invariants, checked by [`State::check`]: a page of the map is unmapped, in one slot, or on one
//! valid flash page. The valid pages of a line are those that the map points to, or a slot that
//! supersedes them. A slot in a frontier's queue is pending or dropped.

use crate::buffer::{Slot, SlotState, Slots};
use crate::config::DriveConfig;
use crate::copies::Listeners;
use crate::demand::Deaths;
use crate::forget::Superseded;
use crate::frontier::{Frontier, Kind};
use crate::inflight::InFlight;
use crate::layout::{Layout, NONE};
use crate::ledger::{Cause, Ledger};
use crate::line::{Line, LineState, Lines};
use crate::map::{Map, Where};
use crate::policy::{self, LineView};
use nand::Payload;
use units::Ns;

/// A program as issued: its line, unit, sequence number and slots.
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
    /// Receivers of notes about copies.
    pub(crate) listeners: Listeners,
    pub(crate) ledger: Ledger,
    /// Blocks by line, die in the group, and plane; see [`State::block_index`].
    pub(crate) blocks: Vec<u32>,
    /// Blocks that replace bad ones, by die and plane.
    pub(crate) spares: Vec<Vec<u32>>,
    /// Failed programs whose retry waits for a line, by group.
    pub(crate) retries: Vec<usize>,
    /// Tasks that wait for a free line, by group.
    pub(crate) stalled: Vec<u32>,
    /// Tasks of host frontiers that wait for a free line, and the time since when there are any.
    pub(crate) stalled_hosts: u32,
    pub(crate) stalled_since: Ns,
    /// Fill level of each group; not maintained with a single group.
    pub(crate) loads: Vec<Load>,
    /// Highest erase count of any line.
    pub(crate) most_erases: u32,
}

/// Fill level of a group when a line was last opened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Load {
    /// Pages that the group holds once its open host lines and the buffer are full.
    pub(crate) pages: u64,
    /// Whether `pages` exceeds the room of the group: new data then go to another group.
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
    /// Puts a new version of a page into the buffer. Returns its slot, and whether the slot is a
    /// new one.
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

    /// Queues a copy of the valid page at `from`, and returns its slot.
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

    /// Unmaps a page that the host deallocated, and invalidates its version on flash. Returns
    /// whether a pending slot was dropped.
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

    /// As [`State::invalidate`], for a page that the host overwrote or deallocated: also counts its
    /// death.
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

    /// Runs of host pages without a valid version on flash, whatever stale versions exist: unmapped
    /// pages, and pages whose only versions are still on their way. Ascending, as first page and
    /// count.
    pub(crate) fn without_version(&self, host_pages: u32) -> Vec<(u32, u32)> {
        self.map.bare(host_pages, |place| match place {
            Where::Nowhere => true,
            Where::Flash(_) => false,
            Where::Buffer(index) => self.slots.get(index).bare_since != 0,
        })
    }

    /// Moves up to `room` live slots from the queues of a frontier to `slots`, copies first; dead
    /// slots on the way are added to `dead`.
    pub(crate) fn gather(
        &mut self,
        frontier: usize,
        room: usize,
        slots: &mut Vec<u32>,
        dead: &mut Vec<u32>,
    ) {
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
    }

    /// Returns gathered slots to the front of their queues.
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

    /// Gives a slot its place on flash. At this instant the earlier versions of its page become
    /// invalid.
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
            match self.map.slot(slot.page) {
                // A newer version waits behind this copy and supersedes it.
                Some(newer) if newer != index => {
                    self.slots.get_mut(newer).old = place;
                    self.slots.link(index, newer);
                }
                _ => self.map.set(slot.page, Where::Buffer(index)),
            }
        } else if slot.successor != NONE {
            // Issued again after a failure, while a newer version already waits.
            self.slots.get_mut(slot.successor).old = place;
        }
        let slot = self.slots.get_mut(index);
        slot.state = SlotState::Issued;
        slot.place = place;
        slot.old = NONE;
    }

    /// Handles the completion of a slot's program. The map points to flash then, unless a newer
    /// version is in the buffer: that one is marked as having a version on flash, provided the page
    /// was not deallocated in between.
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

    /// The next unit of an open line, on a die without failed programs in the line; `None` if no
    /// data unit is left. Holes come first: later pages on their die must wait for them.
    pub(crate) fn peek_unit(&self, layout: &Layout, line: u32) -> Option<u32> {
        let entry = &self.lines.lines[line as usize];
        let live = |unit: &u32| {
            entry.dead_dies.is_empty() || !entry.dead_dies.contains(&layout.die_in_group(*unit))
        };
        let holes = entry.holes.iter().rev().copied();
        holes.chain(entry.issued..layout.data_units()).find(live)
    }

    /// Takes the unit that [`State::peek_unit`] returns.
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

    /// Mapped pages that the next unit of a line takes; `None` if the line is full.
    pub(crate) fn room(&self, layout: &Layout, line: u32) -> Option<usize> {
        let unit = self.peek_unit(layout, line)?;
        let left = layout.line_data - unit * layout.unit;
        Some(left.min(layout.unit) as usize)
    }

    /// Whether the newest version of a page is pending in the buffer, where it can be replaced in
    /// place.
    #[inline]
    pub(crate) fn is_pending(&self, page: u32) -> bool {
        let slot = self.map.slot(page);
        slot.is_some_and(|index| self.slots.get(index).state == SlotState::Pending)
    }

    /// Views of the lines of a group that may be collected.
    pub(crate) fn candidates(&self, layout: &Layout, group: u32) -> impl Iterator<Item = LineView> {
        let first = group * layout.lines_per_group;
        (first..first + layout.lines_per_group)
            .filter(|&line| self.lines.is_candidate(line))
            .map(|line| self.view(layout, line))
    }

    /// For each pool of a group, the line that the victim policy chooses in it.
    pub(crate) fn pool_victims(
        &self,
        layout: &Layout,
        group: u32,
    ) -> impl Iterator<Item = Option<LineView>> {
        let victims = self.lines.pool_victims(group, self.in_flight.next());
        victims.map(|line| line.map(|line| self.view(layout, line)))
    }

    /// The candidate of a group with the fewest erases; `None` without static wear levelling.
    pub(crate) fn least_worn(&self, layout: &Layout, group: u32) -> Option<LineView> {
        let line = self.lines.least_worn(group)?;
        Some(self.view(layout, line))
    }

    fn view(&self, layout: &Layout, line: u32) -> LineView {
        let entry = &self.lines.lines[line as usize];
        LineView {
            line,
            valid: entry.valid,
            pages: layout.line_data,
            age: self.in_flight.next() - entry.closed,
            erases: entry.erases,
        }
    }

    /// Programs issued since `line` was closed; 0 while it is open.
    pub(crate) fn age(&self, line: u32) -> u64 {
        let line = &self.lines.lines[line as usize];
        match line.state {
            LineState::Open => 0,
            _ => self.in_flight.next() - line.closed,
        }
    }

    /// Frontiers of a group that may take relocated data of handles: counted are the handles of
    /// lines in use, of frontiers that wait for a line or hold copies, and of `newcomer`, because
    /// collection must leave as many free lines as there will be movers. Where handles mix, two of
    /// them may have a hot and a cold one.
    pub(crate) fn movers(
        &self,
        layout: &Layout,
        config: &DriveConfig,
        group: u32,
        newcomer: Option<Kind>,
    ) -> u32 {
        let (most, isolated) = (layout.movers, config.placement.persistently_isolated);
        if most == 1 {
            return 1;
        }
        let lines = self.lines_of(layout, group).iter();
        let used = lines.filter(|line| line.state != LineState::Free);
        let kinds = used.map(|line| self.frontiers[usize::from(line.frontier)].kind);
        let waiting = |f: &&Frontier| f.group == group && (f.waits > 0 || !f.copies.is_empty());
        let waiting = self.frontiers.iter().filter(waiting).map(|f| f.kind);
        let mut active = vec![false; layout.handles as usize];
        for kind in kinds.chain(waiting).chain(newcomer) {
            match kind {
                Kind::Host(handle) => active[handle as usize] = true,
                Kind::Moved(handle) if isolated => active[handle as usize] = true,
                // Data that were hot stay apart, and those of any handle may move beside them.
                Kind::Moved(1) => return most,
                _ => {}
            }
        }
        let movers = active.iter().filter(|&&is| is).count() as u32;
        movers.clamp(1, most)
    }

    /// Updates the fill level of a group. The level is recomputed whenever one of its lines is
    /// opened: until the next time, the group takes no more than its open lines and the buffer
    /// hold. So it never holds more than [`Layout::most_valid`] allows. Some group always has room,
    /// because `Layout::new` checks that the groups hold the host's data with that much to spare in
    /// each.
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

    /// Lines of a group whose collection waits for copies that do not fill a unit.
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

    /// Whether a group can neither write copies nor free a line without them. Only valid for a
    /// group without free lines in which no program or erase is under way.
    pub(crate) fn is_lost(&self, layout: &Layout, group: u32) -> bool {
        let coming = |line: &Line| {
            line.readers > 0 || (line.state == LineState::Collecting && line.valid == 0)
        };
        let mut lines = self.lines_of(layout, group).iter();
        let copying = |f: &&Frontier| f.group == group && !f.copies.is_empty();
        let mut copying = self.frontiers.iter().filter(copying);
        copying.all(|f| f.open == NONE) && !lines.any(coming)
    }

    /// Whether failed programs wait for lines that will never be free: nothing else is under way,
    /// and no line is being erased or about to be.
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

    /// Whether a task waits for a free line, or for the end of a forced write.
    pub(crate) fn has_waiting(&self) -> bool {
        let mut frontiers = self.frontiers.iter();
        self.stalled.iter().any(|&tasks| tasks > 0)
            || self.retries.iter().any(|&programs| programs > 0)
            || frontiers.any(|frontier| frontier.forced > 0)
    }

    /// Index in `blocks` of the first plane of a line on one die.
    #[inline]
    pub(crate) fn block_index(layout: &Layout, line: u32, die_in_group: u32) -> usize {
        ((line * layout.dies_per_group + die_in_group) * layout.geometry.planes) as usize
    }

    /// The blocks of a line on one die of its group, one for each plane.
    #[inline]
    pub(crate) fn line_blocks(&self, layout: &Layout, line: u32, die_in_group: u32) -> &[u32] {
        let first = Self::block_index(layout, line, die_in_group);
        &self.blocks[first..first + layout.geometry.planes as usize]
    }

    /// Sets the contents of one sector of a slot; ignored if contents are not kept.
    pub(crate) fn set_payload(&mut self, index: u32, sector: usize, payload: Payload) {
        if let Some(kept) = self.slots.payload_mut(index).get_mut(sector) {
            *kept = payload;
        }
    }

    /// Bytes of host memory that map, lines and block table take.
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
        for group in 0..layout.groups {
            self.check_victims(layout, group);
        }
    }

    /// Panics unless the index of victims chooses as a scan of all lines of a group does.
    fn check_victims(&self, layout: &Layout, group: u32) {
        let policy = self.lines.victim_policy();
        let indexed = policy::victim(policy, self.pool_victims(layout, group).flatten());
        let scanned = policy::victim(policy, self.candidates(layout, group));
        assert_eq!(indexed, scanned, "victim of group {group}");
        if let Some(least) = self.least_worn(layout, group) {
            let lines = self.candidates(layout, group);
            let scanned = lines.min_by_key(|view| (view.erases, view.line));
            assert_eq!(Some(least), scanned, "least worn line of group {group}");
        }
        let pools = self.lines.pools(group).iter();
        let valid: u64 = pools.map(|pool| pool.valid).sum();
        let lines = self.lines_of(layout, group).iter();
        let counted = lines.filter(|line| line.pool != NONE);
        let counted: u64 = counted.map(|line| u64::from(line.valid)).sum();
        assert_eq!(valid, counted, "valid pages in the pools of group {group}");
        let closing = self.lines_of(layout, group).iter();
        let closing = closing.filter(|line| line.state == LineState::Closed && line.in_flight > 0);
        assert_eq!(closing.count() > 0, self.lines.is_closing(group));
    }
}
