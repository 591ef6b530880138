//! A map on flash whose cache holds translation pages or single entries: its traffic.

use crate::mapping::{keeping, write_sectors};
use crate::steady::bare;
use sim::{Kernel, Rng, Seed};
use ssd::{CacheHolds, Cause, Content, Drive, DriveConfig, DriveMedia, Ledger, ReadCause};
use units::{Bytes, Extent, Origin, Placement};

/// Reads of translation pages, and programs of them.
fn traffic(ledger: &Ledger) -> (u64, u64) {
    let reads = ledger.reads[ReadCause::Map as usize];
    (reads, ledger.by_cause(Cause::Map))
}

/// Writes 6,000 sectors, which 6 translation pages of 1,024 entries map, with caches of fewer and
/// fewer bytes. The largest has the whole map, after `first` misses.
fn shrink_cache(holds: CacheHolds, sizes: [u64; 4], first: u64) {
    let config = keeping(4096, 64, 6_000);
    let whole = write_sectors(&config, 4);
    assert_eq!(whole.read, whole.written);
    let of = |ledger: &Ledger| (ledger.map_hits, ledger.map_misses);
    assert_eq!(of(&whole.ledger), (0, 0));
    assert_eq!(traffic(&whole.ledger), (0, 0));
    let mut before = None;
    for bytes in sizes {
        let mut config = config.clone();
        config.mapping.cache = Bytes(bytes);
        config.mapping.cache_holds = holds;
        let paged = write_sectors(&config, 4);
        assert_eq!(paged.read, paged.written);
        assert_eq!(paged.read, whole.read);
        let ledger = &paged.ledger;
        let ((hits, misses), (reads, writes)) = (of(ledger), traffic(ledger));
        let (backs, entries) = (ledger.map_write_backs, ledger.map_entries_written);
        eprintln!(
            "{holds:?}, {bytes} bytes: {hits} hits, {misses} misses, {reads} reads, {writes} \
             writes of translation pages for {backs} write-backs of {entries} entries"
        );
        let commands = ledger.host_write_sectors / 8 + 6_000;
        assert!(hits + misses >= commands, "every command looks its page up");
        match holds {
            CacheHolds::Pages => assert!(reads <= misses && entries == 0),
            CacheHolds::Entries => assert!(reads <= misses + backs && entries >= backs),
        }
        if before.is_none() {
            assert_eq!((misses, reads, writes), (first, 0, 0), "it holds them all");
        } else {
            assert!(reads > 0 && writes > 0 && backs > 0);
        }
        // Reads need not grow: translation pages that are written often are in the buffer.
        let less = before.replace((misses, backs));
        assert!(less.is_none_or(|less| less.0 < misses && less.1 <= backs));
    }
}

//= dftl 4
#[test]
fn cached_translation_pages_add_traffic_by_cache_size_and_keep_contents() {
    let pages = |pages: u64| pages * 4096;
    shrink_cache(CacheHolds::Pages, [16, 4, 2, 1].map(pages), 6);
}

//= dftl 4
#[test]
fn cached_entries_add_traffic_by_cache_size_and_keep_contents() {
    let entries = |entries: u64| entries * 8;
    let sizes = [6_000, 2_000, 500, 1].map(entries);
    shrink_cache(CacheHolds::Entries, sizes, 6_000);
}

/// A drive under power.
struct Bench {
    kernel: Kernel,
    drive: Drive,
}

impl Bench {
    fn new(config: &DriveConfig) -> Self {
        let kernel = Kernel::new();
        let media = DriveMedia::new(config, Seed(1)).expect("a good drive");
        let drive = Drive::ready(&kernel.sim(), config, media, Seed(1)).expect("a good drive");
        Self { kernel, drive }
    }

    /// Writes the mapped pages of 4 KiB that `pages` names, one after the other.
    fn write(&self, pages: impl IntoIterator<Item = u64> + 'static) {
        let drive = self.drive.clone();
        self.kernel.block_on(async move {
            for page in pages {
                let extent = Extent::new(page * 8, 8);
                let done = drive.write(extent, Content::Nothing, Placement(0), Origin(0), false);
                done.await.expect("the drive has room");
            }
        });
    }

    fn read(&self, page: u64) {
        let drive = self.drive.clone();
        let done = async move { drive.read(Extent::new(page * 8, 8), &mut ()).await };
        self.kernel.block_on(done).expect("no fault is injected");
    }

    /// Moves everything from the buffer to flash.
    fn flush(&self) {
        let drive = self.drive.clone();
        let done = async move { drive.flush().await };
        self.kernel.block_on(done).expect("the drive has room");
    }

    fn traffic(&self) -> (u64, u64) {
        self.drive.check();
        traffic(&self.drive.ledger())
    }
}

//= dftl 4
#[test]
fn evicted_dirty_entry_reads_its_stored_translation_page_and_writes_it() {
    let mut config = bare(120, 4_000);
    config.controller.power_loss_protection = false;
    config.mapping.cache_holds = CacheHolds::Entries;
    config.mapping.cache = Bytes(8);
    let bench = Bench::new(&config);
    let step = |page, expected, what| {
        bench.write([page]);
        bench.flush();
        assert_eq!(bench.traffic(), expected, "{what}");
    };
    step(0, (0, 0), "there is room for the entry");
    step(2_000, (0, 1), "page 0 of the map is new");
    step(1, (1, 2), "page 1 of the map is new, and page 0 is read");
    step(1, (1, 2), "the entry is cached");
    step(
        3,
        (2, 3),
        "page 0 is read to update it, and then in the buffer",
    );
    bench.read(2_000);
    bench.flush();
    assert_eq!(bench.traffic(), (4, 4), "page 0 is updated, page 1 is read");
    bench.read(4);
    assert_eq!(bench.traffic(), (5, 4), "a clean entry is only dropped");
    let ledger = bench.drive.ledger();
    assert_eq!((ledger.map_hits, ledger.map_misses), (1, 6));
    assert_eq!((ledger.map_write_backs, ledger.map_entries_written), (4, 4));
}

/// Translation pages of the drive in [`measured`].
const MAP_PAGES: u64 = 120;

/// Ledger of 40,000 writes of a page to a fresh drive whose cache has the bytes of a thirtieth of
/// the translation pages.
fn measured(holds: CacheHolds, mut next: impl FnMut(&mut Rng, u64) -> u64) -> Ledger {
    let mut config = bare(2_200, MAP_PAGES as u32 * 1_024);
    config.mapping.cache = Bytes(MAP_PAGES / 30 * 4096);
    config.mapping.cache_holds = holds;
    let bench = Bench::new(&config);
    let mut rng = Seed(7).stream("pages");
    let pages: Vec<u64> = (0..40_000).map(|number| next(&mut rng, number)).collect();
    bench.write(pages);
    bench.drive.check();
    bench.drive.ledger()
}

/// Under random writes, four translation pages of 120 miss nearly always, and each write evicts a
/// dirty one. The same bytes hold 2,048 entries, 17 of each translation page, which are written
/// together.
//= dftl 4
#[test]
fn random_writes_program_few_translation_pages_if_entries_are_cached() {
    let anywhere = |rng: &mut Rng, _| rng.below(MAP_PAGES * 1_024);
    let pages = measured(CacheHolds::Pages, anywhere);
    let entries = measured(CacheHolds::Entries, anywhere);
    for (name, ledger) in [("pages", &pages), ("entries", &entries)] {
        let (reads, writes) = traffic(ledger);
        let (backs, written) = (ledger.map_write_backs, ledger.map_entries_written);
        eprintln!(
            "{name}: {} hits, {} misses, {reads} reads and {writes} programs of translation pages \
             for 40000 writes, {backs} write-backs, {written} entries in them",
            ledger.map_hits, ledger.map_misses
        );
    }
    let (few, many) = (entries.map_write_backs, pages.map_write_backs);
    assert!(many > 36_000 && few < 4_000, "{few} and {many}");
    assert!(traffic(&entries).1 * 9 < traffic(&pages).1);
    assert!(entries.map_entries_written > 10 * few);
    let again = measured(CacheHolds::Entries, anywhere);
    assert_eq!(again, entries, "equal runs count alike");
}

//= dftl 4
#[test]
fn sequential_writes_program_each_translation_page_once() {
    for holds in [CacheHolds::Pages, CacheHolds::Entries] {
        let ledger = measured(holds, |_, number| number);
        let (reads, writes) = traffic(&ledger);
        eprintln!("{holds:?}: {reads} reads, {writes} programs for 40000 writes in sequence");
        assert!(reads == 0 && writes <= 40_000 / 1_024, "{writes}");
    }
}
