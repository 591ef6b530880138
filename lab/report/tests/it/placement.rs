//! Sentences about placement handles.

use crate::fixture;
use report::page;
use report::placement::placement;
use report::record::{Comparison, Placement, Run};
use report::table::{self, Style};

/// The first two synthetic runs: a block drive, and one with four handles.
fn two() -> [Run; 2] {
    let mut runs = fixture::comparison().runs.into_iter();
    [(); 2].map(|()| runs.next().expect("there are five"))
}

fn placed(run: &mut Run, policy: &str, used: u16) {
    run.placement = Some(Placement {
        policy: policy.to_owned(),
        handles: 8,
        used,
    });
}

#[test]
fn placement_that_saves_pages_is_named_and_needs_no_sentence() {
    let runs = two();
    assert_eq!(placement(&runs), Vec::<String>::new());
    let shown = table::run(&runs[1], Style::default());
    assert!(
        shown.contains("placement  hints, 4 of 4 handles"),
        "{shown}"
    );
    let [block, _] = &runs;
    assert!(!table::run(block, Style::default()).contains("placement"));
    let comparison = Comparison::new("w", 1, runs.to_vec());
    let shown = table::comparison(&comparison, Style::default());
    assert!(
        shown.contains("handles used") && shown.contains("4 of 4"),
        "{shown}"
    );
    let page = page::comparison(&comparison, &[], "");
    assert!(page.contains("Placement: hints, 4 of 4 handles"));
}

#[test]
fn unused_handles_are_reported_once_with_a_remedy() {
    let [block, mut fdp] = two();
    let mut streams = fdp.clone();
    streams.stack = "synthetic-ext4@streams".to_owned();
    for (policy, remedy) in [
        ("own", "placement=origin"),
        ("none", "placement=auto"),
        ("origin", "placement=auto"),
        ("auto", "placement=origin"),
        ("hints", "F_SET_RW_HINT"),
        ("rules", "--rules"),
        ("by age", "chose one"),
    ] {
        placed(&mut fdp, policy, 1);
        placed(&mut streams, policy, 1);
        let said = placement(&[block.clone(), streams.clone(), fdp.clone()]);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said[0].contains("ext4@streams, synthetic-ext4@fdp"),
            "{said:?}"
        );
        assert!(said[0].contains(remedy), "{policy}: {said:?}");
        assert!(table::run(&fdp, Style::default()).contains("only one placement handle"));
    }
}

#[test]
fn pages_are_compared_per_operation_when_a_run_repeated_its_workload() {
    let [block, mut fdp] = two();
    fdp.ops = 2 * block.ops;
    fdp.nand.program_pages = block.nand.program_pages * 3 / 2;
    let said = placement(&[block, fdp]).concat();
    assert!(!said.contains("no fewer pages"), "{said}");
}

#[test]
fn handles_that_save_nothing_get_the_reason() {
    let [block, mut fdp] = two();
    fdp.nand.program_pages = block.nand.program_pages;
    let said = placement(&[block.clone(), fdp.clone()]).concat();
    assert!(
        said.contains("synthetic-ext4@fdp programs no fewer pages"),
        "{said}"
    );
    assert!(said.contains("collection moves"), "{said}");

    fdp.nand
        .by_cause
        .insert("gc".to_owned(), block.nand.by_cause["gc"]);
    let said = placement(&[block.clone(), fdp.clone()]).concat();
    assert!(said.contains("are not invalidated together"), "{said}");

    let mut still = [block, fdp];
    for run in &mut still {
        run.nand.by_cause.insert("gc".to_owned(), 0);
    }
    let said = placement(&still).concat();
    assert!(said.contains("garbage collection moved no data"), "{said}");
}
