//! Read-ahead and page registers: exact times, staleness, power cuts, and drives without them.

use crate::support::{recover, tiny};
use crate::zones::{extent, fresh, run, tags, tiny_zns, write, zones};
use nand::{Faults, Part};
use sim::{Kernel, Rng, Seed, Sim};
use ssd::{Content, Drive, DriveConfig, ReadCause, ZoneAction, image};
use units::{Bytes, Extent, Ns, Origin, Placement};

/// Firmware time of a command of one page: 3 us, and 500 ns for 4 KiB in DRAM.
const COMMAND: Ns = Ns(3_500);
/// Pages of a row of the tiny flash, and of a window.
const ROW: u64 = 4;
const WINDOW: u64 = 16;

/// `config` with four streams of 16 pages, and registers that serve reads.
fn ahead(config: DriveConfig) -> DriveConfig {
    let mut config = config;
    config.controller.read_ahead = Bytes(4 * WINDOW * 4096);
    config.controller.read_streams = 4;
    config.flash.page_registers = true;
    config
}

/// Flash time of a page of 4 KiB: sensing, and the transfer.
fn flash() -> (Ns, Ns) {
    let timing = Part::named("z-nand").expect("it is in the table").timing;
    let data = (4096 * 1_000_000_000_u64).div_ceil(timing.bus_bytes_per_s);
    (timing.read, timing.command + Ns(data))
}

async fn fill(drive: &Drive, page: u64, pages: u64, tag: u64) {
    let extent = Extent::new(page * 8, (pages * 8) as u32);
    let written = drive.write(extent, Content::Fill(tag), Placement(0), Origin(0), false);
    written.await.expect("the drive has room");
}

/// Reads pages, and returns the first tag and the time of the read.
async fn read(sim: &Sim, drive: &Drive, page: u64, pages: u64) -> (u64, Ns) {
    let mut data = vec![0; (pages * 4096) as usize];
    let begun = sim.now();
    let extent = Extent::new(page * 8, (pages * 8) as u32);
    let read = drive.read(extent, &mut data.as_mut_slice()).await;
    read.expect("the flash is good");
    let tag = u64::from_le_bytes(data[..8].try_into().expect("eight bytes"));
    (tag, sim.now() - begun)
}

/// A drive with pages 0 to 599 written in order, on flash and at rest.
fn filled(config: &DriveConfig) -> (Kernel, Drive) {
    let (kernel, drive) = fresh(config);
    let filled = drive.clone();
    run(&kernel, async move |sim| {
        for page in 0..600 {
            fill(&filled, page, 1, page).await;
        }
        filled.flush().await.expect("no block fails");
        sim.sleep(Ns::ms(10)).await;
    });
    (kernel, drive)
}

#[test]
fn reads_in_order_at_rest_take_the_sum_of_their_parts() {
    let (kernel, drive) = filled(&ahead(tiny(true)));
    let (sensing, transfer) = flash();
    let stream = drive.clone();
    let times: Vec<Ns> = run(&kernel, async move |sim| {
        let mut times = Vec::new();
        for page in 0..100 {
            let (tag, time) = read(&sim, &stream, page, 1).await;
            assert_eq!(tag, page);
            times.push(time);
            sim.sleep(Ns::ms(1)).await;
        }
        times
    });
    // A page of the flash has two of the drive: the second comes from the register.
    let (sensed, held) = (COMMAND + sensing + transfer, COMMAND + transfer);
    assert_eq!(times[..4], [sensed, held, sensed, held]);
    // Read-ahead begins with a row of reads in order, behind the last of them.
    assert!(times[4..].iter().all(|time| *time == COMMAND), "{times:?}");
    let ledger = drive.ledger();
    assert_eq!(ledger.ahead_pages, 96);
    assert_eq!(ledger.host_read_sectors, 800);
    assert_eq!(ledger.reads[ReadCause::Host as usize], 4);
    // Fetches are of rows of two whole pages, up to a window beyond the last read.
    let most = (96 + WINDOW) / 2;
    let fetched = ledger.reads[ReadCause::ReadAhead as usize];
    assert!(fetched <= most && fetched + ROW / 2 >= most, "{fetched}");
    drive.check();
}

#[test]
fn random_reads_are_not_read_ahead_and_take_the_time_of_a_plain_drive() {
    let times = |config: &DriveConfig| {
        let (kernel, drive) = filled(config);
        let reader = drive.clone();
        let times = run(&kernel, async move |sim| {
            let mut times = Vec::new();
            let mut page = 1;
            for _ in 0..100 {
                page = (page * 37 + 11) % 599;
                times.push(read(&sim, &reader, page, 1).await);
            }
            times
        });
        assert_eq!(drive.ledger().reads[ReadCause::ReadAhead as usize], 0);
        times
    };
    let mut on = ahead(tiny(true));
    on.flash.page_registers = false;
    assert_eq!(times(&on), times(&tiny(true)));
}

#[test]
fn stream_without_pauses_nears_the_bound_of_commands_or_channels() {
    let (kernel, drive) = filled(&ahead(tiny(true)));
    let (_, transfer) = flash();
    let reader = drive.clone();
    let (small, large) = run(&kernel, async move |sim| {
        let begun = sim.now();
        for page in 0..200 {
            read(&sim, &reader, page, 1).await;
        }
        let small = sim.now() - begun;
        sim.sleep(Ns::ms(1)).await;
        // Four readers in turn, 16 KiB each.
        let begun = sim.now();
        let reads: Vec<_> = (0..4_u64)
            .map(|turn| {
                let (sim, drive) = (sim.clone(), reader.clone());
                let clock = sim.clone();
                sim.spawn(async move {
                    clock.sleep(Ns(turn)).await;
                    for row in 0..25 {
                        let page = 200 + (row * 4 + turn) * ROW;
                        assert_eq!(read(&clock, &drive, page, ROW).await.0, page);
                    }
                })
            })
            .collect();
        for read in reads {
            read.await;
        }
        (small, sim.now() - begun)
    });
    let commands = Ns(200 * COMMAND.0);
    // The first reads wait for the flash.
    let flash = Ns::us(40);
    assert!(small >= commands && small < commands + flash, "{small}");
    // 400 pages over two channels, which are idle for up to a quarter of the time.
    let data = Ns(200 * (transfer.0 - 200));
    assert!(
        large >= data && large.0 < data.0 * 135 / 100,
        "{large} {data}"
    );
}

#[test]
fn overwritten_or_deallocated_page_is_not_served_from_read_ahead() {
    let (kernel, drive) = filled(&ahead(tiny(true)));
    let reader = drive.clone();
    run(&kernel, async move |sim| {
        for page in 0..30 {
            read(&sim, &reader, page, 1).await;
        }
        sim.sleep(Ns::ms(1)).await;
        // Pages 30 to 44 are in the DRAM now.
        fill(&reader, 33, 1, 7_000).await;
        // These fill the rest of its program.
        fill(&reader, 500, ROW - 1, 1).await;
        reader.trim(Extent::new(34 * 8, 8)).await.expect("room");
        reader.flush().await.expect("no block fails");
        sim.sleep(Ns::ms(10)).await;
        let (sensing, transfer) = flash();
        for page in 30..37 {
            let (tag, time) = read(&sim, &reader, page, 1).await;
            let (data, flash) = match page {
                33 => (7_000, sensing + transfer),
                34 => (0, Ns::ZERO),
                page => (page, Ns::ZERO),
            };
            assert_eq!((tag, time), (data, COMMAND + flash), "page {page}");
            sim.sleep(Ns::ms(1)).await;
        }
    });
}

#[test]
fn reset_zone_is_not_served_from_read_ahead() {
    let (kernel, drive) = fresh(&ahead(tiny_zns(true)));
    let zones = zones(&drive);
    let (sensing, transfer) = flash();
    run(&kernel, async move |sim| {
        write(&zones, 0, 0, (0..62).collect()).await.unwrap();
        sim.sleep(Ns::ms(10)).await;
        let mut times = Vec::new();
        for at in 0..40 {
            let begun = sim.now();
            let read = tags(&zones, extent(&zones, 0, at, 1)).await;
            assert_eq!(read, Ok(vec![at]));
            times.push(sim.now() - begun);
            sim.sleep(Ns::ms(1)).await;
        }
        let (sensed, held) = (COMMAND + sensing + transfer, COMMAND + transfer);
        assert_eq!(times[..4], [sensed, held, sensed, held]);
        assert!(times[4..].iter().all(|time| *time == COMMAND), "{times:?}");
        zones.manage(0, ZoneAction::Reset).await.unwrap();
        write(&zones, 0, 0, (100..162).collect()).await.unwrap();
        sim.sleep(Ns::ms(10)).await;
        let begun = sim.now();
        let read = tags(&zones, extent(&zones, 0, 40, 1)).await;
        assert_eq!((read, sim.now() - begun), (Ok(vec![140]), sensed));
    });
    drive.check();
}

/// Contents and statuses are those of a model, whatever is on its way.
fn mix(config: &DriveConfig, seed: u64) {
    let (kernel, drive) = filled(config);
    let mut rng: Rng = Seed(seed).stream("reads");
    let user = drive.clone();
    let model = run(&kernel, async move |sim| {
        let mut model: Vec<u64> = (0..600).collect();
        let mut streams = [0_u64, 200, 400];
        for turn in 0..3_000_u64 {
            let page = rng.below(600);
            match rng.below(10) {
                0 => {
                    model[page as usize] = 1_000 + turn;
                    fill(&user, page, 1, 1_000 + turn).await;
                }
                1 => {
                    model[page as usize] = 0;
                    user.trim(Extent::new(page * 8, 8)).await.expect("room");
                }
                2 => {
                    let (tag, _) = read(&sim, &user, page, 1).await;
                    assert_eq!(tag, model[page as usize]);
                }
                draw => {
                    let stream = &mut streams[draw as usize % 3];
                    let pages = 1 + rng.below(9);
                    let (tag, _) = read(&sim, &user, *stream, pages).await;
                    assert_eq!(tag, model[*stream as usize]);
                    *stream = (*stream + pages) % 590;
                }
            }
            user.check();
        }
        model
    });
    assert!(drive.ledger().ahead_pages > 1_000);
    let (_kernel, drive) = recover(config, drive.at_power_cut());
    for (page, tag) in (0..).zip(model) {
        let contents = drive.peek(page).map(|sectors| format!("{:?}", sectors[0]));
        let expected = (tag > 0).then(|| format!("Fill({tag})"));
        if page > 0 || tag > 0 {
            assert_eq!(contents.filter(|c| c != "Zero"), expected, "page {page}");
        }
    }
}

#[test]
fn mixed_streams_writes_and_cuts_keep_contents() {
    for seed in 0..3 {
        mix(&ahead(tiny(true)), seed);
    }
}

#[test]
fn failed_fetch_is_read_again_by_its_reader() {
    let mut config = ahead(tiny(true));
    let (kernel, drive) = filled(&config);
    config.faults = Faults {
        read_retries: 200_000,
        ..Faults::default()
    };
    let media = drive.at_power_cut();
    drop((kernel, drive));
    let kernel = Kernel::new();
    let drive = Drive::ready(&kernel.sim(), &config, media, Seed(3)).expect("a good one");
    let reader = drive.clone();
    let failed = run(&kernel, async move |_| {
        let mut failed = 0;
        for page in 0..400 {
            let read = reader.read(Extent::new(page * 8, 8), &mut ()).await;
            failed += u64::from(read.is_err());
        }
        failed
    });
    let ledger = drive.ledger();
    assert!(ledger.ahead_pages > 200 && failed > 0, "{failed}");
    assert!(drive.flash_counters().uncorrectable > failed);
    assert_eq!(drive.smart().media_errors, failed);
}

#[test]
fn drives_with_the_mechanisms_off_are_equal_to_the_byte() {
    let life = |config: &DriveConfig| {
        let (kernel, drive) = filled(config);
        let reader = drive.clone();
        let end = run(&kernel, async move |sim| {
            for page in 0..300 {
                read(&sim, &reader, page * 7 % 590, 1 + page % 5).await;
            }
            sim.now()
        });
        let mut file = Vec::new();
        image::write(config, &drive.at_power_cut(), &mut file).expect("a vector takes all");
        (end, drive.ledger(), file)
    };
    let mut off = tiny(true);
    let plain = life(&off);
    off.controller.read_streams = 2;
    let (end, ledger, _) = life(&off);
    assert_eq!((end, ledger), (plain.0, plain.1.clone()));
    off.controller.read_streams = 0;
    assert_eq!(life(&off), plain);
}

#[test]
fn sizes_out_of_range_are_refused_with_their_key() {
    let refused = |change: fn(&mut DriveConfig)| {
        let mut config = ahead(tiny(true));
        change(&mut config);
        let error = ssd::Layout::new(&config).expect_err("it is out of range");
        error.to_string()
    };
    let says = refused(|config| config.controller.read_streams = 0);
    assert_eq!(
        says,
        "controller.read_streams: 0 given, 1 to 256 with controller.read_ahead expected"
    );
    let says = refused(|config| config.controller.read_ahead = Bytes(7 * 4096));
    assert_eq!(
        says,
        "controller.read_ahead: 28 KiB given, 0, or 64 KiB (a row of pages for each stream) to \
         1 GiB expected"
    );
    assert!(refused(|c| c.controller.read_ahead = Bytes(2 << 30)).contains("1 GiB"));
}
