//! Drives whose flash fails: runs end, and what the medium lost hides no broken promise.

use crate::{plan, refused};
use crash::{Exploration, Points};
use ssd::Precondition;
use stack::crash::{Cuts, explore};
use stack::{Plan, StackError, knobs};
use units::{Bytes, KIB};

fn knobs(plan: &mut Plan, sets: &[&str]) {
    let sets: Vec<String> = sets.iter().map(|&set| set.to_owned()).collect();
    plan.drive = knobs::drive(plan.drive.clone(), &sets).expect("the knobs exist");
}

/// Cuts of a plan whose drive has the knobs `sets`.
fn cut(mut plan: Plan, seed: u64, sets: &[&str], lies: bool) -> Exploration {
    plan.seed = seed;
    plan.drive.controller.power_loss_protection = plan.drive.front.is_some();
    knobs(&mut plan, sets);
    let cuts = Cuts {
        plan,
        points: Points::Some(20),
        outside: 0,
        memory: Bytes(256 * KIB),
        lies,
        reorders: false,
        skips_fences: false,
        snapshot: false,
        rest: None,
    };
    explore(&cuts, &mut |_| ()).expect("the plan can be run")
}

/// The drive lies about flushes, so promises are broken. When one failed read of a cut excused all
/// findings of that cut, none of them was reported on this medium.
#[test]
fn lost_reads_do_not_excuse_a_lying_drive() {
    let plan = plan(
        "ext4@block",
        64,
        Precondition::Fresh,
        "varmail:files=20,threads=2,ops=60",
    );
    let found = cut(plan.clone(), 1, &["faults.read_retries=20000"], true);
    assert!(found.lost > 0 && found.corrupt > 0, "{found:#?}");
    assert!(found.media > 0, "{found:#?}");
    let honest = cut(plan, 1, &["faults.read_retries=20000"], false);
    assert!(honest.holds(), "{:#?}", honest.failures.first());
    assert!(honest.media > 0, "{honest:#?}");
}

/// HyFiM's recovery changes parts of nodes that the medium cannot return, and says how many. The
/// judge took these nodes for corrupted ones.
#[test]
fn lost_nodes_of_a_redone_record_count_for_the_medium() {
    let text = "anything:ops=50,threads=2,size=256k,files=6";
    let plan = plan("hyfim@ocssd", 128, Precondition::Fresh, text);
    let found = cut(plan, 957_213, &["faults.read_retries=5000"], false);
    assert!(found.media > 0, "{found:#?}");
    assert!(found.holds(), "{:#?}", found.failures.first());
}

/// Every program fails, so the drive turns read-only. The undo journal of PMFS cannot be replayed
/// then, and the check finds it full: both are the medium's.
#[test]
fn recovery_on_a_read_only_drive_counts_for_the_medium() {
    let plan = plan(
        "pmfs@byte",
        128,
        Precondition::Full,
        "tpcc:warehouses=1,ops=30",
    );
    let sets = [
        "controller.write_buffer=1048576",
        "faults.program_failures=1000000",
        "geometry.pages_per_program=1",
        "front.log.bytes=262144",
    ];
    let found = cut(plan, 644_060, &sets, false);
    assert!(found.holds(), "{:#?}", found.failures.first());
    assert!(found.media > 0, "{found:#?}");
    assert!(
        found.met.contains_key("a drive that has become read-only"),
        "{found:#?}"
    );
}

/// Lost units of a raw drive are told one by one. Before, the first one ended the judgement.
#[test]
fn lost_units_of_a_raw_drive_count_for_the_medium() {
    let plan = plan(
        "raw@block",
        32,
        Precondition::Full,
        "randwrite:ops=800,flush=20",
    );
    let found = cut(plan.clone(), 1, &["faults.read_retries=1000"], false);
    assert!(found.holds(), "{:#?}", found.failures.first());
    assert!(found.media > 0, "{found:#?}");
    let lying = cut(plan, 1, &["faults.read_retries=1000"], true);
    assert!(lying.lost > 0, "{lying:#?}");
}

/// Recovery of a mapping in the host's DRAM reads the metadata of every block. A block that cannot be
/// read leaves the version before, which counted as lost by the mapping.
#[test]
fn unread_metadata_of_a_mapping_count_for_the_medium() {
    let plan = plan(
        "raw@ocssd",
        128,
        Precondition::Fresh,
        "randwrite:ops=300,bs=64k,flush=4",
    );
    let found = cut(plan.clone(), 1, &["faults.read_retries=5000"], false);
    assert!(found.holds(), "{:#?}", found.failures.first());
    assert!(found.media > 0, "{found:#?}");
    let lying = cut(plan, 1, &["faults.read_retries=5000"], true);
    assert!(lying.lost > 0, "{lying:#?}");
}

/// A write of a part of a mapped page reads the rest of it. A failed read of that kind fails one
/// request, and excuses no unit.
#[test]
fn failed_read_of_a_partial_write_excuses_no_lie() {
    let plan = plan(
        "raw@block",
        64,
        Precondition::Full,
        "randwrite:ops=800,flush=20",
    );
    let sets = ["faults.read_retries=20000", "mapping.unit=16384"];
    let lying = cut(plan, 1, &sets, true);
    // Without excuses 23 cuts show a loss; 5 did when a failed write excused all later ones.
    assert!(lying.lost > 20, "{lying:#?}");
}

/// Each failed erase finds again that the drive is read-only. The fifth of them overflowed the
/// count of free buffer pages, and the program aborted.
#[test]
fn drive_whose_erases_fail_turns_read_only_once() {
    let plan = plan(
        "raw@fdp",
        32,
        Precondition::Aged,
        "zipfwrite:ops=2000,flush=7",
    );
    let sets = [
        "faults.erase_failures=1000000",
        "wear.spare_blocks=0",
        "mapping.cache=64KiB",
    ];
    let found = cut(plan, 650_143, &sets, false);
    assert!(found.holds(), "{:#?}", found.failures.first());
}

/// Every second erase fails, until no line can become free. The run was aborted; now the write
/// fails.
#[test]
fn drive_without_room_to_collect_fails_the_write() {
    let mut plan = plan(
        "raw+remap@block",
        32,
        Precondition::Aged,
        "randwrite:ops=8000,flush=20",
    );
    knobs(&mut plan, &["faults.erase_failures=500000"]);
    let error = refused(&plan);
    assert!(!matches!(error, StackError::Stuck { .. }), "{error}");
    let told = error.to_string();
    assert!(told.contains("has become read-only"), "{told}");
}

/// While a program of a zone's backup fails, more data come than one program takes. The retry took
/// all of them, and the program aborted.
#[test]
fn failed_backup_of_a_zone_is_retried_with_one_program() {
    let mut plan = plan(
        "f2fs@zns",
        512,
        Precondition::Fresh,
        "varmail:files=30,ops=400",
    );
    plan.seed = 363_620;
    let sets = [
        "faults.program_failures=30000",
        "faults.factory_bad_blocks=2000",
        "geometry.pages_per_program=1",
        "faults.wear_out=true",
        "controller.power_loss_protection=false",
    ];
    knobs(&mut plan, &sets);
    if let Err(error) = stack::run(&plan, &mut |_| ()) {
        assert!(!matches!(error, StackError::Stuck { .. }), "{error}");
    }
}
