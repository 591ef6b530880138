//! Limits of zones and their holders, latencies, wear, appends, and conventional zones.

use super::{PER, change, extent, fresh, narrow, run, tags, tiny_zns, write, zones};
use ssd::{Content, Unwritten, ZoneAction, ZoneState, ZoneStatus};
use units::{Bytes, Extent, Ns, Origin};

#[test]
fn refusal_names_the_holders_of_the_limit() {
    let (kernel, drive) = fresh(&tiny_zns(true));
    let all = zones(&drive);
    run(&kernel, async move |_| {
        for zone in 0..3 {
            all.manage(zone, ZoneAction::Open)
                .await
                .expect("three may be open");
        }
        let refused = write(&all, 5, 0, vec![1])
            .await
            .expect_err("the host holds them all");
        assert_eq!(refused, ZoneStatus::TooManyOpenZones);
        assert_eq!(all.in_use().holders(refused), [0, 1, 2]);
        all.manage(1, ZoneAction::Close).await.expect("it is open");
        write(&all, 5, 0, vec![1])
            .await
            .expect("one has been closed");
        // The zone that a write opened makes room for another one, which is the fourth active one.
        let refused = write(&all, 6, 0, vec![1])
            .await
            .expect_err("four are active");
        assert_eq!(refused, ZoneStatus::TooManyActiveZones);
        assert_eq!(all.in_use().holders(refused), [0, 1, 2, 5]);
        assert_eq!(all.counts(), (3, 4));
        all.manage(1, ZoneAction::Open)
            .await
            .expect("zone 5 is closed for it");
        assert_eq!(all.info(5).expect("it is there").state, ZoneState::Closed);
        all.manage_all(ZoneAction::Reset)
            .await
            .expect("all can be reset");
        assert_eq!(all.in_use().empty, 10);
    });
}

/// A write into the buffer takes no flash time; a full unit is programmed in the time of a program;
/// a reset takes the time of its erases.
#[test]
fn zone_command_latency_is_the_sum_of_its_parts() {
    let config = tiny_zns(true);
    let timing = config.timing().expect("a good part");
    let controller = config.controller;
    let (kernel, drive) = fresh(&config);
    let all = zones(&drive);
    run(&kernel, async move |sim| {
        let begin = sim.now();
        write(&all, 0, 0, vec![1, 2, 3]).await.expect("it is empty");
        let took = Ns(controller.command.0 + 3 * controller.dram_per_unit.0);
        assert_eq!(sim.now().since(begin), took);
        assert_eq!(
            drive.flash_counters().program_pages,
            0,
            "three of four sectors wait"
        );
        write(&all, 0, 3, vec![4])
            .await
            .expect("at the write pointer");
        sim.sleep(Ns::ms(1)).await;
        assert_eq!(
            drive.flash_counters().program_pages,
            2,
            "a page of both planes"
        );
        let begin = sim.now();
        all.read(extent(&all, 0, 0, 1), &mut ())
            .await
            .expect("it is there");
        let bus = Ns::transfer(4096, timing.bus_bytes_per_s);
        let flash = timing.read.0 + timing.command.0 + bus.0;
        let read = Ns(controller.command.0 + controller.dram_per_unit.0 + flash);
        assert_eq!(sim.now().since(begin), read);
        let begin = sim.now();
        all.manage(0, ZoneAction::Reset)
            .await
            .expect("it can be reset");
        let reset = Ns(controller.command.0 + timing.command.0 + timing.erase.0);
        assert_eq!(sim.now().since(begin), reset, "both dies at once");
        assert_eq!(drive.flash_counters().erase_blocks, 4);
        let begin = sim.now();
        all.manage(0, ZoneAction::Reset).await.expect("it is empty");
        assert_eq!(
            sim.now().since(begin),
            controller.command,
            "nothing is erased"
        );
    });
}

/// A wide zone is as fast as all dies; a narrow one is as fast as one, independent of the others.
#[test]
fn zone_speed_follows_its_number_of_dies() {
    let time = |config: &ssd::DriveConfig, zone: u32| {
        let (kernel, drive) = fresh(config);
        let all = zones(&drive);
        run(&kernel, async move |sim| {
            let whole = extent(&all, zone, 0, 32);
            let filled = all.write(whole, Content::Fill(1), Origin(0), false).await;
            filled.expect("it is empty");
            while !drive.flash_counters().program_pages.is_multiple_of(16)
                || drive.flash_counters().program_pages == 0
            {
                sim.sleep(Ns::us(1)).await;
            }
            sim.now()
        })
    };
    let (large, small) = (time(&tiny_zns(true), 0), time(&narrow(true), 0));
    let ratio = small.0 as f64 / large.0 as f64;
    assert!(
        (1.7..2.1).contains(&ratio),
        "two dies and one: {large} and {small}"
    );
}

#[test]
fn repeated_resets_wear_all_blocks_evenly() {
    let (kernel, drive) = fresh(&tiny_zns(true));
    let all = zones(&drive);
    let held = drive.clone();
    run(&kernel, async move |_| {
        for turn in 0..200 {
            // One zone only: without wear levelling its own blocks would be erased each time.
            write(&all, 3, 0, vec![turn + 1; 8])
                .await
                .expect("it is empty");
            all.manage(3, ZoneAction::Reset)
                .await
                .expect("it can be reset");
        }
    });
    let (erases, bad) = held.wear();
    let (least, most) = (erases.iter().min(), erases.iter().max());
    assert_eq!(
        (bad, erases.iter().map(|&n| u64::from(n)).sum()),
        (0, 200 * 4)
    );
    assert!(
        most.zip(least)
            .is_some_and(|(most, least)| most - least <= 1),
        "{erases:?}"
    );
}

#[test]
fn reads_across_zones_and_of_unwritten_data_follow_the_config() {
    let config = tiny_zns(true);
    let (kernel, drive) = fresh(&config);
    let all = zones(&drive);
    run(&kernel, async move |_| {
        write(&all, 0, 0, (1..63).collect())
            .await
            .expect("it is empty");
        write(&all, 1, 0, vec![100, 101])
            .await
            .expect("it is empty");
        let read = tags(&all, extent(&all, 0, 60, 7)).await;
        assert_eq!(
            read,
            Ok(vec![61, 62, 0, 0, 100, 101, 0]),
            "capacity and size differ"
        );
    });
    let strict = change(&config, |zones| {
        (zones.read_across, zones.read_unwritten) = (false, Unwritten::Error);
    });
    let (kernel, drive) = fresh(&strict);
    let all = zones(&drive);
    run(&kernel, async move |_| {
        write(&all, 0, 0, vec![1, 2, 3]).await.expect("it is empty");
        assert_eq!(tags(&all, extent(&all, 0, 0, 3)).await, Ok(vec![1, 2, 3]));
        assert_eq!(
            tags(&all, extent(&all, 0, 0, 4)).await,
            Err(ZoneStatus::Unwritten)
        );
        let across = tags(&all, extent(&all, 0, 63, 2)).await;
        assert_eq!(across, Err(ZoneStatus::ZoneBoundary));
    });
}

#[test]
fn append_beyond_the_limit_is_rejected() {
    let config = change(&tiny_zns(true), |zones| zones.append_limit = Bytes(8192));
    let (kernel, drive) = fresh(&config);
    let all = zones(&drive);
    run(&kernel, async move |_| {
        let append = async |sectors| {
            all.append(0, sectors, Content::Fill(1), Origin(0), false)
                .await
        };
        assert_eq!(append(24).await, Err(ZoneStatus::InvalidField));
        assert_eq!(append(16).await.map(|at| at.0), Ok(0));
        assert_eq!(append(8).await.map(|at| at.0), Ok(16));
    });
}

/// Concurrent appends get distinct addresses.
#[test]
fn concurrent_appends_get_distinct_addresses() {
    let (kernel, drive) = fresh(&tiny_zns(false));
    let all = zones(&drive);
    run(&kernel, async move |sim| {
        let appends: Vec<_> = (0..20)
            .map(|number| {
                let all = all.clone();
                sim.spawn(async move {
                    let content = Content::Fill(number + 1);
                    let at = all.append(2, 16, content, Origin(0), number % 5 == 0).await;
                    (number + 1, at.expect("there is room"))
                })
            })
            .collect();
        let mut seen = Vec::new();
        for append in appends {
            let (tag, at) = append.await;
            seen.push(at);
            let read = tags(
                &all,
                Extent {
                    start: at,
                    sectors: 16,
                },
            )
            .await;
            assert_eq!(read, Ok(vec![tag; 2]));
        }
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 20);
        let wp = all
            .info(2)
            .and_then(|info| info.write_pointer.map(|wp| wp.0 - info.start.0));
        assert_eq!(wp, Some(40 * PER));
    });
}

/// Conventional zones are writable at any address, and keep their data over a power cut.
#[test]
fn conventional_zones_are_writable_anywhere_and_survive_cuts() {
    let mut config = change(&tiny_zns(true), |zones| zones.conventional = 2);
    config.capacity = Bytes((2 * 64 + 10 * 62) * 4096);
    config.geometry.blocks_per_plane = 60;
    let (kernel, drive) = fresh(&config);
    let all = zones(&drive);
    assert_eq!((all.limits().zones, all.limits().conventional), (12, 2));
    let held = drive.clone();
    run(&kernel, async move |_| {
        for turn in 0..60_u64 {
            for at in [5, 70, 3, 127] {
                let target = Extent::new(at * PER, PER as u32);
                let content = Content::Fill(turn << 8 | at);
                all.write(target, content, Origin(0), false)
                    .await
                    .expect("anywhere");
            }
        }
        write(&all, 2, 0, vec![7, 8])
            .await
            .expect("the first one in order");
        let past = all
            .write(
                Extent::new(127 * PER, 16),
                Content::Fill(1),
                Origin(0),
                false,
            )
            .await;
        assert_eq!(past, Err(ZoneStatus::ZoneBoundary));
        let reset = all.manage(1, ZoneAction::Reset).await;
        assert_eq!(reset, Err(ZoneStatus::InvalidField));
        let append = all.append(0, 8, Content::Fill(1), Origin(0), false).await;
        assert_eq!(append, Err(ZoneStatus::InvalidField));
    });
    let (kernel, drive) = super::powered(&config, held.at_power_cut());
    let all = zones(&drive);
    run(&kernel, async move |_| {
        for at in [5, 70, 3, 127] {
            let read = tags(&all, Extent::new(at * PER, PER as u32)).await;
            assert_eq!(read, Ok(vec![59 << 8 | at]));
        }
        assert_eq!(tags(&all, extent(&all, 2, 0, 3)).await, Ok(vec![7, 8, 0]));
    });
}

/// A full drive has full zones only; a zoned drive cannot start aged.
#[test]
fn zoned_drive_starts_full_but_not_aged() {
    let config = tiny_zns(true);
    let media = ssd::Precondition::Full.media(&config, sim::Seed(1));
    let (kernel, drive) = super::powered(&config, media.expect("there are blocks for all"));
    let all = zones(&drive);
    assert_eq!(all.in_use().full, 10);
    run(&kernel, async move |_| {
        assert_eq!(
            write(&all, 4, 0, vec![1]).await,
            Err(ZoneStatus::ZoneIsFull)
        );
        all.read(extent(&all, 4, 0, 62), &mut ())
            .await
            .expect("it is there");
        all.manage(4, ZoneAction::Reset).await.expect("it is full");
        write(&all, 4, 0, vec![1]).await.expect("it is empty now");
    });
    let aged = ssd::Precondition::Aged.media(&config, sim::Seed(1));
    let refused = aged.expect_err("it has no garbage to collect").to_string();
    assert!(
        refused.contains("fresh or full on a zoned drive"),
        "{refused}"
    );
}
