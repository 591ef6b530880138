//! Plans as documents, stopped runs, and policies of a caller.

use crate::{done, plan};
use ssd::{Policies, Precondition};
use stack::{Plan, Progress, StackError, run_while};
use std::ops::ControlFlow;

fn writes() -> Plan {
    plan("raw@block", 64, Precondition::Aged, "randwrite:ops=20000")
}

#[test]
fn a_plan_is_its_document() {
    let mut plan = plan("ext4+writeback@fdp", 64, Precondition::Full, "varmail");
    plan.label = "x=1".to_owned();
    plan.sample = Some(stack::Sampling::widening());
    let text = serde_json::to_string(&plan).expect("a plan is JSON");
    let again: Plan = serde_json::from_str(&text).expect("it was written here");
    assert_eq!(again, plan);
    let other = text.replace("ext4+writeback@fdp", "ext4@nothing");
    let refused = serde_json::from_str::<Plan>(&other).expect_err("there is no such drive");
    assert!(refused.to_string().contains("ext4@nothing"), "{refused}");
}

#[test]
fn run_stops_when_its_observer_breaks() {
    let mut heard = Vec::new();
    let mut plan = writes();
    plan.workload = "randwrite:ops=60000".to_owned();
    let stopped = run_while(&plan, &mut |progress: Progress| {
        heard.push(progress.ops);
        match heard.len() {
            2 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    });
    let Err(StackError::Stopped { ops }) = stopped else {
        panic!("expected it to be stopped, found {stopped:?}");
    };
    assert_eq!(heard.len(), 2);
    assert_eq!(ops, heard[1]);
    assert!(heard[0] < ops && ops < 60_000);
}

#[test]
fn the_drive_of_a_run_follows_the_policies_of_its_plan() {
    let usual = done(&writes());
    let mut plan = writes();
    plan.policies = Policies::default().victim("fullest", |lines| {
        let fullest = lines.iter().max_by_key(|view| (view.valid, view.line));
        fullest.expect("there is one at least")
    });
    let worse = done(&plan);
    assert_eq!(worse.host, usual.host);
    assert!(worse.waf.device > 2.0 * usual.waf.device);
    assert_eq!(done(&plan), worse);
}
