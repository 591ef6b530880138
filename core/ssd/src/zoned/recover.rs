//! Power-on: write pointers are rebuilt from the flash.
//!
//! No firmware memory from before the cut is used, except the dump of the capacitors and the list
//! of defects. If the flash must be changed before its zones can be written again, [`rebuild`]
//! returns the repairs, and runs again after them: a repair that was cut or failed leaves the flash
//! in a state like any other.

use super::config::ZoneLayout;
use super::media::ZonesMedia;
use super::pool::Pool;
use super::rules::{ZoneEvent, ZoneState};
use super::table::{Backup, Table};
use super::write::word;
use crate::config::DriveConfig;
use nand::{BlockId, BlockState, Media, Payload, Row};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A change that the flash needs before its zones can be written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Repair {
    /// Erase blocks without valid data.
    Erase(Row),
    /// Copy the first programs of a piece: later pages of it cannot be programmed.
    Move {
        from: Row,
        to: Row,
        programs: u32,
        label: u64,
    },
}

/// Blocks in the planes of one die that were programmed together.
#[derive(Clone, Copy, Debug)]
struct Found {
    row: Row,
    label: u64,
    /// Programs written to the blocks.
    programs: u32,
}

/// Result of the scan of the flash.
struct Scan {
    /// Candidates for each piece, by zone and piece.
    pieces: BTreeMap<(u32, u32), Vec<Found>>,
    /// Candidates for the backup, by zone.
    backups: BTreeMap<u32, Vec<Found>>,
    /// Rows without valid data, to be erased.
    dirty: Vec<Row>,
    last_stamp: u64,
}

/// Rebuilds the firmware's memory, and lists the repairs that are needed first. The memory is valid
/// only if no repair is needed.
pub(crate) fn rebuild(
    layout: &ZoneLayout,
    config: &DriveConfig,
    rules: super::ZoneConfig,
    media: &Media,
    kept: &ZonesMedia,
) -> (Table, Vec<Repair>) {
    let mut pool = Pool::new(layout, config.wear.dynamic);
    let scan = scan(layout, media, kept, &mut pool);
    let mut table = Table::new(layout, rules, pool, config.flash.keep_contents);
    table.sequence = scan.last_stamp + 1;
    let mut rebuilding = Rebuilding {
        layout,
        media,
        kept,
        repairs: scan.dirty.iter().copied().map(Repair::Erase).collect(),
        moves: Vec::new(),
        scan: &scan,
        table,
    };
    for zone in 0..layout.sequential() {
        rebuilding.zone(zone);
    }
    rebuilding.end()
}

fn scan(layout: &ZoneLayout, media: &Media, kept: &ZonesMedia, pool: &mut Pool) -> Scan {
    let geometry = layout.geometry;
    let mut scan = Scan {
        pieces: BTreeMap::new(),
        backups: BTreeMap::new(),
        dirty: Vec::new(),
        last_stamp: 0,
    };
    let mut groups: BTreeMap<(u32, u64, u64), Found> = BTreeMap::new();
    for die in 0..geometry.dies() {
        for plane in 0..geometry.planes {
            for block in layout.first_block..geometry.blocks_per_plane {
                let id = BlockId { die, plane, block };
                let state = media.state(id);
                let label = media.page(id, 0).map(|page| (page.label, page.stamp));
                let read_only = label.is_some_and(|(label, _)| {
                    let (zone, piece) = word::parse_label(label);
                    piece.is_some() && kept.defect(zone) == Some(ZoneState::ReadOnly)
                });
                if state == BlockState::Bad && !read_only {
                    continue;
                }
                pool.found(layout, id, state == BlockState::Erased);
                match label {
                    _ if state == BlockState::Erased => {}
                    None => scan.dirty.push(Row::single(id, 0)),
                    Some((label, stamp)) => {
                        let programs = media.written(id) / geometry.pages_per_program;
                        let row = Row::single(id, 0);
                        let new = Found {
                            row: Row { planes: 0, ..row },
                            label,
                            programs,
                        };
                        let group = groups.entry((die, label, stamp)).or_insert(new);
                        group.row.blocks[plane as usize] = block;
                        group.row.planes |= row.planes;
                    }
                }
            }
        }
    }
    for found in groups.into_values() {
        scan.sort(layout, media, found);
    }
    scan
}

impl Scan {
    /// Assigns blocks that were programmed together to a piece, a backup, or the rows to erase.
    fn sort(&mut self, layout: &ZoneLayout, media: &Media, found: Found) {
        let last = (0..found.programs)
            .rev()
            .find_map(|p| stamp(layout, media, &found, p));
        self.last_stamp = self.last_stamp.max(last.unwrap_or(0));
        let (zone, piece) = word::parse_label(found.label);
        let whole = u32::from(found.row.planes) + 1 == 1 << layout.geometry.planes;
        let known = (layout.conventional..layout.zones).contains(&zone);
        let index = zone.wrapping_sub(layout.conventional);
        match piece {
            Some(piece)
                if whole
                    && known
                    && piece < layout.pieces()
                    && layout.die(zone, piece) == found.row.die =>
            {
                self.pieces.entry((index, piece)).or_default().push(found);
            }
            None if whole && known => self.backups.entry(index).or_default().push(found),
            _ => self.dirty.push(found.row),
        }
    }
}

/// The row of program `program` of the blocks in `found`.
fn row(layout: &ZoneLayout, found: &Found, program: u32) -> Row {
    Row {
        page: program * layout.geometry.pages_per_program,
        ..found.row
    }
}

/// The highest stamp of a program; `None` unless all of it can be read.
fn stamp(layout: &ZoneLayout, media: &Media, found: &Found, program: u32) -> Option<u64> {
    let row = row(layout, found, program);
    let mut stamps = row.blocks().map(|block| media.page(block, row.page));
    stamps.try_fold(0, |last, page| page.map(|page| last.max(page.stamp)))
}

/// Readable programs, counted from the first on.
fn leading(layout: &ZoneLayout, media: &Media, found: &Found) -> u32 {
    let readable = |&program: &u32| stamp(layout, media, found, program).is_some();
    (0..found.programs).take_while(readable).count() as u32
}

/// Words and contents of one program, in the order of [`nand::Program`].
pub(super) fn contents(layout: &ZoneLayout, media: &Media, row: Row) -> (Vec<u32>, Vec<Payload>) {
    let geometry = layout.geometry;
    let (mut words, mut payload) = (Vec::new(), Vec::new());
    for page in row.page..row.page + geometry.pages_per_program {
        for block in row.blocks() {
            let Some(found) = media.page(block, page) else {
                continue;
            };
            words.extend(found.words());
            let sectors = 0..geometry.sectors_per_page();
            payload.extend(sectors.map(|sector| media.payload(block, page, sector)));
        }
    }
    (words, payload)
}

struct Rebuilding<'a> {
    layout: &'a ZoneLayout,
    media: &'a Media,
    kept: &'a ZonesMedia,
    scan: &'a Scan,
    repairs: Vec<Repair>,
    /// Pieces to be moved: zone, piece, good programs, and the blocks.
    moves: Vec<(u32, u32, u32, Found)>,
    table: Table,
}

/// Data of a zone on flash.
#[derive(Default)]
struct OnFlash {
    /// Units found whole, counted from the start of the zone up to the first that is not.
    units: u32,
    /// Sectors in the whole units.
    sectors: u32,
    finished: bool,
}

impl<'a> Rebuilding<'a> {
    fn zone(&mut self, zone: u32) {
        let number = zone + self.layout.conventional;
        let defect = self.kept.defect(number);
        let saved = self.kept.saved(number);
        let (backup, marked) = self.newest_backup(zone);
        let reset = marked || saved.is_some_and(|saved| saved.reset);
        let left_no_trace = saved.is_some_and(|saved| saved.finished);
        let chosen = self.choose(zone, reset || defect == Some(ZoneState::Offline));
        let left = self.scan.pieces.range((zone, 0)..(zone + 1, 0)).next();
        if left.is_none() && marked {
            // The backup with the mark of the reset is erased last.
            self.repairs
                .extend(backup.map(|found| Repair::Erase(found.row)));
        }
        let flash = if reset {
            OnFlash::default()
        } else {
            self.units(&chosen)
        };
        self.keep_pieces(zone, &chosen, &flash, defect);
        let entry = &mut self.table.zones[zone as usize];
        (entry.issued, entry.settled) = (flash.units, flash.units);
        (entry.wp, entry.filled) = (flash.sectors, flash.sectors);
        if !reset && !flash.finished {
            self.keep_tail(zone, backup);
        } else if !marked {
            self.repairs
                .extend(backup.map(|found| Repair::Erase(found.row)));
        }
        self.name_state(zone, defect, flash.finished || left_no_trace);
    }

    /// The newest backup of a zone, and whether it has the mark of a reset. Other backups are to be
    /// erased.
    fn newest_backup(&mut self, zone: u32) -> (Option<Found>, bool) {
        let scan = self.scan;
        let Some(all) = scan.backups.get(&zone) else {
            return (None, false);
        };
        let newest = |found: &Found| {
            let programs = (0..found.programs).rev();
            let stamps = programs.map(|p| stamp(self.layout, self.media, found, p));
            stamps.flatten().next().unwrap_or(0)
        };
        let best = all.iter().max_by_key(|found| newest(found)).copied();
        let others = all
            .iter()
            .filter(|found| Some(found.row) != best.map(|b| b.row));
        self.repairs
            .extend(others.map(|found| Repair::Erase(found.row)));
        let words = best
            .and_then(|found| self.copy(&found))
            .map(|(words, _)| words);
        let marked = words.is_some_and(|words| words.first() == Some(&word::RESET));
        (best, marked)
    }

    /// The newest readable copy in a backup.
    fn copy(&self, found: &Found) -> Option<(Vec<u32>, Vec<Payload>)> {
        let mut programs = (0..found.programs).rev();
        let newest = programs.find(|&p| stamp(self.layout, self.media, found, p).is_some())?;
        Some(contents(
            self.layout,
            self.media,
            row(self.layout, found, newest),
        ))
    }

    /// For each piece of a zone, the blocks with the most readable programs. If `none`, chooses no
    /// blocks and erases all.
    fn choose(&mut self, zone: u32, none: bool) -> Vec<Option<Found>> {
        let (layout, media) = (self.layout, self.media);
        let mut chosen = Vec::with_capacity(layout.pieces() as usize);
        for piece in 0..layout.pieces() {
            let all = self.found(zone, piece);
            if none {
                self.repairs
                    .extend(all.iter().map(|found| Repair::Erase(found.row)));
                chosen.push(None);
            } else {
                let most =
                    |found: &&Found| (leading(layout, media, found), Reverse(found.programs));
                chosen.push(all.iter().max_by_key(most).copied());
            }
        }
        chosen
    }

    fn found(&self, zone: u32, piece: u32) -> &'a [Found] {
        let scan = self.scan;
        scan.pieces.get(&(zone, piece)).map_or(&[][..], |all| all)
    }

    /// The longest run of units from the start of a zone.
    fn units(&self, chosen: &[Option<Found>]) -> OnFlash {
        let mut flash = OnFlash::default();
        for unit in 0..self.layout.units {
            let place = self.layout.place(unit);
            let Some(found) = chosen[place.piece as usize] else {
                break;
            };
            let at = Row {
                page: place.page,
                ..found.row
            };
            let program = place.page / self.layout.geometry.pages_per_program;
            if program >= found.programs
                || stamp(self.layout, self.media, &found, program).is_none()
            {
                break;
            }
            let (words, _) = contents(self.layout, self.media, at);
            let data = words
                .iter()
                .take_while(|&&word| word::is_place(word))
                .count();
            flash.units = unit + 1;
            flash.sectors = (unit * self.layout.unit + data as u32).min(self.layout.capacity);
            flash.finished = words.contains(&word::FINISH);
            if flash.finished {
                break;
            }
        }
        flash
    }

    /// Assigns the chosen pieces to a zone, as far as their units count. Pieces with programs
    /// beyond those units are in the way of further ones: their good part will move to other
    /// blocks.
    fn keep_pieces(
        &mut self,
        zone: u32,
        chosen: &[Option<Found>],
        flash: &OnFlash,
        defect: Option<ZoneState>,
    ) {
        let mut good = vec![0_u32; chosen.len()];
        for unit in 0..flash.units {
            good[self.layout.place(unit).piece as usize] += 1;
        }
        for (piece, (best, good)) in (0..).zip(chosen.iter().zip(good)) {
            let Some(best) = best else { continue };
            let all = self.found(zone, piece);
            // A complete copy of the units that count has no programs beyond them.
            let is_copy = |found: &&Found| {
                found.programs == good && leading(self.layout, self.media, found) == good
            };
            let found = all.iter().find(is_copy).unwrap_or(best);
            // A read-only zone keeps even its bad blocks: they still hold its data.
            let read_only = defect == Some(ZoneState::ReadOnly);
            // No more programs come to a finished zone, which may lie on padding alone.
            let keep = good > 0 || read_only || flash.finished;
            let others = all.iter().filter(|o| !keep || o.row != found.row);
            self.repairs.extend(others.map(|o| Repair::Erase(o.row)));
            if !keep {
                continue;
            }
            self.table.set_piece(self.layout, zone, piece, &found.row);
            self.table.zones[zone as usize].bound = true;
            if found.programs > good && !read_only && !flash.finished {
                self.moves.push((zone, piece, good, *found));
            }
        }
    }

    /// Restores the data that capacitors or a backup have beyond the units on flash.
    fn keep_tail(&mut self, zone: u32, backup: Option<Found>) {
        let number = zone + self.layout.conventional;
        let from = self.table.zones[zone as usize].filled;
        if let Some(saved) = self.kept.saved(number) {
            let (first, until) = (saved.from, saved.from + saved.sectors);
            if first <= from && from < until {
                let payload = saved.payload.get((from - first) as usize..);
                self.take(zone, until, payload.unwrap_or(&[]));
            }
        }
        let Some(found) = backup else { return };
        let (words, payload) = self.copy(&found).unwrap_or_default();
        let data = words
            .iter()
            .take_while(|&&word| word::is_place(word))
            .count();
        let first = words.first().copied().unwrap_or(0);
        let until = first + data as u32;
        if data == 0 || first > from || until <= from {
            self.repairs.push(Repair::Erase(found.row));
            return;
        }
        if until > self.table.zones[zone as usize].filled {
            self.take(zone, until, &payload[(from - first) as usize..data]);
        }
        self.table.zones[zone as usize].backup = Some(Backup {
            row: found.row,
            used: found.programs,
            until,
        });
    }

    /// Puts the sectors of a zone up to `until` into its buffer.
    fn take(&mut self, zone: u32, until: u32, payload: &[Payload]) {
        let from = self.table.zones[zone as usize].filled;
        let ring = self.table.attach_ring(self.layout, zone);
        for (at, payload) in (from..until).zip(payload) {
            let slot = (at % self.layout.ring) as usize;
            if let Some(kept) = ring.payload.get_mut(slot) {
                *kept = payload.clone();
            }
        }
        let entry = &mut self.table.zones[zone as usize];
        (entry.filled, entry.wp) = (until, until);
    }

    fn name_state(&mut self, zone: u32, defect: Option<ZoneState>, finished: bool) {
        let entry = &mut self.table.zones[zone as usize];
        let (filled, full) = (entry.filled, entry.filled == self.layout.capacity);
        entry.failed = defect == Some(ZoneState::ReadOnly);
        if let Some(defect) = defect {
            self.table.enter(zone, defect);
            return;
        }
        if full || finished {
            self.table.enter(zone, ZoneState::Full);
        }
        let event = match filled {
            0 => ZoneEvent::PowerOnBlank,
            _ => ZoneEvent::PowerOnWritten,
        };
        let step = self.table.step(zone, event);
        step.expect("a zone of any state comes back");
    }

    /// Returns the next round of repairs: erases first, then one copy on each die. If no repair is
    /// needed, gives zones with data the rest of their blocks.
    fn end(mut self) -> (Table, Vec<Repair>) {
        self.exclude_bad_blocks();
        if !self.repairs.is_empty() {
            return (self.table, self.repairs);
        }
        let mut taken = Vec::new();
        for (zone, piece, programs, found) in std::mem::take(&mut self.moves) {
            let die = found.row.die;
            if taken.contains(&die) {
                continue;
            }
            taken.push(die);
            match self.table.pool.take(self.layout, self.media, die) {
                Some(to) => self.repairs.push(Repair::Move {
                    from: found.row,
                    to,
                    programs,
                    label: word::label(zone + self.layout.conventional, piece),
                }),
                // Without a free block the piece stays readable in place.
                None => {
                    self.table.enter(zone, ZoneState::ReadOnly);
                    self.table.zones[zone as usize].failed = true;
                }
            }
        }
        if self.repairs.is_empty() {
            self.bind_all();
        }
        (self.table, self.repairs)
    }

    /// Removes bad blocks from the erases.
    fn exclude_bad_blocks(&mut self) {
        let media = self.media;
        self.repairs.retain_mut(|repair| {
            let Repair::Erase(row) = repair else {
                return true;
            };
            let bad = row
                .blocks()
                .filter(|&block| media.state(block) == BlockState::Bad);
            for block in bad.collect::<Vec<_>>() {
                row.planes &= !(1 << block.plane);
            }
            row.planes != 0
        });
    }

    fn bind_all(&mut self) {
        let layout = self.layout;
        for group in 0..layout.groups {
            while let Some(lost) = self.table.zone_without_blocks(layout, group, u32::MAX) {
                self.table.enter(lost, ZoneState::Offline);
            }
        }
        for zone in 0..layout.sequential() {
            let entry = &self.table.zones[zone as usize];
            if entry.bound && !entry.failed {
                self.table.bind(layout, self.media, zone);
            }
        }
    }
}
