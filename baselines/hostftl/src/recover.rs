//! Recovery with the table in memory, from the metadata of the sectors on flash.

use crate::config::FtlError;
use crate::lines::{Lines, Step};
use crate::meta::{Beside, Kind, MOST_NUMBERS, Trimmed, take_ranges};
use crate::state::FtlStats;
use crate::table::Table;
use host::{RawPort, Who};
use sim::join_all;
use ssd::{MOST_ADDRESSES, Ppa, RawBlock, RawGeometry, ReadCause};
use std::collections::BTreeMap;

/// Most reads in flight: our choice.
const READS: usize = 64;

/// Newest version of each sector, according to the metadata on flash.
struct Versions {
    table: Table,
    /// By sector: number of its version plus one, or 0.
    numbers: Vec<u64>,
    /// Ranges of each record of deallocations, by block.
    records: BTreeMap<u32, Vec<Trimmed>>,
    /// All ranges with the blocks of their records, in reading order.
    trims: Vec<(Trimmed, u32)>,
    /// By sector: block of the newest record plus one, or 0 if data are newer.
    tombs: Vec<u32>,
    /// Highest version number seen.
    last: u64,
    /// Blocks that this mapping has not written, or wrote for a larger table.
    foreign: u64,
}

/// Version numbers to skip if one may be unread: more than unreadable blocks can have used. Our
/// choice.
const SKIPPED: u64 = 1 << 32;

/// Result of a recovery from flash.
pub(crate) struct Rebuilt {
    pub(crate) table: Table,
    /// Number for the next version.
    pub(crate) next: u64,
    /// By sector: number of its version plus one, or 0.
    pub(crate) numbers: Vec<u64>,
}

/// Rebuilds the table from the metadata beside the sectors. Unreadable blocks are counted in
/// `stats`, and their lines become lost.
pub(crate) async fn rebuild<P: RawPort>(
    port: &P,
    geometry: &RawGeometry,
    lines: &mut Lines,
    sectors: u32,
    stats: &mut FtlStats,
) -> Result<Rebuilt, FtlError> {
    let mut versions = Versions::new(sectors);
    for line in in_turn(lines) {
        let mut unreadable = 0;
        let places = written(lines, line);
        for group in places.chunks(READS * MOST_ADDRESSES) {
            let parts = group.chunks(MOST_ADDRESSES);
            let reads = parts.map(|part| read_part(port, geometry, part));
            let blocks = join_all(reads.collect()).await.into_iter().flatten();
            for (&place, block) in group.iter().zip(blocks) {
                match block {
                    Some(block) => versions.take(place, &block),
                    None => unreadable += 1,
                }
            }
        }
        stats.recovered += places.len() as u64;
        stats.unreadable += unreadable;
        // The unreadable block may be the newest version, so its line is never erased.
        if unreadable > 0 {
            lines.step(line, Step::Lose);
        }
    }
    versions.bury();
    versions.tell(lines);
    stats.foreign = versions.foreign;
    // An unreadable block may have a higher number.
    let skipped = if stats.unreadable > 0 { SKIPPED } else { 0 };
    let next = versions.last + 1 + skipped;
    if next > MOST_NUMBERS / 2 {
        return Err(FtlError::Numbers);
    }
    Ok(Rebuilt {
        table: versions.table,
        next,
        numbers: versions.numbers,
    })
}

/// Lines in order of recovery, the fullest first. The first copy of a version number wins: copies
/// on a line that a cut interrupted lose against their source, and the line can be reset without
/// moves.
fn in_turn(lines: &Lines) -> Vec<usize> {
    let written = |line: &usize| {
        let members = lines.lines[*line].members.iter();
        members.map(|member| member.given).sum::<u32>()
    };
    let mut order: Vec<usize> = (0..lines.lines.len()).collect();
    order.sort_by_key(|line| (std::cmp::Reverse(written(line)), *line));
    order
}

/// Reads blocks; retries one by one after an error, with `None` for unreadable ones.
async fn read_part<P: RawPort>(
    port: &P,
    geometry: &RawGeometry,
    places: &[u32],
) -> Vec<Option<RawBlock>> {
    let ppa = |&place: &u32| geometry.ppa(geometry.nth(place));
    let at: Vec<Ppa> = places.iter().map(ppa).collect();
    let who = Who::default();
    if let Ok(blocks) = port.read(&at, ReadCause::Recovery, who).await {
        return blocks.into_iter().map(Some).collect();
    }
    let mut all = Vec::new();
    for ppa in at {
        let read = port.read(&[ppa], ReadCause::Recovery, who).await;
        all.push(read.ok().and_then(|mut blocks| blocks.pop()));
    }
    all
}

/// Written blocks of a line.
fn written(lines: &Lines, line: usize) -> Vec<u32> {
    let members = lines.lines[line].members.iter().enumerate();
    let blocks = members.flat_map(|(unit, member)| {
        (0..member.given).map(move |block| lines.place(line, unit, block))
    });
    blocks.collect()
}

/// Union-find lookup: first index from `from` on that leads to itself, with path halving.
fn find(next: &mut [u32], from: u32) -> u32 {
    let mut at = from as usize;
    while next[at] as usize != at {
        next[at] = next[next[at] as usize];
        at = next[at] as usize;
    }
    at as u32
}

impl Versions {
    fn new(sectors: u32) -> Self {
        Self {
            table: Table::dram(sectors),
            numbers: vec![0; sectors as usize],
            records: BTreeMap::new(),
            trims: Vec::new(),
            tombs: vec![0; sectors as usize],
            last: 0,
            foreign: 0,
        }
    }

    /// Takes in the metadata, and for a record the contents, of a block.
    fn take(&mut self, place: u32, block: &RawBlock) {
        let beside = Beside::parse(&block.meta);
        let Some(beside) = beside.filter(|beside| beside.number < MOST_NUMBERS) else {
            self.foreign += 1;
            return;
        };
        self.last = self.last.max(beside.number);
        match beside.kind {
            Kind::Padding => {}
            Kind::Data(sector) => {
                if !self.see(sector, beside.number) {
                    return;
                }
                self.table.put(sector, Some(place));
            }
            Kind::Trims => self.take_record(place, &take_ranges(&block.payload)),
        }
    }

    fn take_record(&mut self, place: u32, all: &[Trimmed]) {
        let sectors = self.numbers.len() as u32;
        let fit = |range: &Trimmed| {
            let end = range.first.checked_add(range.count)?.min(sectors);
            let is_ours = range.first < end && range.number < MOST_NUMBERS;
            is_ours.then(|| Trimmed {
                count: end - range.first,
                ..*range
            })
        };
        let ranges: Vec<Trimmed> = all.iter().filter_map(fit).collect();
        self.foreign += u64::from(ranges != all);
        for range in &ranges {
            self.last = self.last.max(range.number);
            self.trims.push((*range, place));
        }
        self.records.insert(place, ranges);
    }

    /// Applies deallocations newer than the data, once all blocks are taken in. Visits each sector
    /// once, by its newest range, however many ranges there are.
    fn bury(&mut self) {
        let mut trims = std::mem::take(&mut self.trims);
        trims.sort_by_key(|(range, _)| std::cmp::Reverse(range.number));
        // By sector: itself, or a later index up to which all were visited.
        let mut next: Vec<u32> = (0..=self.tombs.len() as u32).collect();
        for (range, place) in trims {
            let mut sector = find(&mut next, range.first);
            while sector < range.first + range.count {
                if self.see(sector, range.number) {
                    self.table.put(sector, None);
                    self.tombs[sector as usize] = place + 1;
                }
                next[sector as usize] = sector + 1;
                sector = find(&mut next, sector);
            }
        }
    }

    /// Records a version of a sector; false unless it is newer than all before. The first of two
    /// equal numbers wins.
    fn see(&mut self, sector: u32, number: u64) -> bool {
        let Some(known) = self.numbers.get_mut(sector as usize) else {
            self.foreign += 1;
            return false;
        };
        let newer = *known < number + 1;
        if newer {
            *known = number + 1;
        }
        newer
    }

    /// Passes the owners of blocks and the counting records to the lines.
    fn tell(&mut self, lines: &mut Lines) {
        let mut newest: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (sector, &tomb) in (0..).zip(&self.tombs) {
            if let Some(place) = self.table.get(sector) {
                lines.own(place, Some(sector));
            }
            if let Some(record) = tomb.checked_sub(1) {
                newest.entry(record).or_default().push(sector);
            }
        }
        for (place, sectors) in newest {
            let ranges = self.records.remove(&place).unwrap_or_default();
            lines.note(place, ranges, &sectors);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::{MOST_RANGES, put_ranges};
    use nand::Payload;

    /// Hostile records, as a drive of some GiB can hold: a visit of each sector of each range would
    /// take days.
    #[test]
    fn recovery_of_overlapping_records_is_fast() {
        let sectors = 1 << 20;
        let mut versions = Versions::new(sectors);
        for place in 0..2_000 {
            let range = |turn: usize| Trimmed {
                number: 1 + (u64::from(place) * 7_919 + turn as u64 * 31) % 100_000,
                first: 0,
                count: u32::MAX,
            };
            let ranges: Vec<Trimmed> = (0..MOST_RANGES).map(range).collect();
            versions.take_record(place, &take_ranges(&put_ranges(&ranges)));
        }
        versions.bury();
        let newest = versions.last + 1;
        assert!(versions.numbers.iter().all(|&number| number == newest));
        assert!(versions.tombs.iter().all(|&tomb| tomb == versions.tombs[0]));
    }

    /// Compared with a plain per-sector model, with data and records in any order.
    #[test]
    fn newest_version_of_each_sector_wins() {
        let mut rng = sim::Seed(1).stream("versions");
        for _ in 0..300 {
            let sectors = 40;
            let mut versions = Versions::new(sectors);
            let mut expected = vec![(0, None, 0); sectors as usize];
            let mut numbers: Vec<u64> = (1..80).collect();
            for place in 0..30_u32 {
                let mut draw = || numbers.swap_remove(rng.below(numbers.len() as u64) as usize);
                let (one, two) = (draw(), draw());
                let mut note = |sector: u32, number, at, tomb| {
                    let known = &mut expected[sector as usize];
                    if known.0 < number {
                        *known = (number, at, tomb);
                    }
                };
                if rng.below(2) == 0 {
                    let sector = rng.below(sectors.into()) as u32;
                    let kind = Kind::Data(sector);
                    let meta = Beside { kind, number: one }.bytes();
                    let payload = Payload::Zero;
                    versions.take(place, &RawBlock { payload, meta });
                    note(sector, one, Some(place), 0);
                    continue;
                }
                let ranges = [one, two].map(|number| Trimmed {
                    number,
                    first: rng.below(sectors.into()) as u32,
                    count: 1 + rng.below(50) as u32,
                });
                versions.take_record(place, &ranges);
                for range in ranges {
                    let end = sectors.min(range.first + range.count);
                    (range.first..end).for_each(|s| note(s, range.number, None, place + 1));
                }
            }
            versions.bury();
            for (sector, (number, at, tomb)) in (0..).zip(expected) {
                let seen = versions.numbers[sector as usize].saturating_sub(1);
                assert_eq!((seen, versions.table.get(sector)), (number, at));
                assert_eq!(versions.tombs[sector as usize], tomb);
            }
        }
    }
}
