//! Power cuts at events of a run that writes, deallocates, flushes and cleans.

use crate::support::{Ftl, Left, Model, Rig, SECTORS, Shared, ftl_config, read, tiny, value, work};
use host::BlockPort;
use sim::{Cut, Kernel, Seed};
use ssd::DriveConfig;
use std::cell::OnceCell;
use std::rc::Rc;

/// Runs workers over `left` up to event `event`; returns the state after the cut, or `None` if the
/// run ends before.
fn cut(config: &DriveConfig, seed: Seed, event: u64, left: Left, model: &Shared) -> Option<Left> {
    cut_with(config, seed, event, left, model).0
}

/// Like [`cut`] for a run that does not end before the event; also returns whether a line was being
/// cleaned.
fn cut_while(
    config: &DriveConfig,
    seed: Seed,
    event: u64,
    left: Left,
    model: &Shared,
) -> (Left, bool) {
    let (left, cleaning) = cut_with(config, seed, event, left, model);
    (left.expect("there is more to do"), cleaning)
}

fn cut_with(
    config: &DriveConfig,
    seed: Seed,
    event: u64,
    left: Left,
    model: &Shared,
) -> (Option<Left>, bool) {
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, config, left);
    let (running, model, on) = (rig.clone(), model.clone(), config.clone());
    let mounted = Rc::new(OnceCell::new());
    let told = Rc::clone(&mounted);
    let mut run = kernel.sim().spawn(async move {
        let ftl = running
            .mount(ftl_config(&on))
            .await
            .expect("what a cut left");
        let _ = told.set(ftl.clone());
        let workers = [0, 1, 2].map(|index| {
            let rng = seed.child(index.into()).stream("work");
            let work = work(ftl.clone(), model.clone(), rng, (index, 3), 400);
            running.sim.spawn(work)
        });
        for worker in workers {
            worker.await;
        }
    });
    let mut rng = Seed(event).stream("memory");
    let left = kernel.run_to_cut(event, || rig.cut(&mut rng));
    let cleaning = mounted.get().is_some_and(Ftl::is_cleaning);
    match left {
        Cut::Off(left) => (Some(left), cleaning),
        Cut::AtRest => {
            assert!(run.take().is_some(), "somebody waits for ever");
            (None, cleaning)
        }
    }
}

/// Mounts the state after a cut and checks every sector against the model; returns the state then.
pub(crate) fn judge(config: &DriveConfig, left: Left, model: &Shared, what: &str) -> Left {
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, config, left);
    let (on, model, what, again) = (config.clone(), model.clone(), what.to_owned(), rig.clone());
    let mounted = kernel.block_on(async move {
        let ftl = again.mount(ftl_config(&on)).await;
        let ftl = ftl.unwrap_or_else(|error| panic!("{what}: {error}"));
        ftl.check();
        let held = read(&ftl, 0, SECTORS).await.expect("it can be read");
        for (sector, payload) in (0..).zip(&held) {
            let held = value(payload).expect("a number over and over");
            let may = format!("{:?}", model.borrow());
            let fits = model.borrow_mut().survives(sector, held);
            assert!(
                fits,
                "{what}: sector {sector} is {held:#x}: {}",
                &may[..may.len().min(400)]
            );
        }
        ftl.flush().await.expect("there is nothing to do");
        ftl
    });
    drop(mounted);
    rig.cut(&mut Seed(1).stream("none"))
}

/// Cuts a mount, or the background cleaning right after it, at event `event`; returns the state
/// then, or `None` if that comes to rest before.
pub(crate) fn cut_recovery(config: &DriveConfig, left: Left, event: u64) -> Option<Left> {
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, config, left);
    let (running, on) = (rig.clone(), config.clone());
    kernel.sim().spawn_detached(async move {
        let ftl = running.mount(ftl_config(&on)).await;
        let ftl = ftl.expect("what a cut left");
        // The mapping keeps cleaning after its last handle is dropped.
        ftl.flush().await.expect("there is nothing to do");
        drop(ftl);
    });
    let mut rng = Seed(event).stream("recovery");
    match kernel.run_to_cut(event, || rig.cut(&mut rng)) {
        Cut::Off(left) => Some(left),
        Cut::AtRest => None,
    }
}

/// Cuts a run at every `step`th event, and each recovery twice; returns the numbers of cuts of runs
/// and of recoveries.
fn explore(config: &DriveConfig, first: &Left, seed: Seed, step: u64) -> (u64, u64) {
    let (mut cuts, mut again) = (0, 0);
    for event in (0..).step_by(step as usize) {
        let model = Model::shared();
        let Some(left) = cut(config, seed, event, first.clone(), &model) else {
            break;
        };
        let mut left = left;
        for event in [event % 211, event % 13] {
            if let Some(half) = cut_recovery(config, left.clone(), event) {
                left = half;
                again += 1;
            }
        }
        let left = judge(config, left, &model, &format!("event {event}"));
        // Use a recovered mapping again, and cut it again.
        let later = 200 + event % 997;
        if event % 5 == 0
            && let Some(left) = cut(config, seed.child(event), later, left, &model)
        {
            judge(config, left, &model, &format!("event {event} and {later}"));
            cuts += 1;
        }
        cuts += 1;
    }
    (cuts, again)
}

#[test]
fn cut_keeps_guarantees_with_the_table_in_memory() {
    let (cuts, again) = explore(&tiny(), &Left::new(&tiny(), false), Seed(1), 41);
    assert!(
        cuts > 100 && again > 100,
        "{cuts} cuts, {again} of recoveries"
    );
}

#[test]
fn cut_keeps_guarantees_with_the_table_in_persistent_memory() {
    let (cuts, again) = explore(&tiny(), &Left::new(&tiny(), true), Seed(2), 41);
    assert!(
        cuts > 100 && again > 50,
        "{cuts} cuts, {again} of recoveries"
    );
}

#[test]
fn cut_keeps_guarantees_with_the_buffer_in_persistent_memory() {
    for (kept, seed) in [(false, Seed(4)), (true, Seed(5))] {
        let (cuts, again) = explore(&tiny(), &Left::buffered(&tiny(), kept), seed, 499);
        assert!(cuts > 9 && again > 9, "{cuts} cuts, {again} of recoveries");
    }
}

#[test]
fn cut_keeps_guarantees_when_programs_fail() {
    let mut config = tiny();
    config.faults.program_failures = 5_000;
    for kept in [false, true] {
        let plain = (Left::new(&config, kept), 61, 35);
        let buffered = (Left::buffered(&config, kept), 499, 4);
        for (first, step, least) in [plain, buffered] {
            let (cuts, _) = explore(&config, &first, Seed(3), step);
            assert!(cuts > least, "{cuts} cuts");
        }
    }
}

/// Repeated cuts, each of which interrupts the open lines, do not use up lines as long as one is
/// cleaned in between.
#[test]
fn repeated_cuts_leave_room_for_writes() {
    let config = tiny();
    for kept in [false, true] {
        let model = Model::shared();
        let mut left = Left::new(&config, kept);
        for turn in 0..60 {
            let seed = Seed(7).child(turn);
            let next = cut(&config, seed, 1_500 + 37 * (turn % 23), left, &model);
            let next = next.expect("there is more to do");
            left = judge(&config, next, &model, &format!("turn {turn}"));
        }
    }
}

/// Cuts a drive under constant cleaning, mostly before a line is clean; after the cuts there is
/// room to continue.
#[test]
fn cuts_faster_than_cleaning_spare_the_reserve() {
    let config = tiny();
    for (kept, events) in [(false, 1_000), (true, 150)] {
        let model = Model::shared();
        let mut left = Left::new(&config, kept);
        let mut cleaning = 0;
        for turn in 0..50 {
            let seed = Seed(9).child(turn);
            // At first long enough for free lines to run short.
            let events = match turn {
                0..10 => 2_000,
                _ => events + turn * 7 % 60,
            };
            let (next, was_cleaning) = cut_while(&config, seed, events, left, &model);
            cleaning += u64::from(was_cleaning);
            left = judge(&config, next, &model, &format!("turn {turn}"));
        }
        assert!(cleaning > 20, "{cleaning} cuts while a line was cleaned");
        let kernel = Kernel::new();
        let rig = Rig::on(&kernel, &config, left);
        let on = config.clone();
        kernel.block_on(async move {
            let ftl = rig.mount(ftl_config(&on)).await.expect("what a cut left");
            let rng = Seed(10).stream("work");
            work(ftl.clone(), model, rng, (0, 1), 2_000).await;
            assert_eq!(ftl.flush().await, Ok(()), "{:?}", ftl.refusals());
            ftl.check();
        });
    }
}
