//! Power-on: the map is rebuilt from the contents of the flash.
//!
//! Every readable unit has a sequence number and names its pages. Recovery replays units in that
//! order, with the journal's deallocations in between; the last entry of each page is its newest
//! durable version. Lines that were not full are reopened where their blocks can still be
//! programmed: units that the cut left untouched are *holes* and are filled first; torn units are
//! skipped.
//!
//! Lines that are as a past workload left them are not scanned ([`past`]).
//!
//! No firmware memory from before the cut is used. A protected drive also has the dump that its
//! capacitors saved, which is newer than the flash.

mod past;
#[cfg(test)]
mod past_tests;
pub(crate) mod word;

use crate::config::DriveConfig;
use crate::copies::Listeners;
use crate::demand::{self, Deaths};
use crate::forget::Superseded;
use crate::frontier::{Frontier, Kind};
use crate::inflight::InFlight;
use crate::issue::MAX_SPAN;
use crate::journal::{Journal, JournalPage, PageKind, Trimmed};
use crate::layout::{Layout, NONE};
use crate::ledger::Ledger;
use crate::line::{Line, LineState, Lines};
use crate::map::{Map, Where};
use crate::media::Dump;
use crate::past::Past;
use crate::state::{Load, State};
use nand::{BlockId, BlockState, Media, Nand, Payload};
use past::Kept;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Every erase block of a drive, ordered by die, plane and block.
pub(crate) fn all_blocks(layout: &Layout) -> impl Iterator<Item = BlockId> + use<> {
    let geometry = layout.geometry;
    (0..geometry.dies()).flat_map(move |die| {
        (0..geometry.planes).flat_map(move |plane| {
            (0..geometry.blocks_per_plane).map(move |block| BlockId { die, plane, block })
        })
    })
}

/// The frontiers of a drive, without lines. Labels on flash store their indices, so their order is
/// fixed.
fn frontiers(layout: &Layout, config: &DriveConfig) -> Vec<Frontier> {
    let new = |kind, group| Frontier {
        kind,
        group,
        open: NONE,
        pending: VecDeque::new(),
        copies: VecDeque::new(),
        forced: 0,
        pushed: 0,
        borrowed: false,
        waits: 0,
    };
    let first = layout.first_movers(config);
    // Exists without space for it, too: lines of a drive file that was made otherwise may name it.
    let has_hot = layout.handles > 1 && !config.placement.persistently_isolated;
    let groups = || 0..layout.groups;
    let host = groups().flat_map(|g| (0..layout.handles).map(move |h| new(Kind::Host(h), g)));
    let mut all: Vec<_> = host.collect();
    let moved = |range: Range<u32>| groups().flat_map(move |g| range.clone().map(move |h| (h, g)));
    all.extend(moved(0..first).map(|(h, g)| new(Kind::Moved(h), g)));
    if layout.map_pages > 0 {
        all.extend([new(Kind::Map, 0), new(Kind::MovedMap, 0)]);
    }
    assert_eq!(all.len(), layout.journal_frontier(config));
    all.push(new(Kind::Journal, 0));
    all.extend(moved(first..first + u32::from(has_hot)).map(|(h, g)| new(Kind::Moved(h), g)));
    all
}

/// A unit whose pages are all readable.
#[derive(Clone, Copy)]
struct Unit {
    stamp: u64,
    line: u32,
    unit: u32,
}

/// Result of the scan of the flash.
struct Found {
    blocks: Vec<u32>,
    spares: Vec<Vec<u32>>,
    /// For each line: the frontier in its label; `None` without a label.
    owners: Vec<Option<u16>>,
    /// For each line: dies of the group whose block must be erased first.
    dirty: Vec<Vec<u32>>,
    units: Vec<Unit>,
}

/// Contents of the flash and the dump: the blocks of all lines, map and lines, and the sequence
/// number of the next program.
struct Rebuilt {
    found: Found,
    map: Map,
    lines: Lines,
    next: u64,
}

/// Rebuilds the firmware's memory from the flash and the dump.
pub(crate) fn rebuild(
    layout: &Layout,
    config: &DriveConfig,
    nand: &Nand,
    dump: Option<&Dump>,
) -> (State, Journal) {
    let media = nand.media();
    let frontiers = frontiers(layout, config);
    let pools = demand::pools(layout, config, &frontiers);
    let past = past::of(layout, &media);
    let rebuilt = match &past {
        Some(past) if past::is_all(&media, dump) => past::remember(layout, config, pools, past),
        _ => {
            let count = frontiers.len();
            scan(layout, config, &media, dump, (count, pools), past.as_ref())
        }
    };
    memory(layout, config, &media, rebuilt, frontiers, dump)
}

/// Scans the flash, except for lines that are still as `past` left them. `counts` has the number of
/// frontiers and the pools.
fn scan(
    layout: &Layout,
    config: &DriveConfig,
    media: &Media,
    dump: Option<&Dump>,
    (frontiers, pools): (usize, (Vec<u32>, u32)),
    past: Option<&Arc<Past>>,
) -> Rebuilt {
    let mut found = assign_blocks(layout, media, frontiers);
    let kept = past.map(|past| Kept::new(layout, media, &found, past));
    let kept = kept.as_ref();
    found.units = readable_units(layout, media, &found, kept);
    let trims = journalled(layout, media, &found, dump);
    let last = found.units.last().map_or(0, |u| u.stamp + 1);
    let last = last.max(kept.map_or(0, Kept::next_sequence));
    let next = last.max(trims.last().map_or(0, |t| t.sequence + 1));
    let map = replay(layout, media, &found, &trims, kept);
    let mut lines = Lines::new(layout, config, pools.0, pools.1);
    match kept {
        Some(kept) => kept.find_valid(layout, &map, &mut lines),
        None => find_valid(layout, &map, &mut lines),
    }
    fill_lines(layout, media, &found, kept, &mut lines);
    Rebuilt {
        found,
        map,
        lines,
        next,
    }
}

/// The firmware's memory, with the lines reopened that still have room.
fn memory(
    layout: &Layout,
    config: &DriveConfig,
    media: &Media,
    rebuilt: Rebuilt,
    mut frontiers: Vec<Frontier>,
    dump: Option<&Dump>,
) -> (State, Journal) {
    let Rebuilt {
        mut found,
        map,
        lines,
        next,
    } = rebuilt;
    let handles = (layout.groups * layout.handles) as usize;
    let mut state = State {
        deaths: Deaths::new(layout, frontiers.len()),
        map,
        lines,
        slots: crate::buffer::Slots::new(layout.sectors_per_page, config.flash.keep_contents),
        in_flight: InFlight::starting_at(next),
        superseded: Superseded::new(config),
        listeners: Listeners::default(),
        ledger: Ledger::new(1 << 8, handles),
        most_erases: 0,
        retries: vec![0; layout.groups as usize],
        stalled: vec![0; layout.groups as usize],
        stalled_hosts: 0,
        stalled_since: units::Ns::ZERO,
        loads: vec![Load::default(); layout.groups as usize],
        blocks: Vec::new(),
        spares: std::mem::take(&mut found.spares),
        frontiers: Vec::new(),
    };
    reopen(layout, media, &found, &mut state, &mut frontiers);
    state.blocks = found.blocks;
    state.frontiers = frontiers;
    for group in 0..layout.groups {
        state.weigh(layout, config, group);
    }
    let worn = state.lines.lines.iter().map(|line| line.erases);
    state.most_erases = worn.max().unwrap_or(0);
    let journal = journal(layout, &state, dump);
    (state, journal)
}

fn journal(layout: &Layout, state: &State, dump: Option<&Dump>) -> Journal {
    let journal = |line: &Line| state.frontiers[usize::from(line.frontier)].kind == Kind::Journal;
    let lines = state.lines.lines.iter().enumerate();
    let full = lines
        .filter(|(_, line)| line.state == LineState::Closed && journal(line) && line.closed > 0);
    let full = full.map(|(line, _)| line as u32).collect();
    let records = dump.map(|d| d.trims.clone()).unwrap_or_default();
    Journal::found(records, full, layout.checkpoint_lines() as usize)
}

/// Assigns blocks to lines: those whose label names the line first, then erased blocks and finally
/// dirty ones.
fn assign_blocks(layout: &Layout, media: &Media, frontiers: usize) -> Found {
    let planes = layout.geometry.planes;
    let mut found = Found {
        blocks: vec![NONE; (layout.lines() * layout.dies_per_group * planes) as usize],
        spares: Vec::new(),
        owners: vec![None; layout.lines() as usize],
        dirty: vec![Vec::new(); layout.lines() as usize],
        units: Vec::new(),
    };
    let columns = (layout.geometry.dies() * planes) as usize;
    let (mut clean, mut dirty) = (vec![Vec::new(); columns], vec![Vec::new(); columns]);
    for block in all_blocks(layout) {
        let column = (block.die * planes + block.plane) as usize;
        let (state, label) = state_and_label(media, block);
        let label = label.and_then(|l| word::parse_label(layout, l, frontiers));
        match (state, label) {
            (BlockState::Bad, _) => {}
            (BlockState::Erased, _) => clean[column].push(block.block),
            (BlockState::Written, Some((line, frontier))) => {
                let die = block.die % layout.dies_per_group;
                let index = State::block_index(layout, line, die) + block.plane as usize;
                found.blocks[index] = block.block;
                found.owners[line as usize] = Some(frontier);
            }
            _ => dirty[column].push(block.block),
        }
    }
    fill_gaps(layout, &mut found, &mut clean, &mut dirty);
    for (clean, dirty) in clean.iter_mut().zip(dirty) {
        clean.reverse();
        let spares = dirty.into_iter().chain(clean.drain(..)).collect();
        found.spares.push(spares);
    }
    found
}

/// State of a block, and its label from the first of its pages that can be read.
fn state_and_label(media: &Media, block: BlockId) -> (BlockState, Option<u64>) {
    if let Some(held) = media.untouched(block) {
        return (held.state, (held.written > 0).then_some(held.label));
    }
    let mut pages = (0..media.written(block)).map(|page| media.page(block, page));
    let label = pages.find_map(|page| page.map(|page| page.label));
    (media.state(block), label)
}

fn fill_gaps(layout: &Layout, found: &mut Found, clean: &mut [Vec<u32>], dirty: &mut [Vec<u32>]) {
    let planes = layout.geometry.planes;
    for clean in clean.iter_mut() {
        // Blocks are taken from the end: lower numbers first.
        clean.reverse();
    }
    // Lines with data come first: a block of theirs that lost its label is dirty, whereas an unused
    // line needs erased blocks.
    let (used, unused): (Vec<u32>, Vec<u32>) =
        (0..layout.lines()).partition(|&line| found.owners[line as usize].is_some());
    for (lines, are_used) in [(used, true), (unused, false)] {
        for line in lines {
            for die in 0..layout.dies_per_group {
                for plane in 0..planes {
                    let real_die = layout.dies(layout.group(line)).start + die;
                    let column = (real_die * planes + plane) as usize;
                    let stock = (&mut clean[column], &mut dirty[column]);
                    fill_gap(layout, found, (line, die, plane), are_used, stock);
                }
            }
        }
    }
}

/// Assigns a block to one line on one die and plane, unless it has one.
fn fill_gap(
    layout: &Layout,
    found: &mut Found,
    (line, die, plane): (u32, u32, u32),
    is_used: bool,
    (clean, dirty): (&mut Vec<u32>, &mut Vec<u32>),
) {
    let index = State::block_index(layout, line, die) + plane as usize;
    if found.blocks[index] != NONE {
        return;
    }
    let lost_label = if is_used { dirty.pop() } else { None };
    let erased = if lost_label.is_none() {
        clean.pop()
    } else {
        None
    };
    found.blocks[index] = lost_label
        .or(erased)
        .or_else(|| dirty.pop())
        .unwrap_or(NONE);
    if erased.is_none() {
        found.dirty[line as usize].push(die);
    }
}

/// The block of a line on one die and plane; `None` if the plane ran out of blocks.
fn block_of(layout: &Layout, found: &Found, line: u32, die: u32, plane: u32) -> Option<BlockId> {
    let index = State::block_index(layout, line, die) + plane as usize;
    let block = found.blocks[index];
    (block != NONE).then(|| BlockId {
        die: layout.dies(layout.group(line)).start + die,
        plane,
        block,
    })
}

/// The stamp of a unit; `None` unless all its pages are readable and belong together.
fn unit_stamp(layout: &Layout, media: &Media, found: &Found, line: u32, unit: u32) -> Option<u64> {
    let (die, first) = (layout.die_in_group(unit), layout.first_row(unit));
    let mut stamp = None;
    for plane in 0..layout.geometry.planes {
        let block = block_of(layout, found, line, die, plane)?;
        for row in first..first + layout.geometry.pages_per_program {
            let page = media.page(block, row)?;
            if page.label as u32 != line || *stamp.get_or_insert(page.stamp) != page.stamp {
                return None;
            }
        }
    }
    stamp
}

/// Readable units of the lines that are not kept, by sequence number.
fn readable_units(layout: &Layout, media: &Media, found: &Found, kept: Option<&Kept>) -> Vec<Unit> {
    let mut units = Vec::new();
    for line in 0..layout.lines() {
        let is_kept = kept.is_some_and(|kept| kept.has(line));
        if is_kept || found.owners[line as usize].is_none() {
            continue;
        }
        for unit in 0..layout.units_per_line {
            if let Some(stamp) = unit_stamp(layout, media, found, line, unit) {
                units.push(Unit { stamp, line, unit });
            }
        }
    }
    units.sort_unstable_by_key(|unit| unit.stamp);
    units
}

/// Calls `each` with place and word of every mapped page of a unit, in order.
fn for_each_page(
    layout: &Layout,
    media: &Media,
    found: &Found,
    unit: Unit,
    mut each: impl FnMut(u32, u32),
) {
    let (die, first) = (layout.die_in_group(unit.unit), layout.first_row(unit.unit));
    let base = unit.line * layout.line_pages + unit.unit * layout.unit;
    let mut position = 0;
    for row in first..first + layout.geometry.pages_per_program {
        for plane in 0..layout.geometry.planes {
            let block = block_of(layout, found, unit.line, die, plane).expect("readable");
            let page = media.page(block, row).expect("readable");
            for word in page.words().step_by(layout.sectors_per_page as usize) {
                each(base + position, word);
                position += 1;
            }
        }
    }
}

/// Deallocations, oldest first: journal records, the last complete checkpoint, and records from the
/// dump.
fn journalled(layout: &Layout, media: &Media, found: &Found, dump: Option<&Dump>) -> Vec<Trimmed> {
    let mut trims = dump.map(|d| d.trims.clone()).unwrap_or_default();
    let journal = |unit: &&Unit| {
        let die = layout.die_in_group(unit.unit);
        let block = block_of(layout, found, unit.line, die, 0).expect("readable");
        let page = media
            .page(block, layout.first_row(unit.unit))
            .expect("readable");
        page.word(0) == word::JOURNAL
    };
    let mut checkpoint: Vec<JournalPage> = Vec::new();
    for unit in found.units.iter().filter(journal) {
        let die = layout.die_in_group(unit.unit);
        let block = block_of(layout, found, unit.line, die, 0).expect("readable");
        let Payload::Bytes(bytes) = media.payload(block, layout.first_row(unit.unit), 0) else {
            continue;
        };
        let Some(page) = JournalPage::decode(&bytes) else {
            continue;
        };
        match page.kind {
            PageKind::Records => trims.extend(page.entries),
            PageKind::Checkpoint { index, of } => {
                if index == 0 {
                    checkpoint.clear();
                }
                checkpoint.push(page);
                if checkpoint.len() == of as usize {
                    trims.extend(checkpoint.drain(..).flat_map(|p| p.entries));
                }
            }
        }
    }
    trims.retain(|t| u64::from(t.first) + u64::from(t.pages) <= u64::from(layout.host_pages));
    trims.sort_by_key(|t| (t.sequence, t.first));
    trims
}

/// Replays units and deallocations over the map of the kept lines. Of the past's own units only the
/// newest version of a page counts, since later ones may lie in kept lines.
fn replay(
    layout: &Layout,
    media: &Media,
    found: &Found,
    trims: &[Trimmed],
    kept: Option<&Kept>,
) -> Map {
    let mut map = match kept {
        Some(kept) => kept.map(layout),
        None => Map::new(layout.pages(), None),
    };
    let mut trims = trims.iter().peekable();
    let trim = |map: &mut Map, trim: &Trimmed| {
        for page in trim.first..trim.first + trim.pages {
            map.set(page, Where::Nowhere);
        }
    };
    for &unit in &found.units {
        while let Some(earlier) = trims.next_if(|t| t.sequence < unit.stamp) {
            trim(&mut map, earlier);
        }
        for_each_page(layout, media, found, unit, |place, word| {
            if let Some((page, _)) = word::parse(layout, word)
                && kept.is_none_or(|kept| kept.is_newest(unit.stamp, page, place))
            {
                map.set(page, Where::Flash(place));
            }
        });
    }
    for late in trims {
        trim(&mut map, late);
    }
    map
}

/// Finds the valid pages of all lines of a drive without a past.
fn find_valid(layout: &Layout, map: &Map, lines: &mut Lines) {
    for page in map.changed() {
        if let Where::Flash(place) = map.get(page) {
            lines.find_valid(layout.line_of(place).0, place);
        }
    }
}

/// Finds the states of all lines, and the wear of those that are not kept; their valid pages are
/// known by then.
fn fill_lines(
    layout: &Layout,
    media: &Media,
    found: &Found,
    kept: Option<&Kept>,
    lines: &mut Lines,
) {
    for unit in &found.units {
        let entry = &mut lines.lines[unit.line as usize];
        if entry.closed == 0 {
            entry.opened = unit.stamp;
        }
        entry.closed = unit.stamp + 1;
    }
    for line in 0..layout.lines() {
        if !kept.is_some_and(|kept| kept.has(line)) {
            lines.lines[line as usize].erases = erases(layout, media, found, line);
        }
        let owner = found.owners[line as usize];
        let missing = missing_blocks(layout, found, line);
        let state = match owner {
            _ if missing && owner.is_none() => LineState::Retired,
            None if found.dirty[line as usize].is_empty() => LineState::Free,
            _ => LineState::Closed,
        };
        lines.found(line, owner.unwrap_or(0), state);
    }
}

fn missing_blocks(layout: &Layout, found: &Found, line: u32) -> bool {
    let first = State::block_index(layout, line, 0);
    let count = (layout.dies_per_group * layout.geometry.planes) as usize;
    found.blocks[first..first + count].contains(&NONE)
}

fn erases(layout: &Layout, media: &Media, found: &Found, line: u32) -> u32 {
    let dies = 0..layout.dies_per_group;
    let blocks = dies.flat_map(|die| {
        (0..layout.geometry.planes).filter_map(move |p| block_of(layout, found, line, die, p))
    });
    blocks.map(|block| media.erases(block)).max().unwrap_or(0)
}

/// Reopens, for each frontier, the line that it wrote last, if that line still has room.
fn reopen(
    layout: &Layout,
    media: &Media,
    found: &Found,
    state: &mut State,
    frontiers: &mut [Frontier],
) {
    let next = state.in_flight.next();
    for (index, frontier) in frontiers.iter_mut().enumerate() {
        let lines = state.lines.lines.iter().enumerate();
        let last = lines
            .filter(|(line, l)| found.owners[*line] == Some(index as u16) && l.closed > 0)
            .max_by_key(|(_, l)| l.closed);
        let Some((line, entry)) = last else { continue };
        if next - entry.opened >= MAX_SPAN / 2 || missing_blocks(layout, found, line as u32) {
            continue;
        }
        let (issued, holes) = progress(layout, media, found, line as u32);
        let entry = &mut state.lines.lines[line];
        (entry.issued, entry.holes) = (issued, holes);
        entry.dead_dies.clone_from(&found.dirty[line]);
        if state.peek_unit(layout, line as u32).is_some() {
            state.lines.reopen(line as u32);
            frontier.open = line as u32;
        }
    }
}

/// Units of a line up to the last touched one, and the untouched units before that, in descending
/// order.
fn progress(layout: &Layout, media: &Media, found: &Found, line: u32) -> (u32, Vec<u32>) {
    let untouched = |unit: u32| {
        let die = layout.die_in_group(unit);
        (0..layout.geometry.planes).all(|plane| {
            block_of(layout, found, line, die, plane)
                .is_some_and(|block| media.written(block) <= layout.first_row(unit))
        })
    };
    let issued = (0..layout.units_per_line)
        .rev()
        .find(|&unit| !untouched(unit))
        .map_or(0, |unit| unit + 1);
    let holes = (0..issued.min(layout.data_units())).rev();
    (issued, holes.filter(|&unit| untouched(unit)).collect())
}
