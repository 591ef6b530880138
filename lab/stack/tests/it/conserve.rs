//! Conservation: counters of one run agree with each other.

use crate::{done, plan};
use report::record::Run;
use sim::Seed;
use ssd::Precondition;
use stack::{Plan, Sampling};
use units::{Bytes, MIB, Ns};
use workload::{Op, Workload};

/// Bytes that a workload reads, writes and deallocates, and its number of requests.
fn asked(text: &str, mib: u64) -> (u64, u64, u64, u64) {
    let workload = Workload::parse(text).expect("it is a workload");
    let stream = workload.open(Bytes(mib * MIB), Seed(1)).expect("it fits");
    let mut sums = [0; 4];
    let mut count = 0;
    for request in stream.map(|r| r.expect("generators do not fail")) {
        sums[request.op as usize] += request.extent.bytes();
        count += 1;
    }
    let of = |op: Op| sums[op as usize];
    (of(Op::Read), of(Op::Write), of(Op::Trim), count)
}

fn check(run: &Run) {
    let programmed: u64 = run.nand.by_cause.values().sum();
    assert_eq!(programmed, run.nand.program_pages * run.nand.page_bytes);
    for (cause, bytes) in &run.nand.by_cause {
        let origins = run.nand.by_cause_and_origin.get(cause);
        let sum: u64 = origins.map_or(0, |o| o.values().sum());
        assert_eq!(sum, *bytes, "{cause}");
    }
    for split in [&run.host.by_purpose, &run.host.by_origin] {
        assert_eq!(
            split.values().map(|d| d.write.block).sum::<u64>(),
            run.host.write_bytes
        );
        assert_eq!(
            split.values().map(|d| d.read.block).sum::<u64>(),
            run.host.read_bytes
        );
    }
    assert_eq!(
        run.nand.reads_by_cause.values().sum::<u64>(),
        run.nand.read_pages
    );
    assert_eq!(run.latency_ns.all.count, run.ops);
    assert_eq!(
        run.latency_ns.by_op.values().map(|l| l.count).sum::<u64>(),
        run.ops
    );
    assert_eq!(run.latency_ns.all.cdf.last().map(|p| p.1), Some(run.ops));
    let waf = programmed as f64 / run.host.write_bytes.max(1) as f64;
    assert!(run.host.write_bytes == 0 || run.waf.device == waf);
    assert!(
        run.utilisation
            .values()
            .all(|share| (0.0..=1.0).contains(share))
    );
    assert!(
        ["host", "gc"]
            .iter()
            .all(|cause| run.nand.by_cause.contains_key(*cause))
    );
}

#[test]
fn drive_traffic_equals_the_requests_of_the_workload() {
    let workloads = [
        "randrw:ops=20000,bs=4k/60:64k/40,flush=500",
        "randwrite:ops=20000,bs=512,span=10%",
        "logs:ops=4000,trim=1MiB,depth=4",
        "zipfwrite:ops=20000,rate=100000,arrivals=poisson",
        "bursts:ops=5000,on=10ms,off=20ms",
    ];
    for text in workloads {
        let (read, written, trimmed, count) = asked(text, 128);
        for (stack, past) in [
            ("raw@block", Precondition::Aged),
            ("raw@fdp", Precondition::Full),
        ] {
            let run = done(&plan(stack, 128, past, text));
            assert!(run.errors.is_empty(), "{text}: {:?}", run.errors);
            let host = &run.host;
            let got = (host.read_bytes, host.write_bytes, host.trim_bytes, run.ops);
            assert_eq!(got, (read, written, trimmed, count), "{text}");
            check(&run);
        }
    }
}

#[test]
fn written_data_is_programmed_by_the_end_of_the_run() {
    let run = done(&plan(
        "raw@block",
        64,
        Precondition::Fresh,
        "seqwrite:ops=10",
    ));
    assert_eq!(run.nand.by_cause["host"], run.host.write_bytes);
    assert_eq!(run.handles.len(), 0);
}

#[test]
fn handles_of_a_run_add_up_to_its_writes() {
    let run = done(&plan("raw@fdp", 128, Precondition::Fresh, "logs:ops=2000"));
    assert_eq!(run.handles.len(), 8);
    assert_eq!(
        run.handles.iter().map(|h| h.host_bytes).sum::<u64>(),
        run.host.write_bytes
    );
    assert!(run.handles[..4].iter().all(|h| h.host_bytes > 0));
    assert_eq!(run.host.by_origin.len(), 4);
}

#[test]
fn samples_add_up_to_the_run() {
    let run = done(&Plan {
        sample: Some(Sampling::each(Ns::ms(10))),
        ..plan(
            "raw@block",
            64,
            Precondition::Aged,
            "randrw:ops=20000,read=50",
        )
    });
    assert!(run.timeline.len() > 5, "{}", run.timeline.len());
    assert!(run.timeline.is_sorted_by_key(|s| s.at_ns));
    assert_eq!(run.timeline.iter().map(|s| s.ops).sum::<u64>(), run.ops);
    let written: u64 = run.timeline.iter().map(|s| s.host_write_bytes).sum();
    assert_eq!(written, run.host.write_bytes);
    let worst = run.timeline.iter().map(|s| s.max_latency_ns).max();
    assert_eq!(worst, Some(run.latency_ns.all.max));
}

#[test]
fn think_time_and_rates_pace_a_run() {
    let thoughtful = "randread:ops=100,depth=1,think=1ms";
    let run = done(&plan("raw@block", 64, Precondition::Full, thoughtful));
    // 100 reads, and 99 pauses before the last of them ends.
    let reads = run.latency_ns.all.mean * 100.0;
    assert!((run.sim_time_ns as f64 - reads - 99e6).abs() < 1.0);
    let run = done(&plan(
        "raw@block",
        64,
        Precondition::Full,
        "randread:ops=1000,rate=10000",
    ));
    assert!(
        (99_900_000..101_000_000).contains(&run.sim_time_ns),
        "{}",
        run.sim_time_ns
    );
}

#[test]
fn an_overloaded_open_loop_counts_waiting_and_keeps_its_memory() {
    // Far more than the dies can read: latency grows to about the whole backlog.
    let overload = "randread:ops=60000,rate=5000000";
    let run = done(&plan("raw@block", 64, Precondition::Full, overload));
    assert_eq!(run.ops, 60_000);
    let backlog = run.sim_time_ns - 12_000_000;
    assert!(
        run.latency_ns.all.max > backlog * 9 / 10,
        "{}",
        run.latency_ns.all.max
    );
}

#[test]
fn partial_page_writes_count_as_their_own_size() {
    let run = done(&plan(
        "raw@fdp",
        256,
        Precondition::Aged,
        "randwrite:bs=1k,ops=40000,depth=32",
    ));
    let handles: u64 = run.handles.iter().map(|handle| handle.host_bytes).sum();
    assert_eq!(handles, run.host.write_bytes);
    assert_eq!(run.host.write_bytes, 40_000 * 1024);
    // However many write points wait, the host waits no longer than the run takes.
    assert!(run.gc.stall_ns <= run.sim_time_ns, "{:?}", run.gc);
    let valid = run.gc.mean_valid.expect("an aged drive collects");
    assert!(valid > 0.0 && valid < 1.0, "{valid}");
    let fdp = run.fdp.expect("an FDP drive keeps statistics");
    assert_eq!(fdp.host_bytes_written, run.host.write_bytes);
    assert!(fdp.media_bytes_written > fdp.host_bytes_written);
}

#[test]
fn drive_that_mixes_moved_data_reports_no_media_bytes() {
    let run = done(&plan(
        "raw@streams",
        256,
        Precondition::Aged,
        "randwrite:ops=20000",
    ));
    assert!(
        run.handles
            .iter()
            .all(|handle| handle.media_bytes.is_none())
    );
    assert!(run.fdp.is_none());
}
