//! How long things take: sums of parts, bounds, and the same time for the same work.

use memsys::model::Listed;
use memsys::{
    Cause, Config, Dram, DramConfig, Far, FarEvent, Line, LineData, Link, Machine, Metrics, Moves,
    NodeConfig, Op, PageCache, PageSize, Place, PlainDram, Policy, ReadReply, Row, RunError,
    Sampling, StoreMiss, Tag, TakeAll, Tick, Tiering, TimeOnly,
};
use sim::{Kernel, Sim};
use std::cell::Cell;
use std::rc::Rc;
use units::{Bytes, MIB, Ns};

pub(crate) const FOOTPRINT: u64 = 64 * MIB;

pub(crate) fn load(at: u64, after: u16) -> Op {
    Op::Load { at, size: 8, after }
}

pub(crate) fn store(at: u64) -> Op {
    Op::Store {
        at,
        size: 8,
        after: 0,
    }
}

pub(crate) fn config(cores: u64, place: Place) -> Config {
    Config {
        cores,
        place,
        nodes: vec![NodeConfig {
            memory: Bytes(FOOTPRINT * 2),
        }],
        far: Bytes(FOOTPRINT * 2),
        page: PageSize::Huge,
        ..Config::default()
    }
}

fn plain() -> PlainDram {
    PlainDram::new(&DramConfig::LPDDR4_3200, Ns(49)).unwrap()
}

pub(crate) fn run_on<F: Far>(
    config: &Config,
    kernel: &Kernel,
    far: F,
    threads: Vec<Vec<Op>>,
) -> Metrics {
    let program = Listed::new(threads, FOOTPRINT);
    let mut machine = Machine::new(config, kernel, far, program, TimeOnly, TakeAll).unwrap();
    let metrics = machine.run().unwrap();
    let spent: u64 = metrics.spent.iter().map(|spent| spent.0).sum();
    let slots = metrics.compute.0 + metrics.memory_slots.0;
    assert_eq!(metrics.core_time.0, spent + slots, "time that nobody had");
    metrics
}

pub(crate) fn run(config: &Config, threads: Vec<Vec<Op>>) -> Metrics {
    run_on(config, &Kernel::new(), plain(), threads)
}

fn cycles(metrics: &Metrics) -> f64 {
    metrics.time.0 as f64 * 4.0
}

#[test]
fn instructions_pass_at_the_width() {
    let metrics = run(&config(1, Place::Local), vec![vec![Op::Compute(4_000_000)]]);
    assert_eq!(
        (metrics.time, metrics.instructions),
        (Ns(250_000), 4_000_000)
    );
    assert!(metrics.memory_bound() < 1e-9);
}

/// The time of one of many loads that each need the one before, beyond the first few.
fn chain(config: &Config, lines: impl Fn(u64) -> u64, length: u64) -> f64 {
    let ops = |n| (0..n).map(|n| load(lines(n) * 64, 1)).collect::<Vec<_>>();
    let long = run(config, vec![ops(2 * length)]);
    let short = run(config, vec![ops(length)]);
    (long.time.0 - short.time.0) as f64 / length as f64
}

#[test]
fn a_chain_of_hits_takes_the_cycles_of_its_level() {
    let local = config(1, Place::Local);
    // 3; 3 + 8; 3 + 8 + 30 cycles at 4 GHz. Each set of L1 is walked past its ways,
    // then each of L2.
    assert!((chain(&local, |n| n % 100, 20_000) - 0.75).abs() < 0.01);
    assert!((chain(&local, |n| n % 2_000, 20_000) - 2.75).abs() < 0.01);
    assert!((chain(&local, |n| n % 20_000, 40_000) - 10.25).abs() < 0.05);
}

#[test]
fn a_chain_of_misses_takes_the_sum_of_caches_link_and_dram() {
    // Each line in a row of its own that another row has closed, or none was open.
    let apart = |n: u64| n * 9_973 % (FOOTPRINT / 64);
    let caches = 10.25;
    let ns = |ticks: Tick| ticks.0 as f64 / Tick::PER_NS as f64;
    let dram = Dram::new(&DramConfig::DDR5_4800).unwrap();
    let local = chain(&config(1, Place::Local), apart, 2_000);
    let fastest = caches + ns(dram.at_rest(Row::Hit));
    let slowest = caches + ns(dram.at_rest(Row::Conflict));
    assert!((fastest..=slowest).contains(&local), "{local}");

    let far = chain(&config(1, Place::Far), apart, 2_000);
    let link = Link::new(&config(1, Place::Far).link).unwrap();
    let dram = Dram::new(&DramConfig::LPDDR4_3200).unwrap();
    let around = caches + ns(link.at_rest()) + 49.0;
    // The device counts whole nanoseconds: up to one is lost at either of its ends.
    let fastest = around + ns(dram.at_rest(Row::Hit));
    let slowest = around + ns(dram.at_rest(Row::Conflict)) + 2.0;
    assert!((fastest..=slowest).contains(&far), "{far}");
}

/// DRAM behind the link that takes one write in ten microseconds.
struct Slow {
    sim: Sim,
    dram: PlainDram,
    full: bool,
    room: Rc<Cell<bool>>,
}

impl Slow {
    fn new(kernel: &Kernel) -> Self {
        Self {
            sim: kernel.sim(),
            dram: plain(),
            full: false,
            room: Rc::default(),
        }
    }
}

impl Far for Slow {
    fn read(&mut self, now: Ns, line: Line, tag: Tag) -> ReadReply {
        self.dram.read(now, line, tag)
    }

    fn write(&mut self, now: Ns, line: Line, data: LineData) -> Option<Ns> {
        if std::mem::replace(&mut self.full, true) {
            return None;
        }
        let (sim, room) = (self.sim.clone(), Rc::clone(&self.room));
        self.sim.spawn_detached(async move {
            sim.sleep(Ns::us(10)).await;
            room.set(true);
        });
        self.dram.write(now, line, data)
    }

    fn event(&mut self) -> Option<FarEvent> {
        self.room.take().then(|| {
            self.full = false;
            FarEvent::Room
        })
    }

    fn dropped(&mut self, _: Ns, _: u64) -> u64 {
        0
    }
}

#[test]
fn a_load_that_may_not_ask_yet_waits_for_room_and_not_for_what_answers_it() {
    let mut config = config(1, Place::Far);
    (config.store_miss, config.posted) = (StoreMiss::Write, 1);
    let kernel = Kernel::new();
    let far = Slow::new(&kernel);
    // More than a window between them, so that each load holds up the next.
    let pair = |n: u64| {
        [
            store(n * 8_192),
            Op::Compute(400),
            load(n * 8_192 + 4_096, 0),
        ]
    };
    let ops = (0..50).flat_map(pair).chain([Op::Compute(400), Op::Fence]);
    let metrics = run_on(&config, &kernel, far, vec![ops.collect()]);
    assert!(metrics.time >= Ns::us(47 * 10), "{}", metrics.time);
    let share = |cause| metrics.spent_on(cause).0 as f64 / metrics.core_time.0 as f64;
    let parts = [Cause::Room, Cause::Device, Cause::Stores].map(share);
    assert!(parts[0] > 0.9 && parts[1] < 0.05, "{parts:?}");
    assert!(metrics.amat() < 300.0, "{}", metrics.amat());
}

#[test]
fn amat_is_made_of_its_parts() {
    let ops = (0..4_000)
        .map(|n| load(n * 9_973 * 64 % FOOTPRINT, 1))
        .collect();
    let metrics = run(&config(1, Place::Far), vec![ops]);
    let device = &metrics.device;
    assert_eq!(device.count, metrics.caches.llc_misses);
    let link = Link::new(&config(1, Place::Far).link).unwrap();
    let each = Tick(device.outside.0 / device.count);
    assert!(each.since(link.at_rest()) < Tick::of(Ns(2)) && each >= link.at_rest());
    let all = (device.outside.0 + device.device.0) as f64;
    assert!((metrics.amat() * Tick::PER_NS as f64 * device.count as f64 / all - 1.0).abs() < 1e-9);
    // Each of them is among the latencies, about as long as all are on average.
    let latencies = metrics.latencies();
    assert_eq!(latencies.count(), device.count);
    let mean = Tick(all as u64 / device.count);
    let (median, longest) = (latencies.percentile(0.5), latencies.longest());
    assert!(median.0.abs_diff(mean.0) < mean.0 / 4 && longest >= mean);
    assert_eq!(latencies.share_within(Tick::of(Ns::ms(1))), 1.0);
}

#[test]
fn registers_of_misses_bound_what_is_under_way() {
    let ops: Vec<Op> = (0..8_000)
        .map(|n| load(n * 9_973 * 64 % FOOTPRINT, 0))
        .collect();
    let mut few = config(1, Place::Far);
    few.l1.misses = 2;
    let mut many = few.clone();
    many.l1.misses = 8;
    let ratio = cycles(&run(&few, vec![ops.clone()])) / cycles(&run(&many, vec![ops]));
    assert!((3.3..4.1).contains(&ratio), "{ratio}");
}

#[test]
fn the_window_bounds_what_is_under_way() {
    // A miss every 64 instructions: four of them fit into 256, sixteen into 1,024.
    let one = |n: u64| [load(n * 9_973 * 64 % FOOTPRINT, 0), Op::Compute(63)];
    let ops: Vec<Op> = (0..8_000).flat_map(one).collect();
    let mut small = config(1, Place::Far);
    small.window = 64;
    let ratio =
        cycles(&run(&small, vec![ops.clone()])) / cycles(&run(&config(1, Place::Far), vec![ops]));
    assert!((3.3..4.2).contains(&ratio), "{ratio}");
}

#[test]
fn all_that_need_a_translation_wait_for_its_walk() {
    let three = vec![load(64, 0), load(128, 1), load(192, 1)];
    let four = [vec![load(0, 0)], three.clone()].concat();
    let config = config(1, Place::Local);
    let (alone, behind) = (run(&config, vec![three]), run(&config, vec![four]));
    assert_eq!((alone.counts.walks, behind.counts.walks), (1, 1));
    assert!(behind.time >= alone.time, "{} {}", behind.time, alone.time);
}

#[test]
fn misses_to_one_line_are_one_miss() {
    let ops = (0..16).map(|n| load(n * 4 * 8 % 64, 0)).collect();
    let metrics = run(&config(1, Place::Far), vec![ops]);
    assert_eq!(
        (metrics.counts.far_reads, metrics.caches.llc_misses),
        (1, 1)
    );
}

#[test]
fn a_store_does_not_hold_its_core_up_until_the_buffer_is_full() {
    let far = config(1, Place::Far);
    let few = run(
        &far,
        vec![
            (0..6)
                .map(|n| store(n * 9_973 * 64))
                .chain([Op::Compute(8_000)])
                .collect(),
        ],
    );
    assert!(cycles(&few) < 2_300.0, "{}", cycles(&few));
    let many = run(
        &far,
        vec![
            (0..4_000)
                .map(|n| store(n * 9_973 * 64 % FOOTPRINT))
                .collect(),
        ],
    );
    assert!(many.spent_on(Cause::Stores) > Tick::of(Ns(10_000)));
}

#[test]
fn a_fence_waits_until_flushed_lines_have_arrived() {
    let ops = |order: &[Op]| {
        let mut ops = vec![store(0), Op::Fence, Op::Flush { at: 0 }];
        ops.extend_from_slice(order);
        ops.push(Op::Compute(4));
        ops
    };
    let far = config(1, Place::Far);
    let loose = run(&far, vec![ops(&[])]).counts.far_writes;
    assert_eq!(
        loose, 1,
        "a flush reaches the device by the end of its thread"
    );
    let time = |order: &[Op]| {
        let mut ops = ops(order);
        ops.push(load(MIB, 0));
        run(&far, vec![ops]).time
    };
    let link = Link::new(&far.link).unwrap().at_rest().ns();
    assert!(
        time(&[Op::Fence]) >= time(&[]) + link,
        "the fence did not wait"
    );
}

#[test]
fn a_fence_waits_for_what_another_core_has_flushed_and_the_device_has_refused() {
    let kernel = Kernel::new();
    let far = Slow::new(&kernel);
    let flush = |at| Op::Flush { at };
    // The device takes the first line, and the second 10 µs later.
    let stores = vec![store(0), store(64), Op::Fence];
    let first = [stores, vec![flush(0), flush(64), flush(64)]].concat();
    let second = vec![
        Op::Compute(16 * 3_000),
        flush(64),
        Op::Fence,
        Op::Compute(16 * 50_000),
    ];
    let metrics = run_on(&config(2, Place::Far), &kernel, far, vec![first, second]);
    assert_eq!(
        (metrics.counts.far_writes, metrics.counts.refused_writes),
        (2, 1)
    );
    assert!(metrics.time > Ns(10_000 + 50_000), "{}", metrics.time);
}

#[test]
fn measuring_begins_once_all_have_passed() {
    let thread = |n| vec![Op::Compute(n), Op::Begin, Op::Compute(4_000)];
    let metrics = run(&config(2, Place::Local), vec![thread(400), thread(40_000)]);
    assert_eq!(metrics.time, Ns(250));
}

#[test]
fn another_nodes_memory_is_further_away() {
    let mut two = config(2, Place::Local);
    two.nodes = vec![
        NodeConfig {
            memory: Bytes(2 * FOOTPRINT)
        };
        2
    ];
    two.os.policy = Policy::RoundRobin;
    let lines = |n: u64| load(n * 9_973 * 64 % (FOOTPRINT / 2), 1);
    let near = run(&two, vec![(0..500).map(lines).collect(), vec![]]).time;
    let away = run(&two, vec![vec![], (0..500).map(lines).collect()]).time;
    let added = (away.0 - near.0) as f64 / 500.0;
    assert!((99.0..101.0).contains(&added), "{added}");
}

#[test]
fn huge_pages_are_translated_less_often() {
    let ops: Vec<Op> = (0..4_000).map(|n| load(n * 4_096 % FOOTPRINT, 0)).collect();
    let huge = run(&config(1, Place::Local), vec![ops.clone()]);
    let small = Config {
        page: PageSize::Small,
        ..config(1, Place::Local)
    };
    let small = run(&small, vec![ops]);
    assert_eq!((huge.counts.walks, small.counts.walks), (8, 4_000));
}

/// Changes that would take more memory, or time, than there is.
type Impossible = (&'static str, fn(&mut Config));
const IMPOSSIBLE: [Impossible; 28] = [
    (
        "far is 64 GiB, and l1, of 512 B in 8 ways, tells lines of less than",
        |c| {
            (c.l1.size, c.far) = (Bytes(512), Bytes(64 << 30));
        },
    ),
    ("channels of a DRAM", |c| c.dram.channels = u64::MAX),
    ("banks of a DRAM", |c| c.dram.banks = u64::MAX),
    ("bus_bytes of a DRAM", |c| c.dram.bus_bytes = u64::MAX),
    ("cl of a DRAM", |c| c.dram.cl = u64::MAX),
    ("controller of a DRAM", |c| c.dram.controller = NEVER),
    ("misses of l1", |c| c.l1.misses = u64::MAX),
    ("misses of l2", |c| c.l2.misses = u64::MAX),
    ("size of l2", |c| c.l2.size = Bytes(1 << 30)),
    ("l1", |c| c.l1.ways = 1 << 60),
    ("cycles of llc", |c| c.llc.cycles = u64::MAX),
    ("cycles of the second TLB", |c| {
        c.tlb.second_cycles = u64::MAX;
    }),
    ("entries of the first TLB", |c| c.tlb.first = 1 << 40),
    ("hertz is 1 ", |c| c.hertz = 1),
    ("bytes of a memory", |c| c.nodes[0].memory = Bytes(16 << 40)),
    ("bytes of the device", |c| c.far = Bytes(16 << 40)),
    ("slice is", |c| c.os.slice = NEVER),
    ("switch is", |c| c.os.switch = NEVER),
    ("ask_again is", |c| c.os.ask_again = NEVER),
    ("away is", |c| c.away = NEVER),
    ("protocol of the link", |c| c.link.protocol = NEVER),
    ("bytes_per_second of the link", |c| {
        c.link.bytes_per_second = 1;
    }),
    ("handler is", |c| {
        let handler = NEVER;
        c.tiering = Tiering::Hinted(Moves {
            handler,
            ..Moves::default()
        });
    }),
    ("limit of moved pages is 1 MiB", |c| {
        let limit = Bytes(MIB);
        c.tiering = Tiering::Hinted(Moves {
            limit,
            ..Moves::default()
        });
    }),
    ("limit of moved pages is", |c| {
        let limit = Bytes(4_095);
        let moves = Moves {
            limit,
            ..Moves::default()
        };
        c.page = PageSize::Small;
        c.tiering = Tiering::Sampled(moves, Sampling::default());
    }),
    ("period of samples", |c| {
        let period = NEVER;
        let sampling = Sampling {
            period,
            ..Sampling::default()
        };
        c.tiering = Tiering::Sampled(Moves::default(), sampling);
    }),
    ("size of the page cache", |c| {
        let size = Bytes(1 << 40);
        c.tiering = Tiering::Cached(PageCache {
            size,
            ..PageCache::default()
        });
    }),
    ("page cache", |c| {
        let ways = 1 << 60;
        c.tiering = Tiering::Cached(PageCache {
            ways,
            ..PageCache::default()
        });
    }),
];
const NEVER: Ns = Ns(u64::MAX);

#[test]
fn what_can_not_be_is_said_in_a_sentence() {
    let machine = |config: &Config| {
        let program = Listed::new(vec![vec![]], FOOTPRINT);
        let kernel = Kernel::new();
        let made = Machine::new(config, &kernel, plain(), program, TimeOnly, TakeAll);
        made.err().map(|error| error.to_string())
    };
    let mut broken = config(1, Place::Local);
    broken.dram.channels = 0;
    let sentence = machine(&broken);
    assert_eq!(
        sentence.as_deref(),
        Some("channels of a DRAM must not be zero")
    );
    for (what, change) in IMPOSSIBLE {
        let mut broken = config(1, Place::Local);
        change(&mut broken);
        let sentence = machine(&broken).unwrap_or_default();
        assert!(sentence.contains(what), "{what}: {sentence:?}");
    }
    let mut small = config(1, Place::Far);
    small.far = Bytes(MIB);
    assert!(machine(&small).is_some_and(|sentence| sentence.contains("0 fit")));

    let program = Listed::new(vec![vec![load(FOOTPRINT - 4, 0)]], FOOTPRINT);
    let kernel = Kernel::new();
    let config = config(1, Place::Local);
    let mut machine = Machine::new(&config, &kernel, plain(), program, TimeOnly, TakeAll).unwrap();
    assert!(matches!(
        machine.run(),
        Err(RunError::Address { thread: 0, .. })
    ));
}

#[test]
fn a_run_ends_where_its_clock_does() {
    let run = |cores: u64, ops: Vec<Op>| {
        let (kernel, mut program) = (Kernel::new(), Listed::new(vec![ops], FOOTPRINT));
        program.batch = 2_000;
        let mut config = config(cores, Place::Local);
        (config.hertz, config.width, config.l1.cycles) = (1_000_000, 1, 1 << 16);
        let made = Machine::new(&config, &kernel, plain(), program, TimeOnly, TakeAll);
        made.unwrap().run()
    };
    let long = Op::Compute(u32::MAX);
    // Each is more than an hour at 1 MHz.
    let metrics = run(1, [vec![long; 20], vec![load(0, 0)]].concat()).unwrap();
    let seconds = 20 * (u64::from(u32::MAX) + 1) / 1_000_000;
    assert!((metrics.time.0 / 1_000_000_000).abs_diff(seconds) <= 1);
    for (cores, days) in [(1, "26.1 days"), (8, "3.3 days"), (64, "0.4 days")] {
        // After so many, a number of ticks has run over and is small again.
        let error = run(cores, vec![long; 1_049]).unwrap_err();
        assert!(matches!(error, RunError::Clock { thread: 0, .. }));
        assert!(error.to_string().contains(days), "{error}");
    }
    // Loads of 66 ms each take long, too.
    let error = run(64, vec![load(0, 1); 600_000]).unwrap_err();
    assert!(matches!(error, RunError::Clock { .. }), "{error}");
}

#[test]
fn a_miss_that_waits_for_a_register_is_one_miss() {
    let ops: Vec<Op> = (0..2_000)
        .map(|n| load(n * 9_973 * 64 % FOOTPRINT, 0))
        .collect();
    let mut few = config(1, Place::Far);
    few.llc.misses = 1;
    few.posted = 1;
    let metrics = run(&few, vec![ops]);
    assert_eq!(metrics.caches.llc_misses, metrics.device.count);
}

#[test]
fn a_configuration_is_the_same_after_it_was_written() {
    let mut config = config(3, Place::Far);
    config.tiering = Tiering::Hinted(memsys::Moves::default());
    config.pinned = vec![(0, 4_096)];
    let text = toml::to_string(&config).unwrap();
    assert_eq!(toml::from_str::<Config>(&text).unwrap(), config);
    assert!(toml::from_str::<Config>("speed = 3").is_err());
    assert_eq!(
        toml::from_str::<Config>("cores = 4").unwrap().llc,
        Config::default().llc
    );
}
