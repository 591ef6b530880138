//! Cautions about a run give advice that the run has not met already.

use crate::fixture;
use report::caution;
use report::record::{App, Run};

/// The caution about a run of files on 1 GiB that is not steady after `windows`.
fn told(windows: u64, app: Option<App>) -> String {
    let mut run = Run {
        steady: Some(false),
        windows,
        app,
        ..fixture::one()
    };
    run.drive.capacity_bytes = 1 << 30;
    let mut cautions = caution::of(&run);
    assert_eq!(cautions.len(), 1, "{cautions:?}");
    cautions.remove(0)
}

#[test]
fn run_without_two_windows_is_too_short_to_tell() {
    for (windows, count) in [
        (0, "less than one window of 1.00 GiB"),
        (1, "only one window of 1.00 GiB"),
    ] {
        let told = told(windows, Some(App::default()));
        assert!(told.starts_with("too short to tell (*): "), "{told}");
        assert!(told.contains(count), "{told}");
        assert!(
            told.contains("writes more (3.00 GiB, for example)"),
            "{told}"
        );
    }
}

/// Fails if a run that wrote four capacities is told to write three.
#[test]
fn advice_to_an_unsteady_run_exceeds_its_own_writes() {
    let told = told(4, Some(App::default()));
    assert!(told.starts_with("not steady (*): "), "{told}");
    assert!(
        told.contains("writes more (8.00 GiB, for example)"),
        "{told}"
    );
}

/// Fails if a run that --until steady gave up is told to repeat with it.
#[test]
fn run_at_the_bound_of_windows_is_not_told_to_repeat() {
    assert!(told(2, None).ends_with("Repeat the run with --until steady."));
    let given_up = told(u64::from(caution::MOST_WINDOWS), None);
    assert!(!given_up.contains("--until"), "{given_up}");
}
