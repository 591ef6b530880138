//! The firmware of zones: its costs at rest, its limits, and what its finish and reset do to the
//! flash.

use super::cuts::{MIX, every_event};
use super::model::Mix;
use super::{change, extent, fresh, narrow, run, tiny_zns, write, zones};
use sim::Sim;
use ssd::{Cause, Content, DriveConfig, Limits, ZoneAction, ZoneFirmware, ZoneState, Zones};
use std::rc::Rc;
use units::{Ns, Origin};

/// Every mechanism, each with a time of its own.
const ALL: ZoneFirmware = ZoneFirmware {
    open: Ns(11_000),
    close: Ns(13_000),
    first_write: Ns(1_700),
    commit: Ns(190_000),
    unmap_per_unit: Ns(2_300),
    padding: true,
    append: Ns(31_000),
};

/// Limits of the whole drive beside them.
const LIMITS: Limits = Limits {
    read: Ns(17_000),
    write: Ns(29_000),
    program_bytes_per_s: 100_000_000,
};

/// `config` with firmware, which has limits unless it is off.
fn with(config: &DriveConfig, firmware: ZoneFirmware) -> DriveConfig {
    let mut config = change(config, |zones| zones.firmware = firmware);
    if firmware != ZoneFirmware::default() {
        config.controller.limits = LIMITS;
    }
    config
}

/// Time that `zone` takes for `action`.
async fn timed(sim: &Sim, zones: &Zones, zone: u32, action: ZoneAction) -> Ns {
    let begin = sim.now();
    let done = zones.manage(zone, action).await;
    done.expect("the zone can take the action");
    sim.now().since(begin)
}

/// Time of a write, or of an append, of one sector to `zone` at `at`.
async fn written(sim: &Sim, zones: &Zones, (zone, at): (u32, u64), appends: bool) -> Ns {
    let (begin, content) = (sim.now(), Content::Fill(7));
    let part = extent(zones, zone, at, 1);
    if appends {
        let appended = zones.append(zone, part.sectors, content, Origin(0), false);
        appended.await.expect("the zone has room");
    } else {
        let written = zones.write(part, content, Origin(0), false);
        written.await.expect("the zone has room");
    }
    sim.now().since(begin)
}

#[test]
fn firmware_off_leaves_no_table_in_a_drive_file() {
    let text = |firmware| {
        let config = with(&tiny_zns(true), firmware);
        serde_json::to_string(&config).expect("a configuration is a document")
    };
    assert!(!text(ZoneFirmware::default()).contains("firmware"));
    assert!(text(ALL).contains("\"commit\""));
}

#[test]
fn firmware_time_out_of_range_is_rejected() {
    let refused = |firmware| {
        let config = with(&tiny_zns(true), firmware);
        let layout = ssd::Layout::new(&config);
        layout.map_or_else(|e| e.to_string(), |_| String::new())
    };
    let long = refused(ZoneFirmware {
        commit: Ns::secs(2),
        ..ALL
    });
    assert!(long.contains("zones.firmware.commit"), "{long}");
}

/// Open, close and writes take the times of the firmware beside those of a command.
#[test]
fn command_at_rest_takes_the_sum_of_its_firmware_times() {
    let config = with(&tiny_zns(true), ALL);
    let (kernel, drive) = fresh(&config);
    let all = zones(&drive);
    let (command, dram) = (config.controller.command, config.controller.dram_per_unit);
    assert!(command < LIMITS.write, "the processor takes longer");
    run(&kernel, async move |sim| {
        let quiet = || sim.sleep(Ns::ms(1));
        let open = timed(&sim, &all, 0, ZoneAction::Open).await;
        assert_eq!(open, command + ALL.open);
        let first = written(&sim, &all, (0, 0), false).await;
        assert_eq!(first, ALL.first_write + LIMITS.write + dram);
        quiet().await;
        let append = written(&sim, &all, (0, 1), true).await;
        assert_eq!(append, ALL.append + dram);
        let close = timed(&sim, &all, 0, ZoneAction::Close).await;
        assert_eq!(close, command + ALL.close);
        quiet().await;
        let again = written(&sim, &all, (0, 2), false).await;
        assert_eq!(again, LIMITS.write + dram);
    });
}

/// A finish ends the unit at the write pointer, programs every unit after it, and commits.
#[test]
fn finish_programs_the_rest_of_the_zone_at_the_rate_of_programs() {
    let config = with(&tiny_zns(true), ALL);
    let timing = config.timing().expect("a good part");
    let (kernel, drive) = fresh(&config);
    let all = zones(&drive);
    let unit = 4 * 4096;
    let bus = Ns::transfer(unit, timing.bus_bytes_per_s) + timing.command;
    let program = bus + timing.program;
    let drain = Ns::transfer(unit, LIMITS.program_bytes_per_s);
    assert!(program.0 < 2 * drain.0, "two dies keep up with the drain");
    let command = config.controller.command;
    run(&kernel, async move |sim| {
        write(&all, 0, 0, vec![1; 6]).await.expect("it is empty");
        sim.sleep(Ns::ms(1)).await;
        let took = timed(&sim, &all, 0, ZoneAction::Finish).await;
        // One of 16 units was written. The mark of the end follows in the next unit, and padding in
        // 14 others once the mark is on flash.
        let mut padding = Ns(13 * drain.0 + program.0);
        if drain > program {
            // There is no power for the next program yet as the mark is on flash.
            padding += Ns(drain.0 - program.0);
        }
        assert_eq!(took, command + program + padding + ALL.commit);
        let ledger = drive.ledger();
        assert_eq!(ledger.by_cause(Cause::Host), 6);
        assert_eq!(ledger.by_cause(Cause::Padding), 16 * 4 - 6);
        assert_eq!(drive.flash_counters().program_pages, 16 * 2);
        assert_eq!(all.info(0).expect("a zone").state, ZoneState::Full);
        // All of it is worn by the reset, though the host's data alone take time.
        let reset = timed(&sim, &all, 0, ZoneAction::Reset).await;
        let unmap = Ns(6 * ALL.unmap_per_unit.0);
        assert_eq!(reset, command + ALL.commit + unmap);
        assert_eq!(all.info(0).expect("a zone").state, ZoneState::Empty);
        sim.sleep(Ns::ms(10)).await;
        assert_eq!(drive.flash_counters().erase_blocks, 4);
    });
}

/// Nothing is on flash of a zone that is finished empty, and nothing but programmed blocks is
/// erased.
#[test]
fn finish_and_reset_of_an_empty_zone_take_no_flash() {
    let config = with(&tiny_zns(true), ALL);
    let command = config.controller.command;
    let (kernel, drive) = fresh(&config);
    let all = zones(&drive);
    run(&kernel, async move |sim| {
        let reset = timed(&sim, &all, 0, ZoneAction::Reset).await;
        assert_eq!(reset, command + ALL.commit);
        let finish = timed(&sim, &all, 0, ZoneAction::Finish).await;
        assert_eq!(finish, command);
        assert_eq!(all.info(0).expect("a zone").state, ZoneState::Full);
        let reset = timed(&sim, &all, 0, ZoneAction::Reset).await;
        assert_eq!(reset, command + ALL.commit);
        // One unit in the buffer and on one die, its end not recorded yet.
        write(&all, 0, 0, vec![1; 4]).await.expect("it is empty");
        sim.sleep(Ns::ms(1)).await;
        let reset = timed(&sim, &all, 0, ZoneAction::Reset).await;
        let unmap = Ns(4 * ALL.unmap_per_unit.0);
        assert_eq!(reset, command + Ns(2 * ALL.commit.0) + unmap);
        sim.sleep(Ns::ms(10)).await;
        let counters = drive.flash_counters();
        assert_eq!((counters.program_pages, counters.erase_blocks), (2, 2));
    });
}

/// Ends of `count` single-sector writes or appends that begin together, each in its own zone if
/// `apart`.
fn ends(config: &DriveConfig, count: u32, apart: bool, appends: bool) -> Vec<Ns> {
    let (kernel, drive) = fresh(config);
    let all = Rc::new(zones(&drive));
    run(&kernel, async move |sim| {
        let begun: Vec<_> = (0..count)
            .map(|number| {
                let (all, own) = (Rc::clone(&all), sim.clone());
                let place = if apart {
                    (number, 0)
                } else {
                    (0, u64::from(number))
                };
                sim.spawn(async move {
                    written(&own, &all, place, appends).await;
                    own.now()
                })
            })
            .collect();
        let mut ends = Vec::new();
        for one in begun {
            ends.push(one.await);
        }
        ends
    })
}

/// Appends and writes queue for the one processor, whatever their zones.
#[test]
fn processor_serves_one_command_of_its_kind_at_a_time() {
    let off = ZoneFirmware::default();
    let rates = ZoneFirmware {
        append: ALL.append,
        ..off
    };
    let config = with(&tiny_zns(true), rates);
    let dram = config.controller.dram_per_unit;
    for (apart, appends, span) in [(true, false, LIMITS.write), (false, true, ALL.append)] {
        let want: Vec<Ns> = (1..=3).map(|turn| Ns(turn * span.0) + dram).collect();
        assert_eq!(ends(&config, 3, apart, appends), want);
    }
    let free = ends(&with(&tiny_zns(true), off), 3, true, false);
    let rest = config.controller.command + dram;
    assert_eq!(free, [rest; 3], "without a rate there is no queue");
}

/// Time to write `count` zones of one die each beside each other, with programs at `rate`, and
/// their programs.
fn filled(rate: u64, count: u32) -> (Ns, u64) {
    let mut config = narrow(true);
    config.controller.limits.program_bytes_per_s = rate;
    let (kernel, drive) = fresh(&config);
    let all = Rc::new(zones(&drive));
    run(&kernel, async move |sim| {
        let fills: Vec<_> = (0..count)
            .map(|zone| {
                let all = Rc::clone(&all);
                sim.spawn(async move { write(&all, zone, 0, vec![1; 32]).await })
            })
            .collect();
        for fill in fills {
            fill.await.expect("the zone is empty");
        }
        let pages = u64::from(count) * 16;
        while drive.flash_counters().program_pages < pages {
            sim.sleep(Ns::us(1)).await;
        }
        (sim.now(), pages / 2)
    })
}

#[test]
fn zones_written_together_share_the_rate_of_programs() {
    let rate = 20_000_000;
    let span = Ns::transfer(4 * 4096, rate);
    for count in [1, 2, 3] {
        let (time, programs) = filled(rate, count);
        let least = span.0 * (programs - 1);
        assert!(
            (least..least + Ns::ms(1).0).contains(&time.0),
            "{count} zones: {time}, {}",
            Ns(least)
        );
    }
    let (one, two) = (filled(0, 1).0, filled(0, 2).0);
    assert!(two.0 < 2 * one.0, "without it two dies work at once");
}

/// Zones that a cut may tear anywhere in finish and reset keep their promises.
#[test]
fn zone_cut_at_every_event_with_firmware_keeps_promises() {
    let brief = Mix { ops: 24, ..MIX };
    for protected in [true, false] {
        let drive = every_event(&with(&tiny_zns(protected), ALL), MIX, 21);
        let ledger = drive.ledger();
        let both = ledger.zones.resets > 2 && ledger.zones.finishes > 1;
        assert!(both && ledger.by_cause(Cause::Padding) > 40, "{ledger:?}");
        every_event(&with(&narrow(protected), ALL), brief, 22);
    }
}

#[test]
fn equal_seeds_with_firmware_give_equal_runs() {
    let run = || {
        let mut cuts = 0;
        let drive = super::cuts::run(&with(&tiny_zns(true), ALL), MIX, 23, |_, _, _| cuts += 1);
        (
            cuts,
            format!("{:?} {:?}", drive.ledger(), drive.flash_counters()),
        )
    };
    assert_eq!(run(), run());
}

/// A failed program of padding makes the zone read-only and ends its finish.
#[test]
fn failed_padding_fails_the_finish_and_keeps_the_data() {
    let mut config = with(&tiny_zns(true), ALL);
    config.faults.program_failures = 200_000;
    let (mut failed, mut done) = (0, 0);
    for seed in 1..12 {
        let kernel = sim::Kernel::new();
        let media = ssd::DriveMedia::new(&config, sim::Seed(seed)).expect("a good one");
        let drive = ssd::Drive::ready(&kernel.sim(), &config, media, sim::Seed(seed));
        let drive = drive.expect("a good one");
        let all = zones(&drive);
        let (finished, data) = run(&kernel, async move |_| {
            write(&all, 0, 0, vec![9; 2]).await.expect("it is empty");
            let finished = all.manage(0, ZoneAction::Finish).await;
            let data = super::tags(&all, extent(&all, 0, 0, 2)).await;
            (finished.is_ok(), data)
        });
        drive.check();
        assert_eq!(data, Ok(vec![9; 2]), "seed {seed}");
        *(if finished { &mut done } else { &mut failed }) += 1;
    }
    assert!(failed > 2, "{failed} failed, {done} did not");
}
