//! [`Segments`]: the state of all segments of the main area, and the write points of the six
//! logs.
//!
//! # Invariants
//!
//! - A block that the last checkpoint leads to, or that was given out since, is *held*,
//!   whether or not it is still valid. A held block is not overwritten, so recovery finds
//!   all that it may need. A checkpoint releases held blocks that are not valid.
//! - A segment without held blocks and without a log is free. A section is free if all its
//!   segments are.
//! - A block is valid from the moment at which a log gives it out, before it is written.
//! - A section whose flash has failed (a *lost* section) is never free, and no log enters it.

use crate::format::SEG_BLOCKS;
use crate::format::checkpoint::LogAt;
use crate::format::sit::{MAP, SitEntry};
use crate::format::summary::{Owner, Owners, nobody};
use crate::format::superblock::Geometry;
use crate::format::{high_bit, set_high_bit};
use crate::persist::{Log, SectionUse};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

const BLOCKS: usize = SEG_BLOCKS as usize;

/// Write point of a log in memory, and the summary of its segment.
pub(crate) struct Writing {
    pub(crate) at: LogAt,
    pub(crate) owners: Owners,
    /// Whether `owners` lacks blocks whose owners are only in the summary on the medium.
    pub(crate) unread: bool,
}

/// Block of the main area that a log has given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) addr: u32,
    /// Address of the block that the log gives out next.
    pub(crate) next: u32,
}

/// State of all segments of the main area, and the write points of the logs.
pub(crate) struct Segments {
    geometry: Geometry,
    entries: Vec<SitEntry>,
    /// Map of the held blocks of each segment; `held_blocks` counts them.
    held: Vec<[u8; MAP]>,
    held_blocks: Vec<u16>,
    /// Whether each segment is not free; `section_used` counts such segments by section.
    used: Vec<bool>,
    section_used: Vec<u32>,
    free_sections: u32,
    pub(crate) logs: [Writing; 6],
    /// Summaries that the next checkpoint writes, of segments that logs have left. The flag is
    /// that of [`Writing::unread`].
    pub(crate) filled: BTreeMap<u32, (Owners, bool)>,
    /// Segments whose entry is not in the table on the medium.
    pub(crate) changed: BTreeSet<u32>,
    /// Segments with blocks that were held or freed since the last checkpoint.
    touched: BTreeSet<u32>,
    /// Number of free sections that are left for cleaning and checkpoints.
    pub(crate) reserved_sections: u32,
    /// Whether logs may fill gaps of segments when free sections are few.
    fills: bool,
    /// The section that is being cleaned: no log enters it.
    pub(crate) cleaning: Option<u32>,
    /// Lost sections; `lost_blocks` counts the blocks in them that are not valid.
    lost: BTreeSet<u32>,
    lost_blocks: u64,
}

/// The first block from `from` on whose bit in `held` is clear; `None` if there is none.
fn next_gap(held: &[u8; MAP], from: usize) -> Option<usize> {
    (from..BLOCKS).find(|&at| !high_bit(held, at))
}

impl Segments {
    /// Bytes of memory for the state of all segments and sections, without summaries.
    pub(crate) fn memory(&self) -> usize {
        let each = size_of::<SitEntry>() + MAP + size_of::<u16>() + size_of::<bool>();
        self.entries.len() * each + self.section_used.len() * size_of::<u32>()
    }

    /// State right after a mount: `entries` are those of the last checkpoint, whose valid blocks
    /// are held. `reserved_segments` is rounded up to sections.
    pub(crate) fn new(
        geometry: Geometry,
        entries: Vec<SitEntry>,
        logs: [Writing; 6],
        reserved_segments: u32,
        fills: bool,
    ) -> Self {
        let count = entries.len();
        let mut segments = Self {
            held: entries.iter().map(|entry| entry.map).collect(),
            held_blocks: entries.iter().map(|entry| entry.valid).collect(),
            used: vec![false; count],
            section_used: vec![0; geometry.sections() as usize],
            free_sections: geometry.sections(),
            entries,
            logs,
            filled: BTreeMap::new(),
            changed: BTreeSet::new(),
            touched: BTreeSet::new(),
            reserved_sections: reserved_segments.div_ceil(geometry.segs_per_sec),
            fills,
            cleaning: None,
            lost: BTreeSet::new(),
            lost_blocks: 0,
            geometry,
        };
        (0..count as u32).for_each(|segment| segments.refresh(segment));
        segments
    }

    /// Updates `used` and the counts that depend on it after a change of a segment.
    fn refresh(&mut self, segment: u32) {
        let index = segment as usize;
        let used = self.held_blocks[index] > 0 || self.is_current(segment);
        if used == self.used[index] {
            return;
        }
        self.used[index] = used;
        let kept = !self.lost.contains(&self.section_of(segment));
        let section = &mut self.section_used[index / self.geometry.segs_per_sec as usize];
        if used {
            self.free_sections -= u32::from(*section == 0 && kept);
            *section += 1;
        } else {
            *section -= 1;
            self.free_sections += u32::from(*section == 0 && kept);
        }
    }

    /// Marks `section` as lost: its flash has failed, and it takes no more writes.
    pub(crate) fn lose(&mut self, section: u32) {
        if !self.lost.insert(section) {
            return;
        }
        self.free_sections -= u32::from(self.section_used[section as usize] == 0);
        let blocks = self.segments_of(section);
        let unused =
            blocks.map(|segment| u64::from(SEG_BLOCKS) - u64::from(self.entry(segment).valid));
        self.lost_blocks += unused.sum::<u64>();
    }

    /// Whether `section` is lost.
    pub(crate) fn is_lost(&self, section: u32) -> bool {
        self.lost.contains(&section)
    }

    /// Number of blocks in lost sections that are not valid. No log gives them out again.
    pub(crate) const fn lost_blocks(&self) -> u64 {
        self.lost_blocks
    }

    /// Whether a log writes to this segment.
    pub(crate) fn is_current(&self, segment: u32) -> bool {
        self.logs.iter().any(|log| log.at.segment == segment)
    }

    /// Number of free sections.
    pub(crate) const fn free_sections(&self) -> u32 {
        self.free_sections
    }

    /// Segments without a valid block or a log; some may have held blocks.
    fn empty(&self) -> impl Iterator<Item = u32> {
        let entries = (0..).zip(&self.entries);
        let empty = entries.filter(|(_, entry)| entry.valid == 0);
        let segments = empty.map(|(segment, _)| segment);
        segments.filter(|&segment| !self.is_current(segment))
    }

    /// Number of segments without a valid block or a log: the free segments of a checkpoint's head.
    pub(crate) fn empty_segments(&self) -> u32 {
        self.empty().count() as u32
    }

    /// Number of empty segments outside lost sections.
    pub(crate) fn usable_segments(&self) -> u32 {
        let usable = |segment: &u32| !self.is_lost(self.section_of(*segment));
        self.empty().filter(usable).count() as u32
    }

    /// Number of sections that the next checkpoint frees: not free, without a valid block or a log.
    pub(crate) fn waiting_sections(&self) -> u32 {
        let waits = |section: u32| {
            let mut segments = self.segments_of(section);
            let mut used = false;
            let empty = segments.all(|segment| {
                used |= self.used[segment as usize];
                self.entries[segment as usize].valid == 0 && !self.is_current(segment)
            });
            empty && used && !self.is_lost(section)
        };
        let sections: BTreeSet<u32> = self.touched.iter().map(|s| self.section_of(*s)).collect();
        sections
            .into_iter()
            .filter(|&section| waits(section))
            .count() as u32
    }

    /// The section of a segment.
    pub(crate) const fn section_of(&self, segment: u32) -> u32 {
        segment / self.geometry.segs_per_sec
    }

    /// The segments of a section.
    pub(crate) const fn segments_of(&self, section: u32) -> Range<u32> {
        let first = section * self.geometry.segs_per_sec;
        first..first + self.geometry.segs_per_sec
    }

    /// Table entry of a segment, as of now.
    pub(crate) fn entry(&self, segment: u32) -> &SitEntry {
        &self.entries[segment as usize]
    }

    /// Whether the block at `addr` of the main area is valid.
    pub(crate) fn is_valid(&self, addr: u32) -> bool {
        let (segment, at) = self.geometry.place_of(addr);
        high_bit(&self.entry(segment).map, at as usize)
    }

    /// Holds a block of the main area until the next checkpoint, or longer if it is valid then.
    pub(crate) fn hold(&mut self, addr: u32) {
        let (segment, at) = self.geometry.place_of(addr);
        let held = &mut self.held[segment as usize];
        if !high_bit(held, at as usize) {
            set_high_bit(held, at as usize, true);
            self.held_blocks[segment as usize] += 1;
            self.refresh(segment);
        }
        self.touched.insert(segment);
    }

    /// Marks a block of the main area as valid and holds it. `time` is the elapsed time of the
    /// file system in seconds, by which cleaning tells the age of a segment.
    pub(crate) fn use_block(&mut self, addr: u32, time: u64) {
        self.hold(addr);
        let (segment, at) = self.geometry.place_of(addr);
        let entry = &mut self.entries[segment as usize];
        if !high_bit(&entry.map, at as usize) {
            set_high_bit(&mut entry.map, at as usize, true);
            entry.valid += 1;
            let lost = self.is_lost(self.section_of(segment));
            self.lost_blocks -= u64::from(lost);
        }
        self.entries[segment as usize].time = time;
        self.changed.insert(segment);
    }

    /// Marks a data block as valid that recovery has found, like [`Self::use_block`].
    pub(crate) fn adopt(&mut self, addr: u32, time: u64) {
        let (segment, _) = self.geometry.place_of(addr);
        if self.entry(segment).valid == 0 && !self.is_current(segment) {
            // The log in the entry is that of the segment's previous use.
            self.entries[segment as usize].log = Log::WarmData as u8;
        }
        self.use_block(addr, time);
    }

    /// Marks a block of the main area as not valid; it stays held until the next checkpoint.
    pub(crate) fn free_block(&mut self, addr: u32) {
        let (segment, at) = self.geometry.place_of(addr);
        if vfs::mutant::is("f2fs-reuse-before-checkpoint") {
            set_high_bit(&mut self.held[segment as usize], at as usize, false);
        }
        let entry = &mut self.entries[segment as usize];
        if high_bit(&entry.map, at as usize) {
            set_high_bit(&mut entry.map, at as usize, false);
            entry.valid -= 1;
            let lost = self.is_lost(self.section_of(segment));
            self.lost_blocks += u64::from(lost);
        }
        self.changed.insert(segment);
        self.touched.insert(segment);
    }

    /// Gives out the next block of `log` to `owner`, and moves the write point. Returns `None`,
    /// and changes nothing, if the log needs another segment and none can be chosen.
    pub(crate) fn give(&mut self, log: Log, owner: Owner, time: u64) -> Option<Given> {
        let writing = &self.logs[log as usize];
        let (segment, at) = (writing.at.segment, usize::from(writing.at.at));
        let next = match writing.at.fills {
            true => next_gap(&self.held[segment as usize], at + 1),
            false => Some(at + 1).filter(|&next| next < BLOCKS),
        };
        let choice = match next {
            Some(next) => LogAt {
                at: next as u16,
                ..writing.at
            },
            None => self.choose(log)?,
        };
        let addr = self.geometry.addr_of(segment, at as u32);
        self.logs[log as usize].owners[at] = owner;
        self.use_block(addr, time);
        if next.is_none() {
            self.go_on(log, choice);
        }
        self.logs[log as usize].at = choice;
        let next = self.geometry.addr_of(choice.segment, u32::from(choice.at));
        Some(Given { addr, next })
    }

    /// Moves the write point of `log` to `choice`. The summary of the old segment is kept in
    /// `filled`.
    fn go_on(&mut self, log: Log, choice: LogAt) {
        let writing = &mut self.logs[log as usize];
        let old = writing.at.segment;
        let owners = std::mem::replace(&mut writing.owners, nobody());
        self.filled.insert(old, (owners, writing.unread));
        writing.at = choice;
        writing.unread = false;
        if choice.fills {
            let (owners, unread) = self
                .filled
                .remove(&choice.segment)
                .unwrap_or((nobody(), true));
            (writing.owners, writing.unread) = (owners, unread);
        }
        self.entries[choice.segment as usize].log = log as u8;
        self.changed.insert(choice.segment);
        self.refresh(old);
        self.refresh(choice.segment);
    }

    /// Address of the block that `log` gives out next.
    pub(crate) fn next_of(&self, log: Log) -> u32 {
        let at = self.logs[log as usize].at;
        self.geometry.addr_of(at.segment, u32::from(at.at))
    }

    /// Moves the write point of `log` to another segment, even if its segment has room. The
    /// new segment is at the start of a free section if logs fill no gaps. `None` if no segment
    /// can be chosen.
    pub(crate) fn renew(&mut self, log: Log) -> Option<()> {
        let choice = if self.fills {
            self.choose(log)?
        } else {
            self.choose_section(log)?
        };
        self.go_on(log, choice);
        Some(())
    }

    /// Chooses the next segment of `log`. First choice is a free segment behind the current one
    /// in its section, unless the section is lost. Second is a segment with gaps, if logs fill
    /// gaps and free sections are few. Last is a free section.
    fn choose(&self, log: Log) -> Option<LogAt> {
        let current = self.logs[log as usize].at.segment;
        let section = self.section_of(current);
        let end = match self.is_lost(section) {
            true => current + 1,
            false => self.segments_of(section).end,
        };
        let mut after = current + 1..end;
        let free = after.find(|&segment| !self.used[segment as usize]);
        if let Some(segment) = free {
            return Some(LogAt::start_of(segment));
        }
        let few = self.free_sections <= 2 * self.reserved_sections;
        if self.fills
            && few
            && let Some(gaps) = self.gaps(log)
        {
            return Some(gaps);
        }
        self.choose_section(log)
    }

    /// The start of the first free section behind that of `log`; the search wraps around.
    fn choose_section(&self, log: Log) -> Option<LogAt> {
        let section = self.section_of(self.logs[log as usize].at.segment);
        let sections = self.geometry.sections();
        let mut round = (section + 1..sections).chain(0..section);
        let is_free = |section| {
            let empty = self.section_used[section as usize] == 0;
            empty && self.cleaning != Some(section) && !self.is_lost(section)
        };
        let free = round.find(|&section| is_free(section))?;
        Some(LogAt::start_of(self.segments_of(free).start))
    }

    /// Use of each section, for [`MainArea::settle`](crate::persist::MainArea::settle).
    pub(crate) fn uses(&self) -> Vec<SectionUse> {
        let use_of = |section: u32| {
            let mut segments = self.segments_of(section);
            match self.section_used[section as usize] {
                0 => SectionUse::Free,
                _ if segments.any(|segment| self.is_current(segment)) => SectionUse::Open,
                _ => SectionUse::Kept,
            }
        };
        (0..self.geometry.sections()).map(use_of).collect()
    }

    /// The segment with the fewest held blocks that `log` can fill: one that the log itself has
    /// written, else one of another log of its kind (nodes or data).
    fn gaps(&self, log: Log) -> Option<LogAt> {
        let best = |same: &dyn Fn(u8) -> bool| {
            let segments = (0..self.geometry.main_segments).filter(|&segment| {
                let entry = self.entry(segment);
                let room = usize::from(self.held_blocks[segment as usize]) < BLOCKS;
                let section = self.section_of(segment);
                let kept = self.is_current(segment)
                    || self.cleaning == Some(section)
                    || self.is_lost(section);
                entry.valid > 0 && room && same(entry.log) && !kept
            });
            segments.min_by_key(|&segment| self.held_blocks[segment as usize])
        };
        let own = best(&|by| by == log as u8);
        let segment = own.or_else(|| best(&|by| (by >= 3) == log.is_node()))?;
        let at = next_gap(&self.held[segment as usize], 0)?;
        Some(LogAt {
            segment,
            at: at as u16,
            fills: true,
        })
    }

    /// Releases held blocks that are not valid; called when a checkpoint is durable. Returns the
    /// sections that changed since the checkpoint before and are free now.
    pub(crate) fn let_go(&mut self) -> Vec<u32> {
        let mut freed = BTreeSet::new();
        for segment in std::mem::take(&mut self.touched) {
            let index = segment as usize;
            self.held[index] = self.entries[index].map;
            self.held_blocks[index] = self.entries[index].valid;
            self.refresh(segment);
            let section = self.section_of(segment);
            if self.section_used[section as usize] == 0 && !self.is_lost(section) {
                freed.insert(section);
            }
        }
        freed.into_iter().collect()
    }

    /// Asserts that every valid block is held, and that counts agree.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        for (entry, (held, blocks)) in self
            .entries
            .iter()
            .zip(self.held.iter().zip(&self.held_blocks))
        {
            assert!(entry.is_sound());
            assert!(
                entry
                    .map
                    .iter()
                    .zip(held)
                    .all(|(map, held)| map & !held == 0)
            );
            let count: u32 = held.iter().map(|byte| byte.count_ones()).sum();
            assert_eq!(count, u32::from(*blocks));
        }
        let sections = (0..).zip(&self.section_used);
        let free = sections.filter(|(section, used)| **used == 0 && !self.is_lost(*section));
        assert_eq!(free.count() as u32, self.free_sections);
        let lost = self
            .lost
            .iter()
            .flat_map(|section| self.segments_of(*section));
        let lost = lost.map(|segment| u64::from(SEG_BLOCKS) - u64::from(self.entry(segment).valid));
        assert_eq!(lost.sum::<u64>(), self.lost_blocks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry() -> Geometry {
        let options = crate::MkfsOptions::new(32_768);
        let blocks = crate::mkfs(&options).unwrap();
        Geometry::decode(&blocks[&0], 32_768).unwrap()
    }

    fn segments(fills: bool) -> Segments {
        let geometry = geometry();
        let writing = |segment| Writing {
            at: LogAt {
                segment,
                at: 0,
                fills: false,
            },
            owners: nobody(),
            unread: false,
        };
        let entries = vec![SitEntry::default(); geometry.main_segments as usize];
        Segments::new(geometry, entries, [0, 1, 2, 3, 4, 5].map(writing), 2, fills)
    }

    fn owner(nid: u32) -> Owner {
        Owner {
            nid,
            version: 0,
            at: 0,
        }
    }

    #[test]
    fn held_block_is_not_given_out_before_the_next_checkpoint() {
        for fills in [false, true] {
            let mut segments = segments(fills);
            let mut rng = sim::Seed(5).stream("segments");
            let (mut valid, mut since) = (BTreeSet::new(), BTreeSet::new());
            for round in 0..60_000 {
                let log = Log::ALL[rng.below(6) as usize];
                if let Some(given) = segments.give(log, owner(7), round) {
                    assert!(!valid.contains(&given.addr) && since.insert(given.addr));
                    valid.insert(given.addr);
                }
                if valid.len() > 8_000 {
                    let nth = rng.below(valid.len() as u64) as usize;
                    let addr = *valid.iter().nth(nth).unwrap();
                    valid.remove(&addr);
                    since.insert(addr);
                    segments.free_block(addr);
                }
                if rng.below(3_000) == 0 {
                    segments.let_go();
                    since.clear();
                    segments.check();
                }
            }
            assert!(valid.iter().all(|&addr| segments.is_valid(addr)));
        }
    }

    #[test]
    fn failed_section_gives_logs_no_room() {
        let mut segments = segments(true);
        let empty = segments.empty_segments();
        segments.lose(9);
        segments.check();
        assert_eq!(segments.empty_segments(), empty);
        assert_eq!(segments.usable_segments(), empty - 1);
    }

    #[test]
    fn emptied_section_is_free_after_the_next_checkpoint() {
        let mut segments = segments(true);
        let free = segments.free_sections();
        let give = |segments: &mut Segments| segments.give(Log::ColdData, owner(1), 0).unwrap();
        let given: Vec<u32> = (0..BLOCKS).map(|_| give(&mut segments).addr).collect();
        assert_eq!(segments.free_sections(), free - 1);
        assert!(segments.filled.contains_key(&2));
        given.iter().for_each(|&addr| segments.free_block(addr));
        assert_eq!(
            (segments.free_sections(), segments.waiting_sections()),
            (free - 1, 1)
        );
        assert_eq!(segments.let_go(), [2]);
        assert_eq!(
            (segments.free_sections(), segments.waiting_sections()),
            (free, 0)
        );
    }
}
