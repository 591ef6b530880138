//! Threads of fio jobs: their requests, and the times at which they issue them.

use sim::Seed;
use std::collections::VecDeque;
use units::{Bytes, Ns};
use workload::jobs::{Next, Opened, Thread};
use workload::{Op, Request, Workload};

const DRIVE: Bytes = Bytes(64 << 20);

/// The result of `read` for the job file `text`, or its error without the path.
fn with<T>(text: &str, read: impl FnOnce(Workload) -> T) -> Result<T, String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("j.fio");
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap();
    let workload = Workload::parse(path).map_err(|error| error.to_string().replace(path, "j.fio"));
    workload.map(read)
}

fn opened(text: &str, handles: u16) -> Opened {
    let open = |workload: Workload| workload.jobs().unwrap().open(DRIVE, handles, Seed(1));
    with(text, open).unwrap().unwrap()
}

/// Times in µs and requests of `thread` on a drive that serves each request in `service` µs.
fn served(mut thread: Thread, service: u64) -> Vec<(u64, Request)> {
    let (mut now, mut flying, mut all) = (0, VecDeque::new(), Vec::new());
    loop {
        let waits = match thread.next(Ns::us(now), flying.len() as u32) {
            Next::Issue(request) => {
                all.push((now, request));
                flying.push_back(now + service);
                match request.op {
                    Op::Flush => flying.back().copied(),
                    _ if flying.len() as u32 == thread.depth() => flying.front().copied(),
                    _ => None,
                }
            }
            Next::Drain => Some(*flying.back().expect("it waits for requests")),
            Next::Until(time) => {
                assert!(time > Ns::us(now), "it waits for a later time");
                Some(time.0.div_ceil(1_000))
            }
            Next::End => return all,
        };
        now = waits.unwrap_or(now).max(now);
        flying.retain(|&end| end > now);
    }
}

/// Requests of the only thread of the job `options`, with their times in µs.
fn alone(options: &str, service: u64) -> Vec<(u64, Request)> {
    let opened = opened(&format!("[job]\n{options}"), 1);
    let [(_, thread)] = opened.threads.try_into().expect("one thread");
    served(thread, service)
}

fn times(requests: &[(u64, Request)]) -> Vec<u64> {
    requests.iter().map(|(time, _)| *time).collect()
}

fn starts(requests: &[(u64, Request)]) -> Vec<u64> {
    let in_blocks = |request: &Request| request.extent.start.0 / 8;
    requests
        .iter()
        .map(|(_, request)| in_blocks(request))
        .collect()
}

fn ops(requests: &[(u64, Request)]) -> String {
    let letter = |(_, request): &(u64, Request)| request.op.name().chars().next().unwrap();
    requests.iter().map(letter).collect()
}

#[test]
fn thread_keeps_its_depth_in_flight() {
    let requests = alone("iodepth=2\nnumber_ios=6", 10);
    assert_eq!(times(&requests), [0, 0, 10, 10, 20, 20]);
}

#[test]
fn rate_delays_requests_until_they_are_due() {
    let of = |options: &str, service| times(&alone(&format!("number_ios=4\n{options}"), service));
    assert_eq!(of("rate_iops=1000", 10), [0, 1_000, 2_000, 3_000]);
    assert_eq!(of("bs=8k\nrate=8192000", 10), [0, 1_000, 2_000, 3_000]);
    // A thread that is late goes on at once; one that is early first waits for its requests.
    assert_eq!(
        of("rate_iops=1000\niodepth=4", 1_500),
        [0, 1_500, 3_000, 3_000]
    );
    let offload = "rate_iops=1000\niodepth=4\nio_submit_mode=offload";
    assert_eq!(of(offload, 1_500), [0, 1_000, 2_000, 3_000]);
}

#[test]
fn poisson_rate_keeps_its_mean() {
    let requests = alone("number_ios=10001\nrate_iops=1000\nrate_process=poisson", 0);
    let last = requests[10_000].0;
    assert!(last.abs_diff(10_000_000) < 500_000, "{last}");
}

#[test]
fn mixed_job_takes_the_direction_that_is_due() {
    let options = "rw=randrw\nrwmixread=50\nrate_iops=1000,100\nruntime=1\nsize=64m";
    let requests = alone(options, 1);
    let reads = requests.iter().filter(|(_, r)| r.op == Op::Read).count();
    assert!(reads.abs_diff(1_000) < 10, "{reads}");
    assert!((requests.len() - reads).abs_diff(100) < 5);
}

#[test]
fn pauses_delay_and_deadlines_end_a_thread() {
    let requests = alone(
        "number_ios=5\nthinktime=100\nthinktime_blocks=2\niodepth=2",
        10,
    );
    assert_eq!(times(&requests), [0, 0, 110, 110, 220]);
    let requests = alone(
        "startdelay=2\nramp_time=1\nruntime=1\ntime_based\nsize=64k",
        100_000,
    );
    assert_eq!((requests.len(), requests[0].0), (20, 2_000_000));
}

#[test]
fn loops_repeat_the_order_unless_randrepeat_is_off() {
    let order = |options: &str| {
        let options = format!("rw=randwrite\nsize=256k\nloops=2\n{options}");
        let starts = starts(&alone(&options, 1));
        assert_eq!(starts.len(), 128);
        let mut places = starts[..64].to_vec();
        places.sort_unstable();
        assert!(places.into_iter().eq(0..64), "each block comes once");
        starts[..64] == starts[64..]
    };
    assert!(order(""));
    assert!(!order("randrepeat=0"));
}

#[test]
fn verify_reads_back_what_was_written() {
    let requests = alone("rw=randrw\nsize=1m\nverify=crc32c", 1);
    let (pass, checks) = requests.split_at(256);
    let written: Vec<_> = pass.iter().filter(|(_, r)| r.op == Op::Write).collect();
    let written: Vec<_> = written.iter().map(|(_, r)| r.extent).collect();
    assert!(checks.iter().all(|(_, r)| r.op == Op::Read));
    assert!(checks.iter().map(|(_, r)| r.extent).eq(written));
    let alone = alone("rw=write\nsize=64k\nverify=md5\ndo_verify=0", 1);
    assert_eq!(alone.len(), 16);
}

#[test]
fn sequences_have_gaps_runs_and_pairs() {
    assert_eq!(
        starts(&alone("rw=read:-8k\nsize=32k\nnumber_ios=4", 1)),
        [0, 6, 5, 4]
    );
    assert_eq!(
        starts(&alone("rw=write:4k\nsize=32k\nnumber_ios=5", 1)),
        [0, 2, 4, 6, 0]
    );
    let runs = starts(&alone(
        "rw=randread:4\nsize=1m\nnumber_ios=8\nnorandommap",
        1,
    ));
    assert_eq!(
        (runs[1], runs[3], runs[5]),
        (runs[0] + 1, runs[0] + 3, runs[4] + 1)
    );
    let pairs = alone("rw=randtrimwrite\nsize=64k\nnumber_ios=4", 1);
    assert_eq!(ops(&pairs), "twtw");
    assert_eq!(
        (starts(&pairs)[0], starts(&pairs)[2]),
        (starts(&pairs)[1], starts(&pairs)[3])
    );
}

#[test]
fn sizes_differ_by_direction_and_keep_their_alignment() {
    let options = "rw=randrw\nnorandommap\nbs=4k,16k\nblockalign=8k\nio_size=8m";
    for (_, request) in alone(options, 1) {
        let sectors = if request.op == Op::Read { 8 } else { 32 };
        assert_eq!(request.extent.sectors, sectors);
        assert_eq!(request.extent.start.0 % 16, 0);
    }
    let split = alone(
        "rw=randwrite\nbssplit=4k/10:64k/90\nnumber_ios=5000\nio_size=1g\nnorandommap",
        1,
    );
    let small = split.iter().filter(|(_, r)| r.extent.sectors == 8).count();
    assert!(small.abs_diff(500) < 100, "{small}");
}

#[test]
fn flushes_follow_writes_and_end_the_job() {
    let requests = alone(
        "rw=write\nfsync=2\nend_fsync=1\nnumber_ios=5\niodepth=4",
        10,
    );
    assert_eq!(ops(&requests), "wwfwwfwf");
    assert!(
        alone("rw=write\nsync=1\nnumber_ios=2", 1)
            .iter()
            .all(|(_, r)| r.fua)
    );
}

#[test]
fn handles_are_those_of_the_drive() {
    let of = |options: &str, handles| {
        let opened = opened(&format!("[j]\nrw=write\nnumber_ios=4\n{options}"), handles);
        let notes = opened.notes.len();
        let [(_, thread)] = opened.threads.try_into().expect("one thread");
        let all = served(thread, 1);
        (
            all.iter().map(|(_, r)| r.placement.0).collect::<Vec<_>>(),
            notes,
        )
    };
    assert_eq!(of("fdp=1\nfdp_pli=1,3", 8), (vec![1, 3, 1, 3], 0));
    assert_eq!(of("dataplacement=fdp", 3), (vec![0, 1, 2, 0], 0));
    assert_eq!(of("write_hint=long", 8), (vec![3; 4], 0));
    assert_eq!(of("fdp=1\nplids=1,3", 1), (vec![0; 4], 1));
    assert_eq!(of("fdp=1\nplids=9", 4), (vec![3; 4], 1));
    assert_eq!(of("", 8), (vec![0; 4], 0));
}

#[test]
fn threads_wait_for_phases_and_for_named_jobs() {
    let text = "[global]\nfilename=d\n[a]\n[b]\nnumjobs=2\nstonewall\n[c]\nwait_for=b\n";
    let orders: Vec<_> = opened(text, 1).threads.iter().map(|t| t.0).collect();
    let phases: Vec<usize> = orders.iter().map(|order| order.phase).collect();
    assert_eq!((phases, orders[3].wait_for), (vec![0, 1, 1, 1], Some(1)));
}

#[test]
fn error_lists_all_faults_of_a_file() {
    let text = "[global]\nioengine=rdma\nfilname=x\n[a]\nrate_iops=10\nbs=1000\n[b]\nflow_sleep=8\n\
                time_based\n";
    let told = with(text, |_| ()).unwrap_err();
    let lines = told.split("; j.fio:").skip(1);
    let lines: Vec<&str> = lines
        .map(|fault| fault.split(':').next().unwrap())
        .collect();
    assert!(told.starts_with("j.fio:2: "), "{told}");
    assert_eq!(lines, ["3", "6", "8", "9"], "{told}");
    assert!(told.contains("did you mean filename"), "{told}");
}

#[test]
fn ignored_options_are_listed_in_one_note() {
    let text = "[a]\ndirect=1\nthread\npercentile_list=99:99.9\nper_job_logs=0 ; no\n";
    let notes = with(text, |workload| workload.notes).unwrap();
    assert_eq!(
        notes,
        [
            "options that change nothing on a simulated drive: direct, thread, percentile_list, \
          per_job_logs"
        ]
    );
}
