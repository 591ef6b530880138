//! Timing of the whole computer against formulas: a chain of loads takes the sum of its parts, a
//! stream reaches the rate of the narrowest part, and the lines in flight are latency times rate.

use memsys::model::{Listed, tiny};
use memsys::{
    Config, Dram, DramConfig, Far, FarEvent, Line, LineData, Link, LinkConfig, Machine, Metrics,
    NodeConfig, Op, PageSize, Place, PlainDram, ReadReply, Row, Tag, TakeAll, Tick, TimeOnly,
};
use sim::{Kernel, Rng, Seed};
use skybyte::{CxlSsd, Design, DeviceMedia, Prefetch, Profile};
use ssd::Precondition;
use std::cell::Cell;
use std::rc::Rc;
use units::{Bytes, KIB, MIB, Ns};

const LINE: u64 = 64;
const PAGE: u64 = 4 * KIB;
const FOOTPRINT: u64 = 64 * MIB;

fn load(at: u64, after: u16) -> Op {
    Op::Load { at, size: 8, after }
}

/// Loads that each depend on the one before.
fn chain(places: impl IntoIterator<Item = u64>) -> Vec<Op> {
    places.into_iter().map(|at| load(at, 1)).collect()
}

/// Loads that are independent of each other.
fn stream(places: impl IntoIterator<Item = u64>) -> Vec<Op> {
    places.into_iter().map(|at| load(at, 0)).collect()
}

fn random(count: u64, below: u64) -> impl Iterator<Item = u64> {
    let mut rng: Rng = Seed(3).stream("formulas");
    (0..count).map(move |_| rng.below(below / LINE) * LINE)
}

/// Operations of each thread before measuring begins, and those that are measured.
type Threads = Vec<[Vec<Op>; 2]>;

/// Runs the first part of `threads`, and measures the second once all threads have finished the
/// first.
fn measured(config: &Config, kernel: &Kernel, far: impl Far, threads: Threads) -> Metrics {
    let whole = |[before, measured]: [Vec<Op>; 2]| {
        let begin = vec![Op::Meet, Op::Begin, Op::Meet];
        [before, begin, measured].concat()
    };
    let footprint = FOOTPRINT.min(config.far.0);
    let program = Listed::new(threads.into_iter().map(whole).collect(), footprint);
    let machine = Machine::new(config, kernel, far, program, TimeOnly, TakeAll);
    machine.unwrap().run().unwrap()
}

fn computer(cores: u64, place: Place, page: PageSize) -> Config {
    Config {
        cores,
        place,
        page,
        nodes: vec![NodeConfig {
            memory: Bytes(2 * FOOTPRINT),
        }],
        far: Bytes(2 * FOOTPRINT),
        ..Config::default()
    }
}

/// Far memory of plain DRAM with a latency of its own.
fn plain() -> PlainDram {
    PlainDram::new(&DramConfig::LPDDR4_3200, Ns(49)).unwrap()
}

/// Sum of the latencies of caches, translations and host DRAM in a chain of loads, each weighted by
/// its count.
fn parts(config: &Config, metrics: &Metrics) -> Tick {
    let (caches, counts, rows) = (&metrics.caches, &metrics.counts, &metrics.dram);
    let dram = Dram::new(&config.dram).unwrap();
    let cycles = |n| Tick::cycles(n, config.hertz);
    let [first, second, last] = [
        config.l1.cycles,
        config.l1.cycles + config.l2.cycles,
        config.l1.cycles + config.l2.cycles + config.llc.cycles,
    ];
    let each = [
        (caches.l1_hits, cycles(first)),
        (caches.l2_hits, cycles(second)),
        (caches.llc_hits, cycles(last)),
        (caches.llc_misses + counts.walk_misses, cycles(last)),
        (counts.first_tlb_misses, cycles(config.tlb.second_cycles)),
        (rows.hits, dram.at_rest(Row::Hit)),
        (rows.closed, dram.at_rest(Row::Closed)),
        (rows.conflicts, dram.at_rest(Row::Conflict)),
    ];
    let sum = each.iter().map(|(count, part)| part.times(*count).0);
    Tick(sum.sum())
}

/// Asserts that the core took `parts`, plus at most the slots of its last instructions and
/// `rounded`.
fn is_sum(metrics: &Metrics, parts: Tick, rounded: Ns) {
    let most = parts + Tick::of(Ns(2)) + Tick::of(rounded);
    let time = metrics.core_time;
    assert!(
        (parts..=most).contains(&time),
        "{parts:?} {time:?} {most:?}"
    );
}

#[test]
fn chain_takes_the_sum_of_its_parts_at_every_level() {
    for page in [PageSize::Huge, PageSize::Small] {
        let config = computer(1, Place::Local, page);
        // Footprints that fit the first cache, the second, the last, and none of them; then the
        // whole memory at random, over more pages than the second TLB has.
        for (bytes, level) in [(16 * KIB, 0), (256 * KIB, 1), (8 * MIB, 2), (FOOTPRINT, 3)] {
            let warm = chain((0..bytes / LINE).map(|line| line * LINE));
            let asked = random(20_000, bytes);
            let metrics = measured(&config, &Kernel::new(), plain(), vec![[warm, chain(asked)]]);
            let caches = &metrics.caches;
            let found = [
                caches.l1_hits,
                caches.l2_hits,
                caches.llc_hits,
                caches.llc_misses,
            ];
            assert!(found[level] > 10_000, "level {level}: {found:?}");
            let walks = metrics.counts.walks;
            assert_eq!(walks > 0, page == PageSize::Small && level == 3, "{walks}");
            is_sum(&metrics, parts(&config, &metrics), Ns::ZERO);
        }
    }
}

#[test]
fn chain_takes_the_sum_of_its_parts_for_open_and_closed_rows() {
    // A row so long that it stays open, and short rows in one bank.
    let open = DramConfig {
        row: Bytes(1 << 30),
        ..DramConfig::DDR5_4800
    };
    let shut = DramConfig {
        row: Bytes(256),
        banks: 1,
        channels: 1,
        ..DramConfig::DDR5_4800
    };
    for (dram, hits) in [(open, true), (shut, false)] {
        let mut config = computer(1, Place::Local, PageSize::Huge);
        config.dram = dram;
        let apart = chain((0..5_000).map(|n| (1 + n * 9_973) * 4 * LINE % FOOTPRINT));
        let metrics = measured(&config, &Kernel::new(), plain(), vec![[pages(), apart]]);
        let rows = metrics.dram;
        let alike = if hits { rows.hits } else { rows.conflicts };
        assert!(alike >= 4_990, "{rows:?}");
        is_sum(&metrics, parts(&config, &metrics), Ns::ZERO);
    }
}

/// Drive whose DRAM always takes 46 ns, and the computer before it.
struct Rig {
    kernel: Kernel,
    device: CxlSsd,
    computer: Config,
}

const DRIVE_DRAM: Ns = Ns(46);

impl Rig {
    fn new(design: &str) -> Self {
        let mut config = Profile::Default.tiny_device(Design::named(design).unwrap());
        config.dram.fixed = Some(DRIVE_DRAM);
        config.cache.prefetch = Prefetch::None;
        let kernel = Kernel::new();
        let media = DeviceMedia::new(&config, Precondition::Full, Seed(1)).unwrap();
        let device = CxlSsd::ready(&kernel.sim(), &config, media, Seed(1)).unwrap();
        let computer = Config {
            cores: 1,
            far: Bytes(4 * MIB),
            page: PageSize::Huge,
            ..tiny()
        };
        Self {
            kernel,
            device,
            computer,
        }
    }

    /// Runs `before` and measures the chain, whose time must be the sum of look-ups, DRAM and flash
    /// as the drive counted them, link and caches. Returns the hits of the cache, the hits of the
    /// log, and the misses.
    fn chain(&self, before: Vec<Op>, places: Vec<u64>) -> [u64; 3] {
        let config = self.device.config();
        let begun = Rc::new(Cell::new([0; 3]));
        let drive = Watched {
            device: self.device.clone(),
            begun: Rc::clone(&begun),
        };
        let program = vec![[before, chain(places)]];
        let metrics = measured(&self.computer, &self.kernel, drive, program);
        let (begun, ended) = (begun.get(), answers(&self.device));
        let [cached, logged, missed] = std::array::from_fn(|kind| ended[kind] - begun[kind]);
        let timing = config.drive.timing().unwrap();
        let flash = timing.read + timing.command + Ns::transfer(PAGE, timing.bus_bytes_per_s);
        let all_looked = match config.has_log() {
            true => config.lookup.cache.max(config.lookup.log),
            false => config.lookup.cache,
        };
        let link = Link::new(&self.computer.link).unwrap().at_rest();
        let asked = cached + logged + missed;
        let inside = Ns(config.lookup.cache.0 * cached
            + all_looked.0 * (logged + missed)
            + flash.0 * missed
            + DRIVE_DRAM.0 * asked);
        let sum = parts(&self.computer, &metrics) + link.times(asked) + Tick::of(inside);
        // The drive counts whole nanoseconds: up to one is lost at either end of a request.
        is_sum(&metrics, sum, Ns(2 * asked));
        [cached, logged, missed]
    }
}

/// Reads answered by the drive's cache, by its log, and by flash.
fn answers(device: &CxlSsd) -> [u64; 3] {
    let front = device.metrics().front;
    [front.cache_hits, front.log_hits, front.misses]
}

/// Drive that keeps its counters of the time when measuring began.
struct Watched {
    device: CxlSsd,
    begun: Rc<Cell<[u64; 3]>>,
}

impl Far for Watched {
    fn read(&mut self, now: Ns, line: Line, tag: Tag) -> ReadReply {
        self.device.read(now, line, tag)
    }

    fn write(&mut self, now: Ns, line: Line, data: LineData) -> Option<Ns> {
        self.device.write(now, line, data)
    }

    fn event(&mut self) -> Option<FarEvent> {
        self.device.event()
    }

    fn dropped(&mut self, now: Ns, page: u64) -> u64 {
        self.device.dropped(now, page)
    }

    fn begin(&mut self, _: Ns) {
        self.begun.set(answers(&self.device));
    }
}

//= skybyte 5
#[test]
fn chain_to_the_drive_takes_look_ups_dram_flash_and_link() {
    let line_of = |page: u64, line: u64| page * PAGE + line * LINE;
    // The pages exceed the drive's DRAM; the last ones are in its cache.
    let first = |from: u64, to: u64| (from..to).map(move |page| line_of(page, 1));
    for design in ["base-cssd", "skybyte-w"] {
        let missed = Rig::new(design).chain(vec![], first(0, 300).collect());
        assert_eq!(missed, [0, 0, 300], "{design}");

        let again = (0..1_000).map(|n| line_of(n % 20, 2 + n / 20));
        let cached = Rig::new(design).chain(chain(first(0, 20)), again.collect());
        assert_eq!(cached, [1_000, 0, 0], "{design}");
    }
    let stored = |page: u64| {
        let at = line_of(page, 0);
        let (size, after) = (8, 0);
        [Op::Store { at, size, after }, Op::Flush { at }, Op::Fence]
    };
    let logs: Vec<Op> = (0..40).flat_map(stored).collect();
    let before = [logs, chain(first(100, 200))].concat();
    let mixed: Vec<u64> = (0..80).map(|n| line_of(n / 2, n % 2 * 9)).collect();
    let logged = Rig::new("skybyte-w").chain(before, mixed);
    assert_eq!(
        logged,
        [0, 40, 40],
        "a line of the log, then one of its page"
    );
}

/// Bytes per second of lines from the host's DRAM or the device.
fn rate(metrics: &Metrics) -> f64 {
    let lines = metrics.host.count + metrics.device.count;
    (lines * LINE) as f64 / metrics.time.0 as f64 * 1e9
}

/// A load of every huge page, so that their translations are cached.
fn pages() -> Vec<Op> {
    chain((0..FOOTPRINT / (2 * MIB)).map(|page| page * 2 * MIB))
}

/// Eight cores that read memory in order, each every eighth line.
fn streamed(config: &Config) -> Metrics {
    let lines = |core: u64| stream((1..20_000).map(|line| (line * 8 + core) * LINE));
    let threads = (0..8).map(|core| [pages(), lines(core)]);
    measured(config, &Kernel::new(), plain(), threads.collect())
}

#[test]
fn streams_reach_the_peak_of_the_narrowest_part() {
    let mut config = computer(8, Place::Local, PageSize::Huge);
    // Enough miss registers for the latency times the bandwidth of eight channels.
    config.l1.misses = 64;
    for channels in [1, 8] {
        config.dram.channels = channels;
        let reached = rate(&streamed(&config)) / config.dram.peak() as f64;
        assert!((0.95..=1.0).contains(&reached), "{channels}: {reached}");
    }
    // With one bank, each row is opened after the one before is closed.
    config.dram = DramConfig {
        channels: 1,
        banks: 1,
        row: Bytes(256),
        ..DramConfig::DDR5_4800
    };
    let clocks = |n| Tick::cycles(n, 2_400_000_000);
    let burst = Tick::transfer(LINE, config.dram.peak());
    let step = clocks(config.dram.rp) + clocks(config.dram.rcd) + burst;
    let rows = rate(&rows_in_turn(&config)) * step.0 as f64 / Tick::PER_NS as f64 / 64e9;
    assert!((0.99..=1.001).contains(&rows), "{rows}");

    // Headers and flits take their share of the link, which leaves less than the DRAM's bandwidth.
    let far = computer(8, Place::Far, PageSize::Huge);
    let link = far.link.bytes_per_second * LINE / 85;
    assert!(link < DramConfig::LPDDR4_3200.peak());
    let reached = rate(&streamed(&far)) / link as f64;
    assert!((0.94..=1.001).contains(&reached), "{reached}");
}

/// One core that reads one line of each row.
fn rows_in_turn(config: &Config) -> Metrics {
    let config = Config {
        cores: 1,
        ..config.clone()
    };
    let rows = stream((1..8_000).map(|row| row * 4 * LINE));
    measured(&config, &Kernel::new(), plain(), vec![[pages(), rows]])
}

/// Bandwidth that one core reaches with `lines` misses in flight.
fn under_way(mut config: Config, lines: u64, far: PlainDram) -> f64 {
    (config.l1.misses, config.l2.misses, config.llc.misses) = (lines, lines, lines);
    config.window = 4_096;
    let order = stream((1..60_000).map(|line| line * LINE));
    rate(&measured(
        &config,
        &Kernel::new(),
        far,
        vec![[pages(), order]],
    ))
}

/// Part of `all` that is left for the DRAM after the look-ups in the caches.
fn behind_caches(config: &Config, all: Ns) -> Tick {
    let cycles = config.l1.cycles + config.l2.cycles + config.llc.cycles;
    Tick::of(all) - Tick::cycles(cycles, config.hertz)
}

//= skybyte 2.3
#[test]
fn thirty_five_lines_fill_a_channel_and_750_the_link() {
    // Rows are long, as the formula is not about opening them.
    let open = DramConfig {
        row: Bytes(1 << 30),
        ..DramConfig::DDR5_4800
    };
    // 70 ns at 32 GB/s are 35 lines in flight.
    let mut local = computer(1, Place::Local, PageSize::Huge);
    local.dram = DramConfig {
        channels: 1,
        megatransfers: 4_000,
        ..open
    };
    assert_eq!(local.dram.peak(), 32_000_000_000);
    let rest = Dram::new(&local.dram).unwrap().at_rest(Row::Hit);
    local.dram.controller += (behind_caches(&local, Ns(70)) - rest).ns();
    // The controller counts whole nanoseconds, so a fraction of one is missing from the 70 ns.
    for (lines, wanted) in [(70, 1.0), (35, 1.0), (17, 17.0 / 35.0), (7, 0.2)] {
        let reached = under_way(local.clone(), lines, plain()) / 32e9;
        let share = reached / wanted;
        assert!((0.97..=1.015).contains(&share), "{lines}: {reached}");
    }
    // 3 µs at 16 GB/s are 750 lines in flight.
    let mut far = computer(1, Place::Far, PageSize::Huge);
    far.link = LinkConfig {
        framing: false,
        protocol: Ns::ZERO,
        ..far.link
    };
    let dram = Dram::new(&open).unwrap().at_rest(Row::Hit);
    let around = Link::new(&far.link).unwrap().at_rest() + dram;
    let index = (behind_caches(&far, Ns::us(3)) - around).ns();
    for (lines, wanted) in [(1_500, 1.0), (750, 1.0), (375, 0.5), (75, 0.1)] {
        let device = PlainDram::new(&open, index).unwrap();
        let reached = under_way(far.clone(), lines, device) / 16e9;
        let share = reached / wanted;
        assert!((0.96..=1.01).contains(&share), "{lines}: {reached}");
    }
}
