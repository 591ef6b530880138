//! Migration of pages: triggers, destinations and costs.

use memsys::model::Listed;
use memsys::{
    Cause, Config, Demote, DramConfig, Far, FarEvent, Line, LineData, Machine, Metrics, Moves,
    NodeConfig, Offer, Op, PageData, PageSize, PlainDram, Promote, ReadReply, RunError, Sampling,
    StoreMiss, Tag, TakeAll, Tick, Tiering, TimeOnly,
};
use sim::Kernel;
use std::collections::{BTreeMap, VecDeque};
use units::{Bytes, KIB, MIB, Ns};

pub(crate) const FOOTPRINT: u64 = 16 * MIB;
pub(crate) const PAGE: u64 = 4 * KIB;

/// Memory behind the link that calls a page hot at its fifth read.
pub(crate) struct Counting {
    dram: PlainDram,
    pub(crate) reads: BTreeMap<u64, u32>,
    events: VecDeque<FarEvent>,
    pub(crate) dropped: Vec<u64>,
    /// Pages from which on chunks were dropped by a command.
    commands: Vec<u64>,
    pub(crate) written: Vec<u64>,
    pub(crate) pages: Vec<u64>,
    /// The last read, and how long after it each page was written.
    last: Ns,
    pub(crate) gaps: Vec<Ns>,
    /// It takes no pages.
    pub(crate) full: bool,
    pub(crate) copied: u64,
    /// Flash latency of a page that is copied; `begun` has the start of each read.
    flash: Ns,
    begun: BTreeMap<u64, Ns>,
}

impl Counting {
    pub(crate) fn new() -> Self {
        Self {
            dram: PlainDram::new(&DramConfig::LPDDR4_3200, Ns(49)).unwrap(),
            reads: BTreeMap::new(),
            events: VecDeque::new(),
            dropped: Vec::new(),
            commands: Vec::new(),
            written: Vec::new(),
            pages: Vec::new(),
            last: Ns::ZERO,
            gaps: Vec::new(),
            full: false,
            copied: 0,
            flash: Ns::ZERO,
            begun: BTreeMap::new(),
        }
    }
}

impl Far for Counting {
    fn read(&mut self, now: Ns, line: Line, tag: Tag) -> ReadReply {
        let reads = self.reads.entry(line.0 / 64).or_default();
        *reads += 1;
        if *reads == 5 {
            self.events.push_back(FarEvent::Hot(line.0 / 64, now));
        }
        self.last = now;
        self.dram.read(now, line, tag)
    }

    fn write(&mut self, now: Ns, line: Line, data: LineData) -> Option<Ns> {
        self.written.push(line.0);
        self.dram.write(now, line, data)
    }

    fn write_page(&mut self, now: Ns, page: u64, _: Option<&PageData>) -> Option<Ns> {
        self.pages.push(page);
        self.gaps.push(now.since(self.last));
        (!self.full).then_some(now + Ns(40))
    }

    fn copy_read(&mut self, now: Ns, line: Line, tag: Tag) -> ReadReply {
        self.copied += 1;
        let begun = *self.begun.entry(line.0 / 64).or_insert(now);
        if now < begun + self.flash {
            return ReadReply::Delay(now + Ns(50));
        }
        self.dram.read(now, line, tag)
    }

    fn event(&mut self) -> Option<FarEvent> {
        self.events.pop_front()
    }

    fn dropped(&mut self, _: Ns, page: u64) -> u64 {
        self.dropped.push(page);
        self.reads.remove(&page);
        // The last line of a page is newer than flash.
        1 << 63
    }

    fn dropped_chunks(&mut self, now: Ns, first: u64, chunks: &[u64; 8]) -> Vec<(u64, u64)> {
        self.commands.push(first);
        assert_eq!(chunks, &[u64::MAX; 8]);
        let pages = first..first + 512;
        pages.map(|page| (page, self.dropped(now, page))).collect()
    }
}

pub(crate) fn config(tiering: Tiering) -> Config {
    let mut config = Config {
        cores: 1,
        nodes: vec![NodeConfig {
            memory: Bytes(FOOTPRINT),
        }],
        far: Bytes(2 * FOOTPRINT),
        tiering,
        ..Config::default()
    };
    // Small caches, so that pages are read again and again.
    config.l1.size = Bytes(1_024);
    config.l2.size = Bytes(4_096);
    config.llc.size = Bytes(16 * KIB);
    config
}

fn moves(pages: u64) -> Moves {
    Moves {
        limit: Bytes(pages * PAGE),
        ..Moves::default()
    }
}

fn run_with<M: Promote>(config: &Config, ops: Vec<Op>, take: M) -> (Metrics, Counting) {
    let kernel = Kernel::new();
    let program = Listed::new(vec![ops], FOOTPRINT);
    let mut far = Counting::new();
    let made = Machine::new(config, &kernel, &mut far, program, TimeOnly, take);
    let metrics = made.unwrap().run().unwrap();
    (metrics, far)
}

pub(crate) fn run(config: &Config, ops: Vec<Op>) -> (Metrics, Counting) {
    run_with(config, ops, TakeAll)
}

impl Far for &mut Counting {
    fn read(&mut self, now: Ns, line: Line, tag: Tag) -> ReadReply {
        (**self).read(now, line, tag)
    }

    fn write(&mut self, now: Ns, line: Line, data: LineData) -> Option<Ns> {
        (**self).write(now, line, data)
    }

    fn write_page(&mut self, now: Ns, page: u64, data: Option<&PageData>) -> Option<Ns> {
        (**self).write_page(now, page, data)
    }

    fn copy_read(&mut self, now: Ns, line: Line, tag: Tag) -> ReadReply {
        (**self).copy_read(now, line, tag)
    }

    fn event(&mut self) -> Option<FarEvent> {
        (**self).event()
    }

    fn dropped(&mut self, now: Ns, page: u64) -> u64 {
        (**self).dropped(now, page)
    }

    fn dropped_chunks(&mut self, now: Ns, first: u64, chunks: &[u64; 8]) -> Vec<(u64, u64)> {
        (**self).dropped_chunks(now, first, chunks)
    }
}

pub(crate) fn load(at: u64) -> Op {
    Op::Load {
        at,
        size: 8,
        after: 1,
    }
}

/// Rounds over all lines of the pages `from..to`, with a store to the first of each.
pub(crate) fn rounds(from: u64, to: u64, times: u64) -> Vec<Op> {
    let page = |page: u64| {
        let store = Op::Store {
            at: page * PAGE,
            size: 8,
            after: 0,
        };
        let loads = (0..64).map(move |line| load(page * PAGE + line * 64));
        loads.chain([store])
    };
    (0..times).flat_map(|_| (from..to).flat_map(page)).collect()
}

#[test]
fn hot_pages_are_read_from_the_host_once_they_have_moved() {
    //= skybyte 3.3
    let still = run(&config(Tiering::None), rounds(0, 16, 40)).0;
    let (moved, far) = run(&config(Tiering::Hinted(moves(64))), rounds(0, 16, 40));
    let counts = &moved.counts;
    assert_eq!(
        (counts.promotions, counts.demotions, moved.held),
        (16, 0, 16)
    );
    assert_eq!((counts.copy_reads, far.copied), (16 * 64, 16 * 64));
    assert_eq!(counts.shootdowns, 16);
    assert_eq!(far.dropped, (0..16).collect::<Vec<_>>());
    assert!(moved.host.count > 10 * moved.device.count, "{moved:?}");
    assert!(moved.amat() < still.amat() && moved.time < still.time);
    let kernel = Tick::of(Ns(16 * (2_000 + 4_000)));
    assert_eq!(
        moved.spent_on(Cause::Kernel),
        kernel,
        "a handler and a shootdown each"
    );
}

#[test]
fn the_hosts_share_holds_and_what_goes_back_are_lines_that_differ() {
    //= skybyte 3.3
    let ops = rounds(0, 64, 20);
    let (metrics, far) = run(&config(Tiering::Hinted(moves(8))), ops.clone());
    let counts = &metrics.counts;
    assert!(counts.demotions > 20 && metrics.held <= 8, "{counts:?}");
    // The line that was stored to, and the one that the device had newer.
    assert!(counts.demoted_lines <= 2 * counts.demotions);
    assert!(counts.demoted_lines > counts.demotions);
    assert!(far.written.iter().all(|line| matches!(line % 64, 0 | 63)));

    let whole = Moves {
        demote: Demote::WholePage,
        ..moves(8)
    };
    let (metrics, _) = run(&config(Tiering::Hinted(whole)), ops);
    assert_eq!(metrics.counts.demoted_lines, 64 * metrics.counts.demotions);
}

#[test]
fn a_copy_waits_for_its_page_and_asks_now_and_then() {
    let kernel = Kernel::new();
    let program = Listed::new(vec![rounds(0, 2, 200)], FOOTPRINT);
    let mut far = Counting::new();
    far.flash = Ns::us(20);
    let config = config(Tiering::Hinted(moves(64)));
    let made = Machine::new(&config, &kernel, &mut far, program, TimeOnly, TakeAll);
    let counts = made.unwrap().run().unwrap().counts;
    assert_eq!(counts.promotions, 2);
    // Each line once it is there, and one of each page every 500 ns until then.
    let most = 2 * (64 + 20_000 / 500 + 1);
    assert!((2 * 64 + 20..=most).contains(&far.copied), "{}", far.copied);
}

#[test]
fn pages_that_go_back_together_take_one_shootdown() {
    let of = |batch| {
        let moves = Moves { batch, ..moves(8) };
        run(&config(Tiering::Hinted(moves)), rounds(0, 64, 20)).0
    };
    let (alone, together) = (of(1), of(4));
    let rounds = |metrics: &Metrics| {
        let counts = &metrics.counts;
        // One for each page that comes, and these for those that go.
        counts.shootdowns - counts.promotions
    };
    assert_eq!(rounds(&alone), alone.counts.demotions);
    assert_eq!(4 * rounds(&together), together.counts.demotions);
    // No more than half of the eight.
    let most = of(1_000);
    assert_eq!(4 * rounds(&most), most.counts.demotions);
    assert!(together.held <= 8 && together.counts.demotions > 20);
    assert!(together.spent_on(Cause::Kernel) < alone.spent_on(Cause::Kernel));
}

#[test]
fn pinned_pages_stay_on_the_device() {
    //= skybyte 4
    let mut config = config(Tiering::Hinted(moves(64)));
    config.pinned = vec![(0, 8 * PAGE)];
    let (metrics, far) = run(&config, rounds(0, 16, 40));
    assert_eq!(metrics.counts.promotions, 8);
    assert!(far.dropped.iter().all(|&page| page >= 8));
}

/// Policy that rejects every offer.
struct Never;

impl Promote for Never {
    fn take(&mut self, offer: &Offer) -> bool {
        assert!(offer.held <= offer.limit && offer.offers > 0);
        false
    }
}

#[test]
fn the_host_may_refuse() {
    let config = config(Tiering::Hinted(moves(64)));
    let (metrics, _) = run_with(&config, rounds(0, 16, 10), Never);
    assert_eq!((metrics.counts.promotions, metrics.counts.offers), (0, 16));
    assert_eq!(metrics.spent_on(Cause::Kernel), Tick::ZERO);
}

#[test]
fn as_many_pages_are_on_their_way_as_the_buffer_has_entries() {
    let few = Moves {
        entries: 1,
        queue: 2,
        ..moves(64)
    };
    // All pages become hot at about the same time.
    let ops: Vec<Op> = (0..6 * 64)
        .map(|n| load(n % 64 * PAGE + n / 64 * 64))
        .collect();
    let (metrics, _) = run(&config(Tiering::Hinted(few)), ops.clone());
    assert!(metrics.counts.passed_over > 30, "{:?}", metrics.counts);
    let (metrics, _) = run(&config(Tiering::Hinted(moves(64))), ops);
    assert_eq!(metrics.counts.passed_over, 0);
}

#[test]
fn a_huge_page_moves_as_one() {
    //= skybyte 4
    let mut huge = config(Tiering::Hinted(Moves {
        limit: Bytes(4 * MIB),
        ..Moves::default()
    }));
    huge.page = PageSize::Huge;
    let (metrics, far) = run(&huge, rounds(0, 16, 400));
    assert_eq!(
        (metrics.counts.promotions, metrics.counts.shootdowns),
        (1, 1)
    );
    assert_eq!(far.dropped, (0..512).collect::<Vec<_>>());
    assert_eq!(metrics.counts.copy_reads, 512 * 64);
    // One command for all of its chunks, which costs as one.
    assert_eq!(far.commands, [0]);
    if let Tiering::Hinted(moves) = &mut huge.tiering {
        moves.command = Ns::ZERO;
    }
    let free = run(&huge, rounds(0, 16, 400)).0.spent_on(Cause::Kernel);
    assert_eq!(metrics.spent_on(Cause::Kernel), free + Tick::of(Ns::us(2)));
}

#[test]
fn the_chunks_of_a_huge_page_are_begun_one_after_the_other_while_flash_is_read() {
    //= skybyte 4
    let mut huge = config(Tiering::Hinted(Moves {
        limit: Bytes(4 * MIB),
        ..Moves::default()
    }));
    huge.page = PageSize::Huge;
    let kernel = Kernel::new();
    let program = Listed::new(vec![rounds(0, 16, 800)], FOOTPRINT);
    let mut far = Counting::new();
    far.flash = Ns::us(20);
    let made = Machine::new(&huge, &kernel, &mut far, program, TimeOnly, TakeAll);
    let counts = made.unwrap().run().unwrap().counts;
    assert_eq!(counts.promotions, 1);
    // Each line once it is there; before that, one of each chunk, and all chunks are begun
    // before the first is asked for again.
    let most = 512 * 64 + 512 + 20_000 / 500;
    assert!(
        (512 * 64 + 512..=most).contains(&far.copied),
        "{}",
        far.copied
    );
}

#[test]
fn sampling_moves_what_is_accessed_twice() {
    //= skybyte 6.8
    let sampling = Sampling {
        period: Ns::us(20),
        pages: FOOTPRINT / PAGE,
        fault: Ns::us(1),
    };
    let mut sampled = config(Tiering::Sampled(moves(64), sampling));
    sampled.tlb.first = 8;
    sampled.tlb.second = 8;
    let (metrics, _) = run(&sampled, rounds(0, 16, 40));
    assert_eq!(metrics.counts.promotions, 16);
    assert_eq!(metrics.counts.offers, 0, "the device was not asked");
    assert!(metrics.host.count > 0);
}

#[test]
fn a_page_in_use_is_not_sent_back_though_its_translation_stays() {
    // Page 0 is read between all others, whose rounds take more than the host may hold.
    let cold = (1..40).flat_map(|page| (0..64).map(move |line| page * PAGE + line * 64));
    let cold = (0..10).flat_map(|_| cold.clone());
    // One in nine loads is of page 0: its lines have left the caches when they come again.
    let cold: Vec<u64> = cold.collect();
    let both = |(n, at): (usize, &[u64])| {
        let at = at.iter().map(|&at| load(at));
        at.chain([load(n as u64 % 64 * 64)]).collect::<Vec<_>>()
    };
    let ops = cold.chunks(8).enumerate().flat_map(both).collect();
    let alone = Moves {
        batch: 1,
        ..moves(8)
    };
    let (metrics, far) = run(&config(Tiering::Hinted(alone)), ops);
    assert!(metrics.counts.demotions > 100, "{:?}", metrics.counts);
    let moved = far.dropped.iter().filter(|&&page| page == 0).count();
    assert_eq!(moved, 1, "it came once and stayed");
}

/// A device that never answers.
struct Mute;

impl Far for Mute {
    fn read(&mut self, _: Ns, _: Line, _: Tag) -> ReadReply {
        ReadReply::Waits
    }

    fn write(&mut self, now: Ns, _: Line, _: LineData) -> Option<Ns> {
        Some(now)
    }

    fn event(&mut self) -> Option<FarEvent> {
        None
    }

    fn dropped(&mut self, _: Ns, _: u64) -> u64 {
        0
    }
}

#[test]
fn a_run_that_is_stuck_ends_though_the_kernel_samples() {
    for tiering in [
        Tiering::None,
        Tiering::Sampled(moves(8), Sampling::default()),
    ] {
        let (config, kernel) = (config(tiering), Kernel::new());
        let program = Listed::new(vec![vec![load(0)]], FOOTPRINT);
        let made = Machine::new(&config, &kernel, Mute, program, TimeOnly, TakeAll);
        assert!(matches!(made.unwrap().run(), Err(RunError::Stuck(_))));
    }
}

/// A store to each of 100 pages.
pub(crate) fn scattered() -> Vec<Op> {
    let (size, after) = (8, 0);
    let store = |at| Op::Store { at, size, after };
    (0..100).map(|page| store(page * PAGE)).collect()
}

#[test]
fn a_store_that_misses_can_be_sent_as_a_write() {
    let ops = scattered();
    let mut sent = config(Tiering::None);
    sent.store_miss = StoreMiss::Write;
    let (metrics, _) = run(&sent, ops.clone());
    assert_eq!(metrics.counts.far_reads, 0);
    assert!(metrics.counts.far_writes >= 100);
    let (metrics, _) = run(&config(Tiering::None), ops);
    // A line may have to be read again that left the small caches before its store.
    assert!(metrics.counts.far_reads >= 100);
}
