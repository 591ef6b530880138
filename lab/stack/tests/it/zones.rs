//! Block workloads on zones.

use crate::{done, plan};
use ssd::Precondition;

/// Sequential writes fill zone after zone after resetting each: only the written data is
/// programmed.
#[test]
fn sequential_writes_go_through_zones() {
    let run = done(&plan(
        "raw@zns",
        64,
        Precondition::Full,
        "seqwrite:ops=1000",
    ));
    assert!(run.errors.is_empty(), "{:?}", run.errors);
    assert_eq!(run.ops, 1000);
    assert!(run.nand.erase_blocks > 0, "full zones are reset first");
    let host = run.nand.by_cause.get("host").copied().unwrap_or(0);
    assert!(host > 0 && host <= run.host.write_bytes, "{host}");
    let rest = run.host.write_bytes - host;
    assert!(
        rest < 14 << 20,
        "what is not on flash waits in buffers: {rest}"
    );
    let programmed: u64 = run.nand.by_cause.values().sum();
    assert_eq!(programmed, run.nand.program_pages * run.nand.page_bytes);
    assert_eq!(run.nand.by_cause.get("gc").copied().unwrap_or(0), 0);
}

/// Random writes are rejected, and counted by the status of the drive.
#[test]
fn random_writes_are_refused() {
    let run = done(&plan(
        "raw@zns",
        64,
        Precondition::Full,
        "randwrite:ops=500",
    ));
    let refused: u64 = run.errors.values().sum();
    assert_eq!(refused + run.ops, 500);
    let known = ["zone full", "not at the write pointer"];
    assert!(
        run.errors
            .keys()
            .all(|reason| known.contains(&reason.as_str())),
        "{:?}",
        run.errors
    );
    assert!(refused > 400, "{:?}", run.errors);
}

#[test]
fn reads_reach_full_zones() {
    let run = done(&plan("raw@zns", 64, Precondition::Full, "randread:ops=500"));
    assert!(run.errors.is_empty(), "{:?}", run.errors);
    assert!(run.nand.read_pages >= 500);
}

/// The table of the firmware is left out of drives that have none, and can still be set.
#[test]
fn setting_left_out_of_the_table_of_a_drive_can_be_set() {
    let zns = stack::drive::resolve("zns", None).expect("a preset");
    let set = |knob: &str| stack::knobs::drive(zns.clone(), &[knob.to_owned()]);
    let padded = set("zones.firmware.padding=true").expect("a setting");
    let zones = padded.zones.expect("a zoned drive");
    assert!(zones.firmware.padding && zones.firmware.append.0 == 0);
    for knob in ["zones.firmware.paddin=true", "zones.buffer.part=1"] {
        let refused = set(knob).expect_err("no such setting").to_string();
        assert!(refused.contains("flashloom drives block"), "{refused}");
    }
}
