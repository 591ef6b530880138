//! Threads keep the order that the source demands.

use crate::script::{Line, Script};
use play::{Failure, Options, Place, play};
use std::sync::atomic::AtomicBool;
use workload::files::{Call, Name, Target};

/// A call that touches nothing.
fn line(after: u32) -> Line {
    let of = Target::Path(Name::ROOT);
    Line {
        call: Call::Stat { of },
        expect: Some(Ok(0)),
        after,
    }
}

#[test]
fn a_thread_waits_for_the_calls_that_it_depends_on() {
    let dir = tempfile::tempdir().unwrap();
    let mut s = Script::default();
    // Threads take turns: the line for turn t waits for the t calls before it.
    let (threads, turns) = (4, 400);
    s.threads.resize_with(threads, Vec::new);
    (0..turns).for_each(|t| s.threads[t % threads].push(line(t as u32)));
    let outcome = s.play(dir.path());
    assert_eq!((outcome.threads, outcome.ops), (4, 400));
    let right = |t: usize| ((t % threads) as u32, t / threads);
    assert_eq!(s.order, (0..turns).map(right).collect::<Vec<_>>());
}

#[test]
fn threads_without_order_play_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut s = Script::default();
    s.threads.resize_with(8, Vec::new);
    for thread in &mut s.threads {
        thread.extend((0..500).map(|_| line(0)));
    }
    let outcome = s.play(dir.path());
    assert_eq!((outcome.ops, outcome.mismatches), (4_000, 0));
    assert_eq!(outcome.calls[0].latency_ns.max > 0, outcome.elapsed_ns > 0);
}

#[test]
fn a_workload_that_stands_still_ends() {
    let dir = tempfile::tempdir().unwrap();
    let mut s = Script::default();
    s.threads = vec![vec![line(0), line(9)], vec![line(9)], vec![]];
    let place = Place::new(dir.path()).unwrap();
    let error = play(&place, &mut s, Options::default(), &AtomicBool::new(false));
    let error = error.unwrap_err();
    assert!(matches!(error, Failure::StandsStill));
}

/// One thread plays and the others are parked: all of them end.
#[test]
fn playing_told_to_stop_ends_after_the_call_under_way() {
    let dir = tempfile::tempdir().unwrap();
    let mut s = Script::default();
    s.threads = vec![
        (0..1_000).map(|_| line(0)).collect(),
        vec![line(1_000)],
        vec![line(1_000)],
    ];
    s.stop_after = Some(10);
    let outcome = s.play(dir.path());
    assert_eq!((outcome.threads, outcome.ops), (3, 10));
    assert_eq!(s.order.len(), 10);
}
