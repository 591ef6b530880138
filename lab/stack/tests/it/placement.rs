//! The effect of placement on the same flash.

use crate::{done, plan};
use report::record::Run;
use ssd::Precondition;
use std::io::Write;

/// Four circular logs with different rates that overwrite their own tails. The drive starts full,
/// so every write displaces data, and the logs wrap several times.
const LOGS: &str = "logs:logs=4,bs=64k,fill=90%,ops=40000,depth=16";

#[test]
fn fdp_takes_the_amplification_of_logs_away() {
    let wafs = ["raw@block", "raw@fdp"].map(|stack| {
        let run = done(&plan(stack, 512, Precondition::Full, LOGS));
        assert_eq!(run.errors.len(), 0);
        eprintln!(
            "{stack} {:?} {:?} {} {:?}",
            run.waf, run.nand.by_cause, run.drive.over_provisioning, run.utilisation
        );
        run.waf.device
    });
    assert!(wafs[0] >= 1.5, "conventional: {}", wafs[0]);
    assert!(wafs[1] <= 1.05, "with handles: {}", wafs[1]);
}

/// A trace of four processes on a drive of `pages` pages, with three times its capacity in writes:
/// one cycles through a log, one overwrites a small table, one a large one, and one, seldom, half
/// of the drive.
fn four_processes(pages: u64) -> tempfile::NamedTempFile {
    let mut file = trace_file();
    let mut rng = sim::Seed(1).stream("processes");
    let (log, small, large) = (pages / 5, pages / 20, pages / 4);
    let mut head = 0;
    for time in 0..3 * pages {
        let (page, process) = match rng.below(20) {
            0..6 => {
                head += 1;
                (head % log, "wal")
            }
            6..14 => (log + rng.below(small), "cache"),
            14..19 => (log + small + rng.below(large), "table"),
            _ => (log + small + large + rng.below(pages / 2), "archive"),
        };
        writeln!(file, "{time},W,{},8,{process}", page * 8).expect("it can be written");
    }
    file
}

fn trace_file() -> tempfile::NamedTempFile {
    let mut named = tempfile::Builder::new();
    named.suffix(".csv").tempfile().expect("a temporary file")
}

/// The default uses a handle for each process. Fails if lines of all handles compete for the spare
/// space, or if the record does not name the policy.
#[test]
fn a_trace_of_several_processes_programs_less_with_handles_by_default() {
    let file = four_processes(256 << 8);
    let path = file.path().to_str().expect("it is text");
    let run = |stack, params: &str| {
        let workload = format!("{path}:depth=32{params}");
        let run = done(&plan(stack, 256, Precondition::Aged, &workload));
        let programs = run.nand.program_pages;
        eprintln!(
            "{stack}{params}: {programs} pages, WAF {:.2}",
            run.waf.device
        );
        run
    };
    let [block, fdp, streams] = ["raw@block", "raw@fdp", "raw@streams"].map(|s| run(s, ""));
    let none = run("raw@fdp", ",placement=none");
    let named = fdp.placement.as_ref().expect("it has handles");
    assert_eq!(named.words(), "origin, 4 of 8 handles");
    assert_eq!(block.placement, None);
    let programs = |run: &Run| run.nand.program_pages;
    assert_eq!(
        programs(&none),
        programs(&block),
        "one handle changes nothing"
    );
    let [block, fdp, streams] = [&block, &fdp, &streams].map(programs);
    assert!(fdp * 10 < block * 9, "{fdp} of {block}");
    assert!(streams < block, "{streams} of {block}");
}

#[test]
fn a_trace_is_placed_by_process_on_a_drive_with_handles_and_its_record_says_so() {
    let mut file = trace_file();
    writeln!(file, "0,W,0,8,a\n1000,W,8,8,a\n2000,R,0,8,a").expect("it can be written");
    let path = file.path().to_str().expect("it is text").to_owned();
    let text = |stack, params: &str| {
        let workload = format!("{path}:format=csv{params}");
        let run = done(&plan(stack, 64, Precondition::Fresh, &workload));
        run.workload
            .strip_prefix(&path)
            .expect("it begins with the path")
            .to_owned()
    };
    assert_eq!(
        text("raw@fdp", ""),
        ":format=csv,placement=origin,handles=8"
    );
    assert_eq!(
        text("raw@fdp", ",placement=none"),
        ":format=csv,placement=none"
    );
    assert_eq!(text("raw@block", ""), ":format=csv");
}
