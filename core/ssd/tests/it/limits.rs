//! Limits of the whole drive: turns at the firmware's processors, and the rate of programs.

use crate::support::tiny;
use crate::zones::{fresh, run};
use ssd::{Content, Drive, DriveConfig, Limits};
use units::{Extent, Ns, Origin, Placement};

const READ: Ns = Ns(17_000);
const WRITE: Ns = Ns(29_000);

fn with(limits: Limits) -> DriveConfig {
    let mut config = tiny(true);
    config.controller.limits = limits;
    config
}

async fn write(drive: &Drive, page: u64, tag: u64) {
    let extent = Extent::new(page * 8, 8);
    let written = drive.write(extent, Content::Fill(tag), Placement(0), Origin(0), false);
    written.await.expect("the drive has room");
}

/// Ends of commands of one page that arrive together, in order: writes where `kinds` says so, else
/// reads of pages that were never written.
fn ends(config: &DriveConfig, kinds: &[bool]) -> Vec<Ns> {
    let (kernel, drive) = fresh(config);
    let kinds = kinds.to_vec();
    run(&kernel, async move |sim| {
        let begun: Vec<_> = kinds
            .into_iter()
            .enumerate()
            .map(|(page, writes)| {
                let (drive, own) = (drive.clone(), sim.clone());
                let extent = Extent::new(page as u64 * 8, 8);
                sim.spawn(async move {
                    if writes {
                        write(&drive, page as u64, 1).await;
                    } else {
                        drive.read(extent, &mut ()).await.expect("it is in range");
                    }
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

#[test]
fn processors_serve_commands_in_order_of_arrival_by_their_kind() {
    let limits = Limits {
        read: READ,
        write: WRITE,
        ..Limits::default()
    };
    let config = with(limits);
    let dram = config.controller.dram_per_unit;
    let want = [READ, READ + WRITE, READ + WRITE + READ].map(|passed| passed + dram);
    assert_eq!(ends(&config, &[false, true, false]), want);
    let rest = config.controller.command + dram;
    assert_eq!(
        ends(&with(Limits::default()), &[false, true, false]),
        [rest; 3]
    );
}

#[test]
fn command_at_rest_takes_the_longer_of_its_times() {
    let brief = Limits {
        read: Ns(1),
        ..Limits::default()
    };
    let config = with(brief);
    let rest = config.controller.command + config.controller.dram_per_unit;
    assert_eq!(ends(&config, &[false]), [rest]);
    assert_eq!(ends(&config, &[false, false]), [rest, rest + Ns(1)]);
}

/// Time to overwrite a drive of 600 pages at random, and its programs of four pages each.
fn overwritten(rate: u64) -> (Ns, u64) {
    let config = with(Limits {
        program_bytes_per_s: rate,
        ..Limits::default()
    });
    let (kernel, drive) = fresh(&config);
    run(&kernel, async move |sim| {
        for number in 0..6_000_u64 {
            write(&drive, number * 7_919 % 600, number).await;
        }
        drive.flush().await.expect("no block fails");
        let programs = drive.flash_counters().program_pages / 2;
        (sim.now(), programs)
    })
}

#[test]
fn programs_of_host_and_collection_share_one_rate() {
    let rate = 20_000_000;
    let (time, programs) = overwritten(rate);
    let span = Ns::transfer(4 * 4096, rate);
    let least = span.0 * (programs - 1);
    assert!(time.0 >= least, "{programs} programs in {time}");
    // A turn that comes when nothing is left to write is lost.
    assert!(time.0 < least + least / 10, "{programs} programs in {time}");
    assert!(overwritten(0).0.0 * 3 < time.0, "the flash is much faster");
}

#[test]
fn limits_out_of_range_are_rejected_and_absent_limits_leave_no_table() {
    let refused = |limits| {
        let layout = ssd::Layout::new(&with(limits));
        layout.map_or_else(|error| error.to_string(), |_| String::new())
    };
    let slow = refused(Limits {
        program_bytes_per_s: 999_999,
        ..Limits::default()
    });
    let want =
        "controller.limits.program_bytes_per_s: 999999 given, 0 or at least 1000000 expected";
    assert_eq!(slow, want);
    let long = refused(Limits {
        read: Ns::secs(2),
        ..Limits::default()
    });
    assert!(long.contains("controller.limits.read"), "{long}");
    let text = serde_json::to_string(&with(Limits::default())).expect("a document");
    assert!(!text.contains("limits"), "{text}");
}
