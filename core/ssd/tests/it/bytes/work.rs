//! Background work of a front: start, parallelism and cost of cleaning and recovery, and changes
//! that arrive meanwhile.

use super::fronted;
use super::refusals::{Blocks, on_drive};
use crate::support::recover;
use sim::Sim;
use ssd::{ByteError, Content, Drive, DriveConfig, IoError, ReadCause};
use units::{Extent, Ns, Origin, Placement};

const PAGE: u64 = 4_096;

/// Transfer time of `bytes` in the DRAM of these drives: 12.8 bytes a nanosecond.
fn moved(bytes: u64) -> Ns {
    Ns((bytes * 10).div_ceil(128))
}

/// A log of 320 lines whose cleaning starts at `percent` and works on `pages_in_work` pages at
/// once.
fn cleaned(percent: u32, pages_in_work: u32) -> DriveConfig {
    let mut config = fronted(true, 8, false);
    let log = &mut config.front.as_mut().unwrap().log;
    (log.clean_percent, log.pages_in_work) = (percent, pages_in_work);
    config
}

async fn store(drive: &Drive, page: u64, line: u64, tx: u32) {
    let at = page * PAGE + line * 64;
    drive.store(at, &[1; 64], tx, Origin(0)).await.unwrap();
}

#[test]
fn cleaning_starts_at_the_configured_fill_level() {
    let default = fronted(true, 8, false).front.unwrap().log.clean_percent;
    //= bytefs 4.3
    assert_eq!(default, 85);
    for percent in [default, 50, 100] {
        on_drive(&cleaned(percent, 3), move |drive, sim| async move {
            let least = u64::from(320 * percent).div_ceil(100);
            for line in 0..least - 1 {
                store(&drive, line / 64, line % 64, 0).await;
            }
            sim.sleep(Ns::ms(10)).await;
            let cleanings = |drive: &Drive| drive.ledger().bytes.cleanings;
            assert!(!drive.log_state().unwrap().is_cleaned);
            assert_eq!(cleanings(&drive), 0, "{percent} % but for a line");
            let again = drive.take_in(7 * PAGE, &[1; 64], 0, Origin(0));
            again.await.unwrap();
            sim.sleep(Ns(1)).await;
            assert!(drive.log_state().unwrap().is_cleaned, "{percent} %");
            sim.sleep(Ns::ms(10)).await;
            assert_eq!(
                (cleanings(&drive), drive.log_state().unwrap().lines),
                (1, 0)
            );
        });
    }
}

/// Time to clean one line of each of 23 pages that exist only in the log.
fn cleaning_time(pages_in_work: u32) -> Ns {
    // 23 lines of 320.
    on_drive(&cleaned(7, pages_in_work), |drive, sim| async move {
        for page in 0..23 {
            assert!(!drive.log_state().unwrap().is_cleaned);
            let taken = drive.take_in(page * PAGE, &[1; 64], 0, Origin(0));
            taken.await.unwrap();
        }
        let begin = sim.now();
        while drive.ledger().bytes.cleanings == 0 {
            sim.sleep(Ns(1)).await;
        }
        assert_eq!(drive.ledger().bytes.cleaned_pages, 23);
        // The cleaner ends after this check of the same instant.
        Ns(sim.now().since(begin).0 - 1)
    })
}

#[test]
fn pages_are_cleaned_concurrently() {
    // A look-up, the DRAM, and a line out of the log and into the buffer.
    let (answer, line) = (89 + 100, moved(2 * 64).0);
    assert_eq!(cleaning_time(1), Ns(23 * (answer + line)));
    // All pages wait for the one DRAM channel, and for nothing else.
    assert_eq!(cleaning_time(64), Ns(answer + 23 * line));
    let some = cleaning_time(4);
    assert!(
        some < Ns(7 * (answer + 4 * line)) && some > cleaning_time(8),
        "{some}"
    );
}

/// Time that recovery of `entries` lines in `pages` pages takes.
fn recovery_time(pages: u64, entries: u64) -> Ns {
    let config = cleaned(85, 1);
    let media = on_drive(&config, move |drive, _| async move {
        for entry in 0..entries {
            store(&drive, entry % pages, entry / pages, 0).await;
        }
        drive.at_power_cut()
    });
    let (kernel, back) = recover(&config, media);
    kernel.block_on(async move {
        let report = back.recover().await.unwrap();
        assert_eq!((report.pages, report.kept), (pages, entries));
        report.time
    })
}

#[test]
fn recovery_time_grows_with_entries_and_pages() {
    let (few, many) = (recovery_time(4, 40), recovery_time(4, 80));
    // Each entry is looked up, its descriptor scanned, and its line copied.
    let scan = |entries: u64| 89 * entries + moved(16 * entries).0;
    let copy = |lines: u64| moved(2 * 64 * lines).0;
    let more = scan(80) + 4 * copy(20) - scan(40) - 4 * copy(10);
    assert_eq!(many, few + Ns(more));
    // More pages cost more look-ups and programs.
    let (program, planes) = (Ns::us(100), 4);
    let scattered = recovery_time(40, 40);
    let cleaned = Ns(36 * (89 + 100));
    assert!(scattered > few + cleaned, "{scattered}, {few}");
    assert!(
        scattered > few + Ns(program.0 * 32 / (2 * planes)),
        "{scattered}, {few}"
    );
}

#[test]
fn line_committed_during_cleaning_causes_a_page_read() {
    on_drive(&cleaned(85, 64), |drive, sim| async move {
        drive.write_whole(900).await;
        drive.flush_to_flash(&sim).await;
        store(&drive, 900, 5, 1).await;
        for number in 0..271 {
            // More pages than the write buffer has room for.
            store(&drive, 200 + number % 60, number / 60, 0).await;
        }
        let log = || drive.log_state().unwrap();
        assert!(log().is_cleaned);
        drive.commit(1).await.unwrap();
        assert!(log().is_cleaned && drive.ledger().bytes.migrated_lines == 0);
        sim.sleep(Ns::ms(50)).await;
        assert_eq!(drive.ledger().bytes.cleanings, 1);
        let page = drive.peek(900).unwrap()[0].to_bytes();
        assert_eq!((page[4 * 64], page[5 * 64]), (133, 1));
        assert_eq!(drive.ledger().reads[ReadCause::LogCleaning as usize], 1);
    });
}

#[test]
fn all_waiters_for_an_unreadable_page_get_the_error() {
    let mut config = fronted(false, 0, true);
    config.faults.read_retries = 1_000_000;
    on_drive(&config, |drive, sim| async move {
        drive.write_whole(3).await;
        drive.flush_to_flash(&sim).await;
        let load = || {
            let drive = drive.clone();
            sim.spawn(async move { drive.load(3 * PAGE, &mut [0; 64]).await })
        };
        let (first, second) = (load(), load());
        let third = drive.store(3 * PAGE, &[1; 64], 0, Origin(0)).await;
        let lost = Err(ByteError::Io(IoError::Media(3 * 8)));
        assert_eq!((first.await, second.await, third), (lost, lost, lost));
        assert_eq!(drive.smart().media_errors, 2);
    });
}

/// Time of a block read of a page on flash of which the log has `lines`.
fn merged_read(lines: u64) -> Ns {
    on_drive(&cleaned(85, 3), move |drive, sim| async move {
        drive.write_whole(3).await;
        drive.flush_to_flash(&sim).await;
        for line in 0..lines {
            store(&drive, 3, 2 * line, 0).await;
        }
        let begin = sim.now();
        drive.read(Extent::new(3 * 8, 8), &mut ()).await.unwrap();
        sim.now().since(begin)
    })
}

#[test]
fn block_read_takes_the_time_of_merged_lines() {
    let alone = merged_read(0);
    for lines in [1, 20] {
        assert_eq!(merged_read(lines), alone + Ns(100) + moved(2 * 64 * lines));
    }
}

async fn write(drive: Drive) {
    let (content, extent) = (Content::Nothing, Extent::new(8 * 8, 8));
    let written = drive.write(extent, content, Placement(0), Origin(0), false);
    written.await.unwrap();
}

/// Times of a store and of a load, each directly after a block write of 4 KiB, on a drive whose
/// DRAM takes 100 ns for a byte.
fn behind_a_block(sim: &Sim, drive: &Drive) -> impl Future<Output = [Ns; 2]> + use<> {
    let (sim, drive) = (sim.clone(), drive.clone());
    async move {
        let mut spans = [Ns::ZERO; 2];
        for (number, span) in spans.iter_mut().enumerate() {
            let block = sim.spawn(write(drive.clone()));
            // The firmware has accepted the command.
            sim.sleep(Ns(3_100)).await;
            let begin = sim.now();
            if number == 0 {
                store(&drive, 9, 0, 0).await;
            } else {
                drive.load(9 * PAGE, &mut [0; 64]).await.unwrap();
            }
            *span = sim.now().since(begin);
            block.await;
        }
        spans
    }
}

#[test]
fn blocks_and_lines_share_the_dram_channel() {
    for (log, lookup, descriptor) in [(true, 89, 16), (false, 49, 0)] {
        let mut config = fronted(log, 8, !log);
        config.front.as_mut().unwrap().dram.bytes_per_s = 10_000_000;
        let [stored, loaded] = on_drive(&config, move |drive, sim| async move {
            store(&drive, 9, 1, 0).await;
            behind_a_block(&sim, &drive).await
        });
        // The rest of the block, and the line.
        let rest = 3_000 + lookup + 100 * PAGE - 3_100;
        let line = |bytes: u64| Ns(rest + 100 * bytes + lookup + 100);
        assert_eq!(
            [stored, loaded],
            [line(64 + descriptor), line(64)],
            "log: {log}"
        );
    }
}

#[test]
fn dram_rate_below_the_minimum_is_rejected() {
    let mut config = fronted(true, 8, false);
    config.front.as_mut().unwrap().dram.bytes_per_s = 999_999;
    let refused = ssd::Layout::new(&config).unwrap_err().to_string();
    assert!(refused.starts_with("front.dram.bytes_per_s"), "{refused}");
}
