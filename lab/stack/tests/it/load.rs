//! The even load of a comparison, beside the peak of each stack.

use crate::{done, plan};
use ssd::Precondition;
use stack::load::{Even, at, even, keep, peak};
use stack::{Plan, run};

fn raw(workload: &str) -> Plan {
    let plan = plan("raw@block", 64, Precondition::Fresh, workload);
    peak(&plan).expect("the workload is known")
}

#[test]
fn workload_that_pauses_has_no_other_load() {
    let load_of = |workload| {
        let plan = raw(workload);
        even(&plan, [&done(&plan)]).expect("the workload is known")
    };
    assert!(matches!(
        load_of("randwrite:ops=300"),
        Some(Even::Rate(1..))
    ));
    assert_eq!(load_of("randwrite:ops=300,think=1ms"), None);
    assert_eq!(load_of("randwrite:ops=300,rate=100"), None);
}

#[test]
fn failure_at_the_even_load_is_a_note_of_the_peak_run() {
    let plan = raw("randread:ops=300");
    let mut kept = done(&plan);
    let load = Even::Rate(1_000);
    let whole = run(&at(&plan, &load), &mut |_| ());
    keep(
        &mut kept,
        "raw@block",
        whole.map_err(|e| e.to_string()),
        &load,
    );
    assert!(kept.loaded().is_some() && kept.notes.is_empty());
    let mut partial = done(&plan);
    partial
        .errors
        .insert("the drive is read-only".to_owned(), 3);
    keep(&mut kept, "raw@block", Ok(partial), &load);
    assert!(kept.loaded().is_none());
    keep(&mut kept, "raw@block", Err("no room".to_owned()), &load);
    let told = [
        "raw@block with Poisson arrivals: 3 operations failed: the drive is read-only",
        "raw@block with Poisson arrivals: no room",
    ];
    assert_eq!(kept.notes, told);
}
