//! Rejected accesses of byte-addressable drives, and the costs of accepted ones.

use super::{fronted, with_battery};
use crate::support::tiny;
use sim::{Kernel, Seed};
use ssd::front::{Battery, FrontConfig};
use ssd::wlog::{CommitError, StoreError};
use ssd::{
    ByteError, Cause, Content, Drive, DriveConfig, DriveMedia, IoError, Layout, PRESETS, ReadCause,
};
use units::{Bytes, Extent, KIB, MIB, Ns, Origin, Placement};

pub(super) fn on_drive<T: 'static, F: Future<Output = T> + 'static>(
    config: &DriveConfig,
    test: impl FnOnce(Drive, sim::Sim) -> F,
) -> T {
    let kernel = Kernel::new();
    let media = DriveMedia::new(config, Seed(1)).unwrap();
    let drive = Drive::ready(&kernel.sim(), config, media, Seed(1)).unwrap();
    kernel.block_on(test(drive, kernel.sim()))
}

#[test]
fn byte_accesses_fail_on_a_conventional_drive() {
    on_drive(&tiny(true), |drive, _| async move {
        assert!(!drive.has_bytes() && !drive.has_transactions());
        let mut line = [0; 64];
        assert_eq!(drive.load(0, &mut line).await, Err(ByteError::NoBytes));
        let stored = drive.store(0, &line, 0, Origin(0)).await;
        assert_eq!(stored, Err(ByteError::NoBytes));
        assert_eq!(drive.commit(1).await, Err(ByteError::NoBytes));
        assert_eq!(drive.recover().await, Err(ByteError::NoBytes));
    });
}

#[test]
fn unaligned_or_out_of_range_accesses_are_rejected() {
    let config = fronted(true, 8, true);
    let capacity = config.capacity.0;
    on_drive(&config, move |drive, _| async move {
        for (at, len) in [(8, 64), (0, 63), (0, 0)] {
            let refused = ByteError::Unaligned { at, len };
            assert_eq!(drive.check_store(at, len, 0, 0), Err(refused));
            let mut out = vec![0; len as usize];
            assert_eq!(drive.load(at, &mut out).await, Err(refused));
        }
        let past = |error| matches!(error, Err(ByteError::Io(IoError::OutOfRange { .. })));
        assert!(past(drive.check_store(capacity, 64, 0, 0)));
        assert!(past(drive.load(capacity, &mut [0; 64]).await));
        assert!(past(drive.load(capacity - 64, &mut [0; 128]).await));
        assert!(past(
            drive.store(capacity - 64, &[0; 128], 0, Origin(0)).await
        ));
        assert!(past(drive.check_store(u64::MAX - 63, 64, 0, 0)));
    });
}

#[test]
fn transactions_are_rejected_without_firmware_support() {
    for config in [fronted(true, 0, false), fronted(false, 8, true)] {
        on_drive(&config, |drive, _| async move {
            assert!(drive.has_bytes() && !drive.has_transactions());
            let stored = drive.store(0, &[1; 64], 1, Origin(0)).await;
            assert_eq!(stored, Err(ByteError::NoTransactions));
            assert_eq!(drive.commit(1).await, Err(ByteError::NoTransactions));
            assert!(drive.recover().await.is_ok());
        });
    }
}

#[test]
fn committed_transaction_number_is_rejected_until_cleaned() {
    on_drive(&fronted(true, 8, false), |drive, _| async move {
        let unknown = ByteError::Commit(CommitError::Unknown(3));
        assert_eq!(drive.commit(3).await, Err(unknown));
        drive.store(0, &[1; 64], 3, Origin(0)).await.unwrap();
        let locked = drive.check_store(0, 64, 4, 0).unwrap_err();
        let (page, line, by) = (0, 0, 3);
        assert_eq!(locked, StoreError::Locked { page, line, by }.into());
        drive.commit(3).await.unwrap();
        assert_eq!(drive.commit(3).await, Err(CommitError::Committed(3).into()));
        let late = drive.check_store(64, 64, 3, 0).unwrap_err();
        assert_eq!(late, StoreError::Committed(3).into());
        // Enough lines to trigger log cleaning.
        for line in 0..400 {
            let at = 4096 + line % 128 * 64;
            drive.store(at, &[2; 64], 0, Origin(0)).await.unwrap();
        }
        assert!(drive.ledger().bytes.cleanings > 0);
        assert_eq!(drive.check_store(64, 64, 3, 0), Ok(()));
    });
}

#[test]
fn oversized_transaction_stores_nothing() {
    on_drive(&fronted(true, 8, false), |drive, _| async move {
        let (most, slots) = ((320 - 64) / 2, 320);
        let large = vec![1; 64 * (most as usize + 1)];
        let (open, tx) = (most + 1, 9);
        let refused = ByteError::Store(StoreError::Oversized { open, slots });
        assert_eq!(drive.store(0, &large, tx, Origin(0)).await, Err(refused));
        assert_eq!(drive.ledger().bytes.stored_lines, 0);
        let fits = &large[64..];
        drive.store(0, fits, tx, Origin(0)).await.unwrap();
        // The largest transaction leaves room for a page without a transaction.
        for round in 0..20 {
            let page = [round; 4096];
            drive.store(40 * 4096, &page, 0, Origin(0)).await.unwrap();
        }
        drive.commit(tx).await.unwrap();
    });
}

/// Latencies of a load, a store, a load and a store of one line of a page on flash.
fn costs(config: &DriveConfig) -> [Ns; 4] {
    on_drive(config, |drive, sim| async move {
        drive.write_whole(3).await;
        drive.flush_to_flash(&sim).await;
        let mut line = [0; 64];
        let mut costs = [Ns::ZERO; 4];
        for (number, cost) in costs.iter_mut().enumerate() {
            let since = sim.now();
            if number % 2 == 0 {
                drive.load(3 * 4096, &mut line).await.unwrap();
            } else {
                drive.store(3 * 4096, &line, 0, Origin(0)).await.unwrap();
            }
            *cost = sim.now().since(since);
        }
        costs
    })
}

#[test]
fn idle_latency_is_the_sum_of_its_parts() {
    let (log, cache) = (fronted(true, 8, false), fronted(false, 0, true));
    let timing = log.timing().unwrap();
    let flash = |bytes: u64| {
        timing.read + timing.command + Ns((bytes * 1_000_000_000).div_ceil(timing.bus_bytes_per_s))
    };
    // The DRAM moves 12.8 bytes a nanosecond; a write in the log has a descriptor of 16 bytes.
    let moved = |bytes: u64| Ns((bytes * 10).div_ceil(128));
    let miss = flash(4096) + moved(4096);
    let (load, store) = (Ns(89 + 100) + moved(64), Ns(89 + 100) + moved(80));
    assert_eq!(costs(&log), [load + miss, store, load, store]);
    let hit = Ns(49 + 100) + moved(64);
    assert_eq!(costs(&cache), [hit + miss, hit, hit, hit]);
}

#[test]
fn ledger_causes_add_up_to_flash_counters() {
    for (log, cache) in [(true, false), (false, true), (true, true)] {
        on_drive(&fronted(log, 8, cache), move |drive, _| async move {
            let mut rng = Seed(5).stream("causes");
            for number in 0..4_000_u64 {
                let page = rng.below(60);
                let at = page * 4096 + rng.below(60) * 64;
                let bytes = [number as u8; 128];
                drive.store(at, &bytes, 0, Origin(3)).await.unwrap();
                drive.load(at ^ 4096, &mut [0; 64]).await.unwrap();
            }
            drive.shutdown().await;
            let (ledger, flash) = (drive.ledger(), drive.flash_counters());
            let sectors = u64::from(drive.layout().geometry.sectors_per_page());
            assert_eq!(ledger.programmed_pages(), flash.program_pages * sectors);
            assert_eq!(ledger.reads.iter().sum::<u64>(), flash.read_pages);
            let bytes = ledger.bytes;
            assert_eq!(bytes.load_hits + bytes.load_misses, 4_000);
            assert_eq!(bytes.stored_lines, 8_000);
            let of = |cause| ledger.by_cause(cause);
            assert!(of(Cause::LogCleaning) <= bytes.cleaned_pages);
            assert!(of(Cause::Eviction) <= bytes.evicted_pages + 5);
            assert_eq!(of(Cause::LogCleaning) > 0, log);
            assert_eq!(of(Cause::Eviction) > 0, !log);
            assert_eq!(of(Cause::Host) + of(Cause::Rmw), 0);
            assert_eq!(ledger.reads[ReadCause::CacheFetch as usize] > 0, cache);
            assert_eq!(ledger.reads[ReadCause::LogCleaning as usize] > 0, log);
            assert_eq!(ledger.reads[ReadCause::Host as usize] > 0, log && !cache);
            let origins = &ledger.programmed[Cause::LogCleaning as usize];
            assert_eq!(origins[3], of(Cause::LogCleaning), "of whom the lines are");
        });
    }
}

/// Page reads of cleaning while the cache has the pages.
fn reads_of_cleaning(tx: u32) -> u64 {
    on_drive(&fronted(true, 8, true), move |drive, sim| async move {
        for page in 0..3 {
            drive.write_whole(page).await;
        }
        drive.flush_to_flash(&sim).await;
        let line = [1; 64];
        drive.store(9 * 4096, &line, tx, Origin(0)).await.unwrap();
        for number in 0..280_u64 {
            let at = number % 3 * 4096;
            drive.load(at, &mut [0; 64]).await.unwrap();
            drive.store(at, &line, 0, Origin(0)).await.unwrap();
        }
        sim.sleep(Ns::ms(5)).await;
        assert!(drive.ledger().bytes.cleanings > 0);
        drive.ledger().reads[ReadCause::LogCleaning as usize]
    })
}

#[test]
fn cleaning_uses_cached_pages_without_open_lines() {
    assert_eq!(reads_of_cleaning(0), 0);
    assert!(reads_of_cleaning(1) > 0, "the cache may hold what is open");
}

/// Runs `test` on a drive with a log and unreadable flash. Page 3 was written and flushed, then its
/// first line was stored and cleaned; it is in the write buffer now.
fn with_a_lost_page<F: Future<Output = ()> + 'static>(
    test: impl FnOnce(Drive, sim::Sim) -> F + 'static,
) {
    let mut config = fronted(true, 8, false);
    config.faults.read_retries = 1_000_000;
    on_drive(&config, |drive, sim| async move {
        drive.write_whole(3).await;
        drive.flush_to_flash(&sim).await;
        drive.store(3 * 4096, &[1; 64], 0, Origin(0)).await.unwrap();
        let mut line = [0; 64];
        drive.load(3 * 4096, &mut line).await.unwrap();
        assert_eq!(line, [1; 64], "the log has it");
        for number in 0..300_u64 {
            let at = 5 * 4096 + number % 64 * 64;
            drive.store(at, &[2; 64], 0, Origin(0)).await.unwrap();
        }
        sim.sleep(Ns::ms(50)).await;
        assert!(drive.ledger().bytes.cleanings > 0);
        test(drive, sim).await;
    });
}

#[test]
fn cleaning_an_unreadable_page_loses_unlogged_lines() {
    with_a_lost_page(|drive, _| async move {
        let [page] = drive.peek(3).unwrap().try_into().unwrap();
        assert_eq!(page.lost(), !1);
        let mut line = [0; 64];
        drive.load(3 * 4096, &mut line).await.unwrap();
        assert_eq!(line, [1; 64]);
        let sector = 3 * 8;
        let lost = Err(ByteError::Io(IoError::Media(sector)));
        assert_eq!(drive.load(3 * 4096 + 64, &mut line).await, lost);
        drive.write_whole(3).await;
        drive.load(3 * 4096 + 64, &mut line).await.unwrap();
        assert_eq!(line, [4, 0, 0, 0, 0, 0, 0, 0].repeat(8)[..]);
    });
}

#[test]
fn lost_lines_stay_lost_after_a_partial_write() {
    with_a_lost_page(|drive, _| async move {
        let second = Extent::new(3 * 8 + 1, 1);
        let fill = Content::Fill(9);
        let written = drive.write(second, fill, Placement(0), Origin(0), false);
        written.await.unwrap();
        let [page] = drive.peek(3).unwrap().try_into().unwrap();
        assert_eq!(page.lost(), !0xff01);
        let mut sector = [0; 512];
        drive
            .read(second, &mut sector.as_mut_slice())
            .await
            .unwrap();
        assert_eq!(sector, [9, 0, 0, 0, 0, 0, 0, 0].repeat(64)[..]);
        for first in [0, 2, 7] {
            let extent = Extent::new(3 * 8 + first, 1);
            let read = drive.read(extent, &mut sector.as_mut_slice()).await;
            assert_eq!(read, Err(IoError::Media(3 * 8 + first)));
        }
        let whole = Extent::new(3 * 8, 8);
        let read = drive.read(whole, &mut vec![0; 4096].as_mut_slice()).await;
        assert_eq!(read, Err(IoError::Media(3 * 8)));
        // The page is restored line by line.
        for line in (1..8).chain(16..64) {
            let at = 3 * 4096 + line * 64;
            drive.store(at, &[5; 64], 0, Origin(0)).await.unwrap();
        }
        let read = drive.read(whole, &mut vec![0; 4096].as_mut_slice()).await;
        assert_eq!(read, Ok(()));
    });
}

#[test]
fn lost_lines_survive_in_drive_files() {
    with_a_lost_page(|drive, _| async move {
        let page = drive.peek(3);
        let (config, media) = (drive.config().clone(), drive.at_power_cut());
        let mut file = Vec::new();
        ssd::image::write(&config, &media, &mut file).unwrap();
        let (_, media) = ssd::image::read(&mut file.as_slice()).unwrap();
        let (_kernel, back) = crate::support::recover(&config, media);
        assert_eq!(back.peek(3), page);
        assert_eq!(page.unwrap()[0].lost(), !1);
    });
}

/// Block operations of these tests.
pub(super) trait Blocks {
    async fn write_whole(&self, page: u64);
    async fn flush_to_flash(&self, sim: &sim::Sim);
}

impl Blocks for Drive {
    async fn write_whole(&self, page: u64) {
        let (content, extent) = (Content::Fill(page + 1), Extent::new(page * 8, 8));
        self.write(extent, content, Placement(0), Origin(0), false)
            .await
            .unwrap();
    }

    /// Writes enough other pages that earlier ones leave the buffer.
    async fn flush_to_flash(&self, sim: &sim::Sim) {
        for page in 100..140 {
            self.write_whole(page).await;
        }
        sim.sleep(Ns::ms(5)).await;
    }
}

#[test]
fn timing_does_not_depend_on_kept_contents() {
    let times = |contents: bool| {
        [(true, false), (false, true)].map(|(log, cache)| {
            let mut config = fronted(log, 8, cache);
            config.flash.keep_contents = contents;
            on_drive(&config, |drive, sim| async move {
                for number in 0..600_u64 {
                    let at = number * 7 % 90 * 4096 + number % 64 * 64;
                    drive.store(at, &[1; 64], 0, Origin(0)).await.unwrap();
                }
                drive.shutdown().await;
                sim.now()
            })
        })
    };
    assert_eq!(times(true), times(false));
}

#[test]
fn worn_out_drive_loads_but_rejects_stores() {
    for (log, cache) in [(true, false), (false, true)] {
        let mut config = fronted(log, 8, cache);
        config.faults.program_failures = 200_000;
        config.faults.erase_failures = 300_000;
        on_drive(&config, move |drive, _| async move {
            let mut refused = None;
            let mut values = [0; 400];
            for number in 0..60_000_usize {
                let page = number * 7 % 400;
                let line = [number as u8; 64];
                let at = page as u64 * 4096;
                match drive.store(at, &line, 0, Origin(0)).await {
                    Ok(()) => values[page] = number as u8,
                    Err(error) => {
                        refused = Some(error);
                        break;
                    }
                }
            }
            assert_eq!(refused, Some(ByteError::Io(IoError::ReadOnly)));
            assert_eq!(
                drive.check_store(0, 64, 0, 0),
                Err(IoError::ReadOnly.into())
            );
            for (page, value) in values.into_iter().enumerate() {
                let mut line = [0; 64];
                drive.load(page as u64 * 4096, &mut line).await.unwrap();
                assert_eq!(line, [value; 64], "page {page}");
            }
            drive.shutdown().await;
        });
    }
}

#[test]
fn impossible_front_config_names_the_knob() {
    type Change = fn(&mut DriveConfig);
    let wrong: [(&str, Change); 9] = [
        ("front: ", |c| c.front = Some(FrontConfig::default())),
        ("front.log.bytes", |c| front(c).log.bytes = Bytes(255 * 80)),
        ("front.log.bytes", |c| front(c).log.bytes = Bytes(1 << 40)),
        ("front.log.commits", |c| front(c).log.commits = Bytes(6)),
        ("front.log.clean_percent", |c| {
            front(c).log.clean_percent = 0;
        }),
        ("front.log.pages_in_work", |c| {
            front(c).log.pages_in_work = 0;
        }),
        ("front.cache.bytes", |c| front(c).cache.bytes = Bytes(KIB)),
        ("mapping.unit", |c| c.mapping.unit = Bytes(8 * KIB)),
        ("controller.power_loss_protection", |c| {
            c.controller.power_loss_protection = false;
        }),
    ];
    for (knob, change) in wrong {
        let mut config = fronted(true, 8, true);
        Layout::new(&config).unwrap();
        change(&mut config);
        let refused = Layout::new(&config).unwrap_err().to_string();
        assert!(refused.starts_with(knob), "{knob}: {refused}");
    }
    let mut config = fronted(true, 8, true);
    config.mapping.cache = Bytes(4 * KIB);
    assert!(Layout::new(&config).is_err());
    let mut config = fronted(true, 8, true);
    front(&mut config).battery = Battery::Log;
    let refused = Layout::new(&config).unwrap_err().to_string();
    assert!(
        refused.contains("false unless front.battery=all"),
        "{refused}"
    );
}

#[test]
fn battery_decides_what_a_flush_and_a_transaction_are() {
    let of = |battery, log, cache| {
        let config = with_battery(battery, fronted(log, 8, cache));
        let kept = config.front_kept();
        on_drive(&config, move |drive, _| async move {
            drive.store(0, &[1; 64], 0, Origin(0)).await.unwrap();
            drive.flush().await.unwrap();
            let programs = drive.ledger().programmed_pages() > 0;
            assert_eq!(programs, !drive.keeps_lines());
            let (cache, txs) = (drive.has_volatile_cache(), drive.has_transactions());
            (kept, cache, txs, programs)
        })
    };
    let log = Bytes(320 * 80 + 4 * 8);
    let cache = Bytes(5 * 4096);
    assert_eq!(of(Battery::All, true, false), (log, false, true, false));
    assert_eq!(of(Battery::All, false, true), (cache, false, false, false));
    assert_eq!(of(Battery::Log, true, true), (log, true, true, false));
    assert_eq!(of(Battery::Log, false, true), (Bytes(0), true, false, true));
    assert_eq!(
        of(Battery::None, true, false),
        (Bytes(0), true, false, true)
    );
    assert_eq!(
        of(Battery::None, false, true),
        (Bytes(0), true, false, true)
    );
}

fn front(config: &mut DriveConfig) -> &mut FrontConfig {
    config.front.as_mut().unwrap()
}

#[test]
fn front_presets_match_their_sources() {
    let named = |name| PRESETS.iter().find(|p| p.name == name).unwrap();
    let byte = (named("byte").config)();
    let mut block = (named("block").config)();
    (block.name, block.front) = (byte.name.clone(), byte.front);
    assert_eq!(byte, block, "one thing differs");
    assert_eq!(byte.front.unwrap().cache.bytes, Bytes(256 * MIB));
    let emulator = (named("bytefs-emulator").config)();
    Layout::new(&emulator).unwrap();
    //= bytefs 4.3
    let log = emulator.front.unwrap().log;
    assert_eq!(log.bytes, Bytes(256 * MIB));
    assert_eq!((log.commits, log.clean_percent), (Bytes(2 * MIB), 85));
}
