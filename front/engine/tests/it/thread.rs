//! Requests from other threads and their answers.

use engine::{Engine, Gone, Handle, Pace, Service};
use sim::{Kernel, Semaphore, Sim};
use std::cell::Cell;
use std::io;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::time::{Duration, Instant};
use units::Ns;

/// Value of the engine: a clock, a semaphore without permits, and the count of calls to `settle`.
struct Place {
    sim: Sim,
    never: Semaphore,
    settled: Cell<u32>,
}

impl Service for Place {
    fn settle(&self) {
        self.settled.set(self.settled.get() + 1);
    }
}

fn start(pace: Pace) -> (Engine<u32>, Handle<Place>) {
    let build = |kernel: &Kernel| {
        Ok::<_, io::Error>(Place {
            sim: kernel.sim(),
            never: Semaphore::new(&kernel.sim(), 0),
            settled: Cell::new(0),
        })
    };
    Engine::start(pace, build, |_, place: Rc<Place>| place.settled.get()).expect("it starts")
}

#[test]
fn virtual_time_is_skipped_unless_paced() {
    let dilated = Pace::Dilated(NonZeroU32::new(3).expect("not zero"));
    for (pace, least) in [(Pace::Free, 0), (Pace::Wall, 30), (dilated, 90)] {
        let (engine, handle) = start(pace);
        let begun = Instant::now();
        let slept = handle.ask(|place: Rc<Place>| async move {
            let from = place.sim.now();
            place.sim.sleep(Ns::us(30_000)).await;
            place.sim.now() - from
        });
        assert_eq!(slept, Ok(Ns::us(30_000)));
        assert!(begun.elapsed() >= Duration::from_millis(least));
        handle.stop();
        assert!(engine.join().expect("it ends") > 0);
    }
}

#[test]
fn requests_overlap_in_time_and_begin_in_order() {
    let (_engine, handle) = start(Pace::Wall);
    let begun = Instant::now();
    let answers: Vec<_> = (0..50)
        .map(|_| {
            let handle = handle.clone();
            std::thread::spawn(move || {
                handle.ask(|place: Rc<Place>| async move {
                    place.sim.sleep(Ns::us(20_000)).await;
                })
            })
        })
        .collect();
    for answer in answers {
        assert_eq!(answer.join().expect("no panic"), Ok(()));
    }
    assert!(begun.elapsed() < Duration::from_millis(500));
}

#[test]
fn request_that_cannot_complete_returns_gone() {
    for pace in [Pace::Free, Pace::Wall] {
        let (engine, handle) = start(pace);
        let stuck = handle.ask(|place: Rc<Place>| async move { place.never.take(1).await });
        assert_eq!(stuck, Err(Gone));
        // Other requests are unaffected.
        assert_eq!(handle.ask(|_| async { 7 }), Ok(7));
        drop(handle);
        engine.join().expect("it ends");
    }
}

#[test]
fn handle_of_a_part_reaches_only_that_part() {
    let (engine, handle) = start(Pace::Free);
    handle
        .ask(|place: Rc<Place>| async move { place.settled.set(100) })
        .expect("it runs");
    let part: Handle<u32> = handle.part(|place: &Place| Rc::new(place.settled.get()));
    assert!(
        part.ask(|count: Rc<u32>| async move { *count })
            .expect("it runs")
            >= 100
    );
    // The engine runs as long as a handle to any part exists.
    drop(handle);
    assert_eq!(part.ask(|_| async { 7 }), Ok(7));
    drop(part);
    engine.join().expect("it ends");
}

#[test]
fn request_after_the_end_returns_gone() {
    let (engine, handle) = start(Pace::Free);
    handle.stop();
    engine.join().expect("it ends");
    assert_eq!(handle.ask(|_| async { 7 }), Err(Gone));
}

#[test]
fn failed_build_returns_its_error() {
    let build = |_: &Kernel| Err::<Place, _>(io::Error::other("no drive"));
    let started = Engine::start(Pace::Free, build, |_, _| ());
    assert_eq!(started.err().expect("refused").to_string(), "no drive");
}
