//! The memory of a drive with a past, from the functions of the past and from the scan of its words.

use super::{Rebuilt, demand, frontiers, memory, past, scan};
use crate::config::{DriveConfig, Interface};
use crate::journal::Journal;
use crate::layout::Layout;
use crate::line::Line;
use crate::precondition::Precondition;
use crate::presets::Preset;
use crate::state::State;
use nand::{BlockId, Geometry, Media};
use sim::Seed;
use units::{Bytes, KIB};

const GEOMETRY: Geometry = Geometry {
    channels: 2,
    chips_per_channel: 2,
    dies_per_chip: 1,
    planes: 2,
    blocks_per_plane: 40,
    pages_per_block: 12,
    page_bytes: 16 * KIB as u32,
    spare_bytes: 64,
    pages_per_program: 3,
    spare_words: 1,
};

/// A drive of [`GEOMETRY`] with that share of it, in percent, as its capacity.
fn drive(percent: u64) -> DriveConfig {
    let mut config = (Preset::named("block").expect("a preset").config)();
    config.geometry = GEOMETRY;
    config.capacity = Bytes(GEOMETRY.bytes() / 16_384 * percent / 100 * 16_384);
    config.wear.spare_blocks = 2;
    config
}

fn fdp(percent: u64, groups: u16, handles: u16) -> DriveConfig {
    let mut config = drive(percent);
    config.interface = Interface::Fdp;
    config.placement.handles = handles;
    config.placement.reclaim_groups = groups;
    config
}

/// Drives of several shapes. Their last line with data is full, partly full and nearly empty.
fn drives() -> Vec<DriveConfig> {
    let mut drives: Vec<_> = (48..77).step_by(7).map(drive).collect();
    let line = Layout::new(&drive(50)).expect("a good drive").line_data;
    for pages in [1, 8 * line, 8 * line + 1, 9 * line - 1] {
        let mut exact = drive(50);
        exact.capacity = Bytes(u64::from(pages) * 4 * KIB);
        drives.push(exact);
    }
    let mut large_pages = drive(63);
    large_pages.mapping.unit = Bytes(8 * KIB);
    drives.push(large_pages.clone());
    large_pages.mapping.unit = Bytes(16 * KIB);
    drives.push(large_pages);
    let mut paged = drive(62);
    paged.mapping.cache = Bytes(64 * KIB);
    drives.push(paged);
    let mut one_page = drive(60);
    one_page.geometry.pages_per_program = 1;
    one_page.wear.static_threshold = 3;
    drives.push(one_page);
    drives.extend([fdp(40, 2, 1), fdp(36, 2, 3), fdp(24, 4, 1), fdp(50, 1, 4)]);
    let bad = drives.clone().into_iter().map(|mut drive| {
        drive.faults.factory_bad_blocks = 20_000;
        drive
    });
    drives.extend(bad.collect::<Vec<_>>());
    drives
}

/// All that the firmware knows, as text: map, lines, valid pages, then the rest.
fn described(layout: &Layout, (state, journal): &(State, Journal)) -> [String; 4] {
    let lines = &state.lines;
    let map: Vec<_> = (0..layout.pages())
        .map(|page| state.map.get(page))
        .collect();
    let valid = (0..layout.lines() * layout.line_pages).filter(|&page| lines.is_valid(page));
    let valid: Vec<u32> = valid.collect();
    let mut all: Vec<Line> = lines.lines.clone();
    all.iter_mut().for_each(|line| line.is_past = false);
    let rest = format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {} {journal:?}",
        lines.derived(),
        state.blocks,
        state.spares,
        state.frontiers,
        state.in_flight,
        state.loads,
        state.most_erases,
    );
    [
        format!("{map:?}"),
        format!("{all:?}"),
        format!("{valid:?}"),
        rest,
    ]
}

/// The memory after power-on, by the function of the past if `at_once`.
fn powered(
    config: &DriveConfig,
    layout: &Layout,
    media: &Media,
    at_once: bool,
) -> (State, Journal) {
    let frontiers = frontiers(layout, config);
    let pools = demand::pools(layout, config, &frontiers);
    let rebuilt: Rebuilt = if at_once {
        let past = past::of(layout, media).expect("a drive with a past");
        assert!(past::is_all(media, None), "nothing was written since");
        past::remember(layout, config, pools, &past)
    } else {
        scan(layout, config, media, None, (frontiers.len(), pools), None)
    };
    memory(layout, config, media, rebuilt, frontiers, None)
}

#[test]
fn memory_from_the_past_is_that_of_a_scan() {
    let mut compared = 0;
    for (number, config) in drives().iter().enumerate() {
        let layout = Layout::new(config).unwrap_or_else(|error| panic!("drive {number}: {error}"));
        for past in [Precondition::Full, Precondition::Aged] {
            let Ok(media) = past.media(config, Seed(number as u64)) else {
                continue;
            };
            let at_once = powered(config, &layout, &media.cells, true);
            at_once.0.check(&layout);
            let at_once = described(&layout, &at_once);
            let scanned = described(&layout, &powered(config, &layout, &media.cells, false));
            for (one, other) in at_once.iter().zip(&scanned) {
                assert_eq!(one, other, "drive {number}, {past:?}");
            }
            compared += 1;
        }
    }
    assert!(
        compared >= drives().len() - 4,
        "{compared} drives could be made"
    );
}

#[test]
fn changed_flash_is_scanned() {
    let config = drive(60);
    let layout = Layout::new(&config).expect("a good drive");
    let media = Precondition::Full.media(&config, Seed(1));
    let mut cells = media.expect("a good drive").cells;
    assert!(past::of(&layout, &cells).is_some());
    let other = Layout::new(&drive(61)).expect("a good drive");
    assert!(past::of(&other, &cells).is_none(), "of another drive");
    let dump = |trims| super::Dump {
        slots: Vec::new(),
        trims,
    };
    let trim = super::Trimmed {
        sequence: 10_000,
        first: 0,
        pages: 3,
    };
    assert!(past::is_all(&cells, Some(&dump(Vec::new()))));
    assert!(!past::is_all(&cells, Some(&dump(vec![trim]))));
    let last = BlockId {
        die: 3,
        plane: 1,
        block: 39,
    };
    cells.erase(last).expect("it is good");
    assert!(!past::is_all(&cells, None));
}
