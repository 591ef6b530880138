//! The computer with the real drive behind its link: values of loads, contents after a power cut,
//! and the equality of a drive that holds everything with plain memory.

use crate::small::{Reader, TimeKept, computer, drive, without_races};
use memsys::model::{Flat, Listed};
use memsys::{
    CacheConfig, Config, Counts, DramConfig, Far, FarEvent, Line, LineData, Machine, Metrics,
    NodeConfig, Op, PageData, PageSize, PlainDram, ReadReply, Tag, TakeAll, Tiering, TimeOnly,
    stored_value,
};
use sim::{Kernel, Seed};
use skybyte::{CxlSsd, DESIGNS, Design, DeviceConfig, DeviceMedia, Migration, Profile};
use ssd::Precondition;
use units::{Bytes, KIB, MIB, Ns};

fn fresh(kernel: &Kernel, config: &DeviceConfig) -> CxlSsd {
    let media = DeviceMedia::new(config, Precondition::Fresh, Seed(1)).unwrap();
    CxlSsd::ready(&kernel.sim(), config, media, Seed(1)).unwrap()
}

/// Runs a random program on a design, and asserts that every load returns the value stored last.
fn compared(design: &Design, profile: Profile, config: &Config, program: Listed) -> Ran {
    let kernel = Kernel::new();
    let device = fresh(&kernel, &drive(design.name, profile));
    let flat = Flat::new(program.footprint);
    let machine = Machine::new(config, &kernel, device, program, flat, TakeAll);
    let mut machine = machine.unwrap();
    let counts = machine.run().unwrap().counts;
    machine.far().check();
    let loads = machine.values().loads;
    (counts, machine.far().metrics(), loads)
}

type Ran = (Counts, skybyte::Metrics, u64);

/// Exercises caches, log, page cache, migration, eviction and compaction.
#[test]
fn loads_return_the_value_stored_last_on_every_design() {
    for design in DESIGNS.iter().filter(|design| design.drive) {
        for (seed, profile) in [
            (1, Profile::Default),
            (2, Profile::Paper),
            (3, Profile::Default),
        ] {
            let program = without_races(seed, 4, 400 * 4 * KIB, 4_000);
            let config = computer(3, design.name);
            let (counts, device, loads) = compared(design, profile, &config, program);
            let name = design.name;
            assert!(loads > 5_000, "{name}: {loads}");
            let (moves, caches) = match design.migration {
                Migration::Stay => (false, false),
                Migration::Counted | Migration::Sampled => (true, false),
                Migration::HostCache => (false, true),
            };
            let moved = counts.promotions > 0 && counts.demotions > 0;
            assert_eq!(moved, moves, "{name}: {counts:?}");
            let cached = counts.page_hits > 0 && counts.page_misses > 0;
            assert_eq!(cached, caches, "{name}: {counts:?}");
            let delays = counts.long_delays > 0;
            assert_eq!(delays, design.switches || caches, "{name}");
            assert_eq!(device.front.compactions > 0, design.log, "{name}");
            let programmed: u64 = device.flash_programs().iter().map(|c| c.1).sum();
            assert!(programmed > 0 && device.front.fetches > 0, "{name}");
        }
    }
}

//= skybyte 4
#[test]
fn loads_return_the_value_stored_last_while_huge_pages_move() {
    for design in DESIGNS {
        if design.migration != Migration::Counted {
            continue;
        }
        let mut config = computer(3, design.name);
        config.page = PageSize::Huge;
        let Tiering::Hinted(moves) = &mut config.tiering else {
            panic!("{} moves pages", design.name);
        };
        // One of the two huge pages of the program.
        moves.limit = Bytes(PageSize::Huge.bytes());
        let program = without_races(4, 4, 2 * PageSize::Huge.bytes(), 250);
        let (counts, _, loads) = compared(design, Profile::Default, &config, program);
        let moved = counts.promotions > 1 && counts.demotions > 0;
        assert!(moved && loads > 300, "{}: {loads}, {counts:?}", design.name);
    }
}

/// Drive whose power is cut at every call; its contents after the cut are checked.
struct Cut {
    device: CxlSsd,
    config: DeviceConfig,
    pairs: Vec<Pair>,
    calls: u64,
    found: u64,
}

/// Flushed store, and the store of a mark made after it.
#[derive(Clone, Copy)]
struct Pair {
    line: u64,
    place: u64,
    mark: u64,
}

const MARK: u64 = 8;

impl Cut {
    /// Cuts the power now. For every mark that is durable, the store flushed before it must be
    /// durable too, or a newer one.
    fn judge(&mut self) {
        self.calls += 1;
        let kernel = Kernel::new();
        let media = self.device.at_power_cut();
        let device = CxlSsd::ready(&kernel.sim(), &self.config, media, Seed(2)).unwrap();
        let mut reader = Reader { kernel, device };
        let mark = reader.line(MARK);
        let last = self.pairs.iter().rposition(|pair| starts(&mark, pair.mark));
        self.found = self.found.max(last.map_or(0, |last| last as u64 + 1));
        let durable = last.map_or(0, |last| last + 1);
        for line in 0..MARK {
            let written = |pair: &&Pair| pair.line == line;
            let Some(least) = self.pairs[..durable].iter().rev().find(written) else {
                continue;
            };
            let held = reader.line(line);
            let mut newer = self
                .pairs
                .iter()
                .filter(written)
                .filter(|p| p.place >= least.place);
            assert!(
                newer.any(|pair| starts(&held, pair.place)),
                "call {}: mark {durable} is there, and line {line} is older",
                self.calls
            );
        }
    }
}

/// Whether `line` begins with the value that the store at `place` of the program wrote.
fn starts(line: &[u8; 64], place: u64) -> bool {
    line[..8] == stored_value(0, place)[..8]
}

impl Far for Cut {
    fn read(&mut self, now: Ns, line: Line, tag: Tag) -> ReadReply {
        let reply = self.device.read(now, line, tag);
        self.judge();
        reply
    }

    fn write(&mut self, now: Ns, line: Line, data: LineData) -> Option<Ns> {
        let taken = self.device.write(now, line, data);
        self.judge();
        taken
    }

    fn write_page(&mut self, now: Ns, page: u64, data: Option<&PageData>) -> Option<Ns> {
        let taken = self.device.write_page(now, page, data);
        self.judge();
        taken
    }

    fn event(&mut self) -> Option<FarEvent> {
        let event = self.device.event();
        self.judge();
        event
    }

    fn dropped(&mut self, now: Ns, page: u64) -> u64 {
        let lines = self.device.dropped(now, page);
        self.judge();
        lines
    }
}

/// Lines on a pinned page get a store, its flush and a fence, then the mark in the same way;
/// accesses all over memory in between cause evictions, compactions and migrations.
//= skybyte 4
#[test]
fn flushed_stores_on_pinned_pages_survive_a_power_cut_at_any_call() {
    for design in ["base-cssd", "skybyte-full", "astriflash-cxl"] {
        let footprint = 300 * 4 * KIB;
        let mut rng = Seed(4).stream("flushed");
        let (mut ops, mut pairs) = (Vec::new(), Vec::new());
        let flushed = |ops: &mut Vec<Op>, line: u64| {
            let (at, size, after) = (line * 64, 8, 0);
            ops.extend([Op::Store { at, size, after }, Op::Flush { at }, Op::Fence]);
            ops.len() as u64 - 3
        };
        for _ in 0..40 {
            let line = rng.below(MARK);
            let place = flushed(&mut ops, line);
            let mark = flushed(&mut ops, MARK);
            pairs.push(Pair { line, place, mark });
            for _ in 0..12 {
                let page = 1 + if rng.chance(1, 2) {
                    rng.below(12)
                } else {
                    rng.below(298)
                };
                let (at, size, after) = (page * 4 * KIB + rng.below(512) * 8, 8, 0);
                ops.push(match rng.chance(1, 2) {
                    true => Op::Store { at, size, after },
                    false => Op::Load { at, size, after },
                });
            }
        }
        let mut config = computer(1, design);
        config.pinned = vec![(0, 4 * KIB)];
        let kernel = Kernel::new();
        let drive = drive(design, Profile::Default);
        let cut = Cut {
            device: fresh(&kernel, &drive),
            config: drive,
            pairs,
            calls: 0,
            found: 0,
        };
        let program = Listed::new(vec![ops], footprint);
        let machine = Machine::new(&config, &kernel, cut, program, TimeKept, TakeAll);
        let mut machine = machine.unwrap();
        let counts = machine.run().unwrap().counts;
        let (found, calls) = (machine.far().found, machine.far().calls);
        assert!(found > 36 && calls > 400, "{design}: {found} in {calls}");
        assert_eq!(counts.promotions > 0, design == "skybyte-full");
        assert_eq!(counts.page_misses > 0, design == "astriflash-cxl");
    }
}

/// All mechanisms are off, and the drive's DRAM has room for every page: the drive then equals
/// memory behind the link, to the nanosecond and access by access.
#[test]
fn drive_that_holds_everything_equals_memory_behind_the_link() {
    let footprint = 4 * MIB;
    let config = Config {
        cores: 3,
        nodes: vec![NodeConfig {
            memory: Bytes(8 * MIB),
        }],
        far: Bytes(64 * MIB),
        page: PageSize::Huge,
        l2: CacheConfig {
            size: Bytes(64 * KIB),
            ..Config::default().l2
        },
        llc: CacheConfig {
            size: Bytes(256 * KIB),
            ..Config::default().llc
        },
        ..Config::default()
    };
    let mut device = Profile::Default.device(base()).scaled(1024);
    device.dram.bytes = Bytes(u64::from(device.cache.ways) * footprint);
    assert!(device.lookup.before_writes, "as memory looks up its line");
    let dram = DramConfig {
        // The controller's latency is part of the look-up's time.
        controller: Ns::ZERO,
        ..DramConfig::LPDDR4_3200
    };
    for threads in [1, 2] {
        let program = || everywhere(footprint, threads);
        let memory = PlainDram::new(&dram, device.lookup.cache).unwrap();
        let plain = timed(&config, &Kernel::new(), memory, program());
        let kernel = Kernel::new();
        let drive = timed(&config, &kernel, fresh(&kernel, &device), program());
        assert!(plain.device.count > 30_000 && plain.counts.far_writes > 5_000);
        assert_eq!(drive, plain, "{threads} threads");
    }
}

fn base() -> &'static Design {
    Design::named("base-cssd").unwrap()
}

fn timed<F: Far>(config: &Config, kernel: &Kernel, far: F, program: Listed) -> Metrics {
    let machine = Machine::new(config, kernel, far, program, TimeOnly, TakeAll);
    machine.unwrap().run().unwrap()
}

/// A line of every page once, so that every page is cached; then loads and stores all over memory,
/// in order and at random, with and without dependences.
fn everywhere(footprint: u64, threads: u64) -> Listed {
    let share = footprint / threads;
    let thread = |number: u64| {
        let mut rng = Seed(7).child(number).stream("everywhere");
        let from = number * share;
        let load = |at: u64, after| Op::Load {
            at: from + at,
            size: 8,
            after,
        };
        let mut ops: Vec<Op> = (0..share / 4096).map(|page| load(page * 4096, 1)).collect();
        ops.extend([Op::Meet, Op::Begin, Op::Meet]);
        ops.extend((0..share / 64).map(|line| load(line * 64, 1)));
        for _ in 0..20_000 / threads {
            let at = rng.below(share / 8) * 8;
            ops.push(match rng.below(3) {
                0 => Op::Store {
                    at: from + at,
                    size: 8,
                    after: 0,
                },
                after => load(at, after as u16 - 1),
            });
        }
        ops
    };
    // The first touches take different times; the last thread to arrive makes all continue at one
    // time.
    let last = vec![Op::Compute(1 << 25), Op::Meet, Op::Begin, Op::Meet];
    let all = (0..threads).map(thread).chain([last]);
    Listed::new(all.collect(), footprint)
}
