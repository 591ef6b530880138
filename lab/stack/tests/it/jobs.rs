//! Jobs of fio on a drive: each thread has a queue, a pace and an end of its own.

use crate::{done, plan};
use report::record::{JobResult, Run};
use ssd::Precondition;
use stack::{Plan, Until};

/// The run of a job file on a drive of 64 MiB.
fn ran(text: &str) -> Run {
    with(text, "raw@block", |_| ())
}

fn with(text: &str, stack: &str, change: impl FnOnce(&mut Plan)) -> Run {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("j.fio");
    std::fs::write(&path, text).unwrap();
    let mut plan = plan(stack, 64, Precondition::Full, path.to_str().unwrap());
    change(&mut plan);
    done(&plan)
}

const READER: &str = "[reader]\nrw=randread\niodepth=16\nsize=32m\n";
const WRITER: &str = "[writer]\nrw=write\nsize=8m\nrate_iops=5000\n";
const TIMED: &str = "[global]\nbs=4k\ntime_based\nruntime=200ms\n";

#[test]
fn writer_beside_a_reader_keeps_its_own_rate() {
    let both = ran(&format!("{TIMED}{READER}{WRITER}"));
    let [reader, writer] = both.jobs.as_slice() else {
        panic!("two jobs")
    };
    assert!(
        (writer.write.iops - 5_000.0).abs() < 50.0,
        "{}",
        writer.write.iops
    );
    let alone = ran(&format!("{TIMED}{READER}"));
    let share = reader.read.iops / alone.jobs[0].read.iops;
    assert!((0.6..=1.0).contains(&share), "{share}");
    assert_eq!(both.ops, reader.read.ios + writer.write.ios);
    assert_eq!(both.host.read_bytes, reader.read.bytes);
    assert!(both.job_groups.is_empty());
}

#[test]
fn jobs_with_group_reporting_have_results_together() {
    let jobs = "[a]\ngroup_reporting\n[b]\ngroup_reporting\nnumjobs=2\n[c]\nrw=write\n";
    let run = ran(&format!("[global]\nnumber_ios=20\nsize=8m\n{jobs}"));
    let [group] = run.job_groups.as_slice() else {
        panic!("one group")
    };
    assert_eq!((group.name.as_str(), group.clones), ("a + b", 3));
    assert_eq!((group.read.ios, group.write.ios), (60, 0));
    let in_group: Vec<bool> = run.jobs.iter().map(|job| job.in_group).collect();
    assert_eq!(in_group, [true, true, false]);
    assert_eq!(run.jobs[2].options["rw"], "write");
    assert_eq!(group.options["number_ios"], "20");
    let as_fio = report::fio::document(&run).expect("it has jobs");
    let names: Vec<_> = [0, 1]
        .map(|job| as_fio["jobs"][job]["jobname"].clone())
        .into();
    assert_eq!(names, ["c", "a + b"]);
}

#[test]
fn full_queue_drains_to_its_low_mark() {
    let job = "[a]\nrw=randread\niodepth=16\nnumber_ios=4000\n";
    let [full, low] = [job.to_owned(), format!("{job}iodepth_low=1\n")].map(|text| ran(&text));
    assert_eq!(low.jobs[0].read.ios, 4_000);
    assert!(low.ops_per_s < full.ops_per_s * 0.9);
}

#[test]
fn phases_have_their_own_depths_and_follow_each_other() {
    let run = ran(
        "[global]\nbs=4k\nrw=randread\nfilename=d\nnumber_ios=2000\n[one]\n[deep]\n\
                   stonewall\niodepth=32\n",
    );
    let [one, deep] = run.jobs.as_slice() else {
        panic!("two jobs")
    };
    assert!(deep.start_ns >= one.runtime_ns);
    assert_eq!((one.read.ios, deep.read.ios), (2_000, 2_000));
    assert!(deep.read.iops > 5.0 * one.read.iops);
    // Little's law: requests in flight are the rate times the latency.
    for (job, depth) in [(one, 1.0), (deep, 32.0)] {
        let in_flight = job.read.iops * job.read.latency_ns.mean / 1e9;
        assert!((in_flight / depth - 1.0).abs() < 0.05, "{in_flight}");
    }
    assert_eq!(run.sim_time_ns, deep.start_ns + deep.runtime_ns);
}

#[test]
fn delays_ramps_and_ends_hold_for_each_thread() {
    let run = ran(
        "[global]\nrw=randread\nsize=8m\ntime_based\n[a]\nruntime=50ms\n[b]\n\
                   startdelay=30ms\nramp_time=10ms\nruntime=20ms\nnumjobs=2\n",
    );
    let near = |ns: u64, ms: u64| ns.abs_diff(ms * 1_000_000) < 1_000_000;
    let [a, b]: &[JobResult; 2] = run.jobs.as_slice().try_into().unwrap();
    assert!(
        a.start_ns == 0 && near(a.runtime_ns, 50),
        "{}",
        a.runtime_ns
    );
    assert!(
        b.start_ns == 40_000_000 && near(b.runtime_ns, 20),
        "{}",
        b.runtime_ns
    );
    // The ramp is part of the run, and not of the results.
    assert!(run.ops > a.read.ios + b.read.ios);
}

#[test]
fn exitall_ends_the_others() {
    let run = ran(
        "[global]\nrw=randread\nfilename=d\n[short]\nnumber_ios=100\nexitall\nexit_what=all\n\
                   [long]\nruntime=1h\ntime_based\n[never]\nstonewall\n",
    );
    assert_eq!(run.jobs[0].read.ios, 100);
    assert!(run.jobs[1].read.ios.abs_diff(100) < 50);
    assert_eq!(run.jobs[2].read.ios, 0);
}

#[test]
fn waiting_job_starts_after_the_named_one() {
    let run = ran(
        "[global]\nrw=write\nsize=4m\nfilename=d\n[a]\nnumjobs=2\nrate_iops=2000\n\
                   [b]\nwait_for=a\nend_fsync=1\n",
    );
    assert!(run.jobs[1].start_ns >= run.jobs[0].runtime_ns);
    assert_eq!((run.host.flushes, run.jobs[1].flush_ns.count), (1, 1));
}

#[test]
fn placement_of_jobs_reaches_the_handles() {
    let text =
        "[global]\nrw=randwrite\nbs=16k\nsize=16m\nfdp=1\n[cold]\nfdp_pli=0\n[hot]\nfdp_pli=3\n";
    let run = with(text, "raw@fdp", |_| ());
    let used: Vec<u16> = run
        .handles
        .iter()
        .filter(|h| h.host_bytes > 0)
        .map(|h| h.id)
        .collect();
    assert_eq!(used, [0, 3]);
    let block = ran(text);
    assert!(
        block
            .notes
            .iter()
            .any(|note| note.contains("one placement handle"))
    );
}

#[test]
fn jobs_repeat_until_steady_and_give_equal_records() {
    let text =
        "[a]\nrw=randwrite\nbs=16k\niodepth=8\n[b]\nstonewall\nrw=randread\nnumber_ios=100\n";
    let once = || with(text, "raw@block", |plan| plan.until = Until::Steady);
    let run = once();
    assert_eq!(run.steady, Some(true));
    assert!(run.jobs[1].read.ios >= 200 && run.jobs[1].read.ios % 100 == 0);
    let again = once();
    assert_eq!((run.jobs, run.events), (again.jobs, again.events));
}

#[test]
fn zones_and_layers_take_jobs() {
    let text =
        "[a]\nrw=write\nbs=64k\nsize=8m\niodepth=1\n[b]\nstonewall\nrw=read\nbs=64k\nsize=8m\n";
    for stack in ["raw+remap@block", "raw@ocssd"] {
        let run = with(text, stack, |plan| plan.precondition = Precondition::Fresh);
        assert_eq!(run.errors.len(), 0, "{stack}");
        assert_eq!(run.jobs[0].write.bytes, 8 << 20, "{stack}");
    }
}
