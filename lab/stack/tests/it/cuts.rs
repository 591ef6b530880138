//! Calls of every kind, whose power is cut: on each way of journaling, with a
//! small cache, on a disk with little room, and on a drive that lies.

use crate::plan;
use crash::{Exploration, Points};
use ssd::Precondition;
use stack::crash::{Cuts, explore};
use units::{Bytes, KIB, MIB};

fn cuts(stack: &str, workload: &str, memory: Bytes, lies: bool) -> Exploration {
    let mut plan = plan(stack, 64, Precondition::Fresh, workload);
    plan.drive.controller.power_loss_protection = false;
    let cuts = Cuts {
        plan,
        points: Points::Some(20),
        outside: 0,
        memory,
        lies,
    };
    explore(&cuts, &mut |_| ()).unwrap()
}

fn hold(stack: &str, workload: &str, memory: Bytes) {
    let found = cuts(stack, workload, memory, false);
    let first = found.failures.first();
    assert!(found.holds(), "{stack} {workload}: {first:#?}");
    assert_eq!(found.points, 20);
}

#[test]
fn calls_of_every_kind_survive_cuts_in_each_mode() {
    for stack in ["ext4@block", "ext4+journal@block", "ext4+discard@fdp"] {
        hold(stack, "anything:ops=300", Bytes(64 * MIB));
    }
    hold("ext4+writeback@block", "anything:ops=300", Bytes(64 * MIB));
}

#[test]
fn promises_hold_with_a_small_cache() {
    hold("ext4@block", "anything:ops=300", Bytes(256 * KIB));
}

#[test]
fn promises_hold_on_a_disk_with_little_room() {
    let workload = "anything:ops=300,size=256k,room=64k";
    hold("ext4@block", workload, Bytes(64 * MIB));
}

#[test]
fn a_drive_that_does_not_flush_is_found_out() {
    let found = cuts("ext4@block", "anything:ops=300", Bytes(64 * MIB), true);
    assert!(found.lost > 0, "{found:?}");
}
