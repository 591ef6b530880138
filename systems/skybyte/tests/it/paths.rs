//! What each way through the device costs, and which one is taken.

use crate::support::small;
use memsys::{Far, FarEvent, Line, LineData, ReadReply, Tag};
use sim::{Kernel, Seed};
use skybyte::{CxlSsd, DeviceConfig, DeviceMedia, Prefetch, Profile};
use ssd::Precondition;
use units::Ns;

/// A DRAM that always takes this long, so that what remains is seen.
const DRAM: Ns = Ns(46);

struct Rig {
    kernel: Kernel,
    device: CxlSsd,
}

impl Rig {
    fn new(config: &DeviceConfig, past: Precondition) -> Self {
        let kernel = Kernel::new();
        let media = DeviceMedia::new(config, past, Seed(1)).unwrap();
        let device = CxlSsd::ready(&kernel.sim(), config, media, Seed(1)).unwrap();
        Self { kernel, device }
    }

    fn now(&self) -> Ns {
        self.kernel.sim().now()
    }

    fn read(&mut self, line: u64) -> ReadReply {
        self.device.read(self.now(), Line(line), Tag(line as u16))
    }

    fn write(&mut self, line: u64) -> Option<Ns> {
        let data = [line as u8; 64];
        self.device.write(self.now(), Line(line), Some(data))
    }

    fn wait(&mut self, span: Ns) {
        self.kernel.run_until(self.now() + span);
    }

    /// Everything that comes to an end does.
    fn rest(&mut self) -> Vec<FarEvent> {
        self.kernel.run();
        std::iter::from_fn(|| self.device.event()).collect()
    }
}

fn config(design: &str, profile: Profile) -> DeviceConfig {
    let mut config = small(design, profile);
    config.dram.fixed = Some(DRAM);
    config.cache.prefetch = Prefetch::None;
    config
}

/// Time of a read of flash at rest.
fn flash(config: &DeviceConfig) -> Ns {
    let timing = config.drive.timing().unwrap();
    timing.read + timing.command + Ns::transfer(4096, timing.bus_bytes_per_s)
}

#[test]
fn a_line_takes_its_look_up_its_dram_and_its_flash() {
    //= skybyte 5
    for (profile, cache) in [(Profile::Paper, 49), (Profile::Artifact, 72)] {
        let config = config("skybyte-w", profile);
        let mut rig = Rig::new(&config, Precondition::Full);
        assert_eq!(rig.read(5), ReadReply::Waits);
        let came = Ns(72) + flash(&config) + DRAM;
        assert_eq!(rig.rest(), [FarEvent::Data(Tag(5), came, Some([0; 64]))]);
        let now = rig.now();
        assert_eq!(
            rig.read(6),
            ReadReply::Data(now + Ns(cache) + DRAM, Some([0; 64]))
        );
        let accepted = match profile {
            Profile::Artifact => now + DRAM,
            _ => now + Ns(72) + DRAM,
        };
        assert_eq!(
            rig.write(640),
            Some(accepted),
            "of a page that is not there"
        );
        let logged = ReadReply::Data(now + Ns(72) + DRAM, Some([640_u64 as u8; 64]));
        assert_eq!(rig.read(640), logged);
        let front = rig.device.metrics().front;
        assert_eq!((front.cache_hits, front.log_hits, front.misses), (1, 1, 1));
    }
}

#[test]
fn without_a_log_only_the_cache_is_looked_up() {
    let config = config("base-cssd", Profile::Default);
    let mut rig = Rig::new(&config, Precondition::Full);
    assert_eq!(rig.read(5), ReadReply::Waits);
    let came = Ns(49) + flash(&config) + DRAM;
    assert_eq!(rig.rest(), [FarEvent::Data(Tag(5), came, Some([0; 64]))]);
    // A write that misses is posted, and its page comes.
    let now = rig.now();
    assert_eq!(rig.write(640), Some(now + Ns(49) + DRAM));
    assert_eq!(rig.rest(), []);
    let hit = ReadReply::Data(rig.now() + Ns(49) + DRAM, Some([640_u64 as u8; 64]));
    assert_eq!(rig.read(640), hit);
}

#[test]
fn an_estimate_beyond_the_threshold_gives_a_hint_and_one_at_it_does_not() {
    //= skybyte 3.1
    // 3 µs a read, of two in the queue of the channel.
    for (threshold, hints) in [(Ns::us(6), false), (Ns(5_999), true)] {
        let mut config = config("skybyte-c", Profile::Paper);
        config.hints.threshold = threshold;
        let mut rig = Rig::new(&config, Precondition::Full);
        assert_eq!(rig.read(0), ReadReply::Waits);
        rig.wait(Ns(100));
        // Two dies, which take pages in turn: page 2 lies where page 0 does.
        let reply = rig.read(4 * 64);
        let delay = ReadReply::Delay(Ns(100 + 49));
        assert_eq!(reply, if hints { delay } else { ReadReply::Waits });
        let told = rig.rest();
        assert_eq!(
            told.len(),
            if hints { 1 } else { 2 },
            "nothing comes after a hint"
        );
        let again = rig.read(4 * 64);
        assert!(
            matches!(again, ReadReply::Data(..)),
            "when asked again it is there"
        );
    }
}

#[test]
fn read_that_joins_a_fetch_waits_for_the_rest_of_it() {
    let mut config = config("skybyte-c", Profile::Paper);
    config.hints.threshold = Ns::us(2);
    let mut rig = Rig::new(&config, Precondition::Full);
    assert_eq!(rig.read(0), ReadReply::Delay(Ns(49)));
    rig.wait(Ns(999));
    assert_eq!(
        rig.read(1),
        ReadReply::Delay(Ns(999 + 49)),
        "2,001 ns are left"
    );
    rig.wait(Ns(1));
    assert_eq!(rig.read(2), ReadReply::Waits, "2,000 ns are left");
    let front = rig.device.metrics().front;
    assert_eq!((front.misses, front.coalesced, front.delays), (3, 2, 2));
    let came = Ns(49) + flash(&config) + DRAM;
    assert_eq!(rig.rest(), [FarEvent::Data(Tag(2), came, Some([0; 64]))]);
    assert_eq!(rig.device.metrics().front.fetches, 1);
}

#[test]
fn read_that_joins_a_page_queued_for_an_mshr_gets_no_hint() {
    //= skybyte 3.1
    let mut config = config("skybyte-c", Profile::Paper);
    config.hints.threshold = Ns::us(2);
    config.cache.mshrs = 1;
    let mut rig = Rig::new(&config, Precondition::Full);
    for page in 0..4 {
        assert_eq!(rig.read(page * 64), ReadReply::Delay(Ns(49)));
    }
    // Two have come and the third is read: the fourth was expected long ago, and is queued.
    rig.wait(Ns(49) + Ns(flash(&config).0 * 5 / 2));
    assert_eq!(rig.read(3 * 64 + 1), ReadReply::Waits);
    assert_eq!(rig.rest().len(), 1);
}

#[test]
fn registers_bound_what_is_read_at_once() {
    let mut config = config("base-cssd", Profile::Default);
    config.cache.mshrs = 2;
    let mut rig = Rig::new(&config, Precondition::Full);
    for page in 0..3 {
        assert_eq!(rig.read(page * 64), ReadReply::Waits);
    }
    // Three of four dies: without the bound the third would come a transfer later.
    let told = rig.rest();
    let times: Vec<Ns> = told
        .iter()
        .map(|event| match event {
            FarEvent::Data(_, at, _) => *at,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(times[2], times[0] + flash(&config));
    // A write is refused until there is one.
    for page in 8..10 {
        assert!(rig.write(page * 64).is_some());
    }
    assert_eq!(rig.write(10 * 64), None);
    assert_eq!(rig.write(10 * 64), None);
    assert_eq!(rig.rest(), [FarEvent::Room]);
    assert!(rig.write(10 * 64).is_some());
    let front = rig.device.metrics().front;
    let lookup = config.lookup.cache;
    assert_eq!(
        (front.stalls, front.stall_time),
        (2, lookup + flash(&config))
    );
}

#[test]
fn a_refused_write_is_not_behind_reads_that_come_later() {
    let mut config = config("base-cssd", Profile::Default);
    config.cache.mshrs = 2;
    let mut rig = Rig::new(&config, Precondition::Full);
    for page in 0..3 {
        assert_eq!(rig.read(page * 64), ReadReply::Waits);
    }
    assert_eq!(rig.write(3 * 64), None);
    // Each that comes brings another that waits.
    let (mut came, mut next) = (0, 4);
    while rig.write(3 * 64).is_none() {
        assert!(rig.kernel.step(), "room never comes");
        while let Some(event) = rig.device.event() {
            came += u64::from(matches!(event, FarEvent::Data(..)));
        }
        while next < 8 + came {
            rig.read(next * 64);
            next += 1;
        }
    }
    assert!(
        came <= 3,
        "{came} reads came before it, of which 3 were asked for before"
    );
}

#[test]
fn a_page_that_is_refused_as_a_whole_reads_nothing_of_flash() {
    let mut config = config("base-cssd", Profile::Default);
    config.cache.mshrs = 2;
    let mut rig = Rig::new(&config, Precondition::Full);
    for page in 0..2 {
        assert_eq!(rig.read(page * 64), ReadReply::Waits);
    }
    let write = |rig: &mut Rig| rig.device.write_page(rig.now(), 3, None);
    assert_eq!(write(&mut rig), None);
    assert!(rig.rest().contains(&FarEvent::Room));
    assert!(write(&mut rig).is_some());
    rig.rest();
    assert_eq!(rig.device.metrics().front.fetches, 2);
}

/// Fills a half of the log with one line of each of some pages, the first of which are in
/// the cache; the reads and programs of the compaction that follows.
fn compaction(past: Precondition, cached: u64, lines: u64) -> (u64, u64) {
    let mut config = config("skybyte-w", Profile::Default);
    config.log.bytes.0 = 2 * 16 * u64::from(config.log.entry_bytes) * lines;
    config.dram.bytes.0 += config.log.bytes.0;
    let mut rig = Rig::new(&config, past);
    for page in 0..cached {
        rig.read(page * 64);
    }
    rig.rest();
    for line in 0..lines {
        for page in 0..16 {
            assert!(rig.write(page * 64 + line).is_some());
        }
    }
    rig.rest();
    let metrics = rig.device.metrics();
    let front = metrics.front;
    assert_eq!((front.compactions, front.compacted_pages), (1, 16));
    assert_eq!(front.compacted_lines, 16 * lines);
    assert_eq!(metrics.index_bytes, 0, "the index is gone");
    let pages = if lines > 48 {
        64
    } else {
        (lines * 4_u64).div_ceil(3).next_power_of_two().max(4)
    };
    assert_eq!(metrics.most_index_bytes, 16 * (16 + 4 * pages));
    (metrics.flash_reads()[1].1, metrics.flash_programs()[1].1)
}

#[test]
fn compaction_reads_what_it_must_and_writes_each_page_once() {
    //= skybyte 3.2
    assert_eq!(compaction(Precondition::Full, 0, 1), (16, 16));
    assert_eq!(
        compaction(Precondition::Full, 5, 1),
        (11, 16),
        "the cache has five"
    );
    assert_eq!(
        compaction(Precondition::Fresh, 0, 1),
        (0, 16),
        "nothing was there"
    );
    assert_eq!(
        compaction(Precondition::Full, 0, 64),
        (0, 16),
        "all lines were written"
    );
    assert_eq!(compaction(Precondition::Full, 0, 63), (16, 16));
}

#[test]
fn writes_stall_while_both_halves_are_full() {
    let mut rig = Rig::new(&config("skybyte-w", Profile::Default), Precondition::Full);
    for line in 0..128 {
        assert!(rig.write(line * 64).is_some(), "{line}");
    }
    assert_eq!(rig.write(0), None);
    // A page that comes meanwhile makes no room for lines.
    assert_eq!(rig.read(200 * 64), ReadReply::Waits);
    loop {
        match rig.device.event() {
            Some(FarEvent::Room) => break,
            Some(_) => {}
            None => assert!(rig.kernel.step(), "room never comes"),
        }
    }
    let front = rig.device.metrics().front;
    assert_eq!((front.stalls, front.compactions), (1, 1));
    assert!(rig.write(0).is_some());
    assert_eq!(rig.rest(), []);
    let front = rig.device.metrics().front;
    assert_eq!((front.stalls, front.compactions), (1, 2));
    assert!(front.stall_time > Ns::ZERO && front.stall_time <= front.compaction_time);
    assert!(rig.write(0).is_some());
}

/// Programs that evictions make when pages are only read, or written too.
fn evictions(clean_write_back: bool, writes: bool) -> u64 {
    let mut config = config("base-cssd", Profile::Default);
    config.cache.clean_write_back = clean_write_back;
    let mut rig = Rig::new(&config, Precondition::Full);
    for page in 0..96 {
        rig.read(page * 64);
        rig.rest();
        if writes {
            rig.write(page * 64 + 1);
        }
    }
    rig.rest();
    rig.device.metrics().flash_programs()[0].1
}

#[test]
fn pages_that_nobody_wrote_are_written_back_only_if_asked_for() {
    // 32 of 96 stay.
    assert_eq!(evictions(false, false), 0);
    assert_eq!(evictions(false, true), 64);
    assert_eq!(evictions(true, false), 64);
}

#[test]
fn a_page_that_the_host_takes_goes_with_the_lines_that_flash_has_not() {
    //= skybyte 3.3
    let mut rig = Rig::new(&config("skybyte-wp", Profile::Default), Precondition::Full);
    for at in [3, 9] {
        rig.write(7 * 64 + at);
    }
    rig.read(7 * 64);
    rig.rest();
    let now = rig.now();
    assert_eq!(rig.device.dropped(now, 7), 1 << 3 | 1 << 9);
    assert_eq!(rig.device.metrics().index_bytes, 0);
    assert_eq!(rig.device.dropped(now, 7), 0, "there is nothing left");
    assert_eq!(
        rig.read(7 * 64 + 3),
        ReadReply::Waits,
        "flash has to be read"
    );

    let mut rig = Rig::new(&config("skybyte-p", Profile::Default), Precondition::Full);
    rig.write(7 * 64 + 3);
    let now = rig.now();
    assert_eq!(
        rig.device.dropped(now, 7),
        1 << 3,
        "its page was on its way"
    );
    rig.rest();
    assert_eq!(rig.read(7 * 64), ReadReply::Waits, "and did not stay");
    rig.rest();
    rig.write(7 * 64 + 3);
    assert_eq!(
        rig.device.dropped(now, 7),
        u64::MAX,
        "a dirty page goes as a whole"
    );
    assert_eq!(rig.device.dropped(now, u64::MAX), 0);
}

#[test]
fn a_read_that_waits_finds_what_was_written_before_it_though_the_page_leaves() {
    let mut rig = Rig::new(&config("skybyte-p", Profile::Default), Precondition::Full);
    rig.write(7 * 64 + 3);
    assert_eq!(rig.read(7 * 64 + 3), ReadReply::Waits);
    rig.device.drop_page(7);
    let written = Some([(7 * 64 + 3) as u8; 64]);
    assert!(matches!(rig.rest()[..], [FarEvent::Data(_, _, data)] if data == written));
}

#[test]
fn chunks_of_a_huge_page_are_dropped_by_their_bits() {
    let mut rig = Rig::new(&config("skybyte-wp", Profile::Default), Precondition::Full);
    for page in [512, 513, 512 + 100] {
        rig.write(page * 64);
    }
    let mut chunks = [0; 8];
    (chunks[0], chunks[1]) = (1, 1 << (100 - 64));
    let dropped = rig.device.dropped_chunks(Ns::ZERO, 512, &chunks);
    assert_eq!(dropped, [(512, 1), (612, 1)]);
    assert!(
        matches!(rig.read(513 * 64), ReadReply::Data(..)),
        "this one stays"
    );
}

/// Time of a read that comes when a half is being compacted.
fn read_during_compaction(reads_first: bool) -> Ns {
    let mut config = config("skybyte-w", Profile::Paper);
    config.drive.flash.reads_first = reads_first;
    config.drive.flash.bypass_limit = u32::MAX;
    config.log.pages_in_work = 64;
    let mut rig = Rig::new(&config, Precondition::Fresh);
    // What is read later has to be on flash.
    for line in 0..64 {
        rig.write(line * 64);
    }
    rig.rest();
    for line in 64..128 {
        rig.write(line * 64);
    }
    rig.wait(Ns::us(50));
    let begun = rig.now();
    assert_eq!(rig.read(1), ReadReply::Waits);
    let told = rig.rest();
    match told[..] {
        [FarEvent::Data(_, at, _)] => Ns(at.0 - begun.0),
        _ => panic!("{told:?}"),
    }
}

#[test]
fn reads_wait_for_one_program_or_for_all_of_the_queue() {
    let (first, fifo) = (read_during_compaction(true), read_during_compaction(false));
    assert!(first < Ns::us(104), "the rest of one program: {first:?}");
    assert!(fifo > Ns::us(150), "those before it too: {fifo:?}");
}

#[test]
fn garbage_collection_in_the_way_gives_a_hint_at_once() {
    //= skybyte 3.1
    let mut config = config("skybyte-c", Profile::Paper);
    config.hints.threshold = Ns::secs(1);
    let mut rig = Rig::new(&config, Precondition::Aged);
    let mut rng = Seed(4).stream("lines");
    let pages = rig.device.capacity().0 / 4096;
    for _ in 0..4_000 {
        rig.wait(Ns::us(20));
        let line = rng.below(pages) * 64;
        if rng.chance(1, 2) {
            rig.write(line);
        } else {
            rig.read(line);
        }
    }
    let metrics = rig.device.metrics();
    assert!(
        metrics.flash_programs()[2].1 > 100,
        "an aged drive collects"
    );
    let front = metrics.front;
    assert!(front.delays_by_collection > 10, "{front:?}");
    assert_eq!(front.delays, front.delays_by_collection);
}

#[test]
fn access_beyond_the_capacity_is_rejected_without_harm() {
    let mut rig = Rig::new(
        &config("skybyte-full", Profile::Default),
        Precondition::Fresh,
    );
    let end = rig.device.capacity().0 / 64;
    assert!(matches!(rig.read(end - 1), ReadReply::Data(_, Some(_))));
    for line in [end, u64::MAX] {
        assert!(matches!(rig.read(line), ReadReply::Data(_, None)));
        assert!(rig.write(line).is_some());
    }
    assert_eq!(rig.device.metrics().front.out_of_range, 4);
}

/// Reads a line and returns its data, which may arrive at once or with an event.
fn data(rig: &mut Rig, line: u64) -> LineData {
    match rig.read(line) {
        ReadReply::Data(_, data) => data,
        _ => match rig.rest()[..] {
            [FarEvent::Data(_, _, data)] => data,
            _ => panic!("one answer"),
        },
    }
}

/// A device of `config` that finds these media.
fn after(config: &DeviceConfig, media: DeviceMedia) -> Rig {
    let kernel = Kernel::new();
    let device = CxlSsd::ready(&kernel.sim(), config, media, Seed(1)).unwrap();
    Rig { kernel, device }
}

#[test]
fn a_page_that_cannot_be_read_is_poison_and_what_is_written_to_it_is_kept() {
    for design in ["base-cssd", "skybyte-w"] {
        let good = config(design, Profile::Default);
        let mut faulty = good.clone();
        faulty.drive.faults.read_retries = 1_000_000;
        let mut rig = Rig::new(&faulty, Precondition::Full);
        assert_eq!(rig.read(64), ReadReply::Waits);
        assert!(matches!(rig.rest()[..], [FarEvent::Data(Tag(64), _, None)]));
        rig.write(65);
        rig.rest();
        assert!(rig.device.metrics().front.media_errors > 0);
        // The flash recovers. What was written back in part is lost for the rest.
        let mut rig = after(&good, rig.device.at_power_cut());
        assert_eq!(data(&mut rig, 65), Some([65; 64]), "{design}");
        let lost = data(&mut rig, 66).is_none();
        assert_eq!(lost, design == "base-cssd", "{design}");
    }
}

#[test]
fn a_page_that_cannot_be_read_and_waits_for_room_takes_what_is_written() {
    let good = config("base-cssd", Profile::Default);
    let mut faulty = good.clone();
    faulty.drive.faults.read_retries = 1_000_000;
    let mut rig = Rig::new(&faulty, Precondition::Full);
    let drive = rig.device.drive().clone();
    let room = std::iter::from_fn(|| drive.try_room().then_some(())).count();
    assert!(rig.write(65).is_some());
    rig.rest();
    assert!(rig.write(67).is_some(), "it is there, and waits");
    assert_eq!(data(&mut rig, 65), Some([65; 64]));
    assert_eq!(data(&mut rig, 66), None);
    // A cut here keeps the two lines, and does not make zeros of the others.
    let mut cut = after(&faulty, rig.device.at_power_cut());
    assert_eq!(data(&mut cut, 67), Some([67; 64]));
    assert_eq!(data(&mut cut, 66), None);
    (0..room).for_each(|_| drive.give_room_back());
    rig.rest();
    let mut rig = after(&good, rig.device.at_power_cut());
    let line = |line: u64| Some([line as u8; 64]);
    assert_eq!(data(&mut rig, 65), line(65));
    assert_eq!(data(&mut rig, 67), line(67));
    assert_eq!(data(&mut rig, 66), None);
}

#[test]
fn a_page_that_is_written_as_a_whole_is_not_read() {
    //= skybyte 6.8
    let config = config("base-cssd", Profile::Default);
    let mut rig = Rig::new(&config, Precondition::Full);
    let page: [[u8; 64]; 64] = std::array::from_fn(|line| [line as u8; 64]);
    assert!(rig.device.write_page(Ns(0), 3, Some(&page)).is_some());
    assert!(rig.write(4 * 64).is_some());
    rig.rest();
    rig.device.check();
    let metrics = rig.device.metrics();
    assert_eq!(metrics.front.fetches, 1, "of the page with one new line");
    assert_eq!(metrics.cached_pages, 2);
    for line in 0..64 {
        assert_eq!(data(&mut rig, 3 * 64 + line), Some([line as u8; 64]));
    }
}
