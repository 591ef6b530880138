//! Zones on flash that fails.

use super::{extent, fresh, powered, run, tags, tiny_zns, write, zones};
use ssd::{Content, DriveConfig, ZoneAction, ZoneState, ZoneStatus};
use units::Origin;

fn failing(protected: bool) -> DriveConfig {
    let mut config = tiny_zns(protected);
    config.faults.program_failures = 60_000;
    config
}

/// Writes until a program fails. Returns its zone and the number of acknowledged sectors.
async fn until_failure(all: &ssd::Zones, sim: &sim::Sim) -> (u32, u64) {
    for zone in 0..10 {
        for at in 0..62 {
            let wrote = write(all, zone, at, vec![at + 1]).await;
            sim.sleep(units::Ns::ms(1)).await;
            let failed = all.info(zone).map(|info| info.state) == Some(ZoneState::ReadOnly);
            if failed {
                return (zone, at + u64::from(wrote.is_ok()));
            }
            wrote.expect("nothing has failed yet");
        }
    }
    panic!("one in seventeen programs fails");
}

/// The zone becomes read-only, stays readable, and reports that state after a power cut.
/// Acknowledged data are preserved by capacitors; without them they are lost, which the flush
/// reports.
#[test]
fn failed_program_makes_its_zone_read_only() {
    for protected in [true, false] {
        let config = failing(protected);
        let (kernel, drive) = fresh(&config);
        let (all, held) = (zones(&drive), drive.clone());
        let (zone, acknowledged) = run(&kernel, async move |sim| {
            let (zone, count) = until_failure(&all, &sim).await;
            let read = tags(&all, extent(&all, zone, 0, count)).await;
            assert_eq!(read, Ok((1..=count).collect()), "the buffer has the rest");
            let again = write(&all, zone, count, vec![1]).await;
            assert_eq!(again, Err(ZoneStatus::ZoneIsReadOnly));
            for action in [ZoneAction::Reset, ZoneAction::Finish, ZoneAction::Open] {
                let refused = all.manage(zone, action).await;
                assert_eq!(refused, Err(ZoneStatus::InvalidTransition), "{action:?}");
            }
            let flush = all.flush().await;
            let want = if protected {
                Ok(())
            } else {
                Err(ZoneStatus::WriteFault)
            };
            assert_eq!(
                flush, want,
                "what it promised before it cannot keep without capacitors"
            );
            (zone, count)
        });
        held.check();
        assert!(held.wear().1 >= 2, "blocks are out of service");
        let mut config = config;
        config.faults.program_failures = 0;
        let (kernel, drive) = powered(&config, held.at_power_cut());
        let all = zones(&drive);
        run(&kernel, async move |_| {
            assert_eq!(all.info(zone).map(|i| i.state), Some(ZoneState::ReadOnly));
            assert_eq!(all.in_use().read_only, [zone]);
            let read = tags(&all, extent(&all, zone, 0, acknowledged))
                .await
                .expect("it reads");
            let kept = read.iter().take_while(|&&tag| tag != 0).count() as u64;
            assert_eq!(read[..kept as usize], (1..=kept).collect::<Vec<_>>());
            assert_eq!(kept == acknowledged, protected, "{kept} of {acknowledged}");
            all.manage(zone, ZoneAction::Offline)
                .await
                .expect("the host gives it up");
            let read = tags(&all, extent(&all, zone, 0, 1)).await;
            assert_eq!(read, Err(ZoneStatus::ZoneIsOffline));
            let write = write(&all, zone, 0, vec![1]).await;
            assert_eq!(write, Err(ZoneStatus::ZoneIsOffline));
        });
        let (_, drive) = powered(&config, drive.at_power_cut());
        assert_eq!(zones(&drive).in_use().offline, [zone]);
    }
}

/// Failed erases use up spare blocks first, and then zones; the remaining zones work.
#[test]
fn failed_erases_take_zones_offline_after_spares_run_out() {
    let mut config = tiny_zns(true);
    config.faults.erase_failures = 150_000;
    let (kernel, drive) = fresh(&config);
    let (all, held) = (zones(&drive), drive.clone());
    run(&kernel, async move |_| {
        for turn in 0..400_u32 {
            let zone = turn % 10;
            let lost = all.in_use().offline.contains(&zone);
            let wrote = write(&all, zone, 0, (1..63).collect()).await;
            if lost {
                assert_eq!(wrote, Err(ZoneStatus::ZoneIsOffline));
                continue;
            }
            wrote.expect("an empty zone has blocks");
            all.manage(zone, ZoneAction::Reset)
                .await
                .expect("a written zone can be reset");
            if all.in_use().offline.len() >= 4 {
                break;
            }
        }
        assert!(all.in_use().offline.len() >= 4, "{:?}", all.in_use());
        let last = (0..10).find(|zone| !all.in_use().offline.contains(zone));
        write(&all, last.expect("some are left"), 0, vec![1])
            .await
            .expect("it works");
    });
    held.check();
    let lost = zones(&held).in_use().offline;
    assert_eq!(held.ledger().zones.lost, lost.len() as u64);
    let (_, drive) = powered(&config, held.at_power_cut());
    assert_eq!(zones(&drive).in_use().offline, lost, "the same ones");
}

/// All operations fail now and then, also while a drive without protection keeps backups: no
/// command panics, and the firmware's memory stays consistent.
#[test]
fn zone_commands_do_not_panic_while_flash_fails() {
    for (protected, seed) in [(true, 1), (false, 2), (false, 3)] {
        let mut config = tiny_zns(protected);
        config.faults.program_failures = 4_000;
        config.faults.erase_failures = 4_000;
        config.faults.read_retries = 100_000;
        config.faults.read_passes = 1;
        let media = ssd::DriveMedia::new(&config, sim::Seed(seed)).expect("a good configuration");
        let (mut kernel, mut drive) = powered(&config, media);
        for turn in 0..8 {
            let (all, held) = (zones(&drive), drive.clone());
            run(&kernel, async move |_| {
                let mut rng = sim::Seed(seed << 8 | turn).stream("work");
                for _ in 0..200 {
                    let zone = rng.below(10) as u32;
                    let wp = all
                        .info(zone)
                        .and_then(|i| i.write_pointer.map(|wp| wp.0 - i.start.0));
                    let at = wp.unwrap_or(0) / super::PER;
                    let target = extent(&all, zone, at.min(60), 1 + rng.below(3));
                    let fua = rng.chance(1, 3);
                    let wrote = all.write(target, Content::Fill(1), Origin(0), fua).await;
                    if wrote.is_err() {
                        let action = [ZoneAction::Reset, ZoneAction::Finish, ZoneAction::Close];
                        let action = action[rng.below(3) as usize];
                        // Any status is acceptable.
                        let _ = all.manage(zone, action).await;
                    }
                    let _ = tags(&all, extent(&all, zone, 0, 4)).await;
                    held.check();
                }
            });
            (kernel, drive) = powered(&config, drive.at_power_cut());
        }
    }
}
