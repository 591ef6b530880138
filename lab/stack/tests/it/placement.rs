//! What placement is worth, on the same flash.

use crate::{done, plan};
use ssd::Precondition;
use std::io::Write;

/// Four logs that circle at different rates and overwrite their own tails. The
/// drive starts full, so that every write displaces something, and the logs are
/// gone over several times.
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

#[test]
fn a_trace_without_hints_is_placed_on_a_drive_with_handles_and_says_so() {
    let mut file = tempfile::Builder::new()
        .suffix(".csv")
        .tempfile()
        .expect("a temporary file");
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
    assert_eq!(text("raw@fdp", ""), ":format=csv,placement=auto,handles=8");
    assert_eq!(
        text("raw@fdp", ",placement=none"),
        ":format=csv,placement=none"
    );
    assert_eq!(text("raw@block", ""), ":format=csv");
}
