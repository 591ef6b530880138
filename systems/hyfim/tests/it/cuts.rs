//! Power cuts at events of exchanges, node changes, cleaning and recovery.

use crate::support::{Known, Left, Rig, Shared, change, compare, exchange, tiny};
use sim::{Cut, Kernel, Seed};
use ssd::DriveConfig;
use std::cell::RefCell;
use std::rc::Rc;

/// Expectations of three workers that exchange, and of one that changes nodes.
type All = [Shared; 4];

fn nobody() -> All {
    std::array::from_fn(|_| Rc::new(RefCell::new(Known::default())))
}

/// Runs the workers up to event `event`; returns the state after the cut, or `None` if they finish
/// before.
fn cut(config: &DriveConfig, seed: Seed, event: u64, left: Left, all: &All) -> Option<Left> {
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, config, left);
    let (running, all) = (rig.clone(), all.clone());
    let mut run = kernel.sim().spawn(async move {
        let (system, _) = running.mount().await.expect("what a cut left");
        let mut workers = Vec::new();
        for (index, known) in (0..3).zip(&all) {
            let rng = seed.child(index).stream("exchange");
            let on = (running.sim.clone(), system.clone());
            let work = exchange(on, known.clone(), rng, index as u32, 60);
            workers.push(running.sim.spawn(work));
        }
        let rng = seed.child(3).stream("change");
        let on = (running.sim.clone(), system);
        let work = change(on, all[3].clone(), rng, 150);
        workers.push(running.sim.spawn(work));
        for worker in workers {
            worker.await;
        }
    });
    let mut rng = Seed(event).stream("memory");
    match kernel.run_to_cut(event, || rig.cut(&mut rng)) {
        Cut::Off(left) => Some(left),
        Cut::AtRest => {
            assert!(run.take().is_some(), "somebody waits for ever");
            None
        }
    }
}

/// Mounts the state after a cut, asserts all expectations, and takes the contents as acknowledged.
fn judge(config: &DriveConfig, left: Left, all: &All, what: &str) -> Left {
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, config, left);
    let (on, all, what) = (rig.clone(), all.clone(), what.to_owned());
    let system = kernel.block_on(async move {
        let mounted = on.mount().await;
        let (system, _) = mounted.unwrap_or_else(|error| panic!("{what}: {error}"));
        system.check();
        for known in &all {
            let mut next = known.borrow().clone();
            compare(&system, &mut next, &what).await;
            *known.borrow_mut() = next;
        }
        system
    });
    drop(system);
    rig.cut(&mut Seed(1).stream("none"))
}

/// Cuts recovery at event `event`; returns the state after the cut, or `None` if the recovery
/// finishes before.
fn cut_recovery(config: &DriveConfig, left: Left, event: u64) -> Option<Left> {
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, config, left);
    let running = rig.clone();
    kernel.sim().spawn_detached(async move {
        let mounted = running.mount().await.expect("what a cut left");
        drop(mounted);
    });
    let mut rng = Seed(event).stream("recovery");
    match kernel.run_to_cut(event, || rig.cut(&mut rng)) {
        Cut::Off(left) => Some(left),
        Cut::AtRest => None,
    }
}

fn explore(config: &DriveConfig, first: &Left, seed: Seed, step: u64) -> (u64, u64) {
    let (mut cuts, mut again) = (0, 0);
    for event in (0..).step_by(step as usize) {
        let all = nobody();
        let Some(left) = cut(config, seed, event, first.clone(), &all) else {
            break;
        };
        cuts += 1;
        // Cut each recovery too, at varying events.
        let mut left = left;
        if let Some(half) = cut_recovery(config, left.clone(), event % 89) {
            left = half;
            again += 1;
        }
        let left = judge(config, left, &all, &format!("event {event}"));
        if event % 4 == 0
            && let Some(left) = cut(config, seed.child(event), 300 + event % 997, left, &all)
        {
            judge(config, left, &all, &format!("event {event}, and later"));
            cuts += 1;
        }
    }
    (cuts, again)
}

//= hyfim 3.4
#[test]
fn batches_are_atomic_after_any_cut() {
    let (cuts, again) = explore(&tiny(), &Left::new(&tiny()), Seed(1), 7);
    assert!(
        cuts > 300 && again > 100,
        "{cuts} cuts, {again} of recoveries"
    );
}

//= hyfim 3.4
#[test]
fn batches_are_atomic_when_programs_fail() {
    let mut config = tiny();
    config.faults.program_failures = 5_000;
    let (plain, buffered) = (Left::new(&config), Left::buffered(&config));
    for (first, step, least) in [(plain, 97, 20), (buffered, 499, 3)] {
        let (cuts, _) = explore(&config, &first, Seed(2), step);
        assert!(cuts > least, "{cuts} cuts");
    }
}

//= hyfim 4
#[test]
fn batches_are_atomic_with_the_buffer_in_persistent_memory() {
    let (cuts, again) = explore(&tiny(), &Left::buffered(&tiny()), Seed(3), 97);
    assert!(cuts > 20 && again > 9, "{cuts} cuts, {again} of recoveries");
}

/// For a few batches, at each event: loses the unflushed lines of memory in many ways.
//= hyfim 3.4
#[test]
fn batches_are_atomic_whichever_lines_are_lost() {
    let config = tiny();
    for (first, most) in [(Left::new(&config), 64), (Left::buffered(&config), 8)] {
        lose_lines(&config, &first, most);
    }
}

/// Loses lines in every possible way where there are at most `most` ways, and in one random way
/// otherwise.
fn lose_lines(config: &DriveConfig, first: &Left, most: usize) {
    let (mut all_ways, mut in_part) = (0, 0);
    for event in 0.. {
        let (kernel, known) = (Kernel::new(), nobody());
        let rig = Rig::on(&kernel, config, first.clone());
        let (running, shown) = (rig.clone(), known.clone());
        let mut run = kernel.sim().spawn(async move {
            let (system, _) = running.mount().await.expect("a new drive");
            let rng = |of| Seed(6).child(of).stream("work");
            let on = || (running.sim.clone(), system.clone());
            let [sectors, _, _, nodes] = shown;
            sim::join(
                exchange(on(), sectors, rng(0), 0, 4),
                change(on(), nodes, rng(1), 6),
            )
            .await;
        });
        let mut rng = Seed(event).stream("memory");
        let look = || (rig.cut(&mut rng), rig.pm.whole_lines_at_power_cut(most));
        let Cut::Off((left, ways)) = kernel.run_to_cut(event, look) else {
            assert!(run.take().is_some(), "somebody waits for ever");
            break;
        };
        let ways = ways.unwrap_or_else(|| vec![left.memory.clone()]);
        in_part += u64::from(ways.len() > 1);
        for (way, memory) in ways.into_iter().enumerate() {
            let memory = Left {
                memory,
                ..left.clone()
            };
            let copy = |of: &Shared| Rc::new(RefCell::new(of.borrow().clone()));
            let known = known.each_ref().map(copy);
            judge(config, memory, &known, &format!("event {event}, way {way}"));
            all_ways += 1;
        }
    }
    assert!(
        all_ways > 400 && in_part > 50,
        "{all_ways} ways, {in_part} events"
    );
}

/// Cleaning proceeds between exchanges, and leaves no record unfinished.
#[test]
fn exchanged_sectors_are_cleaned_like_others() {
    let config = tiny();
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, Left::new(&config));
    let all = nobody();
    let (running, shown) = (rig.clone(), all.clone());
    let system = kernel.block_on(async move {
        let (system, recovered) = running.mount().await.expect("a new drive");
        assert_eq!(recovered, hyfim::Recovered::default());
        let workers = (0..3).zip(&shown).map(|(index, known)| {
            let rng = Seed(5).child(index).stream("exchange");
            let on = (running.sim.clone(), system.clone());
            let work = exchange(on, known.clone(), rng, index as u32, 500);
            running.sim.spawn(work)
        });
        for worker in workers.collect::<Vec<_>>() {
            worker.await;
        }
        system
    });
    system.check();
    assert!(
        system.ftl().stats().cleaned > 10,
        "{:?}",
        system.ftl().stats()
    );
    assert_eq!(system.spares(), 16);
    drop(system);
    judge(
        &config,
        rig.cut(&mut Seed(1).stream("none")),
        &all,
        "at rest",
    );
}
