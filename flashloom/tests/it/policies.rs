//! The example with policies of a caller.

#[path = "../../examples/policies.rs"]
mod example;

use flashloom::ssd::Policies;

#[test]
fn the_example_is_short_and_runs() {
    let lines = include_str!("../../examples/policies.rs").lines().count();
    assert!(lines < 50, "{lines} lines");
    example::main().expect("each of its plans can be run");
}

#[test]
fn the_example_measures_garbage_collection() {
    let run = example::measured(&Policies::default()).expect("it can be run");
    assert!(run.gc.lines > 100, "{} lines", run.gc.lines);
}
