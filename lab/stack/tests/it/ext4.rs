//! File workloads on ext4, on a drive.

use super::{done, plan, refused};
use ssd::Precondition;
use stack::{Plan, Sampling};
use units::Ns;

fn on_ext4(workload: &str) -> Plan {
    plan("ext4@block", 256, Precondition::Fresh, workload)
}

#[test]
fn a_run_has_calls_bytes_and_amplification() {
    let mut plan = on_ext4("varmail:files=200,threads=4,ops=4000");
    plan.sample = Some(Sampling::each(Ns::ms(5)));
    let run = done(&plan);
    assert_eq!((run.ops, run.errors.len()), (4_000, 0));
    assert_eq!(run.stack, "ext4@block");
    let kinds: Vec<&str> = run.latency_ns.by_op.keys().map(String::as_str).collect();
    assert_eq!(
        kinds,
        ["close", "fsync", "open", "pread", "pwrite", "unlink"]
    );
    let fsync = &run.latency_ns.by_op["fsync"];
    assert!(fsync.p50 > run.latency_ns.by_op["close"].p50, "{fsync:?}");
    let app = run.app.as_ref().unwrap();
    assert!(app.write_bytes > 1 << 20 && app.mismatches.is_empty());
    let ratio = run.host.write_bytes as f64 / app.write_bytes as f64;
    assert!(
        (run.waf.host - ratio).abs() < 1e-9 && ratio > 1.0,
        "{ratio}"
    );
    // Small files that are synced write more journal than data.
    for purpose in ["data", "journal"] {
        assert!(run.host.by_purpose[purpose].write.block > 0, "{purpose}");
    }
    let origins: u64 = run.host.by_origin.values().map(|t| t.write.block).sum();
    assert_eq!(origins, run.host.write_bytes);
    assert!(run.host.by_origin["bigfileset"].write.block > 0);
    // Samples cover the run, and not the creation of the tree before it.
    assert!(run.timeline.iter().map(|s| s.ops).sum::<u64>() == run.ops);
    assert!(
        run.sim_time_ns > 0
            && run
                .timeline
                .iter()
                .all(|s| s.at_ns <= run.sim_time_ns + 5_000_000)
    );
}

#[test]
fn pages_dirty_after_the_last_call_count_as_written_back() {
    let run = done(&on_ext4("fileserver:files=60,threads=3,ops=1500"));
    let app = run.app.as_ref().unwrap();
    let data = run.host.by_purpose["data"].write.block;
    assert!(data > 1 << 20, "{app:?}");
    assert_eq!(app.written_back_pages * 4_096, data);
}

#[test]
fn tree_made_before_the_run_is_not_counted() {
    let run = done(&on_ext4("webserver:files=100,threads=4,ops=100"));
    let tree = 100 * 16_384;
    assert!(run.host.write_bytes < tree / 2, "{}", run.host.write_bytes);
    // The tree must be read from the drive.
    assert!(run.host.read_bytes > 100_000, "{}", run.host.read_bytes);
}

#[test]
fn the_same_plan_leaves_the_same_record() {
    let plan = on_ext4("fileserver:files=60,threads=3,ops=1500");
    let (one, two) = (done(&plan), done(&plan));
    assert_eq!(
        serde_json::to_string(&one).unwrap(),
        serde_json::to_string(&two).unwrap()
    );
    let other = done(&Plan {
        seed: plan.seed + 1,
        ..plan
    });
    assert_ne!(one.host.write_bytes, other.host.write_bytes);
}

#[test]
fn stacks_and_workloads_have_to_fit() {
    let says = |plan: &Plan| refused(plan).to_string();
    let blocks = says(&on_ext4("zipfwrite:ops=10"));
    assert!(
        blocks.starts_with("zipfwrite is a block workload: expected"),
        "{blocks}"
    );
    let raw = plan("raw@block", 64, Precondition::Fresh, "varmail:ops=10");
    assert!(
        says(&raw).starts_with("varmail is a file workload: expected"),
        "{}",
        says(&raw)
    );
    let full = says(&on_ext4("oltp:files=1000,size=1g,ops=10"));
    assert!(
        full.contains("needs room for 1000.01 GiB") && full.contains("--size"),
        "{full}"
    );
}
