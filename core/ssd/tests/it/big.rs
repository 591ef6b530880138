//! Drives beyond 8 TiB: addresses above 2^31 mapping units, in the memory of a laptop.

use crate::scale::alone;
use crate::support::recover;
use nand::{Geometry, Payload};
use sim::{Kernel, Seed};
use ssd::{Content, Drive, DriveConfig, IoError, Layout, Precondition, Preset};
use std::collections::BTreeMap;
use units::{Bytes, Extent, KIB, MIB, Origin, Placement, SECTOR, TIB};

fn preset() -> DriveConfig {
    (Preset::named("block").expect("a preset").config)()
}

/// A drive of 64 TB with mapping units of 16 KiB and 7 % more flash.
fn coarse() -> DriveConfig {
    let mut config = preset();
    config.mapping.unit = Bytes(16 * KIB);
    config = config.resized(Bytes(64_000_000_000_000 / 16_384 * 16_384));
    let line = config.geometry.bytes() / u64::from(config.geometry.blocks_per_plane);
    config.geometry.blocks_per_plane = (config.capacity.0 * 107 / 100).div_ceil(line) as u32;
    config
}

/// A drive of 15 TiB with mapping units of 4 KiB, in lines of 32 MiB.
fn fine(protected: bool) -> DriveConfig {
    let mut config = preset();
    config.geometry = Geometry {
        channels: 2,
        chips_per_channel: 1,
        dies_per_chip: 1,
        planes: 2,
        blocks_per_plane: 496_000,
        pages_per_block: 512,
        page_bytes: 16 * KIB as u32,
        spare_bytes: 64,
        pages_per_program: 1,
        spare_words: 1,
    };
    config.capacity = Bytes(15 * TIB);
    config.flash.keep_contents = true;
    config.controller.write_buffer = Bytes(MIB);
    config.controller.power_loss_protection = protected;
    config
}

#[test]
fn limits_name_the_mapping_unit() {
    let says = |config: DriveConfig| Layout::new(&config).expect_err("too large").to_string();
    let large = says(preset().resized(Bytes(32 * TIB)));
    assert_eq!(
        large,
        "capacity: 32 TiB given, at most 15.94 TiB with mapping.unit at 4 KiB, or a mapping.unit of \
         16 KiB, expected"
    );
    let mut coarse = preset();
    coarse.mapping.unit = Bytes(16 * KIB);
    let large = says(coarse.resized(Bytes(100 * TIB)));
    assert!(
        large.contains("at most 63.75 TiB with mapping.unit at 16 KiB expected"),
        "{large}"
    );
    let mut flash = fine(true);
    flash.geometry.blocks_per_plane = 560_000;
    let large = says(flash);
    assert!(
        large.starts_with("geometry.blocks_per_plane: 560000 given, at most 52"),
        "{large}"
    );
    let mut front = (Preset::named("byte").expect("a preset").config)();
    front = front.resized(Bytes(9 * TIB));
    assert!(says(front).contains("at most 8 TiB on a drive with a front"));
    let mut open = (Preset::named("ocssd").expect("a preset").config)();
    open = open.resized(Bytes(9 * TIB));
    assert!(says(open).contains("on an open-channel drive"));
    let zoned = (Preset::named("zns").expect("a preset").config)();
    let says = says(zoned.resized(Bytes(9 * TIB)));
    assert!(says.contains("8 TiB"), "{says}");
    let mut buffer = preset();
    buffer.controller.write_buffer = Bytes(TIB);
    let large = Layout::new(&buffer).expect_err("too large").to_string();
    assert!(
        large.contains("controller.write_buffer: 1 TiB given, at most 64 GiB"),
        "{large}"
    );
}

/// Bytes of memory that are resident in this process; `None` where the system does not tell.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

fn start(past: Precondition) {
    let config = coarse();
    let kernel = Kernel::new();
    let media = past.media(&config, Seed(1)).expect("a good drive");
    let drive = Drive::ready(&kernel.sim(), &config, media, Seed(1)).expect("a good drive");
    let (map, flash) = drive.memory();
    assert!(drive.layout().host_pages > 3 << 30);
    assert!(map + flash < 200_000_000, "{map} and {flash} bytes");
    if let Some(resident) = resident() {
        eprintln!("{past:?}: {} MB", resident / 1_000_000);
        assert!(resident < 200_000_000, "{resident} bytes");
    }
}

#[test]
fn full_64_tb_in_units_of_16_kib_take_200_mb() {
    let name = "big::full_64_tb_in_units_of_16_kib_take_200_mb";
    alone(name, || start(Precondition::Full));
}

#[test]
fn aged_64_tb_in_units_of_16_kib_take_200_mb() {
    let name = "big::aged_64_tb_in_units_of_16_kib_take_200_mb";
    alone(name, || start(Precondition::Aged));
}

/// Newest contents of pages, with 0 for deallocated ones.
type Written = BTreeMap<u64, u64>;

const PAGE: u32 = 4096 / SECTOR as u32;

async fn put(drive: &Drive, written: &mut Written, page: u64, tag: u64) -> Result<(), IoError> {
    let extent = Extent::new(page * u64::from(PAGE), PAGE);
    if tag == 0 {
        drive.trim(extent).await?;
    } else {
        let (content, at) = (Content::Fill(tag), Placement(0));
        drive.write(extent, content, at, Origin(0), false).await?;
    }
    written.insert(page, tag);
    Ok(())
}

fn check(drive: &Drive, written: &Written, context: &str) {
    for (&page, &tag) in written {
        let sectors = drive
            .peek(page as u32)
            .unwrap_or_else(|| vec![Payload::Zero]);
        let expected = match tag {
            0 => Payload::Zero,
            tag => Payload::Fill(tag),
        };
        assert_eq!(sectors, [expected], "{context}: page {page}");
    }
}

/// Writes and deallocates pages in `ranges`, given by first page and length, then flushes.
fn touch(kernel: &Kernel, drive: &Drive, ranges: &[(u64, u64)], count: u64) -> Written {
    let (worker, ranges) = (drive.clone(), ranges.to_vec());
    let mut rng = Seed(3).stream("pages");
    let written = kernel.block_on(async move {
        let mut written = Written::new();
        for number in 1..=count {
            let (first, len) = ranges[rng.below(ranges.len() as u64) as usize];
            let page = first + rng.below(len);
            let tag = if rng.below(8) == 0 { 0 } else { number };
            put(&worker, &mut written, page, tag).await.expect("room");
        }
        worker.flush().await.expect("no block fails");
        written
    });
    check(drive, &written, "before the cut");
    written
}

fn powered(config: &DriveConfig, past: Precondition) -> (Kernel, Drive) {
    let kernel = Kernel::new();
    let media = past.media(config, Seed(3)).expect("a good drive");
    let drive = Drive::ready(&kernel.sim(), config, media, Seed(3)).expect("a good drive");
    (kernel, drive)
}

#[test]
fn cut_of_a_drive_beyond_2_31_pages_keeps_flushed_data() {
    for past in [Precondition::Fresh, Precondition::Full, Precondition::Aged] {
        for protected in [true, false] {
            let config = fine(protected);
            let (kernel, drive) = powered(&config, past);
            let pages = u64::from(drive.layout().host_pages);
            assert!(pages > 3 << 30, "above 2^31");
            let ranges = [(0, 500), (1 << 31, 500), (pages - 500, 500)];
            let written = touch(&kernel, &drive, &ranges, 3_000);
            let (_kernel, drive) = recover(&config, drive.at_power_cut());
            check(
                &drive,
                &written,
                &format!("{past:?}, protected: {protected}"),
            );
        }
    }
}

#[test]
fn collection_beyond_2_31_pages_keeps_data_over_a_cut() {
    let mut config = fine(false);
    config.capacity = Bytes(12 * TIB);
    let (kernel, drive) = powered(&config, Precondition::Aged);
    let pages = u64::from(drive.layout().host_pages);
    let line = u64::from(drive.layout().line_data);
    let ranges = [(1 << 31, line), (pages - line, line)];
    let written = touch(&kernel, &drive, &ranges, 8 * line);
    let ledger = drive.ledger();
    assert!(ledger.lines_collected > 4, "{}", ledger.lines_collected);
    let moved = written
        .keys()
        .filter_map(|&page| drive.line_of(page as u32));
    let highest = moved.max().expect("some are on flash");
    let place = u64::from(highest) * u64::from(drive.layout().line_pages);
    assert!(place > 1 << 31, "the place needs 32 bits");
    let (_kernel, drive) = recover(&config, drive.at_power_cut());
    check(&drive, &written, "after the cut");
}

/// Pages programmed for each page that the host writes at random, `bytes` at a time, to the flash of
/// the preset `6600-ion` as one die.
fn programmed_per_write(bytes: u64) -> f64 {
    let mut config = (Preset::named("6600-ion").expect("a preset").config)();
    let raw = config.geometry.bytes();
    config.geometry = Geometry {
        channels: 1,
        chips_per_channel: 1,
        dies_per_chip: 1,
        pages_per_block: 8,
        ..config.geometry
    };
    let share = u128::from(config.capacity.0) * u128::from(config.geometry.bytes());
    config.capacity = Bytes((share / u128::from(raw)) as u64 / (16 * KIB) * (16 * KIB));
    config.controller.write_buffer = Bytes(MIB);
    let (kernel, drive) = powered(&config, Precondition::Aged);
    let (worker, mut rng) = (drive.clone(), Seed(5).stream("writes"));
    let slots = config.capacity.0 / bytes;
    let writes = config.capacity.0 / (16 * KIB);
    kernel.block_on(async move {
        for _ in 0..writes {
            let sectors = bytes / SECTOR;
            let extent = Extent::new(rng.below(slots) * sectors, sectors as u32);
            let (content, at) = (Content::Nothing, Placement(0));
            let done = worker.write(extent, content, at, Origin(0), false);
            done.await.expect("no fault is injected");
        }
    });
    let ledger = drive.ledger();
    let host = ledger.host_write_sectors * SECTOR;
    (ledger.programmed_pages() * 16 * KIB) as f64 / host as f64
}

#[test]
fn writes_of_a_quarter_of_the_unit_wear_four_times_as_much() {
    let (whole, quarter) = (
        programmed_per_write(16 * KIB),
        programmed_per_write(4 * KIB),
    );
    eprintln!("{whole:.2} and {quarter:.2}");
    assert!(whole > 5.0, "{whole}");
    let ratio = quarter / whole;
    assert!((3.9..4.1).contains(&ratio), "{ratio}");
}

#[test]
fn preset_of_61_44_tb_starts_in_50_mb() {
    let config = (Preset::named("6600-ion").expect("a preset").config)();
    assert_eq!(config.capacity.0, 61_440_000_000_000);
    let (_kernel, drive) = powered(&config, Precondition::Aged);
    let (map, flash) = drive.memory();
    assert!(map + flash < 50_000_000, "{map} and {flash} bytes");
}
