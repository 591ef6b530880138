//! Preconditioned drives: the flash as a past workload would have left it, without running it.
//!
//! The firmware powers on from such flash as from any other.
//! *Full*: every page written once, in order. *Aged*: the steady state of uniform random
//! overwrites. In that state a line loses valid pages in proportion to those it has left, so the
//! share of valid pages falls geometrically with the age of the line; the ratio is the one at which
//! all lines together hold exactly the host's pages. The closed form for cleaning the oldest line
//! assumes this state, and greedy cleaning approaches it with large lines.
//! //= desnoyers2014 4

use crate::config::{ConfigError, DriveConfig};
use crate::layout::{Layout, NONE};
use crate::media::DriveMedia;
use crate::past::Past;
use crate::recover::word;
use crate::zoned::{self, ZoneLayout};
use nand::{BlockState, Media};
use serde::{Deserialize, Serialize};
use sim::{Rng, Seed};
use std::sync::Arc;

/// Past workload of a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Precondition {
    /// No past: the flash is erased.
    #[default]
    Fresh,
    /// Every page written once, in order; on a zoned drive every zone except conventional ones.
    Full,
    /// Overwritten at random until garbage collection is in its steady state.
    Aged,
}

impl Precondition {
    /// Every past, in the order in which reports list them.
    pub const ALL: [Self; 3] = [Self::Fresh, Self::Full, Self::Aged];

    /// The past's name in plans and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Full => "full",
            Self::Aged => "aged",
        }
    }

    /// A new drive with this past; `seed` draws bad blocks and the aged state.
    ///
    /// # Errors
    /// If `config` cannot be built, has too little spare flash to be aged, or has more bad blocks
    /// than leave room for this past.
    pub fn media(self, config: &DriveConfig, seed: Seed) -> Result<DriveMedia, ConfigError> {
        let layout = Layout::new(config)?;
        if self == Self::Fresh {
            return DriveMedia::new(config, seed);
        }
        if let Some(zones) = ZoneLayout::new(config)? {
            return self.zoned_media(config, &zones, seed);
        }
        if config.raw.is_some() {
            let expected =
                "fresh, as what the host of this drive has mapped it has to write itself";
            return Err(ConfigError::range("precondition", self.name(), expected));
        }
        if self == Self::Aged {
            check_aged(&layout, config)?;
        }
        let mut media = DriveMedia::new(config, seed)?;
        if self == Self::Full {
            let past = Past::full(layout, bad_blocks(config, &media.cells));
            past.check_blocks()?;
            media.cells = Media::with_past(config.geometry, Arc::new(past));
        } else {
            let mut scribe = Scribe::new(&layout, &mut media, seed);
            scribe.check_blocks(layout.aged_lines(config))?;
            scribe.write_aged(config);
        }
        Ok(media)
    }

    /// A new zoned drive whose sequential zones are all full. Zones do not age: the drive relocates
    /// no data of theirs.
    fn zoned_media(
        self,
        config: &DriveConfig,
        zones: &ZoneLayout,
        seed: Seed,
    ) -> Result<DriveMedia, ConfigError> {
        if self == Self::Aged {
            let expected = "fresh or full on a zoned drive, which moves no data of its own";
            return Err(ConfigError::range("precondition", self.name(), expected));
        }
        let mut media = DriveMedia::new(config, seed)?;
        zoned::write_full(zones, &mut media.cells)?;
        Ok(media)
    }
}

/// Indices of the blocks that are bad from the factory.
fn bad_blocks(config: &DriveConfig, cells: &Media) -> Vec<u32> {
    if config.faults.factory_bad_blocks == 0 {
        return Vec::new();
    }
    let geometry = cells.geometry();
    let is_bad = |&index: &u32| {
        let block = geometry.block_at(index as usize);
        cells.state(block) == BlockState::Bad
    };
    (0..geometry.blocks() as u32).filter(is_bad).collect()
}

/// Checks that the lines which hold data on an aged drive can hold all host pages.
fn check_aged(layout: &Layout, config: &DriveConfig) -> Result<(), ConfigError> {
    let lines = layout.aged_lines(config);
    let each = layout.host_pages.div_ceil(layout.groups);
    let need = each.div_ceil(layout.line_data);
    if lines >= need {
        return Ok(());
    }
    Err(ConfigError::Aged { lines, need })
}

/// Writer of lines in their order, each with the blocks that recovery will assign to it.
struct Scribe<'a> {
    layout: &'a Layout,
    media: &'a mut DriveMedia,
    rng: Rng,
    pages: Shuffle,
    sequence: u64,
    words: Vec<u32>,
    /// Good blocks of each die and plane, in descending order.
    blocks: Vec<Vec<u32>>,
}

impl<'a> Scribe<'a> {
    fn new(layout: &'a Layout, media: &'a mut DriveMedia, seed: Seed) -> Self {
        let planes = layout.geometry.planes;
        let columns = (layout.geometry.dies() * planes) as usize;
        let mut blocks = vec![Vec::new(); columns];
        for block in crate::recover::all_blocks(layout) {
            if media.cells.state(block) != BlockState::Bad {
                blocks[(block.die * planes + block.plane) as usize].push(block.block);
            }
        }
        for column in &mut blocks {
            column.reverse();
        }
        Self {
            pages: Shuffle::new(layout.host_pages, &mut seed.stream("precondition pages")),
            rng: seed.stream("precondition"),
            words: Vec::new(),
            layout,
            media,
            sequence: 1,
            blocks,
        }
    }

    /// Checks that the good blocks make `need` lines in each group.
    fn check_blocks(&self, need: u32) -> Result<(), ConfigError> {
        let good = self.blocks.iter().map(Vec::len).min().unwrap_or(0) as u32;
        if good >= need {
            return Ok(());
        }
        Err(ConfigError::BadBlocks { good, need })
    }

    /// Lines of all groups in turn, so that groups fill evenly.
    fn lines_in_turn(&self) -> impl Iterator<Item = u32> + use<> {
        let (groups, per_group) = (self.layout.groups, self.layout.lines_per_group);
        (0..per_group).flat_map(move |line| (0..groups).map(move |g| g * per_group + line))
    }

    fn write_aged(&mut self, config: &DriveConfig) {
        let used = self.layout.aged_lines(config) * self.layout.groups;
        let total = self.layout.host_pages;
        let shares = valid_shares(used, self.layout.line_data, total);
        let mut next = 0;
        for (line, valid) in self.lines_in_turn().zip(shares) {
            let mut left = valid;
            let mut slots = self.layout.line_data;
            let (pages, mut rng) = (self.pages.clone(), self.rng.clone());
            self.write_line(line, self.layout.line_data, |_| {
                let is_valid = rng.below(u64::from(slots)) < u64::from(left);
                slots -= 1;
                if is_valid {
                    left -= 1;
                    next += 1;
                    return pages.at(next - 1);
                }
                // Stale: a page whose newer version comes later.
                match total - next {
                    0 => NONE,
                    later => pages.at(next + rng.below(u64::from(later)) as u32),
                }
            });
            self.rng = rng;
        }
    }

    /// Writes `count` pages of a line; `page` gives the mapped page at each position.
    fn write_line(&mut self, line: u32, count: u32, mut page: impl FnMut(u32) -> u32) {
        let layout = self.layout;
        let rows: Vec<_> = (0..layout.dies_per_group)
            .map(|die| self.take_blocks(line, die))
            .collect();
        let full = count == layout.line_data;
        let end = if full { layout.line_pages } else { count };
        for unit in 0..end.div_ceil(layout.unit) {
            self.words.clear();
            for position in unit * layout.unit..(unit + 1) * layout.unit {
                let word = if position < count {
                    match page(position) {
                        NONE => word::PADDING,
                        page => word::word(layout, page, 0),
                    }
                } else if full {
                    word::SUMMARY
                } else {
                    word::PADDING
                };
                let sectors = layout.sectors_per_page as usize;
                self.words.extend(std::iter::repeat_n(word, sectors));
            }
            let mut row = rows[layout.die_in_group(unit) as usize];
            row.page = layout.first_row(unit);
            let first_handle = layout.group(line) * layout.handles;
            let label = word::label(line, first_handle as u16);
            self.media
                .cells
                .program(row, self.sequence, label, &self.words, &[])
                .expect("lines are written in order");
            self.sequence += 1;
        }
    }

    fn take_blocks(&mut self, line: u32, die_in_group: u32) -> nand::Row {
        let planes = self.layout.geometry.planes;
        let die = self.layout.dies(self.layout.group(line)).start + die_in_group;
        let blocks: Vec<u32> = (0..planes)
            .map(|plane| {
                let column = &mut self.blocks[(die * planes + plane) as usize];
                column.pop().expect("the good blocks were counted")
            })
            .collect();
        self.layout.row(die, &blocks, 0)
    }
}

/// Valid pages of `lines` lines of `size` pages each, oldest first. They add up to `total` pages
/// and fall geometrically with age.
fn valid_shares(lines: u32, size: u32, total: u32) -> Vec<u32> {
    let sum = |ratio: f64| {
        let mut share = f64::from(size);
        (0..lines).fold(0.0, |sum, _| {
            share *= ratio;
            sum + share
        })
    };
    // Bisection by additions and multiplications only: every machine computes the same result.
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..80 {
        let middle = (low + high) / 2.0;
        if sum(middle) < f64::from(total) {
            low = middle;
        } else {
            high = middle;
        }
    }
    let mut share = f64::from(size);
    let mut shares: Vec<u32> = (0..lines)
        .map(|_| {
            share *= high;
            share as u32
        })
        .collect();
    shares.reverse();
    spread_rest(&mut shares, size, total);
    shares
}

/// Distributes the pages that rounding lost, newest lines first.
fn spread_rest(shares: &mut [u32], size: u32, total: u32) {
    let mut rest = i64::from(total) - shares.iter().map(|&s| i64::from(s)).sum::<i64>();
    while rest > 0 {
        let before = rest;
        for share in shares.iter_mut().rev() {
            if rest > 0 && *share < size {
                *share += 1;
                rest -= 1;
            }
        }
        assert!(rest < before, "the lines hold all pages");
    }
}

/// A permutation of 0 to `len` that needs no memory: a Feistel network over the next power of four,
/// iterated until the result is below `len`.
#[derive(Clone, Debug)]
struct Shuffle {
    len: u32,
    half: u32,
    keys: [u64; 4],
}

impl Shuffle {
    fn new(len: u32, rng: &mut Rng) -> Self {
        let bits = u32::BITS - len.saturating_sub(1).leading_zeros();
        Self {
            len,
            half: bits.div_ceil(2).max(1),
            keys: std::array::from_fn(|_| rng.next_u64()),
        }
    }

    fn at(&self, index: u32) -> u32 {
        let mut value = u64::from(index);
        loop {
            value = self.step(value);
            if value < u64::from(self.len) {
                return value as u32;
            }
        }
    }

    fn step(&self, value: u64) -> u64 {
        let mask = (1_u64 << self.half) - 1;
        let (mut left, mut right) = (value >> self.half, value & mask);
        for key in self.keys {
            let mixed = (right ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (left, right) = (right, left ^ (mixed >> 40 & mask));
        }
        left << self.half | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shuffle_is_a_permutation() {
        for len in [1, 2, 5, 1000, 4096, 5000] {
            let shuffle = Shuffle::new(len, &mut Seed(3).stream("shuffle"));
            let mut seen: Vec<u32> = (0..len).map(|i| shuffle.at(i)).collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..len), "{len}");
        }
    }

    #[test]
    fn shares_add_up_and_fall_with_age() {
        let shares = valid_shares(100, 1000, 80_000);
        assert_eq!(shares.iter().sum::<u32>(), 80_000);
        assert!(shares.is_sorted());
        // ratio^100 solves (1 - x)/ln(1/x) = 0.8: x is about 0.63.
        assert!((620..650).contains(&shares[0]), "{}", shares[0]);
    }
}
