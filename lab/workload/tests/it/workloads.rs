//! Workloads by text: every preset runs, stays on the drive, is repeatable, and has the properties
//! that its name promises.

use sim::Seed;
use std::io::Write as _;
use units::{Bytes, Ns};
use workload::trace::Summary;
use workload::{Op, PRESETS, Pacing, Request, Workload};

const DRIVE: Bytes = Bytes(1 << 30);

fn run_on(text: &str, drive: Bytes, seed: u64) -> Vec<Request> {
    let workload = Workload::parse(text).unwrap();
    let stream = workload.open(drive, Seed(seed)).unwrap();
    stream.collect::<Result<_, _>>().unwrap()
}

fn run(text: &str) -> Vec<Request> {
    run_on(text, DRIVE, 1)
}

fn summary(requests: &[Request]) -> Summary {
    Summary::of(requests.iter().copied(), &workload::Labels::default())
}

fn told(text: &str) -> String {
    Workload::parse(text).unwrap_err().to_string()
}

#[test]
fn every_preset_runs_on_a_drive_of_odd_size_and_is_repeatable() {
    let drive = Bytes((100 << 20) + 512 * 7);
    for preset in &PRESETS {
        let text = format!("{}:ops=5000", preset.name);
        let requests = run_on(&text, drive, 1);
        let (first, second) = (run_on(&text, drive, 1), run_on(&text, drive, 2));
        assert_eq!(requests, first, "{text}");
        assert!(requests != second || text.starts_with("seq"), "{text}");
        assert_eq!(requests.len(), 5000, "{text}");
        assert!(
            requests.iter().all(|r| r.extent.end() * 512 <= drive.0),
            "{text}"
        );
        assert!(requests.is_sorted_by_key(|r| r.at), "{text}");
    }
}

#[test]
fn sequential_wraps_and_random_covers() {
    let sequential = summary(&run("seqwrite:bs=64k,span=1m,ops=48"));
    assert_eq!(sequential.sequential_writes, 45);
    assert_eq!(sequential.write_footprint_bytes, 1 << 20);
    let random = summary(&run("randwrite:span=1m,ops=10000"));
    assert_eq!(random.write_footprint_bytes, 1 << 20);
    assert!(random.sequential_writes < 100);
}

#[test]
fn shares_and_sizes_are_kept() {
    let mixed = summary(&run("randrw:read=30,bs=4k/75:16k/25,ops=40000,flush=100"));
    assert!(mixed.reads.abs_diff(12_000) < 500, "{}", mixed.reads);
    assert_eq!(mixed.flushes, mixed.writes / 100);
    let small = mixed.sizes[0].reads + mixed.sizes[0].writes;
    assert!(small.abs_diff(30_000) < 500, "{small}");
}

#[test]
fn hot_places_get_their_share_and_their_handle() {
    let hot_end = DRIVE.0 / 512 / 5;
    let requests = run("hotcold:ops=50000,placement=own");
    let hot = requests
        .iter()
        .filter(|r| r.extent.start.0 < hot_end)
        .count();
    assert!(hot.abs_diff(40_000) < 500, "{hot}");
    let tagged = |r: &Request| (r.placement.0 == 1) == (r.extent.start.0 < hot_end);
    assert!(requests.iter().all(tagged));
    assert!(
        run("hotcold:ops=100,placement=none")
            .iter()
            .all(|r| r.placement.0 == 0)
    );
}

#[test]
fn zipf_is_skewed_and_scattered() {
    let zipf = summary(&run("zipfwrite:theta=1.2,ops=50000"));
    let uniform = summary(&run("randwrite:ops=50000"));
    assert!(zipf.overwrite_factor > 3.0 * uniform.overwrite_factor);
    assert!(zipf.span_bytes > DRIVE.0 * 9 / 10);
}

#[test]
fn logs_are_circular_and_live_for_different_times() {
    let requests = run("logs:logs=3,bs=64k,fill=60%,ops=30000,trim=1m");
    let of = |log: u16| requests.iter().filter(move |r| r.placement.0 == log);
    for log in 0..3 {
        assert!(of(log).all(|r| r.origin.0 == log + 1));
        let writes: Vec<&Request> = of(log).filter(|r| r.op == Op::Write).collect();
        let first = writes[0].extent.start;
        let jumps = writes
            .windows(2)
            .filter(|w| w[1].extent.start.0 != w[0].extent.end());
        assert!(
            jumps.into_iter().all(|w| w[1].extent.start == first),
            "log{log}"
        );
    }
    // The time between two writes of a place is size over rate: (i+1)² times as long for log i.
    let passes = |log| {
        let sum = summary(&of(log).copied().collect::<Vec<_>>());
        (sum.overwrite_factor, sum.trim_bytes, sum.write_bytes)
    };
    let (first, second) = (passes(0), passes(1));
    assert!(
        (first.0 / second.0 - 4.0).abs() < 0.4,
        "{first:?} {second:?}"
    );
    assert!(first.1 >= first.2);
}

#[test]
fn pacing_follows_depth_or_rate() {
    let pacing = |text| Workload::parse(text).unwrap().pacing;
    let think = Ns::us(5);
    assert_eq!(
        pacing("randread:depth=4,think=5us"),
        Pacing::Closed { depth: 4, think }
    );
    assert_eq!(pacing("randread:rate=1000,arrivals=poisson"), Pacing::Open);
    assert_eq!(pacing("bursts"), Pacing::Open);
    let requests = run("randread:rate=1000,ops=3");
    assert_eq!(requests[2].at, Ns::ms(2));
}

#[test]
fn placement_is_given_by_pattern_or_origin() {
    let auto = run("hotcold:hot=1,access=95,ops=200000,placement=auto,handles=4");
    let hot_end = DRIVE.0 / 512 / 100;
    let late = &auto[150_000..];
    let mean = |hot: bool| {
        let of = |r: &&Request| (r.extent.start.0 < hot_end) == hot;
        let handles: Vec<u64> = late
            .iter()
            .filter(of)
            .map(|r| u64::from(r.placement.0))
            .collect();
        handles.iter().sum::<u64>() * 100 / handles.len() as u64
    };
    assert!(mean(true) > mean(false), "{} {}", mean(true), mean(false));
    let origin = run("logs:logs=4,placement=origin,handles=2,ops=1000");
    assert!(origin.iter().all(|r| r.placement.0 < 2));
    assert!(
        run("logs:placement=none,ops=1000")
            .iter()
            .all(|r| r.placement.0 == 0)
    );
}

#[test]
fn unknown_names_are_refused_with_a_suggestion() {
    assert_eq!(
        told("randwriet:ops=1"),
        "expected the name of a workload or a path to a trace, a recording, a fio job or a filebench \
         script, \
         found \"randwriet\"; did you mean randwrite"
    );
    assert_eq!(
        told("zipfwrite:thta=1"),
        "zipfwrite: expected one of the parameters read, theta, bs, ops, span, depth, think, \
         rate, arrivals, flush, placement, handles, found \"thta\"; did you mean theta"
    );
    assert_eq!(
        told("zipfwrite:theta=9"),
        "zipfwrite: theta: expected a decimal above 0 and up to 3 such as 0.99, found \"9\""
    );
    assert_eq!(
        told("randwrite:ops=18446744073709551615"),
        "randwrite: ops: expected a number from 1 to 100000000000 (the largest takes more than a \
         day to simulate), found \"18446744073709551615\""
    );
    assert_eq!(
        told("logs:logs=65"),
        "logs: logs: expected a number from 1 to 64, found \"65\""
    );
}

#[test]
fn too_small_drive_is_refused() {
    let open = |text: &str| {
        let opened = Workload::parse(text).unwrap().open(DRIVE, Seed(1));
        opened.err().unwrap().to_string()
    };
    assert_eq!(
        open("randwrite:span=2g"),
        "the workload \"randwrite\" expected room for 2 GiB, but it has 1 GiB of the drive"
    );
    assert_eq!(
        open("logs:logs=64,bs=1m,fill=10%"),
        "the workload \"log0\" expected room for 2 MiB, but it has 0 B of the drive"
    );
}

/// A file called `name` with the contents `text`, in a directory that lives as long as the guard.
fn file(name: &str, text: &str) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::File::create(&path)
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    let path = path.to_str().unwrap().to_owned();
    (dir, path)
}

#[test]
fn a_trace_is_a_workload_with_parameters() {
    let (_dir, path) = file("a:b.csv", "5,W,0,8,p\n9,W,64,8,q\n12,R,0,8,q\n");
    let requests = run(&format!("{path}:placement=origin,handles=4"));
    let placed: Vec<u16> = requests.iter().map(|r| r.placement.0).collect();
    assert_eq!(placed, [0, 1, 0]);
    assert_eq!(Workload::parse(&path).unwrap().pacing, Pacing::Open);
    let closed = Workload::parse(&format!("{path}:depth=8")).unwrap();
    assert_eq!(
        closed.pacing,
        Pacing::Closed {
            depth: 8,
            think: Ns(0)
        }
    );
    let small = closed.open(Bytes(32 * 512), Seed(1)).unwrap();
    let starts: Vec<u64> = small.map(|r| r.unwrap().extent.start.0).collect();
    assert_eq!(starts, [0, 0, 0]);
    assert!(told(&format!("{path}:dpth=8")).contains("did you mean depth"));
}

#[test]
fn repeated_trace_continues_in_time_and_keeps_its_origins() {
    let (_dir, path) = file("a.csv", "5,W,0,8,p\n9,W,64,8,q\n3,R,0,8,q\n9,N,0,0,q\n");
    let workload = Workload::parse(&format!("{path}:repeat=3,devices=0")).unwrap();
    let mut stream = workload.open(Bytes(64 * 512), Seed(1)).unwrap();
    let requests: Vec<Request> = stream.by_ref().map(Result::unwrap).collect();
    let times: Vec<u64> = requests.iter().map(|r| r.at.0).collect();
    assert_eq!(times, [0, 2, 6, 6, 8, 12, 12, 14, 18]);
    let origins: Vec<u16> = requests.iter().map(|r| r.origin.0).collect();
    assert_eq!(origins, [2, 1, 2].repeat(3));
    assert_eq!(stream.labels().names(), ["unnamed", "p", "q"]);
    let notes = stream.notes();
    assert_eq!((notes.clock_went_back, notes.skipped), (3, 3));
    assert_eq!((notes.wrapped, notes.devices), (3, 1));
    assert!(stream.next().is_none());
    assert_eq!(run_on(&path, Bytes(64 * 512), 1), requests[..3]);
    assert!(told(&format!("{path}:repeat=0")).contains("expected a number from 1"));
}

#[test]
fn repeated_trace_ends_if_it_is_empty_invalid_or_too_long() {
    let (_dir, path) = file("a.csv", "time_ns,flags,sector,sectors,process\n");
    assert_eq!(run(&format!("{path}:repeat=100000000000")), []);
    let read = |text: &str| {
        let (_dir, path) = file("a.csv", text);
        let workload = Workload::parse(&format!("{path}:repeat=100000000000")).unwrap();
        let stream = workload.open(DRIVE, Seed(1)).unwrap();
        let read: Vec<_> = stream.map(|r| r.map_err(|e| e.to_string())).collect();
        let told = read.last().unwrap().clone().unwrap_err();
        (read.len(), told)
    };
    let (count, told) = read("1,R,0,8,p\nx\n");
    assert!(
        (count, told.contains(":2: expected a time")) == (1, true),
        "{told}"
    );
    let (count, told) = read("0,R,0,8,p\n18446744073709551615,R,0,8,p\n");
    assert!(count == 4 && told.contains("584 years"), "{told}");
}

#[test]
fn fio_job_phases_follow_each_other() {
    let (_dir, path) = file(
        "x.fio",
        "[global]\nbs=4k\nsize=64k\nfilename=/dev/x\n[fill]\nrw=write\niodepth=2\n[hammer]\n\
         stonewall\nrw=randwrite\nnumjobs=2\nfsync=8\n[trims]\nstonewall\nrw=randtrim\niodepth=2\n",
    );
    let requests = run(&path);
    let sum = summary(&requests);
    assert_eq!((sum.writes, sum.trims, sum.flushes), (16 + 32, 16, 4));
    // fio's random map: each job writes each of its 16 places once.
    assert_eq!(sum.trim_bytes, 65_536);
    assert!(
        requests[..16]
            .iter()
            .all(|r| r.op == Op::Write && r.origin.0 == 1)
    );
    assert!((sum.overwrite_factor - 3.0).abs() < 1e-9);
    assert_eq!(requests, run(&path));
}
