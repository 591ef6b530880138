//! Every family of recorded calls, one after the other.

use super::Place;
use super::model::Model;

const PROGRAM: &str = include_str!("every.c");
const EXPECTED: &str = include_str!("expected.txt");

/// The line with a temporary file's random letters replaced, and without results that differ
/// between kernels.
fn undrawn(line: &str) -> String {
    if line.starts_with("hint fd=0 life=long = ") {
        return "hint fd=0 life=long".to_owned();
    }
    match line.find("tmp-") {
        Some(at) => line.replace(&line[at..at + 10], "tmp-XXXXXX"),
        None => line.to_owned(),
    }
}

#[test]
fn every_call_is_recorded_with_its_arguments() {
    let place = Place::new();
    let program = place.build(PROGRAM, "every");
    let recorded = place.record("work", &program, &[]);
    recorded.check();
    let mut got: Vec<_> = recorded.lines().iter().map(|it| undrawn(it)).collect();
    // A shell may look at the directory that it starts in.
    got.retain(|line| !line.contains("path=\"\""));
    let wanted: Vec<_> = EXPECTED.lines().collect();
    for (at, (got, wanted)) in got.iter().zip(&wanted).enumerate() {
        assert_eq!(got, wanted, "line {}", at + 1);
    }
    assert_eq!(got.len(), wanted.len());
    assert_eq!(recorded.outcome.summary.processes, 2);
    Model::replayed(&recorded.trace).check(&place.path("work"));
}

#[test]
fn calls_of_a_thread_follow_each_other() {
    let place = Place::new();
    let program = place.build(PROGRAM, "every");
    let recorded = place.record("work", &program, &[]);
    let mut ends = vec![0; recorded.trace.threads.len()];
    for event in &recorded.trace.events {
        let end = &mut ends[event.step.thread.0 as usize];
        assert!(event.at.0 >= *end, "{event:?}");
        assert!(
            *end == 0 || event.step.think.0 == event.at.0 - *end,
            "{event:?}"
        );
        *end = event.end().0;
    }
}
