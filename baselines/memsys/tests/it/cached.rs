//! The host's DRAM as a page cache: yields, write-backs, and delays by full MSHRs.

use crate::moves::{Counting, FOOTPRINT, PAGE, config, load, rounds, run, scattered};
use memsys::model::Listed;
use memsys::{
    Cause, DramConfig, Machine, Metrics, Op, PageCache, RunError, StoreMiss, TakeAll, Tick,
    Tiering, TimeOnly,
};
use sim::Kernel;
use units::{Bytes, Ns};

#[test]
fn a_cache_of_pages_lets_threads_yield_until_the_page_is_there() {
    //= skybyte 6.8
    let cached = PageCache {
        size: Bytes(64 * PAGE),
        ..PageCache::default()
    };
    let (metrics, far) = run(&config(Tiering::Cached(cached)), rounds(0, 32, 10));
    let counts = &metrics.counts;
    assert_eq!(counts.page_misses, 32);
    assert_eq!((counts.copy_reads, counts.far_reads), (32 * 64, 0));
    assert_eq!(far.copied, 0, "its pages come because they are asked for");
    assert!(
        counts.long_delays >= 8 && counts.page_hits > 10 * 32,
        "{counts:?}"
    );
    assert!(metrics.spent_on(Cause::Switch) <= Tick::of(Ns(200)).times(counts.switches));
    assert!(far.dropped.is_empty() && far.written.is_empty());

    // More pages than it holds: those that were written go back, as they came.
    let (metrics, far) = run(&config(Tiering::Cached(cached)), rounds(0, 256, 3));
    assert!(metrics.counts.page_misses > 256);
    assert!(far.pages.len() > 256, "{}", far.pages.len());
    assert!(far.written.len() < far.pages.len() / 8, "{:?}", far.written);
}

#[test]
fn a_page_that_leaves_is_read_from_dram_before_it_is_written() {
    //= skybyte 6.8
    let cached = PageCache {
        size: Bytes(64 * PAGE),
        misses: 1,
        ..PageCache::default()
    };
    let least = |dram: DramConfig| {
        let mut config = config(Tiering::Cached(cached));
        config.dram = dram;
        let (_, far) = run(&config, rounds(0, 256, 3));
        far.gaps.into_iter().min().unwrap()
    };
    // 4 KiB at 307.2 GB/s, and at 12.8, behind the last lines of the page that has come.
    let longer = least(DramConfig::LPDDR4_3200).since(least(DramConfig::DDR5_4800));
    assert!((Ns(307)..Ns(400)).contains(&longer), "{longer}");
}

/// Threads of one core, each of which reads its own pages in turn.
fn sharing(threads: u64, pages: u64, misses: u64) -> Metrics {
    let cached = PageCache {
        size: Bytes(64 * PAGE),
        misses,
        ..PageCache::default()
    };
    let thread = |number: u64| {
        let page = |n: u64| [load((number * pages + n) * PAGE), Op::Compute(400)];
        (0..pages).flat_map(page).collect()
    };
    let kernel = Kernel::new();
    let program = Listed::new((0..threads).map(thread).collect(), FOOTPRINT);
    let config = config(Tiering::Cached(cached));
    let mut far = Counting::new();
    let made = Machine::new(&config, &kernel, &mut far, program, TimeOnly, TakeAll);
    made.unwrap().run().unwrap()
}

#[test]
fn pages_on_their_way_hold_up_no_hit_of_the_cache_of_pages() {
    let cached = PageCache {
        size: Bytes(2_048 * PAGE),
        ..PageCache::default()
    };
    let mut config = config(Tiering::Cached(cached));
    config.cores = 2;
    // One thread goes round its pages; so many others miss that the link is full for long.
    let misses = |number: u64| {
        let pages = 16 + number * 20..36 + number * 20;
        pages.map(|page| load(page * PAGE)).collect()
    };
    let threads = std::iter::once(rounds(0, 16, 4)).chain((0..60).map(misses));
    let kernel = Kernel::new();
    let program = Listed::new(threads.collect(), FOOTPRINT);
    let mut far = Counting::new();
    let made = Machine::new(&config, &kernel, &mut far, program, TimeOnly, TakeAll);
    let metrics = made.unwrap().run().unwrap();
    assert_eq!(metrics.counts.page_misses, 16 + 60 * 20);
    let hits = metrics.host.count;
    assert!(hits > 16 * 64 * 3, "{hits} hits");
    let mean = metrics.host.outside.ns().0 / hits;
    assert!(mean < 100, "a hit takes {mean} ns");
}

#[test]
fn threads_of_a_cache_of_pages_switch_without_the_kernel_also_when_the_core_was_idle() {
    //= skybyte 6.8
    let metrics = sharing(3, 3, 64);
    assert_eq!(metrics.counts.page_misses, 9);
    assert!(metrics.spent_on(Cause::Idle) > Tick::ZERO);
    let switches = metrics.counts.switches;
    let each = Tick::of(config(Tiering::None).os.user_switch);
    assert!(switches > 3);
    assert_eq!(metrics.spent_on(Cause::Switch), each.times(switches));
}

#[test]
fn miss_without_a_free_page_cache_register_yields_and_waits_in_order() {
    let few = sharing(3, 3, 1);
    let many = sharing(3, 3, 64);
    assert_eq!((few.counts.page_misses, many.counts.page_misses), (9, 9));
    // No thread returns before its page is there; the page waits for those of others.
    assert_eq!(few.counts.repeated_delays, 0);
    assert!(few.time > many.time, "{:?} {:?}", few.time, many.time);
}

#[test]
fn pages_that_the_device_does_not_take_hold_back_those_that_would_push_others_out() {
    let cached = PageCache {
        size: Bytes(8 * PAGE),
        misses: 4,
        ..PageCache::default()
    };
    let (config, kernel) = (config(Tiering::Cached(cached)), Kernel::new());
    let program = Listed::new(vec![rounds(0, 64, 1)], FOOTPRINT);
    let mut far = Counting::new();
    far.full = true;
    let made = Machine::new(&config, &kernel, &mut far, program, TimeOnly, TakeAll);
    assert!(matches!(made.unwrap().run(), Err(RunError::Stuck(_))));
    // Eight fill the cache, and each register then holds one that was pushed out. The first
    // goes before its store has left the caches, and is not written.
    assert_eq!(far.reads.len(), 8 + 4 + 1);
}

#[test]
fn a_cache_of_pages_takes_in_what_is_stored_to_though_misses_may_be_sent_as_writes() {
    //= skybyte 6.8
    let mut sent = config(Tiering::Cached(PageCache {
        size: Bytes(128 * PAGE),
        ..PageCache::default()
    }));
    let reads = run(&sent, scattered()).0;
    sent.store_miss = StoreMiss::Write;
    let (metrics, far) = run(&sent, scattered());
    assert_eq!(metrics.counts.page_misses, 100);
    assert_eq!(far.written, [0; 0], "lines of pages that it has go there");
    assert_eq!(metrics, reads);
}

#[test]
fn pinned_pages_go_past_the_cache_of_pages() {
    //= skybyte 4
    let mut config = config(Tiering::Cached(PageCache {
        size: Bytes(64 * PAGE),
        ..PageCache::default()
    }));
    config.pinned = vec![(0, 8 * PAGE)];
    let (at, size, after) = (3 * PAGE, 8, 0);
    let flushed = [Op::Store { at, size, after }, Op::Flush { at }, Op::Fence];
    let (metrics, far) = run(&config, [rounds(0, 16, 10), flushed.to_vec()].concat());
    assert_eq!(metrics.counts.page_misses, 8, "those that are not pinned");
    assert!(metrics.counts.far_reads > 8 * 64, "{:?}", metrics.counts);
    assert_eq!(
        far.written.last(),
        Some(&(3 * 64)),
        "a flush reaches the device"
    );
    assert!(far.written.iter().all(|line| line / 64 < 8));
}
