//! Job files whose jobs cannot share one queue and one range of addresses.

use workload::{Pacing, Workload};

/// Error for the job file `text` without its path, or the pacing if it is accepted.
fn told(text: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("j.fio");
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap();
    match Workload::parse(path) {
        Ok(workload) => format!("{:?}", workload.pacing),
        Err(error) => error.to_string().replace(path, "j.fio"),
    }
}

const ALIKE: &str = "jobs side by side that are alike, or that all have a rate_iops, because they \
                     share one queue here";
const APART: &str = "one filename for all jobs, or an offset and a size that keep them apart, \
                     because all files are the drive here";

#[test]
fn jobs_that_differ_side_by_side_are_refused_with_their_lines() {
    let text = "[global]\nbs=8k\n[one]\nrw=randread\niodepth=32\nsize=10m\n[two]\noffset=16m\n\
                size=10m\nrw=randwrite\niodepth=2\n";
    assert_eq!(
        told(text),
        format!(
            "j.fio:11: expected {ALIKE}, found [two] with another iodepth, rw than [one] in line 3"
        )
    );
    // Jobs that differ in request size or in total size end at different times.
    for line in [
        "bs=16k",
        "number_ios=7",
        "fsync=3",
        "rw=write",
        "time_based\nruntime=3",
    ] {
        let text = format!("[global]\nfilename=d\n[a]\nrw=randwrite\n[b]\nrw=randwrite\n{line}\n");
        assert!(told(&text).contains(ALIKE), "{line}");
    }
}

#[test]
fn phases_of_different_depths_or_with_runtimes_are_refused() {
    let text = "[global]\nfilename=/dev/nvme0n1\nrw=randread\n[slow]\niodepth=1\n[fast]\nstonewall\n\
                iodepth=16\nnumjobs=2\n";
    assert_eq!(
        told(text),
        "j.fio:8: expected 1 requests in flight in every phase, as in that of [slow], because \
         phases share one queue here, found 32 in the phase of [fast]"
    );
    let text = "[global]\nfilename=d\nruntime=9\ntime_based\n[a]\n[b]\nstonewall\n";
    let one = |name| {
        format!(
            "j.fio:3: expected no runtime where jobs wait for others (stonewall), because all jobs \
             share one clock here, found [{name}] with one"
        )
    };
    assert_eq!(told(text), format!("{}; {}", one("a"), one("b")));
}

#[test]
fn files_that_would_lie_at_the_same_addresses_are_refused() {
    let named = "[global]\nsize=1g\nrate_iops=100\n[data]\nfilename=/srv/data\n[log]\n\
                 filename=/srv/log\nsize=10m\n";
    let two = |line| {
        format!(
            "j.fio:{line}: expected {APART}, found [log] with another file than [data] in line 4 at \
             the same addresses"
        )
    };
    assert_eq!(told(named), two(7));
    // A job without a filename has a file of its own, and so has each of its clones.
    assert_eq!(
        told("[global]\nsize=1m\n\n[data]\n[log]\nstonewall\n"),
        two(5)
    );
    assert_eq!(
        told("[a]\nnumjobs=3\n"),
        format!("j.fio:2: expected {APART}, found 3 jobs [a] with a file each at one address")
    );
    let text = "[a]\nsize=2m\n[b]\noffset=1m\nsize=2m\n";
    assert!(told(text).contains("at the same addresses"));
}

#[test]
fn error_lists_all_faults_of_a_file() {
    let text = "[global]\nioengine=libaio\nloops=2\n[a]\nrate_iops=10\nbs=1000\n[b]\nstonewall\n";
    let told = told(text);
    let lines = told
        .split("; j.fio:")
        .map(|fault| fault.split(':').next().unwrap());
    let lines: Vec<&str> = lines.collect();
    assert!(told.starts_with("j.fio:3: "), "{told}");
    assert_eq!(lines[1..], ["6", "7", "7"], "{told}");
}

#[test]
fn jobs_that_can_share_a_queue_are_accepted() {
    let closed = |depth| {
        let think = units::Ns::ZERO;
        format!("{:?}", Pacing::Closed { depth, think })
    };
    for (text, depth) in [
        ("[a]\nrw=randwrite\niodepth=8\n", 8),
        (
            "[a]\nfilename=/dev/x\nrw=randread\niodepth=4\nnumjobs=4\n",
            16,
        ),
        (
            "[a]\nsize=1m\niodepth=3\n[b]\noffset=1m\nsize=1m\niodepth=3\n",
            6,
        ),
        ("[a]\nsize=50%\n[b]\noffset=50%\nsize=50%\n", 2),
        (
            "[global]\nfilename=d\n[fill]\nrw=write\nbs=1m\n[use]\nstonewall\nrw=randrw\n",
            1,
        ),
    ] {
        assert_eq!(told(text), closed(depth), "{text}");
    }
    let rates = "[global]\nfilename=d\nruntime=3\ntime_based\n[a]\nrate_iops=5\niodepth=9\n[b]\n\
                 rate_iops=50\nrw=write\n";
    assert_eq!(told(rates), format!("{:?}", Pacing::Open));
}
