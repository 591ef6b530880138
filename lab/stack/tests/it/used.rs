//! Stacks whose file system was in use before the run.

use super::{done, plan, refused};
use crash::Points;
use ssd::Precondition;
use stack::crash::{Cuts, explore};
use stack::{Plan, Rest, Used, made_from, rest, run_from};
use std::ops::ControlFlow;
use units::{Bytes, GIB, MIB};

/// The stacks that a comparison of all interfaces names.
const STACKS: [&str; 10] = [
    "ext4@block",
    "ext4@fdp",
    "f2fs@block",
    "f2fs@zns",
    "persimmon@zns",
    "shimmer@zns",
    "btrfs@ocssd",
    "hyfim@ocssd",
    "bytefs@byte",
    "ext4+remap@block",
];

/// A workload that does next to nothing.
const TOUCH: &str = "randread:size=64k,ops=1";

fn used(stack: &str, mib: u64, fill: u8, workload: &str) -> Plan {
    let mut plan = plan(stack, mib, Precondition::Fresh, workload);
    let (below, used) = stack::Past::Used(Used { fill }).parts(&plan.drive);
    plan.precondition = below;
    plan.used = used;
    plan
}

fn made(plan: &Plan) -> Rest {
    rest(plan, &mut |_| ControlFlow::Continue(())).expect("it can be made")
}

fn bytes(rest: &Rest, plan: &Plan) -> Vec<u8> {
    let mut bytes = Vec::new();
    rest.write(plan, "test", &mut bytes)
        .expect("memory takes all");
    bytes
}

#[test]
fn used_stack_is_the_same_from_its_seed_and_from_a_file() {
    for stack in ["ext4@block", "hyfim@ocssd"] {
        let plan = used(stack, 128, 40, "varmail:files=50,threads=2,ops=300");
        let (first, second) = (made(&plan), made(&plan));
        let file = bytes(&first, &plan);
        assert!(file == bytes(&second, &plan), "{stack}");
        let read = Rest::read(&plan, "test", &mut &file[..]).expect("it is whole");
        let (a, _) = run_from(&plan, first, &mut |_| ()).expect("it runs");
        let (b, _) = run_from(&plan, read, &mut |_| ()).expect("it runs");
        assert_eq!(report::to_json(&a), report::to_json(&b), "{stack}");
        assert!(a.precondition == "used:fill=40" && a.used.is_some());
        assert!(a.errors.is_empty(), "{stack}: {:?}", a.errors);
        let other = Plan { seed: 2, ..plan };
        assert_ne!(file, bytes(&made(&other), &other), "{stack}");
    }
}

#[test]
fn damaged_or_foreign_snapshot_is_refused() {
    let plan = used("ext4@block", 128, 20, TOUCH);
    let file = bytes(&made(&plan), &plan);
    let read = |bytes: &[u8], made_from: &str| Rest::read(&plan, made_from, &mut &bytes[..]);
    assert!(read(&file, "test").is_ok());
    assert!(read(&file, "another").is_err());
    for at in [0, 20, 200, file.len() / 2, file.len() - 1] {
        let mut damaged = file.clone();
        damaged[at] ^= 1;
        assert!(read(&damaged, "test").is_err(), "byte {at}");
        assert!(read(&file[..at], "test").is_err(), "cut at {at}");
    }
    let other = Plan {
        stack: "ext4@fdp".parse().unwrap(),
        ..plan.clone()
    };
    let named = |plan: &Plan| made_from(plan, "1").expect("it is a used stack");
    assert_ne!(named(&plan), named(&other));
    assert_eq!(named(&plan), named(&plan.clone()));
    assert_ne!(made_from(&plan, "2"), made_from(&plan, "1"));
    let fresh = Plan { used: None, ..plan };
    assert_eq!(made_from(&fresh, "1"), None);
}

#[test]
fn every_stack_of_the_comparison_can_be_used() {
    for stack in STACKS {
        // Zones of a smaller drive are too few for all that a file system keeps apart.
        let mib = if stack.ends_with("zns") { 512 } else { 192 };
        let plan = used(stack, mib, 40, "varmail:files=50,threads=2,ops=300");
        let run = done(&plan);
        let facts = run.used.expect("it was used");
        assert!(run.errors.is_empty(), "{stack}: {:?}", run.errors);
        assert!(facts.steady, "{stack}: {facts:?}");
        assert!(facts.waf > 0.9 && facts.waf < 10.0, "{stack}: {facts:?}");
        assert_eq!(facts.file_bytes, mib * MIB / 100 * 40, "{stack}");
    }
}

#[test]
fn past_without_a_meaning_is_refused_and_names_used() {
    for (stack, past) in [
        ("f2fs@zns", Precondition::Aged),
        ("btrfs@ocssd", Precondition::Full),
        ("hyfim@ocssd", Precondition::Aged),
    ] {
        let said = refused(&plan(stack, 512, past, TOUCH)).to_string();
        assert!(said.contains("precondition used"), "{stack}: {said}");
    }
    let said = refused(&used("raw@block", 64, 50, "randwrite:ops=1")).to_string();
    assert!(said.contains("fresh, full or aged"), "{said}");
}

#[test]
fn workload_without_room_is_refused_with_the_size_that_would_do() {
    let workload = "randread:size=200m,ops=10";
    let said = refused(&plan("ext4@block", 128, Precondition::Fresh, workload)).to_string();
    assert!(
        said.contains("needs room for 200 MiB") && said.contains("--size "),
        "{said}"
    );
    let size = said
        .split("--size ")
        .nth(1)
        .and_then(|rest| rest.split("MiB").next());
    let mib = size.and_then(|size| size.parse().ok()).expect("a size");
    assert!((200..600).contains(&mib), "{said}");
    let run = done(&plan("ext4@block", mib, Precondition::Fresh, workload));
    assert!(run.errors.is_empty());
    let full = refused(&used("ext4@block", 128, 95, TOUCH)).to_string();
    assert!(full.contains("use a smaller share"), "{full}");
}

#[test]
fn power_cut_in_a_used_state_is_judged_like_any() {
    for stack in ["ext4@block", "f2fs@block", "hyfim@ocssd"] {
        let mut plan = used(stack, 128, 20, "varmail:files=20,threads=2,ops=200");
        plan.drive.controller.power_loss_protection = false;
        let cuts = |lies| Cuts {
            plan: plan.clone(),
            points: Points::Some(4),
            outside: 4,
            memory: Bytes(GIB),
            lies,
            reorders: false,
            skips_fences: false,
            snapshot: false,
            rest: None,
        };
        let found = explore(&cuts(false), &mut |_| ()).expect("it can be cut");
        assert!(found.holds(), "{stack}: {:#?}", found.failures.first());
        assert_eq!(found.points, 4, "{stack}");
        let lied = explore(&cuts(true), &mut |_| ()).expect("it can be cut");
        assert!(!lied.holds(), "{stack}");
    }
}
